"""What a real OTLP receiver gets of the scores of metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from otel_agentic.config import EvaluatorSettings
from otel_agentic.evaluators.base import Metric, MetricScore
from otel_agentic.evaluators.run import FailureRules, ScoreStatus
from otel_agentic.telemetry import MetricResult, names
from otel_agentic.telemetry.events import ConversationResult, ConversationResults
from tests.telemetry.builders import (
    CALL_SPAN_ID,
    NOON_NS,
    SECOND_NS,
    TRACE_ID,
    TURN_SPAN_ID,
    conversation,
    conversation_score,
    tool_call,
    turn,
)

if TYPE_CHECKING:
    from otel_agentic.telemetry import Telemetry
    from tests.telemetry.conftest import MakeTelemetry
    from tests.telemetry.receiver.over_http import HttpReceiver


@pytest.fixture
def telemetry(make_telemetry: MakeTelemetry, receiver: HttpReceiver) -> Telemetry:
    """Telemetry that emits an event of every metric."""
    return make_telemetry(receiver.endpoint, events="all")


OTHER_TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
OTHER_SPAN_ID = "1111111111111111"


def metric(**changes: Any) -> Metric:
    values: dict[str, Any] = {
        "name": "agentic.layers.plan_quality",
        "title": "Plan quality",
        "definition": "How good the plan is.",
        "source": "Our own",
        "target": "conversation",
    }
    return Metric(**{**values, **changes})


HELPFULNESS = metric(name="agentic.agentest.helpfulness", target="turn", low=1.0, high=5.0)
VERDICT = metric(name="agentic.layers.verdict", labels=("none", "reasoning", "action"), failing=frozenset({"action"}))
LATENCY = metric(name="agentic.operations.latency", target="turn", unit="s", high=None, higher_is_better=False)


def result(of: Metric, *, score_id: str = "f" * 32, **changes: Any) -> MetricResult:
    about = {
        name: changes.pop(name)
        for name in ("outcome", "severity", "threshold", "by_judge", "case_id")
        if name in changes
    }
    score = MetricScore(name=of.name, **changes)
    family = of.name.split(".")[1]
    return MetricResult(
        metric=of, score=score, evaluator=f"{family}.it", evaluator_version="3", score_id=score_id, **about
    )


def emitted(
    telemetry: Telemetry, receiver: HttpReceiver, results: Sequence[MetricResult], *, restated: bool = False
) -> list[tuple[dict[str, Any], Any]]:
    telemetry.record_metrics([ConversationResults(conversation(), results, restated)])
    assert telemetry.force_flush(5.0)
    return receiver.received.events()


def test_the_event_of_a_score_has_all_its_attributes(make_telemetry: MakeTelemetry, receiver: HttpReceiver) -> None:
    telemetry = make_telemetry(receiver.endpoint, events="all", explanations=True)
    scored = result(
        HELPFULNESS,
        value=2.0,
        turn_index=0,
        explanation="Turn 1 was not helped.",
        outcome="fail",
        severity="high",
        threshold=3.0,
        by_judge=True,
        case_id="case-1",
    )
    ((event, record),) = emitted(telemetry, receiver, [scored])
    assert event == {
        "gen_ai.evaluation.name": "agentic.agentest.helpfulness",
        "gen_ai.evaluation.score.value": 2.0,
        "gen_ai.evaluation.score.label": "fail",
        "gen_ai.evaluation.explanation": "Turn 1 was not helped.",
        "gen_ai.conversation.id": "conversation-1",
        "gen_ai.agent.name": "travel",
        "gen_ai.agent.version": "2.1.0",
        "gen_ai.response.id": "resp_1",
        "deployment.environment.name": "production",
        "agentic.subject.service.name": "concierge",
        "agentic.evaluation.target": "turn",
        "agentic.evaluation.id": "f" * 32,
        "agentic.evaluation.revision": 1,
        "agentic.evaluation.threshold": 3.0,
        "agentic.evaluator": "agentest.it",
        "agentic.evaluator.version": "3",
        "agentic.evaluator.type": "judge",
        "agentic.outcome": "fail",
        "agentic.severity": "high",
        "agentic.turn.index": 0,
        "agentic.case.id": "case-1",
        "agentic.run.id": "run-1",
        "agentic.trigger": "online",
    }
    assert (record.event_name, record.time_unix_nano) == ("gen_ai.evaluation.result", NOON_NS + 2 * SECOND_NS)


def test_explanations_stay_at_home_unless_asked_for_and_are_cut(
    make_telemetry: MakeTelemetry, receiver: HttpReceiver
) -> None:
    scored = result(VERDICT, label="action", explanation="x" * 5000)
    ((event, _),) = emitted(make_telemetry(receiver.endpoint, events="all"), receiver, [scored])
    assert "gen_ai.evaluation.explanation" not in event
    (_, (event, _)) = emitted(make_telemetry(receiver.endpoint, events="all", explanations=True), receiver, [scored])
    assert len(event["gen_ai.evaluation.explanation"]) == 1000


@pytest.mark.parametrize(
    ("events", "expected"), [("default", ["judged"]), ("all", ["judged", "computed"]), ("none", [])]
)
def test_events_are_emitted_of_the_metrics_that_the_setting_names(
    make_telemetry: MakeTelemetry, receiver: HttpReceiver, events: str, expected: list[str]
) -> None:
    results = [
        result(HELPFULNESS, value=2.0, turn_index=0, by_judge=True, score_id="judged"),
        result(LATENCY, value=2.0, turn_index=0, score_id="computed"),
    ]
    records = emitted(make_telemetry(receiver.endpoint, events=events), receiver, results)
    assert expected == [event["agentic.evaluation.id"] for event, _ in records]
    counted = receiver.received.values("agentic.metric.results", "gen_ai.evaluation.name")
    assert {(HELPFULNESS.name,): 1, (LATENCY.name,): 1} == counted


def test_events_stand_in_the_span_of_the_conversation_the_turn_or_the_call(
    telemetry: Telemetry, receiver: HttpReceiver
) -> None:
    last = turn(
        index=1, calls=(tool_call(span_id=None),), trace_id=OTHER_TRACE_ID, span_id=OTHER_SPAN_ID, ended_ns=NOON_NS
    )
    call = metric(name="agentic.layers.schema", target="call")
    results = [
        result(VERDICT, label="action", score_id="whole"),
        result(HELPFULNESS, value=4.0, turn_index=0, score_id="turn"),
        result(call, value=0.0, turn_index=0, position=0, tool_name="search", parameter="q", score_id="call"),
        result(call, value=0.0, turn_index=1, position=0, tool_name="search", score_id="call without a span"),
        result(HELPFULNESS, value=4.0, turn_index=7, score_id="no such turn"),
    ]
    telemetry.record_metrics([ConversationResults(conversation(turns=(turn(), last)), results)])
    assert telemetry.force_flush(5.0)
    events = {event["agentic.evaluation.id"]: (event, record) for event, record in receiver.received.events()}
    assert {name: (record.trace_id.hex(), record.span_id.hex()) for name, (_, record) in events.items()} == snapshot(
        {
            "whole": (OTHER_TRACE_ID, OTHER_SPAN_ID),
            "turn": (TRACE_ID, TURN_SPAN_ID),
            "call": (TRACE_ID, CALL_SPAN_ID),
            "call without a span": (OTHER_TRACE_ID, OTHER_SPAN_ID),
            "no such turn": ("", ""),
        }
    )
    event, record = events["call"]
    assert (event["agentic.evaluation.target"], event["gen_ai.tool.name"]) == ("tool_call", "search")
    assert event["agentic.tool.parameter"] == ["q"]
    assert record.time_unix_nano == NOON_NS + 2 * SECOND_NS


def test_a_judge_that_failed_is_an_error_without_a_score_and_no_failure_of_the_agent(
    telemetry: Telemetry, receiver: HttpReceiver
) -> None:
    results = [
        result(HELPFULNESS, reason="judge_error", turn_index=0, explanation="timed out", by_judge=True),
        result(VERDICT, reason="no_data"),
        result(HELPFULNESS, reason="budget_exhausted", turn_index=0, by_judge=True),
    ]
    ((event, _),) = emitted(telemetry, receiver, results)
    assert (event["error.type"], event["gen_ai.evaluation.score.label"]) == ("judge_error", "not_evaluated")
    assert not {"gen_ai.evaluation.score.value", "agentic.outcome", "agentic.severity"} & set(event)
    counted = receiver.received.values("agentic.metric.results", "agentic.outcome", "agentic.reason")
    assert counted == {
        ("not_evaluated", "judge_error"): 1,
        ("not_evaluated", "no_data"): 1,
        ("not_evaluated", "budget_exhausted"): 1,
    }
    assert "agentic.evaluation.score" not in receiver.received.by_name()


def test_results_are_counted_by_label_outcome_and_revision(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    failing = result(VERDICT, label="action", outcome="fail", severity="high")
    passing = result(VERDICT, label="none", outcome="pass")
    telemetry.record_metrics([ConversationResults(conversation(), [failing, passing])])
    emitted(telemetry, receiver, [failing], restated=True)
    counted = receiver.received.values(
        "agentic.metric.results",
        "gen_ai.evaluation.name",
        "gen_ai.evaluation.score.label",
        "agentic.outcome",
        "agentic.severity",
        "agentic.revision",
    )
    assert counted == {
        (VERDICT.name, "action", "fail", "high", "first"): 1,
        (VERDICT.name, "none", "pass", None, "first"): 1,
        (VERDICT.name, "action", "fail", "high", "restated"): 1,
    }


def test_equal_results_of_a_batch_are_counted_together(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    failing, passing = (result(VERDICT, label="action", outcome=outcome) for outcome in ("fail", "pass"))
    batch = [ConversationResults(conversation(), results) for results in ([failing, passing], [failing])]
    telemetry.record_metrics([*batch, ConversationResults(conversation(), [failing], restated=True)])
    assert telemetry.force_flush(5.0)
    assert receiver.received.values("agentic.metric.results", "agentic.outcome", "agentic.revision") == {
        ("fail", "first"): 2,
        ("pass", "first"): 1,
        ("fail", "restated"): 1,
    }


def test_a_label_that_the_metric_does_not_declare_makes_no_series_of_its_own(
    telemetry: Telemetry, receiver: HttpReceiver
) -> None:
    events = emitted(telemetry, receiver, [result(VERDICT, label=f"made up {number}") for number in range(30)])
    counted = receiver.received.values("agentic.metric.results", "gen_ai.evaluation.score.label")
    assert counted == {("other",): 30}
    assert len({event["gen_ai.evaluation.score.label"] for event, _ in events}) == 30


@pytest.mark.parametrize(
    ("of", "value", "expected"),
    [
        (metric(), 0.25, ("agentic.evaluation.score", 0.25, None)),
        (HELPFULNESS, 4.0, ("agentic.evaluation.score", 0.75, "1..5")),
        (LATENCY, 12.5, ("agentic.metric.duration", 12.5, None)),
        (metric(name="m.ms", unit="ms", high=None), 1500.0, ("agentic.metric.duration", 1.5, None)),
        (metric(name="m.usd", unit="{USD}", high=None), 0.02, ("agentic.metric.cost", 0.02, None)),
        (metric(name="m.tokens", unit="{token}", high=None), 900.0, ("agentic.metric.tokens", 900.0, None)),
        (metric(name="m.calls", unit="{call}", high=None), 3.0, ("agentic.metric.amount", 3.0, None)),
        (metric(name="m.open", high=None), 7.0, ("agentic.metric.amount", 7.0, None)),
    ],
)
def test_a_value_goes_into_the_histogram_of_its_unit(
    telemetry: Telemetry,
    receiver: HttpReceiver,
    of: Metric,
    value: float,
    expected: tuple[str, float, str | None],
) -> None:
    ((event, _),) = emitted(telemetry, receiver, [result(of, value=value)])
    assert event["gen_ai.evaluation.score.value"] == value  # events have it in its own unit and range
    instrument, recorded, between = expected
    ((attributes, point),) = receiver.received.points(instrument)
    assert (point.count, point.sum, attributes.get("agentic.evaluation.range")) == (1, recorded, between)
    assert attributes["gen_ai.evaluation.name"] == of.name
    (exemplar,) = point.exemplars
    assert (exemplar.trace_id.hex(), exemplar.span_id.hex()) == (TRACE_ID, TURN_SPAN_ID)


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_a_value_that_fits_no_histogram_is_counted_and_has_an_event(
    telemetry: Telemetry, receiver: HttpReceiver, value: float
) -> None:
    events = emitted(telemetry, receiver, [result(metric(name="m.any", low=None, high=None), value=value)])
    assert len(events) == 1
    assert receiver.received.values("agentic.metric.results") == {(): 1}
    assert "agentic.metric.amount" not in receiver.received.by_name()


def test_restated_values_are_not_measured_twice(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    emitted(telemetry, receiver, [result(metric(), value=0.5)])
    emitted(telemetry, receiver, [result(metric(), value=0.7)], restated=True)
    ((_, point),) = receiver.received.points("agentic.evaluation.score")
    assert (point.count, point.sum) == (1, 0.5)


def test_scores_of_metrics_share_the_histogram_of_the_outcome(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    telemetry.record_scores([ConversationResult(conversation(), conversation_score())])
    emitted(telemetry, receiver, [result(metric(), value=0.5)])
    series = {labels["gen_ai.evaluation.name"] for labels, _ in receiver.received.points("agentic.evaluation.score")}
    assert {"agentic.conversation", "agentic.answer", "agentic.layers.plan_quality"} <= series


def test_a_backfill_tells_events_of_metrics_and_counts_nothing(
    make_telemetry: MakeTelemetry, receiver: HttpReceiver
) -> None:
    telemetry = make_telemetry(receiver.endpoint, trigger="backfill", events="all")
    events = emitted(telemetry, receiver, [result(metric(), value=0.5)])
    assert [event["agentic.trigger"] for event, _ in events] == ["backfill"]
    assert {name for name in receiver.received.by_name() if "metric" in name or "score" in name} == set()


def test_hostile_names_are_cut_and_fit_for_utf_8(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    hostile = "\ud800" + "x" * 9000
    scored = result(VERDICT, label=hostile, tool_name=hostile, parameter=hostile)
    ((event, _),) = emitted(telemetry, receiver, [scored])
    assert len(event["gen_ai.evaluation.score.label"]) == len(event["gen_ai.tool.name"]) == 1024
    assert [len(name) for name in event["agentic.tool.parameter"]] == [256]


def test_every_metric_of_metrics_arrives_with_its_unit_and_bounds(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    units = ("1", "s", "{token}", "{USD}", "{call}")
    emitted(telemetry, receiver, [result(metric(name=f"m.{unit}", unit=unit), value=1.0) for unit in units])
    arrived = receiver.received.by_name()
    for instrument in names.METRIC_INSTRUMENTS:
        assert (instrument.name, arrived[instrument.name].unit) == (instrument.name, instrument.unit)
        if instrument.bounds is not None:
            ((_, point),) = receiver.received.points(instrument.name)
            assert tuple(point.explicit_bounds) == instrument.bounds


def test_how_a_score_stands_follows_the_settings_then_the_metric() -> None:
    settings = EvaluatorSettings.model_validate(
        {
            "thresholds": {"helpfulness": {"min": 3}, "latency": {"max": 10}},
            "severities": {"layers.verdict=action": "critical"},
        }
    )
    rules = FailureRules([HELPFULNESS, VERDICT, LATENCY, metric()], settings)

    def status_with(of: Metric, **changes: Any) -> ScoreStatus:
        return rules.status(MetricScore(name=of.name, **changes))

    assert ScoreStatus("fail", "medium", 3.0) == status_with(HELPFULNESS, value=2.0, turn_index=0)
    assert ScoreStatus("pass", None, 3.0) == status_with(HELPFULNESS, value=3.0, turn_index=0)
    assert ScoreStatus("fail", "medium", 10.0) == status_with(LATENCY, value=11.0, turn_index=0)
    assert ScoreStatus("fail", "critical", None) == status_with(VERDICT, label="action")
    assert ScoreStatus("pass", None, None) == status_with(VERDICT, label="none")
    assert ScoreStatus() == status_with(metric(), value=0.0)  # no setting defines a failure of it
    assert ScoreStatus(None, None, 3.0) == status_with(HELPFULNESS, reason="judge_error")
    assert ScoreStatus() == status_with(metric(name="gone.away"), value=0.0)
