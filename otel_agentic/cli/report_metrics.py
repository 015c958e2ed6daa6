"""The part of a report about metrics beyond the outcome: tables and the sentences that they need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_agentic.cli.advice import metric_advice
from otel_agentic.cli.report_notes import KEYS, name_of
from otel_agentic.cli.tables import Column, text, told_apart
from otel_agentic.cli.text import NOTHING, percent, plural, ratio, short

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_agentic.cli.report_notes import Group

METRICS_TITLE: Final = "Metrics beyond the outcome"
BANDS_TITLE: Final = "Tool scores in bands (conversations): perfect 1.00, good from .75, moderate from .50, poor below"
#: Groups whose metrics stand in a terminal or in Markdown; of more, they are asked for by name.
MOST_GROUPS: Final = 6
_COLUMNS: Final = (
    Column(name="metric", whole=True),
    Column(name="score", least=16),
    Column(name="scores", right=True),
    Column(name="good is", whole=True, spare=2),
    Column(name="failures", right=True),
    Column(name="not evaluated", least=14, spare=1),
)
_BANDS: Final = ("perfect", "good", "moderate", "poor")
_LABELS: Final = 4
#: From here on a number is told in whole.
_LARGE: Final = 1000
_NAME: Final = 40
#: Names of metrics in a sentence.
_TOLD: Final = 6
_OURS: Final = "agentic."
_SIGNS: Final = {"s": "{} s", "ms": "{} ms", "{USD}": "${}", "USD": "${}"}


def metrics_of(group: Group, *, every: bool = False) -> list[dict[str, Any]]:
    """Return the metrics of a group that have a score; with `every`, those that abstained throughout, too."""
    return [metric for metric in group.get("metrics") or () if every or metric["n"]]


def table_of_metrics(groups: Sequence[Group], *, every: bool = False) -> tuple[list[Column], list[list[Any]]]:
    """Return columns and rows of the table of metrics: a row for each group and metric.

    What names the group stands in its first row. A column that would say nothing in any row is left out.
    """
    names, _ = told_apart(groups, KEYS)
    columns = [*text(*(name.replace("agent_", "") for name in names)), *_COLUMNS]
    rows = []
    for group in groups:
        whole = [group[name] for name in names]
        for place, metric in enumerate(metrics_of(group, every=every)):
            rows.append([*(whole if place == 0 else [""] * len(whole)), *_cells(metric)])
    says = [place for place in range(len(columns)) if any(row[place] != NOTHING for row in rows)]
    return [columns[place] for place in says], [[row[place] for place in says] for row in rows]


def table_of_bands(groups: Sequence[Group]) -> tuple[list[Column], list[list[Any]]]:
    """Return columns and rows of tool scores in bands: a row for each group and dimension."""
    names, _ = told_apart(groups, KEYS)
    columns = [
        *text(*(name.replace("agent_", "") for name in names)),
        Column(name="dimension", whole=True),
        *(Column(name=band, right=True) for band in _BANDS),
    ]
    rows = []
    for group in groups:
        whole = [group[name] for name in names]
        for place, (dimension, found) in enumerate(headline_bands(group).items()):
            counts = (f"{found[band]:,}" for band in _BANDS)
            rows.append([*(whole if place == 0 else [""] * len(whole)), dimension, *counts])
    return columns, rows


def headline_bands(group: Group) -> dict[str, dict[str, int]]:
    """Return the bands of the dimensions that count: utilization, which has no default weight, is left to details."""
    bands = group.get("tool_bands") or {}
    return {dimension: found for dimension, found in bands.items() if dimension != "utilization"}


def metric_notes(groups: Sequence[Group], chosen: Sequence[str] | None = None) -> list[str]:
    """Return what is to be known of the metrics: which are not shown, and where to find them.

    Args:
        groups: the groups of the report.
        chosen: the metrics that were asked for by name, None where none were.
    """
    shown = [metric for group in groups for metric in group.get("metrics") or ()]
    if chosen:
        return [*not_computed(groups, chosen), *metric_advice(shown)]
    if len(groups) > MOST_GROUPS and any(metrics_of(group) for group in groups):
        return [
            f"metrics of {plural(len(groups), 'group')} are not shown: --metrics A,B shows some, --format json has all"
        ]
    silent = [f"{', '.join(names)}: {told}" for told, names in abstained(groups).items()]
    return [*silent, *metric_advice(shown)]


def abstained(groups: Sequence[Group]) -> dict[str, list[str]]:
    """Return how many metrics had nothing to score, in words, with the names of the groups where that is so."""
    told: dict[str, list[str]] = {}
    for group in groups:
        if (silent := _silent(group)) is not None:
            told.setdefault(silent, []).append(name_of(group, groups))
    return told


def not_computed(groups: Sequence[Group], chosen: Sequence[str]) -> list[str]:
    """Return a sentence about those metrics that nobody computed, none where all were."""
    known = {metric["name"] for group in groups for metric in group.get("metrics") or ()}
    missing = [name.removeprefix(_OURS) for name in chosen if name not in known]
    return [_not_computed(missing)] if missing else []


def _not_computed(names: Sequence[str]) -> str:
    """Return which metrics nobody computed, and what computes them."""
    more = f" and {len(names) - _TOLD} more" if len(names) > _TOLD else ""
    told = ", ".join(names[:_TOLD])
    return f"not computed here: {told}{more}; `otel-agentic evaluate --metrics {names[0]}` computes one"


def _silent(group: Group) -> str | None:
    """Return how many metrics abstained throughout, and why; None where none did."""
    silent = [metric for metric in group.get("metrics") or () if not metric["n"]]
    if not silent:
        return None
    reasons = dict.fromkeys(reason for metric in silent for reason in metric["not_evaluated"])
    why = f" ({', '.join(reasons)})" if reasons else ""
    told = f"{plural(len(silent), 'more metric')} had nothing to score{why}"
    return f"{told}; `otel-agentic report --metrics all` shows them"


def shown_name(metric: Mapping[str, Any]) -> str:
    """Return the name of a metric as people write it.

    >>> shown_name({"name": "agentic.layers.verdict"}), shown_name({"name": "politeness"})
    ('layers.verdict', 'politeness')
    """
    return short(str(metric["name"]).removeprefix(_OURS), _NAME)


def shown_score(metric: Mapping[str, Any]) -> str:
    """Return the mean of a metric, or how often it gave which label.

    >>> shown_score({"mean": 4.25, "unit": "1", "range": [1.0, 5.0], "labels": {}, "n": 8})
    '4.25 of 1 to 5'
    >>> shown_score({"mean": None, "unit": "1", "range": [0.0, 1.0], "labels": {"none": 3, "action": 1}, "n": 4})
    'none 75%, action 25%'
    """
    shares = ", ".join(label_shares(metric))
    if metric["mean"] is None:
        return shares or NOTHING
    told = shown_value(metric["mean"], metric)
    return f"{told}: {shares}" if shares else told


def label_shares(metric: Mapping[str, Any]) -> Iterator[str]:
    """Yield the most frequent labels of a metric, each with its share of the scores."""
    labels = list(metric["labels"].items())
    for label, count in labels[:_LABELS]:
        yield f"{short(label, _NAME)} {percent(count / metric['n'])}"
    if labels[_LABELS:]:
        yield f"{plural(len(labels[_LABELS:]), 'other label')}"


def shown_value(value: float, metric: Mapping[str, Any]) -> str:
    """Return a value of a metric with its unit.

    >>> shown_value(2.5, {"unit": "s", "range": [0.0, None]}), shown_value(0.0213, {"unit": "{USD}", "range": [0.0, None]})
    ('2.5 s', '$0.0213')
    >>> shown_value(0.5, {"unit": "1", "range": [0.0, 1.0]}), shown_value(1234.0, {"unit": "{token}", "range": [0.0, None]})
    ('.500', '1,234 tokens')
    """
    unit, bounds = metric["unit"] or "1", metric["range"]
    if unit == "1" and bounds == [0.0, 1.0]:
        return ratio(value)
    number = _number(value)
    if unit == "1":
        scale = "" if not bounds or None in bounds else f" of {bounds[0]:g} to {bounds[1]:g}"
        return f"{number}{scale}"
    if unit in _SIGNS:
        return _SIGNS[unit].format(number)
    noun = short(unit.strip("{}"), _NAME)
    return f"{number} {noun}{'' if value == 1 or not unit.startswith('{') else 's'}"


def shown_threshold(metric: Mapping[str, Any]) -> str:
    """Return which values of a metric are good.

    >>> shown_threshold({"threshold": {"min": 3.0, "max": None}}), shown_threshold({"threshold": None})
    ('at least 3', '—')
    """
    found = metric["threshold"]
    if found is None:
        return NOTHING
    least = "" if found["min"] is None else f"at least {found['min']:g}"
    most = "" if found["max"] is None else f"at most {found['max']:g}"
    return ", ".join(filter(None, (least, most)))


def shown_reasons(metric: Mapping[str, Any]) -> str:
    """Return how often there was no score, by reason."""
    most = sorted(metric["not_evaluated"].items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count:,} {reason}" for reason, count in most) or NOTHING


def can_fail(metric: Mapping[str, Any]) -> bool:
    """Return whether something says what a failure of a metric is."""
    return metric["threshold"] is not None or bool(metric["failing_labels"])


def _cells(metric: Mapping[str, Any]) -> list[str]:
    failures = f"{metric['failures']:,}" if can_fail(metric) else NOTHING
    return [
        shown_name(metric),
        shown_score(metric),
        f"{metric['n']:,}",
        shown_threshold(metric),
        failures,
        shown_reasons(metric),
    ]


def _number(value: float) -> str:
    """Return a number with three digits that mean something, all digits of what is large.

    >>> _number(1234.5), _number(4.2512), _number(0.02129), _number(-0.0)
    ('1,234', '4.25', '0.0213', '0')
    """
    value += 0.0  # -0 is 0
    return f"{value:,.0f}" if abs(value) >= _LARGE else f"{value:.3g}"
