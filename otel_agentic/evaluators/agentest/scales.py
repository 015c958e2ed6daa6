"""What a judge says of each turn, from 1 to 5: helpfulness, coherence, relevance, faithfulness, verbosity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_agentic.evaluators.agentest.judging import Judging, asked, rubric, silent
from otel_agentic.evaluators.agentest.showing import Material
from otel_agentic.evaluators.agentest.sources import AGENTEST
from otel_agentic.evaluators.base import Metric, MetricScore
from otel_agentic.evaluators.needs import turn_missing
from otel_agentic.judges.base import ReplyForm
from otel_agentic.judges.facts import extract

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_agentic.config import Severity
    from otel_agentic.conversations.model import Turn
    from otel_agentic.evaluators.agentest.judging import Item
    from otel_agentic.evaluators.base import Need, Subject
    from otel_agentic.judges.base import Rubric
    from otel_agentic.scoring.model import NotEvaluatedReason

_FORM: Final = ReplyForm(kind="score", low=1.0, high=5.0)
_LIMITS: Final = (
    "Agentest judges against the profile of a simulated user and its knowledge; production has neither: the judge is shown the "
    "conversation so far, and the goal where the case has one. Judges differ by about a point; compare means, not turns. Agentest holds "
    "the mean of a run against a threshold, as a gate does; among failures stands each turn that does not meet it."
)


def _scale(what: str, title: str, definition: str, *, severity: Severity = "medium", limits: str = _LIMITS) -> Metric:
    return Metric(
        name=f"agentic.agentest.{what}",
        title=title,
        definition=definition,
        source=AGENTEST,
        target="turn",
        low=1.0,
        high=5.0,
        limits=limits,
        severity=severity,
        needs=frozenset({"queries"}),
    )


class TurnScale(Judging):
    """A scale of 1 to 5 for each turn that has a query and an answer."""

    needs: frozenset[Need] = frozenset({"turns", "answers", "judge"})

    def items(self, subject: Subject) -> Iterator[Item]:
        """Yield one score for each turn."""
        for turn in subject.conversation.turns:
            score = MetricScore(name=self.metrics[0].name, turn_index=turn.index)
            lacking = self.lacking(subject, turn)
            if lacking is not None:
                yield silent(score, *lacking)
            else:
                shown = Material(subject, turn)
                yield asked(score, self.rubrics[0], shown.texts, shown.note)

    def lacking(self, subject: Subject, turn: Turn) -> tuple[NotEvaluatedReason, str] | None:
        """Return why a turn is not judged, None where it is."""
        del subject
        return turn_missing(turn, "queries") or turn_missing(turn, "answers")


class Helpfulness(TurnScale):
    """Whether an answer moves the user closer to the goal."""

    name: str = "agentest.helpfulness"
    metrics: tuple[Metric, ...] = (
        _scale(
            "helpfulness", "helpfulness", "How far the answer brings the user closer to what is wanted, from 1 to 5."
        ),
    )
    rubrics: tuple[Rubric, ...] = (rubric("helpfulness", _FORM),)


class Coherence(TurnScale):
    """Whether an answer is consistent in itself and with what was said before."""

    name: str = "agentest.coherence"
    metrics: tuple[Metric, ...] = (
        _scale("coherence", "coherence", "How consistent the answer is in itself and with earlier turns, from 1 to 5."),
    )
    rubrics: tuple[Rubric, ...] = (rubric("coherence", _FORM),)


class Relevance(TurnScale):
    """Whether all of an answer is about what was asked."""

    name: str = "agentest.relevance"
    metrics: tuple[Metric, ...] = (
        _scale("relevance", "relevance", "How much of the answer is about what the user said and wants, from 1 to 5."),
    )
    rubrics: tuple[Rubric, ...] = (rubric("relevance", _FORM),)


class Verbosity(TurnScale):
    """Whether an answer is as long as it needs to be."""

    name: str = "agentest.verbosity"
    metrics: tuple[Metric, ...] = (
        _scale(
            "verbosity",
            "verbosity",
            "How well the length of the answer fits, from 1 to 5; 5 is neither too long nor too short.",
            severity="low",
        ),
    )
    rubrics: tuple[Rubric, ...] = (rubric("verbosity", _FORM),)


class Faithfulness(TurnScale):
    """Whether an answer says what tools and user said, and claims nothing that was not done.

    There is something to be faithful to once a call has a recorded result or error, once the user gave a number, a date or
    an identifier, or where the agent has tools: what it says it did can then be held against its calls.
    """

    name: str = "agentest.faithfulness"
    metrics: tuple[Metric, ...] = (
        _scale(
            "faithfulness",
            "faithfulness",
            "How far the answer keeps to the results of tools, to what the user said, and to what was really done, from 1 to 5; "
            "leaving something out is no fault.",
            severity="high",
            limits=f"{_LIMITS} A turn is left out where no tool was ever at hand and the user gave no number, date or "
            "identifier; and where the results of the calls so far were not recorded.",
        ),
    )
    rubrics: tuple[Rubric, ...] = (rubric("faithfulness", _FORM),)

    def lacking(self, subject: Subject, turn: Turn) -> tuple[NotEvaluatedReason, str] | None:
        """Return why a turn is not judged: nothing is said, or there is nothing to hold it against."""
        missing = super().lacking(subject, turn)
        if missing is not None:
            return missing
        so_far = [one for one in subject.conversation.turns if one.index <= turn.index]
        calls = [call for one in so_far for call in one.calls]
        place = f"turn {turn.index + 1}"
        if any(call.error is not None or call.result_captured for call in calls):
            return None
        if calls:
            return "content_not_captured", f"{place}: no result of the calls so far was recorded"
        with_tools = bool(subject.conversation.tool_definitions) or any(one.calls for one in subject.conversation.turns)
        if with_tools or any(extract(one.query or "").found for one in so_far):
            return None
        return (
            "no_data",
            f"{place} has nothing to be faithful to: no tools, and no number, date or identifier of the user",
        )
