"""Objectives held against the conversations of a group, one after the other, in event order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

import numpy as np

from otel_agentic.stats.change import ChangeDetector
from otel_agentic.stats.evidence import Evidence
from otel_agentic.stats.sequential import e_value, first_alarm, promised_rate

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from otel_agentic.config.slo import Objective
    from otel_agentic.windows.model import GroupKey

    BoolArray = npt.NDArray[np.bool_]
    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]

#: The case number of a conversation without a case: all of these count as one case.
NO_CASE: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectivePoint:
    """The evidence against one objective of one group: a gauge's value.

    Attributes:
        key: agent, version, environment and service.
        objective: its label, such as "pass^3>=0.7".
        k: the k of pass^k.
        e_value: evidence that the objective is broken, finite, above 0; 1 says nothing either way.
    """

    key: GroupKey
    objective: str
    k: int
    e_value: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Finals:
    """Evaluated conversations of one group that are final, in event order, a row each.

    Attributes:
        ended_ns: (rows,) end of the conversation's last event, ns since the epoch.
        correct: (rows,) whether it passed.
        case: (rows,) number of its case, `NO_CASE` without one.
        digest: of the rows; of others it is another.
    """

    ended_ns: IntArray
    correct: BoolArray
    case: IntArray
    digest: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Monitor:
    """One objective of one group, with everything that was seen of it so far. It goes on where it stopped.

    Attributes:
        key: the group.
        objective: what is promised.
        detector: what the change detector looks for.
        evidence: the e-process.
        cases: numbers of the cases, in the order in which they joined the e-process; empty when it is pooled.
        values: of the change detector.
        alarmed_ns: end of the conversation at which the e-value first reached 1 / alpha; None while it has not.
        changed_ns: end of the conversation at which the change detector last raised an alarm; None before the first.
        changes: how many alarms that detector has raised.
    """

    key: GroupKey
    objective: Objective
    detector: ChangeDetector
    evidence: Evidence
    cases: IntArray
    values: FloatArray
    alarmed_ns: int | None = None
    changed_ns: int | None = None
    changes: int = 0

    @classmethod
    def of(cls, key: GroupKey, objective: Objective) -> Monitor:
        """Return the monitor of a group of which nothing was seen yet."""
        detector = ChangeDetector.of(promised_rate(objective.k, objective.target), objective.target_run_length)
        return cls(
            key=key,
            objective=objective,
            detector=detector,
            evidence=Evidence.none(),
            cases=np.zeros(0, np.int64),
            values=detector.start(),
        )

    @property
    def p0(self) -> float:
        """The pass rate below which the objective is broken."""
        return promised_rate(self.objective.k, self.objective.target)

    @property
    def n(self) -> int:
        """Evaluated conversations seen."""
        return int(self.evidence.n.sum())

    @property
    def c(self) -> int:
        """Correct ones among them."""
        return int(self.evidence.c.sum())

    @property
    def e_value(self) -> float:
        """The e-value now, within 1e-300 and 1e300."""
        return e_value(self.evidence.log_e)

    @property
    def change_value(self) -> float:
        """The value of the change detector now, since its last alarm."""
        return float(self.detector.value(self.values))

    @property
    def point(self) -> ObjectivePoint:
        """The e-value as a gauge."""
        return ObjectivePoint(key=self.key, objective=self.objective.label, k=self.objective.k, e_value=self.e_value)

    def then(self, finals: Finals) -> Monitor:
        """Return the monitor after more conversations, all of which ended at or after the ones it has seen."""
        if not finals.correct.size:
            return self
        cases, joined = (
            _joined(self.cases, finals.case)
            if self.objective.method == "per_case"
            else (self.cases, np.zeros_like(finals.case))
        )
        evidence, path = self.evidence.then(joined, finals.correct, self.p0)
        values, changes = self.detector.watch(self.values, finals.correct)
        alarm = int(first_alarm(path, self.objective.alpha))
        alarmed_ns = int(finals.ended_ns[alarm - 1]) if self.alarmed_ns is None and alarm else self.alarmed_ns
        return replace(
            self,
            evidence=evidence,
            cases=cases,
            values=values,
            alarmed_ns=alarmed_ns,
            changed_ns=int(finals.ended_ns[changes[-1]]) if changes else self.changed_ns,
            changes=self.changes + len(changes),
        )


def objectives_of(agent: str | None, objectives: Iterable[Objective]) -> list[Objective]:
    """Return the objectives that an agent is held to; one without a name only those of every agent.

    >>> from otel_agentic.config import Objective
    >>> every, one = Objective(target=0.9), Objective(agent="support-*", k=3, target=0.7)
    >>> [each.label for each in objectives_of("support-eu", [every, one])], len(objectives_of(None, [every, one]))
    (['pass^1>=0.9', 'pass^3>=0.7'], 1)
    """
    return [each for each in objectives if fnmatchcase(agent or "", each.agent)]


def _joined(known: IntArray, case: IntArray) -> tuple[IntArray, IntArray]:
    """Return the numbers of all cases in the order in which they joined, and the place of each row's case among them."""
    found, first = np.unique(case, return_index=True)
    new = found[np.argsort(first)]
    cases = np.concatenate((known, new[~np.isin(new, known)]))
    order = np.argsort(cases)
    return cases, order[np.searchsorted(cases, case, sorter=order)]
