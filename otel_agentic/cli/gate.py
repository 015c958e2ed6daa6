"""`otel-agentic gate`: a verdict for CI, by the exit code, a table, and the files that CI systems read."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import orjson

from otel_agentic.cli.options import evaluation_option, opened, selection_of, selection_options, target_options
from otel_agentic.errors import BadInputError, UsageError
from otel_agentic.regular_files import read_regular
from otel_agentic.results.gate import GateResult

if TYPE_CHECKING:
    from collections.abc import Sequence

_THRESHOLD: Final = re.compile(r"([^<>=]+)(>=|<=|=)([^<>=]+)")
_K: Final = re.compile(r"0*[1-9][0-9]{0,5}")
_ENDS: Final = {">=": "min", "<=": "max"}


def by_k(given: Sequence[str], flag: str) -> dict[str, float]:
    """Return ratios by k.

    Raises:
        UsageError: one is not K=V with a whole number of at least 1 and a ratio.

    >>> by_k(["3=0.7", "1=.9,5=0.5"], "--min-pass-pow-k")
    {'3': 0.7, '1': 0.9, '5': 0.5}
    """
    found = {}
    for part in (part.strip() for text in given for part in text.split(",")):
        k, equals, value = (each.strip() for each in part.partition("="))
        ratio = _number(value)
        if not equals or not _K.fullmatch(k) or ratio is None or not 0.0 <= ratio <= 1.0:
            raise UsageError(
                f"{flag} {part!r}: give K=V, a whole number from 1 to 999999 and a ratio from 0 to 1, such as 3=0.7"
            )
        found[str(int(k))] = ratio
    return found


def thresholds_of(given: Sequence[str]) -> dict[str, Any]:
    """Return limits of metrics: a number where the metric says on which side it lies, else `min` and `max`.

    Raises:
        UsageError: one is not METRIC=V, METRIC>=V or METRIC<=V.

    >>> thresholds_of(["helpfulness=3.5", "latency>=1", "latency<=20"])
    {'helpfulness': 3.5, 'latency': {'min': 1.0, 'max': 20.0}}
    """
    found: dict[str, Any] = {}
    for text in given:
        parts = _THRESHOLD.fullmatch(text.strip())
        value = _number(parts[3]) if parts else None
        if parts is None or value is None:
            raise UsageError(
                f"--threshold {text!r}: give METRIC=V, or 'METRIC>=V' or 'METRIC<=V' in quotes, such as helpfulness=3.5"
            )
        name, sign = parts[1].strip(), parts[2]
        if sign == "=":
            found[name] = value
        else:
            before = found.get(name)
            found[name] = {**(before if isinstance(before, dict) else {}), _ENDS[sign]: value}
    return found


def regressions_of(given: Sequence[str]) -> dict[str, Any]:
    """Return what is compared with a baseline, and how much worse it may be.

    Raises:
        UsageError: how much worse is not a number of at least 0.

    >>> regressions_of(["success", "pass^3=0.05"])
    {'success': 'chance', 'pass^3': 0.05}
    """
    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = (each.strip() for each in text.partition("="))
        drop = _number(value)
        if not name or (equals and (drop is None or drop < 0.0)):
            raise UsageError(
                f"--max-regression {text!r}: give WHAT, or WHAT=V with a number of at least 0, such as success or pass^3=0.05"
            )
        found[name] = drop if equals else "chance"
    return found


def allowed_of(given: Sequence[str]) -> list[str]:
    """Return the names that may have no data; several may stand in one, with commas."""
    return [name for text in given for name in (each.strip() for each in text.split(",")) if name]


def json_file(path: Path) -> Any:
    """Return what a JSON file holds.

    Raises:
        BadInputError: it cannot be read, or is not JSON.
    """
    try:
        return orjson.loads(read_regular(path))
    except OSError as error:
        raise BadInputError(
            f"baseline file {path}: {error.strerror}; `otel-agentic gate --save-baseline {path}` makes one"
        ) from error
    except orjson.JSONDecodeError as error:
        raise BadInputError(f"baseline file {path} is not JSON: {error}") from error


def _number(text: str) -> float | None:
    """Return a finite number, None where it is none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


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
        from otel_agentic.reports.baselines import is_file  # noqa: PLC0415 — pydantic models are not needed for --help

        if is_file(baseline):
            given["baseline"] = json_file(Path(baseline))
        else:
            conditions["baseline"] = baseline
    asked = {name: value for name, value in conditions.items() if value not in (None, [], {})}
    selected = {**selection_of(since, until, agent, evaluation), **{k: v for k, v in given.items() if v is not None}}
    from otel_agentic.cli.render.gate import GateOutcome, tell, write_baseline  # noqa: PLC0415 — rich is not needed for --help

    with opened(db, server, config_file) as client:
        result = client.get(GateResult, "gate", conditions=asked, **selected)
        saved = write_baseline(client, save_baseline, result.measured) if result.passed else None
    found = GateOutcome(result=result, saved_baseline=saved, requested_baseline=save_baseline)
    tell(found, output, out, {"junit": junit, "markdown": markdown, "json": json_out})
    return 0 if result.passed else _FAILED
