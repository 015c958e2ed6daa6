"""`otel-agentic tools failing`: failing tools by dimension, parameter and version, with an example."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from otel_agentic.cli.help import HelpfulGroup
from otel_agentic.cli.open_conversations import (
    open_conversations_of,
    open_option,
    print_open_faults,
    refuse_open,
    say_empty,
)
from otel_agentic.cli.options import Selection, Target, output_option, selection_options, target_options
from otel_agentic.differences import around
from otel_agentic.render.terminal import (
    Column,
    console,
    differing_and_shared,
    fits,
    numbers,
    print_csv,
    print_json,
    print_table,
    say,
    say_evaluation,
    text,
)
from otel_agentic.render.text import NOTHING, argument, compact, difference_text, moment, percent, plural, safe, short
from otel_agentic.results import to_json
from otel_agentic.results.failures import FailingTool, FailingTools, ToolFaultExample

if TYPE_CHECKING:
    from rich.console import Console

    from otel_agentic.results import JsonObject

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
    effect = f"(affects {row.dimension})" if row.dimension else "(affects no dimension by itself)"
    say(out, " ".join(filter(None, (row.tool, row.fault, row.parameter, effect))), style="bold")
    say(out, _frequency(row))
    say(out, _when(row))
    if row.wrong_values and row.faults > 1:
        click.echo()
        columns = [Column(name="times", right=True), *text("actual ≠ expected")]
        values = [
            (value.count, difference_text(value.expected, value.actual, _VALUE))
            for value in row.wrong_values[:_WRONG_VALUES]
        ]
        print_table(out, columns, values)
    click.echo()
    if isinstance(example, ToolFaultExample):
        _print_newest(out, example)


def _frequency(row: FailingTool) -> str:
    message = plural(row.faults, "fault")
    if row.calls:
        noun_by_fault = {"missing": "expected", "errored": "actual", "spurious": "actual", "forbidden": "actual"}
        kind = noun_by_fault.get(row.fault, "matched")
        message += f" in {plural(row.calls, f'{kind} call')} ({percent(row.rate)})"
    failure_text = ", without a later successful call" if row.fault == "errored" else ""
    message += f", in {plural(row.conversations, 'conversation')}; tools failed in {row.failed:,} of them{failure_text}"
    if row.tried:
        message += f"\n{row.tried:,} of the missing calls come with errors of the tool: see --fault errored"
    expected_conversations = row.expected_conversations
    return (
        message
        if expected_conversations is None
        else f"{message}\n{plural(expected_conversations, 'scored conversation')} expected the tool"
    )


def _when(row: FailingTool) -> str:
    message = f"first seen {moment(row.since, _DAY)}"
    if row.clean_before:
        message += f", after {plural(row.clean_before, 'conversation')} with the tool and without this fault"
    message += f"; last seen {moment(row.last_seen, _DAY)}"
    if len(row.versions) > 1 or row.is_new:
        message += f"\nin version {versions_of(row)}"
    return f"{message}: an earlier version used the tool without this fault" if row.is_new else message


def versions_of(row: FailingTool) -> str:
    """Return the agent versions with a fault and their counts; the version that introduced it is marked.

    If there are many, only the first, the newest and the most affected one are listed, with the number of others.
    """
    texts = [f"{safe(version.agent_version)}: {version.faults:,}" for version in row.versions]
    if row.is_new and row.agent_version in {None, row.introduced_in}:
        texts = [
            f"{entry} (new)" if version.agent_version == row.introduced_in else entry
            for entry, version in zip(texts, row.versions, strict=True)
        ]
    if len(texts) > _VERSIONS:
        worst = max(range(len(texts)), key=lambda index: row.versions[index].faults)
        indices = sorted({0, worst, len(texts) - 1})
        texts = [*(texts[index] for index in indices), f"+{len(texts) - len(indices)} more"]
    return ", ".join(texts)


def _print_newest(out: Console, example: ToolFaultExample) -> None:
    turn = "" if example.turn_index is None else f", turn {example.turn_index + 1}"
    say(out, f"newest: conversation {example.conversation_id}{turn}", style="bold")
    agent = " ".join(name for name in (example.agent, example.agent_version, example.environment) if name)
    case = f", case {example.case_id}" if example.case_id else ""
    end_time = moment(example.ended_at, _SECONDS)
    say(out, f"{agent or 'unknown agent'}, ended {end_time} UTC{case}: {example.outcome}")
    if example.query:
        say(out, f"query: {short(example.query, _QUERY)}")
    _print_calls(out, example)
    say(out, example.explanation)
    say(out, f"trace {safe(example.trace_id)}, span {safe(example.span_id)}", style="dim")
    say(out, f"(otel-agentic conversations show {argument(example.conversation_id)} shows all of it)", style="dim")


def _print_calls(out: Console, example: ToolFaultExample) -> None:
    """Print the parameters of both calls, with differences marked, or of the only call."""
    calls_by_kind = {"expected": example.expected_call, "actual": example.actual_call}
    calls = {name: call for name, call in calls_by_kind.items() if call is not None}
    keys = list(dict.fromkeys(key for call in calls.values() for key in call))
    if not calls:
        return
    rows = [(key, *_values(calls.values(), key), _mark(calls, key, example)) for key in keys]
    columns = text(safe(example.tool), *calls, "")
    click.echo()
    if keys:
        has_marks = any(row[-1] for row in rows)
        print_table(out, columns if has_marks else columns[:-1], rows if has_marks else [row[:-1] for row in rows])
    else:
        say(out, f"{example.tool} {' and '.join(calls)} without parameters")
    click.echo()


def _values(calls: Iterable[JsonObject], key: str) -> list[str]:
    """Return the values of a parameter in one or two calls, long ones cut around their difference."""
    texts = [" ".join(safe(call[key]).split()) if key in call else "missing" for call in calls]
    return (
        [*around(texts[0], texts[1], _VALUE)]
        if len(texts) > 1 and texts[0] != texts[1]
        else [short(text, _VALUE) for text in texts]
    )


def _mark(calls: Mapping[str, JsonObject], key: str, example: ToolFaultExample) -> str:
    if key == example.parameter:
        return "<-"
    is_same = (
        len({key in call for call in calls.values()}) == 1
        and len({compact(call.get(key)) for call in calls.values()}) == 1
    )
    return "" if is_same else "differs"


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
_TEXT: Final = 70


@click.group(cls=HelpfulGroup)
def tools() -> None:
    """List failing tools."""


@tools.command(short_help="List tool faults, or show one.")
@target_options
@selection_options
@click.option("--tool", metavar="GLOB", help="Only tools whose name matches, such as 'book_*'.")
@click.option("--dimension", type=click.Choice(_DIMENSIONS), help="Only faults that affect this dimension.")
@click.option(
    "--fault", metavar="FAULT", type=click.Choice(_FAULTS), help=f"Only this kind of fault: {', '.join(_FAULTS)}."
)
@click.option("--parameter", metavar="NAME", help="Only wrong values of this parameter.")
@click.option(
    "--by",
    type=click.Choice(["problem", "version"]),
    help="One row for all versions of an agent, or one per version. Default: tables have one for all, JSON and CSV one per "
    "version, like the view v_failing_tools.",
)
@click.option(
    "--show",
    type=click.IntRange(min=1),
    metavar="N",
    help="Show the newest example of row N: expected and actual call side by side.",
)
@open_option
@output_option("table", "json", "csv")
def failing(
    target: Target,
    selection: Selection,
    tool: str | None,
    dimension: str | None,
    fault: str | None,
    parameter: str | None,
    by: str | None,
    show: int | None,
    show_open: bool,
    output: str,
) -> None:
    """List the faults of tools, with their counts, first occurrence, versions and an example.

    Rows are sorted by `failed`, the number of conversations whose tools failed and whose fault was not corrected; a later
    successful call of the tool corrects an error. The rate is relative to the calls that can have the fault: the expected
    calls for a missing call, the actual calls for an unexpected call or an error, else the expected calls that the agent made.
    The share is relative to all tool faults of the agent. `since` is the first occurrence of a fault, even before --since. A
    fault is new if an earlier version of the agent used the tool without it. JSON and CSV contain more: the most frequent
    wrong values, the versions with their counts, an explanation, the span.
    """
    only = {"tool": tool, "dimension": dimension, "fault": fault, "parameter": parameter}
    if show_open:
        refuse_open(output)
    by = by or ("problem" if output == "table" else "version")
    with target.open() as client:
        result: FailingTools | FailingTool = client.get(
            _RESULT, "tools_failing", **selection.arguments, **only, show=show, by=by, counted=True
        )
        is_empty = isinstance(result, FailingTools) and not result.conversations
        open_conversations = (
            open_conversations_of(client, selection, scored=show_open, is_empty=is_empty)
            if is_empty or (output == "table" and show_open)
            else None
        )
    rows = [result] if isinstance(result, FailingTool) else result.rows
    if output == "json":
        print_json(to_json(result if isinstance(result, FailingTool) else rows))
    elif output == "csv":
        objects = (to_json(row) for row in rows)
        print_csv(_CSV_COLUMNS, ([row[name] for name in _CSV_COLUMNS] for row in objects))
    elif isinstance(result, FailingTool):
        say_evaluation(console(), result.evaluation)
        print_example(console(), result)
    else:
        say_evaluation(console(), result.evaluation)
        _print(console(), result, filtered=any(only.values()))
    if open_conversations is None or output != "table":
        return
    if show_open:
        print_open_faults(console(), open_conversations)
    else:
        say_empty(console(), open_conversations)


def _print(out: Console, result: FailingTools, *, filtered: bool) -> None:
    rows = result.rows
    if not rows:
        say(out, _empty_reason(result, filtered=filtered))
        return
    names, shared = differing_and_shared(rows, _SUBJECT)
    versions = {version.agent_version for row in rows for version in row.versions}
    if len(versions) == 1 and "agent_version" not in names:
        (shared["agent_version"],) = versions
    subject = " ".join(str(shared[name]) for name in _SUBJECT if shared.get(name))
    several = len(versions) > 1
    title = f"Failing tools of {subject}" if subject else "Failing tools"
    columns = _columns(names, several=several)
    cells = [_cells(number, row, names, several=several) for number, row in enumerate(rows, 1)]
    if fits(columns, cells, out.width):
        print_table(out, columns, cells, title)
    else:
        say(out, title, style="bold")
        for number, row in enumerate(rows, 1):
            _print_row(out, number, row, names, several=several)
    say(out, f"({_counts_of(result)}; --show N shows one)", style="dim")


def _print_row(out: Console, number: int, row: FailingTool, names: Sequence[str], *, several: bool) -> None:
    """Print a row as lines, because the terminal is too narrow for the table."""
    subject = " ".join(str(value) for name in names if (value := getattr(row, name)))
    fault = " ".join(filter(None, (row.tool, row.fault, row.parameter, f"({subject})" if subject else "")))
    counts = f"{row.failed:,} failed, {plural(row.faults, 'fault')}, rate {percent(row.rate)}"
    say(out, f"{number}. {fault}: {counts}")
    say(out, f"   {_example(row)}")
    versions = f", versions {versions_of(row)}" if several else ""
    say(out, f"   in {short(row.example_conversation)}, since {moment(row.since, _DAY)}{versions}", style="dim")


def _columns(names: Sequence[str], *, several: bool) -> list[Column]:
    """Return the columns; `names` distinguish the rows, and `several` is set for more than one version."""
    return [
        Column(name="#", right=True),
        *text(*(name.replace("agent_", "") for name in names)),
        Column(name="tool", unfolded=True),
        Column(name="dimension", unfolded=True),
        Column(name="fault", least=16),
        *numbers("failed", "faults", "rate"),
        Column(name="share", right=True),
        Column(name="since", unfolded=True),
        *([Column(name="versions", least=10)] if several else []),
        Column(name="for example", least=24),
        Column(name="conversation", unfolded=True),
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


def _counts_of(result: FailingTools) -> str:
    conversations = f"{result.with_tools:,} of {plural(result.scored, 'scored conversation')} expected tools"
    unknown_tools = result.unknown_tools
    faults = f"{plural(result.faults, 'tool fault')}; {conversations}"
    return f"{faults}; those of {unknown_tools:,} could not be evaluated" if unknown_tools else faults


def _empty_reason(result: FailingTools, *, filtered: bool) -> str:
    """Return the reason why no fault is listed."""
    if not result.conversations:
        return "no tool faults: no closed conversations in this selection"
    if not result.scored:
        return f"no tool faults: none of {plural(result.conversations, 'closed conversation')} is scored; run evaluate"
    conversations = plural(result.scored, "scored conversation")
    if not result.with_tools:
        return f"no tool faults: none of {conversations} has a case that expects tools"
    if filtered and result.faults:
        return f"no matching fault: the selection has {plural(result.faults, 'other tool fault')}"
    if result.failed_tools:
        failures = f"{result.failed_tools:,} of {conversations} failed because of their tools"
        return f"{failures}, but evaluation {result.evaluation} does not record single faults"
    return f"no tool faults: {result.with_tools:,} of {conversations} expected tools, without a fault"


def _example(row: FailingTool) -> str:
    """Return the fault in the newest conversation, without the content of other columns."""
    if row.parameter:
        return difference_text(row.expected, row.actual, _VALUE_IN_TABLE)
    if row.fault == "missing":
        tried_note = f"({row.tried:,} of {row.faults:,} after errors of it) " if row.tried else ""
        return tried_note + _call(row.expected_call)
    if row.fault in {"spurious", "forbidden"}:
        return _call(row.actual_call)
    if row.fault == "errored":
        return short(row.error, _TEXT)
    return short(str(row.example or "").replace(f"{row.tool} in ", "", 1), _TEXT)


def _call(arguments: JsonObject | None) -> str:
    """Return the arguments of a call on one line."""
    if arguments is None:
        return NOTHING
    return (
        short(", ".join(f"{key} {short(value, _VALUE_IN_TABLE)}" for key, value in arguments.items()), _TEXT)
        or "no parameters"
    )
