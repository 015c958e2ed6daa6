"""`otel-agentic evaluate`: match and score conversations, or compute metrics of the rows of a dataset."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from otel_agentic.cli.options import (
    JUDGE_HELP,
    cases_option,
    format_option,
    labels_option,
    opened,
    quiet_option,
    require_own_file,
    selection_of,
    selection_options,
    settings_of,
    target_options,
    texts_of,
)
from otel_agentic.cli.progress import progress_bar, telling_waits
from otel_agentic.cli.render.notes import advice, judge_notes, metric_advice, score_warnings
from otel_agentic.cli.render.terminal import Column, console, print_json, print_table, say, text
from otel_agentic.cli.render.text import NOTHING, percent, plural, short
from otel_agentic.errors import StoreBusyError, UsageError
from otel_agentic.results import from_json
from otel_agentic.results.evaluation import EvaluatedRow, EvaluationRun, EvaluatorCounts, MetricCounts, RowsEvaluation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import Console

    from otel_agentic.commands import Client
    from otel_agentic.config import Settings

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
    from otel_agentic.evaluation.metrics import unasked_note  # noqa: PLC0415 — not needed for --help

    if names:
        say(out, unasked_note(names))


def print_metric_notes(out: Console, done: EvaluatorCounts) -> None:
    """Say what evaluators found in this run: a line a metric, and then what went wrong in an evaluator."""
    if not done.conversations:
        return
    late = f", {done.caught_up:,} of them scored before" if done.caught_up else ""
    if done.metrics:
        click.echo()
        print_metrics(out, done.metrics, f"Metrics: {plural(done.conversations, 'conversation')}{late}")
    for fault, count in done.faults.items():
        say(out, f"warning: {fault} ({plural(count, 'conversation')}); it counts as not evaluated", style="yellow")


def print_metrics(out: Console, metrics: Sequence[MetricCounts], title: str) -> None:
    """Print a line a metric: how many scores it has, their mean or labels, and why others are missing."""
    rows = [_metric_row(metric) for metric in metrics if metric.n]
    if rows:
        print_table(out, _COLUMNS, rows, title)
    else:
        say(out, title, style="bold")
    without = [f"{', '.join(names)} ({reasons})" for reasons, names in _without_score(metrics).items()]
    if without:
        say(out, f"no score: {'; '.join(without)}")


def _without_score(metrics: Sequence[MetricCounts]) -> dict[str, list[str]]:
    """Return the metrics without any score, by the reasons why not."""
    found: dict[str, list[str]] = {}
    for metric in metrics:
        if not metric.n:
            found.setdefault(_counts(metric.not_evaluated), []).append(metric.name.removeprefix(_OURS))
    return found


def _metric_row(metric: MetricCounts) -> list[str]:
    mean = NOTHING if metric.mean is None else f"{metric.mean:,.3g}"
    return [
        metric.name.removeprefix(_OURS),
        f"{metric.n:,}",
        mean,
        _counts(metric.labels),
        _counts(metric.not_evaluated),
    ]


def _counts(counts: Mapping[str, int]) -> str:
    """Return counts by name, the most frequent ones.

    >>> _counts({"pass": 12, "fail": 3}), _counts({})
    ('12 pass, 3 fail', '')
    """
    told = [f"{count:,} {name}" for name, count in counts.items()]
    more = f", {len(told) - _TOLD} more" if len(told) > _TOLD else ""
    return ", ".join(told[:_TOLD]) + more


#: Explanations of missing scores that are told, and characters of each.
_REASONS: Final = 6
_CHARACTERS: Final = 160
#: Options of `evaluate` that speak of a store.
_OF_STORES: Final = (
    "server",
    "cases",
    "labels",
    "compat",
    "match_text",
    "fuzzy",
    "since",
    "until",
    "agent",
    "suite",
    "force",
)


def evaluate_row_files(context: click.Context) -> int:
    """Evaluate rows as the options of `evaluate` say, print what came out, and return the exit code.

    Raises:
        UsageError: an option is given that means nothing for rows without a store.
        CaseError: rows cannot be read; lists the problems of all files.
    """
    from otel_agentic.api.rows import (  # noqa: PLC0415
        evaluate_rows,
        rows_json,
    )

    given = context.params
    strange = [
        f"--{name.replace('_', '-')}"
        for name in _OF_STORES
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]
    if strange:
        raise UsageError(
            f"--rows with {', '.join(strange)}: rows bring their own references, and all are evaluated; leave {strange[0]} "
            "out, or keep the rows in a store with --db FILE"
        )
    scoring = {} if given["judge"] is None else {"judge": given["judge"]}
    own = own_files(given["config_file"], given["evaluators"])
    settings = settings_of(given["config_file"], None, scoring=scoring, **own)
    names = metrics_of(given["metrics"], given["evaluators"]).get("metrics")
    with progress_bar(quiet=given["quiet"]) as bar:
        found = evaluate_rows(given["rows"], settings, names, progress=lambda done, total: bar("rows", done, total))
    payload = rows_json(found)
    if given["output"] == "json":
        print_json(payload)
    elif not given["quiet"]:
        _print_rows(from_json(RowsEvaluation, payload))
    return 0


def keep_rows(settings: Settings, files: Sequence[Path], *, quiet: bool) -> None:
    """Keep rows as conversations in the store of the settings, with the cases that they are held against.

    Raises:
        StoreBusyError: a running collector holds the file.
        CaseError: rows cannot be read; lists the problems of all files.
        StoreError: the file cannot be used.
    """
    from otel_agentic.api.rows import read_rows_files  # noqa: PLC0415 — same
    from otel_agentic.api.rows import store_rows as keep  # noqa: PLC0415 — same
    from otel_agentic.engine.engine import Engine  # noqa: PLC0415 — not needed for --help
    from otel_agentic.net.server_file import find_live_server  # noqa: PLC0415 — same

    live = find_live_server(settings.store.db)
    if live is not None:
        raise StoreBusyError(
            f"{settings.store.db}: the collector with process id {live.pid} holds it, and takes spans alone; keep the rows in "
            "another file"
        )

    rows = read_rows_files(files)
    with Engine(settings, create=True) as engine:
        stored = keep(engine, rows)
    if not quiet:
        bare = (
            f"; {plural(stored.without_agent, 'row')} without anything of an agent left out"
            if stored.without_agent
            else ""
        )
        say(
            console(),
            f"{plural(stored.stored, 'row')} kept as conversations, {stored.new:,} of them new or changed{bare}",
        )


def _print_rows(told: RowsEvaluation) -> None:
    out = console()
    files = Counter(row.file for row in told.rows)
    of = ", ".join(f"{name} ({count:,})" for name, count in files.items()) if len(files) > 1 else next(iter(files))
    print_metrics(out, told.metrics, f"{plural(len(told.rows), 'row')} of {of}")
    for line in (*_reasons(told.rows), *metric_advice(told.metrics)):
        say(out, line)
    _print_notes(out, told)


def _reasons(rows: Sequence[EvaluatedRow]) -> Iterator[str]:
    """Yield why there are no scores, each reason with the first row that it holds for."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for score in row.scores:
            if score.reason is not None:
                place = f"{row.file}:{row.line}"
                known = found.setdefault((score.name, score.reason), [place, score.explanation])
                del known[2:]
    by_text: dict[tuple[str, str, str], list[str]] = {}
    for (name, reason), (place, words) in found.items():
        by_text.setdefault((reason, place, words), []).append(name)
    for number, ((reason, place, words), names) in enumerate(by_text.items()):
        if number == _REASONS:
            yield f"… and {len(by_text) - _REASONS} more; --format json tells all"
            return
        yield f"{reason} ({', '.join(_brief(name) for name in names)}), as in {place}: {short(words, _CHARACTERS)}"


def _brief(name: str) -> str:
    return name.removeprefix("agentic.")


def _print_notes(out: Console, told: RowsEvaluation) -> None:
    for fault, count in told.faults.items():
        say(out, f"warning: {fault} ({plural(count, 'row')})", style="yellow")
    for name, count in told.left_out.items():
        say(out, f"{name} of {plural(count, 'row')} is not looked at by any metric here")
    say_left_out(out, told.metrics_left_out)
    for line in judge_notes(told.judge):
        say(out, line)


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
        done = client.get(EvaluationRun, "evaluate", **truth, **chosen, **metrics_of(metrics, evaluators), force=force)
    if output == "json":
        print_json(done)
    elif not quiet:
        _print_result(done)
    return _INTERRUPTED if done.stopped else 0


def _own_judge(settings: Settings, server: str | None) -> str:
    """Return the judge that this process asks, `exact` where a running collector asks its own.

    Raises:
        UsageError: a package that the judge needs is missing.
    """
    from otel_agentic.judges.registry import require_packages  # noqa: PLC0415 — not needed for --help
    from otel_agentic.net.server_file import find_live_server  # noqa: PLC0415 — same

    if server is not None or find_live_server(settings.store.db) is not None:
        return _EXACT
    require_packages(settings.scoring.judge)
    return settings.scoring.judge


def _print_result(done: EvaluationRun) -> None:
    out = console()
    _print_evaluation(out, done)
    say_left_out(out, done.evaluators.left_out)
    if done.scored:
        _print_outcomes(out, done)
    elif not done.unchanged and not done.stopped:
        say(
            out, "nothing to score: the closed conversations of this selection, if any, have a score under this version"
        )
        say(out, "(--force scores them again)")
        if not done.evaluators.conversations:
            return
    if done.unchanged:
        again = plural(done.unchanged, "conversation")
        say(out, f"{again} asked about again: the judge left them open once more")
    print_metric_notes(out, done.evaluators)
    for line in judge_notes(done.judge):
        say(out, line)
    for warning in [*score_warnings(done), *done.warnings[:_WARNINGS]]:
        say(out, f"warning: {warning}", style="yellow")
    if len(done.warnings) > _WARNINGS:
        say(
            out,
            f"… and {len(done.warnings) - _WARNINGS:,} more; `otel-agentic truth matches --only warning` lists them",
        )
    for line in dict.fromkeys([*advice(done.reasons), *metric_advice(done.evaluators.metrics)]):
        say(out, line)
    if done.stopped:
        say(out, "stopped: what was judged is kept; the same command goes on from here", style="bold")


def _print_evaluation(out: Console, done: EvaluationRun) -> None:
    cases, labels = plural(done.cases, "case"), plural(done.labels, "label")
    say(out, f"{cases} and {labels} in force; evaluator version {done.evaluation_id}")
    if done.evaluation != "default":
        shown = f"`otel-agentic report --evaluation {done.evaluation}`"
        say(out, f"evaluation {done.evaluation}: the scores of other evaluations stay; {shown} shows these")


def _print_outcomes(out: Console, done: EvaluationRun) -> None:
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(done.outcomes.items()))
    covered = f"; coverage {percent(done.coverage)}" if done.n < done.scored else ""
    say(out, f"{plural(done.scored, 'conversation')} scored: {counts}{covered}", style="bold")
    for reason, count in sorted(done.reasons.items()):
        say(out, f"  {count:,} x {reason}")
    again = done.asked_again - done.unchanged
    if again:
        say(out, f"{again:,} of them were open: the judge had failed, or had not been asked")
    if done.restated > again:
        say(out, f"{done.restated - again:,} of them had an earlier score, which is kept as superseded")
