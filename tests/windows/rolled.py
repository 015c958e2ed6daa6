"""The contents of windows, computed slowly: each by a scan of all conversations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final

from hypothesis import strategies as st

from otel_agentic.config import StatsSettings
from otel_agentic.stats import BayesianEstimator, Estimator, GroupedAttempts, PerCaseEstimator, leaning_tiers
from otel_agentic.windows import (
    GroupKey,
    GroupSummary,
    ScoredConversation,
    WindowPoint,
    attempts_of,
    parse_windows,
    subject_key,
    summarise,
)

SECOND: Final = 1_000_000_000
WEEK: Final = 604_800 * SECOND
SETTINGS: Final = StatsSettings(k=(1, 3))
ESTIMATORS: Final[list[Estimator]] = [
    BayesianEstimator.from_settings(SETTINGS),
    PerCaseEstimator.from_settings(SETTINGS),
]
PLAIN: Final = ScoredConversation(
    environment="production",
    conversation_id="1",
    revision=1,
    agent="booking",
    agent_version=None,
    service=None,
    ended_ns=0,
    dataset=None,
    case_id=None,
    tags=(),
    outcome="pass",
    reason=None,
)
#: The figures of a point, rounded so that two orders of addition agree.
Figures = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow:
    """A point that a scan found."""

    window: str
    end_ns: int
    summary: GroupSummary


def scanned(
    scored: Sequence[ScoredConversation], widths: Sequence[str], ends: Sequence[int], tags: Sequence[str] = ()
) -> list[Slow]:
    """Return the points by scanning the conversations for each group, window and end."""
    return [
        Slow(window=window.name, end_ns=end_ns, summary=_summary(key, held))
        for end_ns in ends
        for window in parse_windows(widths)
        for key, members in _groups(scored, tags).items()
        if (held := _held(members, end_ns, window.width_ns, window.newest, widths))
    ]


def _summary(key: GroupKey, held: Sequence[ScoredConversation]) -> GroupSummary:
    summary = summarise(key, held, estimators=ESTIMATORS, settings=SETTINGS, k=SETTINGS.k)
    # A window claims nothing; it leans to the tier of its estimates.
    (leaning,) = leaning_tiers(GroupedAttempts.of([attempts_of(held)]), SETTINGS)
    return replace(summary, tier="insufficient_evidence", leaning=leaning)


def _held(
    members: Sequence[ScoredConversation], end_ns: int, width_ns: int | None, newest: int | None, widths: Sequence[str]
) -> list[ScoredConversation]:
    if width_ns is not None:
        return [row for row in members if end_ns - width_ns < row.ended_ns <= end_ns]
    before = sorted((row for row in members if row.ended_ns <= end_ns), key=_event_order)
    widest = max((window.width_ns for window in parse_windows(widths) if window.width_ns is not None), default=WEEK)
    alive = bool(before) and before[-1].ended_ns > end_ns - widest
    return before[-(newest or 0) :] if alive else []


def _event_order(scored: ScoredConversation) -> tuple[int, str, str]:
    return (scored.ended_ns, scored.environment, scored.conversation_id)


def _groups(scored: Sequence[ScoredConversation], tags: Sequence[str]) -> dict[GroupKey, list[ScoredConversation]]:
    groups: dict[GroupKey, list[ScoredConversation]] = {}
    for row in scored:
        for key in _keys(row, tags):
            groups.setdefault(key, []).append(row)
    return {key: groups[key] for key in sorted(groups, key=GroupKey.sort_key)}


def _keys(scored: ScoredConversation, tags: Sequence[str]) -> Iterator[GroupKey]:
    own = subject_key(scored)
    yield own
    for tag in {tag for tag in scored.tags if any(fnmatchcase(tag, glob) for glob in tags)}:
        yield replace(own, tag=tag)


def figures_of(point: WindowPoint | Slow) -> Figures:
    """Return all figures of a point, rounded so that two orders of addition agree."""
    summary = point.summary
    return (
        point.end_ns,
        point.window,
        summary.key,
        summary.n,
        summary.c,
        tuple(sorted(summary.not_evaluated.items())),
        summary.coverage,
        summary.bounds,
        summary.tier,
        summary.leaning,
        summary.default_estimator,
        tuple((name, round(figure.mean, 9), figure.n) for name, figure in sorted(summary.tool_dimensions.items())),
        tuple(
            (
                name,
                figure.interval_method,
                k,
                *(None if x is None else round(x, 7) for x in (e.value, e.lower, e.upper)),
            )
            for name, figure in sorted(summary.estimates.items())
            for family in (figure.pass_at_k, figure.pass_pow_k)
            for k, e in family.items()
        ),
    )


def conversations(*, weights: Sequence[float] = (1.0,)) -> st.SearchStrategy[list[ScoredConversation]]:
    """Return lists of conversations that fall together in every way: in time, group, case, tag and outcome."""
    outcomes = st.sampled_from(
        [("pass", None), ("fail", "wrong_answer"), ("not_evaluated", "judge_error"), ("not_evaluated", "unmatched")]
    )
    score = st.sampled_from([0.0, 1 / 3, 0.5, 1.0])
    row_strategy = st.builds(
        _conversation,
        st.integers(0, 60),
        st.sampled_from(["booking", None]),
        st.sampled_from(["production", ""]),
        st.sampled_from([None, ("", "a"), ("shop", "a"), ("shop", "b")]),
        st.sampled_from([(), ("vip",), ("vip", "new"), ("other",)]),
        outcomes,
        st.dictionaries(st.sampled_from(["selection", "utilization"]), score, max_size=2),
        st.sampled_from(list(weights)),
    )
    return st.lists(row_strategy, max_size=25).map(_numbered)


def _conversation(  # noqa: PLR0917 — a strategy gives each its own
    second: int,
    agent: str | None,
    environment: str,
    case: tuple[str, str] | None,
    tags: tuple[str, ...],
    outcome: tuple[str, str | None],
    dimensions: dict[str, float],
    weight: float,
) -> ScoredConversation:
    return ScoredConversation(
        environment=environment,
        conversation_id="",
        revision=1,
        agent=agent,
        agent_version=None,
        service=None,
        ended_ns=second * SECOND,
        dataset=case and case[0],
        case_id=case and case[1],
        tags=tags if case else (),
        outcome=outcome[0],  # type: ignore[arg-type]  # sampled from the allowed values
        reason=outcome[1],  # type: ignore[arg-type]  # the same
        dimensions=dimensions,  # type: ignore[arg-type]  # the same
        weight=weight,
    )


def _numbered(scored: list[ScoredConversation]) -> list[ScoredConversation]:
    return [replace(row, conversation_id=f"c-{number:02}") for number, row in enumerate(scored)]
