"""Match modes proposed for a draft: only values that another correct run need not repeat get one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.testing import NOON_NS, SECOND_NS, conversation, tool_call, turn
from otel_agentic.truth.promote import draft_case
from otel_agentic.truth.proposals import proposals

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation

QUERY: Final = "Refund order W-2378156 of Mia Li to Main Street 12, Rome. It never arrived."
#: An earlier result: an object, and a text that is JSON, as some servers send it.
RESULTS: Final = (
    {"order": {"id": "a81bc81b-dead-4e5d-abff-90865d1e13b1", "sha": "9f86d081884c7d65"}, "count": 17},
    '{"note": "Left at the back door", "sent": "2026-05-29T11:59:30Z"}',
)


def run(arguments: dict[str, Any], **fields: Any) -> Conversation:
    """Return a conversation at noon (UTC) of 29 May 2026, whose last call has the arguments."""
    earlier = (tool_call(f"look_{index}", {}, result=result, step=1) for index, result in enumerate(RESULTS))
    spoken = turn(
        QUERY,
        "Done.",
        *earlier,
        tool_call("act", arguments, step=2),
        started_ns=NOON_NS,
        ended_ns=NOON_NS + 60 * SECOND_NS,
    )
    return conversation(spoken, **fields)


def mode_of(name: str, value: Any, **options: Any) -> str | None:
    proposed = proposals(run({name: value}), **options)
    return proposed[0, len(RESULTS)][name].mode if proposed else None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        # Stated by the user or by a result, in other case or with another prefix.
        ("reason", "it never arrived"),
        ("name", "Mia Li"),
        ("address", "12 Main Street Rome"),
        ("note", "Left at the back door"),
        ("order_id", "a81bc81b-dead-4e5d-abff-90865d1e13b1"),
        ("order_id", "#W-2378156"),
        ("order_id", "A81BC81B-DEAD-4E5D-ABFF-90865D1E13B1"),
        ("sha", "9f86d081884c7d65"),
        ("after", "2026-05-29T11:59:30Z"),
        ("count_id", 17),
        # What the agent has to work out.
        ("amount", 254.5),
        ("total", 1_000_000),
        ("cabin", "business class"),
        ("city", "Zürich"),
        ("express", True),
        ("limit", None),
        ("departs", "2026-07-20"),
        ("departs", "2026-07-20T10:00:00Z"),
        ("phone", "+41 44 000 00 00"),
        ("lines", [{"sku": "tea", "quantity": 2}]),
        ("word", "deadbeef"),
        ("year", 2026),
    ],
)
def test_a_value_that_a_correct_run_repeats_stays_exact(name: str, value: Any) -> None:
    assert None is mode_of(name, value)
    assert None is mode_of(name, value, has_judge=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("body", "Hello Mia, we will refund the order within two days."),
        ("query", "refund policy for lost parcels"),
        ("sql", "SELECT total FROM orders"),
        ("expression", "(152 + 103) * 2"),
        ("body", "ご注文の返金を承りました"),
        ("message", {"to": "Mia Li", "text": ["We refund it within two days."]}),
        ("message", '{"to": "Mia Li", "text": "We refund it within two days."}'),
    ],
)
def test_text_that_the_agent_composed_is_judged_or_ignored(name: str, value: Any) -> None:
    assert "ignore" == mode_of(name, value)
    assert "judge" == mode_of(name, value, has_judge=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("at", "2026-05-29T12:00:30Z"),
        ("at", "2026-05-29T13:00:30.123+01:00"),
        ("at", "2026-05-29 14:00"),
        ("on", "2026-05-29"),
        ("on", "2026-05-30"),
        ("at", NOON_NS // SECOND_NS + 7),
        ("at", NOON_NS / SECOND_NS + 7.25),
        ("at", str(NOON_NS // 1_000_000 + 7)),
        ("at", NOON_NS + 7),
        ("request", "0b7c1a52-3f4e-4c2d-9a61-1f2e3d4c5b6a"),
        ("etag", "5eb63bbbe01eeed093cb22bb8f5acdc3"),
        ("order_id", "W-9999999"),
        ("requestId", 4711),
        ("key", "V1StGXR8Z5jdHi6BmyT7"),
        ("event", {"id": "evt-0042", "text": "Wrote a note about it."}),
    ],
)
def test_times_and_ids_of_the_run_are_ignored(name: str, value: Any) -> None:
    assert "ignore" == mode_of(name, value)
    assert "ignore" == mode_of(name, value, has_judge=True)


def test_a_result_is_known_from_the_next_step_on() -> None:
    code = {"order_id": "Z7GOZK1"}
    spoken = turn(
        "Go",
        "Done.",
        tool_call("create", {}, result=code, step=1),
        tool_call("pay", code, step=1),
        tool_call("ship", code, step=2),
    )
    assert {(0, 1)} == set(proposals(conversation(spoken)))


def test_a_text_that_the_schema_of_the_tool_lists_stays_exact() -> None:
    value = {"reason": "change of plan", "other": "change of plans"}
    schema = {"properties": {"reason": {"anyOf": [{"enum": ["change of plan", "other"]}, {"type": "null"}]}}}
    proposed = proposals(run(value, tool_definitions={"act": schema}))
    assert {"other"} == set(proposed[0, len(RESULTS)])


def test_values_that_differ_between_successful_runs_are_ignored() -> None:
    same: dict[str, Any] = {"city": "Rome", "seat": "12A", "text": "We refund it within two days."}
    other = {**same, "seat": "14C", "text": "You get a refund within two days."}
    proposed = proposals(run(same), has_judge=True, others=[run(same), run(other)])
    assert {"seat": "ignore", "text": "judge"} == {
        name: proposal.mode for name, proposal in proposed[0, len(RESULTS)].items()
    }
    extra = run(other)
    more = replace(extra, turns=(replace(extra.turns[0], calls=(*extra.turns[0].calls, tool_call("act", other))),))
    assert {"text"} == set(proposals(run(same), others=[more])[0, len(RESULTS)])


def test_a_draft_has_the_modes_and_its_notes_the_reasons() -> None:
    arguments = {
        "order_id": "W-2378156",
        "body": "We refund it within two days.",
        "at": "2026-05-29T12:00:30Z",
        "event": {"uuid": "0b7c1a52-3f4e-4c2d-9a61-1f2e3d4c5b6a"},
    }
    draft = draft_case(
        run(arguments), dataset="production", promoted_from=["c1"], why="Promoted by name.", has_judge=True
    )
    assert draft.turns[0].tools is not None
    assert {"body": "judge", "at": "ignore", "event": "ignore"} == draft.turns[0].tools.calls[-1].match
    assert arguments == draft.turns[0].tools.calls[-1].parameters
    assert draft.notes == snapshot(
        "Promoted by name. Proposed match judge (text that occurs in no earlier query or result): act.body (turn 1). Proposed match ignore (the time of the run): act.at (turn 1). Proposed match ignore (an id that occurs in no earlier query or result): act.event because of uuid (turn 1)."
    )


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
        max_leaves=6,
    ),
    st.sampled_from(["id", "text", "at"]),
)
def test_any_argument_has_a_draft_and_a_known_one_stays_exact(value: Any, name: str) -> None:
    proposals(run({name: value}), has_judge=True)
    spoken = turn("Go", "Done.", tool_call("look", {}, result=value, step=1), tool_call("act", {name: value}, step=2))
    assert {} == proposals(conversation(spoken))
