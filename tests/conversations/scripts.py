"""Random agent runs, as strategies of hypothesis."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from otel_agentic.testing import AgentRunScript, Exchange, Made, Step

#: Letters that no convention reads as JSON, as a mark, or as an error.
_TEXT: Final = st.text("abc xyz éß東 .?!🙂", min_size=1, max_size=12).map(lambda text: f"T{text}Z")
_VALUE: Final = st.recursive(
    _TEXT | st.integers(-(2**40), 2**40) | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
    max_leaves=4,
)
_RESULT: Final = (
    _TEXT | st.dictionaries(st.sampled_from("abc"), _VALUE, max_size=2) | st.lists(_TEXT, min_size=2, max_size=3)
)
_NAMES: Final = ("search", "book", "cancel_booking")


def _calls(nested: st.SearchStrategy[AgentRunScript | None]) -> st.SearchStrategy[Made]:
    arguments: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
        st.sampled_from(("city", "date", "n")), _VALUE, max_size=3
    )
    return st.builds(
        Made,
        name=st.sampled_from(_NAMES),
        arguments=arguments,
        result=_RESULT,
        error=st.none() | st.just("ValueError: no such thing"),
        agent=nested,
    )


def _exchange(calls: st.SearchStrategy[Made], answer: st.SearchStrategy[str | None]) -> st.SearchStrategy[Exchange]:
    step = st.builds(Step, calls=st.lists(calls, min_size=1, max_size=3).map(tuple), text=st.none() | _TEXT)
    return st.builds(Exchange, query=_TEXT, steps=st.lists(step, max_size=2).map(tuple), answer=answer)


_SUB_AGENT: Final = st.builds(
    AgentRunScript,
    agent_name=st.just("helper"),
    conversation_id=st.none() | st.just("of its own"),
    exchanges=_exchange(_calls(st.none()), _TEXT).map(lambda exchange: (exchange,)),
)


def scripts(conversation_id: str | None = "conversation-1") -> st.SearchStrategy[AgentRunScript]:
    """Return a strategy of scripts of one to three turns, some with sub-agents, some failing in the last turn.

    Only the last turn may fail: what a failed turn said is missing from the histories after it.
    """
    exchange = _exchange(_calls(st.none() | _SUB_AGENT), _TEXT)
    last = _exchange(_calls(st.none()), st.none() | _TEXT)
    return st.builds(
        lambda before, end: AgentRunScript(conversation_id=conversation_id, exchanges=(*before, end)),
        st.lists(exchange, max_size=2),
        last,
    )
