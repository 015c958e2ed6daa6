"""promtool loads the history file of a backfill, and a real Prometheus then returns the values of `windows` for the past."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from otel_agentic.cli import main
from otel_agentic.config import EmitSettings
from otel_agentic.engine.engine import Engine
from otel_agentic.telemetry import OpenMetricsHistory
from otel_agentic.testing import NOON_NS, SECOND_NS, speak_genai
from otel_agentic.windows.model import GroupKey
from tests.builders import CASE, ask_hotel, feed, rows
from tests.stores import settings_for
from tests.telemetry.builders import window_point
from tests.telemetry.prometheus import Prometheus, needs_prometheus, prometheus, promtool

pytestmark = [pytest.mark.slow, needs_prometheus]

HOUR_NS = 3600 * SECOND_NS
WINDOWS = """
SELECT
    epoch_ns("end"), "window", k, estimator, n, coverage, pass_at_k, pass_at_k_lower, pass_at_k_upper,
    pass_pow_k, pass_pow_k_lower, pass_pow_k_upper, tier
FROM windows
ORDER BY ALL
"""
RATES = ("pass_at_k", "pass_at_k_lower", "pass_at_k_upper", "pass_pow_k", "pass_pow_k_lower", "pass_pow_k_upper")


def talk(folder: Path) -> Path:
    """Return a store with twelve conversations over two days; every third answer is wrong."""
    db = folder / "past.duckdb"
    with Engine(settings_for(db), create=True) as engine:
        scripts = [
            ask_hotel(f"c-{number}").answers("The Plaza." if number % 3 == 0 else "The Ritz.") for number in range(12)
        ]
        feed(
            engine,
            *(speak_genai(script, start_ns=NOON_NS + number * 4 * HOUR_NS) for number, script in enumerate(scripts)),
        )
    return db


def written(folder: Path) -> tuple[Path, list[tuple[Any, ...]]]:
    """Return the history file of a backfill, and the rows of `windows`."""
    db, cases, out = talk(folder), folder / "cases.jsonl", folder / "past.om"
    cases.write_text(CASE)
    config = folder / "settings.toml"
    config.write_text('emit = { estimators = ["bayesian", "per_case"] }')
    files = ["--db", str(db), "--cases", str(cases), "--config", str(config), "--output", str(out)]
    options = ["--window", "6h", "--window", "24h", "--window", "n5", "--step", "3h", "-k", "1,3"]
    with pytest.raises(SystemExit) as ended:
        main(["backfill", *files, *options, "--emit", "openmetrics"])
    assert ended.value.code == 0
    with Engine(settings_for(db)) as engine:
        return out, rows(engine, WINDOWS)


def moment(server: Prometheus, at_ns: int) -> list[tuple[dict[str, str], float]]:
    """Return everything that it has at a time."""
    return server.query('{__name__=~"agentic_.*"}', at_s=at_ns / SECOND_NS)


def value(samples: list[tuple[dict[str, str], float]], metric: str, **labels: object) -> float | None:
    expected = {"__name__": metric, **{name: str(label) for name, label in labels.items()}}.items()
    values = [value for has, value in samples if expected <= has.items()]
    assert len(values) <= 1
    return values[0] if values else None


def test_the_past_in_prometheus_is_that_of_the_windows_table(tmp_path: Path) -> None:
    out, stored = written(tmp_path)
    ends = sorted({row[0] for row in stored})
    promtool("tsdb", "create-blocks-from", "openmetrics", out, tmp_path / "data")
    with prometheus(tmp_path) as server:
        past = {end_ns: moment(server, end_ns) for end_ns in ends}
        assert moment(server, ends[0] - HOUR_NS) == []
    for end_ns, window, k, estimator, n, coverage, *rates, tier in stored:
        samples, of_window = past[end_ns], {"agentic_window": window}
        estimated = {**of_window, "agentic_k": k, "agentic_estimator": estimator}
        assert [value(samples, f"agentic_{name}_ratio", **estimated) for name in RATES] == rates
        assert value(samples, "agentic_coverage_ratio", **of_window) == coverage
        assert value(samples, "agentic_tier_status", agentic_tier=tier) == 1
        held = [
            value(samples, "agentic_window_conversations", **of_window, agentic_outcome=outcome)
            for outcome in ("pass", "fail")
        ]
        assert sum(count or 0 for count in held) == n
    assert {estimator for _, _, _, estimator, *_ in stored} == {"bayesian", "per_case"}
    assert len(ends) > 12


def test_the_past_joins_live_series_by_labels_of_ones_own(tmp_path: Path) -> None:
    history = OpenMetricsHistory(
        tmp_path / "past.om", EmitSettings(), labels={"job": "otel-agentic", "instance": "a:1"}
    )
    history.send([window_point(end_ns=NOON_NS)])
    promtool("tsdb", "create-blocks-from", "openmetrics", history.finish(), tmp_path / "data")
    with prometheus(tmp_path) as server:
        samples = moment(server, NOON_NS)
    assert value(samples, "agentic_coverage_ratio", job="otel-agentic", instance="a:1") == 10 / 12


def test_hostile_names_and_odd_times_are_loaded_as_they_are(tmp_path: Path) -> None:
    agent = 'a"} 1 2\n# EOF\n\\n\\" \u2028 {x="y"} \t\r'
    history = OpenMetricsHistory(tmp_path / "past.om", EmitSettings())
    ends = [NOON_NS, NOON_NS + 1_500_000, NOON_NS + 7 * HOUR_NS]
    history.send([window_point(key=GroupKey(agent=agent), end_ns=end_ns) for end_ns in ends])
    promtool("tsdb", "create-blocks-from", "openmetrics", history.finish(), tmp_path / "data")
    with prometheus(tmp_path) as server:
        assert server.ask("label/gen_ai_agent_name/values") == [agent]
        for end_ns in ends:
            assert value(moment(server, end_ns), "agentic_coverage_ratio") == 10 / 12
