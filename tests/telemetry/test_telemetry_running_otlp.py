from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE

from otel_agentic.spans.model import Receipt
from otel_agentic.telemetry import names
from otel_agentic.telemetry.events import ConversationResult
from tests.telemetry.builders import (
    CALL_SPAN_ID,
    TRACE_ID,
    TURN_SPAN_ID,
    conversation,
    conversation_score,
    failing_score,
    tool_call,
    tool_fault,
    tool_score,
    turn,
    turn_score,
)

if TYPE_CHECKING:
    from otel_agentic.scoring.model import ToolScore
    from otel_agentic.telemetry import Telemetry
    from tests.telemetry.conftest import MakeTelemetry
    from tests.telemetry.receiver.over_http import HttpReceiver


def _exemplars(receiver: HttpReceiver, metric: str) -> set[tuple[str, str]]:
    return {
        (exemplar.trace_id.hex(), exemplar.span_id.hex())
        for _, point in receiver.received.points(metric)
        for exemplar in point.exemplars
    }


def test_conversations_are_counted_by_outcome_reason_and_revision(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    telemetry.record_scores([ConversationResult(conversation(), conversation_score())])
    telemetry.record_scores([ConversationResult(conversation(), failing_score(), restated=True)])
    unmatched = conversation_score(outcome="not_evaluated", reason="unmatched", turns=(), tools=())
    telemetry.record_scores([ConversationResult(conversation(), unmatched)])
    assert telemetry.force_flush(5.0)
    counted = receiver.received.values(
        "agentic.evaluation.conversations", "agentic.outcome", "agentic.reason", "agentic.revision"
    )
    assert counted == {
        ("pass", None, "first"): 1,
        ("fail", "wrong_answer", "restated"): 1,
        ("not_evaluated", "unmatched", "first"): 1,
    }
    ((labels, _), *_) = receiver.received.points("agentic.evaluation.conversations")
    assert labels["gen_ai.agent.name"] == "travel"
    assert "gen_ai.conversation.id" not in labels


def test_counters_are_cumulative_and_monotonic(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    for expected in (1, 2):
        telemetry.record_scores([ConversationResult(conversation(), conversation_score())])
        assert telemetry.force_flush(5.0)
        assert set(receiver.received.values("agentic.evaluation.turns", "agentic.outcome").values()) == {expected}
    metric = receiver.received.by_name()["agentic.evaluation.turns"].sum
    assert (metric.is_monotonic, metric.aggregation_temporality) == (True, AGGREGATION_TEMPORALITY_CUMULATIVE)


def test_a_restatement_counts_the_conversation_and_nothing_twice(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    telemetry.record_scores([ConversationResult(conversation(), failing_score(), restated=True)])
    assert telemetry.force_flush(5.0)
    counted = {name for name in receiver.received.by_name() if name.startswith("agentic.evaluation.")}
    assert counted == {"agentic.evaluation.conversations"}


def test_scores_fall_into_buckets_of_a_tenth(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    telemetry.record_scores([ConversationResult(conversation(), failing_score())])
    assert telemetry.force_flush(5.0)
    metric = receiver.received.by_name()["agentic.evaluation.score"]
    assert metric.unit == "1"
    assert metric.histogram.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE
    points = {labels["gen_ai.evaluation.name"]: point for labels, point in receiver.received.points(metric.name)}
    assert set(points) == {
        "agentic.conversation",
        "agentic.answer",
        "agentic.tool.selection",
        "agentic.tool.parameters",
    }
    answer = points["agentic.answer"]
    assert list(answer.explicit_bounds) == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    assert (answer.count, answer.sum, list(answer.bucket_counts).index(1)) == (1, 0.2, 2)


def test_what_was_not_evaluated_has_no_score(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    failed_judge = turn_score(
        outcome="not_evaluated", reason="judge_error", answer_score=None, answer_outcome="not_evaluated"
    )
    score = conversation_score(outcome="not_evaluated", reason="judge_error", turns=(failed_judge,), tools=())
    telemetry.record_scores([ConversationResult(conversation(), score)])
    assert telemetry.force_flush(5.0)
    assert "agentic.evaluation.score" not in receiver.received.by_name()
    assert receiver.received.values("agentic.evaluation.turns", "agentic.outcome") == {("not_evaluated",): 1}


def test_tool_calls_are_counted_once_by_their_gravest_fault(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    calls = (tool_call(), tool_call(name="book", position=1), tool_call(name="pay", position=2))
    faults = (
        tool_fault(kind="wrong_order"),
        tool_fault(),
        tool_fault(kind="missing", tool_name="confirm", actual_position=None, span_id=None, parameter=None),
        tool_fault(kind="spurious", tool_name="pay", actual_position=2, expected_index=None),
    )
    score = conversation_score(tools=(tool_score(outcome="fail", faults=faults),))
    telemetry.record_scores([ConversationResult(conversation(turns=(turn(calls=calls),)), score)])
    assert telemetry.force_flush(5.0)
    counted = receiver.received.values("agentic.evaluation.tool_calls", "gen_ai.tool.name", "agentic.tool.fault")
    assert counted == {
        ("search", "wrong_parameters"): 1,
        ("book", "none"): 1,
        ("pay", "spurious"): 1,
        ("confirm", "missing"): 1,
    }


@pytest.mark.parametrize("tools", [(), (tool_score(outcome="not_evaluated", reason="content_not_captured"),)])
def test_calls_that_were_not_judged_are_not_counted(
    telemetry: Telemetry, receiver: HttpReceiver, tools: tuple[ToolScore, ...]
) -> None:
    telemetry.record_scores([ConversationResult(conversation(), conversation_score(tools=tools))])
    assert telemetry.force_flush(5.0)
    assert receiver.received.points("agentic.evaluation.tool_calls") == []


def test_tool_names_beyond_the_cap_become_other(make_telemetry: MakeTelemetry, receiver: HttpReceiver) -> None:
    telemetry = make_telemetry(receiver.endpoint, max_tool_names=2)
    calls = tuple(tool_call(name=f"tool-{index}", position=index) for index in range(5))
    for _ in range(2):
        telemetry.record_scores([ConversationResult(conversation(turns=(turn(calls=calls),)), conversation_score())])
    assert telemetry.force_flush(5.0)
    counted = receiver.received.values("agentic.evaluation.tool_calls", "gen_ai.tool.name")
    assert counted == {("tool-0",): 2, ("tool-1",): 2, ("other",): 6}


def test_exemplars_lead_to_the_judged_spans(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    telemetry.record_scores([ConversationResult(conversation(), failing_score())])
    assert telemetry.force_flush(5.0)
    of_turn, of_call = (TRACE_ID, TURN_SPAN_ID), (TRACE_ID, CALL_SPAN_ID)
    assert _exemplars(receiver, "agentic.evaluation.conversations") == {of_turn}
    assert _exemplars(receiver, "agentic.evaluation.turns") == {of_turn}
    assert _exemplars(receiver, "agentic.evaluation.score") == {of_turn}
    assert _exemplars(receiver, "agentic.evaluation.tool_calls") == {of_call}


def test_a_conversation_without_a_usable_span_is_counted_without_an_exemplar(
    telemetry: Telemetry, receiver: HttpReceiver
) -> None:
    telemetry.record_scores([ConversationResult(conversation(turns=()), conversation_score(turns=(), tools=()))])
    broken = conversation(turns=(turn(trace_id="nonsense"),))
    telemetry.record_scores([ConversationResult(broken, conversation_score())])
    assert telemetry.force_flush(5.0)
    assert set(receiver.received.values("agentic.evaluation.conversations", "agentic.outcome").values()) == {2}
    assert _exemplars(receiver, "agentic.evaluation.conversations") == set()


def test_received_spans_are_counted_by_result_and_reason(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    telemetry.record_receipt(Receipt(accepted=5, duplicate=2, rejected=3, reasons={"bad_id": 2, "empty_name": 1}))
    telemetry.record_receipt(Receipt(accepted=1, rejected=1, ignored=4, reasons={"bad_id": 1, "own_telemetry": 4}))
    assert telemetry.force_flush(5.0)
    assert receiver.received.values("agentic.ingest.spans", "agentic.result", "agentic.reason") == {
        ("accepted", None): 6,
        ("ignored", None): 4,
        ("duplicate", None): 2,
        ("rejected", "bad_id"): 2,
        ("rejected", "empty_name"): 1,
        ("rejected", None): 1,
    }


def test_late_spans_delays_and_open_conversations_arrive(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    telemetry.record_late(3)
    telemetry.record_delays("scored", [42.0])
    telemetry.record_delays("scored", [-1.0])  # clocks differ: never a negative delay
    for open_conversations in (7, 4):
        telemetry.set_open(open_conversations)
        assert telemetry.force_flush(5.0)
        assert receiver.received.values("agentic.conversations.open") == {(): open_conversations}
    assert receiver.received.values("agentic.ingest.late_spans") == {(): 3}
    metric = receiver.received.by_name()["agentic.evaluation.delay"]
    ((labels, point),) = receiver.received.points(metric.name)
    assert (metric.unit, labels, point.count, point.sum) == ("s", {"agentic.stage": "scored"}, 2, 42.0)


def test_every_running_metric_arrives_with_its_unit(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    telemetry.record_scores([ConversationResult(conversation(), failing_score())])
    telemetry.record_delays("closed", [1.0])
    assert telemetry.force_flush(5.0)
    arrived = {name: metric.unit for name, metric in receiver.received.by_name().items()}
    assert arrived == {instrument.name: instrument.unit for instrument in names.RUNNING_INSTRUMENTS}


def test_a_backfill_never_counts_into_live_series(make_telemetry: MakeTelemetry, receiver: HttpReceiver) -> None:
    telemetry = make_telemetry(receiver.endpoint, trigger="backfill")
    telemetry.record_scores([ConversationResult(conversation(), failing_score())])
    assert telemetry.force_flush(5.0)
    assert [name for name in receiver.received.by_name() if name.startswith("agentic.evaluation.")] == []
    assert receiver.received.events() != []
