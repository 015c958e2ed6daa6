"""The rules as Prometheus' own tool sees them: well formed, and each alert fires when it should and not before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from otel_agentic.config import Objective
from otel_agentic.telemetry.alerts import rules_text
from tests.telemetry.prometheus import needs_promtool, promtool
from tests.telemetry.rule_series import AGENT, burning, held, interval, of_a_tag, of_version, series, tier

pytestmark = [pytest.mark.slow, needs_promtool]

OBJECTIVE = Objective(name="refunds", k=3, target=0.7, alpha=0.05)
WIDTHS = ("1h", "24h", "7d")
AWKWARD = 'a "b" \\ {{ c'
CHANGED = [tier("ready", "1x59 0x200"), tier("not_ready", "0x59 1x200")]
EMITTING = series("agentic_ingest_spans_total", "0x400", agentic_result="accepted")
FELL_SILENT = series("agentic_coverage_ratio", "0.9x30 stale _x200", agentic_window="24h")
#: Name of an alert -> cases of (what Prometheus has, minute -> how many such alerts fire then).
CASES: dict[str, list[tuple[list[dict[str, str]], dict[int, int]]]] = {
    "AgenticObjectiveBreached": [
        (interval(0.4, 0.6), {4: 0, 6: 1}),
        (interval(0.4, 0.7), {60: 0}),
        ([*interval(0.4, 0.6), *interval(0.4, 0.65, "plugin")], {6: 1}),
        ([*interval(0.4, 0.6), *interval(0.4, 0.7, "plugin")], {60: 0}),
        (of_a_tag(interval(0.4, 0.6)), {60: 0}),
    ],
    "AgenticPassRateLow": [
        ([*interval(0.4, 0.8), *held("24h", 17, 3)], {29: 0, 31: 1}),  # (17 / 20) ^ 3 < .7
        ([*interval(0.4, 0.6), *held("24h", 17, 3)], {60: 0}),
        ([*interval(0.6, 0.8), *held("24h", 18, 2)], {60: 0}),
        ([*interval(0.3, 0.8), *held("24h", 16, 3)], {60: 0}),  # 19 are few
        (of_a_tag([*interval(0.4, 0.8), *held("24h", 17, 3)]), {60: 0}),
    ],
    "AgenticObjectiveUnproven": [
        (interval(0.6, 0.9), {59: 0, 61: 1}),
        (interval(0.7, 0.9), {90: 0}),
        (interval(0.4, 0.6), {90: 0}),
    ],
    "AgenticObjectiveEvidence": [
        (
            [series("agentic_slo_e_value", "1 19.9 20 400", agentic_objective="refunds", agentic_k="3")],
            {0: 0, 1: 0, 2: 1, 3: 1},
        ),
        ([series("agentic_slo_e_value", "400x9", agentic_objective="other", agentic_k="3")], {5: 0}),
    ],
    "AgenticErrorBudgetBurnFast": [
        (burning("1h", "24h", 10, 15), {9: 0, 11: 1}),
        (burning("1h", "24h", 8, 11), {60: 0}),  # 19 are few
        (burning("1h", "24h", 20, 5), {60: 0}),  # .8 ^ 3 burns at (1 - .512) / .3
        ([*held("1h", 1, 9), *held("24h", 90, 10)], {60: 0}),
        ([*held("1h", 2, 0), *held("24h", 10, 15)], {60: 0}),
        (of_a_tag(burning("1h", "24h", 10, 15)), {60: 0}),
    ],
    "AgenticErrorBudgetBurnSlow": [
        (burning("24h", "7d", 20, 5), {59: 0, 61: 1}),
        (burning("24h", "7d", 23, 2), {90: 0}),
    ],
    "AgenticCoverageLow": [
        ([series("agentic_coverage_ratio", "0.79x60", agentic_window="24h")], {29: 0, 31: 1}),
        ([series("agentic_coverage_ratio", "0.8x60", agentic_window="24h")], {50: 0}),
    ],
    "AgenticTierChanged": [
        (CHANGED, {59: 0, 61: 1, 118: 1, 121: 0}),
        ([tier("ready", "1x200")], {5: 0, 100: 0}),
        ([{**series, "series": series["series"].replace("}", ',instance="b"}')} for series in CHANGED], {61: 1}),
    ],
    "AgenticAgentSilent": [
        ([EMITTING, FELL_SILENT], {59: 0, 75: 1, 120: 0}),
        ([EMITTING, series("agentic_coverage_ratio", "0.9x200", agentic_window="24h")], {120: 0}),
        ([EMITTING, of_version("1", "0.9x30 stale _x200"), of_version("2", "_x20 0.9x200")], {75: 0}),
        ([{**EMITTING, "values": "0x30 stale _x200"}, FELL_SILENT], {75: 0}),  # the collector is down
    ],
    "AgenticTelemetryAbsent": [
        ([], {9: 0, 11: 1}),
        ([series("agentic_ingest_spans_total", "0x60")], {30: 0}),
    ],
    "AgenticEvaluationStalled": [
        ([series("agentic_ingest_spans_total", "0+9x400", agentic_result="accepted")], {60: 0, 200: 1}),
        (
            [
                series("agentic_ingest_spans_total", "0+9x400", agentic_result="accepted"),
                series("agentic_evaluation_conversations_total", "0+1x400", agentic_outcome="pass"),
            ],
            {200: 0, 350: 0},
        ),
        ([series("agentic_ingest_spans_total", "5x400", agentic_result="accepted")], {200: 0}),
        (
            [
                series("agentic_ingest_spans_total", "0+9x400", agentic_result="accepted"),
                series("agentic_evaluation_conversations_total", "_x150 1x400", agentic_outcome="pass"),
            ],
            {205: 0, 260: 0, 350: 1},  # one conversation at 150 minutes, and none after it
        ),
    ],
    "AgenticGroupsDropped": [
        ([series("agentic_telemetry_groups_dropped_total", "0x5 3x200")], {4: 0, 7: 1, 100: 0}),
    ],
    "AgenticStoreNotWritable": [
        ([series("agentic_store_open", "1x9 0x9 1x9")], {9: 0, 11: 0, 13: 1, 21: 0}),
        ([series("agentic_store_open", "1 0 1 0 1 0 1 0 1 0")], {9: 0}),  # opened again each time
    ],
    "AgenticBacklogGrowing": [
        ([series("agentic_pipeline_backlog", "0+100x90", agentic_stage="rebuild")], {39: 0, 42: 1, 80: 1}),
        ([series("agentic_pipeline_backlog", "9000-10x90", agentic_stage="rebuild")], {80: 0}),  # it is caught up with
        ([series("agentic_pipeline_backlog", "0+5x90", agentic_stage="score")], {80: 0}),
    ],
    "AgenticJudgeLeftAlone": [
        ([series("agentic_judge_breaker_open", "0x9 1x30 0x9")], {24: 0, 26: 1, 41: 0}),
    ],
    "AgenticNoCases": [
        ([series("agentic_truth_cases", "0x90")], {59: 0, 61: 1}),
        ([series("agentic_truth_cases", "3x90")], {80: 0}),
    ],
    "AgenticRetentionFailing": [
        ([series("agentic_retention_failing", "0x9 1x90")], {69: 0, 71: 1}),
        ([series("agentic_retention_failing", "0x90")], {80: 0}),
    ],
}


@pytest.fixture
def rule_file(tmp_path: Path) -> Path:
    path = tmp_path / "rules.yml"
    path.write_text(rules_text((OBJECTIVE,), WIDTHS))
    return path


def assert_of_rules(folder: Path, rule_file: Path, tests: Sequence[Mapping[str, Any]]) -> None:
    path = folder / "tests.yml"
    path.write_text(yaml.safe_dump({"rule_files": [str(rule_file)], "evaluation_interval": "1m", "tests": tests}))
    promtool("test", "rules", path)


def test_every_alert_has_its_cases(rule_file: Path) -> None:
    groups = yaml.safe_load(rule_file.read_text())["groups"]
    assert {rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_an_alert_fires_when_it_should_and_not_before(tmp_path: Path, rule_file: Path, name: str) -> None:
    tests = [
        {
            "interval": "1m",
            "input_series": given,
            "promql_expr_test": [
                {
                    "expr": f'count(ALERTS{{alertname="{name}",alertstate="firing"}})',
                    "eval_time": f"{minute}m",
                    "exp_samples": [{"labels": "{}", "value": count}] if count else [],
                }
                for minute, count in firing.items()
            ],
        }
        for given, firing in CASES[name]
    ]
    assert_of_rules(tmp_path, rule_file, tests)


def test_an_alert_tells_what_is_wrong_in_words(tmp_path: Path, rule_file: Path) -> None:
    labels = {
        "severity": "critical",
        "agentic_objective": "refunds",
        "agentic_window": "24h",
        "gen_ai_agent_name": "travel",
        "job": "otel-agentic",
    }
    annotations = {
        "summary": "pass^3 of travel is below its objective 0.7: at most 60%",
        "description": "The whole interval of the 24h window lies below the objective.",
    }
    expected = {"exp_labels": labels, "exp_annotations": annotations}
    alert_test = {"eval_time": "10m", "alertname": "AgenticObjectiveBreached", "exp_alerts": [expected]}
    test = {"interval": "1m", "input_series": interval(0.4, 0.6), "alert_rule_test": [alert_test]}
    assert_of_rules(tmp_path, rule_file, [test])


def test_the_recorded_rates_are_what_their_names_say(tmp_path: Path, rule_file: Path) -> None:
    def recorded(expression: str, labels: str, value: float) -> dict[str, Any]:
        sample = {"labels": f"{expression}{{{labels}}}", "value": value}
        return {"expr": expression, "eval_time": "5m", "exp_samples": [sample]}

    group = f'{AGENT},agentic_window="24h"'
    burn = f'{group},agentic_objective="refunds"'
    expected = [
        recorded("agentic:window_conversations:evaluated", group, 8),
        recorded("agentic:window_conversations:pass_rate", group, 0.75),
        recorded("agentic:error_budget:burn_rate", burn, (1 - 0.75**3) / (1 - 0.7)),
    ]
    assert_of_rules(
        tmp_path, rule_file, [{"interval": "1m", "input_series": held("24h", 6, 2), "promql_expr_test": expected}]
    )


@pytest.mark.parametrize(
    "objectives",
    [
        (),
        (OBJECTIVE, Objective(name=AWKWARD, agent='re*"f\\und [!a-c]?', k=5, target=0.001, alpha=0.3)),
        (Objective(target=0.999999), Objective(k=10, target=0.5)),
    ],
)
@pytest.mark.parametrize("widths", [WIDTHS, ("n200",), ("15m",), ("90s", "1h", "n50")])
def test_promtool_finds_no_fault(tmp_path: Path, objectives: tuple[Objective, ...], widths: tuple[str, ...]) -> None:
    path = tmp_path / "rules.yml"
    path.write_text(rules_text(objectives, widths))
    assert "SUCCESS" in promtool("check", "rules", path)


def test_objectives_of_one_name_for_two_agents_keep_to_their_agents(tmp_path: Path) -> None:
    """Each has its own alpha: evidence that suffices for one does not for the other."""
    two = [
        Objective(name="kept", agent=agent, target=0.9, alpha=alpha)
        for agent, alpha in (("travel", 0.001), ("shop", 0.1))
    ]
    rules = tmp_path / "rules.yml"
    rules.write_text(rules_text(two, WIDTHS))
    given = [
        series("agentic_slo_e_value", "400x9", agentic_objective="kept", agentic_k="1"),
        *burning("1h", "24h", 0, 25),
    ]
    expression = 'count by (alertname) (ALERTS{alertname=~"Agentic.*Fast|Agentic.*Evidence"})'
    firing = {"expr": expression, "eval_time": "5m"}
    fast = {"labels": '{alertname="AgenticErrorBudgetBurnFast"}', "value": 1}
    test = {"interval": "1m", "input_series": given, "promql_expr_test": [{**firing, "exp_samples": [fast]}]}
    assert_of_rules(tmp_path, rules, [test])


def test_a_perfect_record_raises_no_alarm_however_strict_the_objective(tmp_path: Path) -> None:
    """Little data pulls estimates towards the middle: 25 of 25 are estimated at less than the target."""
    rules = tmp_path / "rules.yml"
    rules.write_text(rules_text((Objective(k=3, target=0.99),), WIDTHS))
    given = [*interval(0.65, 0.997), *(series for window in WIDTHS for series in held(window, 25, 0)), EMITTING]
    query = {"expr": 'ALERTS{severity!="info"}', "eval_time": "90m", "exp_samples": []}
    assert_of_rules(tmp_path, rules, [{"interval": "1m", "input_series": given, "promql_expr_test": [query]}])
