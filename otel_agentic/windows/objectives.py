"""Objectives, checked against the conversations of a group one after the other, in event order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from otel_agentic.stats.sequential import (
    BlockEvidence,
    ChangeDetector,
    Evidence,
    e_value,
    first_alarm,
    promised_rate,
    runs,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from otel_agentic.config.quality import Block, Objective
    from otel_agentic.windows.model import GroupKey

    BoolArray = npt.NDArray[np.bool_]
    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]
    Hashes = npt.NDArray[np.uint64]


#: The case number of a conversation without a case: all of these count as one case.
NO_CASE: Final = -1
HOUR_NS: Final = 3_600_000_000_000
#: The keys by which conversations are grouped into blocks; the first known one is used.
_VISITORS: Final[dict[Block, tuple[str, ...]]] = {
    "auto": ("user", "session"),
    "user": ("user",),
    "session": ("session",),
    "hour": (),
    "none": (),
}
_COLUMNS: Final = ("ended_ns", "correct", "case", "user", "session")


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectivePoint:
    """The evidence against one objective of one group: the value of a gauge.

    Attributes:
        key: agent, version, environment and service.
        objective: its label, such as "pass^3>=0.7".
        k: the k of pass^k.
        e_value: evidence that the objective is broken, finite, above 0; 1 is neutral.
    """

    key: GroupKey
    objective: str
    k: int
    e_value: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Finals:
    """Evaluated conversations of one group that are final, in event order, one row each.

    Attributes:
        ended_ns: (rows,) end of the conversation's last event, ns since the epoch.
        correct: (rows,) whether it passed.
        case: (rows,) number of its case, `NO_CASE` without one.
        user: (rows,) hash of its user, 0 without one; empty: no user is known.
        session: (rows,) hash of its session, likewise.
        digest: hash of the rows, different for other rows.
    """

    ended_ns: IntArray
    correct: BoolArray
    case: IntArray
    user: Hashes = field(default_factory=lambda: np.zeros(0, np.uint64))
    session: Hashes = field(default_factory=lambda: np.zeros(0, np.uint64))
    digest: int = 0

    def __post_init__(self) -> None:
        for name in ("user", "session"):
            if not getattr(self, name).size:
                object.__setattr__(self, name, np.zeros(self.correct.size, np.uint64))

    @classmethod
    def none(cls) -> Finals:
        """Return no conversations."""
        return cls(ended_ns=np.zeros(0, np.int64), correct=np.zeros(0, np.bool_), case=np.zeros(0, np.int64))

    def and_then(self, later: Finals) -> Finals:
        """Return these and some more that ended at or after them."""
        return _finals({name: np.concatenate((getattr(self, name), getattr(later, name))) for name in _COLUMNS})

    def where(self, rows: BoolArray) -> Finals:
        """Return some of them."""
        return _finals({name: getattr(self, name)[rows] for name in _COLUMNS})

    def blocks(self, block: Block) -> tuple[IntArray, IntArray]:
        """Return the number of the block of each, and when that block is closed, inclusive, ns.

        A run of a user, or of a session, ends after an hour without a conversation of that user; an hour is one of the clock. Unknown
        users count by the hour.
        """
        run = np.zeros(self.correct.size, np.bool_)
        who = np.zeros(self.correct.size, np.uint64)
        for name in _VISITORS[block]:
            known = (getattr(self, name) != 0) & ~run
            # Equal hashes of a user and of a session do not denote the same visitor.
            who[known] = getattr(self, name)[known] << np.uint64(1) | np.uint64(name == "user")
            run |= known
        hour = self.ended_ns // HOUR_NS
        number, closes = hour.copy(), (hour + 1) * HOUR_NS - 1
        if run.any():
            of_runs = runs(who[run], self.ended_ns[run], HOUR_NS)
            last = np.zeros(int(of_runs.max()) + 1, np.int64)
            np.maximum.at(last, of_runs, self.ended_ns[run])
            number[run], closes[run] = -1 - of_runs, last[of_runs] + HOUR_NS
        return number, closes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Monitor:
    """The state of one objective of one group after all conversations so far, from which it continues.

    Attributes:
        key: the group.
        objective: the promised objective.
        detector: the configuration of the change detector.
        evidence: the e-process.
        cases: numbers of the cases, in the order in which they joined the e-process; empty if it is pooled.
        values: the values of the change detector.
        block: what counts once.
        waiting: conversations of blocks that are not closed yet.
        n: evaluated conversations in blocks that closed.
        c: correct ones among them.
        blocks: the number of these blocks.
        alarmed_ns: end of the conversation at which the e-value first reached 1 / alpha; None while it has not.
        changed_ns: end of the conversation at which the change detector last raised an alarm; None before the first.
        changes: how many alarms that detector has raised.
    """

    key: GroupKey
    objective: Objective
    detector: ChangeDetector
    evidence: Evidence | BlockEvidence
    cases: IntArray
    values: FloatArray
    block: Block = "none"
    waiting: Finals = field(default_factory=Finals.none)
    n: int = 0
    c: int = 0
    blocks: int = 0
    alarmed_ns: int | None = None
    changed_ns: int | None = None
    changes: int = 0

    @classmethod
    def of(cls, key: GroupKey, objective: Objective, block: Block = "none") -> Monitor:
        """Return the monitor of a group before its first conversation; by cases, each conversation counts."""
        p0 = promised_rate(objective.k, objective.target)
        detector = ChangeDetector.of(p0, objective.target_run_length)
        chosen: Block = "none" if objective.method == "per_case" else block
        return cls(
            key=key,
            objective=objective,
            detector=detector,
            evidence=Evidence.none() if chosen == "none" else BlockEvidence.none(p0),
            block=chosen,
            cases=np.zeros(0, np.int64),
            values=detector.start(),
        )

    @property
    def p0(self) -> float:
        """The pass rate below which the objective is broken."""
        return promised_rate(self.objective.k, self.objective.target)

    @property
    def e_value(self) -> float:
        """The current e-value, within 1e-300 and 1e300."""
        return e_value(self.evidence.log_e)

    @property
    def change_value(self) -> float:
        """The current value of the change detector, since its last alarm."""
        return float(self.detector.value(self.values))

    @property
    def point(self) -> ObjectivePoint:
        """The e-value as a gauge."""
        return ObjectivePoint(key=self.key, objective=self.objective.label, k=self.objective.k, e_value=self.e_value)

    def then(self, finals: Finals, until_ns: int | None = None) -> Monitor:
        """Return the monitor after more conversations, all of which ended at or after the earlier ones.

        Args:
            finals: the conversations.
            until_ns: no later one ended at or before this time: blocks that close by then count; None: all are closed.
        """
        if isinstance(self.evidence, BlockEvidence):
            return self._then_blocks(self.evidence, self.waiting.and_then(finals), until_ns)
        if not finals.correct.size:
            return self
        cases, joined = (
            _joined(self.cases, finals.case)
            if self.objective.method == "per_case"
            else (self.cases, np.zeros_like(finals.case))
        )
        evidence, path = self.evidence.then(joined, finals.correct, self.p0)
        counted = _Counted(
            means=finals.correct.astype(np.float64),
            last_ns=finals.ended_ns,
            n=np.ones(finals.correct.size, np.int64),
            c=finals.correct.astype(np.int64),
        )
        return replace(self._looked(counted, path), evidence=evidence, cases=cases)

    def _then_blocks(self, evidence: BlockEvidence, finals: Finals, until_ns: int | None) -> Monitor:
        number, closes = finals.blocks(self.block)
        closed = np.ones_like(finals.correct) if until_ns is None else closes <= until_ns
        if not closed.any():
            return replace(self, waiting=finals)
        counted = _Counted.of(number[closed], closes[closed], finals.where(closed))
        after, path = evidence.then(counted.means, self.p0)
        return replace(self._looked(counted, path), evidence=after, waiting=finals.where(~closed))

    def _looked(self, counted: _Counted, path: FloatArray) -> Monitor:
        """Return the monitor after counting blocks, with the alarms that they raised."""
        values, changes = self.detector.watch(self.values, counted.means)
        alarm = int(first_alarm(path, self.objective.alpha))
        return replace(
            self,
            values=values,
            n=self.n + int(counted.n.sum()),
            c=self.c + int(counted.c.sum()),
            blocks=self.blocks + counted.n.size,
            alarmed_ns=int(counted.last_ns[alarm - 1]) if self.alarmed_ns is None and alarm else self.alarmed_ns,
            changed_ns=int(counted.last_ns[changes[-1]]) if changes else self.changed_ns,
            changes=self.changes + len(changes),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Counted:
    """Closed blocks, in the order in which they closed: mean outcome, end of the last, conversations, correct ones."""

    means: FloatArray
    last_ns: IntArray
    n: IntArray
    c: IntArray

    @classmethod
    def of(cls, number: IntArray, closes: IntArray, finals: Finals) -> _Counted:
        """Return blocks by the time when they close; of those that close together, the one that began first comes first."""
        _, first, which = np.unique(number, return_index=True, return_inverse=True)
        n, c = np.bincount(which), np.bincount(which, weights=finals.correct).astype(np.int64)
        last = np.zeros(n.size, np.int64)
        np.maximum.at(last, which, finals.ended_ns)
        order = np.lexsort((first, closes[first]))
        return cls(means=(c / n)[order], last_ns=last[order], n=n[order], c=c[order])


def _finals(columns: Mapping[str, Any]) -> Finals:
    return Finals(**columns)


def objectives_of(agent: str | None, objectives: Iterable[Objective]) -> list[Objective]:
    """Return the objectives that apply to an agent; to an agent without a name only those of every agent.

    >>> from otel_agentic.config import Objective
    >>> every, support = Objective(target=0.9), Objective(agent="support-*", k=3, target=0.7)
    >>> [o.label for o in objectives_of("support-eu", [every, support])], len(objectives_of(None, [every, support]))
    (['pass^1>=0.9', 'pass^3>=0.7'], 1)
    """
    return [objective for objective in objectives if fnmatchcase(agent or "", objective.agent)]


def _joined(known: IntArray, case: IntArray) -> tuple[IntArray, IntArray]:
    """Return the numbers of all cases in the order in which they joined, and the index of each row's case among them."""
    numbers, first = np.unique(case, return_index=True)
    new = numbers[np.argsort(first)]
    cases = np.concatenate((known, new[~np.isin(new, known)]))
    order = np.argsort(cases)
    return cases, order[np.searchsorted(cases, case, sorter=order)]
