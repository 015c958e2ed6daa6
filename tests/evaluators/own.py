"""Evaluators that tests bring along: one that computes, one that asks, one of groups; and their judge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from otel_agentic.evaluators.base import JudgeDialogue, Member, Metric, MetricScore, Need, Subject
from otel_agentic.judges import JudgeFailure, Verdict
from otel_agentic.judges.base import ReplyForm, Rubric, rubric_question

if TYPE_CHECKING:
    from otel_agentic.config import EvaluatorSettings


def metric(name: str, **changes: Any) -> Metric:
    return Metric(**{"name": name, "title": name, "definition": "", "source": "", "target": "turn", **changes})


@dataclass(kw_only=True)
class Plain:
    """Scores the characters of each answer, and labels the conversation long or short."""

    name: str = "length"
    version: str = "1"
    metrics: tuple[Metric, ...] = (
        metric("length.characters", high=None, unit="{character}"),
        metric("length.kind", target="conversation", labels=("short", "long"), failing=frozenset({"long"})),
    )
    needs: frozenset[Need] = frozenset({"answers"})
    default: bool = True
    say: Callable[[Subject], Iterable[Any]] | None = None
    known: list[str] = field(default_factory=list)

    @classmethod
    def from_settings(cls, settings: EvaluatorSettings) -> Self:
        del settings
        return cls()

    def evaluate(self, subject: Subject) -> Iterable[Any]:
        self.known.append(str(subject.conversation.conversation_id))
        if self.say is not None:
            return self.say(subject)
        sizes = {turn.index: len(turn.answer) for turn in subject.conversation.turns if turn.answer}
        return [
            *(MetricScore(name="length.characters", value=size, turn_index=index) for index, size in sizes.items()),
            MetricScore(name="length.kind", label="long" if sum(sizes.values()) > 100 else "short"),
        ]


POLITE = Rubric(
    name="test.polite",
    version="1",
    instructions="Is the answer polite?",
    form=ReplyForm(kind="label", labels=("yes", "no")),
)


@dataclass(kw_only=True)
class Asker:
    """Asks of each answer whether it is polite, and then, of a conversation with a rude one, once more."""

    name: str = "manners.polite"
    version: str = "1"
    metrics: tuple[Metric, ...] = (metric("manners.polite", labels=("yes", "no"), failing=frozenset({"no"})),)
    needs: frozenset[Need] = frozenset({"answers", "judge"})
    default: bool = False
    rubrics: tuple[Rubric, ...] = (POLITE,)
    again: bool = False

    @classmethod
    def from_settings(cls, settings: EvaluatorSettings) -> Self:
        del settings
        return cls()

    def ask(self, subject: Subject) -> JudgeDialogue:
        turns = [turn for turn in subject.conversation.turns if turn.answer]
        stated = yield [rubric_question(POLITE, answer=turn.answer or "") for turn in turns]
        if self.again and any(isinstance(item, Verdict) and item.label == "no" for item in stated):
            stated = yield [rubric_question(POLITE, answer=f"once more: {turn.answer}") for turn in turns]
        return [_polite(turn.index, item) for turn, item in zip(turns, stated, strict=True)]


def _polite(index: int, stated: Verdict | JudgeFailure) -> MetricScore:
    if isinstance(stated, JudgeFailure):
        return MetricScore(name="manners.polite", turn_index=index, reason=stated.reason, explanation=stated.message)
    return MetricScore(name="manners.polite", turn_index=index, label=stated.label, explanation=stated.reasoning)


@dataclass(kw_only=True)
class OfGroup:
    """Scores the total length of the passing conversations of a group, per passing conversation."""

    name: str = "length.total"
    version: str = "1"
    metrics: tuple[Metric, ...] = (metric("length.per_success", target="group", high=None, threshold=0.0),)
    reads: tuple[str, ...] = ("length.characters",)
    default: bool = True

    @classmethod
    def from_settings(cls, settings: EvaluatorSettings) -> Self:
        del settings
        return cls()

    def evaluate_group(self, members: Sequence[Member]) -> Iterable[MetricScore]:
        passed = sum(member.outcome == "pass" for member in members)
        total = sum(score.value or 0 for member in members for score in member.scores.get("length.characters", ()))
        if not passed:
            return [MetricScore(name="length.per_success", reason="no_data", explanation="none passed")]
        return [MetricScore(name="length.per_success", value=total / passed, explanation=f"{passed} passed")]
