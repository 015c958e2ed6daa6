"""Were the arguments the right ones: the agreement of expected parameters, as core scoring compares them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_agentic.evaluators.base import Metric, MetricScore, WithoutSettings
from otel_agentic.evaluators.catalog import metrics_of
from otel_agentic.evaluators.layers.abstaining import none_of
from otel_agentic.evaluators.layers.scopes import ExpectedCalls, expected_calls

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from otel_agentic.evaluators.base import Need, Subject
    from otel_agentic.scoring.made import MadeCall
    from otel_agentic.scoring.sorting import PairedCall

SEMANTICS: Final = "agentic.layers.parameter_semantics"
_TOLD: Final = 5

PARAMETER_LIMITS: Final = (
    "A required call that was not made counts 0, whatever its parameters; extra calls do not count. Calls of one name are "
    "paired such that their arguments agree best. The page's function pairs by place, compares with Python's equality, by "
    "which true is 1, and gives 1 without reference arguments."
)


class Parameters(WithoutSettings):
    """The metric of expected parameters."""

    name: str = "layers.parameters"
    version: str = "1"
    metrics: tuple[Metric, ...] = metrics_of("layers.parameters")
    needs: frozenset[Need] = frozenset({"turns", "case", "expected_tools"})
    default: bool = True

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return the score of a conversation."""
        found = comparable(subject, SEMANTICS)
        return [found if isinstance(found, MetricScore) else _score(subject, found)]


def comparable(subject: Subject, name: str) -> ExpectedCalls | MetricScore:
    """Return the calls whose parameters can be compared, or why none can, as a score of that name."""
    found = expected_calls(subject)
    if not isinstance(found, ExpectedCalls):
        return none_of(name, *found)
    if not found.required:
        return none_of(name, "no_data", "the case requires no call")
    made = next((made for _, made in found.paired if made.call.arguments is None), None)
    if made is not None:
        told = f"the arguments of {made.call.name} in turn {made.turn_index + 1} were not recorded"
        return none_of(name, "content_not_captured", told)
    return found


def wrong_parameters(found: ExpectedCalls) -> Iterator[tuple[PairedCall, MadeCall, str]]:
    """Yield each parameter that is not as expected, with its call."""
    for pair, made in found.paired:
        for key in pair.agreement.wrong:
            yield pair, made, key


def compared(pair: PairedCall, made: MadeCall) -> int:
    """Return how many parameters of a call are compared: those expected, and those made beyond them where these count."""
    parameters, arguments = pair.expected.parameters, made.call.arguments or {}
    beyond = [key for key in arguments if key not in parameters.modes] if parameters.strict else []
    return len(parameters.wanted) + len(beyond)


def wrong_as_json(pair: PairedCall, made: MadeCall, key: str) -> Mapping[str, object]:
    """Return one wrong parameter: tool, place, and both values as far as they are there."""
    expected, given = pair.expected.parameters.values, made.call.arguments or {}
    told: dict[str, object] = {"tool": made.call.name, "turn_index": made.turn_index, "parameter": key}
    told |= {"expected": expected[key]} if key in expected else {}
    return told | ({"made": given[key]} if key in given else {})


def _score(subject: Subject, found: ExpectedCalls) -> MetricScore:
    value: float | None = sum(pair.agreement.score for pair, _ in found.paired) / found.required
    left = next((made for pair, made in found.paired if pair.expected.parameters.undecided(made)), None)
    if left is not None:
        value = _as_judged(subject, found.required)
    if value is None and left is not None:
        told = f"a parameter of {left.call.name} is for a judge to compare (`match`), and the score asked none"
        return none_of(SEMANTICS, "no_data", told)
    wrong = list(wrong_parameters(found))
    named = [f"{made.call.name}({key})" for _, made, key in wrong]
    missing = len(found.missing)
    parts = [
        f"other arguments: {', '.join(named[:_TOLD])}" + (f" and {len(named) - _TOLD} more" if named[_TOLD:] else "")
        if named
        else "",
        f"{missing} of {found.required} required calls not made" if missing else "",
    ]
    return MetricScore(
        name=SEMANTICS,
        value=value,
        explanation="; ".join(filter(None, parts)) or "every required call was made with the expected arguments",
        tool_name=wrong[0][1].call.name if wrong else None,
        parameter=wrong[0][2] if wrong else None,
        details={"required": found.required, "wrong": [wrong_as_json(*one) for one in wrong[:20]]},
    )


def _as_judged(subject: Subject, required: int) -> float | None:
    """Return the mean agreement as tool scores have it, with what a judge said; None where they do not tell."""
    tools = [one for one in (subject.score.tools if subject.score is not None else ()) if one.required]
    agreed = [one.dimensions.get("parameters") for one in tools]
    if not tools or None in agreed:
        return None
    return sum((share or 0.0) * one.required for share, one in zip(agreed, tools, strict=True)) / required
