"""Instrumentation libraries of OpenTelemetry itself, and google-adk, which follows them."""

from __future__ import annotations

from typing import Final

from otel_agentic.dialects.frameworks_model import OWN_SPAN, Framework

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
