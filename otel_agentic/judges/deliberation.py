"""One question -> a verdict or a failure: the model's reply, the votes where it was close, the canary, and what it all cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.judges.base import JudgeFailure, Question, Verdict
from otel_agentic.judges.inquiry import Inquiry, Spent
from otel_agentic.judges.troubles import Trouble
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
    """How a judge comes to a verdict, by the settings."""

    inquiry: Inquiry
    watch: CanaryWatch
    settings: JudgeSettings

    async def answer(
        self, question: Question, rival: Question | None, permit: Callable[[], bool]
    ) -> Verdict | JudgeFailure:
        """Return the verdict on a question, or why there is none.

        Args:
            question: what is judged.
            rival: the canary that its answer must not pass, None for none.
            permit: answers whether one more call may be made after the first.
        """
        spent = Spent()
        first = await self.inquiry.reply(question, spent, permit)
        if isinstance(first, Trouble):
            return self.failure(first.told, spent, kind=first.failure)
        reply = await self._vote(question, first, spent, permit) if self._is_close(question, first) else first
        if isinstance(reply, JudgeFailure):
            return reply
        if rival is not None and passes(reply.score, question.threshold) and permit():
            told = await self.inquiry.reply(rival, spent, permit)
            if not isinstance(told, Trouble):
                self.watch.tell(rival, told.score)
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
        """Return whether a reply is voted on; what a rubric asks for has no threshold to be close to."""
        if question.rubric is not None or self.settings.votes == 1:
            return False
        return is_close(reply.score, question.threshold, self.settings.vote_band)

    def failure(
        self, told: str, spent: Spent, *, reason: FailureReason = "judge_error", kind: FailureKind = "question"
    ) -> JudgeFailure:
        """Return that there is no verdict, with what was spent on it."""
        return JudgeFailure(
            reason=reason,
            message=told,
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
        """Return the verdict of the majority; it is asked only until it stands."""
        votes, replies, why = self.settings.votes, [first], ""
        for _ in range(votes - 1):
            if not permit():
                told = f"{self.inquiry.model_name} scored {first.score:g}, too close to the threshold for one vote; "
                return self.failure(f"{told}no budget for more", spent, reason="budget_exhausted")
            reply = await self.inquiry.reply(question, spent, permit)
            if isinstance(reply, Trouble):
                why = f": {reply.told}"
            else:
                replies.append(reply)
            majority = settled(replies, votes, question.threshold)
            if majority is not None:
                return majority
        return self.failure(f"no majority among {len(replies)} of {votes} votes{why}", spent)

    def _cost_usd(self, spent: Spent) -> float | None:
        """Return what was spent; None where a price is not set or a reply did not tell its tokens."""
        given, taken = self.settings.input_price_usd, self.settings.output_price_usd
        if given is None or taken is None or not spent.priced:
            return None
        return (spent.input_tokens * given + spent.output_tokens * taken) / _TOKENS_A_PRICE
