"""Agent goal accuracy: did the conversation end in what was wanted? With a reference, and without one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from otel_agentic.evaluators.base import Metric, MetricScore, WithoutSettings
from otel_agentic.evaluators.catalog import metrics_of
from otel_agentic.evaluators.ragas.told import Silence, label_of, reasons_of, silence_in, texts_of, unheard
from otel_agentic.evaluators.transcript import transcript
from otel_agentic.judges.base import ReplyForm, rubric_question
from otel_agentic.judges.rubrics import load_rubric

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from otel_agentic.evaluators.base import Asking, Need, Subject
    from otel_agentic.judges.base import JudgeFailure, Rubric, Verdict

WITH_REFERENCE: Final = "agentic.ragas.goal_accuracy"
WITHOUT_REFERENCE: Final = "agentic.ragas.goal_accuracy_without_reference"
ACHIEVED, NOT_ACHIEVED = "achieved", "not_achieved"

_LABELS: Final = ReplyForm(kind="label", labels=(ACHIEVED, NOT_ACHIEVED))
_GOAL: Final = load_rubric("otel_agentic.evaluators", "prompts/ragas/goal_accuracy.md", _LABELS)
_COMPARED: Final = load_rubric("otel_agentic.evaluators", "prompts/ragas/goal_compared.md", _LABELS)
_USER_GOAL: Final = load_rubric(
    "otel_agentic.evaluators", "prompts/ragas/user_goal.md", ReplyForm(kind="texts", most=10)
)
_END_STATE: Final = load_rubric(
    "otel_agentic.evaluators", "prompts/ragas/end_state.md", ReplyForm(kind="texts", most=1)
)


class GoalAccuracy(WithoutSettings):
    """Whether a conversation ended in the goal of its case."""

    name: str = "ragas.goal_accuracy"
    version: str = "1"
    metrics: tuple[Metric, ...] = metrics_of("ragas.goal_accuracy")
    needs: frozenset[Need] = frozenset({"turns", "case", "goal", "judge"})
    default: bool = False
    rubrics: tuple[Rubric, ...] = (_GOAL,)

    def ask(self, subject: Subject) -> Asking:
        """Yield the one question, and return the score."""
        goal = "" if subject.case is None else (subject.case.goal or "").strip()
        if not goal:
            return [Silence(reason="no_data", told="the case has no `goal`; annotate one").score(WITH_REFERENCE)]
        silence = unheard(subject.conversation.turns, results=True)
        if silence is not None:
            return [silence.score(WITH_REFERENCE)]
        shown = transcript(subject.conversation.turns)
        (reply,) = yield [rubric_question(_GOAL, goal=goal, conversation=shown.text)]
        return [_score(WITH_REFERENCE, reply, shown.note, {})]


class GoalAccuracyWithoutReference(WithoutSettings):
    """Whether a conversation ended in what its user wanted, as a judge reads it from the conversation."""

    name: str = "ragas.goal_accuracy_without_reference"
    version: str = "1"
    metrics: tuple[Metric, ...] = metrics_of("ragas.goal_accuracy_without_reference")
    needs: frozenset[Need] = frozenset({"turns", "queries", "judge"})
    default: bool = False
    rubrics: tuple[Rubric, ...] = (_USER_GOAL, _END_STATE, _COMPARED)

    def ask(self, subject: Subject) -> Asking:
        """Yield the questions for goal and end state, then that for their comparison, and return the score."""
        silence = unheard(subject.conversation.turns, results=True)
        if silence is not None:
            return [silence.score(WITHOUT_REFERENCE)]
        shown = transcript(subject.conversation.turns)
        wanted, came = yield [rubric_question(one, conversation=shown.text) for one in (_USER_GOAL, _END_STATE)]
        silence = silence_in([wanted, came], labels=False)
        goals, ends = texts_of(wanted), texts_of(came)
        if silence is None and not goals:
            silence = Silence(reason="no_data", told="the judge finds nothing that the user wanted")
        elif silence is None and not ends:
            silence = Silence(reason="judge_error", told="the judge named no end state")
        if silence is not None:
            return [silence.score(WITHOUT_REFERENCE)]
        told = {"goal": json.dumps(goals, ensure_ascii=False), "end_state": " ".join(ends)}
        (reply,) = yield [rubric_question(_COMPARED, **told)]
        details = {"goal": list(goals), "end_state": told["end_state"]}
        return [_score(WITHOUT_REFERENCE, reply, shown.note, details)]


def _score(name: str, reply: Verdict | JudgeFailure, note: str, details: Mapping[str, Any]) -> MetricScore:
    silence = silence_in([reply])
    if silence is not None:
        return silence.score(name)
    label = label_of(reply)
    return MetricScore(
        name=name,
        value=float(label == ACHIEVED),
        label=label,
        explanation=reasons_of(reply) + note,
        details=details,
    )
