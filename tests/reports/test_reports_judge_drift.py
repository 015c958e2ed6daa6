"""Drift of a judge: frozen verdicts on annotated answers and metrics are compared with new ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from otel_agentic.commands import Commands
from otel_agentic.errors import BadInputError
from otel_agentic.judges import JudgeFailure, Question, Verdict
from otel_agentic.stats.annotators import mcnemar
from otel_agentic.testing import NOON_NS, SECOND_NS, AgentRunScript, speak_genai
from tests.builders import feed, rows
from tests.judges.parts import Answer, PlainJudge

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_agentic.engine.engine import Engine
    from tests.stores import CopyOf, PreparedStore

CASES = [("cases.jsonl", json.dumps({"case_id": "c", "turns": [{"query": "Which number?", "answer": "7"}]}))]
SIZE = 20
METRIC = "agentic.agentest.goal_completion"


class RubricJudge(PlainJudge):
    """A judge of answers and rubrics."""

    kinds = frozenset({"answer", "rubric"})


def number_of(question: Question) -> int:
    texts = " ".join(text for _, text in question.texts)
    return next(number for number in range(SIZE) if f"number {number:02}" in texts)


def deciding(passes: Callable[[int], bool]) -> RubricJudge:
    """Return a judge that decides by the number in the answer."""

    def reply(question: Question) -> Answer:
        right = passes(number_of(question))
        label = None if question.kind == "answer" else "completed" if right else "not_completed"
        return Verdict(score=float(right), reasoning="by the number", label=label, model="m", input_tokens=1)

    return RubricJudge(reply)


def half(number: int) -> bool:
    return number < SIZE // 2


def annotated(engine: Engine) -> None:
    """Store conversations of which people and the judge pass the first half, with annotated answers and goals."""
    engine.runner.judge = deciding(half)
    spans = []
    for number in range(SIZE):
        script = AgentRunScript(conversation_id=f"c{number:02}").ask("Which number?").answers(f"number {number:02}")
        spans.append(speak_genai(script, start_ns=NOON_NS + number * 3600 * SECOND_NS))
    feed(engine, *spans)
    commands = Commands(engine)
    commands.evaluate(cases=CASES, metrics=["goal_completion"])
    for number in range(SIZE):
        verdict = "pass" if half(number) else "fail"
        common = {"conversation_id": f"c{number:02}", "verdict": verdict, "annotator": "ana"}
        commands.call("label", {**common, "name": "answer", "turn": 1})
        commands.call("label", {**common, "name": METRIC})


def frozen(engine: Engine) -> None:
    """Store the same, and freeze the verdicts."""
    annotated(engine)
    assert {"answer": SIZE, METRIC: SIZE} == Commands(engine).judge_freeze()["anchors"]


@pytest.fixture
def commands(copy_of: CopyOf, prepared_store: PreparedStore) -> Commands:
    return Commands(copy_of(prepared_store(frozen)))


def drift(commands: Commands, judge: PlainJudge, **options: Any) -> dict[str, dict[str, Any]]:
    commands.engine.runner.judge = judge
    result = commands.judge_drift(**options)
    return {item["name"]: item for item in result["anchors"]} | {"": result}


def test_the_same_verdicts_are_no_drift_and_each_anchor_is_asked_again(commands: Commands) -> None:
    judge = deciding(half)
    result = drift(commands, judge)

    assert sum(judge.requests.values()) == 2 * SIZE  # nothing comes from the cache
    assert not result[""]["drifted"]
    assert [] == result[""]["flips"]
    for name in ("answer", METRIC):
        assert (SIZE, 1.0, 1.0) == tuple(result[name][key] for key in ("n", "agreement_before", "agreement_now"))
        assert result[name]["verdict"] == "no drift: all verdicts are the same"


def test_a_lenient_judge_has_drifted_in_both_tests(commands: Commands) -> None:
    result = drift(commands, deciding(lambda _: True))

    assert result[""]["drifted"]
    assert SIZE == len(result[""]["flips"])  # ten answers and ten scores
    for name in ("answer", METRIC):
        item = result[name]
        assert (10, 0, 0, 10) == tuple(item[key] for key in ("to_pass", "to_fail", "corrected", "spoiled"))
        assert [item["p_verdicts"], item["p_agreement"]] == pytest.approx([mcnemar(10, 0), mcnemar(0, 10)])
        assert item["agreement_now"] == 0.5
        assert item["verdict"] == "drift: the judge passes more than before and agrees less with people"


def test_flips_in_both_directions_change_the_agreement_and_not_the_leniency(commands: Commands) -> None:
    item = drift(commands, deciding(lambda number: half(number) != (number % 10 < 6)))["answer"]

    assert (6, 6, 0, 12) == tuple(item[key] for key in ("to_pass", "to_fail", "corrected", "spoiled"))
    assert (1.0, True) == (item["p_verdicts"], item["drifted"])
    assert item["verdict"] == "drift: the judge agrees less with people"


def test_few_flips_are_named_and_are_no_drift(commands: Commands) -> None:
    result = drift(commands, deciding(lambda number: number < 11), metrics=["answer"])

    assert ["", "answer"] == sorted(result)
    assert not result[""]["drifted"]
    assert [("c10", 1, "fail", "fail", "pass")] == [
        tuple(flip[key] for key in ("conversation_id", "turn", "human", "before", "now"))
        for flip in result[""]["flips"]
    ]


def test_scores_keep_their_verdicts_and_the_budget_counts_the_new_ones(commands: Commands) -> None:
    scores = "SELECT * FROM conversation_scores ORDER BY ALL"
    before, calls = rows(commands.engine, scores), commands.judge_cache()["budget"]["calls"]
    drift(commands, deciding(lambda _: True))
    commands.engine.runner.judge = deciding(half)

    assert commands.judge_cache()["budget"]["calls"] == calls + 2 * SIZE
    commands.evaluate(metrics=["none"], force=True)
    assert ["pass"] * 10 + ["fail"] * 10 == [
        outcome
        for (outcome,) in rows(
            commands.engine, "SELECT outcome FROM conversation_scores WHERE NOT superseded ORDER BY conversation_id"
        )
    ]
    assert len(before) == SIZE


def test_a_changed_case_leaves_the_frozen_question_as_it_was_and_failures_are_counted(commands: Commands) -> None:
    requested: list[str] = []

    def failing(question: Question) -> Answer:
        requested.append(question.expected)
        return JudgeFailure(reason="judge_error", message="refused", tries=1)

    commands.truth_import(cases=[("cases.jsonl", CASES[0][1].replace('"7"', '"8"'))])
    item = drift(commands, RubricJudge(failing), metrics=["answer"])["answer"]

    assert {"7"} == set(requested)
    assert (0, {"judge_error": SIZE}, None, False) == tuple(
        item[key] for key in ("n", "not_judged", "agreement_now", "drifted")
    )


def test_without_annotations_or_anchors_the_next_step_is_named(copy_of: CopyOf, prepared_store: PreparedStore) -> None:
    engine = copy_of(prepared_store(annotated))
    with pytest.raises(BadInputError, match="judge drift --freeze"):
        Commands(engine).judge_drift()
    with pytest.raises(BadInputError, match="otel-agentic label ID"):
        Commands(engine).judge_freeze(metrics=["agent_behavior_failure"])


def test_a_metric_that_always_passes_cannot_drift_and_an_unscored_annotation_names_the_next_step(
    commands: Commands,
) -> None:
    scale = "agentic.agentest.helpfulness"
    common = {"verdict": "pass", "annotator": "ana", "name": scale, "turn": 1}
    commands.call("label", {"conversation_id": "c00", **common})
    with pytest.raises(BadInputError, match=r"1 not_scored.*evaluate --metrics NAME"):
        commands.judge_freeze(metrics=[scale])

    commands.engine.runner.judge = RubricJudge(lambda _: Verdict(score=5.0, reasoning="good", model="m"))
    commands.evaluate(metrics=["agentest.helpfulness"])
    commands.judge_freeze(metrics=[scale])
    result = drift(
        commands,
        RubricJudge(lambda _: Verdict(score=1.0, reasoning="bad", model="m")),
        metrics=["agentest.helpfulness"],
    )
    assert "cannot drift: the metric has neither failing labels nor a threshold" in result[scale]["verdict"]
