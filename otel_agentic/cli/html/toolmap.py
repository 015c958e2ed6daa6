"""Tools: the map of tool by dimension, and what is wrong with which tool."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.cli.html.markup import Html, markup, stranger, tag
from otel_agentic.cli.html.names import scrolling, table
from otel_agentic.cli.tables import told_apart
from otel_agentic.cli.text import NOTHING, percent, plural, ratio

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_agentic.cli.html.markup import Child

_DIMENSIONS: Final = ("selection", "parameters", "sequence", "utilization")
#: What a dimension's score is the mean of.
_OF: Final = {"selection": "call", "parameters": "call", "sequence": "call", "utilization": "result"}
#: The darkest cell is this opaque: its figures stay readable on it.
_DARKEST: Final = 0.62
_SCALE: Final = (1.0, 0.95, 0.9, 0.75, 0.5, 0.25, 0.0)
_VALUES: Final = 3
_VALUE_LIMIT: Final = 40


def tool_map(rows: Sequence[Mapping[str, Any]]) -> Html:
    """Return a map of tools by dimension: the deeper a cell, the more of the score is lost there."""
    agents, _ = told_apart(rows, ["agent"])
    head = tag(
        "tr",
        tag("th", "tool", scope="col"),
        *(tag("th", name, scope="col") for name in _DIMENSIONS),
        tag("th", "errors", scope="col"),
    )
    body = [
        tag(
            "tr",
            _tool(row, named=bool(agents)),
            *(_cell(row, name) for name in _DIMENSIONS),
            tag("td", tag("b", f"{row['errored']:,}"), class_="count", data_label="errors"),
        )
        for row in rows
    ]
    told = "Mean score of each tool in each dimension, from 0 to 1, with how much it is the mean of"
    return scrolling(tag("table", tag("caption", told), tag("thead", head), tag("tbody", body), class_="heat"), told)


def heat_legend() -> Html:
    """Return the scale of the map: what colour a score has."""
    steps = [tag("span", ratio(score), style=f"--a:{_depth(score):.3f}") for score in _SCALE]
    return tag(
        "p",
        tag("span", *steps, class_="scale"),
        tag("span", tag("span", class_="key hatched"), " does not apply"),
        class_="legend",
    )


def failing_table(rows: Sequence[Mapping[str, Any]]) -> Html:
    """Return what is wrong with which tool: first what most conversations failed by."""
    agents, _ = told_apart(rows, ["agent"])
    versions, _ = told_apart(rows, ["agent_version"])
    heads = [
        "tool",
        *agents,
        *("version" for _ in versions),
        "fault",
        "parameter",
        "made, not expected",
        "an example",
        "faults",
        "of its calls",
        "failed",
    ]
    lines: list[list[Child]] = [
        [
            stranger(row["tool"]),
            *(_tool_name(row[name]) for name in (*agents, *versions)),
            _fault(row),
            _tool_name(row["parameter"]),
            _values(row),
            tag("span", stranger(row["example_conversation"]), class_="id"),
            f"{row['faults']:,}",
            NOTHING if row["rate"] is None else percent(row["rate"]),
            tag("span", tag("b", f"{row['failed']:,}"), f" of {row['conversations']:,}"),
        ]
        for row in rows
    ]
    return table("What is wrong with which tool; first what most conversations failed by", heads, lines, numbers=3)


def _tool(row: Mapping[str, Any], *, named: bool) -> Html:
    """Return the head of a row: the tool, its agent where there are several, how many conversations had it."""
    agent = (stranger(row["agent"]), " · ") if named else ()
    about = tag("span", agent, plural(row["conversations"], "conversation"), class_="sub")
    return tag("th", stranger(row["tool"]), about, scope="row")


def _cell(row: Mapping[str, Any], name: str) -> Html:
    """Return a cell; one of a dimension that never applied is hatched, for that is not a score of 0."""
    score, count, faults = row[name], row[f"{name}_n"], row[f"{name}_faults"]
    if score is None:
        told = plural(faults, "fault") if faults else "does not apply"
        return tag(
            "td", tag("span", NOTHING, class_="none"), tag("span", told, class_="sub"), class_="empty", data_label=name
        )
    found = plural(count, _OF[name])
    lost = f"{found}, {plural(faults, 'fault')}" if faults else found
    depth = f"--a:{_depth(score):.3f}"
    return tag("td", tag("b", ratio(score)), tag("span", lost, class_="sub"), style=depth, data_label=name)


def _depth(score: float) -> float:
    """Return how deep the colour of a score is: by the root of what is lost, so that a small loss is seen."""
    return _DARKEST * math.sqrt(max(0.0, 1.0 - score))


def _fault(row: Mapping[str, Any]) -> Html:
    new = (
        tag("span", "new", class_="new", title="an earlier version used the tool without this")
        if row["is_new"]
        else None
    )
    return markup((row["fault"].replace("_", " "), " ", new, tag("span", row["dimension"], class_="sub")))


def _values(row: Mapping[str, Any]) -> Child:
    """Return the most frequent wrong values: what was made, and what was expected."""
    pairs = (row["wrong_values"] or [])[:_VALUES]
    if not pairs:
        return tag("span", NOTHING, class_="none blank")
    return markup(
        [tag("span", _value(each["actual"]), " not ", _value(each["expected"]), class_="pair") for each in pairs]
    )


def _value(value: Any) -> Html:
    return tag("code", stranger("nothing" if value is None else value, _VALUE_LIMIT))


def _tool_name(value: Any) -> Child:
    return tag("span", NOTHING, class_="none blank") if value is None else stranger(value)
