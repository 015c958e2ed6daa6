"""Metrics beyond the outcome: which layer broke first, what each metric says, what fails and how badly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_agentic.cli.html.markup import Html, markup, stranger, tag
from otel_agentic.cli.html.names import group_name, table, telling, time_of
from otel_agentic.cli.html.summary import MOST_ROWS
from otel_agentic.cli.report_metrics import (
    can_fail,
    headline_bands,
    metrics_of,
    shown_name,
    shown_threshold,
    shown_value,
)
from otel_agentic.cli.text import NOTHING, percent, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_agentic.cli.html.markup import Child
    from otel_agentic.cli.html.names import Group

#: The metric that names the layer which broke first, and its label where none did.
_LAYERS: Final = "agentic.layers.verdict"
_NO_LAYER: Final = "none"
_LABELS: Final = 8
_BANDS: Final = ("perfect", "good", "moderate", "poor")
_BLANK: Final = tag("span", NOTHING, class_="none blank")
#: Signs of severities, for those who see no colour.
_SIGNS: Final = {"critical": "■", "high": "▲", "medium": "◆", "low": "●"}


def layers_table(groups: Sequence[Group]) -> Html | None:
    """Return how often which layer broke first, a row for each group; None where nobody looked."""
    differing = telling(groups)
    lines: list[list[Child]] = [
        [
            group_name(group, differing),
            _label_bar(metric | {"failing_labels": [label for label in metric["labels"] if label != _NO_LAYER]}),
            tag("span", tag("b", f"{metric['n']:,}"), f" of {metric['n'] + sum(metric['not_evaluated'].values()):,}"),
        ]
        for group in groups[:MOST_ROWS]
        for metric in metrics_of(group)
        if metric["name"] == _LAYERS and metric["labels"]
    ]
    if not lines:
        return None
    return table("Which layer broke first, by group", ["group", "first to break", "conversations"], lines, numbers=1)


def metrics_table(groups: Sequence[Group], *, every: bool = False) -> Html | None:
    """Return a row for each group and metric, None without any; with `every` also of metrics without a score."""
    differing = telling(groups)
    lines: list[list[Child]] = []
    for group in groups:
        name = [group_name(group, differing)] if differing else []
        lines += [[*_named(metric, name), *_cells(metric)] for metric in metrics_of(group, every=every)]
    if not lines:
        return None
    heads = ["metric", *(["group"] if differing else []), "score", "good is", "not evaluated", "scores", "failures"]
    says = [place for place in range(len(heads)) if any(line[place] != _BLANK for line in lines)]
    cells = [[line[place] for place in says] for line in lines[:MOST_ROWS]]
    return table("What each metric says", [heads[place] for place in says], cells, numbers=_figures(says, heads))


def bands_table(groups: Sequence[Group]) -> Html | None:
    """Return how many conversations are perfect, good, moderate and poor in each tool dimension; None without any."""
    differing = telling(groups)
    lines: list[list[Child]] = [
        [
            *([group_name(group, differing)] if differing else []),
            dimension,
            _band_bar(found),
            *(f"{found[band]:,}" for band in _BANDS),
        ]
        for group in groups[:MOST_ROWS]
        for dimension, found in headline_bands(group).items()
    ]
    if not lines:
        return None
    heads = [*(["group"] if differing else []), "dimension", "conversations", *_BANDS]
    return table("Tool scores of conversations in bands", heads, lines, numbers=len(_BANDS))


def failures_table(rows: Sequence[Mapping[str, Any]]) -> Html:
    """Return failures by cause, the worst first."""
    lines: list[list[Child]] = [
        [
            stranger(row["title"], 200),
            _severity(row["severity"]),
            tag("span", stranger(row["example_conversation"]), class_="id"),
            tag("span", f"{time_of(row['first_seen_ns'])} to ", tag("span", time_of(row["last_seen_ns"]))),
            tag("b", f"{row['conversations']:,}"),
            f"{row['failures']:,}",
            percent(row["share"]),
        ]
        for row in rows
    ]
    heads = ["what fails", "severity", "newest example", "seen", "conversations", "failures", "of all"]
    return table("Failures by cause, the worst first", heads, lines, numbers=3)


def _figures(kept: Sequence[int], heads: Sequence[str]) -> int:
    """Return how many of the columns that are kept are figures."""
    return sum(heads[place] in {"scores", "failures"} for place in kept)


def _named(metric: Mapping[str, Any], group: Sequence[Child]) -> list[Child]:
    title = tag("span", stranger(metric["title"]), class_="sub") if metric["title"] else None
    return [markup((stranger(shown_name(metric)), title)), *group]


def _cells(metric: Mapping[str, Any]) -> Iterator[Child]:
    yield _score(metric)
    yield _or_nothing(shown_threshold(metric))
    yield _metric_reasons(metric)
    yield f"{metric['n']:,}"
    if not can_fail(metric):
        yield _BLANK
    else:
        yield tag("b", f"{metric['failures']:,}")


def _score(metric: Mapping[str, Any]) -> Html:
    """Return the mean with what lies around it, and labels with their shares."""
    labels = _label_bar(metric) if metric["labels"] else None
    if metric["mean"] is None:
        return labels or tag("span", NOTHING, class_="none")
    mean = tag("b", shown_value(metric["mean"], metric))
    plain = {**metric, "range": None} if metric["unit"] == "1" and metric["range"] != [0.0, 1.0] else metric
    low, median, high = (shown_value(metric[name], plain) for name in ("low", "median", "high"))
    around = tag("span", f"median {median}, from {low} to {high}", class_="sub")
    return markup((mean, _bar(metric), around if metric["n"] > 1 else None, labels))


def _bar(metric: Mapping[str, Any]) -> Html | None:
    """Return where the mean lies between the bounds of its metric, where it has two."""
    low, high = metric["range"] or (None, None)
    if low is None or high is None or low >= high:
        return None
    left = 100 * min(1.0, max(0.0, (high - metric["mean"]) / (high - low)))
    return tag("span", tag("i", style=f"left:0;right:{left:.4g}%"), class_="range cover", aria_hidden="true")


def _label_bar(metric: Mapping[str, Any]) -> Html:
    """Return the labels as a bar of their shares, and in words; failing ones come last, in the colour of failures."""
    neutral = "plain" if not metric["failing_labels"] else "passed"
    labels = sorted(metric["labels"].items(), key=lambda item: (item[0] in metric["failing_labels"], -item[1], item[0]))
    kinds = [(label, count, label in metric["failing_labels"]) for label, count in labels]
    bar = [
        tag("i", class_="failed" if failing else neutral, style=f"width:{100 * count / metric['n']:.4g}%")
        for _, count, failing in kinds[:_LABELS]
    ]
    words = [
        tag("span", tag("b", percent(count / metric["n"])), " ", stranger(label.replace("_", " ")), class_="reason")
        for label, count, _ in kinds[:_LABELS]
    ]
    more = tag("span", plural(len(kinds[_LABELS:]), "more label"), class_="sub") if kinds[_LABELS:] else None
    return markup((tag("span", *bar, class_="shares", aria_hidden="true"), words, more))


def _band_bar(found: Mapping[str, int]) -> Html:
    total = sum(found.values())
    parts = [
        tag("i", class_=f"band {band}", style=f"width:{100 * found[band] / total:.4g}%")
        for band in _BANDS
        if found[band]
    ]
    return tag("span", *parts, class_="shares", aria_hidden="true")


def _metric_reasons(metric: Mapping[str, Any]) -> Child:
    most = sorted(metric["not_evaluated"].items(), key=lambda item: (-item[1], item[0]))
    if not most:
        return _BLANK
    return markup([tag("span", f"{count:,} {reason.replace('_', ' ')}", class_="reason") for reason, count in most])


def _severity(severity: str) -> Html:
    sign = tag("span", _SIGNS.get(severity, "○"), class_=f"shape severity-{severity}", aria_hidden="true")
    return tag("span", sign, " ", severity, class_="tier")


def _or_nothing(told: str) -> Child:
    return _BLANK if told == NOTHING else told
