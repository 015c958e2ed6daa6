"""What judges may spend: the limits of the settings, and a budget shared by many calls at once."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.judges.fence import texts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_agentic.config import JudgeSettings
    from otel_agentic.judges.base import Budget, JudgeFailure, Question, Verdict

_TOKENS_A_PRICE: Final = 1_000_000
#: Of a judge that makes no estimate: what its prompt and its reply take, and how much text is one token.
_PROMPT_TOKENS: Final = 600
_CHARACTERS_A_TOKEN: Final = 4
#: What is said where a budget does not say which of its limits is reached.
USED_UP: Final = (
    "the judge's budget of this window is used up (judge.max_calls, judge.max_tokens and judge.max_cost_usd "
    "limit a judge.budget_window)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Model calls, tokens sent and received, and US dollars as far as prices are known."""

    calls: int = 0
    tokens: int = 0
    cost_usd: float = 0.0

    @classmethod
    def of(cls, answer: Verdict | JudgeFailure) -> Cost:
        """Return what a verdict, or a failure, has cost."""
        return cls(
            calls=answer.tries, tokens=answer.input_tokens + answer.output_tokens, cost_usd=answer.cost_usd or 0.0
        )

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            calls=self.calls + other.calls, tokens=self.tokens + other.tokens, cost_usd=self.cost_usd + other.cost_usd
        )

    def __sub__(self, other: Cost) -> Cost:
        return Cost(
            calls=self.calls - other.calls, tokens=self.tokens - other.tokens, cost_usd=self.cost_usd - other.cost_usd
        )


class Limits:
    """The limits of the settings. `values` has each by the name of its setting, None where it is not set."""

    def __init__(self, settings: JudgeSettings) -> None:
        self.values: Final[Mapping[str, float | None]] = {
            name: getattr(settings, name) for name in ("max_calls", "max_tokens", "max_cost_usd")
        }
        self._price_usd: Final = max(settings.input_price_usd or 0.0, settings.output_price_usd or 0.0)

    def reached(self, spent: Cost, *, calls: int, tokens: int) -> str | None:
        """Return, in words, the first limit that so much more would break, None where it breaks none.

        >>> from otel_agentic.config import JudgeSettings
        >>> Limits(JudgeSettings(max_calls=1_000)).reached(Cost(calls=999), calls=2, tokens=0)
        'judge.max_calls 1,000'
        """
        total = spent + Cost(calls=calls, tokens=tokens, cost_usd=tokens * self._price_usd / _TOKENS_A_PRICE)
        totals = {"max_calls": total.calls, "max_tokens": total.tokens, "max_cost_usd": total.cost_usd}
        over = (
            f"judge.{name} {limit:,}"
            for name, limit in self.values.items()
            if limit is not None and totals[name] > limit
        )
        return next(over, None)


def estimate(question: Question) -> int:
    """Return about how many tokens a question takes a judge that makes no estimate of its own.

    >>> from otel_agentic.judges.base import Question
    >>> estimate(Question(query="2+2?", expected="4", answer="four", threshold=0.7))
    602
    """
    instructions = 0 if question.rubric is None else len(question.rubric.instructions)
    texts = sum(len(text) for _, text in texts_of(question))
    return _PROMPT_TOKENS + (instructions + texts) // _CHARACTERS_A_TOKEN


class Allowance:
    """Holds back, of a budget, what each question under way may still cost, until that is known.

    Without a budget everything is allowed.

    It may be asked from several threads; the budget is used by one at a time.
    """

    def __init__(self, budget: Budget | None, estimate: Callable[[Question], int]) -> None:
        """Hold a budget.

        Args:
            budget: None for no limit.
            estimate: about how many tokens one call for a question takes.
        """
        self._budget = budget
        self._estimate = estimate
        self._lock = threading.Lock()
        self._held: Counter[Question] = Counter()

    def take(self, question: Question) -> bool:
        """Return whether one more call for a question may be made; if so, hold it back."""
        with self._lock:
            if self._budget is not None and not self._allows(self._budget, question):
                return False
            self._held[question] += 1
            return True

    def settle(self, question: Question, answer: Verdict | JudgeFailure) -> None:
        """Spend what a question has cost, in place of what was held back for it."""
        with self._lock:
            del self._held[question]
            if self._budget is not None:
                self._budget.spend(answer)

    def drop(self, question: Question) -> None:
        """Hold nothing back any longer for a question that came to nothing."""
        with self._lock:
            del self._held[question]

    @property
    def idle(self) -> bool:
        """Whether nothing is held back: what is refused now stays refused."""
        return not self._held

    @property
    def used_up(self) -> str:
        """Which limit is reached, in words."""
        told: str = getattr(self._budget, "used_up", None) or USED_UP
        return told

    def _allows(self, budget: Budget, question: Question) -> bool:
        held = sum(self._estimate(each) * calls for each, calls in self._held.items())
        return budget.allows(calls=self._held.total() + 1, tokens=held + self._estimate(question))
