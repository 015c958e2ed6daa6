"""What a backfill did, or would do, as lines for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_agentic.cli.advice import advice
from otel_agentic.cli.evaluate_notes import judge_notes
from otel_agentic.cli.output import console, say
from otel_agentic.cli.text import moment, plural

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rich.console import Console

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
        yield from judge_notes(scoring["judge"])


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
