"""Was it done, and with how much effort: task completion and step efficiency."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_agentic.evaluators.base import Metric, MetricScore, WithoutSettings
from otel_agentic.evaluators.catalog import metrics_of
from otel_agentic.evaluators.layers.abstaining import none_of
from otel_agentic.evaluators.layers.state import ABSENT, FinalState, differing, final_state, size_of
from otel_agentic.evaluators.layers.wording import listed
from otel_agentic.evaluators.needs import first_missing
from otel_agentic.truth.values import json_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_agentic.evaluators.base import Need, Subject
    from otel_agentic.evaluators.layers.state import Differing

COMPLETION: Final = "agentic.layers.task_completion"
EFFICIENCY: Final = "agentic.layers.step_efficiency"
#: Differences that are told, and those that are kept.
_TOLD: Final = 3
_KEPT: Final = 20


class Outcome(WithoutSettings):
    """The two metrics of outcomes."""

    name: str = "layers.outcome"
    version: str = "2"
    metrics: tuple[Metric, ...] = metrics_of("layers.outcome")
    needs: frozenset[Need] = frozenset({"turns", "case"})
    default: bool = True

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return both scores of a conversation."""
        return [completion(subject), _efficiency(subject)]


def completion(subject: Subject) -> MetricScore:
    """Return whether the expected state was reached."""
    lacks = first_missing(subject, ("expected_state",))
    if lacks is not None or subject.case is None or subject.case.expected_state is None:
        return none_of(COMPLETION, *(lacks or ("no_data", "no state is expected")))
    expected = subject.case.expected_state
    state = final_state(subject)
    if not isinstance(state, FinalState):
        return none_of(COMPLETION, *state)
    wrong = differing(expected, state)
    if wrong and state.unseen:
        lost = f"the last result of {listed(state.unseen)} was not recorded, and {_told(wrong[:1])} in the others"
        return none_of(COMPLETION, "content_not_captured", lost)
    if wrong and all(one.hidden for one in wrong):
        told = f"in {state.source}, {listed([one.path for one in wrong[:_TOLD]])} was taken out before it was recorded"
        return none_of(COMPLETION, "content_not_captured", told)
    named = size_of(expected) if expected else 0
    told = _told(wrong) if wrong else f"{named} of {named} expected values are there"
    return MetricScore(
        name=COMPLETION,
        value=float(not wrong),
        explanation=f"in {state.source}, {told}",
        parameter=wrong[0].path if wrong else None,
        details={"values": named, "differing": [_as_json(one) for one in wrong[:_KEPT]]},
    )


def _told(wrong: Sequence[Differing]) -> str:
    parts = [
        f"{one.path} is {'absent' if one.found is ABSENT else json_text(one.found)}, expected {json_text(one.expected)}"
        for one in wrong[:_TOLD]
    ]
    more = len(wrong) - _TOLD
    return "; ".join(parts) + (f"; {more} more" if more > 0 else "")


def _as_json(one: Differing) -> dict[str, object]:
    told: dict[str, object] = {"path": one.path, "expected": one.expected}
    return told if one.found is ABSENT else {**told, "found": one.found}


def _efficiency(subject: Subject) -> MetricScore:
    lacks = first_missing(subject, ("minimum_steps",))
    if lacks is not None or subject.case is None or subject.case.minimum_steps is None:
        return none_of(EFFICIENCY, *(lacks or ("no_data", "no number of steps is expected")))
    minimum = subject.case.minimum_steps
    made = sum(call.kind != "transfer" for turn in subject.conversation.turns for call in turn.calls)
    if not made:
        return none_of(EFFICIENCY, "no_data", "no call was made")
    return MetricScore(
        name=EFFICIENCY,
        value=min(1.0, minimum / made),
        explanation=f"{made} calls were made; {minimum} would do",
        details={"minimum": minimum, "made": made},
    )
