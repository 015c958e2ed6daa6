"""`otel-agentic evaluate`: match and score conversations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from otel_agentic.cli.advice import advice, metric_advice
from otel_agentic.cli.evaluate_metrics import metric_notes, metrics_of, own_files, require_no_files, say_left_out
from otel_agentic.cli.evaluate_notes import judge_notes, score_warnings
from otel_agentic.cli.options import (
    cases_option,
    format_option,
    labels_option,
    opened,
    quiet_option,
    selection_of,
    selection_options,
    settings_of,
    target_options,
    texts_of,
)
from otel_agentic.cli.output import console, print_json, say
from otel_agentic.cli.own_settings import JUDGE_HELP, require_own_file
from otel_agentic.cli.progress import progress_bar
from otel_agentic.cli.rows import evaluate_row_files, keep_rows
from otel_agentic.cli.text import percent, plural
from otel_agentic.cli.waiting import telling_waits
from otel_agentic.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from otel_agentic.config import Settings

#: Warnings printed one by one.
_WARNINGS: Final = 10
#: What may hold it up where nothing is heard for long, with a judge that asks a model and without.
_WAITING_FOR_JUDGE: Final = (
    "conversations are being scored; judge {judge} may be slow or may not answer (each call is given up after "
    "judge.timeout_s, each verdict after judge.tries calls, each run after judge.outage_wait_s)"
)
_WAITING: Final = "conversations are being scored; `otel-agentic doctor --live` shows the state of a running collector"
#: The judge that asks no model.
_EXACT: Final = "exact"
#: What a shell gives a process that Ctrl-C ended.
_INTERRUPTED: Final = 130


@click.command(short_help="Match conversations to cases and score them.")
@target_options
@cases_option
@labels_option
@click.option(
    "--rows",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="A RAGAS or NeMo Evaluator dataset (JSON lines, JSON, CSV, Parquet): compute metrics of its rows, in memory; with --db, "
    "keep the rows as conversations and evaluate the store. Give it again for more.",
)
@click.option("--judge", metavar="NAME", help=JUDGE_HELP)
@click.option(
    "--compat",
    type=click.Choice(["fair-forge", "ragas", "agent-surface", "agentest"]),
    help="Score with another system's arithmetic, faults included.",
)
@click.option(
    "--evaluation",
    metavar="NAME",
    help="Keep the scores under this name, next to those of other evaluations; unless given, default, or compat:SYSTEM with "
    "--compat. Only the default evaluation enters windows, monitors and telemetry.",
)
@click.option(
    "--metrics",
    metavar="NAMES",
    help="Compute exactly these metrics beside the scores: metrics, evaluators or families, comma-separated; default, all, "
    "none. Unless given, as set (default: all that ask no model).",
)
@click.option(
    "--evaluator",
    "evaluators",
    metavar="FILE:NAME",
    multiple=True,
    help="Run an evaluator of your own, from a Python file; give it again for more.",
)
@click.option(
    "--match-text",
    "match_text",
    type=click.Choice(["off", "suggest", "auto"]),
    help="What to do where the text of a conversation is that of a case in other words: nothing, suggest the case, or match "
    "it; unless given, as set (default: suggest).",
)
@click.option("--fuzzy/--no-fuzzy", default=None, help="The same as --match-text auto, or off.")
@selection_options
@click.option(
    "--suite", metavar="TAG", help="Only conversations that belong to a case with this tag, such as regression."
)
@click.option("--force", is_flag=True, help="Score again what has a score already.")
@format_option
@quiet_option
def evaluate(
    db: Path | None,
    server: str | None,
    config_file: Path | None,
    cases: tuple[Path, ...],
    labels: tuple[Path, ...],
    rows: tuple[Path, ...],
    judge: str | None,
    compat: str | None,
    evaluation: str | None,
    metrics: str | None,
    evaluators: tuple[str, ...],
    match_text: str | None,
    fuzzy: bool | None,
    since: str | None,
    until: str | None,
    agent: str | None,
    suite: str | None,
    force: bool,
    output: str,
    quiet: bool,
) -> int:
    """Match closed conversations to cases and score them.

    Cases and labels given once are remembered. What has a score under the same truth, judge and settings keeps it; what the
    judge failed on, or was not asked for want of budget, is asked again. Verdicts are kept as they come: after Ctrl-C, or
    a crash, the next run asks for the rest. Metrics are computed for what they were not computed for yet, scored now or before.
    """
    if rows and (db is None or server is not None):
        return evaluate_row_files(click.get_current_context())
    if rows:
        keep_rows(settings_of(config_file, db), rows, quiet=quiet or output == "json")
    truth = {"cases": texts_of(cases, "cases"), "labels": texts_of(labels, "labels")}
    chosen = selection_of(since, until, agent) | ({} if suite is None else {"suite": suite})
    name = evaluation or (f"compat:{compat}" if compat else None)
    chosen |= {} if name is None else {"evaluation": name}
    scoring = {name: value for name, value in {"judge": judge, "compat": compat}.items() if value is not None}
    text = match_text if fuzzy is None else "auto" if fuzzy else "off"
    if match_text not in {None, text}:
        raise UsageError("--fuzzy is --match-text auto, --no-fuzzy is --match-text off: give one of the options")
    matching = {} if text is None else {"text": text}
    used = _own_judge(settings_of(config_file, db, scoring=scoring), server)
    waiting = _WAITING if used == _EXACT else _WAITING_FOR_JUDGE.format(judge=used)
    with (
        progress_bar(quiet=quiet) as bar,
        telling_waits(waiting, bar, quiet=quiet) as progress,
        opened(
            db, server, config_file, progress, scoring=scoring, matching=matching, **own_files(config_file, evaluators)
        ) as client,
    ):
        require_own_file(client, "evaluate", {**scoring, **({"match-text": text} if text else {})})
        require_no_files(client, evaluators)
        done = client.call("evaluate", **truth, **chosen, **metrics_of(metrics, evaluators), force=force)
    if output == "json":
        print_json(done)
    elif not quiet:
        _print_result(done)
    return _INTERRUPTED if done["stopped"] else 0


def _own_judge(settings: Settings, server: str | None) -> str:
    """Return the judge that this process asks, `exact` where a running collector asks its own.

    Raises:
        UsageError: a package that the judge needs is missing.
    """
    from otel_agentic.judges.choose import require_packages  # noqa: PLC0415 — not needed for --help
    from otel_agentic.pipeline.serverfile import find_live_server  # noqa: PLC0415 — same

    if server is not None or find_live_server(settings.store.db) is not None:
        return _EXACT
    require_packages(settings.scoring.judge)
    return settings.scoring.judge


def _print_result(done: dict[str, Any]) -> None:
    out = console()
    _print_evaluation(out, done)
    say_left_out(out, done["evaluators"]["left_out"])
    if done["scored"]:
        _print_outcomes(out, done)
    elif not done["unchanged"] and not done["stopped"]:
        say(
            out, "nothing to score: the closed conversations of this selection, if any, have a score under this version"
        )
        say(out, "(--force scores them again)")
        if not done["evaluators"]["conversations"]:
            return
    if done["unchanged"]:
        again = plural(done["unchanged"], "conversation")
        say(out, f"{again} asked about again: the judge left them open once more")
    metric_notes(out, done["evaluators"])
    for line in judge_notes(done["judge"]):
        say(out, line)
    for warning in [*score_warnings(done), *done["warnings"][:_WARNINGS]]:
        say(out, f"warning: {warning}", style="yellow")
    if len(done["warnings"]) > _WARNINGS:
        say(
            out,
            f"… and {len(done['warnings']) - _WARNINGS:,} more; `otel-agentic truth matches --only warning` lists them",
        )
    for line in dict.fromkeys([*advice(done["reasons"]), *metric_advice(done["evaluators"]["metrics"])]):
        say(out, line)
    if done["stopped"]:
        say(out, "stopped: what was judged is kept; the same command goes on from here", style="bold")


def _print_evaluation(out: Console, done: dict[str, Any]) -> None:
    cases, labels = plural(done["cases"], "case"), plural(done["labels"], "label")
    say(out, f"{cases} and {labels} in force; evaluator version {done['evaluation_id']}")
    if done["evaluation"] != "default":
        shown = f"`otel-agentic report --evaluation {done['evaluation']}`"
        say(out, f"evaluation {done['evaluation']}: the scores of other evaluations stay; {shown} shows these")


def _print_outcomes(out: Console, done: dict[str, Any]) -> None:
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(done["outcomes"].items()))
    covered = f"; coverage {percent(done['coverage'])}" if done["n"] < done["scored"] else ""
    say(out, f"{plural(done['scored'], 'conversation')} scored: {counts}{covered}", style="bold")
    for reason, count in sorted(done["reasons"].items()):
        say(out, f"  {count:,} x {reason}")
    again = done["asked_again"] - done["unchanged"]
    if again:
        say(out, f"{again:,} of them were open: the judge had failed, or had not been asked")
    if done["restated"] > again:
        say(out, f"{done['restated'] - again:,} of them had an earlier score, which is kept as superseded")
