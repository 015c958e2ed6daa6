"""One question to a verdict or failure: the model's reply, votes if the score is close, the canary, and the cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.judges.base import JudgeFailure, Question, Verdict
from otel_agentic.judges.inquiry import Inquiry, Spent
from otel_agentic.judges.troubles import CallProblem
from otel_agentic.judges.votes import is_close, passes, settled

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_agentic.config import JudgeSettings
    from otel_agentic.judges.base import FailureKind, FailureReason
    from otel_agentic.judges.canary import CanaryWatch
    from otel_agentic.judges.replies import Reply

_TOKENS_A_PRICE: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliberation:
    """How a judge arrives at a verdict, by the settings."""

    inquiry: Inquiry
    watch: CanaryWatch
    settings: JudgeSettings

    async def answer(
        self, question: Question, rival: Question | None, permit: Callable[[], bool]
    ) -> Verdict | JudgeFailure:
        """Return the verdict on a question, or the failure.

        Args:
            question: the question.
            rival: the canary that the answer must not pass, or None.
            permit: returns whether one more call after the first is allowed.
        """
        spent = Spent()
        first = await self.inquiry.reply(question, spent, permit)
        if isinstance(first, CallProblem):
            return self.failure(first.message, spent, kind=first.failure)
        reply = await self._vote(question, first, spent, permit) if self._is_close(question, first) else first
        if isinstance(reply, JudgeFailure):
            return reply
        if rival is not None and passes(reply.score, question.threshold) and permit():
            canary = await self.inquiry.reply(rival, spent, permit)
            if not isinstance(canary, CallProblem):
                self.watch.count(rival, canary.score)
        return Verdict(
            score=reply.score,
            reasoning=reply.reasoning,
            model=self.inquiry.model_name,
            tries=spent.tries,
            latency_s=spent.latency_s,
            input_tokens=spent.input_tokens,
            output_tokens=spent.output_tokens,
            cost_usd=self._cost_usd(spent),
            label=reply.label,
            texts=reply.texts,
        )

    def _is_close(self, question: Question, reply: Reply) -> bool:
        """Return whether a reply is voted on; replies to a rubric have no threshold to be close to."""
        if question.rubric is not None or self.settings.votes == 1:
            return False
        return is_close(reply.score, question.threshold, self.settings.vote_band)

    def failure(
        self, message: str, spent: Spent, *, reason: FailureReason = "judge_error", kind: FailureKind = "question"
    ) -> JudgeFailure:
        """Return a failure with its expense."""
        return JudgeFailure(
            reason=reason,
            message=message,
            kind=kind,
            model=self.inquiry.model_name,
            tries=spent.tries,
            latency_s=spent.latency_s,
            input_tokens=spent.input_tokens,
            output_tokens=spent.output_tokens,
            cost_usd=self._cost_usd(spent),
        )

    async def _vote(
        self, question: Question, first: Reply, spent: Spent, permit: Callable[[], bool]
    ) -> Reply | JudgeFailure:
        """Return the verdict of the majority; voting ends once it is decided."""
        votes, replies, why = self.settings.votes, [first], ""
        for _ in range(votes - 1):
            if not permit():
                message = f"{self.inquiry.model_name} scored {first.score:g}, too close to the threshold for one vote; "
                return self.failure(f"{message}no budget for more", spent, reason="budget_exhausted")
            reply = await self.inquiry.reply(question, spent, permit)
            if isinstance(reply, CallProblem):
                why = f": {reply.message}"
            else:
                replies.append(reply)
            majority = settled(replies, votes, question.threshold)
            if majority is not None:
                return majority
        return self.failure(f"no majority among {len(replies)} of {votes} votes{why}", spent)

    def _cost_usd(self, spent: Spent) -> float | None:
        """Return the cost, or None if a price is not set or a reply did not state its tokens."""
        input_price, output_price = self.settings.input_price_usd, self.settings.output_price_usd
        if input_price is None or output_price is None or not spent.priced:
            return None
        return (spent.input_tokens * input_price + spent.output_tokens * output_price) / _TOKENS_A_PRICE
