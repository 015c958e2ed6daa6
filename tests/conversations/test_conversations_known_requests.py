"""The unknown requests of a history do not depend on whether the beginning of the history was checked before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from otel_agentic.conversations.requests import KnownRequests
from otel_agentic.dialects.events import CallRequest, Message

REQUESTS = [
    CallRequest(call_id=call_id, name=name, arguments=arguments)
    for call_id in ("1", "2", None)
    for name in ("find", "book")
    for arguments in ({"n": 1}, None)
]
MESSAGES = st.lists(st.sampled_from(REQUESTS), max_size=2).map(
    lambda requests: Message(role="assistant", parts=tuple(requests))
)


@given(
    st.lists(
        st.tuples(st.sampled_from([*REQUESTS, None]), st.integers(0, 6), st.lists(MESSAGES, max_size=3)), max_size=8
    )
)
def test_a_history_is_checked_like_a_new_one(steps: list[tuple[CallRequest | None, int, list[Message]]]) -> None:
    incremental, complete = KnownRequests(), KnownRequests()
    history: tuple[Message, ...] = ()
    for response, size, added in steps:
        history = (*history[:size], *added)  # mostly longer than the one before
        for known in (incremental, complete):
            known.add(response)
        complete._checked = ()
        assert list(complete.unknown_of(history)) == list(incremental.unknown_of(history))
        assert (complete._known, complete._matched, +complete._vague) == (
            incremental._known, incremental._matched, +incremental._vague,
        )  # fmt: skip
