"""Scores that are stored, made again for evaluators that were not run on them yet: no judge is asked, nothing is rewritten."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from otel_agentic.judges import JudgeFailure, is_calibrated, kinds_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from otel_agentic.config import JudgeSettings
    from otel_agentic.judges import JudgeCache, Question, Verdict
    from otel_agentic.judges.asking import AskingJudge

_UNKNOWN: Final = JudgeFailure(reason="judge_error", message="its verdict is not kept any more")


class Recalling:
    """A judge that says again what it said before, as far as that is kept, and is asked nothing."""

    def __init__(self, judge: AskingJudge, cache: JudgeCache) -> None:
        self.name: str = judge.name
        self.version: str = judge.version
        self.kinds = kinds_of(judge)
        self.calibrated = is_calibrated(judge)
        self._key: Callable[[Question], str] = judge.key
        self._cache = cache

    @classmethod
    def from_settings(cls, settings: JudgeSettings, argument: str | None = None) -> Self:
        """Raise: it is no plug-in, it stands for what a judge said before."""
        raise NotImplementedError

    def judge(self, questions: Sequence[Question]) -> list[Verdict | JudgeFailure]:
        """Return what was said of each question before."""
        keys = [self._key(question) for question in questions]
        known = self._cache.get(keys)
        return [known.get(key, _UNKNOWN) for key in keys]
