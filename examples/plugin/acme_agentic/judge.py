"""A judge: it compares the words of two answers."""

from collections.abc import Sequence

from otel_agentic.config import JudgeSettings
from otel_agentic.judges import JudgeFailure, Question, Verdict


class Keywords:
    """The share of the expected words that the answer has."""

    name = "keywords"
    version = "1"

    @classmethod
    def from_settings(cls, settings: JudgeSettings, argument: str | None = None) -> "Keywords":
        return cls()

    def judge(self, questions: Sequence[Question]) -> list[Verdict | JudgeFailure]:
        return [self._verdict(question) for question in questions]

    def _verdict(self, question: Question) -> Verdict | JudgeFailure:
        expected = set(question.expected.lower().split())
        if not expected:
            return JudgeFailure(reason="judge_error", message="no word is expected")
        shared = expected & set(question.answer.lower().split())
        return Verdict(score=len(shared) / len(expected), reasoning=f"has {len(shared)} of {len(expected)} words")
