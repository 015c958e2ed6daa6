"""`otel-agentic tools failing`: failing tools by dimension, parameter and version, with an example."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from otel_agentic.cli.options import evaluation_option, opened, selection_of, selection_options, target_options
from otel_agentic.cli.render.terminal import (
    Column,
    console,
    differing_and_shared,
    print_csv,
    print_json,
    print_table,
    say,
    say_evaluation,
    text,
)
from otel_agentic.cli.render.text import NOTHING, compact, moment, percent, plural, safe, short
from otel_agentic.results import to_json
from otel_agentic.results.failures import FailingTool, FailingTools, ToolFaultExample

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rich.console import Console

_SECONDS: Final = 19
#: The result of `tools_failing`: all rows, or one row with its newest fault.
_RESULT: Final[Any] = FailingTools | FailingTool
_DAY: Final = 10
_QUERY: Final = 300
_VALUE: Final = 300
_WRONG_VALUES: Final = 5
_VERSIONS: Final = 4


def print_example(out: Console, row: FailingTool) -> None:
    """Print a row of `tools_failing` with its newest fault, given as `example`."""
    example = row.example
    hurts = f"(hurts {row.dimension})" if row.dimension else "(hurts no dimension by itself)"
    say(out, " ".join(filter(None, (row.tool, row.fault, row.parameter, hurts))), style="bold")
    say(out, _often(row))
    say(out, _when(row))
    if row.wrong_values and row.faults > 1:
        click.echo()
        columns = [Column(name="times", right=True), *text("actual", "expected")]
        values = [
            (each.count, short(each.actual, _VALUE), short(each.expected, _VALUE))
            for each in row.wrong_values[:_WRONG_VALUES]
        ]
        print_table(out, columns, values)
    click.echo()
    if isinstance(example, ToolFaultExample):
        _print_newest(out, example)


def _often(row: FailingTool) -> str:
    told = plural(row.faults, "fault")
    if row.calls:
        of = {"missing": "expected", "errored": "made", "spurious": "made", "forbidden": "made"}
        what = of.get(row.fault, "expected and made")
        told += f" in {plural(row.calls, 'call')} {what} ({percent(row.rate)})"
    failed = "failed, and it was not made good" if row.fault == "errored" else "failed with it"
    told += f", in {plural(row.conversations, 'conversation')}; the tools of {row.failed:,} {failed}"
    if row.tried:
        told += f"\n{row.tried:,} of the missing calls stand beside errors of the tool: see --fault errored"
    expecting = row.expected_conversations
    return told if expecting is None else f"{told}\n{plural(expecting, 'scored conversation')} expected the tool"


def _when(row: FailingTool) -> str:
    told = f"first seen {moment(row.since, _DAY)}"
    if row.clean_before:
        told += f", after {plural(row.clean_before, 'conversation')} with the tool and without this"
    told += f"; last seen {moment(row.last_seen, _DAY)}"
    if len(row.versions) > 1 or row.is_new:
        told += f"\nin version {versions_of(row)}"
    return f"{told}: an earlier version used the tool without this" if row.is_new else told


def versions_of(row: FailingTool) -> str:
    """Return the agent versions that have a fault, with how often; the one that brought it is marked.

    Of many, the first, the newest and the most affected one are told, and how many more there are.
    """
    told = [f"{safe(each.agent_version)}: {each.faults:,}" for each in row.versions]
    if row.is_new and row.agent_version in {None, row.introduced_in}:
        told = [
            f"{each} (new)" if version.agent_version == row.introduced_in else each
            for each, version in zip(told, row.versions, strict=True)
        ]
    if len(told) > _VERSIONS:
        worst = max(range(len(told)), key=lambda place: row.versions[place].faults)
        kept = sorted({0, worst, len(told) - 1})
        told = [*(told[place] for place in kept), f"+{len(told) - len(kept)} more"]
    return ", ".join(told)


def _print_newest(out: Console, example: ToolFaultExample) -> None:
    turn = "" if example.turn_index is None else f", turn {example.turn_index + 1}"
    say(out, f"newest: conversation {example.conversation_id}{turn}", style="bold")
    agent = " ".join(name for name in (example.agent, example.agent_version, example.environment) if name)
    case = f", case {example.case_id}" if example.case_id else ""
    ended = moment(example.ended_at, _SECONDS)
    say(out, f"{agent or 'unknown agent'}, ended {ended} UTC{case}: {example.outcome}")
    if example.query:
        say(out, f"query: {short(example.query, _QUERY)}")
    _print_calls(out, example)
    say(out, example.explanation)
    say(out, f"trace {safe(example.trace_id)}, span {safe(example.span_id)}", style="dim")
    say(out, f"(otel-agentic conversations show {example.conversation_id} shows all of it)", style="dim")


def _print_calls(out: Console, example: ToolFaultExample) -> None:
    """Print the parameters of both calls, those that differ marked, or of the one call that there is."""
    both = {"expected": example.expected_call, "actual": example.actual_call}
    calls = {name: call for name, call in both.items() if call is not None}
    keys = list(dict.fromkeys(key for call in calls.values() for key in call))
    if not calls:
        return
    rows = [(key, *(_value(call, key) for call in calls.values()), _mark(calls, key, example)) for key in keys]
    columns = text(safe(example.tool), *calls, "")
    click.echo()
    if keys:
        marked = any(row[-1] for row in rows)
        print_table(out, columns if marked else columns[:-1], rows if marked else [row[:-1] for row in rows])
    else:
        say(out, f"{example.tool} {' and '.join(calls)} without parameters")
    click.echo()


def _value(call: Mapping[str, Any], key: str) -> str:
    return short(call[key], _VALUE) if key in call else "not given"


def _mark(calls: Mapping[str, Mapping[str, Any]], key: str, example: ToolFaultExample) -> str:
    if key == example.parameter:
        return "<-"
    same = (
        len({key in call for call in calls.values()}) == 1
        and len({compact(call.get(key)) for call in calls.values()}) == 1
    )
    return "" if same else "differs"


def told_difference(expected: Any, made: Any, limit: int) -> str:
    """Return what was given instead of what: of two objects or lists the first place where they differ.

    >>> told_difference([{"id": 1, "sum": 2}], [{"id": 1, "sum": 3}], 20)
    '[0].sum 3 instead of 2'
    """
    path = ""
    while (step := _step(expected, made)) is not None:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else str(step)
        expected, made = expected[step], made[step]
    return f"{path} {short(made, limit)} instead of {short(expected, limit)}".lstrip()


def _step(expected: Any, made: Any) -> int | str | None:
    """Return the key or index under which two objects or lists alike in shape first differ."""
    if isinstance(expected, dict) and isinstance(made, dict) and expected.keys() == made.keys():
        return next((key for key in expected if expected[key] != made[key]), None)
    if isinstance(expected, list) and isinstance(made, list) and len(expected) == len(made):
        return next((place for place, value in enumerate(expected) if value != made[place]), None)
    return None


_CSV_COLUMNS: Final = (
    "agent", "agent_version", "environment", "tool", "dimension", "fault", "parameter", "faults", "conversations",
    "share", "example_conversation", "example", "expected", "actual", "trace_id", "span_id", "first_seen", "last_seen",
    "calls", "rate", "expected_conversations", "since", "introduced_in", "is_new", "clean_before", "versions",
    "wrong_values", "failed", "tried", "expected_call", "actual_call", "error", "evaluation",
)  # fmt: skip
_SUBJECT: Final = ("agent", "agent_version", "environment")
_DIMENSIONS: Final = ("selection", "parameters", "sequence", "utilization")
_FAULTS: Final = (
    "missing", "spurious", "forbidden", "wrong_parameters", "wrong_order", "unused_result", "errored",
)  # fmt: skip
_VALUE_IN_TABLE: Final = 30
_TOLD: Final = 70


@click.group(short_help="Ask which tools fail, and how.")
def tools() -> None:
    """Ask about tool calls."""


@tools.command(short_help="List what is wrong with which tool, or show one.")
@target_options
@selection_options
@evaluation_option
@click.option("--tool", metavar="GLOB", help="Only tools whose name fits, such as 'book_*'.")
@click.option("--dimension", type=click.Choice(_DIMENSIONS), help="Only faults that hurt this dimension.")
@click.option("--fault", type=click.Choice(_FAULTS), help="Only this kind of fault.")
@click.option("--parameter", metavar="NAME", help="Only wrong values of this parameter.")
@click.option(
    "--by",
    type=click.Choice(["problem", "version"]),
    help="A row for all versions of an agent, or one for each. Unless given, tables have one for all, JSON and CSV one "
    "for each version, as the view v_failing_tools.",
)
@click.option(
    "--show", type=click.IntRange(min=1), metavar="N", help="Show the newest example of row N: both calls side by side."
)
@click.option(
    "--format",
    "output",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
    help="What to print.",
)
def failing(
    db: Path | None,
    server: str | None,
    config_file: Path | None,
    since: str | None,
    until: str | None,
    agent: str | None,
    evaluation: str | None,
    tool: str | None,
    dimension: str | None,
    fault: str | None,
    parameter: str | None,
    by: str | None,
    show: int | None,
    output: str,
) -> None:
    """List what is wrong with which tool: how often, since when, in which version, for example.

    First stands what most conversations failed by: `failed` counts those whose tools failed and where the fault was not
    made good, as an error is by a later call of the tool that worked. The rate is of the calls that could have the fault: for a missing call the expected ones, for a call that nobody
    asked for or that answered with an error the made ones, else the expected ones that were made. The share is of all
    tool faults of the agent. `since` looks beyond --since: it is when a fault was first seen at all, and a fault is new
    when an earlier version of the agent used the tool without it. JSON and CSV hold more: the most frequent wrong
    values, the versions with their counts, an explanation, the span.
    """
    given = {"tool": tool, "dimension": dimension, "fault": fault, "parameter": parameter, "show": show}
    only = {name: value for name, value in given.items() if value is not None}
    by = by or ("problem" if output == "table" else "version")
    with opened(db, server, config_file) as client:
        selected = {**selection_of(since, until, agent, evaluation), **only, "by": by, "counted": True}
        found: FailingTools | FailingTool = client.get(_RESULT, "tools_failing", **selected)
    rows = [found] if isinstance(found, FailingTool) else found.rows
    if output == "json":
        print_json(to_json(found if isinstance(found, FailingTool) else rows))
    elif output == "csv":
        objects = (to_json(row) for row in rows)
        print_csv(_CSV_COLUMNS, ([row[name] for name in _CSV_COLUMNS] for row in objects))
    elif isinstance(found, FailingTool):
        say_evaluation(console(), found.evaluation)
        print_example(console(), found)
    else:
        say_evaluation(console(), found.evaluation)
        only.pop("show", None)
        _print(console(), found, filtered=bool(only))


def _print(out: Console, found: FailingTools, *, filtered: bool) -> None:
    rows = found.rows
    if not rows:
        say(out, _why_none(found, filtered=filtered))
        return
    names, same = differing_and_shared(rows, _SUBJECT)
    versions = {each.agent_version for row in rows for each in row.versions}
    if len(versions) == 1 and "agent_version" not in names:
        (same["agent_version"],) = versions
    subject = " ".join(str(same[name]) for name in _SUBJECT if same.get(name))
    several = len(versions) > 1
    shown = [_cells(number, row, names, several=several) for number, row in enumerate(rows, 1)]
    title = f"Failing tools of {subject}" if subject else "Failing tools"
    print_table(out, _columns(names, several=several), shown, title)
    say(out, f"({_counts_of(found)}; --show N shows one)", style="dim")


def _columns(names: Sequence[str], *, several: bool) -> list[Column]:
    """Return the columns; `names` tell the rows apart, `several`: there is more than one version to tell of."""
    return [
        Column(name="#", right=True),
        *text(*(name.replace("agent_", "") for name in names)),
        Column(name="tool", least=16),
        Column(name="dimension", whole=True, spare=2),
        Column(name="fault", least=16),
        Column(name="failed", right=True),
        Column(name="faults", right=True),
        Column(name="rate", right=True),
        Column(name="share", right=True, spare=4),
        Column(name="since", whole=True),
        *([Column(name="versions", least=10)] if several else []),
        Column(name="for example", least=24, spare=1),
        Column(name="conversation", whole=True, spare=3),
    ]


def _cells(number: int, row: FailingTool, names: Sequence[str], *, several: bool) -> tuple[Any, ...]:
    return (
        number,
        *(getattr(row, name) for name in names),
        row.tool,
        row.dimension,
        f"{row.fault} {row.parameter or ''}".rstrip(),
        f"{row.failed:,}",
        f"{row.faults:,}",
        percent(row.rate),
        percent(row.share),
        moment(row.since, _DAY),
        *([versions_of(row)] if several else []),
        _example(row),
        row.example_conversation,
    )


def _counts_of(found: FailingTools) -> str:
    expecting = f"{found.with_tools:,} of {plural(found.scored, 'scored conversation')} expected tools"
    unknown = found.unknown_tools
    told = f"{plural(found.faults, 'tool fault')}; {expecting}"
    return f"{told}; those of {unknown:,} could not be evaluated" if unknown else told


def _why_none(found: FailingTools, *, filtered: bool) -> str:
    """Return what there was to look at, where no fault is shown."""
    if not found.conversations:
        return "no tool faults: no closed conversations in this selection"
    if not found.scored:
        return f"no tool faults: none of {plural(found.conversations, 'closed conversation')} is scored; run evaluate"
    scored = plural(found.scored, "scored conversation")
    if not found.with_tools:
        return f"no tool faults: none of {scored} has a case that expects tools"
    if filtered and found.faults:
        return f"no such fault: the {plural(found.faults, 'tool fault')} of this selection are others"
    if found.failed_tools:
        failed = f"{found.failed_tools:,} of {scored} failed by their tools"
        return f"{failed}, and evaluation {found.evaluation} names no single fault"
    return f"no tool faults: {found.with_tools:,} of {scored} had expected tools, and none went wrong"


def _example(row: FailingTool) -> str:
    """Return what happened in the newest conversation, without what the other columns say."""
    if row.parameter:
        return told_difference(row.expected, row.actual, _VALUE_IN_TABLE)
    if row.fault == "missing":
        tried = f"({row.tried:,} of {row.faults:,} after errors of it) " if row.tried else ""
        return tried + _call(row.expected_call)
    if row.fault in {"spurious", "forbidden"}:
        return _call(row.actual_call)
    if row.fault == "errored":
        return short(row.error, _TOLD)
    return short(str(row.example or "").replace(f"{row.tool} in ", "", 1), _TOLD)


def _call(arguments: dict[str, Any] | None) -> str:
    """Return the arguments of a call on a line."""
    if arguments is None:
        return NOTHING
    return (
        short(", ".join(f"{key} {short(value, _VALUE_IN_TABLE)}" for key, value in arguments.items()), _TOLD)
        or "no parameters"
    )
