"""What a report says where it is asked or set up: a comparison, objectives, rates corrected for the judge's errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_agentic.cli import report_compare, report_corrected
from otel_agentic.cli.html.markup import Html, markup, stranger, tag
from otel_agentic.cli.html.names import group_name, table, telling, with_keys
from otel_agentic.cli.report_objectives import objective_notes
from otel_agentic.cli.text import NOTHING, moment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_agentic.cli.html.markup import Child
    from otel_agentic.cli.html.names import Group
    from otel_agentic.cli.tables import Column

#: An e-value beyond is told as "above" it.
_MOST: Final = 1e6


def comparison_part(comparison: dict[str, Any]) -> Html:
    """Return the differences between two groups, and what they say."""
    notes = tag("ul", *(tag("li", note) for note in report_compare.comparison_notes(comparison)))
    columns, rows = report_compare.difference_columns(comparison), report_compare.difference_rows(comparison)
    title = report_compare.difference_title(comparison)
    return markup((notes, tag("h3", title) if rows else None, _listed(title, columns, rows) if rows else None))


def corrected_part(groups: Sequence[Group]) -> Html | None:
    """Return the rates that people's verdicts correct, None where there are none."""
    rows = report_corrected.corrected_rows(groups)
    if not rows:
        return None
    notes = tag("ul", *(tag("li", note) for note in report_corrected.corrected_notes(groups)))
    return markup((_listed(report_corrected.CORRECTED_TITLE, report_corrected.corrected_columns(groups), rows), notes))


def objectives_part(objectives: Sequence[dict[str, Any]]) -> Html:
    """Return each objective: what is promised, what the evidence against it is, and whether it raised an alarm."""
    rows = with_keys(objectives)
    differing = telling(rows, "agent")
    lines: list[list[Child]] = [
        [
            group_name(row, differing),
            stranger(row["objective"]),
            _verdict(row),
            _since(row),
            tag("span", tag("b", f"{row['c']:,}"), f" of {row['n']:,}"),
            tag(
                "span",
                tag("b", _evidence(row["e_value"])),
                tag("span", f"alarm at {1 / row['alpha']:.4g}", class_="sub"),
            ),
        ]
        for row in rows
    ]
    heads = ["group", "objective", "verdict", "since", "correct", "e-value"]
    notes = tag("ul", *(tag("li", note) for note in objective_notes(objectives)))
    return markup((table("Objectives, and the evidence that they are broken", heads, lines, numbers=2), notes))


def _verdict(row: Mapping[str, Any]) -> Html:
    role, sign, words = _standing(row)
    told = tag("span", tag("span", sign, class_=f"shape {role}", aria_hidden="true"), " ", words, class_="tier")
    fallen = tag("span", "pass rate seems to have fallen", class_="sub") if row["changed_at"] else None
    return markup((told, fallen))


def _standing(row: Mapping[str, Any]) -> tuple[str, str, str]:
    if row["alarm"]:
        return "not-ready", "■", "broken"
    if not row["n"]:
        return "insufficient-evidence", "○", "nothing final yet"
    return "ready", "●", "no alarm"


def _since(row: Mapping[str, Any]) -> Child:
    found = row["alarmed_at"] or row["changed_at"]
    return moment(found) if found else tag("span", NOTHING, class_="none blank")


def _evidence(e_value: float) -> str:
    return f"above {_MOST:.0e}" if e_value > _MOST else f"{e_value:.3g}"


def _listed(title: str, columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> Html:
    """Return a table that was made for a terminal; what is blank there because it stands above is filled in."""
    filled: list[list[Any]] = []
    for row in rows:
        above = filled[-1] if filled else row
        filled.append([above[place] if value == "" else value for place, value in enumerate(row)])
    lead = f"{columns[0].name} = " if columns[0].name == "k" else ""
    cells = [
        [markup((lead if not place else None, stranger(value))) for place, value in enumerate(row)] for row in filled
    ]
    return table(title, [column.name for column in columns], cells)
