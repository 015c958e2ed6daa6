"""Libraries with conventions of their own, and frameworks that nobody wrote a table for."""

from __future__ import annotations

from typing import Final

from otel_agentic.dialects.frameworks_model import OWN_SPAN, Framework

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
