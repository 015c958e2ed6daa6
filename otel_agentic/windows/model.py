"""Groups, scored conversations and window points, the evidence of a tier claim, and rolling windows by event time.

A rolling window has a name, a series of ends, and either a width in time or a number of conversations.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from otel_agentic.errors import ConfigError, UsageError
from otel_agentic.scoring.criteria import CORRECT
from otel_agentic.scoring.scope import DIMENSIONS
from otel_agentic.stats.model import Attempts, CaseCount, CaseKey, Estimates, Tier

if TYPE_CHECKING:
    from otel_agentic.scoring.model import ToolScore
    from otel_agentic.scoring.scope import Dimension, FailReason, NotEvaluatedReason, Outcome
    from otel_agentic.stats.hierarchical import Targets
    from otel_agentic.stats.tiers import TierEvidence

_SECOND_NS: Final = 1_000_000_000
UNIT_NS: Final = {"s": _SECOND_NS, "m": 60 * _SECOND_NS, "h": 3_600 * _SECOND_NS, "d": 86_400 * _SECOND_NS}
_WIDTH: Final = re.compile(r"([0-9]{1,9})([smhd])")
_COUNT: Final = re.compile(r"n([1-9][0-9]{0,8})")
#: How long a count window is reported after its newest conversation ended, if no time window is requested.
_STALE_NS: Final = 7 * UNIT_NS["d"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A kind of rolling window: a time window, or a count window of the newest conversations.

    Attributes:
        name: the name in tables and metrics, such as "24h" or "n200".
        width_ns: width of a time window, ns; it contains conversations that ended in `(end - width_ns, end]`. None for
            a count window.
        newest: number of conversations in a count window, the last that ended at or before its end. None for a time
            window.
    """

    name: str
    width_ns: int | None = None
    newest: int | None = None


def parse_window(text: str) -> Window:
    """Return the window with a name such as "90s", "15m", "24h", "7d" or "n200".

    Raises:
        ConfigError: the name is not a valid width or count.

    >>> parse_window("1h").width_ns, parse_window("n200").newest
    (3600000000000, 200)
    """
    match = _COUNT.fullmatch(text)
    if match:
        return Window(name=text, newest=int(match[1]))
    if text.startswith("n"):
        raise ConfigError(f"window {text!r}: give n and how many conversations, e.g. n200 for the newest 200")
    return Window(name=text, width_ns=parse_width(text))


def parse_windows(names: Iterable[str]) -> tuple[Window, ...]:
    """Return the windows with these names, in order and without duplicates.

    Raises:
        ConfigError: a name is invalid.
    """
    return tuple(parse_window(name) for name in dict.fromkeys(names))


def parse_width(text: str) -> int:
    """Return the nanoseconds of a width such as "90s", "15m", "24h" or "7d".

    Raises:
        ConfigError: the width is not a positive whole number with one of these units.

    >>> parse_width("15m")
    900000000000
    """
    match = _WIDTH.fullmatch(text)
    width_ns = int(match[1]) * UNIT_NS[match[2]] if match else 0
    if width_ns == 0:
        raise ConfigError(
            f"window width {text!r}: give a whole number above 0 and a unit s, m, h or d, e.g. 90s, 15m, 24h, 7d"
        )
    return width_ns


def time_ns(text: str, name: str) -> int:
    """Return a time in ns, from ISO 8601 text (UTC unless it has an offset) or an age such as 24h.

    Args:
        text: the time.
        name: the name of the option or argument.

    Raises:
        UsageError: the text is neither.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        try:
            age_ns = parse_width(text)
        except UsageError as error:
            raise UsageError(
                f"{name} {text!r}: give a time such as 2026-03-01T12:00:00Z, or an age such as 24h"
            ) from error
        return int(datetime.now(UTC).timestamp() * 1e9) - age_ns
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(aware.timestamp()) * 1_000_000_000 + aware.microsecond * 1000


def widest_ns(windows: Iterable[Window]) -> int:
    """Return the width of the widest time window, ns; 7 days without any time window.

    A count window has a point only while its newest conversation is no older than this. Otherwise the last 200
    conversations of an agent that no longer exists would be reported forever.
    """
    return max((window.width_ns for window in windows if window.width_ns is not None), default=_STALE_NS)


def most_newest(windows: Iterable[Window]) -> int:
    """Return the number of conversations in the largest count window; 0 without any."""
    return max((window.newest for window in windows if window.newest is not None), default=0)


def current_end(now_ns: int, step_ns: int) -> int:
    """Return the end of the window that is being filled now: the smallest multiple of the step at or after now.

    Raises:
        ConfigError: the step is not positive.

    >>> current_end(61, 60), current_end(60, 60)
    (120, 60)
    """
    return _end_at_or_after(now_ns, step_ns, 0)


def window_ends(first_ns: int, last_ns: int, step_ns: int, origin_ns: int = 0) -> range:
    """Return the window ends that cover the times from first to last, ascending; empty if last is before first.

    Ends are whole multiples of the step counted from the origin (the epoch, or `--since`). The first end is the
    earliest at or after `first_ns` and the last end the earliest at or after `last_ns`, so that each time is in a
    window.

    Raises:
        ConfigError: the step is not positive.

    >>> list(window_ends(61, 200, 60)), list(window_ends(61, 200, 60, origin_ns=61))
    ([120, 180, 240], [61, 121, 181, 241])
    """
    start = _end_at_or_after(first_ns, step_ns, origin_ns)
    stop = _end_at_or_after(last_ns, step_ns, origin_ns) if last_ns >= first_ns else start - step_ns
    return range(start, stop + 1, step_ns)


def _end_at_or_after(time_ns: int, step_ns: int, origin_ns: int) -> int:
    if step_ns <= 0:
        raise ConfigError(f"window step {step_ns} ns: the step between window ends must be above 0")
    return origin_ns - (origin_ns - time_ns) // step_ns * step_ns


#: Keys of a group that are stored with the counts of removed conversations; their tools are not stored.
_STORED_KEYS: Final = ("agent", "agent_version", "environment", "service", "dataset", "case")
#: Why no tier is claimed for a tool if conversations were removed.
_REMOVED: Final = (
    "conversations that used it were removed by retention, so that not all since the version's first are known"
)


#: No tier is claimed if unsure verdicts of the judge shift the pass rate by more than this, as estimated.
MAX_PASS_SHIFT: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedByProbability:
    """Conversations whose answers a calibrated judge decided; a conversation with an unsure answer is not evaluated.

    Attributes:
        n: number of these conversations.
        probability: sum of their probabilities of passing.
        evaluated: number of conversations that passed or failed.
        passed: number of conversations that passed.
    """

    n: int
    probability: float
    evaluated: int
    passed: int

    @property
    def shift(self) -> float | None:
        """Estimated excess of the pass rate over that of all conversations, or None if no conversation is evaluated.

        A conversation with an unsure answer does not count in the rate, even if another part failed, and a conversation
        passes if all its answers are probably correct. Both shift the rate, the more so the longer conversations are.

        >>> JudgedByProbability(n=2, probability=1.5, evaluated=1, passed=1).shift
        0.25
        """
        return self.passed / self.evaluated - self.probability / self.n if self.evaluated else None

    @property
    def withheld(self) -> str | None:
        """The reason why the rate supports no tier, or None if it may support one.

        >>> JudgedByProbability(n=2, probability=1.5, evaluated=1, passed=1).withheld
        "the judge's doubt shifts the pass rate by an estimated +.25 (limit .05); label conversations or use an LLM judge"
        """
        if self.shift is None or abs(self.shift) <= MAX_PASS_SHIFT:
            return None
        shift = f"{self.shift:+.2f}".replace("0.", ".", 1)
        return f"the judge's doubt shifts the pass rate by an estimated {shift} (limit .05); label conversations or use an LLM judge"


def judged_by_probability(scored: Iterable[ScoredConversation]) -> JudgedByProbability:
    """Return the counts of conversations whose answers a calibrated judge decided."""
    members = [(row.pass_probability, row.outcome, row.count) for row in scored if row.pass_probability is not None]
    return JudgedByProbability(
        n=sum(count for _, _, count in members),
        probability=sum(probability * count for probability, _, count in members),
        evaluated=sum(count for _, outcome, count in members if outcome != "not_evaluated"),
        passed=sum(count for _, outcome, count in members if outcome == "pass"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedAttempts:
    """Evaluated conversations of one subject and case that retention removed, whose counts are kept.

    Attributes:
        key: agent, version, environment, service, and dataset and case if there is one.
        tags: tags of the case.
        n: number of conversations.
        c: number of correct conversations.
        first_ns: end of the first conversation, ns.
        last_ns: end of the last conversation, ns.
    """

    key: GroupKey
    tags: tuple[str, ...]
    n: int
    c: int
    first_ns: int
    last_ns: int

    def is_of(self, group: GroupKey) -> bool:
        """Return whether the conversations belong to a group, comparing all keys except tools."""
        keys = ((getattr(group, name), getattr(self.key, name)) for name in _STORED_KEYS)
        return all(group_value is None or group_value == value for group_value, value in keys) and (
            group.tag is None or group.tag in self.tags
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimBasis:
    """The conversations that the tier of a group is based on.

    Attributes:
        attempts: the evaluated conversations, by case, each with weight 1.
        since_ns: end of the first conversation, ns; None without conversations.
        agent_version: the version of the conversations, or None if it is unknown.
        versions: number of versions in the group, of which only the newest counts.
        withheld: the reason why no tier may be claimed, or None if a tier may be claimed.
    """

    attempts: Attempts
    since_ns: int | None = None
    agent_version: str | None = None
    versions: int = 1
    withheld: str | None = None


def claim_basis(
    group: GroupKey,
    scored: Iterable[ScoredConversation],
    *,
    removed: Sequence[RemovedAttempts] = (),
    since_ns: int | None = None,
) -> ClaimBasis:
    """Return the evidence for the tier of a group.

    Args:
        group: the group.
        scored: all conversations of the group, in any order.
        removed: counts of removed conversations, of any group.
        since_ns: only conversations that ended at or after this time count, ns; None: all of the version.
    """
    members = [row for row in scored if since_ns is None or row.ended_ns >= since_ns]
    removed_of_group = [
        attempts
        for attempts in removed
        if attempts.is_of(group) and (since_ns is None or attempts.first_ns >= since_ns)
    ]
    first_ended_ns: dict[str | None, int] = {}
    for version, ended_ns in [
        *((row.agent_version, row.ended_ns) for row in members),
        *((attempts.key.agent_version, attempts.first_ns) for attempts in removed_of_group),
    ]:
        first_ended_ns[version] = min(ended_ns, first_ended_ns.get(version, ended_ns))
    if not first_ended_ns:
        return ClaimBasis(attempts=Attempts())
    newest = max(first_ended_ns, key=lambda version: (first_ended_ns[version], version or ""))
    counts: Counter[CaseKey] = Counter()
    correct: Counter[CaseKey] = Counter()
    times = []
    for row in members:
        if row.agent_version == newest and row.outcome != "not_evaluated":
            for case, n in row.cases():
                counts[case] += n
                correct[case] += n * (row.outcome == "pass")
            times.append(row.ended_ns)
    removed_of_newest = [attempts for attempts in removed_of_group if attempts.key.agent_version == newest]
    for index, attempts in enumerate(removed_of_newest):
        times.append(attempts.first_ns)
        for case, n, c in _cases(attempts, index):
            counts[case] += n
            correct[case] += c
    cases = (CaseCount(dataset=case[0], case_id=case[1], n=counts[case], c=correct[case]) for case in sorted(counts))
    by_probability = judged_by_probability(row for row in members if row.agent_version == newest)
    return ClaimBasis(
        attempts=Attempts(cases=tuple(cases)),
        since_ns=min(times, default=None),
        agent_version=newest,
        versions=len(first_ended_ns),
        withheld=_REMOVED if removed_of_newest and group.tool is not None else by_probability.withheld,
    )


def _cases(removed: RemovedAttempts, index: int) -> list[tuple[CaseKey, int, int]]:
    """Return (case, attempts, correct attempts); each conversation without a case is a case of its own."""
    if removed.key.case is not None:
        return [((removed.key.dataset or "", removed.key.case), removed.n, removed.c)]
    return [(("", f"removed {index} {number}"), 1, int(number < removed.c)) for number in range(removed.n)]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class GroupKey:
    """The subject of a rate; a key that does not apply to the grouping is None.

    The same key is used in the `windows` table, in JSON and in metric attributes. `dataset` is set together with
    `case`. `criterion` is what the outcomes are by, and `criteria` what this name meant, empty where the name is enough; both are
    set in windows, where outcomes by different criteria are never counted together. Sort keys by `sort_key`, because a plain comparison of None with a text fails.
    """

    agent: str | None = None
    agent_version: str | None = None
    environment: str | None = None
    service: str | None = None
    tag: str | None = None
    dataset: str | None = None
    case: str | None = None
    tool: str | None = None
    criterion: str | None = None
    criteria: str | None = None

    def sort_key(self) -> tuple[tuple[bool, str], ...]:
        """Return the sort key, which compares field by field and places None before any text.

        >>> sorted([GroupKey(agent="b"), GroupKey(), GroupKey(agent="a")], key=GroupKey.sort_key)[0].agent is None
        True
        """
        values = [getattr(self, field.name) for field in fields(self)]
        return tuple((value is not None, value or "") for value in values)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredConversation:
    """One closed conversation with its newest score: a row of groups and windows.

    `ended_ns` is its window time: the end of its last span, or earlier if the sender's clock was ahead (`clock_ahead`).
    `dataset` and `case_id` are both None without a case. `dimensions` are the tool dimension scores, each the mean over
    the expectations to which the dimension applies. `tools` are the names of tools in its expectations or faults.
    `weight` is 1 / the share of conversations that were evaluated when it was scored. `known_failure` is the reason why
    an outcome of `not_evaluated: judge_unsure` fails regardless of the judge, or None if nothing failed.
    `pass_probability` is the probability of a pass according to a calibrated judge; None without such a judge.

    A row may represent `count` conversations of one `kind`, which differ only in id and time: it has the id of one of them
    and the earliest `ended_ns`. `kind` is None for a single conversation.
    """

    environment: str
    conversation_id: str
    revision: int
    agent: str | None
    agent_version: str | None
    service: str | None
    ended_ns: int
    dataset: str | None
    case_id: str | None
    tags: tuple[str, ...]
    outcome: Outcome
    reason: FailReason | NotEvaluatedReason | None
    dimensions: Mapping[Dimension, float] = field(default_factory=dict)
    tools: tuple[str, ...] = ()
    weight: float = 1.0
    clock_ahead: bool = False
    known_failure: FailReason | None = None
    pass_probability: float | None = None
    criterion: str = CORRECT
    criteria: str = ""
    count: int = 1
    kind: int | None = None
    slices: tuple[str, ...] = ()

    @property
    def case_key(self) -> CaseKey:
        """The identity of the case, the same for every attempt: dataset and case id.

        A conversation without a case is a case of its own, in the dataset "". No case file can name a dataset "", so it
        cannot clash with real cases.
        """
        if self.case_id is None:
            return ("", repr((self.environment, self.conversation_id)))
        return (self.dataset or "", self.case_id)

    def cases(self) -> Iterator[tuple[CaseKey, int]]:
        """Yield each case of the conversations that the row represents, and the number of its conversations."""
        if self.case_id is not None or self.count == 1:
            yield self.case_key, self.count
            return
        dataset, name = self.case_key
        for number in range(self.count):
            yield (dataset, f"{name} {number}"), 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DimensionMean:
    """Mean of one tool dimension over the `n` conversations to which it applies."""

    mean: float
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """All figures of one group, over all time or one window.

    `n` is the number of evaluated conversations, `c` the number of correct ones, and `coverage` = evaluated / all (None
    without conversations). `bounds` are the bounds on the pass rate given the conversations that were not evaluated
    (None without conversations); `known_failures` of these fail regardless of the judge (0 in a window, which does not
    count them). `needed` is the number of further conversations at the observed rate that would settle the tier (0 if
    it is settled), or None if unknown or above 100,000. `leaning` is the tier to which the estimates lean; it is set
    only for the tier `insufficient_evidence`, and always in a window. `default_estimator` is the name of the headline
    estimator. `effective_n` is the number of independent conversations that carry the same information (attempts of one
    case may be correlated), None without conversations; it only widens intervals. `targets` are the rates of this
    traffic and of a new case; None with fewer than two cases, without named cases, and in a window. `tier_evidence` and
    `tier_basis` are the basis of the tier; None in a window, whose tier is that of all conversations of the version up
    to its end.
    """

    key: GroupKey
    n: int
    c: int
    not_evaluated: Mapping[str, int]
    coverage: float | None
    bounds: tuple[float, float] | None
    estimates: Mapping[str, Estimates]
    default_estimator: str
    effective_n: float | None = None
    targets: Targets | None = None
    tool_dimensions: Mapping[Dimension, DimensionMean]
    tier: Tier
    leaning: Tier | None
    needed: int | None
    tier_evidence: TierEvidence | None = None
    known_failures: int = 0
    tier_basis: ClaimBasis | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowPoint:
    """A group's summary over the event-time window `(end_ns - width_ns, end_ns]`, or over its newest conversations.

    `width_ns` is None for a count window, whose name `window` contains the count.
    """

    window: str
    width_ns: int | None
    end_ns: int
    summary: GroupSummary


def mean_dimensions(scores: Sequence[ToolScore]) -> dict[Dimension, float]:
    """Return the mean of each dimension over the expectations to which it applies."""
    dimensions: dict[Dimension, float] = {}
    for name in DIMENSIONS:
        values = [value for score in scores if (value := score.dimensions.get(name)) is not None]
        if values:
            dimensions[name] = sum(values) / len(values)
    return dimensions


def pass_rate_bounds(n: int, c: int, not_evaluated: int, known_failures: int = 0) -> tuple[float, float] | None:
    """Return the lower and upper bound of the pass rate; None without conversations.

    The lower bound assumes that all conversations that were not evaluated failed, the upper bound that they passed
    except `known_failures` of them, which fail regardless of the judge's decision.

    >>> pass_rate_bounds(8, 6, 2), pass_rate_bounds(8, 6, 2, known_failures=1)
    ((0.6, 0.8), (0.6, 0.7))
    """
    total = n + not_evaluated
    return (c / total, (c + not_evaluated - known_failures) / total) if total else None
