"""`otel-agentic gate`: a verdict for CI, by the exit code, a table, and the files that CI systems read."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from otel_agentic.cli.gate_conditions import allowed_of, by_k, json_file, regressions_of, thresholds_of
from otel_agentic.cli.options import evaluation_option, opened, selection_of, selection_options, target_options

_FAILED: Final = 1
_RATIO: Final = click.FloatRange(0.0, 1.0)
_FILE: Final = click.Path(path_type=Path, dir_okay=False)
_TIERS: Final = ("ready", "needs_improvement", "inconsistent", "not_ready", "insufficient_evidence", "no_row")


@click.command(short_help="Fail a CI run unless agents are good enough.")
@target_options
@selection_options
@evaluation_option
@click.option(
    "--window", metavar="WIDTH", help="Only the last 24h, 7d, or the newest n200 of each agent, as in `report`."
)
@click.option("--suite", metavar="TAG", help="Only conversations whose case bears this tag, such as regression.")
@click.option("--agent-version", metavar="VERSION", help="Only conversations of this version of the agent.")
@click.option("--environment", metavar="NAME", help="Only conversations of this deployment environment.")
@click.option(
    "--min-pass-pow-k", multiple=True, metavar="K=V", help="Least pass^k, as in 3=0.7; may be given several times."
)
@click.option("--min-pass-at-k", multiple=True, metavar="K=V", help="Least pass@k, as in 3=0.95.")
@click.option(
    "--min-success", type=_RATIO, metavar="V", help="Least share of evaluated conversations that are correct."
)
@click.option(
    "--min-coverage", type=_RATIO, metavar="V", help="Least share of closed conversations that were evaluated."
)
@click.option(
    "--min-n", type=click.IntRange(min=1), metavar="N", help="Least number of evaluated conversations; 10 unless given."
)
@click.option(
    "--threshold",
    "thresholds",
    multiple=True,
    metavar="METRIC=V",
    help="Least mean of a metric, or the most where lower is better; 'METRIC>=V' and 'METRIC<=V' (in quotes) say which.",
)
@click.option(
    "--fail-on-severity",
    type=click.Choice(["low", "medium", "high", "critical", "none"]),
    help="Fail on a failure of this severity or a worse one; unless given, critical.",
)
@click.option(
    "--tier", "tiers", multiple=True, type=click.Choice(_TIERS), help="A deployment tier that is good enough."
)
@click.option(
    "--bound",
    type=click.Choice(["estimate", "lower"]),
    help="Hold the estimate against a limit (unless set otherwise), or the lower end of its interval: then too few "
    "conversations fail.",
)
@click.option(
    "--estimator", metavar="NAME", help="Estimator of pass@k and pass^k; unless given, what `report` shows first."
)
@click.option(
    "--baseline", metavar="NAME|FILE", help="A baseline that agents may not be worse than: in the store, or FILE.json."
)
@click.option(
    "--max-regression",
    multiple=True,
    metavar="WHAT[=V]",
    help="What may not be worse than in the baseline: success, pass^3, pass@3 or a metric; by more than V, or than chance "
    "explains.",
)
@click.option("--max-drop", type=_RATIO, metavar="V", help="How much worse rates may be than in the baseline.")
@click.option(
    "--save-baseline", metavar="NAME|FILE", help="Where the gate passes, keep what was measured as a baseline."
)
@click.option(
    "--allow-no-data",
    multiple=True,
    is_flag=False,
    flag_value="all",
    metavar="[NAME]",
    help="Let a metric or condition pass without data; without a name, all of them.",
)
@click.option(
    "--format",
    "output",
    type=click.Choice(["table", "json", "markdown", "junit", "github"]),
    default="table",
    show_default=True,
    help="What to print; github: workflow commands, and a summary of the step.",
)
@click.option("-o", "--out", type=_FILE, help="The file that it goes to.")
@click.option("--junit", type=_FILE, help="A file for JUnit XML, besides.")
@click.option("--markdown", type=_FILE, help="A file for Markdown, besides.")
@click.option("--json", "json_out", type=_FILE, help="A file for JSON, besides.")
def gate(
    db: Path | None,
    server: str | None,
    config_file: Path | None,
    since: str | None,
    until: str | None,
    agent: str | None,
    evaluation: str | None,
    window: str | None,
    suite: str | None,
    agent_version: str | None,
    environment: str | None,
    min_pass_pow_k: tuple[str, ...],
    min_pass_at_k: tuple[str, ...],
    min_success: float | None,
    min_coverage: float | None,
    min_n: int | None,
    thresholds: tuple[str, ...],
    fail_on_severity: str | None,
    tiers: tuple[str, ...],
    bound: str | None,
    estimator: str | None,
    baseline: str | None,
    max_regression: tuple[str, ...],
    max_drop: float | None,
    save_baseline: str | None,
    allow_no_data: tuple[str, ...],
    output: str,
    out: Path | None,
    junit: Path | None,
    markdown: Path | None,
    json_out: Path | None,
) -> int:
    """Fail a CI run unless agents are good enough. Exit code 0: every condition holds, 1: one does not.

    Each condition must hold of each agent that is selected. One without data fails, unless it is allowed to have none. What
    was not computed is not computed here: `otel-agentic evaluate` comes first. Conditions of the section [gate] of the
    settings count, too; a flag adds to them, or takes the place of the same one.
    """
    conditions: dict[str, Any] = {
        "min_pass_pow_k": by_k(min_pass_pow_k, "--min-pass-pow-k"),
        "min_pass_at_k": by_k(min_pass_at_k, "--min-pass-at-k"),
        "min_success": min_success,
        "min_coverage": min_coverage,
        "min_n": min_n,
        "thresholds": thresholds_of(thresholds),
        "fail_on_severity": fail_on_severity,
        "tiers": list(tiers),
        "bound": bound,
        "max_regression": regressions_of(max_regression),
        "max_drop": max_drop,
        "allow_no_data": allowed_of(allow_no_data),
    }
    given: dict[str, Any] = {
        "window": window,
        "suite": suite,
        "agent_version": agent_version,
        "environment": environment,
        "estimator": estimator,
        "measure": save_baseline,
    }
    if baseline is not None:
        from otel_agentic.pipeline.gate.baseline import is_file  # noqa: PLC0415 — pydantic models are not needed for --help

        if is_file(baseline):
            given["baseline"] = json_file(Path(baseline))
        else:
            conditions["baseline"] = baseline
    asked = {name: value for name, value in conditions.items() if value not in (None, [], {})}
    selected = {**selection_of(since, until, agent, evaluation), **{k: v for k, v in given.items() if v is not None}}
    from otel_agentic.cli.gate_out import tell, write_baseline  # noqa: PLC0415 — rich is not needed for --help

    with opened(db, server, config_file) as client:
        found = client.call("gate", conditions=asked, **selected)
        measured = found.pop("measured")
        found["saved_baseline"] = write_baseline(client, save_baseline, measured) if found["passed"] else None
    found["asked_to_save"] = save_baseline
    tell(found, output, out, {"junit": junit, "markdown": markdown, "json": json_out})
    return 0 if found["passed"] else _FAILED
