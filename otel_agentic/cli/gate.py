"""`otel-agentic gate`: a verdict for CI as an exit code, a table, and report files for CI systems."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import orjson

from otel_agentic.cli.help import HelpfulCommand
from otel_agentic.cli.options import Selection, Target, file_option, output_option, selection_options, target_options
from otel_agentic.errors import BadInputError, UsageError
from otel_agentic.regular_files import read_regular
from otel_agentic.results.gate import GateResult, is_file

_THRESHOLD: Final = re.compile(r"([^<>=]+)(>=|<=|=)([^<>=]+)")
_K: Final = re.compile(r"0*[1-9][0-9]{0,5}")
_ENDS: Final = {">=": "min", "<=": "max"}


def by_k(texts: Sequence[str], flag: str) -> dict[str, float]:
    """Return ratios by k.

    Raises:
        UsageError: a value is not K=V with a whole number of at least 1 and a ratio.

    >>> by_k(["3=0.7", "1=.9,5=0.5"], "--min-pass-pow-k")
    {'3': 0.7, '1': 0.9, '5': 0.5}
    """
    ratios = {}
    for part in (part.strip() for text in texts for part in text.split(",")):
        k, equals, value = (side.strip() for side in part.partition("="))
        ratio = _number(value)
        if not equals or not _K.fullmatch(k) or ratio is None or not 0.0 <= ratio <= 1.0:
            raise UsageError(
                f"{flag} {part!r}: give K=V, a whole number from 1 to 999999 and a ratio from 0 to 1, such as 3=0.7"
            )
        ratios[str(int(k))] = ratio
    return ratios


def thresholds_of(texts: Sequence[str]) -> dict[str, float | dict[str, float]]:
    """Return the limits of metrics: a number if the metric defines the direction, else `min` and `max`.

    Raises:
        UsageError: a value is not METRIC=V, METRIC>=V or METRIC<=V.

    >>> thresholds_of(["helpfulness=3.5", "latency>=1", "latency<=20"])
    {'helpfulness': 3.5, 'latency': {'min': 1.0, 'max': 20.0}}
    """
    limits: dict[str, float | dict[str, float]] = {}
    for text in texts:
        parts = _THRESHOLD.fullmatch(text.strip())
        value = _number(parts[3]) if parts else None
        if parts is None or value is None:
            raise UsageError(
                f"--threshold {text!r}: give METRIC=V, or 'METRIC>=V' or 'METRIC<=V' in quotes, such as helpfulness=3.5"
            )
        name, sign = parts[1].strip(), parts[2]
        if sign == "=":
            limits[name] = value
        else:
            previous = limits.get(name)
            limits[name] = {**(previous if isinstance(previous, dict) else {}), _ENDS[sign]: value}
    return limits


def regressions_of(texts: Sequence[str]) -> dict[str, float | str]:
    """Return the rates and metrics to compare with a baseline, with the allowed drop.

    Raises:
        UsageError: a drop is not a number of at least 0.

    >>> regressions_of(["success", "pass^3=0.05"])
    {'success': 'chance', 'pass^3': 0.05}
    """
    drops: dict[str, float | str] = {}
    for text in texts:
        name, equals, value = (side.strip() for side in text.partition("="))
        drop = _number(value)
        if not name or (equals and (drop is None or drop < 0.0)):
            raise UsageError(
                f"--max-regression {text!r}: give WHAT, or WHAT=V with a number of at least 0, such as success or pass^3=0.05"
            )
        drops[name] = "chance" if drop is None else drop
    return drops


def allowed_of(texts: Sequence[str]) -> list[str]:
    """Return the names that may have no data; values may be comma-separated lists."""
    return [name for text in texts for name in (part.strip() for part in text.split(",")) if name]


def json_file(path: Path) -> Any:
    """Return the content of a JSON file.

    Raises:
        BadInputError: it cannot be read, or is not JSON.
    """
    try:
        return orjson.loads(read_regular(path))
    except OSError as error:
        raise BadInputError(
            f"baseline file {path}: {error.strerror}; `otel-agentic gate --save-baseline {path}` creates it"
        ) from error
    except orjson.JSONDecodeError as error:
        raise BadInputError(f"baseline file {path} is not JSON: {error}") from error


def _number(text: str) -> float | None:
    """Return a finite number, or None if the text is not one."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _parsed(parse: Callable[[Sequence[str]], object]) -> Callable[..., object]:
    """Return the callback of an option that replaces its texts by the parsed value."""
    return lambda _context, _option, texts: parse(texts)


_FAILED: Final = 1
_RATIO: Final = click.FloatRange(0.0, 1.0)
_FILE: Final = click.Path(path_type=Path, dir_okay=False)
_TIERS: Final = ("ready", "needs_improvement", "inconsistent", "not_ready", "insufficient_evidence", "no_row")


@click.command(cls=HelpfulCommand)
@target_options
@selection_options
@click.option(
    "--window", metavar="WIDTH", help="Only the last 24h, 7d, or the newest 200 of each agent (n200), as in `report`."
)
@click.option("--suite", metavar="TAG", help="Only conversations whose case has this tag, such as regression.")
@click.option(
    "--criterion",
    default="correct",
    show_default=True,
    metavar="NAME",
    help="What counts as a success, as in `report`. A baseline keeps it, and is compared with the same criterion only.",
)
@click.option(
    "--min-pass-pow-k",
    multiple=True,
    callback=_parsed(partial(by_k, flag="--min-pass-pow-k")),
    metavar="K=V",
    help="Minimum pass^k, as in 3=0.7; repeatable.",
)
@click.option(
    "--min-pass-at-k",
    multiple=True,
    callback=_parsed(partial(by_k, flag="--min-pass-at-k")),
    metavar="K=V",
    help="Minimum pass@k, as in 3=0.95; repeatable.",
)
@click.option(
    "--min-success", type=_RATIO, metavar="V", help="Minimum share of evaluated conversations that are correct."
)
@click.option(
    "--min-coverage", type=_RATIO, metavar="V", help="Minimum share of closed conversations that were evaluated."
)
@click.option(
    "--min-n", type=click.IntRange(min=1), metavar="N", help="Minimum number of evaluated conversations. Default: 10."
)
@click.option(
    "--threshold",
    "thresholds",
    multiple=True,
    callback=_parsed(thresholds_of),
    metavar="METRIC=V",
    help="Minimum mean of a metric, or maximum if lower is better; 'METRIC>=V' and 'METRIC<=V' (in quotes) are explicit.",
)
@click.option(
    "--fail-on-severity",
    type=click.Choice(["low", "medium", "high", "critical", "none"]),
    help="Fail on a failure of at least this severity. Default: critical.",
)
@click.option(
    "--tier",
    "tiers",
    multiple=True,
    metavar="TIER",
    type=click.Choice(_TIERS),
    help=f"An accepted deployment tier: {', '.join(_TIERS)}; repeatable.",
)
@click.option(
    "--bound",
    type=click.Choice(["estimate", "lower"]),
    help="Compare limits with the estimate (default), or with the lower end of its interval: then too few conversations "
    "fail the gate.",
)
@click.option(
    "--estimator", metavar="NAME", help="Estimator of pass@k and pass^k. Default: the first one that `report` shows."
)
@click.option(
    "--baseline",
    metavar="NAME|FILE",
    help="The baseline that agents are compared with: its name in the store, or FILE.json.",
)
@click.option(
    "--max-regression",
    multiple=True,
    callback=_parsed(regressions_of),
    metavar="WHAT[=V]",
    help="Rate or metric that must not be worse than the baseline: success, pass^3, pass@3 or a metric; by more than V, or "
    "than chance explains.",
)
@click.option("--max-drop", type=_RATIO, metavar="V", help="Maximum drop of rates below the baseline.")
@click.option(
    "--save-baseline", metavar="NAME|FILE", help="If the gate passes, save the measured values as a baseline."
)
@click.option(
    "--allow-no-data",
    multiple=True,
    is_flag=False,
    flag_value="all",
    callback=_parsed(allowed_of),
    metavar="[NAME]",
    help="Let a metric or condition pass without data; without NAME, all.",
)
@output_option("table", "json", "markdown", "junit", "github", note="; github: workflow commands and a step summary")
@file_option("Write the output to this file.", alias="--out")
@click.option("--junit", type=_FILE, help="Also write JUnit XML to this file.")
@click.option("--markdown", type=_FILE, help="Also write Markdown to this file.")
@click.option("--json", "json_out", type=_FILE, help="Also write JSON to this file.")
def gate(
    target: Target,
    selection: Selection,
    window: str | None,
    suite: str | None,
    criterion: str,
    estimator: str | None,
    baseline: str | None,
    save_baseline: str | None,
    output: str,
    file: Path | None,
    junit: Path | None,
    markdown: Path | None,
    json_out: Path | None,
    **conditions: Any,
) -> int:
    """Fail a CI run unless agents are good enough. Exit code 0: every condition holds, 1: one does not.

    Each condition must hold for each selected agent. A condition without data fails, unless --allow-no-data permits it. The
    gate computes no scores: run `otel-agentic evaluate` first. Conditions in section [gate] of the settings apply, too; a
    flag adds a condition, or overrides the same one.
    """
    content = None
    if baseline is not None:
        if is_file(baseline):
            content = json_file(Path(baseline))
        else:
            conditions["baseline"] = baseline
    from otel_agentic.cli.open_conversations import require_agent  # noqa: PLC0415 — rich is not needed for --help
    from otel_agentic.render.gate import GateOutcome, write_baseline, write_outcome  # noqa: PLC0415 — same

    with target.open() as client:
        result = client.get(
            GateResult,
            "gate",
            **selection.arguments,
            conditions={name: value for name, value in conditions.items() if value not in (None, (), [], {})},
            window=window,
            suite=suite,
            criterion=criterion,
            estimator=estimator,
            baseline=content,
            measure=save_baseline,
        )
        if not result.conversations:
            require_agent(client, selection)
        baseline_name = write_baseline(client, save_baseline, result.measured) if result.passed else None
    outcome = GateOutcome(result=result, saved_baseline=baseline_name, requested_baseline=save_baseline)
    write_outcome(outcome, output, file, {"junit": junit, "markdown": markdown, "json": json_out})
    return 0 if result.passed else _FAILED
