"""`v_state_changes` and the metric agree about random conversations, or the view has no row."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest

from otel_agentic.evaluators.layers import StateChange
from otel_agentic.store.conversations import Built, save_conversations
from otel_agentic.store.score_rows import score_types
from otel_agentic.store.scores import NewScores, save_evaluations
from otel_agentic.store.table import Scored
from otel_agentic.store.truth import save_cases
from otel_agentic.testing import NOON_NS, SECOND_NS, conversation, tool_call, turn
from otel_agentic.truth import CaseIndex, parse_cases
from tests.evaluators.failing import subjects
from tests.store.store_queries import rows
from tests.store.test_store_failing import EVALUATION

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.evaluators.base import Subject
    from otel_agentic.store import Store

TOOLS: Final = ("cancel", "pay", "get_user", "get_trip", "calc")
RULES: Final = ("allow", "penalize", "forbid", {"read": "allow", "write": "forbid"}, {"read": "penalize"})


def expectation(random: Random, *, alternatives: bool = True) -> dict[str, Any]:
    calls = [
        {
            "tool_name": random.choice(TOOLS),
            "parameters": {"n": random.randint(1, 2)},
            "required": random.random() < 0.8,
        }
        for _ in range(random.randint(0, 3))
    ]
    arguments: dict[str, Any] = {
        "calls": calls,
        "order": random.choice(["any", "exact"]),
        "extra_calls": random.choice(RULES),
    }
    forbidden = random.choice(TOOLS)
    if random.random() < 0.3 and all(call["tool_name"] != forbidden for call in calls):
        arguments["forbidden"] = [forbidden]
    if alternatives and random.random() < 0.3:
        arguments["alternatives"] = [expectation(random, alternatives=False)]
    return arguments


def call(random: Random) -> Any:
    kind = random.choice(["tool"] * 8 + ["agent", "transfer"])
    actual = tool_call(
        random.choice(TOOLS),
        {"n": random.randint(1, 2)},
        kind=kind,
        error="no" if random.random() < 0.1 else None,
    )
    return replace(actual, arguments=None) if random.random() < 0.03 else actual


def talk(random: Random, number: int) -> tuple[dict[str, Any], Conversation]:
    """Return a case and its conversation, of which the second turn may never have come."""
    turns: list[dict[str, Any]] = [{"query": f"wish {index} of {number}"} for index in range(random.randint(1, 2))]
    for part in turns:
        if random.random() < 0.5:
            part["tools"] = expectation(random)
    case = {
        "case_id": f"c{number}",
        "turns": turns,
        "effects": {"get_*": "read", "calc": random.choice(["read", "write"])},
        "reviewed": random.random() < 0.9,
    }
    if random.random() < 0.6:
        case["tools"] = expectation(random)
    received = turns[: 1 if random.random() < 0.2 else None]
    spoken = [
        turn(
            part["query"],
            "done",
            *(call(random) for _ in range(random.randint(0, 4))),
            started_ns=NOON_NS + position * SECOND_NS,
            ended_ns=NOON_NS + (position + 1) * SECOND_NS,
        )
        for position, part in enumerate(received)
    ]
    closed_by: Any = random.choice(["idle", "end_of_input", "end_mark"])
    return case, conversation(*spoken, conversation_id=f"v{number}", case_id=f"c{number}", closed_by=closed_by)


def save(store: Store, cases: list[dict[str, Any]], about: list[Subject]) -> None:
    given = parse_cases("d.jsonl", "\n".join(map(json.dumps, cases))).require()
    index = CaseIndex(given)
    scored = [
        Scored(conversation=item.conversation, match=index.match(item.conversation), score=item.score)
        for item in about
        if item.score is not None
    ]

    def write(con: Any) -> None:
        save_cases(con, given, "d.jsonl", NOON_NS)
        save_conversations(
            con, [Built(conversation=item.conversation, ambiguous_link=False) for item in about], NOON_NS
        )
        save_evaluations(con, [EVALUATION], NOON_NS)
        NewScores.of(score_types(con), EVALUATION.evaluation_id, scored, NOON_NS).save(con)

    store.write(write)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_the_view_and_the_metric_agree_on_conversations_made_at_random(store: Store, seed: int) -> None:
    random = Random(seed)  # noqa: S311 — no secret
    pairs = [talk(random, number) for number in range(90)]
    cases, talks = [case for case, _ in pairs], [item for _, item in pairs]
    labels = {f"v{number}": random.random() < 0.5 for number in range(90) if random.random() < 0.3}
    about = subjects(cases, talks, labels, criteria=("annotated",))
    save(store, cases, about)
    columns = "conversation_id, state_changes, missing, extra"
    view_rows = {name: tuple(rest) for name, *rest in rows(store, f"SELECT {columns} FROM v_state_changes")}  # noqa: S608 — ours

    classes: Counter[str | None] = Counter()
    for item in about:
        (score,) = StateChange().evaluate(item)
        label, missing, extra = view_rows.get(str(item.conversation.conversation_id), (None, 0, 0))
        classes[label] += 1
        if label is not None:
            details = score.details
            assert (score.label, len(details["missing"]), len(details["extra"])) == (label, missing, extra)
    # The comparison is not empty: every class occurs, and most conversations that have one have a row.
    assert {"right", "other", "missing", "extra", "missing_and_extra", "wrong_arguments"} <= set(classes)
    assert classes.total() - classes[None] > 35
