"""`otel-agentic alerts`: Prometheus rules and a Grafana dashboard for the emitted metrics, and test notifications."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from otel_agentic.cli.help import HelpfulGroup
from otel_agentic.cli.options import config_option, settings_of
from otel_agentic.errors import BackendError, UsageError
from otel_agentic.render.terminal import print_text

if TYPE_CHECKING:
    from otel_agentic.config import Settings


@click.group(cls=HelpfulGroup)
def alerts() -> None:
    """Print Prometheus rules and a Grafana dashboard that monitor your agents, and test notifications of alarms."""


@alerts.command(short_help="Print Prometheus rules for your objectives.")
@config_option
def rules(config_file: Path | None) -> None:
    """Print a Prometheus rule file for the configured objectives (slo.objectives) and windows.

    The rules record the pass rate and the burn rate of the error budget, and alert on objectives, coverage, tiers and
    missing data. If no objective is set, the objective is that 90 % of conversations are correct.
    """
    from otel_agentic.telemetry.alerts import rules_text  # noqa: PLC0415 — it imports the YAML library

    settings = settings_of(config_file)
    sampled = min(settings.sampling.ratio, *settings.sampling.agents.values(), 1.0)
    print_text(rules_text(settings.slo.objectives, settings.windows.widths, sampled))
    _warn(settings)


@alerts.command(short_help="Print the Grafana dashboard.")
def dashboard() -> None:
    """Print the Grafana dashboard as JSON. Grafana asks for the Prometheus data source on import."""
    from otel_agentic.telemetry.alerts import dashboard_text  # noqa: PLC0415 — as above

    print_text(dashboard_text(), escapes=True)


@alerts.command(short_help="Send a test notification.")
@config_option
@click.option("--target", metavar="NAME", help="Only to this target of notify.targets. Default: to all.")
def test(config_file: Path | None, target: str | None) -> None:
    """Send a test notification to the targets of the settings (notify.targets), as a collector sends alarms."""
    from otel_agentic.live.notifications import NotSentError, sample_notification, send  # noqa: PLC0415 — as above

    settings = settings_of(config_file).notify
    names = [item.name for item in settings.targets]
    if not names or (target is not None and target not in names):
        requested = "no target" if target is None else f"no target {target!r}"
        raise UsageError(f"{requested} in notify.targets; targets: {', '.join(map(repr, names)) or 'none'}")
    now_ns = time.time_ns()
    failed = []
    for item in settings.targets:
        if target not in {None, item.name}:
            continue
        try:
            send(item, sample_notification(now_ns), now_s=now_ns // 1_000_000_000, timeout_s=settings.timeout_s)
        except NotSentError as error:
            failed.append(f"{item.name}: {error}")
        else:
            print_text(f"sent to {item.name}\n")
    if failed:
        raise BackendError(f"not sent to {'; '.join(failed)}")


def _warn(settings: Settings) -> None:
    """Warn about objectives whose k is not emitted."""
    emitted = ", ".join(map(str, settings.stats.k))
    for objective in settings.slo.objectives:
        if objective.k not in settings.stats.k:
            print_text(
                f"otel-agentic: objective {objective.label}: pass^{objective.k} is not emitted (stats.k is {emitted}), so its "
                f"alerts about intervals, breached and unproven, cannot fire; add {objective.k} to stats.k\n",
                err=True,
            )
