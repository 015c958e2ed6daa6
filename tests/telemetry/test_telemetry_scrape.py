from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from inline_snapshot import snapshot
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from otel_agentic.spans.model import Receipt
from otel_agentic.telemetry.events import ConversationResult
from tests.telemetry.builders import agents, conversation, empty_window_point, failing_score, window_point

if TYPE_CHECKING:
    from prometheus_client.samples import Sample

    from otel_agentic.telemetry import Telemetry
    from tests.telemetry.conftest import MakeTelemetry

#: Prometheus name -> type, for every row of the table of emitted metrics.
PROMETHEUS_NAMES = {
    "agentic_evaluation_conversations_total": "counter",
    "agentic_evaluation_turns_total": "counter",
    "agentic_evaluation_tool_calls_total": "counter",
    "agentic_evaluation_score_bucket": "histogram",
    "agentic_evaluation_score_sum": "histogram",
    "agentic_evaluation_score_count": "histogram",
    "agentic_success_ratio": "gauge",
    "agentic_success_lower_ratio": "gauge",
    "agentic_success_upper_ratio": "gauge",
    "agentic_pass_at_k_ratio": "gauge",
    "agentic_pass_at_k_lower_ratio": "gauge",
    "agentic_pass_at_k_upper_ratio": "gauge",
    "agentic_pass_pow_k_ratio": "gauge",
    "agentic_pass_pow_k_lower_ratio": "gauge",
    "agentic_pass_pow_k_upper_ratio": "gauge",
    "agentic_tool_correctness_ratio": "gauge",
    "agentic_coverage_ratio": "gauge",
    "agentic_tier_status": "gauge",
    "agentic_window_conversations": "gauge",
    "agentic_evaluation_delay_seconds_bucket": "histogram",
    "agentic_evaluation_delay_seconds_sum": "histogram",
    "agentic_evaluation_delay_seconds_count": "histogram",
    "agentic_ingest_spans_total": "counter",
    "agentic_ingest_late_spans_total": "counter",
    "agentic_telemetry_groups_dropped_total": "counter",
    "agentic_conversations_open": "gauge",
}


def _families(telemetry: Telemetry) -> list[tuple[str, Sample]]:
    content_type, text = telemetry.render()
    assert content_type == snapshot("text/plain; version=0.0.4; charset=utf-8")
    families = text_string_to_metric_families(text.decode())
    return [(family.type, sample) for family in families for sample in family.samples]


def _samples(telemetry: Telemetry, name: str) -> list[tuple[Mapping[str, str], float]]:
    return [(sample.labels, sample.value) for _, sample in _families(telemetry) if sample.name == name]


@pytest.fixture
def busy(make_telemetry: MakeTelemetry) -> Telemetry:
    telemetry = make_telemetry()
    telemetry.set_windows([window_point("1h"), window_point("24h")])
    telemetry.record_scores([ConversationResult(conversation(), failing_score())])
    telemetry.record_receipt(Receipt(accepted=3, duplicate=1, rejected=1, reasons={"bad_id": 1}))
    telemetry.record_late(1)
    telemetry.record_delays("scored", [12.0])
    telemetry.set_open(2)
    return telemetry


def test_every_name_of_the_table_is_scraped_with_its_type(busy: Telemetry) -> None:
    kinds = {sample.name: kind for kind, sample in _families(busy)}
    assert {name: kind for name, kind in kinds.items() if name != "target_info"} == PROMETHEUS_NAMES


def test_the_labels_are_the_attributes_with_underscores(busy: Telemetry) -> None:
    (first, _) = sorted(_samples(busy, "agentic_pass_pow_k_ratio"), key=str)[:2]
    labels, value = first
    assert labels == {
        "gen_ai_agent_name": "travel",
        "gen_ai_agent_version": "2.1.0",
        "deployment_environment_name": "production",
        "agentic_subject_service_name": "concierge",
        "agentic_window": "1h",
        "agentic_estimator": "bayesian",
        "agentic_k": "1",
    }
    assert value == 0.9


def test_scraping_again_gives_the_same_text(busy: Telemetry) -> None:
    assert busy.render() == busy.render()


def test_a_flush_leaves_no_second_copy_in_the_scrape(busy: Telemetry) -> None:
    before = busy.render()
    assert busy.force_flush(1.0)
    assert busy.render() == before


def test_no_series_appears_twice(busy: Telemetry) -> None:
    series = [(sample.name, tuple(sorted(sample.labels.items()))) for _, sample in _families(busy)]
    assert sorted(set(series)) == sorted(series)


def test_without_an_endpoint_only_the_scrape_is_alive(make_telemetry: MakeTelemetry) -> None:
    assert make_telemetry().enabled == ("prometheus",)


def test_the_resource_is_scraped_once(busy: Telemetry) -> None:
    ((labels, value),) = _samples(busy, "target_info")
    assert (labels["service_name"], value) == ("otel-agentic", 1.0)


def test_counters_stand_at_zero_before_anything_happened(make_telemetry: MakeTelemetry) -> None:
    telemetry = make_telemetry()
    assert _samples(telemetry, "agentic_ingest_late_spans_total") == [({}, 0.0)]
    assert _samples(telemetry, "agentic_telemetry_groups_dropped_total") == [({}, 0.0)]
    assert {value for _, value in _samples(telemetry, "agentic_ingest_spans_total")} == {0.0}


def test_an_empty_window_gives_no_ratio(make_telemetry: MakeTelemetry) -> None:
    telemetry = make_telemetry()
    telemetry.set_windows([empty_window_point()])
    assert [sample.name for _, sample in _families(telemetry) if sample.name.endswith("_ratio")] == []


def test_a_group_that_disappears_leaves_the_scrape(make_telemetry: MakeTelemetry) -> None:
    telemetry = make_telemetry()
    first, other = agents(2)
    telemetry.set_windows([window_point(key=first), window_point(key=other)])
    assert len(_samples(telemetry, "agentic_success_ratio")) == 2
    telemetry.set_windows([window_point(key=other)])
    assert [labels["gen_ai_agent_name"] for labels, _ in _samples(telemetry, "agentic_success_ratio")] == [other.agent]


def test_the_global_registry_stays_untouched(busy: Telemetry) -> None:
    busy.render()
    assert [family.name for family in REGISTRY.collect() if family.name.startswith("agentic")] == []


def test_scrapes_side_by_side_do_not_mix(make_telemetry: MakeTelemetry) -> None:
    telemetry = make_telemetry(max_groups=4)

    def churn(generation: int) -> None:
        telemetry.set_windows([window_point(key=key) for key in agents(generation + 1)[-4:]])

    with ThreadPoolExecutor(max_workers=4) as pool:
        texts = [pool.submit(telemetry.render) for _ in range(10)]
        churns = [pool.submit(churn, generation) for generation in range(40)]
        texts += [pool.submit(telemetry.render) for _ in range(10)]
        [done.result() for done in churns]
    for text in texts:
        lines = [line for line in text.result()[1].decode().splitlines() if not line.startswith("#")]
        assert len(set(lines)) == len(lines)
    assert len(_samples(telemetry, "agentic_success_ratio")) == 4
