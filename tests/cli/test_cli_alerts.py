"""`otel-agentic alerts` as people and machines use it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from inline_snapshot import snapshot

from otel_agentic.cli import main
from otel_agentic.telemetry.alerts import dashboard_text, rules_text


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["alerts", *arguments])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def test_rules_without_settings_are_the_shipped_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert ran(capsys, "rules") == (0, rules_text((), ("1h", "24h", "7d")), "")


def test_rules_are_those_of_the_objectives_and_windows_of_the_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "settings.toml"
    config.write_text(
        '[windows]\nwidths = ["15m", "6h"]\n\n[[slo.objectives]]\nname = "refunds"\nagent = "refund-*"\nk = 3\ntarget = 0.7\n'
    )
    code, out, err = ran(capsys, "rules", "--config", str(config))
    assert (code, err) == (0, "")
    (breached,) = [
        rule
        for group in yaml.safe_load(out)["groups"]
        for rule in group["rules"]
        if rule.get("alert") == "AgenticObjectiveBreached"
    ]
    assert breached["expr"] == snapshot(
        "max without (agentic_estimator, agentic_k) (agentic_pass_pow_k_upper_ratio"
        '{agentic_window="6h",agentic_k="3",agentic_criterion="correct",agentic_case_tag="",gen_ai_agent_name=~"refund-.*"}) < 0.7'
    )


def test_rules_know_that_sampling_lowers_the_coverage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "settings.toml"
    config.write_text('[sampling]\nratio = 0.5\nagents = { "busy-*" = 0.1 }\n')
    assert ran(capsys, "rules", "--config", str(config)) == (0, rules_text((), ("1h", "24h", "7d"), 0.1), "")


def test_an_objective_about_a_k_that_is_not_emitted_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "settings.toml"
    config.write_text("[[slo.objectives]]\nk = 2\ntarget = 0.7\n\n[[slo.objectives]]\nk = 3\ntarget = 0.6\n")
    code, out, err = ran(capsys, "rules", "--config", str(config))
    assert code == 0
    assert err == snapshot(
        "otel-agentic: objective pass^2>=0.7: pass^2 is not emitted (stats.k is 1, 3, 5), so its alerts about intervals, "
        "breached and unproven, cannot fire; add 2 to stats.k\n"
    )
    assert yaml.safe_load(out)["groups"]


def test_settings_that_are_wrong_stop_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "settings.toml"
    config.write_text("[[slo.objectives]]\ntarget = 7\n")
    code, out, err = ran(capsys, "rules", "--config", str(config))
    assert (code, out) == (2, "")
    assert "slo.objectives" in err


def test_the_dashboard_is_json_as_it_is_shipped(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = ran(capsys, "dashboard")
    assert (code, out, err) == (0, dashboard_text(), "")
    assert json.loads(out)["title"] == snapshot("Agent reliability (otel-agentic)")
