"""`otel-agentic backfill`: score, compute windows and emit over a range of the past."""

from __future__ import annotations

from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, cast

import click

from otel_agentic.cli.ingest import summary_json
from otel_agentic.cli.options import (
    JUDGE_HELP,
    cases_option,
    format_option,
    labels_option,
    numbers_of,
    opened,
    quiet_option,
    refuse_live,
    require_own_file,
    require_paths,
    settings_of,
    target_options,
    texts_of,
    time_ns,
)
from otel_agentic.cli.progress import progress_bar
from otel_agentic.cli.render.notes import advice, judge_notes
from otel_agentic.cli.render.terminal import console, print_json, print_text, say
from otel_agentic.cli.render.text import moment, plural
from otel_agentic.errors import BadInputError, DecodeError, UsageError
from otel_agentic.results import from_json
from otel_agentic.results.evaluation import JudgeUse

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from rich.console import Console

    from otel_agentic.commands import Client
    from otel_agentic.config import Settings

if TYPE_CHECKING:
    Progress = Callable[[str, int, int | None], None]


@contextmanager
def target_of(
    paths: tuple[str, ...],
    settings: Settings,
    given: tuple[Path | None, str | None, Path | None, dict[str, Any]],
    progress: Progress,
    *,
    dry_run: bool,
    workers: int | None,
) -> Iterator[tuple[Client, dict[str, Any] | None]]:
    """Lend a client for the store, the files read into it; of a dry run with files, for a copy that is thrown away."""
    db, server, config_file, scoring = given
    if not paths:
        with opened(db, server, config_file, scoring=scoring) as client:
            yield client, None
        return
    if server is not None:
        raise UsageError(
            "PATHS are read into a file that this process opens: give --db, or send the spans to the server"
        )
    require_paths(paths)
    refuse_live(settings, " and backfill without PATHS")
    with TemporaryDirectory() as folder:
        chosen = _copied(settings, Path(folder)) if dry_run else settings
        yield from _ingested(paths, chosen, progress, workers)


def _ingested(
    paths: tuple[str, ...], settings: Settings, progress: Progress, workers: int | None
) -> Iterator[tuple[Client, dict[str, Any]]]:
    from otel_agentic.commands import LocalClient  # noqa: PLC0415 — not needed for --help
    from otel_agentic.commands.ingest import ingest_files  # noqa: PLC0415 — not needed for --help
    from otel_agentic.engine.engine import Engine  # noqa: PLC0415
    from otel_agentic.engine.parallel import (  # noqa: PLC0415
        open_workers,
        rebuilding_over,
    )

    with Engine(settings, create=True) as engine, open_workers(settings, workers) as pool:
        rebuilding_over(engine, pool)
        ingested = summary_json(ingest_files(engine, paths, progress))
        ingested["problems"] += pool.problems if pool is not None else []
    client = LocalClient(settings, lambda *_: None)
    try:
        yield client, ingested
    finally:
        client.close()


def _copied(settings: Settings, folder: Path) -> Settings:
    """Return settings of a copy of the store, or of a new one where there is none."""
    db = settings.store.db
    copy = folder / "dry-run.duckdb"
    if db.is_file():
        from otel_agentic.store.maintenance.backup import copy_store  # noqa: PLC0415 — duckdb is not needed for --help

        copy_store(db, copy)
    return settings.model_copy(update={"store": settings.store.model_copy(update={"db": copy})})


@contextmanager
def written(out: Path | None, *, wanted: bool) -> Iterator[Callable[[str], object]]:
    """Lend a function that writes text to a file, which takes its name once all of it is there; None: to standard output.

    Args:
        out: the file.
        wanted: whether there will be a text at all.

    Raises:
        BadInputError: the file cannot be written; on entering, unless the disk fills up.
    """
    if out is None or not wanted:
        yield print_text
        return
    unfinished = out.with_name(f"{out.name}.partial")
    characters = 0
    with _told(out):
        file = unfinished.open("w", encoding="utf-8", newline="")
    try:
        with file:

            def write(piece: str) -> None:
                nonlocal characters
                with _told(out):
                    characters += file.write(piece)

            yield write
            with _told(out):
                file.flush()
        if characters:
            with _told(out):
                unfinished.replace(out)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def _told(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise BadInputError(f"--out {out}: cannot be written: {reason}; give another file") from error


def labels_of(given: tuple[str, ...]) -> dict[str, str]:
    """Return labels by name.

    Raises:
        UsageError: one is no NAME=VALUE, or a name is given twice.

    >>> labels_of(("job=otel-agentic", "instance=collector:9464"))
    {'job': 'otel-agentic', 'instance': 'collector:9464'}
    """
    labels: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals:
            raise UsageError(f"--label {each}: give NAME=VALUE, such as job=otel-agentic")
        if name in labels:
            raise UsageError(f"--label {each}: {name} is given twice")
        labels[name] = value
    return labels


#: Warnings and problems printed one by one.
_TOLD: Final = 10
NOTHING: Final = (
    "no conversation is closed: there is nothing to backfill; read files with PATHS or `otel-agentic ingest`"
)


def print_done(done: dict[str, Any], out: Path | None, emit: str) -> None:
    """Print what a backfill did; on standard error where its metrics went to standard output."""
    to = console(stderr=emit == "openmetrics" and out is None)
    _print_ingested(to, done["ingested"])
    if not done["windows"]["ends"]:
        say(to, NOTHING)
        return
    for line in scoring_lines(done["scoring"]):
        say(to, line)
    _print_some(to, "warning", done["scoring"]["warnings"])
    _print_some(to, "problem", done["problems"])
    for line in advice(done["scoring"]["reasons"]):
        say(to, line)
    for line in window_lines(done):
        say(to, line)
    for line in emit_lines(done["emit"], out):
        say(to, line)
    _print_some(to, "warning", lost_events(done["emit"]))
    _print_some(to, "note", done["notes"])
    if done["stopped"]:
        say(to, "stopped: what was done is kept; the same command goes on from here", style="bold")


def scoring_lines(scoring: dict[str, Any]) -> Iterator[str]:
    """Yield what was scored.

    >>> list(scoring_lines({"to_score": 0, "scored": 0, "unchanged": 0, "outcomes": {}, "judge": None}))
    ['every conversation in these windows has a score already']
    """
    if not scoring["to_score"]:
        yield "every conversation in these windows has a score already"
        return
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(scoring["outcomes"].items()))
    yield f"{plural(scoring['scored'], 'conversation')} scored{': ' if counts else ''}{counts}"
    if scoring["unchanged"]:
        yield f"{plural(scoring['unchanged'], 'conversation')} asked about again: the judge left them open once more"
    if scoring["judge"] is not None:
        yield from judge_notes(from_json(JudgeUse, scoring["judge"]))


def window_lines(done: dict[str, Any]) -> Iterator[str]:
    """Yield which windows were computed, and what came of it."""
    windows = done["windows"]
    yield ends_line(windows)
    if done["resumed_after"]:
        yield f"went on after {moment(done['resumed_after'])}, where an earlier run had been stopped"
    changed = windows["rows_changed"]
    if not windows["pass"]:
        yield "no window is computed yet"
        return
    yield (
        f"{plural(changed, 'row')} of the table windows new or restated"
        if changed
        else "no row of the table windows is new or differs"
    )


def ends_line(windows: dict[str, Any]) -> str:
    """Return which window ends there are.

    >>> ends_line({"ends": 1, "first_end": "2026-03-02T09:00:00Z", "last_end": "2026-03-02T09:00:00Z",
    ...            "step": "1d", "windows": ["24h", "7d"], "k": [1, 3]})
    '1 window end, 2026-03-02 09:00 UTC; windows 24h, 7d; k 1, 3'
    """
    first, last = moment(windows["first_end"]), moment(windows["last_end"])
    times = f"{first} UTC" if first == last else f"{first} to {last} UTC, every {windows['step']}"
    names, k = ", ".join(windows["windows"]), ", ".join(map(str, windows["k"]))
    return f"{plural(windows['ends'], 'window end')}, {times}; windows {names}; k {k}"


def emit_lines(emit: dict[str, Any], out: Path | None) -> Iterator[str]:
    """Yield what was sent or written."""
    points = plural(emit["points"], "point")
    if emit["to"] == "otlp":
        yield (
            f"{points} sent, with the ends of their windows as timestamps"
            if emit["points"]
            else "no point is left to send"
        )
        if emit["events"]:
            yield f"{plural(emit['events'], 'evaluation event')} sent, with the times of what was judged"
    elif emit["to"] == "openmetrics" and out is None:
        yield f"{points} written to standard output"
    elif emit["to"] == "openmetrics":
        yield f"{points} written to {out}" if emit["points"] else f"no point to write: {out} is not touched"


def lost_events(emit: dict[str, Any]) -> list[str]:
    """Return what is to be said of evaluation events that the backend did not take.

    >>> lost_events({"events": 5, "events_lost": 0, "events_problem": None})
    []
    """
    if not emit["events_lost"]:
        return []
    lost = plural(emit["events_lost"], "evaluation event")
    return [
        f'{lost} not taken by the backend: {emit["events_problem"]}; points, scores and rows are not concerned; where it takes no logs, set emit.events = "none"'
    ]


def print_estimate(done: dict[str, Any]) -> None:
    """Print what a backfill would do."""
    to = console()
    say(to, "dry run: nothing is scored, computed, sent or written", style="bold")
    _print_ingested(to, done["ingested"])
    if not done["windows"]["ends"]:
        say(to, NOTHING)
        return
    found, windows = done["conversations"], done["windows"]
    scored = found["in_windows"] - found["to_score"]
    say(
        to,
        f"{plural(done['spans'], 'span')} in the store; {plural(found['in_windows'], 'conversation')} in these windows:",
    )
    left = f", {found['left_out_by_sampling']:,} of them left out by sampling" if found["left_out_by_sampling"] else ""
    say(to, f"  {found['to_score']:,} to score{left}, {scored:,} scored already")
    say(to, ends_line(windows))
    say(to, f"  {plural(windows['points'], 'window')} that hold a conversation, {plural(windows['rows'], 'row')}")
    for line in judge_lines(done["judge"]):
        say(to, line)
    _print_some(to, "note", done["notes"])


def judge_lines(judge: dict[str, Any]) -> Iterator[str]:
    """Yield what the judge would be asked, and what that would cost.

    >>> list(judge_lines({"judge": "exact", "asks_a_model": False}))
    ['judge exact: asks no model, costs nothing']
    """
    if not judge["asks_a_model"]:
        yield f"judge {judge['judge']}: asks no model, costs nothing"
        return
    known = f", {judge['cached']:,} of them remembered" if judge["cached"] else ""
    yield f"judge {judge['judge']}: {plural(judge['questions'], 'question')}{known}: {plural(judge['calls'], 'call')}{_cost(judge)}"
    if judge["calls"]:
        yield "  one call a question is counted; retries, votes and canaries come on top"
    if judge["over"]:
        yield f"  more than may be spent now: {judge['over']}; what is not asked is asked by the next run"


def _cost(judge: dict[str, Any]) -> str:
    tokens = "" if judge["tokens"] is None else f", about {plural(judge['tokens'], 'token')}"
    if judge["cost_usd"] is not None:
        return f"{tokens}, at most ${judge['cost_usd']:,.4f}"
    return (
        f"{tokens}; set judge.input_price_usd and judge.output_price_usd to see the cost" if judge["calls"] else tokens
    )


def _print_ingested(to: Console, ingested: dict[str, Any] | None) -> None:
    if ingested is None:
        return
    spans = ingested["spans"]
    say(
        to,
        f"{spans['stored']:,} spans and log records read, {spans['duplicate']:,} duplicate, {spans['rejected']:,} rejected; "
        f"{plural(ingested['conversations'], 'conversation')} new or changed",
    )


def _print_some(to: Console, what: str, lines: list[str]) -> None:
    for line in lines[:_TOLD]:
        say(to, f"{what}: {line}", style=None if what == "note" else "yellow")
    if len(lines) > _TOLD:
        say(to, f"… and {len(lines) - _TOLD:,} more")


#: What a shell gives a process that Ctrl-C ended.
_INTERRUPTED: Final = 130


@click.command(short_help="Compute windows of the past, and emit them.")
@click.argument("paths", nargs=-1, metavar="[PATHS]...")
@target_options
@cases_option
@labels_option
@click.option("--judge", metavar="NAME", help=JUDGE_HELP)
@click.option(
    "--since",
    metavar="TIME",
    help="Window ends are counted from this time: ISO 8601, or an age such as 7d, which begins at a whole step. Unless "
    "given, they begin with the first conversation, at whole steps since 1970.",
)
@click.option(
    "--until", metavar="TIME", help="The last window ends at or before this time; unless given, the last conversation."
)
@click.option(
    "--window",
    "windows",
    multiple=True,
    metavar="WIDTH",
    help="1h, 24h, 7d, or n200 for the newest 200; may be given several times; unless given, those of the settings.",
)
@click.option(
    "--step", metavar="TIME", help="Time from one window end to the next: 5m, 1h; unless given, windows.step_s."
)
@click.option("-k", "k", metavar="1,3,5", help="The k of pass@k and pass^k.")
@click.option(
    "--emit",
    type=click.Choice(["otlp", "openmetrics", "none"]),
    default="none",
    show_default=True,
    help="Where points go besides the table `windows`.",
)
@click.option("--endpoint", metavar="URL", help="OTLP endpoint of --emit otlp; unless given, emit.endpoint.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File of --emit openmetrics, for `promtool tsdb create-blocks-from openmetrics`; unless given, standard output.",
)
@click.option(
    "--label",
    "series_labels",
    multiple=True,
    metavar="NAME=VALUE",
    help="A label on every series of --out, such as job=otel-agentic; may be given several times.",
)
@click.option(
    "--dry-run", is_flag=True, help="Count what there is to do and what the judge would cost; change nothing."
)
@click.option(
    "--executor", type=click.Choice(["local"]), help="Score over processes of this machine; unless given, in this one."
)
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    metavar="N",
    help="Processes of --executor local; unless given, one a processor.",
)
@format_option
@quiet_option
def backfill(
    paths: tuple[str, ...],
    db: Path | None,
    server: str | None,
    config_file: Path | None,
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
    out: Path | None,
    series_labels: tuple[str, ...],
    dry_run: bool,
    executor: str | None,
    workers: int | None,
    output: str,
    quiet: bool,
) -> int:
    """Read files of spans, if any; score what has no score; compute every window of a range of the past, and emit it.

    A window ends at each step and holds the conversations that ended in it, by the times of their spans. Rows that are there
    and say the same stay as they are. Killed at any moment, the same command goes on where it was.
    """
    _require_sense(emit, endpoint, out, executor, workers, dry_run=dry_run, as_json=output == "json")
    if series_labels and emit != "openmetrics":
        raise UsageError("--label NAME=VALUE is for --emit openmetrics")
    step_ns = _step_ns(step)
    scoring = {"judge": judge} if judge is not None else {}
    settings = settings_of(config_file, db, scoring=scoring)
    grid_ns = step_ns or int(settings.windows.step_s * 1e9)
    given: dict[str, Any] = {
        "cases": texts_of(cases, "cases"),
        "labels": texts_of(labels, "labels"),
        "since_ns": _time_ns(since, "--since", grid_ns),
        "until_ns": _time_ns(until, "--until", None),
        "windows": list(windows) or None,
        "step_ns": step_ns,
        "k": numbers_of(k, "-k"),
        "endpoint": endpoint,
        "labels_of_series": labels_of(series_labels) or None,
        "workers": _workers(executor, workers),
    }
    arguments = {name: value for name, value in given.items() if value is not None}
    target = (db, server, config_file, scoring)
    with (
        progress_bar(quiet=quiet) as progress,
        written(out, wanted=emit == "openmetrics" and not dry_run) as write,
        target_of(paths, settings, target, progress, dry_run=dry_run, workers=given["workers"]) as (client, ingested),
    ):
        require_own_file(client, "backfill", scoring)
        told = client.stream("backfill", **arguments, emit=emit, dry_run=dry_run)
        done = _listen(cast("Generator[dict[str, Any]]", told), write, progress)
    done["ingested"] = ingested
    if output == "json":
        print_json(done)
    elif not quiet:
        print_estimate(done) if dry_run else print_done(done, out, emit)
    if ingested is not None and ingested["problems"]:
        raise DecodeError("\n".join(ingested["problems"]))
    return _INTERRUPTED if done.get("stopped") else 0


def _require_sense(
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
        raise UsageError("--emit openmetrics --format json: both go to standard output; name a file with --out FILE")
    if out is not None and emit != "openmetrics":
        raise UsageError("--out FILE is for --emit openmetrics")
    if out is not None and not out.absolute().parent.is_dir():
        raise UsageError(f"--out {out}: folder {out.absolute().parent} does not exist")
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
    """Return a time in ns; an age begins at a whole step, so that the same command asks the same a little later."""
    found = time_ns(text, option)
    if found is None or grid_ns is None or not _is_age(text):
        return found
    return found // grid_ns * grid_ns


def _is_age(text: str | None) -> bool:
    return text is not None and text[-1:].isalpha() and "T" not in text.upper()


def _workers(executor: str | None, workers: int | None) -> int | None:
    if executor is None:
        return None
    from otel_agentic.engine.parallel import processors  # noqa: PLC0415 — not needed for --help

    return workers or processors()


def _listen(told: Generator[dict[str, Any]], write: Callable[[str], object], progress: Progress) -> dict[str, Any]:
    """Return the result of a backfill; on the way show how far it is, and write the text that it hands over."""
    result: dict[str, Any] = {}
    with closing(told):
        for item in told:
            if "stage" in item:
                progress(item["stage"], item["done"], item["total"])
            elif "text" in item:
                write(item["text"])
            else:
                result = item["result"]
    return result
