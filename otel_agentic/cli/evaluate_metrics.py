"""What `otel-agentic evaluate` takes and tells of metrics beyond the outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from otel_agentic.cli.output import say
from otel_agentic.cli.tables import Column, print_table, text
from otel_agentic.cli.text import NOTHING, plural
from otel_agentic.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rich.console import Console

    from otel_agentic.commands import Client

#: Labels, or reasons, told of a metric.
_TOLD: Final = 3
_OURS: Final = "agentic."
_COLUMNS: Final = (
    Column(name="metric", whole=True),
    Column(name="n", right=True),
    Column(name="mean", right=True),
    *text("labels", "not evaluated"),
)


def metrics_of(metrics: str | None, evaluators: Sequence[str]) -> dict[str, Any]:
    """Return what `--metrics` and `--evaluator` mean as a command argument; nothing where the settings decide.

    >>> metrics_of("helpfulness, layers", ["checks.py:polite"]), metrics_of(None, ["checks.py:polite"])
    ({'metrics': ['helpfulness', 'layers', 'checks.py:polite']}, {})
    """
    if metrics is None:
        return {}
    return {"metrics": [*filter(None, (name.strip() for name in metrics.split(","))), *evaluators]}


def own_files(config_file: Path | None, evaluators: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the settings that files of evaluators make, beside those of the settings."""
    if not evaluators:
        return {}
    from otel_agentic.cli.options import settings_of  # noqa: PLC0415 — it knows the whole command line

    known = settings_of(config_file).evaluators.files
    return {"evaluators": {"files": tuple(dict.fromkeys((*known, *evaluators)))}}


def require_no_files(client: Client, evaluators: Sequence[str]) -> None:
    """Refuse files of evaluators where a running collector would have to read them.

    Raises:
        UsageError: there are some, and the command runs in a collector.
    """
    from otel_agentic.commands import RemoteClient  # noqa: PLC0415 — not needed for --help

    if evaluators and isinstance(client, RemoteClient):
        files = ", ".join(f'"{name}"' for name in evaluators)
        raise UsageError(
            f"evaluate --evaluator {evaluators[0]}: a running collector holds this file and runs the evaluators that it was "
            f"started with; set evaluators.files = [{files}] in its settings and start it again"
        )


def say_left_out(out: Console, names: Sequence[str]) -> None:
    """Say which metrics of a family were left out, for the judge asks no model; nothing without any."""
    from otel_agentic.pipeline.metrics import unasked_note  # noqa: PLC0415 — not needed for --help

    if names:
        say(out, unasked_note(names))


def metric_notes(out: Console, done: Mapping[str, Any]) -> None:
    """Say what evaluators found in this run: a line a metric, and then what went wrong in an evaluator."""
    if not done["conversations"]:
        return
    late = f", {done['caught_up']:,} of them scored before" if done["caught_up"] else ""
    if done["metrics"]:
        click.echo()
        print_metrics(out, done["metrics"], f"Metrics: {plural(done['conversations'], 'conversation')}{late}")
    for fault, count in done["faults"].items():
        say(out, f"warning: {fault} ({plural(count, 'conversation')}); it counts as not evaluated", style="yellow")


def print_metrics(out: Console, metrics: Sequence[Mapping[str, Any]], title: str) -> None:
    """Print a line a metric: how many scores it has, their mean or labels, and why others are missing."""
    rows = [_row(metric) for metric in metrics if metric["n"]]
    if rows:
        print_table(out, _COLUMNS, rows, title)
    else:
        say(out, title, style="bold")
    without = [f"{', '.join(names)} ({reasons})" for reasons, names in _without_score(metrics).items()]
    if without:
        say(out, f"no score: {'; '.join(without)}")


def _without_score(metrics: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the metrics without any score, by the reasons why not."""
    found: dict[str, list[str]] = {}
    for metric in metrics:
        if not metric["n"]:
            found.setdefault(_counts(metric["not_evaluated"]), []).append(metric["name"].removeprefix(_OURS))
    return found


def _row(metric: Mapping[str, Any]) -> list[str]:
    mean = NOTHING if metric["mean"] is None else f"{metric['mean']:,.3g}"
    return [
        metric["name"].removeprefix(_OURS),
        f"{metric['n']:,}",
        mean,
        _counts(metric["labels"]),
        _counts(metric["not_evaluated"]),
    ]


def _counts(counts: Mapping[str, int]) -> str:
    """Return counts by name, the most frequent ones.

    >>> _counts({"pass": 12, "fail": 3}), _counts({})
    ('12 pass, 3 fail', '')
    """
    told = [f"{count:,} {name}" for name, count in counts.items()]
    more = f", {len(told) - _TOLD} more" if len(told) > _TOLD else ""
    return ", ".join(told[:_TOLD]) + more
