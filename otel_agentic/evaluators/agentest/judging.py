"""Questions about the parts of a conversation, and what their answers become: a score each, or the reason why not."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from otel_agentic.evaluators.base import WithoutSettings
from otel_agentic.judges.base import JudgeFailure, ReplyForm, rubric_question
from otel_agentic.judges.rubrics import load_rubric

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from otel_agentic.evaluators.base import Asking, Metric, MetricScore, Need, Subject
    from otel_agentic.judges.base import Question, Rubric, Verdict
    from otel_agentic.scoring.model import NotEvaluatedReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A score that is to come: where it belongs, and the question that it hangs on; without one it is an abstention."""

    score: MetricScore
    question: Question | None = None
    note: str = ""


class Judging(WithoutSettings, ABC):
    """An evaluator that asks one question for each item; the rest of its kind is data.

    `values` are those of labels, where labels have values.
    """

    name: str
    version: str = "1"
    metrics: tuple[Metric, ...]
    needs: frozenset[Need]
    default: bool = False
    rubrics: tuple[Rubric, ...]
    values: Mapping[str, float] = MappingProxyType({})

    @abstractmethod
    def items(self, subject: Subject) -> Iterable[Item]:
        """Yield the scores that are to come, in their order."""

    def ask(self, subject: Subject) -> Asking:
        """Yield all questions about a conversation together, and return its scores."""
        items = list(self.items(subject))
        questions = [item.question for item in items if item.question is not None]
        replies = iter((yield questions) if questions else ())
        return [item.score if item.question is None else self._scored(item, next(replies)) for item in items]

    def _scored(self, item: Item, reply: Verdict | JudgeFailure) -> MetricScore:
        form = None if item.question is None or item.question.rubric is None else item.question.rubric.form
        where = place_of(item.score)
        if isinstance(reply, JudgeFailure):
            return replace(item.score, reason=reply.reason, explanation=f"{where} was not judged: {reply.message}")
        if form is not None and form.kind == "label" and reply.label not in form.labels:
            return replace(item.score, reason="judge_error", explanation=f"{where}: the judge gave no label")
        return replace(
            item.score,
            value=reply.score if reply.label is None else self.values.get(reply.label),
            label=reply.label,
            explanation=f"{where}: {reply.reasoning.strip()}{item.note}",
        )


def rubric(file: str, form: ReplyForm) -> Rubric:
    """Return one of the rubrics of this family."""
    return load_rubric("otel_agentic.evaluators", f"prompts/agentest/{file}.md", form)


def asked(score: MetricScore, about: Rubric, texts: Mapping[str, str], note: str = "") -> Item:
    """Return a score that hangs on a question."""
    return Item(score=score, question=rubric_question(about, **texts), note=note)


def silent(score: MetricScore, reason: NotEvaluatedReason, told: str) -> Item:
    """Return a score that there is none of, and why."""
    return Item(score=replace(score, reason=reason, explanation=told))


def place_of(score: MetricScore) -> str:
    """Return where a score belongs, as people number it.

    >>> from otel_agentic.evaluators.base import MetricScore
    >>> place_of(MetricScore(name="m", turn_index=1, position=0, tool_name="book"))
    'turn 2, call 1 (book)'
    """
    if score.turn_index is None:
        return "the conversation"
    call = "" if score.position is None else f", call {score.position + 1} ({score.tool_name})"
    return f"turn {score.turn_index + 1}{call}"
