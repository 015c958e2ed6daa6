from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from inline_snapshot import snapshot

from otel_agentic.telemetry.events import ConversationResult
from tests.snapshots import opening
from tests.telemetry.builders import (
    CALL_SPAN_ID,
    TRACE_ID,
    TURN_SPAN_ID,
    conversation,
    conversation_score,
    failing_score,
    turn,
    window_point,
)
from tests.telemetry.openmetrics import families

if TYPE_CHECKING:
    from prometheus_client.samples import Exemplar, Sample

    from otel_agentic.telemetry import Telemetry
    from tests.telemetry.conftest import MakeTelemetry

OPENMETRICS = "application/openmetrics-text;version=1.0.0"
#: What a Prometheus of 2023 sends.
PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)


@pytest.fixture
def scored(make_telemetry: MakeTelemetry) -> Telemetry:
    telemetry = make_telemetry()
    telemetry.set_windows([window_point()])
    telemetry.record_scores([ConversationResult(conversation(), failing_score())])
    telemetry.record_delays("scored", [0.2])
    return telemetry


def samples(telemetry: Telemetry) -> list[Sample]:
    _, text = telemetry.render(OPENMETRICS)
    return [sample for family in families(text.decode()) for sample in family.samples]


def exemplars(telemetry: Telemetry, name: str) -> list[Exemplar]:
    return [sample.exemplar for sample in samples(telemetry) if sample.name == name and sample.exemplar]


@pytest.mark.parametrize("accept", [OPENMETRICS, PROMETHEUS])
def test_openmetrics_is_served_to_those_who_ask_for_it(scored: Telemetry, accept: str) -> None:
    content_type, text = scored.render(accept)
    assert opening(content_type) == snapshot("application/openmetrics-text; version=1.0.0; charset=utf-8")
    assert text.endswith(b"# EOF\n")


@pytest.mark.parametrize("accept", ["", "*/*", "text/plain", "text/html", "nonsense;;q=x,,"])
def test_everybody_else_gets_plain_text_without_exemplars(scored: Telemetry, accept: str) -> None:
    content_type, text = scored.render(accept)
    assert content_type == snapshot("text/plain; version=0.0.4; charset=utf-8")
    assert TRACE_ID.encode() not in text


def test_counters_and_buckets_lead_to_the_judged_spans(scored: Telemetry) -> None:
    of_turn, of_call = {"trace_id": TRACE_ID, "span_id": TURN_SPAN_ID}, {"trace_id": TRACE_ID, "span_id": CALL_SPAN_ID}
    assert [sample.labels for sample in exemplars(scored, "agentic_evaluation_conversations_total")] == [of_turn]
    assert [sample.labels for sample in exemplars(scored, "agentic_evaluation_turns_total")] == [of_turn]
    assert [sample.labels for sample in exemplars(scored, "agentic_evaluation_tool_calls_total")] == [of_call]
    scores = exemplars(scored, "agentic_evaluation_score_bucket")
    assert {tuple(sorted(sample.labels.items())) for sample in scores} == {tuple(sorted(of_turn.items()))}


def test_the_exemplar_of_a_bucket_lies_in_it_and_in_no_other(scored: Telemetry) -> None:
    answers = [
        sample
        for sample in samples(scored)
        if sample.name == "agentic_evaluation_score_bucket"
        and sample.labels["gen_ai_evaluation_name"] == "agentic.answer"
    ]
    assert [(sample.labels["le"], sample.exemplar.value) for sample in answers if sample.exemplar] == [("0.2", 0.2)]


def test_an_exemplar_has_the_time_of_its_measurement(scored: Telemetry) -> None:
    (sample,) = exemplars(scored, "agentic_evaluation_turns_total")
    assert sample.timestamp is not None
    assert float(sample.timestamp) > 1_700_000_000


def test_a_counter_shows_its_newest_exemplar_and_keeps_it(scored: Telemetry) -> None:
    def trace_ids() -> list[str]:
        return [sample.labels["trace_id"] for sample in exemplars(scored, "agentic_evaluation_conversations_total")]

    assert [trace_ids(), trace_ids()] == [[TRACE_ID], [TRACE_ID]]
    later = conversation(turns=(turn(trace_id="1" * 32),))
    scored.record_scores([ConversationResult(later, failing_score())])
    assert [trace_ids(), trace_ids()] == [["1" * 32], ["1" * 32]]


def test_each_outcome_leads_to_its_own_conversation(scored: Telemetry) -> None:
    passing = "2" * 32
    scored.record_scores([ConversationResult(conversation(turns=(turn(trace_id=passing),)), conversation_score())])
    trace_ids = {
        sample.labels["agentic_outcome"]: sample.exemplar.labels["trace_id"]
        for sample in samples(scored)
        if sample.name == "agentic_evaluation_conversations_total" and sample.exemplar
    }
    assert trace_ids == {"fail": TRACE_ID, "pass": passing}


def test_both_formats_show_the_same_series(scored: Telemetry) -> None:
    _, plain = scored.render()
    series = {line.split(" ")[0] for line in plain.decode().splitlines() if not line.startswith("#")}
    _, text = scored.render(OPENMETRICS)
    assert {line.split(" ")[0] for line in text.decode().splitlines() if not line.startswith("#")} == series
