"""One tool fault for people: what was expected beside what was made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from otel_agentic.cli.output import say
from otel_agentic.cli.tables import Column, print_table, text
from otel_agentic.cli.text import compact, moment, percent, plural, safe, short

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

_SECONDS: Final = 19
_DAY: Final = 10
_QUERY: Final = 300
_VALUE: Final = 300
_WRONG_VALUES: Final = 5
_VERSIONS: Final = 4


def print_example(out: Console, row: dict[str, Any]) -> None:
    """Print a row of `tools_failing` with its newest fault, given as `example`."""
    example = row["example"]
    hurts = f"(hurts {row['dimension']})" if row["dimension"] else "(hurts no dimension by itself)"
    say(out, " ".join(filter(None, (row["tool"], row["fault"], row["parameter"], hurts))), style="bold")
    say(out, _often(row))
    say(out, _when(row))
    if row["wrong_values"] and row["faults"] > 1:
        click.echo()
        columns = [Column(name="times", right=True), *text("actual", "expected")]
        values = [
            (each["count"], short(each["actual"], _VALUE), short(each["expected"], _VALUE))
            for each in row["wrong_values"][:_WRONG_VALUES]
        ]
        print_table(out, columns, values)
    click.echo()
    _print_newest(out, example)


def _often(row: dict[str, Any]) -> str:
    told = plural(row["faults"], "fault")
    if row["calls"]:
        of = {"missing": "expected", "errored": "made", "spurious": "made", "forbidden": "made"}
        what = of.get(row["fault"], "expected and made")
        told += f" in {plural(row['calls'], 'call')} {what} ({percent(row['rate'])})"
    failed = "failed, and it was not made good" if row["fault"] == "errored" else "failed with it"
    told += f", in {plural(row['conversations'], 'conversation')}; the tools of {row['failed']:,} {failed}"
    if row["tried"]:
        told += f"\n{row['tried']:,} of the missing calls stand beside errors of the tool: see --fault errored"
    expecting = row["expected_conversations"]
    return told if expecting is None else f"{told}\n{plural(expecting, 'scored conversation')} expected the tool"


def _when(row: dict[str, Any]) -> str:
    told = f"first seen {moment(row['since'], _DAY)}"
    if row["clean_before"]:
        told += f", after {plural(row['clean_before'], 'conversation')} with the tool and without this"
    told += f"; last seen {moment(row['last_seen'], _DAY)}"
    if len(row["versions"]) > 1 or row["is_new"]:
        told += f"\nin version {versions_of(row)}"
    return f"{told}: an earlier version used the tool without this" if row["is_new"] else told


def versions_of(row: dict[str, Any]) -> str:
    """Return the agent versions that have a fault, with how often; the one that brought it is marked.

    Of many, the first, the newest and the most affected one are told, and how many more there are.
    """
    told = [f"{safe(each['agent_version'])}: {each['faults']:,}" for each in row["versions"]]
    if row["is_new"] and row["agent_version"] in {None, row["introduced_in"]}:
        told = [
            f"{each} (new)" if version["agent_version"] == row["introduced_in"] else each
            for each, version in zip(told, row["versions"], strict=True)
        ]
    if len(told) > _VERSIONS:
        worst = max(range(len(told)), key=lambda place: row["versions"][place]["faults"])
        kept = sorted({0, worst, len(told) - 1})
        told = [*(told[place] for place in kept), f"+{len(told) - len(kept)} more"]
    return ", ".join(told)


def _print_newest(out: Console, example: dict[str, Any]) -> None:
    turn = "" if example["turn_index"] is None else f", turn {example['turn_index'] + 1}"
    say(out, f"newest: conversation {example['conversation_id']}{turn}", style="bold")
    agent = " ".join(str(example[name]) for name in ("agent", "agent_version", "environment") if example[name])
    case = f", case {example['case_id']}" if example["case_id"] else ""
    ended = moment(example["ended_at"], _SECONDS)
    say(out, f"{agent or 'unknown agent'}, ended {ended} UTC{case}: {example['outcome']}")
    if example["query"]:
        say(out, f"query: {short(example['query'], _QUERY)}")
    _print_calls(out, example)
    say(out, example["explanation"])
    say(out, f"trace {safe(example['trace_id'])}, span {safe(example['span_id'])}", style="dim")
    say(out, f"(otel-agentic conversations show {example['conversation_id']} shows all of it)", style="dim")


def _print_calls(out: Console, example: dict[str, Any]) -> None:
    """Print the parameters of both calls, those that differ marked, or of the one call that there is."""
    calls = {name: example[f"{name}_call"] for name in ("expected", "actual") if example[f"{name}_call"] is not None}
    keys = list(dict.fromkeys(key for call in calls.values() for key in call))
    if not calls:
        return
    rows = [(key, *(_value(call, key) for call in calls.values()), _mark(calls, key, example)) for key in keys]
    columns = text(safe(example["tool"]), *calls, "")
    click.echo()
    if keys:
        marked = any(row[-1] for row in rows)
        print_table(out, columns if marked else columns[:-1], rows if marked else [row[:-1] for row in rows])
    else:
        say(out, f"{example['tool']} {' and '.join(calls)} without parameters")
    click.echo()


def _value(call: Mapping[str, Any], key: str) -> str:
    return short(call[key], _VALUE) if key in call else "not given"


def _mark(calls: Mapping[str, Mapping[str, Any]], key: str, example: dict[str, Any]) -> str:
    if key == example["parameter"]:
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
