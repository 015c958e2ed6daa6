"""The root cause of the failures of one conversation: the failure that may have caused the others, its symptoms.

A later event does not cause an earlier one, so the root cause is the earliest failure. Failures are ordered by evidence,
then by time, then by kind:

1. Recorded faults without recovery (tool calls, errors, the end state, answers) precede other computed metrics, these precede
   judged metrics, and a bare verdict comes last, because it names no cause.
2. Recorded faults are ordered by turn, then by step: the calls of a turn precede its end and its answer; what concerns the
   whole conversation (missing turns, end state, missing outputs) comes after all turns. Metrics have no such order: the
   most severe one comes first.
3. Faults of one step are ordered by `_CALLS` and `_ENDS`: missing, spurious, wrong parameters, wrong order; unused result, answer.

A missing call has no time. It was due when its turn, or the conversation, began, but not before anything that can explain
its absence: a fault of a call that is expected before it, an error of the same tool, or an error that ended a turn.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from otel_agentic.evaluators.operations import TOOL_FAILURE, TURN_END
from otel_agentic.evaluators.run import SEVERITIES, at_least

if TYPE_CHECKING:
    from otel_agentic.config import Severity
    from otel_agentic.evaluators.run import Failure

TOOL: Final = "agentic.tool"
ANSWER: Final = "agentic.answer"
CONVERSATION: Final = "agentic.conversation"
STATE: Final = "agentic.layers.task_completion"

#: Faults of calls in their order within a step, as (metric, label).
_CALLS: Final[Mapping[tuple[str, str | None], int]] = {
    kind: rank
    for rank, kind in enumerate(
        [
            (TOOL, "missing"),
            (TOOL, "forbidden"),
            (TOOL, "spurious"),
            (TOOL, "wrong_parameters"),
            (TOOL_FAILURE, "unhandled"),
            (TOOL, "errored"),
            (TOOL, "wrong_order"),
        ]
    )
}
#: Faults at the end of a turn, or of the conversation, in their order.
_ENDS: Final[Mapping[tuple[str, str | None], int]] = {
    kind: rank
    for rank, kind in enumerate(
        [
            (TURN_END, "error"),
            (CONVERSATION, "agent_error"),
            (TOOL, "unused_result"),
            (CONVERSATION, "extra_turn"),
            (CONVERSATION, "missing_turn"),
            (CONVERSATION, "state_mismatch"),
            (STATE, None),
            (TURN_END, "raw_output"),
            (CONVERSATION, "output_not_said"),
            (ANSWER, "forbidden_answer"),
            (ANSWER, "wrong_answer"),
        ]
    )
}
#: Failures that name no cause.
_BARE: Final = frozenset({(CONVERSATION, "verdict"), (CONVERSATION, "no_fault_named")})
_MISSING: Final = (TOOL, "missing")
#: Errors after which a call of the same tool may be missing.
_TOOL_ERRORS: Final = frozenset({(TOOL, "errored"), (TOOL_FAILURE, "unhandled")})


class Cause(NamedTuple):
    """The common cause of the failures of a group; `label` is None if a value does not meet its threshold."""

    metric: str
    label: str | None
    tool_name: str | None
    parameter: str | None


def cause_of(failure: Failure) -> Cause:
    """Return the cause by which a failure is grouped."""
    return Cause(failure.metric, failure.label, failure.tool_name, failure.parameter)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The failures of one conversation, the root cause first, then its symptoms in causal order.

    After a selection by severity, `failures` may lack the root cause.
    """

    root: Failure
    failures: tuple[Failure, ...]

    @property
    def key(self) -> tuple[str, str]:
        """The conversation: its environment and id."""
        return self.root.location.environment, self.root.location.conversation_id

    @property
    def count(self) -> int:
        """The number of conversations: this one, and those that it represents."""
        return self.root.location.count

    @property
    def symptoms(self) -> tuple[Failure, ...]:
        """The failures of other causes than the root cause, which may occur repeatedly."""
        return tuple(failure for failure in self.failures if cause_of(failure) != cause_of(self.root))

    @property
    def worst(self) -> Failure:
        """The most severe failure, the first one in causal order if there are several."""
        return max(self.failures, key=lambda failure: SEVERITIES.index(failure.severity))

    def at_least(self, least: Severity) -> Diagnosis | None:
        """Return the diagnosis with the failures of a severity or worse, or None if it has none."""
        severe = tuple(failure for failure in self.failures if at_least(failure.severity, least))
        return Diagnosis(root=self.root, failures=severe) if severe else None


def diagnoses(failures: Iterable[Failure], judge_metrics: AbstractSet[str] = frozenset()) -> list[Diagnosis]:
    """Return one diagnosis for each conversation that has a failure; the order of the failures does not matter.

    If faults of one step could be the root cause equally (two wrong parameters of one call), the one that occurs in most
    conversations is chosen, so that few causes explain all conversations.

    Args:
        failures: of any conversations.
        judge_metrics: names of the metrics that a judge scores.
    """
    by_conversation: dict[tuple[str, str], list[Failure]] = {}
    for failure in failures:
        key = (failure.location.environment, failure.location.conversation_id)
        by_conversation.setdefault(key, []).append(failure)
    frequencies: Counter[Cause] = Counter()
    for group in by_conversation.values():
        for cause in {*map(cause_of, group)}:
            frequencies[cause] += group[0].location.count
    return [_diagnosis(by_conversation[key], judge_metrics, frequencies) for key in sorted(by_conversation)]


def _diagnosis(
    failures: Sequence[Failure], judge_metrics: AbstractSet[str], frequencies: Mapping[Cause, int]
) -> Diagnosis:
    times = _times(failures)
    ordered = sorted(failures, key=lambda failure: _precedence(failure, times, judge_metrics, frequencies))
    return Diagnosis(root=ordered[0], failures=tuple(ordered))


def _precedence(
    failure: Failure, times: Mapping[int, _Time], judge_metrics: AbstractSet[str], frequencies: Mapping[Cause, int]
) -> tuple[object, ...]:
    """Return the sort key of a failure; its last parts make the order independent of that of the input."""
    cause = cause_of(failure)
    ties = (-frequencies[cause], sortable(cause), failure.explanation, -failure.location.ended_ns, repr(failure))
    kind = _kind(failure)
    rank = _CALLS.get(kind, _ENDS.get(kind))
    if rank is not None:
        expected_index = -1 if failure.expected_index is None else failure.expected_index
        return (0, times[id(failure)], rank, expected_index, *ties)
    tier = 3 if kind in _BARE else 2 if failure.metric in judge_metrics else 1
    turn = math.inf if failure.turn_index is None else failure.turn_index
    position = -1 if failure.position is None else failure.position
    return (tier, -SEVERITIES.index(failure.severity), turn, position, *ties)


def sortable(cause: Cause) -> tuple[tuple[bool, str], ...]:
    """Return a sort key of a cause, whose parts may be None."""
    return tuple((part is not None, part or "") for part in cause)


class _Time(NamedTuple):
    """The time of a fault within its conversation: the turn, whether at its end, and the position of the call."""

    turn: float
    at_end: bool
    position: float

    @property
    def just_after(self) -> _Time:
        """The time before any later call."""
        return self._replace(position=self.position + 0.5)


def _kind(failure: Failure) -> tuple[str, str | None]:
    return failure.metric, failure.label


def _times(failures: Sequence[Failure]) -> dict[int, _Time]:
    """Return the times of the recorded faults among the failures, by the identity of the failure."""
    recorded = [failure for failure in failures if _kind(failure) in _CALLS or _kind(failure) in _ENDS]
    times = {id(failure): _recorded_time(failure) for failure in recorded}
    missing = [failure for failure in recorded if _kind(failure) == _MISSING]
    if missing:
        located = [failure for failure in recorded if failure.turn_index is not None and _kind(failure) != _MISSING]
        for scope in dict.fromkeys(failure.turn_index for failure in missing):
            of_scope = [failure for failure in missing if failure.turn_index == scope]
            evidence = [failure for failure in located if scope in {None, failure.turn_index}]
            times.update(_pending_since(of_scope, evidence, times))
    return times


def _recorded_time(failure: Failure) -> _Time:
    at_end = _kind(failure) in _ENDS
    if failure.turn_index is None:
        return _Time(math.inf, at_end=True, position=0.0) if at_end else _Time(-1.0, at_end=False, position=-1.0)
    return _Time(failure.turn_index, at_end, -1.0 if at_end or failure.position is None else failure.position)


def _pending_since(
    missing: Sequence[Failure], evidence: Sequence[Failure], times: Mapping[int, _Time]
) -> Iterator[tuple[int, _Time]]:
    """Yield the time at which each missing call was due, after everything that can explain its absence.

    Args:
        missing: the missing calls of a turn, or of the conversation.
        evidence: the other faults of that turn or conversation whose turn is known.
        times: the time of each fault; of a missing call, the begin of its turn or of the conversation.
    """
    ended = [times[id(failure)].just_after for failure in evidence if _kind(failure) == (TURN_END, "error")]
    errors: dict[str | None, _Time] = {}
    for failure in evidence:
        if _kind(failure) in _TOOL_ERRORS:
            time = times[id(failure)].just_after
            errors[failure.tool_name] = max(errors.get(failure.tool_name, time), time)
    paired = [failure for failure in evidence if failure.expected_index is not None and _kind(failure) in _CALLS]
    paired.sort(key=_expected_index, reverse=True)
    previous = _Time(-1.0, at_end=False, position=-1.0)
    for failure in sorted(missing, key=_expected_index):
        while paired and _expected_index(paired[-1]) < _expected_index(failure):
            previous = max(previous, times[id(paired.pop())].just_after)
        pending = max(times[id(failure)], previous, *ended, errors.get(failure.tool_name, previous))
        yield id(failure), pending
        if failure.expected_index is not None:
            previous = pending


def _expected_index(failure: Failure) -> int:
    return -1 if failure.expected_index is None else failure.expected_index
