"""Plans that are rewritten while they are carried out: steps done, cancelled, or taken up again in a later turn."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_agentic.evaluators.layers import Reasoning, Verdict
from otel_agentic.testing import conversation, tool_call, turn
from otel_agentic.truth import Case
from tests.evaluators.failing import subjects
from tests.evaluators.ragas_subjects import scores_of, subject

A, B, C = (tool_call(f"do_{letter}", {}) for letter in "abc")


def todos(**steps: str) -> Any:
    """Return a call that writes steps down, each with its state."""
    return tool_call("write_todos", {"todos": [{"content": f"do_{name}", "status": at} for name, at in steps.items()]})


def planned(expected: str, *turns: Any) -> tuple[list[str], float | None, float | None]:
    """Return the tools of the plan, its quality against the expected letters, and its adherence."""
    case = Case.model_validate({"case_id": "c", "plan": [f"do_{letter}" for letter in expected]})
    scores = scores_of(Reasoning(), subject(conversation(*turns), case))
    quality = scores["plan_quality"]
    return quality.details["planned"], quality.value, scores["plan_adherence"].value


@pytest.mark.parametrize(
    "second",
    [
        (todos(a="completed", b="in_progress"), B, todos(a="completed", b="completed")),
        (todos(b="pending"), B),
        (B,),
    ],
)
def test_a_plan_that_goes_on_in_the_next_turn_is_one_plan(second: tuple[Any, ...]) -> None:
    first = turn("go", "which one?", todos(a="pending", b="pending"), A)
    assert (["do_a", "do_b"], 1.0, 1.0) == planned("ab", first, turn("this one", "done", *second))


def test_a_step_that_is_planned_again_after_it_was_done_is_another_step() -> None:
    twice = (turn("go", "done", todos(a="pending"), A), turn("again", "done", todos(a="pending"), A))
    assert (["do_a", "do_a"], 1.0, 1.0) == planned("aa", *twice)
    # A plan all done in its first words was written alongside the work; no earlier plan is equal.
    assert (["do_a", "do_b"], 1.0, 1.0) == planned("ab", turn("go", "done", A, B, todos(a="done", b="done")))


def test_a_step_that_a_later_plan_cancels_is_planned_no_more() -> None:
    item = turn(
        "go", "done", todos(a="pending", b="pending", c="pending"), A, todos(a="completed", b="cancelled", c="x"), C
    )
    assert (["do_a", "do_c"], 1.0, 1.0) == planned("ac", item)
    rest = turn("go", "done", todos(a="pending", b="pending"), A, todos(b="cancelled"))
    assert (["do_a"], 1.0, 1.0) == planned("a", rest)
    fenced = json.dumps({"steps": [{"tool": "do_b", "status": "skipped"}]})
    text = turn("go", "done", A, plans=("1. do_a\n2. do_b", f"Changed:\n```json\n{fenced}\n```"))
    assert (["do_a"], 1.0, 1.0) == planned("a", text)


def test_a_step_that_was_carried_over_is_not_reported_as_skipped() -> None:
    case = {"case_id": "c", "turns": [{"query": "go"}, {"query": "on", "answer": "42"}]}
    turns = (turn("go", "which?", todos(a="pending", b="pending"), A), turn("on", "done", todos(b="pending"), B))
    talk = conversation(*turns, case_id="c", closed_by="end_of_input")
    (about,) = subjects([case], [talk])
    assert "outcome" == scores_of(Verdict(), about)["verdict"].label
