"""Values as the templates show them: cut names, numbers, times, tiers, and the geometry of bars in a table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.render.report_notes import KEYS
from otel_agentic.render.report_tables import shown_value
from otel_agentic.render.terminal import differing_and_shared
from otel_agentic.render.text import NOTHING, percent, safe

if TYPE_CHECKING:
    from otel_agentic.results.reports import MetricSummary, Rate, ReportGroup

#: An untrusted name is cut after this many characters; the JSON report contains all of it.
NAME_LIMIT: Final = 80
#: The id of a conversation in a table is cut after this many characters, because it is not broken.
ID_LIMIT: Final = 30
#: An argument of a tool call is cut after this many characters.
VALUE_LIMIT: Final = 60
_NS_PER_S: Final = 1_000_000_000
#: The upper bounds of the loss (1 - score) of each step of colour of the tool map.
_LOSSES: Final = (0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0)
_MAX_LABELS: Final = 8
#: Larger e-values are shown as greater than this one.
_MAX_E_VALUE: Final = 1e6
#: A part of a text that is never broken: words of at most 14 characters; of a longer word, up to a character that joins
#: words, and at most 18 characters.
_PIECE: Final = re.compile(r"(?<![^ ])(?:[^ ]{1,14}(?: +|$))+|[^-_/:@.,(= ]{0,17}[-_/:@.,(= ]+|[^-_/:@.,(= ]{1,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TierStyle:
    """The presentation of a tier: words, a CSS class, and a sign for readers who cannot see colours.

    `is_claim` is whether the tier is a statement about the agent.
    """

    words: str
    css: str
    sign: str
    is_claim: bool = True


TIERS: Final[Mapping[str, TierStyle]] = {
    "ready": TierStyle(words="ready", css="ready", sign="●"),
    "needs_improvement": TierStyle(words="needs improvement", css="needs-improvement", sign="▲"),
    "inconsistent": TierStyle(words="inconsistent", css="inconsistent", sign="◆"),
    "not_ready": TierStyle(words="not ready", css="not-ready", sign="■"),
    "insufficient_evidence": TierStyle(
        words="insufficient evidence", css="insufficient-evidence", sign="○", is_claim=False
    ),
    "no_row": TierStyle(words="no row in the table", css="insufficient-evidence", sign="◇"),
    "": TierStyle(words="unknown", css="insufficient-evidence", sign="○", is_claim=False),
}
#: The outcomes of conversations, turns and criteria.
OUTCOMES: Final[Mapping[str, TierStyle]] = {
    "pass": TierStyle(words="pass", css="ready", sign="✓"),
    "fail": TierStyle(words="fail", css="not-ready", sign="✗"),
    "not_evaluated": TierStyle(words="not evaluated", css="insufficient-evidence", sign="○"),
}
#: Signs of severities, for readers who cannot see colours.
SEVERITY_SIGNS: Final = {"critical": "■", "high": "▲", "medium": "◆", "low": "●"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """An untrusted name: its text, and the full text if that is longer."""

    text: str
    full: str | None


def shorten(value: object, limit: int = NAME_LIMIT) -> Name:
    """Return an untrusted value as one line of at most `limit` characters.

    >>> shorten("x" * 9, 4)
    Name(text='xxx…', full='xxxxxxxxx')
    """
    text = " ".join(safe(value).split())
    if len(text) <= limit:
        return Name(text=text, full=None)
    return Name(text=text[: limit - 1] + "…", full=text[: 10 * limit])


def paragraph(value: object, limit: int) -> str:
    r"""Return an untrusted text of at most `limit` characters with its line breaks.

    >>> paragraph("one\ntwo three", 8)
    'one\ntwo…'
    """
    text = safe(value).strip()
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def pieces(text: str) -> list[str]:
    """Return the parts of a text between which a line may break.

    >>> pieces("look_up_the_order of a user")
    ['look_', 'up_', 'the_', 'order ', 'of a user']
    """
    return _PIECE.findall(text)


def names(group: object, keys: Sequence[str]) -> list[object]:
    """Return the values that name a group: those of the keys, or its agent if there are no keys."""
    values = [value for key in keys if (value := getattr(group, key, None))]
    return values or [getattr(group, "agent", None) or "all conversations"]


def distinguishing_keys(groups: Sequence[object], *always: str) -> list[str]:
    """Return the keys that distinguish the groups, and those that are always shown, in the order of `KEYS`."""
    differing, _ = differing_and_shared(groups, KEYS)
    return [name for name in KEYS if name in differing or name in always]


def column_name(key: str) -> str:
    """Return the header of the column of a key."""
    return key.replace("agent_", "")


def thousands(count: int) -> str:
    """Return a count with separators."""
    return f"{count:,}"


def time_of(time_ns: int) -> str:
    """Return a time in UTC, to the minute.

    >>> time_of(1_772_452_800_000_000_000)
    '2026-03-02 12:00'
    """
    return datetime.fromtimestamp(time_ns // _NS_PER_S, UTC).strftime("%Y-%m-%d %H:%M")


def words(identifier: str) -> str:
    """Return an identifier with spaces for underscores."""
    return identifier.replace("_", " ")


def by_count(counts: Mapping[str, int]) -> list[str]:
    """Return counts as text, the most frequent first."""
    ordered = sorted(counts.items(), key=lambda name_and_count: (-name_and_count[1], name_and_count[0]))
    return [f"{count:,} {words(reason)}" for reason, count in ordered]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A part of a bar: the CSS class, and its start (empty at 0) and width in percent of the bar."""

    css: str
    x: str
    width: str


def interval_bars(rate: Rate) -> list[Bar]:
    """Return the bars of an estimate from 0 to 1: its interval, and its value."""
    if rate.value is None or rate.lower is None or rate.upper is None:
        return []
    return [
        _bar("interval", 100 * rate.lower, 100 * (rate.upper - rate.lower)),
        _bar("value", min(98.0, max(0.0, 100 * rate.value - 1)), 2),
    ]


def filled_bar(ratio: float) -> list[Bar]:
    """Return the bar of a ratio, from the left end."""
    return [_bar("filled", 0, 100 * min(1.0, max(0.0, ratio)))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A part of a whole: its CSS class, its count, and its description."""

    css: str
    count: int
    words: str = ""


def share_bars(counts: Sequence[Share]) -> list[Bar]:
    """Return the bars of the parts of a whole, one after another.

    >>> [(bar.x, bar.width) for bar in share_bars([Share(css="a", count=1), Share(css="b", count=3)])]
    [('', '24.5'), ('25', '75')]
    """
    total = sum(share.count for share in counts) or 1
    ends = [0.0]
    for share in counts:
        ends.append(ends[-1] + 100 * share.count / total)
    # A thin gap separates the parts; the last one ends at the right end.
    gaps = [0.5] * (len(counts) - 1) + [0.0]
    return [
        _bar(share.css, left, max(0.5, right - left - gap))
        for share, (left, right), gap in zip(counts, pairwise(ends), gaps, strict=True)
    ]


def _bar(css: str, x: float, width: float) -> Bar:
    return Bar(css=css, x=f"{x:.3g}" if x else "", width=f"{width:.3g}")


def outcome_counts(group: ReportGroup) -> list[Share]:
    """Return the conversations of a group that passed, failed and were not evaluated."""
    missing = sum(group.not_evaluated.values())
    counts = (
        ("passed", group.c, "passed"),
        ("failed", group.n - group.c, "failed"),
        ("missing", missing, "not evaluated"),
    )
    return [Share(css=css, count=count, words=f"{count:,} {name}") for css, count, name in counts if count]


def loss(score: float) -> int:
    """Return the step of colour of a score: 0 for a perfect one, more for a larger loss.

    >>> loss(1.0), loss(0.93), loss(0.0)
    (0, 2, 6)
    """
    return next((step for step, most in enumerate(_LOSSES) if 1.0 - score <= most + 1e-9), len(_LOSSES) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelBar:
    """The most frequent labels, as a bar and as pairs of share and label; `more` is the number of labels left out."""

    counts: Sequence[Share]
    words: Sequence[tuple[str, str]]
    more: int


def label_bar(metric: MetricSummary, failing_labels: Sequence[str]) -> LabelBar:
    """Return the labels of a metric; failing labels come last, in the colour of failures."""
    neutral = "plain" if not failing_labels else "passed"
    labels = sorted(
        metric.labels.items(),
        key=lambda label_and_count: (label_and_count[0] in failing_labels, -label_and_count[1], label_and_count[0]),
    )
    first = labels[:_MAX_LABELS]
    return LabelBar(
        counts=[Share(css="failed" if label in failing_labels else neutral, count=count) for label, count in first],
        words=[(percent(count / metric.n), words(label)) for label, count in first],
        more=len(labels[_MAX_LABELS:]),
    )


def reach(metric: MetricSummary) -> float | None:
    """Return where the mean lies in its range, from 0 to 1; None without two bounds."""
    low, high = metric.range or (None, None)
    if low is None or high is None or low >= high or metric.mean is None:
        return None
    return min(1.0, max(0.0, (metric.mean - low) / (high - low)))


def bound(metric: MetricSummary, name: str) -> str:
    """Return the `low`, `median` or `high` of a metric without its scale."""
    value = getattr(metric, name)
    return NOTHING if value is None else shown_value(value, metric, scale=False)


def evidence(e_value: float) -> str:
    """Return an e-value with three digits."""
    return f"above {_MAX_E_VALUE:.0e}" if e_value > _MAX_E_VALUE else f"{e_value:.3g}"


def anchor(section: str) -> str:
    """Return the id of a section."""
    return section.lower().replace(" ", "-")


def shared_value(values: Sequence[Any]) -> Any | None:
    """Return the value that two or more rows have in common, or None if they differ.

    A column in which every row has the same value is left out of a table, and the value is in the text above it.

    >>> shared_value(["high", "high"]), shared_value(["high"]), shared_value(["high", "low"])
    ('high', None, None)
    """
    return values[0] if len(values) > 1 and all(value == values[0] for value in values) else None
