"""What a tier may rest on: the conversations of an agent version from its first one, or from `slo.since`, on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.stats.model import Attempts, CaseCount

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_agentic.stats.model import CaseKey
    from otel_agentic.windows.model import GroupKey, ScoredConversation

#: Keys of a group that counts of removed conversations have; what they used of tools is not kept.
_KEPT_KEYS: Final = ("agent", "agent_version", "environment", "service", "dataset", "case")
_REMOVED: Final = (
    "conversations that used it were removed by retention, so that not all since the version's first are known"
)


#: A pass rate that the judge is estimated to shift by more than this supports no tier.
MAX_PASS_SHIFT: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedByProbability:
    """Conversations of which a calibrated judge decided the answers; those with an unsure answer are not evaluated.

    Attributes:
        n: all of them.
        probability: sum of their probabilities to pass.
        evaluated: those that passed or failed.
        passed: of them passed.
    """

    n: int
    probability: float
    evaluated: int
    passed: int

    @property
    def shift(self) -> float | None:
        """By how much the pass rate is estimated to lie above that of all, None where none is evaluated.

        A conversation leaves the rate with its first unsure answer, whatever else failed, and passes where all are likely
        right: both shift the rate, the more the longer the conversations.

        >>> JudgedByProbability(n=2, probability=1.5, evaluated=1, passed=1).shift
        0.25
        """
        return self.passed / self.evaluated - self.probability / self.n if self.evaluated else None

    @property
    def withheld(self) -> str | None:
        """Why the rate supports no tier, None where it may.

        >>> JudgedByProbability(n=2, probability=1.5, evaluated=1, passed=1).withheld
        "the judge's doubt shifts the pass rate by an estimated +.25 (limit .05); label conversations or use an LLM judge"
        """
        if self.shift is None or abs(self.shift) <= MAX_PASS_SHIFT:
            return None
        shift = f"{self.shift:+.2f}".replace("0.", ".", 1)
        return f"the judge's doubt shifts the pass rate by an estimated {shift} (limit .05); label conversations or use an LLM judge"


def judged_by_probability(scored: Iterable[ScoredConversation]) -> JudgedByProbability:
    """Return the conversations among some of which a calibrated judge decided the answers."""
    members = [(one.pass_probability, one.outcome) for one in scored if one.pass_probability is not None]
    return JudgedByProbability(
        n=len(members),
        probability=sum(probability for probability, _ in members),
        evaluated=sum(outcome != "not_evaluated" for _, outcome in members),
        passed=sum(outcome == "pass" for _, outcome in members),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedAttempts:
    """Evaluated conversations of one subject and case that retention removed, of which the counts are kept.

    Attributes:
        key: agent, version, environment, service, and dataset and case where there is one.
        tags: of the case.
        n: conversations.
        c: correct ones.
        first_ns: end of the first of them.
        last_ns: end of the last.
    """

    key: GroupKey
    tags: tuple[str, ...]
    n: int
    c: int
    first_ns: int
    last_ns: int

    def is_of(self, group: GroupKey) -> bool:
        """Return whether they are part of a group, by everything but tools."""
        keys = ((getattr(group, name), getattr(self.key, name)) for name in _KEPT_KEYS)
        return all(wanted is None or wanted == own for wanted, own in keys) and (
            group.tag is None or group.tag in self.tags
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimBasis:
    """The conversations that a tier of a group rests on.

    Attributes:
        attempts: the evaluated ones, by case, each of weight 1.
        since_ns: end of the first of them, None without any.
        agent_version: the version that they are of, None where it is not known.
        versions: how many versions the group has: of several the one that came last counts alone.
        withheld: why no tier may be claimed, None where one may.
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
    """Return what a tier of a group may rest on.

    Args:
        group: the group.
        scored: its conversations from the beginning, in any order.
        removed: counts of conversations that are not among them any more, of any group.
        since_ns: count from this time on, None: from the version's first conversation.
    """
    members = [one for one in scored if since_ns is None or one.ended_ns >= since_ns]
    gone = [each for each in removed if each.is_of(group) and (since_ns is None or each.first_ns >= since_ns)]
    first: dict[str | None, int] = {}
    for version, ended_ns in [
        *((one.agent_version, one.ended_ns) for one in members),
        *((each.key.agent_version, each.first_ns) for each in gone),
    ]:
        first[version] = min(ended_ns, first.get(version, ended_ns))
    if not first:
        return ClaimBasis(attempts=Attempts())
    newest = max(first, key=lambda version: (first[version], version or ""))
    counts: Counter[CaseKey] = Counter()
    correct: Counter[CaseKey] = Counter()
    times = []
    for one in members:
        if one.agent_version == newest and one.outcome != "not_evaluated":
            counts[one.case_key] += 1
            correct[one.case_key] += one.outcome == "pass"
            times.append(one.ended_ns)
    own = [each for each in gone if each.key.agent_version == newest]
    for place, each in enumerate(own):
        times.append(each.first_ns)
        for case, n, c in _cases(each, place):
            counts[case] += n
            correct[case] += c
    cases = (CaseCount(dataset=case[0], case_id=case[1], n=counts[case], c=correct[case]) for case in sorted(counts))
    judged = judged_by_probability(one for one in members if one.agent_version == newest)
    return ClaimBasis(
        attempts=Attempts(cases=tuple(cases)),
        since_ns=min(times, default=None),
        agent_version=newest,
        versions=len(first),
        withheld=_REMOVED if own and group.tool is not None else judged.withheld,
    )


def _cases(removed: RemovedAttempts, place: int) -> list[tuple[CaseKey, int, int]]:
    """Return case, attempts and correct ones; conversations without a case are cases of their own."""
    if removed.key.case is not None:
        return [((removed.key.dataset or "", removed.key.case), removed.n, removed.c)]
    return [(("", f"removed {place} {number}"), 1, int(number < removed.c)) for number in range(removed.n)]
