"""`otel-agentic alerts`: what a Prometheus and a Grafana load to watch agents by what we emit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from otel_agentic.cli.options import config_option, settings_of
from otel_agentic.cli.render.terminal import print_text

if TYPE_CHECKING:
    from pathlib import Path

    from otel_agentic.config import Settings


@click.group(short_help="Print Prometheus rules, a Grafana dashboard.")
def alerts() -> None:
    """Print what Prometheus and Grafana load to watch your agents."""


@alerts.command(short_help="Print Prometheus rules for your objectives.")
@config_option
def rules(config_file: Path | None) -> None:
    """Print a Prometheus rule file for the objectives (slo.objectives) and windows of the settings.

    It records the pass rate and how fast an error budget burns, and alerts on objectives, coverage, tiers and silence.
    Without an objective, 90 % of conversations right stands in.
    """
    from otel_agentic.telemetry.alerts import rules_text  # noqa: PLC0415 — it reads YAML's whole library

    settings = settings_of(config_file)
    sampled = min(settings.sampling.ratio, *settings.sampling.agents.values(), 1.0)
    print_text(rules_text(settings.slo.objectives, settings.windows.widths, sampled))
    _warn(settings)


@alerts.command(short_help="Print the Grafana dashboard.")
def dashboard() -> None:
    """Print the Grafana dashboard, JSON to be imported; it asks for its Prometheus data source."""
    from otel_agentic.telemetry.alerts import dashboard_text  # noqa: PLC0415 — as above

    print_text(dashboard_text(), escapes=True)


def _warn(settings: Settings) -> None:
    """Say which objectives are about a k that is not emitted."""
    emitted = ", ".join(map(str, settings.stats.k))
    for objective in settings.slo.objectives:
        if objective.k not in settings.stats.k:
            print_text(
                f"otel-agentic: objective {objective.label}: pass^{objective.k} is not emitted (stats.k is {emitted}), so its "
                f"alerts about intervals, breached and unproven, cannot fire; add {objective.k} to stats.k\n",
                err=True,
            )
