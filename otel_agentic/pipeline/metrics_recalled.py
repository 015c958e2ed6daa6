"""Stored scores, recomputed for evaluators that were not run on them yet, without asking the judge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from otel_agentic.judges import JudgeFailure, is_calibrated, kinds_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from otel_agentic.config import JudgeSettings
    from otel_agentic.judges import JudgeCache, Question, Verdict
    from otel_agentic.judges.asking import AskingJudge

_UNKNOWN: Final = JudgeFailure(reason="judge_error", message="the verdict is no longer cached")


class CachedJudge:
    """A judge that answers from the cache only."""

    def __init__(self, judge: AskingJudge, cache: JudgeCache) -> None:
        self.name: str = judge.name
        self.version: str = judge.version
        self.kinds = kinds_of(judge)
        self.calibrated = is_calibrated(judge)
        self._key: Callable[[Question], str] = judge.key
        self._cache = cache

    @classmethod
    def from_settings(cls, settings: JudgeSettings, argument: str | None = None) -> Self:
        """Raise: this is not a plug-in."""
        raise NotImplementedError

    def judge(self, questions: Sequence[Question]) -> list[Verdict | JudgeFailure]:
        """Return the cached verdict of each question, or a failure without one."""
        keys = [self._key(question) for question in questions]
        known = self._cache.get(keys)
        return [known.get(key, _UNKNOWN) for key in keys]
