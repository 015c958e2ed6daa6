"""`otel-agentic judge`: how far a judge agrees with people, what it remembers, what it costs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from otel_agentic.cli.evaluate_notes import judge_notes
from otel_agentic.cli.judge_table import print_target
from otel_agentic.cli.options import format_option, opened, target_options, texts_of, time_ns
from otel_agentic.cli.output import console, print_json, say
from otel_agentic.cli.own_settings import require_own_file
from otel_agentic.cli.progress import progress_bar
from otel_agentic.cli.tables import Column, print_table, text
from otel_agentic.cli.text import NOTHING, moment, plural
from otel_agentic.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

_INTERRUPTED: Final = 130
_JUDGE_HELP: Final = "The judge, by plug-in name as for `evaluate`; unless given, the one of the settings."


@click.group(short_help="Hold a judge against people; look into its memory.")
def judge() -> None:
    """Ask how far a judge can be trusted, and what it costs."""


@judge.command(short_help="Compare a judge's verdicts with people's.")
@target_options
@click.option(
    "--labels",
    multiple=True,
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="A CSV of people's verdicts: conversation_id[,turn][,verdict|reward][,environment]. Turns count from 1; a row "
    "without a turn is about the whole conversation.",
)
@click.option("--judge", "name", metavar="NAME", help=_JUDGE_HELP)
@click.option(
    "--random-sample",
    is_flag=True,
    help="The labelled conversations were drawn at random: rates may be corrected by them.",
)
@click.option(
    "--examples",
    metavar="N",
    type=click.IntRange(min=0),
    default=5,
    show_default=True,
    help="Disagreements shown at most, of each kind.",
)
@format_option
def calibrate(
    db: Path | None,
    server: str | None,
    config_file: Path | None,
    labels: tuple[Path, ...],
    name: str | None,
    random_sample: bool,
    examples: int,
    output: str,
) -> int:
    """Compare a judge's verdicts with people's, on turns and on conversations.

    Scores that are stored are taken as they are; what is missing is judged now, from the cache where it can be, within the
    budget. The result is stored and stands beside every rate that the judge had a part in.
    """
    given = {"judge": name} if name else {}
    with progress_bar(quiet=False) as progress, opened(db, server, config_file, progress, scoring=given) as client:
        require_own_file(client, "judge calibrate", given)
        found = client.call(
            "judge_calibrate", labels=texts_of(labels, "labels"), random_sample=random_sample, examples=examples
        )
    if output == "json":
        print_json(found)
    else:
        _print_calibration(found)
    return _INTERRUPTED if found["stopped"] else 0


@judge.command(short_help="Show what judges remember and cost; forget it.")
@target_options
@click.option("--clear", is_flag=True, help="Forget verdicts: they are asked for anew. What was spent stays counted.")
@click.option("--judge", "name", metavar="NAME", help="With --clear: those of this judge only.")
@click.option(
    "--before", metavar="TIME", help="With --clear: those from before this time, ISO 8601 or an age such as 7d."
)
@format_option
def cache(
    db: Path | None,
    server: str | None,
    config_file: Path | None,
    clear: bool,
    name: str | None,
    before: str | None,
    output: str,
) -> None:
    """Show how many verdicts of each judge, version and model are remembered, and what they cost.

    A verdict is found again by judge, version and everything that was asked. A judge of another version (another model,
    another prompt) asks anew.
    """
    if not clear and (name or before):
        raise UsageError("--judge and --before say what --clear forgets; give --clear, too")
    with opened(db, server, config_file) as client:
        if clear:
            own_name = name.partition(":")[0] if name else None  # behind the colon stands what the judge asks
            found = client.call("judge_clear", judge=own_name, before_ns=time_ns(before, "--before"))
        else:
            found = client.call("judge_cache")
    if output == "json":
        print_json(found)
    elif clear:
        say(console(), f"{plural(found['cleared'], 'verdict')} forgotten")
    else:
        _print_cache(console(), found)


def _print_calibration(found: dict[str, Any]) -> None:
    out = console()
    if found["stopped"]:
        say(out, "stopped: what was judged is kept; the same command goes on from here")
        return
    asked = found["judge"]
    model = f" ({asked['model']})" if asked["model"] else ""
    decided, unsure = (
        sum(one[name] for one in _deciders(found) if one["judge"] is not None) for name in ("n", "unsure")
    )
    say(
        out,
        f"Judge {asked['name']}{model}, version {asked['version']}: held against {plural(found['labels'], 'label')}, decided "
        f"{decided:,}, unsure about {unsure:,}",
    )
    if not decided:
        without = any(one["n"] for one in _deciders(found))
        why = "tool calls, outputs and missing turns did, so these numbers say nothing about a judge"
        say(out, f"no judge decided any of them{f': {why}' if without else ''}", style="yellow")
    if found["blank"]:
        say(out, f"{plural(found['blank'], 'row')} without a verdict left out")
    for line in judge_notes(asked):
        say(out, line)
    for target in ("turn", "conversation"):
        if found[target] is not None:
            click.echo()
            print_target(out, target, found[target])
    if found["turn"] is None and found["conversation"] is None:
        say(out, "nothing to compare: no label leads to a conversation of this store")
    elif found["warnings"]:
        click.echo()
    for warning in found["warnings"]:
        say(out, f"warning: {warning}", style="yellow")


def _deciders(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return who decided, of turns and of conversations."""
    return [
        one for target in ("turn", "conversation") if found[target] is not None for one in found[target]["deciders"]
    ]


def _print_cache(out: Console, found: dict[str, Any]) -> None:
    if found["judges"]:
        columns = [
            *text("judge", "model"),
            Column(name="version", whole=True, spare=1),
            *(Column(name=name, right=True) for name in ("verdicts", "failures", "calls", "tokens", "cost")),
            Column(name="last asked", whole=True, spare=2),
        ]
        print_table(out, columns, [_cache_row(row) for row in found["judges"]], "Verdicts remembered")
    else:
        say(out, "no verdicts are remembered; the exact judge needs none")
    for line in _budget(found["budget"]):
        say(out, line)


def _cache_row(row: dict[str, Any]) -> tuple[Any, ...]:
    tokens = (row["input_tokens"] or 0) + (row["output_tokens"] or 0)
    cost = NOTHING if row["cost_usd"] is None else f"${row['cost_usd']:,.4f}"
    counts = (f"{row[name]:,}" for name in ("verdicts", "failures", "calls"))
    last = moment(row["last_at"])
    return (row["judge"], row["model"], row["judge_version"], *counts, f"{tokens:,}", cost, last)


def _budget(budget: dict[str, Any]) -> list[str]:
    """Return what is spent of each limit that is set."""
    spent = {"max_calls": "calls", "max_tokens": "tokens", "max_cost_usd": "cost_usd"}
    told = [
        f"{budget[spent[name]]:,.6g} of {budget[name]:,} (judge.{name})" for name in spent if budget[name] is not None
    ]
    window = budget["window"]
    if not told:
        return [
            f"no budget is set (judge.max_calls, judge.max_tokens, judge.max_cost_usd); {budget['calls']:,} calls in {window}"
        ]
    return [f"spent in the last {window}: {', '.join(told)}"]
