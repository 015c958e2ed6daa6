from __future__ import annotations

import fnmatch
import re
from importlib.resources import files
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.config import Objective, Settings
from otel_agentic.telemetry import names
from otel_agentic.telemetry.alerts import (
    DEFAULT_OBJECTIVE,
    Windows,
    fast_burn,
    glob_to_re2,
    quoted,
    rules_text,
)
from otel_agentic.telemetry.names import label_name, series_names
from tests.snapshots import passage

STRICT = Objective(name="refunds", agent="refund-*", k=3, target=0.7, alpha=0.01)
WIDTHS = ("1h", "24h", "7d")
#: Our series, and words that look like ours.
SERIES = {name for instrument in names.INSTRUMENTS for name in series_names(instrument)}
LABELS = {
    label_name(value)
    for name, value in vars(names).items()
    if name.isupper() and isinstance(value, str) and "." in value
}
RECORDED = {
    "agentic:window_conversations:evaluated",
    "agentic:window_conversations:pass_rate",
    "agentic:error_budget:burn_rate",
}


def rules(*objectives: Objective, widths: tuple[str, ...] = WIDTHS) -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(rules_text(objectives, widths))["groups"] for rule in group["rules"]]


def alert(name: str, *objectives: Objective) -> dict[str, Any]:
    (alert_rule,) = [rule for rule in rules(*objectives) if rule.get("alert") == name]
    return alert_rule


def words(expression: str) -> set[str]:
    """Return every name in an expression outside of quotes."""
    return set(re.findall(r"[a-zA-Z_:][\w:]*", re.sub(r'"(?:\\.|[^"\\])*"', "", expression)))


@pytest.mark.parametrize("objectives", [(), (STRICT, Objective(k=1, target=0.95))])
def test_rules_ask_for_emitted_names_only(objectives: tuple[Objective, ...]) -> None:
    for rule in rules(*objectives):
        ours = {term for term in words(rule["expr"]) if term.startswith(("agentic", "gen_ai", "deployment"))}
        assert ours - SERIES - LABELS - RECORDED == set()
        assert ours & (SERIES | RECORDED) != set()
        text = "".join(rule.get("annotations", {}).values())
        assert set(re.findall(r"\$labels\.(\w+)", text)) - LABELS == set()


def test_the_shipped_rules_are_those_of_the_default_settings() -> None:
    shipped = files("otel_agentic.telemetry").joinpath("assets/alerts.yml").read_text(encoding="utf-8")
    assert rules_text((), Settings().windows.widths) == shipped


def test_every_objective_has_its_own_rules_with_its_own_numbers() -> None:
    text = rules_text((STRICT, Objective(k=1, target=0.95)), WIDTHS)
    assert "No objective is configured" not in text
    breached = [
        rule for rule in rules(STRICT, Objective(k=1, target=0.95)) if rule.get("alert") == "AgenticObjectiveBreached"
    ]
    widest = "max without (agentic_estimator, agentic_k) (agentic_pass_pow_k_upper_ratio"
    of_refunds = 'agentic_window="24h",agentic_k="3",agentic_criterion="correct",agentic_case_tag="",gen_ai_agent_name=~"refund-.*"'
    of_all = 'agentic_window="24h",agentic_k="1",agentic_criterion="correct",agentic_case_tag=""'
    assert [(rule["expr"], rule["labels"]["agentic_objective"]) for rule in breached] == [
        (f"{widest}{{{of_refunds}}}) < 0.7", "refunds"),
        (f"{widest}{{{of_all}}}) < 0.95", "pass^1>=0.95"),
    ]
    assert alert("AgenticObjectiveEvidence", STRICT)["expr"] == snapshot(
        'agentic_slo_e_value{agentic_objective="refunds",agentic_k="3",gen_ai_agent_name=~"refund-.*"} >= 100'
    )


def test_coverage_is_low_by_what_sampling_leaves_in() -> None:
    (sampled,) = [
        line for line in rules_text((), WIDTHS, 0.1).splitlines() if "agentic_coverage_ratio" in line and "<" in line
    ]
    assert sampled.endswith("< 0.08")


def test_without_an_objective_the_rules_use_and_name_the_default() -> None:
    assert passage(rules_text((), WIDTHS)) == snapshot("No objective is configured")
    assert (DEFAULT_OBJECTIVE.k, DEFAULT_OBJECTIVE.target) == (1, 0.9)
    assert rules() == rules(DEFAULT_OBJECTIVE)


def test_rules_look_at_the_windows_that_are_emitted() -> None:
    assert Windows.of(["n200"]) is None
    assert {rule["alert"] for rule in rules(widths=("n200",))} == {
        "AgenticTelemetryAbsent",
        "AgenticEvaluationStalled",
        "AgenticGroupsDropped",
        "AgenticStoreNotWritable",
        "AgenticBacklogGrowing",
        "AgenticJudgeLeftAlone",
        "AgenticNoCases",
        "AgenticRetentionFailing",
    }
    assert Windows.of(["6h"]) == Windows(main="6h")
    assert Windows.of(["15m", "6h"]) == Windows(main="6h", fast=("15m", "6h"))
    two = {rule.get("alert") for rule in rules(widths=("15m", "6h"))}
    assert "AgenticErrorBudgetBurnFast" in two
    assert "AgenticErrorBudgetBurnSlow" not in two


@pytest.mark.parametrize("target", [0.01, 0.3, 0.5, 0.7, 0.9, 0.999])
def test_a_fast_burn_can_happen_and_is_faster_than_a_slow_one(target: float) -> None:
    assert 1.0 < fast_burn(Objective(target=target)) < 1 / (1 - target)


def test_burn_rates_need_evidence_in_the_longer_window() -> None:
    expression = alert("AgenticErrorBudgetBurnFast", STRICT)["expr"]
    assert passage(expression) == snapshot('agentic:window_conversations:evaluated{agentic_window="24h"} >= 20')


def test_alerts_differ_by_objective_and_groups_by_name() -> None:
    content = yaml.safe_load(rules_text((STRICT, STRICT.model_copy(update={"name": "other"})), WIDTHS))
    group_names = [group["name"] for group in content["groups"]]
    assert sorted(set(group_names)) == sorted(group_names)


def test_quotes_and_backslashes_of_names_stay_inside() -> None:
    assert quoted('a"} or vector(1) #\\') == snapshot(r'''"a\"} or vector(1) #\\"''')
    assert yaml.safe_load(quoted("a\nb")) == "a\nb"
    strange = Objective(name='a"} or vector(1) #\\', target=0.9)
    assert f"{{agentic_objective={quoted(strange.label)}," in alert("AgenticObjectiveEvidence", strange)["expr"]


_globs = st.text(st.sampled_from("ab.*?[]!^-+($|\\ é"), max_size=8)


@given(glob=_globs, name=st.text(st.sampled_from("ab.*?[]!^-+($|\\ é"), max_size=8))
def test_a_glob_means_in_prometheus_what_it_means_here(glob: str, name: str) -> None:
    ours = re.fullmatch(glob_to_re2(glob), name, re.DOTALL) is not None
    assert ours == fnmatch.fnmatchcase(name, glob)
