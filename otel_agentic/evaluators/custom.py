"""Evaluators made of functions: of a whole conversation or of each turn, with a judge or without."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack, cast

from otel_agentic.errors import UsageError
from otel_agentic.evaluators.base import Metric, MetricScore, Need
from otel_agentic.evaluators.needs import turn_missing
from otel_agentic.evaluators.returned import Place
from otel_agentic.evaluators.taken import name_of, taken, whole_name
from otel_agentic.evaluators.together import together
from otel_agentic.judges.versions import code_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from otel_agentic.config import EvaluatorSettings, Severity
    from otel_agentic.conversations.model import Conversation, Turn
    from otel_agentic.evaluators.base import Asking, Subject
    from otel_agentic.evaluators.taken import Function, Takes
    from otel_agentic.judges.base import Rubric


class MetricFields(TypedDict, total=False):
    """What the one metric of a function may say of itself, see `Metric`."""

    title: str
    definition: str
    source: str
    limits: str
    low: float | None
    high: float | None
    unit: str
    higher_is_better: bool | None
    labels: tuple[str, ...]
    failing: frozenset[str]
    threshold: float | None
    severity: Severity
    severities: Mapping[str, Severity]


class _Custom:
    """What evaluators of functions share; each is the one object of a class of its own, which `evaluator` makes."""

    name: str
    version: str
    metrics: tuple[Metric, ...]
    needs: frozenset[Need]
    default: bool
    takes: Takes
    function: Function

    @classmethod
    def from_settings(cls, settings: EvaluatorSettings) -> Self:  # noqa: ARG003 — the plug-in point
        """Return the evaluator; it has no settings of its own."""
        return cls()

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Return what the function does, as if it had never been decorated."""
        return self.function(*arguments, **named)

    def _places(self, subject: Subject) -> list[Place]:
        whole = Place(evaluator=self.name, metrics=self.metrics, conversation=subject.conversation)
        if self.takes != "Turn":
            return [whole]
        return [
            Place(evaluator=self.name, metrics=self.metrics, conversation=subject.conversation, turn=turn)
            for turn in subject.conversation.turns
        ]

    def _given(self, place: Place, subject: Subject) -> Subject | Conversation | Turn:
        """Return what the function is called with."""
        return place.turn or (subject if self.takes == "Subject" else subject.conversation)

    def _lacking(self, place: Place) -> list[MetricScore] | None:
        """Return that a turn lacks what the function needs, None where nothing is missing."""
        missing = (turn_missing(place.turn, need) for need in sorted(self.needs)) if place.turn is not None else ()
        return next((place.abstentions(told, reason) for reason, told in filter(None, missing)), None)


class FunctionEvaluator(_Custom):
    """An evaluator made of a function that computes."""

    def evaluate(self, subject: Subject) -> list[MetricScore]:
        """Return what the function says of the conversation or of each of its turns; where it raises, it has abstained."""
        return [score for place in self._places(subject) for score in self._scores(place, subject)]

    def _scores(self, place: Place, subject: Subject) -> list[MetricScore]:
        lacking = self._lacking(place)
        if lacking is not None:
            return lacking
        found: list[MetricScore] = []
        try:
            for score in place.scores(self.function(self._given(place, subject))):
                found.append(score)  # noqa: PERF402 — what was given before it raised counts
        except Exception as error:  # noqa: BLE001 — a stranger's function may raise anything
            return [*found, *place.failed(error, found)]
        return found


class AskingFunctionEvaluator(_Custom):
    """An evaluator made of a generator function that asks a judge."""

    rubrics: tuple[Rubric, ...]

    def ask(self, subject: Subject) -> Asking:
        """Ask about the conversation, or about all of its turns together; where the function raises, it has abstained."""
        found = yield from together([self._scores(place, subject) for place in self._places(subject)])
        return [score for scores in found for score in scores]

    def _scores(self, place: Place, subject: Subject) -> Asking:
        lacking = self._lacking(place)
        if lacking is not None:
            return lacking
        found: list[MetricScore] = []
        try:
            said = yield from self.function(self._given(place, subject))
            for score in place.scores(said):
                found.append(score)  # noqa: PERF402 — as above
        except Exception as error:  # noqa: BLE001 — the same
            return [*found, *place.failed(error, found)]
        return found


def evaluator(
    *,
    name: str | None = None,
    version: str | None = None,
    metrics: Sequence[Metric] = (),
    needs: Iterable[Need] = (),
    rubrics: Sequence[Rubric] = (),
    default: bool | None = None,
    **metric: Unpack[MetricFields],
) -> Callable[[Function], FunctionEvaluator | AskingFunctionEvaluator]:
    """Return a decorator that makes an evaluator of a function.

    The first parameter of the function says what it is called with: a `Subject`, a `Conversation`, or each `Turn`. It
    returns a number, True or False (1 and 0), a label, a `MetricScore`, None where it has nothing to say, or several of
    these. With `rubrics` it is a generator function: it yields lists of questions, is sent a `Verdict` or a `JudgeFailure`
    for each, and returns the same, or the failure. What it raises is an abstention, never a score.

    Args:
        name: of the evaluator, and of its metric; None takes that of the function.
        version: goes up with every change that may change a score; None takes a hash of the function's code.
        metrics: where it has several, or one of another name; scores then name theirs.
        needs: what it cannot do without; of a function of turns, each turn that lacks it is abstained from.
        rubrics: prompts that it may ask a judge with.
        default: whether it runs unless metrics are chosen by name; None says yes, but for those that ask.
        metric: more of its one metric: `low` and `high` (0 and 1, none where it has labels), `labels`, `failing`,
            `threshold` and what else `Metric` has.

    Raises:
        UsageError: the function is none that an evaluator can be made of.

    >>> @evaluator(name="house.short", threshold=1)
    ... def short(turn: Turn) -> bool:
    ...     return len(turn.answer or "") < 200
    >>> short.metrics[0].name, short.metrics[0].target
    ('house.short', 'turn')
    """

    def made(function: Function) -> FunctionEvaluator | AskingFunctionEvaluator:
        own = name_of(function, name)
        takes = taken(function, own, asks=bool(rubrics))
        if metrics and metric:
            raise UsageError(f"evaluator {own}: give {', '.join(metric)} to the metrics, not beside them")
        kind = AskingFunctionEvaluator if rubrics else FunctionEvaluator
        wanted: set[Need] = {*needs, "judge"} if rubrics else {*needs}
        attributes = {
            "name": own,
            "version": version or code_version(function),
            "metrics": tuple(metrics) or (_metric(own, function, takes, metric),),
            "needs": frozenset(wanted),
            "default": not rubrics if default is None else default,
            "takes": takes,
            "function": staticmethod(function),
            "rubrics": tuple(rubrics),
            "__doc__": function.__doc__,
            "__module__": function.__module__,
        }
        return cast("FunctionEvaluator | AskingFunctionEvaluator", type(own, (kind,), attributes)())

    return made


def _metric(name: str, function: Function, takes: Takes, fields: MetricFields) -> Metric:
    told = inspect.getdoc(function) or ""
    given: dict[str, Any] = {
        "title": name.rpartition(".")[2].replace("_", " "),
        "definition": " ".join(told.partition("\n\n")[0].split()) or f"What {whole_name(function)} returns.",
        "source": f"{function.__module__}.{whole_name(function)}",
        "target": "turn" if takes == "Turn" else "conversation",
        **({"low": None, "high": None} if fields.get("labels") else {}),  # unless it has numbers, too
        **fields,
    }
    given |= {"labels": tuple(given.get("labels", ())), "failing": frozenset(given.get("failing", ()))}
    return Metric(name=name, **given)
