"""A budget shared by many calls at once: what is under way is held back until its true cost is known."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_agentic.judges.base import Budget, JudgeFailure, Question, Verdict

#: What is said where a budget does not say which of its limits is reached.
USED_UP: Final = (
    "the judge's budget of this window is used up (judge.max_calls, judge.max_tokens and judge.max_cost_usd "
    "limit a judge.budget_window)"
)


class Allowance:
    """Holds back, of a budget, what each question under way may still cost. Without a budget everything is allowed.

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
