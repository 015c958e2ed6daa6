"""Whether the user's goal was reached by the end of the conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_agentic.evaluators.agentest.judging import Judging, asked, rubric
from otel_agentic.evaluators.base import Metric, MetricScore
from otel_agentic.evaluators.catalog import metrics_of
from otel_agentic.evaluators.transcript import transcript
from otel_agentic.judges.base import ReplyForm

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from otel_agentic.evaluators.agentest.judging import Item
    from otel_agentic.evaluators.base import Need, Subject
    from otel_agentic.judges.base import Rubric

NAME: Final = "agentic.agentest.goal_completion"
_VALUES: Final[Mapping[str, float]] = {"completed": 1.0, "not_completed": 0.0}


class GoalCompletion(Judging):
    """Whether the goal was reached: that of the case, else what the user asked for in so many words.

    `details` of its score tell which: `{"goal": "case"}` or `{"goal": "user"}`.
    """

    name: str = "agentest.goal_completion"
    metrics: tuple[Metric, ...] = metrics_of("agentest.goal_completion")
    needs: frozenset[Need] = frozenset({"turns", "queries", "answers", "judge"})
    rubrics: tuple[Rubric, ...] = (rubric("goal_completion", ReplyForm(kind="label", labels=tuple(_VALUES))),)
    values: Mapping[str, float] = _VALUES

    def items(self, subject: Subject) -> Iterator[Item]:
        """Yield the one score."""
        shown = transcript(subject.conversation.turns)
        goal = None if subject.case is None else subject.case.goal
        score = MetricScore(name=NAME, details={"goal": "case" if goal else "user"})
        yield asked(
            score, self.rubrics[0], {**({"goal": goal} if goal else {}), "conversation": shown.text}, shown.note
        )
