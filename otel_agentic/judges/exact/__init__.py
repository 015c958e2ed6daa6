"""The embedded judge: compares wording and facts by value, and returns the probability that people call the answer right.

It needs no language model: a logistic model weighs its features with coefficients from a file (`model.json`). It is a
heuristic: `docs/exact-judge.md` publishes its agreement with people, and its limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from otel_agentic.errors import UsageError
from otel_agentic.judges.base import JudgeFailure, Question, Verdict
from otel_agentic.judges.exact.checks import READ_CHARACTERS, Candidate, Query, Sides, expected_text, json_agreement
from otel_agentic.judges.exact.features import Model, measure, shipped_model, wording

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.config import JudgeSettings

__all__ = ["Comparison", "ExactJudge", "compare", "fixed_score"]

_MAX_ACCEPTED: Final = 500


class ExactJudge:
    """Judges by wording and value (entry point `exact`)."""

    name: str = "exact"
    version: str = "exact-3"
    calibrated: bool = True

    @classmethod
    def from_settings(cls, settings: JudgeSettings, argument: str | None = None) -> Self:  # noqa: ARG003 — the plug-in point; no settings apply
        """Return the judge; it has no settings of its own.

        Raises:
            UsageError: there is an argument.
        """
        if argument is not None:
            raise UsageError(f"judge exact:{argument}: the judge exact takes no argument after a colon")
        return cls()

    def judge(self, questions: Sequence[Question]) -> list[Verdict | JudgeFailure]:
        """Return a verdict for each question; a failure for rubrics, which need a language model."""
        return [self._verdict(question) for question in questions]

    @staticmethod
    def _verdict(question: Question) -> Verdict | JudgeFailure:
        if question.rubric is not None:
            return JudgeFailure(reason="judge_error", message=f"judge exact takes no rubric ({question.rubric.name})")
        model = shipped_model()
        comparison = compare(question, model)
        passes = comparison.score >= max(model.passes, question.threshold)
        unsure = not passes and comparison.score >= min(model.fails, question.threshold)
        return Verdict(
            score=round(comparison.score, 6), reasoning=comparison.reasoning + _unread(question), unsure=unsure
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The probability that people call an answer right, and its explanation."""

    score: float
    reasoning: str


def compare(question: Question, model: Model | None = None) -> Comparison:
    """Return the probability that people call an answer right: that of the best matching accepted answer.

    >>> asked = Question(query="Total?", expected="$1,327", answer="Your total is 1327 dollars.", threshold=0.7)
    >>> round(compare(asked).score, 1)
    1.0
    >>> compare(Question(query="Total?", expected="$1,327", answer="Your total is $1,372.", threshold=0.7)).reasoning
    "'$1,327' is different"
    """
    model = model or shipped_model()
    candidate = Candidate.of(question.answer, Query.of(question.query[:READ_CHARACTERS]))
    if not candidate.text.plain:
        return Comparison(score=0.0, reasoning="the answer is empty")
    best = Comparison(score=-1.0, reasoning="")
    for expected in dict.fromkeys(question.accepted_answers[:_MAX_ACCEPTED]):
        comparison = _compare_one(expected, question.answer, candidate, model, best.score)
        best = max(best, comparison, key=lambda item: item.score)
    return best


def _compare_one(accepted: str, answer: str, candidate: Candidate, model: Model, beaten: float) -> Comparison:
    expected = expected_text(accepted)
    if expected.plain == candidate.text.plain and accepted[READ_CHARACTERS:] == answer[READ_CHARACTERS:]:
        return Comparison(score=1.0, reasoning="the texts are equal")
    sides = Sides(expected=expected, candidate=candidate)
    fixed = fixed_score(sides, model)
    if fixed is not None:
        return fixed
    probability = model.probability(measure(wording(expected.raw), candidate.wording, sides.held_facts))
    if probability <= beaten:
        return Comparison(score=probability, reasoning="")
    # A low probability needs no cap: objections are computed for the first accepted answer only, as an explanation.
    objection = sides.objection() if probability >= model.fails / 2 or beaten < 0 else None
    if objection is None:
        return Comparison(score=probability, reasoning=f"right with a probability of {probability:.2f}")
    return Comparison(score=min(probability, model.cap(objection.weight)), reasoning=objection.explanation)


def fixed_score(sides: Sides, model: Model) -> Comparison | None:
    """Return the score if a rule decides instead of the model: repeated questions, JSON, yes and no, facts."""
    expected, answer = sides.expected, sides.answer
    if expected.plain == answer.plain and len(expected.raw) < READ_CHARACTERS:
        return Comparison(score=1.0, reasoning="the texts are equal")
    if answer.plain == sides.query.text.plain:
        return Comparison(score=0.0, reasoning="the answer only repeats the question")
    agreement = json_agreement(expected.raw, answer.raw)
    if agreement is not None:
        equal = agreement == 1.0
        return Comparison(score=float(equal), reasoning="the JSON is equal" if equal else "the JSON differs")
    expected_yes = sides.polar_reading()
    affirms = None if expected_yes is None else sides.affirms_query()
    if expected_yes is not None and affirms != (not expected_yes):
        return _agreement(affirms, model)
    if sides.states_facts and sides.objection() is None:
        return Comparison(score=model.agreed, reasoning="it states the expected facts")
    return None


def _agreement(affirms: bool | None, model: Model) -> Comparison:  # noqa: FBT001 — the polarity is the data, not a switch
    if affirms is None:
        return Comparison(score=model.cap("doubt"), reasoning="it answers neither yes nor no")
    return Comparison(score=model.agreed, reasoning="yes and no agree")


def _unread(question: Question) -> str:
    """Return a note on the unread rest of a very long answer, or ""."""
    if len(question.answer) <= READ_CHARACTERS:
        return ""
    return f" (of {len(question.answer):,} characters the first {READ_CHARACTERS:,} were read)"
