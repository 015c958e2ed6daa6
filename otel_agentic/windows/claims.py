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
    return ClaimBasis(
        attempts=Attempts(cases=tuple(cases)),
        since_ns=min(times, default=None),
        agent_version=newest,
        versions=len(first),
        withheld=_REMOVED if own and group.tool is not None else None,
    )


def _cases(removed: RemovedAttempts, place: int) -> list[tuple[CaseKey, int, int]]:
    """Return case, attempts and correct ones; conversations without a case are cases of their own."""
    if removed.key.case is not None:
        return [((removed.key.dataset or "", removed.key.case), removed.n, removed.c)]
    return [(("", f"removed {place} {number}"), 1, int(number < removed.c)) for number in range(removed.n)]
