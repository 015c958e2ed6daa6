"""Did the agent change what it was to change: the calls that write, those made against those expected."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from otel_agentic.evaluators.base import Metric, MetricScore, WithoutSettings
from otel_agentic.evaluators.catalog import metrics_of
from otel_agentic.evaluators.layers.abstaining import none_of
from otel_agentic.evaluators.layers.parameters import wrong_as_json
from otel_agentic.evaluators.layers.scopes import ExpectedCalls, expected_calls
from otel_agentic.scoring.effects import effect_of
from otel_agentic.scoring.reasons import shown_call

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from otel_agentic.evaluators.base import Need, Subject
    from otel_agentic.evaluators.needs import Missing
    from otel_agentic.scoring.made import MadeCall
    from otel_agentic.scoring.model import ConversationScore
    from otel_agentic.scoring.sorting import PairedCall

STATE_CHANGES: Final = "agentic.layers.state_changes"
StateChanges = Literal["right", "missing", "extra", "wrong_arguments", "missing_and_extra", "other"]
_TOLD: Final = 3
_KEPT: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Writes:
    """What is wrong with the calls that write."""

    missing: tuple[tuple[str, Mapping[str, Any]], ...]
    extra: tuple[MadeCall, ...]
    wrong: tuple[tuple[PairedCall, MadeCall, str], ...]
    paired: tuple[tuple[PairedCall, MadeCall], ...]

    @property
    def label(self) -> StateChanges:
        """The class that the calls alone tell."""
        if self.missing or self.extra:
            return "missing_and_extra" if self.missing and self.extra else "missing" if self.missing else "extra"
        return "wrong_arguments" if self.wrong else "right"


class StateChange(WithoutSettings):
    """The metric of state-changing calls."""

    name: str = "layers.state_changes"
    version: str = "1"
    metrics: tuple[Metric, ...] = metrics_of("layers.state_changes")
    needs: frozenset[Need] = frozenset({"turns", "case", "expected_tools"})
    default: bool = True

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return the class of a conversation."""
        found = expected_calls(subject)
        if not isinstance(found, ExpectedCalls):
            return [none_of(STATE_CHANGES, *found)]
        return [_score(_writes(found, subject.score), subject.score)]


def _writes(found: ExpectedCalls, score: ConversationScore | None) -> _Writes:
    def writes(name: str) -> bool:
        return effect_of(name, found.effects) == "write"

    missing = [call for call in found.missing if writes(call[0])]
    extra = [made for made in found.beyond if writes(made.call.name)]
    paired = [(pair, made) for pair, made in found.paired if writes(made.call.name)]
    judged = _wrong_by_judge(score)
    wrong = [
        (pair, made, key)
        for pair, made in paired
        for key in dict.fromkeys((*pair.agreement.wrong, *judged.get((made.turn_index, made.call.position), ())))
    ]
    return _Writes(missing=tuple(missing), extra=tuple(extra), wrong=tuple(wrong), paired=tuple(paired))


def _wrong_by_judge(score: ConversationScore | None) -> Mapping[tuple[int | None, int | None], Sequence[str]]:
    """Return the parameters that a judge found wrong, by the place of the call: the calls alone do not tell."""
    found: dict[tuple[int | None, int | None], list[str]] = {}
    for tools in score.tools if score is not None else ():
        for fault in tools.faults:
            if fault.kind == "wrong_parameters" and fault.mode == "judge" and fault.parameter is not None:
                found.setdefault((fault.turn_index, fault.made_position), []).append(fault.parameter)
    return found


def _unknown(writes: _Writes, score: ConversationScore | None) -> Missing | None:
    """Return why calls that look right may not be: arguments that nobody recorded, or compared."""
    for pair, made in writes.paired:
        told = f"{made.call.name} in turn {made.turn_index + 1}"
        if made.call.arguments is None:
            return "content_not_captured", f"the arguments of {told} were not recorded"
        if pair.expected.parameters.undecided(made) and not _is_judged(score):
            return "no_data", f"a parameter of {told} is for a judge to compare (`match`), and none has"
    return None


def _is_judged(score: ConversationScore | None) -> bool:
    """Return whether tool scores know of all parameters how they agree."""
    return score is not None and all(
        tools.dimensions.get("parameters") is not None for tools in score.tools if tools.required
    )


def _score(writes: _Writes, score: ConversationScore | None) -> MetricScore:
    label = writes.label
    unknown = _unknown(writes, score) if label == "right" else None
    if unknown is not None:
        return none_of(STATE_CHANGES, *unknown)
    if label == "right" and score is not None and score.outcome == "fail":
        label = "other"
    about = writes.missing[0][0] if writes.missing else None
    if about is None and (writes.extra or writes.wrong):
        about = writes.extra[0].call.name if writes.extra else writes.wrong[0][1].call.name
    return MetricScore(
        name=STATE_CHANGES,
        label=label,
        explanation=_told(label, writes),
        tool_name=about,
        parameter=writes.wrong[0][2] if label == "wrong_arguments" else None,
        details=_details(writes),
    )


def _details(writes: _Writes) -> dict[str, Any]:
    return {
        "missing": [{"tool": name, "arguments": dict(arguments)} for name, arguments in writes.missing[:_KEPT]],
        "extra": [
            {"tool": made.call.name, "turn_index": made.turn_index, "arguments": made.call.arguments}
            for made in writes.extra[:_KEPT]
        ],
        "wrong_arguments": [wrong_as_json(*one) for one in writes.wrong[:_KEPT]],
    }


def _told(label: StateChanges, writes: _Writes) -> str:
    if label in {"right", "other"}:
        made = len(writes.paired)
        told = f"{made} of {made} expected state changes were made, and no other"
        told = told if made else "no state change was expected, and none was made"
        return f"{told}; the conversation failed all the same" if label == "other" else told
    missing = [shown_call(name, arguments) for name, arguments in writes.missing]
    extra = [
        f"{shown_call(made.call.name, made.call.arguments)} in turn {made.turn_index + 1}" for made in writes.extra
    ]
    wrong = Counter(f"{made.call.name}({key})" for _, made, key in writes.wrong)
    parts = [
        f"not made: {_some(missing)}" if missing else "",
        f"not asked for: {_some(extra)}" if extra else "",
        f"other arguments: {_some(list(wrong))}" if wrong else "",
    ]
    return "; ".join(filter(None, parts))


def _some(told: Sequence[str]) -> str:
    more = len(told) - _TOLD
    return ", ".join(told[:_TOLD]) + (f" and {more} more" if more > 0 else "")
