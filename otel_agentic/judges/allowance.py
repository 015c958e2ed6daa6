"""The budget of a judge: the limits of the settings, and reservations for concurrent calls."""

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
#: Estimates for a judge without its own: tokens of its prompt and reply, and characters per token.
_PROMPT_TOKENS: Final = 600
_CHARACTERS_A_TOKEN: Final = 4
#: The message for a budget that does not name the limit that is reached.
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
        """Return the cost of a verdict or failure."""
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
    """The limits of the settings: `values` by the name of the setting, None if it is not set."""

    def __init__(self, settings: JudgeSettings) -> None:
        self.values: Final[Mapping[str, float | None]] = {
            name: getattr(settings, name) for name in ("max_calls", "max_tokens", "max_cost_usd")
        }
        self._price_usd: Final = max(settings.input_price_usd or 0.0, settings.output_price_usd or 0.0)

    def reached(self, spent: Cost, *, calls: int, tokens: int) -> str | None:
        """Return the first limit that a further expense would exceed, as text, or None.

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
    """Return the estimated number of tokens of a question for a judge without its own estimate.

    >>> from otel_agentic.judges.base import Question
    >>> estimate(Question(query="2+2?", expected="4", answer="four", threshold=0.7))
    602
    """
    instructions = 0 if question.rubric is None else len(question.rubric.instructions)
    texts = sum(len(text) for _, text in texts_of(question))
    return _PROMPT_TOKENS + (instructions + texts) // _CHARACTERS_A_TOKEN


class Allowance:
    """Reserves, from a budget, the possible cost of each running question until its actual cost is known.

    Without a budget every call is allowed. Thread-safe; the budget is used by one thread at a time.
    """

    def __init__(self, budget: Budget | None, estimate: Callable[[Question], int]) -> None:
        """Reserve calls from a budget.

        Args:
            budget: None for no limit.
            estimate: returns the estimated tokens of one call for a question.
        """
        self._budget = budget
        self._estimate = estimate
        self._lock = threading.Lock()
        self._reserved: Counter[Question] = Counter()

    def take(self, question: Question) -> bool:
        """Reserve one more call for a question, if the budget allows it; return whether it does."""
        with self._lock:
            if self._budget is not None and not self._allows(self._budget, question):
                return False
            self._reserved[question] += 1
            return True

    def settle(self, question: Question, answer: Verdict | JudgeFailure) -> None:
        """Spend the actual cost of a question, and release its reservation."""
        with self._lock:
            del self._reserved[question]
            if self._budget is not None:
                self._budget.spend(answer)

    def drop(self, question: Question) -> None:
        """Release the reservation of a question without a result."""
        with self._lock:
            del self._reserved[question]

    @property
    def idle(self) -> bool:
        """Whether no call is reserved: further refusals are final."""
        return not self._reserved

    @property
    def used_up(self) -> str:
        """A text that names the reached limit."""
        message: str = getattr(self._budget, "used_up", None) or USED_UP
        return message

    def _allows(self, budget: Budget, question: Question) -> bool:
        reserved = sum(self._estimate(question) * calls for question, calls in self._reserved.items())
        return budget.allows(calls=self._reserved.total() + 1, tokens=reserved + self._estimate(question))
