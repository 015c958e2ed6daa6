"""The frameworks whose spans are read: what to enable, where values are read from, and what cannot be known."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

#: What a span means, and where that stands.
Row = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """One framework, or one instrumentation library for it.

    `name` names its page, `title` is for people. `scopes` are globs of the instrumentation scopes that it writes under;
    none for what stands for all other spans of its `dialect`. `content` says what turns content capture on and
    `conversation_id` how an application names its conversations: each is a sentence part that begins with a verb.
    `where` tells what the dialect's table does not, `limits` what cannot be known, and why.
    """

    name: str
    title: str
    scopes: tuple[str, ...]
    dialect: str
    content: str
    conversation_id: str
    where: tuple[Row, ...] = ()
    limits: tuple[str, ...] = ()


#: What names a conversation where a framework itself does not: an id is inherited over its trace.
OWN_SPAN = (
    "open a span of your own around each turn and set `session.id` or `gen_ai.conversation.id` on it: the whole trace "
    "inherits it"
)


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


_CONTENT: Final = (
    "unset `OPENINFERENCE_HIDE_INPUTS`, `OPENINFERENCE_HIDE_OUTPUTS`, `OPENINFERENCE_HIDE_INPUT_MESSAGES`, "
    "`OPENINFERENCE_HIDE_OUTPUT_MESSAGES` and the same fields of `TraceConfig(...)`: content is recorded unless one hides it"
)
_SESSION: Final = 'run each turn inside `with using_session("..."):` of `openinference.instrumentation`'
_NAME_LOST: Final = (
    "A lone text argument loses its parameter name on the tool span; the model's call by the same id has it."
)


def _framework(
    package: str,
    title: str,
    where: tuple[Row, ...],
    *,
    limits: tuple[str, ...] = (),
    scopes: tuple[str, ...] = (),
    conversation_id: str = _SESSION,
) -> Framework:
    return Framework(
        name=f"openinference-{package.replace('_', '-')}",
        title=f"OpenInference: {title}",
        scopes=scopes or (f"openinference.instrumentation.{package}",),
        dialect="openinference",
        content=_CONTENT,
        conversation_id=conversation_id,
        where=where,
        limits=limits,
    )


BY_FRAMEWORK: Final = (
    _framework(
        "langchain",
        "LangChain, LangGraph",
        (
            ("query", "`input.value~.messages.-1` of the root: its last message of the user"),
            ("answer", "`output.value~.messages.-1` of the root"),
            ("arguments", "`input.value~` of the tool span, else the model's call by id"),
            ("result", "`output.value~.data.content`, or the tool message's other dumps"),
            ("agent name", "`metadata~.lc_agent_name`, else the name of the run"),
            ("kinds", "a run is AGENT when its name has `agent` in it, tools too: `tool.name` decides"),
        ),
        conversation_id=f'{_SESSION}, or give `config={{"metadata": {{"session_id": "..."}}}}`; `thread_id` and '
        "`conversation_id` do as well",
        limits=(_NAME_LOST, "An interrupt of LangGraph is recorded as an exception on a span that did not fail."),
    ),
    _framework(
        "openai_agents",
        "OpenAI Agents SDK",
        (
            ("query and answer", "the model calls: agent spans hold neither"),
            ("arguments and result", "`input.value~` and `output.value` of the tool span"),
        ),
        limits=("The SDK writes a fixed sentence in the place of a tool's error.",),
    ),
    _framework(
        "openai",
        "OpenAI client",
        (
            ("query and answer", "the messages of the model calls, or of spans around them"),
            ("tool results", "messages of role `tool` in the input of the next model call, unless tools have spans"),
        ),
    ),
    _framework(
        "pydantic_ai",
        "Pydantic AI",
        (
            ("query", "`input.value` of the run"),
            ("answer", "`output.value` of the run"),
            ("arguments", "`input.value~` of the tool span; `tool.parameters` holds them, too"),
            ("call id", "`tool_call.id`"),
        ),
        scopes=("pydantic-ai", "openinference.instrumentation.pydantic_ai"),
        conversation_id=f"{_SESSION}; `conversation_id=` of `agent.run(...)` does as well",
    ),
    _framework(
        "smolagents",
        "smolagents",
        (
            ("query", "`input.value~.task` of the root; a `New task:` before it is taken off"),
            ("answer", "`output.value` of the root: the argument of `final_answer`, which is no call of its own"),
            (
                "arguments",
                "`input.value~.kwargs` of the tool span; `.args` have the names of `tool.parameters~`",
            ),
        ),
        limits=(
            "A code agent's model asks for no tool: its calls are the tool spans inside a step.",
            "What code does without a tool, and why code failed, is not a call and is not shown.",
        ),
    ),
    _framework(
        "llama_index",
        "LlamaIndex",
        (
            ("query and answer", "the model calls: the root holds the text that Python shows of an object"),
            ("arguments", "`input.value~.kwargs` of the tool span"),
            ("result", "`output.value~.raw_output` of the tool span"),
            ("model calls", "three spans each: they count once"),
        ),
    ),
    _framework(
        "crewai",
        "CrewAI",
        (
            ("query", "the inputs of the kick-off, `input.value~` of the root"),
            ("answer", "`output.value~.raw` of the root"),
            ("arguments", "`input.value~` of the tool span"),
            ("delegation", "`Delegate work to coworker` on the span is `delegate_work_to_coworker` of the model"),
        ),
        limits=("Instrument the model client as well: the crew's own spans hold no model calls.",),
    ),
    _framework(
        "google_adk",
        "Google ADK",
        (
            ("query", "`input.value~.new_message.parts` of the root"),
            ("answer", "`output.value~.content.parts` of the root"),
            ("arguments", "`input.value~` of the tool span"),
            ("result", "`output.value~.response.result` of the tool span"),
            ("call id", "`tool.id`"),
        ),
        limits=(
            "Several model calls share one span: later ones overwrite the attributes of earlier ones.",
            "A failed tool has no error status: its response says `error`.",
        ),
    ),
    _framework(
        "beeai",
        "BeeAI",
        (
            ("query", "`input.value~.input` of the run"),
            ("answer", "the argument of `final_answer`, which is no call of its own"),
            ("arguments", "the model's; `input.value~.input` of the tool span"),
            ("events of a tool", "spans `error` and `retry` inside the tool span: no calls"),
        ),
        limits=(
            "The arguments of parallel calls are joined into the first of them: the next model call or the tool spans hold each.",
        ),
    ),
    _framework(
        "agno",
        "Agno",
        (
            ("query", "`input.value` of the run; `input.mime_type` may be wrong"),
            ("arguments", "`tool.parameters` or `input.value~` of the tool span"),
            ("conversation id", "`session.id` of the agent spans; that of a sub-agent is not taken for the turn's"),
        ),
        conversation_id='give `agent.run(..., session_id="...")` the session',
        limits=("A failed tool has its error text as output and no exception event.",),
    ),
    _framework(
        "dspy",
        "DSPy",
        (("query and answer", "`input.value~` and `output.value~` of the topmost chain"),),
    ),
    _framework(
        "haystack",
        "Haystack",
        (("query and answer", "the model calls, or `input.value~` and `output.value~` of the pipeline"),),
    ),
)

#: All that is left: decorators and hand-written spans.
OPENINFERENCE: Final = Framework(
    name="openinference",
    title="OpenInference, other spans and decorators",
    scopes=(),
    dialect="openinference",
    content=_CONTENT,
    conversation_id=_SESSION,
    where=(
        ("query", "the one text among the inputs of the topmost AGENT or CHAIN; a lone text argument is plain text"),
        ("answer", "`output.value` of that span, else the last model call"),
        ("arguments", "`input.value~` of the TOOL span; `tool.parameters` is their schema with decorators"),
        ("indices of flattened messages", "sorted by number: 10 comes after 9"),
    ),
    limits=("Redacted values (`__REDACTED__`) count as not captured.",),
)


_SPAN_ONLY: Final = "set `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY`"
_LATEST: Final = "`OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental`"
_TOOL_OF_NEXT: Final = (
    "tool results",
    "messages of role `tool` in the input of the next model call: there are no tool spans",
)

ADK: Final = Framework(
    name="google-adk",
    title="Google ADK",
    scopes=("gcp.vertex.agent",),
    dialect="adk",
    content="set `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY`; with telemetry schema 1 (all of 1.x) "
    "content is recorded unless `ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=false`",
    conversation_id='give `runner.run_async(..., session_id="...")` the session',
    where=(
        ("query, answer, messages", "`generate_content` spans; in schema 1 `call_llm`, which is the same model call"),
        (
            "arguments and result",
            "`gen_ai.tool.call.*`; in schema 1 `gcp.vertex.agent.tool_call_args` and `tool_response`",
        ),
        (
            "result of a function that returns no dictionary",
            'ADK wraps it as `{"result": ...}`: the inner value is taken',
        ),
        ("span `execute_tool (merged)`", "a summary of parallel calls, ignored"),
        ('text "For context: ..." of the user', "what another agent did, rewritten by ADK: no query"),
        ("`AgentTool`", "a run with a session of its own inside the tool call: it stays in the outer conversation"),
    ),
    limits=(
        "In 1.x an error that a callback turned into a result leaves no error on the span; results that say `error` count.",
        "Mode EVENT_ONLY puts content into log records of model calls only: export logs, too.",
    ),
)

OPENAI_V2: Final = Framework(
    name="openai-v2",
    title="opentelemetry-instrumentation-openai-v2",
    scopes=("opentelemetry.instrumentation.openai_v2",),
    dialect="genai",
    content="set `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true` and export logs, too; or set "
    f"{_LATEST} and `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=span_only`",
    conversation_id=OWN_SPAN,
    where=(
        ("messages", "log records `gen_ai.*.message` and `gen_ai.choice`; each call repeats the whole history"),
        _TOOL_OF_NEXT,
        ("turns", "model calls whose messages go on from each other, even when each is a trace of its own"),
    ),
    limits=(
        "There are neither agent nor tool spans: no agent name, and a failed tool shows only in what it told the model.",
    ),
)

UTIL_GENAI: Final = Framework(
    name="genai-util",
    title="opentelemetry-util-genai, and openai-v2 with the latest conventions",
    scopes=("opentelemetry.util.genai.handler",),
    dialect="genai",
    content=f"{_SPAN_ONLY}; releases before 1.0 want {_LATEST}, too",
    conversation_id="give the invocation its `conversation_id`; where the client library alone is instrumented, "
    f"{OWN_SPAN}",
    where=(
        (
            "query and answer",
            "`gen_ai.input.messages` and `gen_ai.output.messages` of invoke_agent, else of the model calls",
        ),
        ("content with EVENT_ONLY", "log records of the model calls: agent and tool spans stay bare, export logs, too"),
    ),
    limits=("Uploaded content (`gen_ai.input.messages.ref`) is not fetched.",),
)

GENAI_OPENAI: Final = Framework(
    name="genai-openai",
    title="opentelemetry-instrumentation-genai-openai",
    scopes=("opentelemetry.instrumentation.genai.openai",),
    dialect="genai",
    content=_SPAN_ONLY,
    conversation_id=f"use `conversation=` of the Responses API, else {OWN_SPAN}",
    where=(
        _TOOL_OF_NEXT,
        ("turns", "model calls whose messages go on from each other, even when each is a trace of its own"),
        ("input with a conversation of the Responses API", "only what is new: the first call of a turn has the query"),
    ),
    limits=(
        "There are neither agent nor tool spans: no agent name, and a failed tool shows only in what it told the model.",
    ),
)

GENAI_OPENAI_AGENTS: Final = Framework(
    name="genai-openai-agents",
    title="opentelemetry-instrumentation-genai-openai-agents",
    scopes=("opentelemetry.instrumentation.genai.openai_agents",),
    dialect="genai",
    content=f"{_SPAN_ONLY}, and instrument the client with opentelemetry-instrumentation-genai-openai",
    conversation_id='give `RunConfig(group_id="...")`',
    where=(
        ("query and answer", "the model calls: agent spans hold neither"),
        ("tool calls", "joined to the model's by name, arguments and order: their spans have no call id"),
        ("handoff", "the model's call alone: it has no span"),
    ),
    limits=("openai-agents writes a fixed sentence in the place of a tool's error.",),
)

OPENAI_AGENTS_V2: Final = Framework(
    name="openai-agents-v2",
    title="opentelemetry-instrumentation-openai-agents-v2",
    scopes=("opentelemetry.instrumentation.openai_agents",),
    dialect="openai-agents",
    content="set `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=span_only`",
    conversation_id=f"{OWN_SPAN}: `group_id` is not written",
    where=(
        ("agent name", "spans `invoke_agent`: model and tool spans say `OpenAI Agent`"),
        ("tool calls", "tool spans, joined by name, arguments and order: they have no call id"),
        ("responses that call tools", "the text that Python shows of the SDK's objects, read as far as it can be"),
        ("operation `unknown`, root `invoke_agent`", "tasks and turns of the SDK, ignored; the root is the workflow"),
    ),
    limits=("Tool results are not in the model's messages of the Responses API.", "No span names the conversation."),
)

GENAI_LANGCHAIN: Final = Framework(
    name="genai-langchain",
    title="opentelemetry-instrumentation-genai-langchain",
    scopes=("opentelemetry.instrumentation.genai.langchain",),
    dialect="genai",
    content=_SPAN_ONLY,
    conversation_id='give `config={"metadata": {"thread_id": "..."}}` (or `session_id`, `conversation_id`); the `thread_id` '
    "of a LangGraph checkpointer does as well",
    where=(
        (
            "query",
            "`gen_ai.input.messages` of invoke_agent: the new message with a checkpointer, else the whole history",
        ),
        ("order of parallel calls", "the model's response: threads may start in another order"),
        ("content with EVENT_ONLY", "log records of the model calls: agent and tool spans stay bare, export logs, too"),
    ),
    limits=("A failed tool has no result: what it told the model is in the next model call.",),
)

OFFICIAL: Final = (
    ADK,
    GENAI_LANGCHAIN,
    GENAI_OPENAI,
    GENAI_OPENAI_AGENTS,
    OPENAI_AGENTS_V2,
    OPENAI_V2,
    UTIL_GENAI,
)


OPENLLMETRY: Final = Framework(
    name="openllmetry",
    title="OpenLLMetry (Traceloop)",
    scopes=("traceloop.tracer", "opentelemetry.instrumentation.*"),
    dialect="openllmetry",
    content="set `TRACELOOP_TRACE_CONTENT=true` or unset it: content is recorded unless it is false",
    conversation_id='call `Traceloop.set_association_properties({"session_id": "..."})`, or decorate the turn with '
    "`@conversation(conversation_id=...)` of `traceloop.sdk.decorators`; LangChain's `thread_id` does as well",
    where=(
        (
            "query and answer",
            "`traceloop.entity.input` and `.output` of the topmost workflow or agent, else the model calls",
        ),
        ("messages, releases before GenAI names", "`gen_ai.prompt.N.*` and `gen_ai.completion.N.*`"),
        (
            "messages with `use_legacy_attributes=False`",
            "log records `gen_ai.*.message` and `gen_ai.choice`: export logs, too",
        ),
        ("arguments, LangChain", "`traceloop.entity.input~.inputs`"),
        ("arguments, decorators", "`traceloop.entity.input~.kwargs`, and `.args` for those without a name"),
        ("result, LangChain", "`traceloop.entity.output~.output.kwargs.content`"),
        ("tools, LlamaIndex", "`tool.name` and `tool.arguments~` on spans of kind task"),
        ("agent name", "`gen_ai.agent.name`, else the span's name without `.agent`, `.workflow`, `.run`"),
    ),
    limits=(
        "CrewAI writes no tool spans: instrument the model client, too.",
        "OpenAI Agents has no conversation id of its own, hides the target of a handoff and the text of a tool's error.",
        "Spans `create_agent` are traces of their own that are no turn.",
        "LlamaIndex and Agno leave the status of a failed tool unset: its output says it.",
    ),
)

VERCEL: Final = Framework(
    name="vercel",
    title="Vercel AI SDK",
    scopes=("ai", "gen_ai"),
    dialect="vercel",
    content="give `experimental_telemetry: { isEnabled: true }` (version 7: register an integration of `@ai-sdk/otel`) and "
    "leave `recordInputs` and `recordOutputs` unset or true",
    conversation_id="give `experimental_telemetry: { isEnabled: true, metadata: { sessionId } }`; version 7: "
    "`runtimeContext: { sessionId }`, `telemetry: { includeRuntimeContext: { sessionId: true } }` and "
    "`new OpenTelemetry({ runtimeContext: true })`",
    where=(
        ("agent name", "`functionId` of the telemetry settings"),
        ("query", "last message of the user in `ai.prompt~`"),
        ("answer", "`ai.response.text` of the outermost span"),
        ("tool calls", "spans `ai.toolCall`, and `ai.response.toolCalls~` of the model calls"),
        ("steps", "the model responses: the clock counts milliseconds, so that starts are often equal"),
        ("spans of version 7", "scope `gen_ai`, names of the GenAI conventions"),
    ),
    limits=(
        "A call whose arguments do not fit the schema has no span: only the model's response tells of it.",
        "Version 4 stops at a tool that throws; one that returns its error leaves no error status.",
        "Version 4 leaves the metadata off tool spans, which inherit the id of their trace.",
    ),
)

LANGSMITH: Final = Framework(
    name="langsmith",
    title="LangSmith over OpenTelemetry",
    scopes=("langsmith",),
    dialect="langsmith",
    content="unset `LANGSMITH_HIDE_INPUTS` and `LANGSMITH_HIDE_OUTPUTS`: content is recorded unless they are true",
    conversation_id='give `config={"metadata": {"session_id": "..."}}`, or `thread_id`; with `@traceable` '
    '`langsmith_extra={"metadata": {"session_id": "..."}}`',
    where=(
        (
            "what switches it on",
            "`LANGSMITH_TRACING=true` and `LANGSMITH_TRACING_MODE=otel` (older: `LANGSMITH_OTEL_ENABLED=true`)",
        ),
        ("query and answer", "`gen_ai.prompt~` and `gen_ai.completion~` of the topmost run"),
        ("arguments", "`gen_ai.prompt~` of the tool run"),
        ("result", "`gen_ai.completion~.output` of the tool run, and the text of its tool message"),
        ("agent name", "`langsmith.metadata.lc_agent_name`, else the root's name"),
        ("`langsmith.trace.session_name`", "the project: not a conversation"),
    ),
    limits=("The error of a tool is the text of an exception with its traceback.",),
)

LANGFUSE: Final = Framework(
    name="langfuse",
    title="Langfuse SDK",
    scopes=("langfuse-sdk",),
    dialect="langfuse",
    content="set `LANGFUSE_OBSERVE_DECORATOR_IO_CAPTURE_ENABLED=true` or unset it, and leave `capture_input` and "
    "`capture_output` of `@observe` alone: content is recorded unless they are false",
    conversation_id='run the turn inside `with propagate_attributes(session_id="..."):`; with the LangChain handler '
    '`config={"metadata": {"langfuse_session_id": "..."}}`',
    where=(
        ("query and answer", "`langfuse.observation.input~` and `.output` of the topmost observation"),
        ("arguments, @observe", "`langfuse.observation.input~.kwargs`, and `.args` for those without a name"),
        ("arguments and result, LangChain", "`langfuse.observation.input~` and `.output~.content`"),
        ("messages of role `tool` at the end of a generation's input", "schemas of the tools, left out"),
        ("failure", "`langfuse.observation.level` ERROR with its status message"),
    ),
    limits=("SDK 3 writes the session on the root only: the trace inherits it.",),
)

MLFLOW: Final = Framework(
    name="mlflow",
    title="MLflow Tracing",
    scopes=("mlflow.tracing.provider", "mlflow*"),
    dialect="mlflow",
    content="leave the inputs and outputs of spans alone: MLflow records them unless a span processor takes them out",
    conversation_id="use the `thread_id` of LangGraph, or give the traced function a parameter `session_id`; the metadata "
    f"`mlflow.trace.session` is not exported; else {OWN_SPAN}",
    where=(
        ("what switches it on", "`OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` with the address of the collector"),
        ("values", "every `mlflow.*` attribute is JSON text, also plain words"),
        ("query and answer", "`mlflow.spanInputs~` and `mlflow.spanOutputs~` of the topmost span"),
        ("arguments and result", "`mlflow.spanInputs~` and `mlflow.spanOutputs~` of the TOOL span"),
        ("conversation id", "`metadata~.thread_id`"),
    ),
    limits=("With `MLFLOW_ENABLE_OTEL_GENAI_SEMCONV=true` the root loses input and output: leave it off.",),
)

LOGFIRE: Final = Framework(
    name="logfire",
    title="Pydantic Logfire",
    scopes=("logfire", "logfire.*"),
    dialect="logfire",
    content="give `logfire.configure(scrubbing=logfire.ScrubbingOptions(callback=...))` that keeps what was scrubbed, and do "
    "not set `OPENAI_AGENTS_TRACE_INCLUDE_SENSITIVE_DATA=0`: content is recorded unless one of them takes it out",
    conversation_id='give `RunConfig(group_id="...")` of the OpenAI Agents SDK, or a span attribute `conversation_id`: '
    "scrubbing replaces values whose name has `session` in it",
    where=(
        ("name of a span", "`logfire.msg`: the span's own name is a template"),
        ("tool calls, OpenAI Agents", "spans `Function: {name}` with `name`, `input~`, `output`"),
        ("model calls, OpenAI Agents", "`raw_input`, `response`, `events`, or `request_data`, `input`, `output`"),
        ("handoff", "spans `Handoff` with `from_agent` and `to_agent`"),
        ("arguments, @logfire.instrument", "attributes of the span, one a parameter; the result is `return`"),
        ("failure", "`logfire.level_num` 17 and above, and `error`"),
    ),
    limits=(
        "Scrubbed values count as not captured, a scrubbed id as none.",
        "Nothing says that a span of @logfire.instrument is a tool, but a message that begins with `tool`.",
    ),
)

UNKNOWN_FRAMEWORK: Final = Framework(
    name="unknown",
    title="Any other framework",
    scopes=(),
    dialect="generic",
    content="look at the spans with `otel-agentic doctor FILE` and name their attributes under `[dialects.custom]`; what the "
    "framework does not record cannot be read",
    conversation_id=f"name the attribute in `conversations.conversation_id_attributes`, or {OWN_SPAN}",
    where=(
        ("kinds", "a tool's name, the kind or type of a span, and the content of its root, by common attribute names"),
    ),
    limits=("Without a tool name or a kind a span can only be taken for a run, and only at the top of its trace.",),
)

VENDORS: Final = (OPENLLMETRY, VERCEL, LANGSMITH, LANGFUSE, MLFLOW, LOGFIRE)


#: Every framework that has a page, in the order of the index.
FRAMEWORKS: Final = (*NATIVE, *OFFICIAL, GENAI, *BY_FRAMEWORK, OPENINFERENCE, *VENDORS, UNKNOWN_FRAMEWORK)


def framework_of(scope: str | None, dialect: str | None) -> Framework:
    """Return the framework that writes under an instrumentation scope, as far as scope and dialect tell.

    Two may share a scope (openai-agents of OpenTelemetry and of OpenLLMetry): then the dialect that read the span
    decides. A scope that nobody knows gives what stands for the rest of the dialect.

    >>> framework_of("pydantic-ai", "pydantic-ai").name, framework_of("shop", "openinference").name, framework_of("x", None).name
    ('pydantic-ai', 'openinference', 'unknown')
    """
    written = [each for each in FRAMEWORKS if any(fnmatchcase(scope or "", glob) for glob in each.scopes)]
    alike = [each for each in FRAMEWORKS if each.dialect == dialect]
    rest = [each for each in alike if not each.scopes] or alike
    both = [each for each in written if each in alike]
    return next(iter((*both, *written, *rest)), UNKNOWN_FRAMEWORK)
