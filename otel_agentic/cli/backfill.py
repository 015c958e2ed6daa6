"""`otel-agentic backfill`: score conversations of a past time range, compute and emit its windows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import click

from otel_agentic.cli.confirm import confirm_cost, yes_option
from otel_agentic.cli.errors import INTERRUPTED
from otel_agentic.cli.help import HelpfulCommand
from otel_agentic.cli.options import (
    Section,
    Target,
    cases_option,
    file_option,
    format_option,
    judge_option,
    labels_option,
    numbers_of,
    present,
    quiet_option,
    refuse_live,
    require_own_file,
    require_paths,
    target_options,
    time_ns,
    truth_of,
)
from otel_agentic.cli.progress import progress_bar
from otel_agentic.errors import BackendError, BadInputError, DecodeError, UsageError
from otel_agentic.render.notes import advice, judge_notes
from otel_agentic.render.terminal import console, print_json, print_text, say
from otel_agentic.render.text import moment, plural
from otel_agentic.results.evaluation import (
    BackfillDryRun,
    BackfillEnd,
    BackfillResult,
    BackfillScoring,
    BackfillStep,
    BackfillText,
    Emitted,
    JudgeQuestions,
    WindowEnds,
)

if TYPE_CHECKING:
    from rich.console import Console

    from otel_agentic.cli.options import Progress
    from otel_agentic.commands import Client
    from otel_agentic.config import Settings
    from otel_agentic.results.store import Ingested

#: A message in the stream of the command `backfill`.
_ITEM: Final[Any] = BackfillStep | BackfillText | BackfillEnd


@contextmanager
def target_of(
    paths: tuple[str, ...],
    settings: Settings,
    target: Target,
    scoring: Section,
    progress: Progress,
    *,
    dry_run: bool,
    workers: int | None,
) -> Iterator[tuple[Client, Ingested | None]]:
    """Yield a client for the store after reading the files into it; a dry run with files uses a temporary copy."""
    if not paths:
        with target.open(scoring=scoring) as client:
            yield client, None
        return
    if target.server is not None:
        raise UsageError(
            "PATHS can only be read into a local store: give --db instead of --server, or send the spans to the server"
        )
    require_paths(paths)
    refuse_live(settings, " and run backfill without PATHS")
    with TemporaryDirectory() as folder:
        store_settings = _copied(settings, Path(folder)) if dry_run else settings
        yield from _ingested(paths, store_settings, progress, workers)


def _ingested(
    paths: tuple[str, ...], settings: Settings, progress: Progress, workers: int | None
) -> Iterator[tuple[Client, Ingested]]:
    from otel_agentic.commands import LocalClient  # noqa: PLC0415 — not needed for --help
    from otel_agentic.commands.ingest import ingest_files  # noqa: PLC0415 — not needed for --help
    from otel_agentic.engine.engine import Engine, rebuilder_over  # noqa: PLC0415
    from otel_agentic.engine.workers import open_workers  # noqa: PLC0415

    with Engine(settings, create=True) as engine, open_workers(settings, workers) as pool:
        summary = ingest_files(engine, paths, progress, rebuilder_over(engine, pool)).summary
        if pool is not None:
            summary = replace(summary, problems=[*summary.problems, *pool.problems])
    client = LocalClient(settings, lambda *_: None)
    try:
        yield client, summary
    finally:
        client.close()


def _copied(settings: Settings, folder: Path) -> Settings:
    """Return settings for a copy of the store, or for a new store if it does not exist."""
    db = settings.store.db
    copy = folder / "dry-run.duckdb"
    if db.is_file():
        from otel_agentic.store.maintenance.backup import copy_store  # noqa: PLC0415 — duckdb is not needed for --help

        copy_store(db, copy)
    return settings.model_copy(update={"store": settings.store.model_copy(update={"db": copy})})


@contextmanager
def written(out: Path | None, *, enabled: bool) -> Iterator[Callable[[str], object]]:
    """Yield a function that writes text to a temporary file, renamed to `out` once complete.

    Args:
        out: the file; None writes to standard output.
        enabled: whether any text will be written; if not, `out` is not touched.

    Raises:
        BadInputError: the file cannot be written. This is checked on entry; a full disk is reported later.
    """
    if out is None or not enabled:
        yield print_text
        return
    temporary_path = out.with_name(f"{out.name}.partial")
    characters = 0
    with _write_errors(out):
        file = temporary_path.open("w", encoding="utf-8", newline="")
    try:
        with file:

            def write(text: str) -> None:
                nonlocal characters
                with _write_errors(out):
                    characters += file.write(text)

            yield write
            with _write_errors(out):
                file.flush()
        if characters:
            with _write_errors(out):
                temporary_path.replace(out)
    finally:
        temporary_path.unlink(missing_ok=True)


@contextmanager
def _write_errors(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise BadInputError(f"--output {out}: cannot be written: {reason}; give another file") from error


def labels_of(texts: tuple[str, ...]) -> dict[str, str]:
    """Return labels by name.

    Raises:
        UsageError: a label is not NAME=VALUE, or a name is given twice.

    >>> labels_of(("job=otel-agentic", "instance=collector:9464"))
    {'job': 'otel-agentic', 'instance': 'collector:9464'}
    """
    labels: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--label {text}: give NAME=VALUE, such as job=otel-agentic")
        if name in labels:
            raise UsageError(f"--label {text}: {name} is given twice")
        labels[name] = value
    return labels


#: The number of warnings and problems that are printed.
_MAX_PRINTED: Final = 10
NOTHING: Final = "nothing to backfill: no closed conversations; read files with PATHS or `otel-agentic ingest`"


def print_done(done: BackfillResult, out: Path | None, emit: str) -> None:
    """Print the result of a backfill; to standard error if the metrics were written to standard output."""
    out_console = console(stderr=emit == "openmetrics" and out is None)
    _print_ingested(out_console, done.ingested)
    if not done.windows.ends:
        say(out_console, NOTHING)
        return
    for line in scoring_lines(done.scoring):
        say(out_console, line)
    _print_some(out_console, "warning", done.scoring.warnings)
    _print_some(out_console, "problem", done.problems)
    for line in advice(done.scoring.reasons):
        say(out_console, line)
    for line in window_lines(done):
        say(out_console, line)
    for line in emit_lines(done.emit, out):
        say(out_console, line)
    _print_some(out_console, "warning", lost_events(done.emit))
    _print_some(out_console, "note", done.notes)
    if done.stopped:
        say(out_console, "stopped: results so far are kept; run the same command to continue", style="bold")


def scoring_lines(scoring: BackfillScoring) -> Iterator[str]:
    """Yield the lines about the scored conversations."""
    if not scoring.to_score:
        yield "all conversations in these windows are already scored"
        return
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(scoring.outcomes.items()))
    yield f"{plural(scoring.scored, 'conversation')} scored{': ' if counts else ''}{counts}"
    if scoring.unchanged:
        yield f"{plural(scoring.unchanged, 'conversation')} asked about again: the judge still has no verdict"
    if scoring.judge is not None:
        yield from judge_notes(scoring.judge)


def window_lines(done: BackfillResult) -> Iterator[str]:
    """Yield the lines about the computed windows."""
    windows = done.windows
    yield ends_line(windows)
    if done.resumed_after:
        yield f"resumed after {moment(done.resumed_after)}, where an earlier run was stopped"
    changed_rows = windows.rows_changed
    if not windows.number:
        yield "no windows computed yet"
        return
    yield (
        f"{plural(changed_rows, 'row')} of table windows added or updated"
        if changed_rows
        else "no rows of table windows changed"
    )


def ends_line(windows: WindowEnds) -> str:
    """Return the line about the window ends.

    >>> from types import SimpleNamespace as Ends
    >>> end = "2026-03-02T09:00:00Z"
    >>> ends_line(Ends(ends=1, first_end=end, last_end=end, step="1d", windows=["24h", "7d"], k=[1, 3]))
    '1 window end, 2026-03-02 09:00 UTC; windows 24h, 7d; k 1, 3'
    """
    first, last = moment(windows.first_end), moment(windows.last_end)
    times = f"{first} UTC" if first == last else f"{first} to {last} UTC, every {windows.step}"
    names, k = ", ".join(windows.windows), ", ".join(map(str, windows.k))
    return f"{plural(windows.ends, 'window end')}, {times}; windows {names}; k {k}"


def emit_lines(emit: Emitted, out: Path | None) -> Iterator[str]:
    """Yield the lines about the points and events that were sent or written."""
    points = plural(emit.points, "point")
    if emit.to == "otlp":
        yield (f"{points} sent, with the window ends as timestamps" if emit.points else "no points left to send")
        if emit.events:
            yield f"{plural(emit.events, 'evaluation event')} sent, with the times of the judged conversations"
    elif emit.to == "openmetrics" and out is None:
        yield f"{points} written to standard output"
    elif emit.to == "openmetrics":
        yield f"{points} written to {out}" if emit.points else f"no points to write: {out} is unchanged"


def lost_events(emit: Emitted) -> list[str]:
    """Return a warning if the backend rejected evaluation events."""
    if not emit.events_lost:
        return []
    lost = plural(emit.events_lost, "evaluation event")
    return [
        f'{lost} rejected by the backend: {emit.events_problem}; points, scores and rows are not affected; if the backend does not accept logs, set emit.events = "none"'
    ]


def print_estimate(done: BackfillDryRun) -> None:
    """Print the estimate of a dry run."""
    out_console = console()
    say(out_console, "dry run: nothing is scored, computed, sent or written", style="bold")
    _print_ingested(out_console, done.ingested)
    if not done.windows.ends:
        say(out_console, NOTHING)
        return
    conversations, windows = done.conversations, done.windows
    already_scored = conversations.in_windows - conversations.to_score
    say(
        out_console,
        f"{plural(done.spans, 'span')} in the store; {plural(conversations.in_windows, 'conversation')} in these windows:",
    )
    sampling_note = (
        f", {conversations.left_out_by_sampling:,} of them excluded by sampling"
        if conversations.left_out_by_sampling
        else ""
    )
    say(out_console, f"  {conversations.to_score:,} to score{sampling_note}, {already_scored:,} already scored")
    say(out_console, ends_line(windows))
    say(out_console, f"  {plural(windows.points, 'window')} with conversations, {plural(windows.rows, 'row')}")
    for line in judge_lines(done.judge) if done.judge is not None else ():
        say(out_console, line)
    _print_some(out_console, "note", done.notes)


def judge_lines(judge: JudgeQuestions) -> Iterator[str]:
    """Yield the lines about the questions to the judge and their cost.

    >>> from types import SimpleNamespace as Questions
    >>> list(judge_lines(Questions(judge="exact", asks_a_model=False)))
    ['judge exact: calls no model, no cost']
    """
    if not judge.asks_a_model:
        yield f"judge {judge.judge}: calls no model, no cost"
        return
    cache_note = f", {judge.cached:,} of them cached" if judge.cached else ""
    yield f"judge {judge.judge}: {plural(judge.questions, 'question')}{cache_note}: {plural(judge.calls, 'call')}{_cost(judge)}"
    if judge.calls:
        yield "  this assumes one call per question; retries, votes and canaries are extra"
    if judge.over:
        yield f"  exceeds the current budget: {judge.over}; the next run asks the remaining questions"


def _cost(judge: JudgeQuestions) -> str:
    tokens = "" if judge.tokens is None else f", about {plural(judge.tokens, 'token')}"
    if judge.cost_usd is not None:
        return f"{tokens}, about ${judge.cost_usd:,.4f}"
    return f"{tokens}; set judge.input_price_usd and judge.output_price_usd to see the cost" if judge.calls else tokens


def _print_ingested(out_console: Console, ingested: Ingested | None) -> None:
    if ingested is None:
        return
    spans = ingested.spans
    say(
        out_console,
        f"{spans.stored:,} spans and log records read, {spans.duplicate:,} duplicate, {spans.rejected:,} rejected; "
        f"{plural(ingested.conversations, 'conversation')} new or changed",
    )


def _print_some(out_console: Console, noun: str, lines: list[str]) -> None:
    for line in lines[:_MAX_PRINTED]:
        say(out_console, f"{noun}: {line}", style=None if noun == "note" else "yellow")
    if len(lines) > _MAX_PRINTED:
        say(out_console, f"… and {len(lines) - _MAX_PRINTED:,} more")


@click.command(cls=HelpfulCommand)
@click.argument("paths", nargs=-1, metavar="[PATHS]...")
@target_options
@cases_option
@labels_option
@judge_option
@click.option(
    "--since",
    metavar="TIME",
    help="Start of the window ends: ISO 8601, or an age such as 7d, rounded down to a whole step. Default: the first "
    "conversation, with ends at whole steps since 1970.",
)
@click.option(
    "--until", metavar="TIME", help="The last window ends at or before this time. Default: the last conversation."
)
@click.option(
    "--window",
    "windows",
    multiple=True,
    metavar="WIDTH",
    help="1h, 24h, 7d, or n200 for the newest 200; repeatable. Default: the configured windows.",
)
@click.option("--step", metavar="TIME", help="Time from one window end to the next: 5m, 1h. Default: windows.step_s.")
@click.option("-k", "k", metavar="1,3,5", help="The k of pass@k and pass^k.")
@click.option(
    "--emit",
    type=click.Choice(["otlp", "openmetrics", "none"]),
    default="none",
    show_default=True,
    help="Where to emit points, in addition to the table `windows`.",
)
@click.option("--endpoint", metavar="URL", help="OTLP endpoint of --emit otlp. Default: emit.endpoint.")
@file_option(
    "File of --emit openmetrics, for `promtool tsdb create-blocks-from openmetrics`. Default: standard output.",
    alias="--out",
)
@click.option(
    "--label",
    "series_labels",
    multiple=True,
    metavar="NAME=VALUE",
    help="A label on every series of --output, such as job=otel-agentic; repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Print the amount of work and the cost of the judge; change nothing.")
@click.option(
    "--executor",
    type=click.Choice(["local"]),
    help="Score in several processes on this machine. Default: in this process.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    metavar="N",
    help="Processes of --executor local. Default: one per processor.",
)
@yes_option
@format_option
@quiet_option
def backfill(
    paths: tuple[str, ...],
    target: Target,
    cases: tuple[Path, ...],
    labels: tuple[Path, ...],
    judge: str | None,
    since: str | None,
    until: str | None,
    windows: tuple[str, ...],
    step: str | None,
    k: str | None,
    emit: str,
    endpoint: str | None,
    file: Path | None,
    series_labels: tuple[str, ...],
    dry_run: bool,
    executor: str | None,
    workers: int | None,
    yes: bool,
    output: str,
    quiet: bool,
) -> int:
    """Read span files, if any; score unscored conversations; compute and emit every window of a past time range.

    A window ends at each step and contains the conversations that ended in it, by the times of their spans. Unchanged rows
    are not rewritten. If the command is killed, run it again to continue where it stopped.
    """
    _require_consistent(emit, endpoint, file, executor, workers, dry_run=dry_run, as_json=output == "json")
    if series_labels and emit != "openmetrics":
        raise UsageError("--label NAME=VALUE is for --emit openmetrics")
    step_ns = _step_ns(step)
    scoring = present(judge=judge)
    settings = target.settings(scoring=scoring)
    grid_ns = step_ns or int(settings.windows.step_s * 1e9)
    workers = _workers(executor, workers)
    arguments: Section = {
        **truth_of(settings, cases, labels),
        "since_ns": _time_ns(since, "--since", grid_ns),
        "until_ns": _time_ns(until, "--until", None),
        "windows": list(windows) or None,
        "step_ns": step_ns,
        "k": numbers_of(k, "-k"),
        "endpoint": endpoint,
        "labels_of_series": labels_of(series_labels) or None,
        "workers": workers,
        "emit": emit,
        "dry_run": dry_run,
    }
    with (
        progress_bar(quiet=quiet) as progress,
        written(file, enabled=emit == "openmetrics" and not dry_run) as write,
        target_of(paths, settings, target, scoring, progress, dry_run=dry_run, workers=workers) as (client, ingested),
    ):
        require_own_file(client, "backfill", scoring)
        if not (yes or dry_run or client.is_remote or settings.scoring.judge == "exact"):
            with closing(client.stream_of(_ITEM, "backfill", **{**arguments, "dry_run": True})) as stream:
                expected = _consume(stream, write, progress)
            if isinstance(expected, BackfillDryRun) and expected.judge is not None:
                confirm_cost(expected.judge, settings.judge, quiet=quiet or output == "json")
        with closing(client.stream_of(_ITEM, "backfill", **arguments)) as stream:
            done = replace(_consume(stream, write, progress), ingested=ingested)
    if output == "json":
        print_json(done)
    elif not quiet:
        print_estimate(done) if isinstance(done, BackfillDryRun) else print_done(done, file, emit)
    if ingested is not None and ingested.problems:
        raise DecodeError("\n".join(ingested.problems))
    return INTERRUPTED if isinstance(done, BackfillResult) and done.stopped else 0


def _require_consistent(
    emit: str,
    endpoint: str | None,
    out: Path | None,
    executor: str | None,
    workers: int | None,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    if emit == "openmetrics" and out is None and as_json and not dry_run:
        raise UsageError("--emit openmetrics --format json: both go to standard output; name a file with --output FILE")
    if out is not None and emit != "openmetrics":
        raise UsageError("--output FILE is for --emit openmetrics")
    if out is not None and not out.absolute().parent.is_dir():
        raise UsageError(f"--output {out}: folder {out.absolute().parent} does not exist")
    if endpoint is not None and emit != "otlp":
        raise UsageError("--endpoint URL is for --emit otlp")
    if workers is not None and executor is None:
        raise UsageError("--workers N is for --executor local")


def _step_ns(step: str | None) -> int | None:
    if step is None:
        return None
    from otel_agentic.windows import parse_width  # noqa: PLC0415 — numpy is not needed for --help

    try:
        return parse_width(step)
    except UsageError as error:
        raise UsageError(f"--step {step!r}: give a time above 0, such as 5m, 1h, 24h") from error


def _time_ns(text: str | None, option: str, grid_ns: int | None) -> int | None:
    """Return a time in ns; an age is rounded down to a whole step, so that repeating the command uses the same grid."""
    instant_ns = time_ns(text, option)
    if instant_ns is None or grid_ns is None or not _is_age(text):
        return instant_ns
    return instant_ns // grid_ns * grid_ns


def _is_age(text: str | None) -> bool:
    return text is not None and text[-1:].isalpha() and "T" not in text.upper()


def _workers(executor: str | None, workers: int | None) -> int | None:
    if executor is None:
        return None
    from otel_agentic.store.connection import processors  # noqa: PLC0415 — not needed for --help

    return workers or processors()


def _consume(
    stream: Iterable[BackfillStep | BackfillText | BackfillEnd], write: Callable[[str], object], progress: Progress
) -> BackfillResult | BackfillDryRun:
    """Consume the stream of a backfill: show progress, write text, and return the result."""
    for message in stream:
        match message:
            case BackfillStep():
                progress(message.stage, message.done, message.total)
            case BackfillText():
                write(message.text)
            case BackfillEnd():
                return message.result
    raise BackendError("the backfill ended without a result")
