"""Objectives, monitored sequentially over the conversations of a group in event order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from otel_agentic.scoring.criteria import CORRECT
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


#: The case number of conversations without a case, which together count as one case.
NO_CASE: Final = -1
HOUR_NS: Final = 3_600_000_000_000
#: The columns that identify the visitor of a block, in order of preference.
_VISITOR_COLUMNS: Final[dict[Block, tuple[str, ...]]] = {
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
        objective: label of the objective, such as "pass^3>=0.7".
        k: the k of pass^k.
        e_value: evidence that the objective is broken: finite and positive; 1 is neutral.
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
        correct: (rows,) whether the conversation passed.
        case: (rows,) number of the case, `NO_CASE` without one.
        user: (rows,) hash of the user, 0 without one; empty: no user is known.
        session: (rows,) hash of the session, 0 without one; empty: no session is known.
        digest: hash that identifies the content of the rows.
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
        """Return these conversations followed by later ones, which ended at or after them."""
        return _finals({name: np.concatenate((getattr(self, name), getattr(later, name))) for name in _COLUMNS})

    def where(self, rows: BoolArray) -> Finals:
        """Return the selected rows."""
        return _finals({name: getattr(self, name)[rows] for name in _COLUMNS})

    def blocks(self, block: Block) -> tuple[IntArray, IntArray]:
        """Return the block number of each conversation, and the last time at which that block is open, ns.

        A block of a user or session is a run of conversations, which ends after an hour without a conversation of that
        user or session. Conversations of unknown users are grouped by the hour of the clock.
        """
        has_visitor = np.zeros(self.correct.size, np.bool_)
        visitor = np.zeros(self.correct.size, np.uint64)
        for name in _VISITOR_COLUMNS[block]:
            newly_known = (getattr(self, name) != 0) & ~has_visitor
            # The lowest bit distinguishes users from sessions: equal hashes of both are not the same visitor.
            visitor[newly_known] = getattr(self, name)[newly_known] << np.uint64(1) | np.uint64(name == "user")
            has_visitor |= newly_known
        hour = self.ended_ns // HOUR_NS
        number, closes = hour.copy(), (hour + 1) * HOUR_NS - 1
        if has_visitor.any():
            run_number = runs(visitor[has_visitor], self.ended_ns[has_visitor], HOUR_NS)
            last_ended_ns = np.zeros(int(run_number.max()) + 1, np.int64)
            np.maximum.at(last_ended_ns, run_number, self.ended_ns[has_visitor])
            number[has_visitor], closes[has_visitor] = -1 - run_number, last_ended_ns[run_number] + HOUR_NS
        return number, closes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trace:
    """The evidence against an objective after each block that closed, in order.

    Attributes:
        ended_ns: (blocks,) end of the last conversation of the block, ns since the epoch.
        log_e: (blocks,) natural logarithm of the e-value.
        changed: the positions of the blocks at which the change detector raised an alarm.
    """

    ended_ns: IntArray
    log_e: FloatArray
    changed: tuple[int, ...] = ()

    @classmethod
    def none(cls) -> Trace:
        """Return the trace without a block."""
        return cls(ended_ns=np.zeros(0, np.int64), log_e=np.zeros(0))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Monitor:
    """The state of one objective of one group after all conversations so far, which `then` continues.

    Attributes:
        key: the group.
        objective: the objective.
        detector: the configuration of the change detector.
        evidence: the e-process.
        cases: numbers of the cases, in the order in which they joined the e-process; empty if it is pooled.
        values: the state of the change detector.
        block: the unit that counts as one observation.
        waiting: conversations of blocks that are still open.
        n: number of evaluated conversations in closed blocks.
        c: number of correct conversations among them.
        blocks: number of closed blocks.
        alarmed_ns: end of the conversation at which the e-value first reached 1 / alpha; None if it has not.
        changed_ns: end of the conversation at which the change detector last raised an alarm; None if it has not.
        changes: number of alarms of the change detector.
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
        """Return the monitor of a group before its first conversation; by case, `block` has no effect."""
        p0 = promised_rate(objective.k, objective.target)
        detector = ChangeDetector.of(p0, objective.target_run_length)
        effective_block: Block = "none" if objective.method == "per_case" else block
        return cls(
            key=key,
            objective=objective,
            detector=detector,
            evidence=Evidence.none() if effective_block == "none" else BlockEvidence.none(p0),
            block=effective_block,
            cases=np.zeros(0, np.int64),
            values=detector.start(),
        )

    @property
    def p0(self) -> float:
        """The pass rate below which the objective is broken."""
        return promised_rate(self.objective.k, self.objective.target)

    @property
    def e_value(self) -> float:
        """The current e-value, clipped to [1e-300, 1e300]."""
        return e_value(self.evidence.log_e)

    @property
    def change_value(self) -> float:
        """The current value of the change detector, since its last alarm."""
        return float(self.detector.value(self.values))

    @property
    def point(self) -> ObjectivePoint:
        """The current e-value as the value of a gauge."""
        return ObjectivePoint(key=self.key, objective=self.objective.label, k=self.objective.k, e_value=self.e_value)

    def then(self, finals: Finals, until_ns: int | None = None) -> Monitor:
        """Return the monitor after further conversations, which must have ended at or after the earlier ones.

        Args:
            finals: the conversations.
            until_ns: the time up to which conversations are complete, ns: blocks that close by then count. None: all
                blocks are closed.
        """
        return self.traced(finals, until_ns)[0]

    def traced(self, finals: Finals, until_ns: int | None = None) -> tuple[Monitor, Trace]:
        """Return the monitor after further conversations, and the evidence on the way there; see `then`."""
        if isinstance(self.evidence, BlockEvidence):
            return self._then_blocks(self.evidence, self.waiting.and_then(finals), until_ns)
        if not finals.correct.size:
            return self, Trace.none()
        cases, case_index = (
            _join_cases(self.cases, finals.case)
            if self.objective.method == "per_case"
            else (self.cases, np.zeros_like(finals.case))
        )
        evidence, path = self.evidence.then(case_index, finals.correct, self.p0)
        counted = _ClosedBlocks(
            means=finals.correct.astype(np.float64),
            last_ns=finals.ended_ns,
            n=np.ones(finals.correct.size, np.int64),
            c=finals.correct.astype(np.int64),
        )
        monitor, trace = self._after_blocks(counted, path)
        return replace(monitor, evidence=evidence, cases=cases), trace

    def _then_blocks(self, evidence: BlockEvidence, finals: Finals, until_ns: int | None) -> tuple[Monitor, Trace]:
        number, closes = finals.blocks(self.block)
        closed = np.ones_like(finals.correct) if until_ns is None else closes <= until_ns
        if not closed.any():
            return replace(self, waiting=finals), Trace.none()
        counted = _ClosedBlocks.of(number[closed], closes[closed], finals.where(closed))
        new_evidence, path = evidence.then(counted.means, self.p0)
        monitor, trace = self._after_blocks(counted, path)
        return replace(monitor, evidence=new_evidence, waiting=finals.where(~closed)), trace

    def _after_blocks(self, counted: _ClosedBlocks, path: FloatArray) -> tuple[Monitor, Trace]:
        """Return the monitor after counting blocks, with the alarms that they raised, and the evidence after each."""
        values, changes = self.detector.watch(self.values, counted.means)
        alarm = int(first_alarm(path, self.objective.alpha))
        monitor = replace(
            self,
            values=values,
            n=self.n + int(counted.n.sum()),
            c=self.c + int(counted.c.sum()),
            blocks=self.blocks + counted.n.size,
            alarmed_ns=int(counted.last_ns[alarm - 1]) if self.alarmed_ns is None and alarm else self.alarmed_ns,
            changed_ns=int(counted.last_ns[changes[-1]]) if changes else self.changed_ns,
            changes=self.changes + len(changes),
        )
        return monitor, Trace(ended_ns=counted.last_ns, log_e=path, changed=tuple(map(int, changes)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _ClosedBlocks:
    """Closed blocks in order of closing: mean outcome, end of the last conversation, conversations, correct ones."""

    means: FloatArray
    last_ns: IntArray
    n: IntArray
    c: IntArray

    @classmethod
    def of(cls, number: IntArray, closes: IntArray, finals: Finals) -> _ClosedBlocks:
        """Return the blocks sorted by closing time; blocks that close together are sorted by start."""
        _, first, inverse = np.unique(number, return_index=True, return_inverse=True)
        n, c = np.bincount(inverse), np.bincount(inverse, weights=finals.correct).astype(np.int64)
        last = np.zeros(n.size, np.int64)
        np.maximum.at(last, inverse, finals.ended_ns)
        order = np.lexsort((first, closes[first]))
        return cls(means=(c / n)[order], last_ns=last[order], n=n[order], c=c[order])


def _finals(columns: Mapping[str, Any]) -> Finals:
    return Finals(**columns)


def objectives_of(
    agent: str | None, objectives: Iterable[Objective], criterion: str | None = CORRECT
) -> list[Objective]:
    """Return the objectives that apply to outcomes of an agent by a criterion.

    Only objectives for every agent apply to an agent without a name.

    >>> from otel_agentic.config import Objective
    >>> every, support = Objective(target=0.9), Objective(agent="support-*", k=3, target=0.7)
    >>> [o.label for o in objectives_of("support-eu", [every, support])], len(objectives_of(None, [every, support]))
    (['pass^1>=0.9', 'pass^3>=0.7'], 1)
    """
    return [
        objective
        for objective in objectives
        if objective.criterion == criterion and fnmatchcase(agent or "", objective.agent)
    ]


def _join_cases(known: IntArray, case: IntArray) -> tuple[IntArray, IntArray]:
    """Return the numbers of all cases in the order in which they joined, and for each row the index of its case."""
    numbers, first = np.unique(case, return_index=True)
    new = numbers[np.argsort(first)]
    cases = np.concatenate((known, new[~np.isin(new, known)]))
    order = np.argsort(cases)
    return cases, order[np.searchsorted(cases, case, sorter=order)]
