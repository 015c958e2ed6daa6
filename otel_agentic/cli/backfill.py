"""`otel-agentic backfill`: score, compute windows and emit over a range of the past."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click

from otel_agentic.cli.backfill_out import labels_of, written
from otel_agentic.cli.backfill_show import print_done, print_estimate
from otel_agentic.cli.backfill_target import target_of
from otel_agentic.cli.options import (
    cases_option,
    format_option,
    labels_option,
    numbers_of,
    quiet_option,
    settings_of,
    target_options,
    texts_of,
    time_ns,
)
from otel_agentic.cli.output import print_json
from otel_agentic.cli.own_settings import JUDGE_HELP, require_own_file
from otel_agentic.cli.progress import progress_bar
from otel_agentic.errors import DecodeError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    Progress = Callable[[str, int, int | None], None]

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
    from otel_agentic.pipeline.parallel import processors  # noqa: PLC0415 — not needed for --help

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
