"""What a judge says of each turn, from 1 to 5: helpfulness, coherence, relevance, faithfulness, verbosity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_agentic.evaluators.agentest.judging import Judging, asked, rubric, silent
from otel_agentic.evaluators.agentest.showing import Material
from otel_agentic.evaluators.base import Metric, MetricScore
from otel_agentic.evaluators.catalog import metrics_of
from otel_agentic.evaluators.needs import turn_missing
from otel_agentic.judges.base import ReplyForm
from otel_agentic.judges.facts import extract

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_agentic.conversations.model import Turn
    from otel_agentic.evaluators.agentest.judging import Item
    from otel_agentic.evaluators.base import Need, Subject
    from otel_agentic.judges.base import Rubric
    from otel_agentic.scoring.model import NotEvaluatedReason

_FORM: Final = ReplyForm(kind="score", low=1.0, high=5.0)


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
    metrics: tuple[Metric, ...] = metrics_of("agentest.helpfulness")
    rubrics: tuple[Rubric, ...] = (rubric("helpfulness", _FORM),)


class Coherence(TurnScale):
    """Whether an answer is consistent in itself and with what was said before."""

    name: str = "agentest.coherence"
    metrics: tuple[Metric, ...] = metrics_of("agentest.coherence")
    rubrics: tuple[Rubric, ...] = (rubric("coherence", _FORM),)


class Relevance(TurnScale):
    """Whether all of an answer is about what was asked."""

    name: str = "agentest.relevance"
    metrics: tuple[Metric, ...] = metrics_of("agentest.relevance")
    rubrics: tuple[Rubric, ...] = (rubric("relevance", _FORM),)


class Verbosity(TurnScale):
    """Whether an answer is as long as it needs to be."""

    name: str = "agentest.verbosity"
    metrics: tuple[Metric, ...] = metrics_of("agentest.verbosity")
    rubrics: tuple[Rubric, ...] = (rubric("verbosity", _FORM),)


class Faithfulness(TurnScale):
    """Whether an answer says what tools and user said, and claims nothing that was not done.

    There is something to be faithful to once a call has a recorded result or error, once the user gave a number, a date or
    an identifier, or where the agent has tools: what it says it did can then be held against its calls.
    """

    name: str = "agentest.faithfulness"
    metrics: tuple[Metric, ...] = metrics_of("agentest.faithfulness")
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
        if with_tools or any(extract(one.query or "").all for one in so_far):
            return None
        return (
            "no_data",
            f"{place} has nothing to be faithful to: no tools, and no number, date or identifier of the user",
        )
