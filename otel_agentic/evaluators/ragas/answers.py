"""Answer accuracy: an answer held against the annotated one, and that against the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_agentic.evaluators.base import Metric, MetricScore, WithoutSettings
from otel_agentic.evaluators.catalog import metrics_of
from otel_agentic.evaluators.ragas.told import Silence, label_of, reasons_of, silence_in
from otel_agentic.judges.base import ReplyForm, rubric_question
from otel_agentic.judges.rubrics import load_rubric
from otel_agentic.scoring.answers import closest_accepted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_agentic.conversations.model import Turn
    from otel_agentic.evaluators.base import Asking, Need, Subject
    from otel_agentic.judges.base import JudgeFailure, Question, Rubric, Verdict
    from otel_agentic.truth.model import CaseTurn

NAME: Final = "agentic.ragas.answer_accuracy"
#: What each label is rated, of four.
RATINGS: Final[Mapping[str, int]] = {"agrees": 4, "partly": 2, "disagrees": 0}

_BEST: Final = 4
_FORM: Final = ReplyForm(kind="label", labels=tuple(RATINGS))
_ANSWER_FIRST: Final = load_rubric("otel_agentic.evaluators", "prompts/ragas/answer_accuracy.md", _FORM)
_REFERENCE_FIRST: Final = load_rubric("otel_agentic.evaluators", "prompts/ragas/answer_accuracy_swapped.md", _FORM)


class AnswerAccuracy(WithoutSettings):
    """How far each annotated answer was given."""

    name: str = "ragas.answer_accuracy"
    version: str = "1"
    metrics: tuple[Metric, ...] = metrics_of("ragas.answer_accuracy")
    needs: frozenset[Need] = frozenset({"turns", "case", "expected_answer", "judge"})
    default: bool = False
    rubrics: tuple[Rubric, ...] = (_ANSWER_FIRST, _REFERENCE_FIRST)

    def ask(self, subject: Subject) -> Asking:
        """Yield two questions for each turn with an annotated answer, and return its scores."""
        turns = list(_annotated(subject))
        if not turns:
            told = "no turn of the conversation has an annotated answer; annotate `answer` in the turns of the case"
            return [Silence(reason="no_data", told=told).score(NAME)]
        asked = [(turn, questions) for turn, wanted in turns if (questions := _questions(turn, wanted))]
        replies = iter((yield [question for _, questions in asked for question in questions]) if asked else ())
        by_turn = {turn.index: (next(replies), next(replies)) for turn, _ in asked}
        return [_score(turn, by_turn.get(turn.index)) for turn, _ in turns]


def _annotated(subject: Subject) -> Iterator[tuple[Turn, CaseTurn]]:
    """Yield the turns with an annotated answer, and what is expected of them."""
    expected = () if subject.case is None else subject.case.turns
    for turn in subject.conversation.turns:
        place = subject.aligned.get(turn.index)
        if place is not None and expected[place].answer is not None:
            yield turn, expected[place]


def _questions(turn: Turn, wanted: CaseTurn) -> Sequence[Question]:
    """Return the two questions about an answer, none where there is no answer."""
    if turn.answer is None or not wanted.accepted_answers:
        return ()
    reference = closest_accepted(turn.answer, wanted.accepted_answers)
    query = turn.query or wanted.query or ""
    return (
        rubric_question(_ANSWER_FIRST, question=query, answer=turn.answer, reference=reference),
        rubric_question(_REFERENCE_FIRST, question=query, first=turn.answer, second=reference),
    )


def _score(turn: Turn, replies: tuple[Verdict | JudgeFailure, Verdict | JudgeFailure] | None) -> MetricScore:
    place = f"the answer of turn {turn.index + 1}"
    if replies is None and not turn.answer_captured:
        told = f"{place} was not captured; have the instrumentation record content"
        return Silence(reason="content_not_captured", told=told).score(NAME, turn.index)
    if replies is None:
        return MetricScore(
            name=NAME, value=0.0, turn_index=turn.index, explanation=f"turn {turn.index + 1} has no answer"
        )
    silence = silence_in(replies)
    if silence is not None:
        return silence.score(NAME, turn.index)
    first, second = (RATINGS[label_of(reply)] for reply in replies)
    return MetricScore(
        name=NAME,
        value=(first + second) / (2 * _BEST),
        turn_index=turn.index,
        explanation=f"{place} is rated {first} of {_BEST} and, compared the other way, {second}: {reasons_of(*replies)}",
        details={"ratings": [first, second]},
    )
