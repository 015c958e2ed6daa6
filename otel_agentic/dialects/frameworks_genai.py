"""Frameworks that write GenAI spans themselves."""

from __future__ import annotations

from typing import Final

from otel_agentic.dialects.frameworks_model import OWN_SPAN, Framework

_NO_HISTORY: Final = (
    "without an id, turns are joined by their growing message history, which content capture must be on for"
)

PYDANTIC_AI: Final = Framework(
    name="pydantic-ai",
    title="Pydantic AI",
    scopes=("pydantic-ai",),
    dialect="pydantic-ai",
    content="leave `include_content` of `InstrumentationSettings(...)` at its default, `True`",
    conversation_id='call `agent.run(..., conversation_id="...")`; without it each run has a new id, unless '
    "`message_history` brings one",
    where=(
        ("query", "last text of the user before the first answer: there is no attribute that holds it alone"),
        ("messages of the run", "`pydantic_ai.all_messages`; `all_messages_events` in format 1"),
        (
            "messages of a model call",
            "`gen_ai.input.messages`, `gen_ai.output.messages`; `events` or log records in format 1",
        ),
        ("arguments and result", "`gen_ai.tool.call.*`; `tool_arguments`, `tool_response` in formats 1 and 2"),
        ("retry", "a tool span with an error; the next call is a call of its own"),
    ),
    limits=(
        "In 1.x a call whose arguments do not fit the schema has no span: only the messages tell of it.",
        "A failed run leaves no messages in the history of the next turn.",
        "Attributes cut by a length limit of the SDK are broken JSON: then the query of a later turn may be lost.",
    ),
)

STRANDS: Final = Framework(
    name="strands",
    title="Strands Agents",
    scopes=("strands.telemetry.tracer",),
    dialect="genai",
    content="take `gen_ai_unredacted_attributes` out of `OTEL_SEMCONV_STABILITY_OPT_IN`: content is recorded, as span "
    "events, unless that token redacts it",
    conversation_id='give `Agent(..., trace_attributes={"session.id": "..."})`',
    where=(
        (
            "messages",
            "span events `gen_ai.user.message`, `gen_ai.assistant.message`, `gen_ai.tool.message`, `gen_ai.choice`",
        ),
        (
            "messages, OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental",
            "span events `gen_ai.client.inference.operation.details`, or attributes with `gen_ai_span_attributes_only` too",
        ),
        (
            "arguments and result of a tool",
            "`gen_ai.tool.message` and `gen_ai.choice` of its span, or `gen_ai.tool.call.*`",
        ),
        ("event-loop cycles", "hold model and tool calls, mean nothing themselves"),
    ),
    limits=("Spans of an agent that is used as a tool lack the trace attributes: they inherit the id of the trace.",),
)

AGENT_FRAMEWORK: Final = Framework(
    name="agent-framework",
    title="Microsoft Agent Framework",
    scopes=("agent_framework", "agent_framework.*"),
    dialect="genai",
    content="set `ENABLE_SENSITIVE_DATA=true`, or call `configure_otel_providers(enable_sensitive_data=True)`",
    conversation_id="use a session that the model service keeps, `agent.get_session(service_session_id=...)`: the id of a "
    f"local session is never written; else {OWN_SPAN}",
    where=(
        ("query", "`gen_ai.input.messages` of invoke_agent: the new message only"),
        ("answer", "the last text in `gen_ai.output.messages` of invoke_agent, which holds the whole run"),
        ("arguments", "the model's messages, for a parameter called `options` is missing on the tool span"),
        (
            "messages, OTEL_SEMCONV_STABILITY_OPT_IN without gen_ai_latest_experimental",
            "log records `gen_ai.*.message` and `gen_ai.choice`: export logs, too",
        ),
    ),
    limits=(
        "A call whose arguments do not fit the schema has no span: only the messages tell of it.",
        "With a session of the service the history is not in the input of later turns.",
    ),
)

SEMANTIC_KERNEL: Final = Framework(
    name="semantic-kernel",
    title="Semantic Kernel",
    scopes=("semantic_kernel*", "Microsoft.SemanticKernel*"),
    dialect="semantic-kernel",
    content="set `SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE=true` and export logs, too",
    conversation_id=OWN_SPAN,
    where=(
        ("messages of a model call", "log records with a text body and `event.name`, joined by trace and span id"),
        ("tool calls", "spans `execute_tool plugin-function`; `AutoFunctionInvocationLoop` means nothing itself"),
    ),
    limits=(f"No span names the conversation; {_NO_HISTORY}.", "Results are the text that Python shows of an object."),
)

AUTOGEN: Final = Framework(
    name="autogen",
    title="AutoGen",
    scopes=("autogen-core", "autogen *"),
    dialect="autogen",
    content="instrument the model client as well, such as with opentelemetry-instrumentation-openai-v2 and its content "
    "capture: no setting of AutoGen records content",
    conversation_id=OWN_SPAN,
    where=(
        (
            "tool calls",
            "spans `execute_tool` with name and call id; arguments and result come from the model's messages",
        ),
        ("create_agent", "traces of their own that are no turn"),
        ("turns of a team", "spans `autogen process` of many traces, joined by span links"),
    ),
    limits=(
        "Alone it tells which tools were called and nothing of what was said.",
        f"No conversation id; {_NO_HISTORY}.",
    ),
)

LIVEKIT: Final = Framework(
    name="livekit",
    title="LiveKit Agents",
    scopes=("livekit-agents",),
    dialect="genai",
    content="call `set_tracer_provider(provider, allow_pii=True)`, without `allow_pii` in 1.3, and leave "
    "`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` unset",
    conversation_id="run the session in a room: its id is `gen_ai.conversation.id` since 1.8; else the trace of the session "
    "is the conversation",
    where=(
        ("turn", "spans `agent_turn` below `agent_session`: one a turn, in 1.3 one a model call"),
        ("query", "last text of the user in the input of the model call; `lk.pii.user_input` of the turn"),
        ("answer", "last response without tool calls"),
        ("messages of a model call", "`gen_ai.*.messages` of `llm_request`; in 1.3 its span events `gen_ai.*.message`"),
        ("arguments and result of a tool", "`gen_ai.tool.call.*`; in 1.3 `lk.function_tool.arguments` and `.output`"),
        ("greeting", "belongs to the first turn"),
    ),
    limits=("An exception inside a tool is recorded as `An internal error occurred`.",),
)

PIPECAT: Final = Framework(
    name="pipecat",
    title="Pipecat",
    scopes=("pipecat", "pipecat.*"),
    dialect="genai",
    content="set `enable_tracing=True` on the pipeline task: messages are recorded by default",
    conversation_id='give the pipeline task `conversation_id="..."`; else each session has an id of its own',
    where=(
        (
            "turn",
            "a user message that is new in the input of a model call; spans `turn` below `conversation` need no reading",
        ),
        ("query", "last text of the user in `input~` of `llm`; `stt` spans are not read"),
        ("answer", "`output` of the last `llm` span of the turn"),
        ("tool calls and results", "the messages in `input~` of the next `llm` span"),
        ("conversation id", "`conversation.id` of the spans `conversation` and `turn`"),
    ),
    limits=("Tools have no spans: a failed tool is known by what its result says.",),
)

GENAI: Final = Framework(
    name="genai",
    title="OpenTelemetry GenAI conventions, any framework",
    scopes=(),
    dialect="genai",
    content="set `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY` (`true` in instrumentations from before "
    "1.37); a framework may have a switch of its own",
    conversation_id=f"have the framework write `gen_ai.conversation.id`, or {OWN_SPAN}",
    where=(
        ("query", "last text of the user after the last answer, in the input of the run or of its first model call"),
        ("answer", "last response without tool calls, of the run or of its last model call"),
        (
            "content in events",
            "span events and log records `gen_ai.client.inference.operation.details`, `gen_ai.*.message`, `gen_ai.choice`",
        ),
    ),
    limits=(f"Where no span names the conversation: {_NO_HISTORY}.",),
)

NATIVE: Final = (PYDANTIC_AI, STRANDS, AGENT_FRAMEWORK, SEMANTIC_KERNEL, AUTOGEN, LIVEKIT, PIPECAT)
