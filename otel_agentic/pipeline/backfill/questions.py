"""What scoring would ask of a judge, without asking it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from otel_agentic.judges import ExactJudge, JudgeFailure, kinds_of
from otel_agentic.judges.asking import AskingJudge
from otel_agentic.judges.base import BudgetAwareJudge
from otel_agentic.pipeline.judging import scorer_of
from otel_agentic.store.judge_calls import known_verdicts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_agentic.config import JudgeSettings
    from otel_agentic.judges import Judge, Question, Verdict
    from otel_agentic.pipeline.engine import Engine
    from otel_agentic.scoring import MatchedConversation

_TOKENS_A_PRICE: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeEstimate:
    """What scoring would ask of the judge: different questions, those whose verdict is remembered, calls to be made.

    One call a question: retries, votes and canaries come on top. `tokens` and `cost_usd` are None where the judge makes
    no estimate, or no price is set. `over` says which limit of the budget that would break, None where none.
    """

    judge: str
    asks_a_model: bool
    questions: int = 0
    cached: int = 0
    tokens: int | None = None
    cost_usd: float | None = None
    over: str | None = None

    @property
    def calls(self) -> int:
        """Questions without a remembered verdict."""
        return self.questions - self.cached


class Gatherer:
    """A judge that answers nothing and remembers what it was asked."""

    def __init__(self, judge: Judge) -> None:
        self.name: str = judge.name
        self.version: str = judge.version
        self.kinds = kinds_of(judge)
        self.asked: dict[Question, None] = {}

    @classmethod
    def from_settings(cls, settings: JudgeSettings, argument: str | None = None) -> Self:
        """Raise: it stands for a judge while questions are gathered, and is no plug-in."""
        raise NotImplementedError

    def judge(self, questions: Sequence[Question]) -> list[Verdict | JudgeFailure]:
        """Return a failure a question."""
        self.asked |= dict.fromkeys(questions)
        return [JudgeFailure(reason="judge_error", message="not asked: this is a dry run") for _ in questions]


def judge_estimate(engine: Engine, parts: Iterable[Sequence[MatchedConversation]]) -> JudgeEstimate:
    """Return what scoring some conversations would ask of the judge. Nothing is asked.

    What an answer would lead to, where a verdict raises another question, is not counted.
    """
    judge = engine.evaluating.judge
    if isinstance(judge, ExactJudge):
        return JudgeEstimate(judge=judge.name, asks_a_model=False)
    gatherer = Gatherer(judge)
    settings = engine.settings.scoring
    score = scorer_of(settings)
    for matched in parts:
        score(matched, judge=gatherer, settings=settings)
    return _estimate(engine, judge, list(gatherer.asked))


def _estimate(engine: Engine, judge: Judge, asked: Sequence[Question]) -> JudgeEstimate:
    asking = AskingJudge(judge)
    keys = {asking.key(question): question for question in asked}
    with engine.store.read() as con:
        known = known_verdicts(con, list(keys)) if engine.settings.judge.cache else {}
    missing = [question for key, question in keys.items() if key not in known]
    tokens = sum(map(judge.estimated_tokens, missing)) if isinstance(judge, BudgetAwareJudge) else None
    return JudgeEstimate(
        judge=judge.name,
        asks_a_model=True,
        questions=len(keys),
        cached=len(keys) - len(missing),
        tokens=tokens,
        cost_usd=_cost_usd(engine.settings.judge, tokens),
        over=_over(engine, len(missing), tokens or 0),
    )


def _cost_usd(settings: JudgeSettings, tokens: int | None) -> float | None:
    """Return what tokens cost at most: at the dearer of the two prices."""
    prices = [price for price in (settings.input_price_usd, settings.output_price_usd) if price is not None]
    return None if tokens is None or not prices else tokens * max(prices) / _TOKENS_A_PRICE


def _over(engine: Engine, calls: int, tokens: int) -> str | None:
    budget = engine.evaluating.budget
    return None if budget.allows(calls=calls, tokens=tokens) else budget.used_up
