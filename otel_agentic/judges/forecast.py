"""A forecast of the calls, tokens and cost that questions to a judge need, without asking any."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.judges.asking_judge import AskingJudge
from otel_agentic.judges.base import BudgetAwareJudge, PanelJudge

if TYPE_CHECKING:
    from otel_agentic.config import JudgeSettings
    from otel_agentic.judges.base import Judge, Question

_TOKENS_A_PRICE: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The expected expense of questions: `cached` ones are free. None is unknown."""

    questions: int = 0
    cached: int = 0
    calls: int = 0
    input_tokens: int | None = 0
    output_tokens: int | None = 0

    def __add__(self, other: Forecast) -> Forecast:
        return Forecast(
            questions=self.questions + other.questions,
            cached=self.cached + other.cached,
            calls=self.calls + other.calls,
            input_tokens=_sum(self.input_tokens, other.input_tokens),
            output_tokens=_sum(self.output_tokens, other.output_tokens),
        )

    def times(self, factor: float) -> Forecast:
        """Return the forecast for so many times as many conversations."""
        return Forecast(
            questions=round(self.questions * factor),
            cached=round(self.cached * factor),
            calls=round(self.calls * factor),
            input_tokens=None if self.input_tokens is None else round(self.input_tokens * factor),
            output_tokens=None if self.output_tokens is None else round(self.output_tokens * factor),
        )

    @property
    def tokens(self) -> int | None:
        """The number of input and output tokens."""
        return _sum(self.input_tokens, self.output_tokens)

    def cost_usd(self, settings: JudgeSettings) -> float | None:
        """Return the cost at the prices of the settings, or None if a price or the number of tokens is unknown.

        >>> from otel_agentic.config import JudgeSettings
        >>> prices = JudgeSettings(input_price_usd=0.25, output_price_usd=2.0)
        >>> Forecast(calls=9, input_tokens=4_000_000, output_tokens=500_000).cost_usd(prices)
        2.0
        """
        prices = settings.input_price_usd, settings.output_price_usd
        if self.input_tokens is None or self.output_tokens is None or prices[0] is None or prices[1] is None:
            return None
        return (self.input_tokens * prices[0] + self.output_tokens * prices[1]) / _TOKENS_A_PRICE


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second


def forecast(
    questions: Sequence[Question], judge: Judge, cached: Callable[[Sequence[str]], Collection[str]] = lambda _: ()
) -> Forecast:
    """Return the expected expense of questions.

    A question without a cached verdict, or a panel of them, is one call. Retries, votes, canaries and questions that depend on
    the verdict of another question are not included.

    Args:
        questions: the questions; equal ones count once.
        judge: the judge.
        cached: returns which cache keys have a verdict.
    """
    asking_judge = AskingJudge(judge)
    distinct = {asking_judge.key(question): question for question in questions}
    known = frozenset(cached(list(distinct)))
    missing = {key: question for key, question in distinct.items() if key not in known}
    panels = [[missing[key] for key in panel] for panel in asking_judge.panels(missing)]
    expected = [_expected_tokens(judge, panel) for panel in panels]
    return Forecast(
        questions=len(distinct),
        cached=len(distinct) - len(missing),
        calls=len(panels),
        input_tokens=None if None in expected else sum(tokens[0] for tokens in expected if tokens),
        output_tokens=None if None in expected else sum(tokens[1] for tokens in expected if tokens),
    )


def _expected_tokens(judge: Judge, panel: Sequence[Question]) -> tuple[int, int] | None:
    """Return the input and output tokens of one call; an estimate that does not separate them counts as output, which costs more."""
    if isinstance(judge, PanelJudge):
        return judge.expected_tokens(panel)
    return (0, sum(map(judge.estimated_tokens, panel))) if isinstance(judge, BudgetAwareJudge) else None
