"""Which of Agentest's failures of behaviour a turn shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_agentic.evaluators.agentest.judging import Judging, asked, rubric, silent
from otel_agentic.evaluators.agentest.showing import Material
from otel_agentic.evaluators.base import Metric, MetricScore
from otel_agentic.evaluators.catalog import metrics_of
from otel_agentic.evaluators.needs import turn_missing
from otel_agentic.judges.base import ReplyForm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_agentic.evaluators.agentest.judging import Item
    from otel_agentic.evaluators.base import Need, Subject
    from otel_agentic.judges.base import Rubric

NAME: Final = "agentic.agentest.agent_behavior_failure"
NO_FAILURE: Final = "no_failure"
_METRICS: Final = metrics_of("agentest.agent_behavior_failure")


class AgentBehaviorFailure(Judging):
    """A label for each turn that has an answer or calls, whether or not a tool was called in it."""

    name: str = "agentest.agent_behavior_failure"
    metrics: tuple[Metric, ...] = _METRICS
    needs: frozenset[Need] = frozenset({"turns", "judge"})
    rubrics: tuple[Rubric, ...] = (
        rubric("agent_behavior_failure", ReplyForm(kind="label", labels=_METRICS[0].labels)),
    )

    def items(self, subject: Subject) -> Iterator[Item]:
        """Yield one score for each turn."""
        for turn in subject.conversation.turns:
            score = MetricScore(name=NAME, turn_index=turn.index)
            # Beside calls an answer may be missing, but by names of tools alone nobody can say that all is well.
            told = bool(turn.calls) and (turn.query_captured or turn.answer_captured)
            lacking = None if told else turn_missing(turn, "answers")
            if lacking is not None:
                yield silent(score, *lacking)
            else:
                shown = Material(subject, turn)
                yield asked(score, self.rubrics[0], shown.texts, shown.note)
