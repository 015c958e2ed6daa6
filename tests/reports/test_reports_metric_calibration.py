"""Judged metrics compared with annotations: agreement, corrected pass rates, and the items left out, with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from otel_agentic.commands import Commands
from otel_agentic.errors import UsageError
from otel_agentic.judges import Question, Verdict
from otel_agentic.stats.judge_error import VerdictPair, corrected
from otel_agentic.testing import NOON_NS, SECOND_NS, AgentRunScript, speak_genai
from tests.builders import feed, rows
from tests.judges.parts import Answer, PlainJudge

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from tests.stores import CopyOf, PreparedStore

METRIC = "agentic.agentest.goal_completion"
#: Judge and person, by conversation: 20 both pass, 3 and 2 differ, 10 both fail.
PAIRS = [(True, True)] * 20 + [(True, False)] * 3 + [(False, True)] * 2 + [(False, False)] * 10
#: Conversations without an annotation, and how the judge decides.
OTHERS = [True] * 18 + [False] * 7


class RubricJudge(PlainJudge):
    """A judge of answers and rubrics."""

    kinds = frozenset({"answer", "rubric"})


def by_text(question: Question) -> Answer:
    """Return the label that the answer in the transcript asks for."""
    texts = " ".join(text for _, text in question.texts)
    return Verdict(score=0.0, reasoning="by its text", label="completed" if "booked" in texts else "not_completed")


def trips(engine: Engine) -> None:
    """Store conversations whose goals a judge assessed."""
    engine.runner.judge = RubricJudge(by_text)
    spans = []
    for number, passes in enumerate([*(judge for judge, _ in PAIRS), *OTHERS]):
        script = AgentRunScript(conversation_id=f"c{number:02}").ask("Book a hotel")
        script = script.answers("It is booked." if passes else "There is no room.")
        spans.append(speak_genai(script, start_ns=NOON_NS + number * 3600 * SECOND_NS))
    feed(engine, *spans)
    Commands(engine).evaluate(metrics=["goal_completion"])


def annotated_trips(engine: Engine) -> None:
    """Store them with the verdicts of a person."""
    trips(engine)
    annotate_pairs(Commands(engine))


@pytest.fixture
def commands(copy_of: CopyOf, prepared_store: PreparedStore) -> Commands:
    engine = copy_of(prepared_store(trips))
    engine.runner.judge = RubricJudge(by_text)
    return Commands(engine)


@pytest.fixture
def annotated(copy_of: CopyOf, prepared_store: PreparedStore) -> Commands:
    engine = copy_of(prepared_store(annotated_trips))
    engine.runner.judge = RubricJudge(by_text)
    return Commands(engine)


def annotate(commands: Commands, number: int, verdict: str, annotator: str = "ana", **options: Any) -> None:
    arguments = {"conversation_id": f"c{number:02}", "verdict": verdict, "annotator": annotator, "name": METRIC}
    commands.call("label", {**arguments, **options})


def annotate_pairs(commands: Commands) -> None:
    for number, (_, human) in enumerate(PAIRS):
        annotate(commands, number, "pass" if human else "fail")


def metric_of(calibration: dict[str, Any]) -> dict[str, Any]:
    (metric,) = calibration["metrics"]
    return dict(metric)


def test_agreement_and_corrected_rates_are_those_of_the_pairs(annotated: Commands) -> None:
    result = annotated.judge_calibrate(metrics=["goal_completion"], random_sample=True)
    metric = metric_of(result)

    pairs = [VerdictPair(judge=judge, human=human, case=("", str(n))) for n, (judge, human) in enumerate(PAIRS)]
    expected = corrected(pairs, [(("", f"other {n}"), passes) for n, passes in enumerate(OTHERS)], 0.95)
    assert (METRIC, "conversation", ["ana"], 35) == tuple(
        metric[name] for name in ("metric", "target", "annotators", "n")
    )
    assert {"both_pass": 20, "false_pass": 3, "false_fail": 2, "both_fail": 10} == metric["confusion"]
    assert metric["agreement"]["value"] == pytest.approx(30 / 35)
    for name in ("raw", "human", "ppi", "rogan_gladen"):
        rate = metric["corrected"][name]
        assert [rate["value"], rate["lower"], rate["upper"]] == pytest.approx(
            [getattr(getattr(expected, name), part) for part in ("value", "lower", "upper")]
        )
    assert (result["turn"], result["conversation"]) == (None, None)


def test_without_a_random_sample_or_with_few_annotations_no_rate_is_corrected(commands: Commands) -> None:
    annotate(commands, 0, "pass")
    few = metric_of(commands.judge_calibrate(random_sample=True))
    assert (few["corrected"], few["not_corrected"]) == (
        None,
        "only 1 annotated items have a score; 10 are needed",
    )
    annotate_pairs(commands)
    selected = metric_of(commands.judge_calibrate())
    assert selected["corrected"] is None
    assert "not a random sample" in selected["not_corrected"]


def test_what_has_no_verdict_is_counted_with_its_reason(commands: Commands) -> None:
    annotate(commands, 0, "pass")
    annotate(commands, 1, "pass")
    annotate(commands, 1, "fail", "ben")
    annotate(commands, 2, "unsure")
    with_scores = metric_of(commands.judge_calibrate())
    assert (1, 1) == (with_scores["n"], with_scores["disagreements"])
    assert [(1, ["ana", "ben"])] == [
        (a["disagreements"], a["annotators"]) for a in [commands.judge_calibrate()["annotators"]]
    ]

    annotate(commands, 3, "pass", name="agent_behavior_failure", turn=1)
    not_scored = commands.judge_calibrate(metrics=["agent_behavior_failure"])["metrics"]
    assert [(0, {"not_scored": 1})] == [(metric["n"], metric["not_judged"]) for metric in not_scored]


def test_every_metric_with_annotations_is_compared_and_stored_apart_from_answers(annotated: Commands) -> None:
    annotated.judge_calibrate(random_sample=True)

    engine = annotated.engine
    assert [(METRIC, "conversation", 35, 20, True)] == rows(
        engine, "SELECT metric, target, n, both_pass, random_sample FROM judge_calibrations"
    )
    assert [(35,)] == rows(engine, "SELECT count(*) FROM calibration_verdicts WHERE metric LIKE '%goal_completion'")
    (group,) = annotated.report(k=[1])["groups"]
    assert group["corrected"] is None  # outcomes were not annotated


def test_an_unknown_metric_is_refused(commands: Commands) -> None:
    with pytest.raises(UsageError, match="no metric 'goal_compleshun'"):
        commands.judge_calibrate(metrics=["goal_compleshun"])
