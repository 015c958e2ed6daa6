"""OpenInference by framework: one convention, another place for each piece."""

from __future__ import annotations

from typing import Final

from otel_agentic.dialects.frameworks_model import Framework, Row

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
