"""Small pieces of a page that several sections share: names of groups, tiers, estimates with their interval."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.cli.html.markup import Html, markup, stranger, tag
from otel_agentic.cli.html.theme import TIERS
from otel_agentic.cli.report_notes import KEYS
from otel_agentic.cli.tables import told_apart
from otel_agentic.cli.text import NOTHING, percent, ratio

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from otel_agentic.cli.html.markup import Child

Group = dict[str, Any]


_NS_PER_S: Final = 1_000_000_000


def with_keys(rows: Iterable[Mapping[str, Any]]) -> list[Group]:
    """Return rows with every key that tells groups apart, None where a row has none."""
    return [dict.fromkeys(KEYS) | dict(row) for row in rows]


def telling(groups: Sequence[Mapping[str, Any]], *always: str) -> list[str]:
    """Return the keys that tell groups apart, in their order, with those that are always named."""
    differing, _ = told_apart(groups, KEYS)
    return [name for name in KEYS if name in differing or name in always]


def group_name(group: Mapping[str, Any], differing: Sequence[str]) -> Html:
    """Return the name of a group by the keys that tell it apart, or its agent where there are none."""
    parts = [stranger(group[name]) for name in differing if group[name]]
    return Html(" · ".join(parts)) or stranger(group["agent"] or "all conversations")


def tier_chip(group: Mapping[str, Any]) -> Html:
    """Return the tier of a group: shape, colour and word, and what it leans to."""
    style = TIERS[group["tier"]]
    shape = tag("span", style.sign, class_=f"shape {style.role}", aria_hidden="true")
    told = tag("span", shape, " ", style.words, class_="tier")
    leaning = (
        f"leaning {TIERS[group['leaning']].words}"
        if group.get("leaning") and group["tier"] == "insufficient_evidence"
        else None
    )
    return markup((told, " ", tag("span", leaning, class_="sub leaning") if leaning else None))


def estimate_cell(found: Mapping[str, float | None]) -> Html:
    """Return an estimate with its interval, in figures and as a bar from 0 to 1."""
    if found["value"] is None:
        return tag("span", NOTHING, class_="none", title="undefined: too few attempts")
    if found["lower"] is None or found["upper"] is None:
        return tag("b", ratio(found["value"]))
    told = f"[{ratio(found['lower'])}, {ratio(found['upper'])}]"
    bar = tag(
        "span",
        tag("i", style=f"left:{_share(found['lower'])};right:{_share(1 - found['upper'])}"),
        tag("b", style=f"left:{_share(found['value'])}"),
        class_="range",
        aria_hidden="true",
    )
    return markup((tag("b", ratio(found["value"])), " ", tag("span", told, class_="sub nowrap"), bar))


def coverage_cell(coverage: float | None) -> Html:
    """Return a coverage in figures and as a bar."""
    if coverage is None:
        return tag("span", NOTHING, class_="none")
    bar = tag("span", tag("i", style=f"left:0;right:{_share(1 - coverage)}"), class_="range cover", aria_hidden="true")
    return markup((percent(coverage), bar))


def table(
    caption: str, heads: Sequence[Child], rows: Iterable[Sequence[Child]], *, class_: str = "", numbers: int = 0
) -> Html:
    """Return a table whose first column names its rows; on a narrow screen each row becomes a card.

    Args:
        caption: what it shows.
        heads: names of the columns.
        rows: cells, as many as there are columns.
        class_: its classes.
        numbers: how many of the last columns are figures.
    """
    words = len(heads) - numbers
    kinds = ["" if place < words else "figure" for place in range(len(heads))]
    head = tag(
        "tr", *(tag("th", text, scope="col", class_=kind or None) for text, kind in zip(heads, kinds, strict=True))
    )
    labels = [str(text) for text in heads]
    body = [
        tag(
            "tr",
            tag("th", row[0], scope="row"),
            *(
                tag("td", cell, class_=kind or None, data_label=label)
                for cell, kind, label in zip(row[1:], kinds[1:], labels[1:], strict=True)
            ),
        )
        for row in rows
    ]
    made = tag(
        "table", tag("caption", caption), tag("thead", head), tag("tbody", body), class_=f"cards {class_}".strip()
    )
    return scrolling(made, caption)


def scrolling(content: Html, label: str) -> Html:
    """Return content that scrolls by itself where it is wider than the page, by keys, too."""
    return tag("div", content, class_="scroll", tabindex=0, role="region", aria_label=label)


def _share(value: float) -> str:
    return f"{100 * value:.4g}%"


def time_of(time_ns: int) -> str:
    """Return a time in UTC, to the minute.

    >>> time_of(1_772_452_800_000_000_000)
    '2026-03-02 12:00'
    """
    return datetime.fromtimestamp(time_ns // _NS_PER_S, UTC).strftime("%Y-%m-%d %H:%M")
