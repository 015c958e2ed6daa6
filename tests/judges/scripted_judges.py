"""Judges over scripted models, their replies, and the expected verdicts."""

from __future__ import annotations

from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any

from otel_agentic.config import JudgeSettings
from otel_agentic.judges import JudgeFailure, Verdict
from otel_agentic.judges.llm import LangChainJudge
from tests.judges.models import Say, verdict

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage

    from tests.judges.parts import Answer


def judge_of(model: BaseChatModel, **settings: Any) -> LangChainJudge:
    return LangChainJudge(model, JudgeSettings(**{"backoff_s": 0, **settings}), rng=Random(7))  # noqa: S311 — jitter


def in_turn(*stated: AIMessage | str | BaseException) -> Say:
    """Reply with these in turn, and with the last one from then on."""
    number = count()
    return lambda *_: stated[min(next(number), len(stated) - 1)]


def scores_in_turn(*scores: object) -> Say:
    return in_turn(*(verdict(score, f"vote {index + 1}") for index, score in enumerate(scores)))


def only(answers: list[Answer]) -> Verdict:
    (answer,) = answers
    assert isinstance(answer, Verdict), answer
    return answer


def failed(answers: list[Answer]) -> JudgeFailure:
    (answer,) = answers
    assert isinstance(answer, JudgeFailure), answer
    return answer
