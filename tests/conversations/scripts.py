"""Random agent runs, as strategies of hypothesis, and all who can speak them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, get_args

from hypothesis import strategies as st

from otel_agentic.testing import (
    AgentRunScript,
    Exchange,
    GenAIStyle,
    ScriptedCall,
    Step,
    speak_genai,
    speak_openinference,
    speak_openllmetry,
    speak_vercel,
)

if TYPE_CHECKING:
    from otel_agentic.spans.model import SpanBatch

#: All who carry a run whole: its queries, answers, calls, and the name of the conversation.
SPEAKERS: Final[Mapping[str, Callable[[AgentRunScript], SpanBatch]]] = {
    **{f"genai {style}": partial(speak_genai, style=style) for style in get_args(GenAIStyle) if style != "none"},
    "openinference": speak_openinference,
    "openllmetry old": partial(speak_openllmetry, form="old"),
    "openllmetry new": partial(speak_openllmetry, form="new"),
    "vercel 4": partial(speak_vercel, version=4),
    "vercel 5": partial(speak_vercel, version=5),
    "vercel 5 stream": partial(speak_vercel, version=5, stream=True),
    "vercel 6": partial(speak_vercel, version=6),
    "vercel 6 stream": partial(speak_vercel, version=6, stream=True),
    "vercel 7 legacy": partial(speak_vercel, version="7-legacy"),
    "vercel 7 with context": partial(speak_vercel, version=7, runtime_context=True),
}
#: Carries all but the name of the conversation.
NAMELESS: Final[Mapping[str, Callable[[AgentRunScript], SpanBatch]]] = {"vercel 7": partial(speak_vercel, version=7)}
#: Contains the actions, and no messages.
WORDLESS: Final[Mapping[str, Callable[[AgentRunScript], SpanBatch]]] = {
    "genai none": partial(speak_genai, style="none")
}

#: Letters that no convention reads as JSON, as a mark, or as an error.
_TEXT: Final = st.text("abc xyz éß東 .?!🙂\"'\\\n{[", max_size=12).map(lambda text: f"T{text}Z")
#: People ask the same again.
_QUERY: Final = st.sampled_from(("Where is it?", "Wo ist es?")) | _TEXT
_VALUE: Final = st.recursive(
    _TEXT | st.integers(-(2**40), 2**40) | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
    max_leaves=4,
)
_RESULT: Final = (
    _TEXT
    | st.integers(-(2**40), 2**40)
    | st.dictionaries(st.sampled_from("abc"), _VALUE, max_size=2)
    | st.lists(_TEXT, min_size=2, max_size=3)
)
_ERROR: Final = st.none() | st.just("ValueError: no such thing")
_NAMES: Final = ("search", "book", "cancel_booking")


def _calls(nested: st.SearchStrategy[AgentRunScript | None]) -> st.SearchStrategy[ScriptedCall]:
    arguments: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
        st.sampled_from(("city", "date", "n")), _VALUE, max_size=3
    )
    return st.builds(
        ScriptedCall, name=st.sampled_from(_NAMES), arguments=arguments, result=_RESULT, error=_ERROR, agent=nested
    )


def _exchange(
    calls: st.SearchStrategy[ScriptedCall], answer: st.SearchStrategy[str | None]
) -> st.SearchStrategy[Exchange]:
    step = st.builds(Step, calls=st.lists(calls, min_size=1, max_size=3).map(tuple), text=st.none() | _TEXT)
    return st.builds(Exchange, query=_QUERY, steps=st.lists(step, max_size=2).map(tuple), answer=answer)


def _agent(name: str, calls: st.SearchStrategy[ScriptedCall]) -> st.SearchStrategy[AgentRunScript]:
    return st.builds(
        AgentRunScript,
        agent_name=st.just(name),
        conversation_id=st.none() | st.just("of its own"),
        exchanges=_exchange(calls, _TEXT).map(lambda exchange: (exchange,)),
    )


_SCOUT: Final = _agent("scout", _calls(st.none()))
_HELPER: Final = _agent("helper", _calls(st.none() | _SCOUT))


def scripts(
    conversation_id: str | None = "conversation-1", *, min_turns: int = 0, max_turns: int = 6, failures: bool = True
) -> st.SearchStrategy[AgentRunScript]:
    """Return a strategy of scripts: parallel calls, failing ones, agents inside tools inside agents.

    Args:
        conversation_id: what the agent calls the conversation.
        min_turns: the fewest turns.
        max_turns: the most turns.
        failures: whether a turn may end without an answer; the turns after it do not remember it.
    """
    turn = _exchange(_calls(st.none() | _HELPER), st.none() | _TEXT if failures else _TEXT)
    return st.builds(
        lambda exchanges: AgentRunScript(conversation_id=conversation_id, exchanges=tuple(exchanges)),
        st.lists(turn, min_size=min_turns, max_size=max_turns),
    )
