"""`v_state_changes` and the metric say the same of conversations made at random, or the view says nothing."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest

from otel_agentic.evaluators.layers import StateChange
from otel_agentic.store.conversations import Built, save_conversations
from otel_agentic.store.scores import save_evaluation, save_scores
from otel_agentic.store.selection import Scored
from otel_agentic.store.truth import save_cases
from otel_agentic.testing import NOON_NS, SECOND_NS, conversation, tool_call, turn
from otel_agentic.truth import CaseIndex, parse_cases
from tests.evaluators.failing import subjects
from tests.store.asking import rows
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
    made: dict[str, Any] = {
        "calls": calls,
        "order": random.choice(["any", "exact"]),
        "extra_calls": random.choice(RULES),
    }
    forbidden = random.choice(TOOLS)
    if random.random() < 0.3 and all(call["tool_name"] != forbidden for call in calls):
        made["forbidden"] = [forbidden]
    if alternatives and random.random() < 0.3:
        made["alternatives"] = [expectation(random, alternatives=False)]
    return made


def call(random: Random) -> Any:
    kind = random.choice(["tool"] * 8 + ["agent", "transfer"])
    made = tool_call(
        random.choice(TOOLS),
        {"n": random.randint(1, 2)},
        kind=kind,
        error="no" if random.random() < 0.1 else None,
    )
    return replace(made, arguments=None) if random.random() < 0.03 else made


def talk(random: Random, number: int) -> tuple[dict[str, Any], Conversation]:
    """Return a case and its conversation, of which the second turn may never have come."""
    turns: list[dict[str, Any]] = [{"query": f"wish {place} of {number}"} for place in range(random.randint(1, 2))]
    for one in turns:
        if random.random() < 0.5:
            one["tools"] = expectation(random)
    case = {
        "case_id": f"c{number}",
        "turns": turns,
        "effects": {"get_*": "read", "calc": random.choice(["read", "write"])},
        "reviewed": random.random() < 0.9,
    }
    if random.random() < 0.6:
        case["tools"] = expectation(random)
    came = turns[: 1 if random.random() < 0.2 else None]
    said = [
        turn(
            one["query"],
            "done",
            *(call(random) for _ in range(random.randint(0, 4))),
            started_ns=NOON_NS + place * SECOND_NS,
            ended_ns=NOON_NS + (place + 1) * SECOND_NS,
        )
        for place, one in enumerate(came)
    ]
    closed_by: Any = random.choice(["idle", "end_of_input", "end_mark"])
    return case, conversation(*said, conversation_id=f"v{number}", case_id=f"c{number}", closed_by=closed_by)


def save(store: Store, cases: list[dict[str, Any]], about: list[Subject]) -> None:
    given = parse_cases("d.jsonl", "\n".join(map(json.dumps, cases))).require()
    index = CaseIndex(given)
    scored = [
        Scored(conversation=one.conversation, match=index.match(one.conversation), score=one.score)
        for one in about
        if one.score is not None
    ]

    def write(con: Any) -> None:
        save_cases(con, given, "d.jsonl", NOON_NS)
        save_conversations(con, [Built(conversation=one.conversation, ambiguous_link=False) for one in about], NOON_NS)
        save_evaluation(con, EVALUATION, NOON_NS)
        save_scores(con, EVALUATION.evaluation_id, scored, NOON_NS)

    store.write(write)


@pytest.mark.parametrize("seed", [1, 2])
def test_the_view_and_the_metric_agree_on_conversations_made_at_random(store: Store, seed: int) -> None:
    random = Random(seed)  # noqa: S311 — no secret
    made = [talk(random, number) for number in range(90)]
    cases, talks = [case for case, _ in made], [one for _, one in made]
    labels = {f"v{number}": random.random() < 0.5 for number in range(90) if random.random() < 0.3}
    about = subjects(cases, talks, labels, turn_rule="both")
    save(store, cases, about)
    columns = "conversation_id, state_changes, missing, extra"
    told = {name: tuple(rest) for name, *rest in rows(store, f"SELECT {columns} FROM v_state_changes")}  # noqa: S608 — ours

    seen: Counter[str | None] = Counter()
    for one in about:
        (score,) = StateChange().evaluate(one)
        label, missing, extra = told.get(str(one.conversation.conversation_id), (None, 0, 0))
        seen[label] += 1
        if label is not None:
            details = score.details
            assert (score.label, len(details["missing"]), len(details["extra"])) == (label, missing, extra)
    # It is no law about nothing: every class is there, and most conversations that have one are told.
    assert {"right", "other", "missing", "extra", "missing_and_extra", "wrong_arguments"} <= set(seen)
    assert seen.total() - seen[None] > 35
