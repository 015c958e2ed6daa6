from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inline_snapshot import snapshot

from otel_agentic.evaluators.score_ids import core_score_id
from otel_agentic.telemetry import Evaluator, names, results_of
from otel_agentic.telemetry.events import ConversationResult
from otel_agentic.telemetry.observer import MAX_PARAMETERS
from tests.telemetry.builders import (
    CALL_SPAN_ID,
    NOON_NS,
    SECOND_NS,
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
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.scoring.model import ConversationScore
    from otel_agentic.telemetry import Telemetry
    from tests.telemetry.conftest import MakeTelemetry
    from tests.telemetry.receiver.over_http import HttpReceiver

OTHER_TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
OTHER_SPAN_ID = "1111111111111111"


def _emitted(
    telemetry: Telemetry, receiver: HttpReceiver, evaluated: Conversation, score: ConversationScore
) -> dict[str, tuple[dict[str, Any], Any]]:
    telemetry.record_scores([ConversationResult(evaluated, score)])
    assert telemetry.force_flush(5.0)
    return {event["gen_ai.evaluation.name"]: (event, record) for event, record in receiver.received.events()}


def test_each_target_and_evaluation_gives_one_event(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    telemetry.record_scores([ConversationResult(conversation(), failing_score())])
    assert telemetry.force_flush(5.0)
    emitted = [
        (event["gen_ai.evaluation.name"], event["agentic.evaluation.target"], event["gen_ai.evaluation.score.label"])
        for event, _ in receiver.received.events()
    ]
    assert sorted(emitted) == [
        ("agentic.answer", "turn", "fail"),
        ("agentic.conversation", "conversation", "fail"),
        ("agentic.tool.call", "tool_call", "fail"),
        ("agentic.tool.parameters", "turn", "fail"),
        ("agentic.tool.selection", "turn", "pass"),
    ]


def test_events_have_the_standard_name_our_scope_and_resource(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    events = _emitted(telemetry, receiver, conversation(), failing_score())
    assert {record.event_name for _, record in events.values()} == {"gen_ai.evaluation.result"}
    assert {record.severity_text for _, record in events.values()} == {"INFO"}
    assert [record.body.string_value for name, (_, record) in events.items() if name == "agentic.answer"] == [
        "agentic.answer: fail"
    ]
    (resource,) = receiver.received.logs[-1].resource_logs
    assert {scope.scope.name for scope in resource.scope_logs} == {"otel_agentic"}
    assert {names.SCHEMA_URL} == {resource.schema_url, *(scope.schema_url for scope in resource.scope_logs)}
    assert ("service.name", "otel-agentic") in {
        (pair.key, pair.value.string_value) for pair in resource.resource.attributes
    }


def test_an_answer_event_has_all_its_attributes(make_telemetry: MakeTelemetry, receiver: HttpReceiver) -> None:
    evaluator = Evaluator(version="abc123", answers="judge", answer_threshold=0.7, tool_threshold=1.0)
    telemetry = make_telemetry(receiver.endpoint, trigger="cli", evaluator=evaluator)
    event, record = _emitted(telemetry, receiver, conversation(), conversation_score())["agentic.answer"]
    identity = event.pop("agentic.evaluation.id")
    assert len(identity) == 32
    assert event == {
        "gen_ai.evaluation.name": "agentic.answer",
        "gen_ai.evaluation.score.value": 0.95,
        "gen_ai.evaluation.score.label": "pass",
        "gen_ai.conversation.id": "conversation-1",
        "gen_ai.agent.name": "travel",
        "gen_ai.agent.version": "2.1.0",
        "gen_ai.response.id": "resp_1",
        "deployment.environment.name": "production",
        "agentic.subject.service.name": "concierge",
        "agentic.evaluation.target": "turn",
        "agentic.evaluation.threshold": 0.7,
        "agentic.evaluation.revision": 1,
        "agentic.evaluator": "core",
        "agentic.evaluator.version": "abc123",
        "agentic.evaluator.type": "judge",
        "agentic.turn.index": 0,
        "agentic.case.id": "case-1",
        "agentic.match.method": "case_id",
        "agentic.run.id": "run-1",
        "agentic.trigger": "cli",
    }
    assert record.time_unix_nano == NOON_NS + 2 * SECOND_NS


def test_events_stand_in_the_context_of_the_span_they_judge(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    last = turn(index=1, calls=(), trace_id=OTHER_TRACE_ID, span_id=OTHER_SPAN_ID, ended_ns=NOON_NS + 9 * SECOND_NS)
    evaluated = conversation(turns=(turn(), last), ended_ns=NOON_NS + 10 * SECOND_NS)
    events = _emitted(telemetry, receiver, evaluated, failing_score())
    context = {
        name: (record.trace_id.hex(), record.span_id.hex(), record.flags & 1, record.time_unix_nano - NOON_NS)
        for name, (_, record) in events.items()
    }
    assert context["agentic.conversation"] == (OTHER_TRACE_ID, OTHER_SPAN_ID, 1, 10 * SECOND_NS)
    assert context["agentic.answer"] == (TRACE_ID, TURN_SPAN_ID, 1, 2 * SECOND_NS)
    assert context["agentic.tool.selection"] == (TRACE_ID, TURN_SPAN_ID, 1, 2 * SECOND_NS)
    assert context["agentic.tool.call"] == (TRACE_ID, CALL_SPAN_ID, 1, 2 * SECOND_NS)


def test_a_call_at_fault_names_tool_fault_and_parameters(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    faults = (tool_fault(parameter="n"), tool_fault(parameter="city"), tool_fault(kind="wrong_order", parameter=None))
    score = failing_score(tools=(tool_score(outcome="fail", faults=faults),))
    event, _ = _emitted(telemetry, receiver, conversation(), score)["agentic.tool.call"]
    assert event["gen_ai.tool.name"] == "search"
    assert event["agentic.tool.fault"] == "wrong_parameters"
    assert event["agentic.tool.parameter"] == ["city", "n"]
    assert event["agentic.turn.index"] == 0


def test_an_event_names_no_more_parameters_than_fit(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    faults = tuple(tool_fault(parameter=f"p{number:03}") for number in range(MAX_PARAMETERS + 5))
    score = failing_score(tools=(tool_score(outcome="fail", faults=faults),))
    event, _ = _emitted(telemetry, receiver, conversation(), score)["agentic.tool.call"]
    assert event["agentic.tool.parameter"] == [f"p{number:03}" for number in range(MAX_PARAMETERS)]


def test_a_missing_call_points_at_its_turn(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    fault = tool_fault(kind="missing", actual_position=None, span_id=None, parameter=None)
    score = failing_score(tools=(tool_score(outcome="fail", faults=(fault,)),))
    event, record = _emitted(telemetry, receiver, conversation(), score)["agentic.tool.call"]
    assert (event["agentic.tool.fault"], record.span_id.hex()) == ("missing", TURN_SPAN_ID)


def test_a_call_known_from_messages_alone_points_at_its_turn(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    evaluated = conversation(turns=(turn(calls=(tool_call(span_id=None),)),))
    score = failing_score(tools=(tool_score(outcome="fail", faults=(tool_fault(span_id=None),)),))
    _, record = _emitted(telemetry, receiver, evaluated, score)["agentic.tool.call"]
    assert record.span_id.hex() == TURN_SPAN_ID


def test_a_failed_judge_is_an_error_without_a_score(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    failed = turn_score(
        outcome="not_evaluated",
        reason="judge_error",
        answer_score=None,
        answer_outcome="not_evaluated",
        answer_reason="judge_error",
    )
    score = conversation_score(outcome="not_evaluated", reason="judge_error", turns=(failed,), tools=())
    events = _emitted(telemetry, receiver, conversation(), score)
    for name in ("agentic.answer", "agentic.conversation"):
        event, _ = events[name]
        assert event["error.type"] == "judge_error"
        assert event["gen_ai.evaluation.score.label"] == "not_evaluated"
        assert "gen_ai.evaluation.score.value" not in event


def test_what_could_not_be_evaluated_has_a_reason_no_error_and_no_score(
    telemetry: Telemetry, receiver: HttpReceiver
) -> None:
    score = conversation_score(
        outcome="not_evaluated", reason="unmatched", turns=(), tools=(), case_id=None, match_method=None
    )
    events = _emitted(telemetry, receiver, conversation(), score)
    assert set(events) == {"agentic.conversation"}
    event, _ = events["agentic.conversation"]
    assert event["agentic.reason"] == "unmatched"
    absent = {"error.type", "gen_ai.evaluation.score.value", "agentic.case.id", "agentic.match.method"}
    assert absent & set(event) == set()


def test_an_unsure_verdict_keeps_its_score_in_the_event_without_an_error(
    telemetry: Telemetry, receiver: HttpReceiver
) -> None:
    open_turn = turn_score(
        outcome="not_evaluated",
        reason="judge_unsure",
        answer_score=0.5,
        answer_outcome="not_evaluated",
        answer_reason="judge_unsure",
    )
    score = conversation_score(outcome="not_evaluated", reason="judge_unsure", turns=(open_turn,), tools=())
    event, _ = _emitted(telemetry, receiver, conversation(), score)["agentic.answer"]
    assert ("not_evaluated", 0.5, "judge_unsure", None) == tuple(
        event.get(name)
        for name in ("gen_ai.evaluation.score.label", "gen_ai.evaluation.score.value", "agentic.reason", "error.type")
    )
    assert receiver.received.points("agentic.evaluation.conversations")
    assert not receiver.received.points("agentic.evaluation.score")


def test_a_given_label_is_named_as_the_evaluator(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    score = conversation_score(outcome="fail", reason="verdict", outcome_source="labels")
    event, _ = _emitted(telemetry, receiver, conversation(), score)["agentic.conversation"]
    assert (event["agentic.evaluator.type"], event["gen_ai.evaluation.score.value"]) == ("label", 0.0)


def test_explanations_are_left_out_unless_wanted(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    events = _emitted(telemetry, receiver, conversation(), failing_score())
    assert [event for event, _ in events.values() if "gen_ai.evaluation.explanation" in event] == []


def test_wanted_explanations_are_cut(make_telemetry: MakeTelemetry, receiver: HttpReceiver) -> None:
    telemetry = make_telemetry(receiver.endpoint, explanations=True)
    score = failing_score(explanation="long " * 1000)
    events = _emitted(telemetry, receiver, conversation(), score)
    assert len(events["agentic.conversation"][0]["gen_ai.evaluation.explanation"]) == 1000
    call, _ = events["agentic.tool.call"]
    assert call["gen_ai.evaluation.explanation"] == snapshot(
        'search in turn 1: parameter q was "hotels", expected "inns"'
    )


def test_events_can_be_switched_off(make_telemetry: MakeTelemetry, receiver: HttpReceiver) -> None:
    telemetry = make_telemetry(receiver.endpoint, events="none")
    telemetry.record_scores([ConversationResult(conversation(), failing_score())])
    assert telemetry.force_flush(5.0)
    assert telemetry.enabled == ("prometheus", "metrics")
    assert receiver.received.events() == []


def test_hostile_text_in_ids_does_not_lose_the_batch(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    hostile = "\ud800" + "x" * 100_000
    evaluated = conversation(conversation_id=hostile, agent_name=hostile, turns=(turn(response_id=hostile),))
    events = _emitted(telemetry, receiver, evaluated, failing_score(conversation_id=hostile, case_id=hostile))
    assert len(events) == 5
    assert max(len(str(value)) for event, _ in events.values() for value in event.values()) == 1024


def _ids(score: ConversationScore, evaluator: Evaluator) -> list[str]:
    version = evaluator.version or ""
    results = results_of(conversation(), score, evaluator)
    return [core_score_id(score, version, result.name, result.position) for result in results]


def test_ids_are_distinct_within_a_score_and_the_same_in_every_run() -> None:
    faults = (
        tool_fault(kind="missing", actual_position=None, expected_index=1),
        tool_fault(kind="missing", actual_position=None, expected_index=2),
        tool_fault(),
    )
    score = failing_score(tools=(tool_score(outcome="fail", faults=faults), tool_score(turn_index=None)))
    ids = _ids(score, Evaluator(version="v1"))
    assert len(set(ids)) == len(ids)
    assert _ids(score, Evaluator(version="v1")) == ids


def test_another_revision_or_evaluator_gives_other_ids() -> None:
    base = set(_ids(failing_score(), Evaluator(version="v1")))
    assert base & set(_ids(failing_score(revision=2), Evaluator(version="v1"))) == set()
    assert base & set(_ids(failing_score(), Evaluator(version="v2"))) == set()
    assert base & set(_ids(failing_score(environment="staging"), Evaluator(version="v1"))) == set()
