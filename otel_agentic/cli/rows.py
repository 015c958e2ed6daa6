"""`evaluate --rows`: what evaluators say of the rows of a RAGAS or NeMo Evaluator dataset."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from click.core import ParameterSource

from otel_agentic.cli.advice import metric_advice
from otel_agentic.cli.evaluate_metrics import metrics_of, own_files, print_metrics, say_left_out
from otel_agentic.cli.evaluate_notes import judge_notes
from otel_agentic.cli.options import settings_of
from otel_agentic.cli.output import console, print_json, say
from otel_agentic.cli.progress import progress_bar
from otel_agentic.cli.text import plural, short
from otel_agentic.errors import StoreBusyError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import click
    from rich.console import Console

    from otel_agentic.config import Settings

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
    from otel_agentic.pipeline.rows import evaluate_rows  # noqa: PLC0415 — not needed for --help
    from otel_agentic.pipeline.rows_json import rows_json  # noqa: PLC0415 — same

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
    told = rows_json(found)
    if given["output"] == "json":
        print_json(told)
    elif not given["quiet"]:
        _print_rows(told)
    return 0


def keep_rows(settings: Settings, files: Sequence[Path], *, quiet: bool) -> None:
    """Keep rows as conversations in the store of the settings, with the cases that they are held against.

    Raises:
        StoreBusyError: a running collector holds the file.
        CaseError: rows cannot be read; lists the problems of all files.
        StoreError: the file cannot be used.
    """
    from otel_agentic.pipeline import Engine  # noqa: PLC0415 — not needed for --help
    from otel_agentic.pipeline.rows import read_rows_files  # noqa: PLC0415 — same
    from otel_agentic.pipeline.rows_kept import store_rows as keep  # noqa: PLC0415 — same
    from otel_agentic.pipeline.serverfile import find_live_server  # noqa: PLC0415 — same

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


def _print_rows(told: dict[str, Any]) -> None:
    out = console()
    files = Counter(row["file"] for row in told["rows"])
    of = ", ".join(f"{name} ({count:,})" for name, count in files.items()) if len(files) > 1 else next(iter(files))
    print_metrics(out, told["metrics"], f"{plural(len(told['rows']), 'row')} of {of}")
    for line in (*_reasons(told["rows"]), *metric_advice(told["metrics"])):
        say(out, line)
    _print_notes(out, told)


def _reasons(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield why there are no scores, each reason with the first row that it holds for."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for score in row["scores"]:
            if score["reason"] is not None:
                place = f"{row['file']}:{row['line']}"
                known = found.setdefault((score["name"], score["reason"]), [place, score["explanation"]])
                del known[2:]
    by_text: dict[tuple[str, str, str], list[str]] = {}
    for (name, reason), (place, text) in found.items():
        by_text.setdefault((reason, place, text), []).append(name)
    for number, ((reason, place, text), names) in enumerate(by_text.items()):
        if number == _REASONS:
            yield f"… and {len(by_text) - _REASONS} more; --format json tells all"
            return
        yield f"{reason} ({', '.join(_brief(name) for name in names)}), as in {place}: {short(text, _CHARACTERS)}"


def _brief(name: str) -> str:
    return name.removeprefix("agentic.")


def _print_notes(out: Console, told: dict[str, Any]) -> None:
    for fault, count in told["faults"].items():
        say(out, f"warning: {fault} ({plural(count, 'row')})", style="yellow")
    for name, count in told["left_out"].items():
        say(out, f"{name} of {plural(count, 'row')} is not looked at by any metric here")
    say_left_out(out, told["metrics_left_out"])
    for line in judge_notes({**told["judge"], "canaries": None}):
        say(out, line)
