"""The LLM judge: any chat model of LangChain, with votes on close scores and canary questions."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import queue
import random
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from statistics import median_low
from typing import TYPE_CHECKING, Final, Self

from otel_agentic.config import JudgeSettings
from otel_agentic.judges.base import FailureKind, FailureReason, JudgeFailure, Question, QuestionKind, Rubric, Verdict
from otel_agentic.judges.call_problems import CallProblem
from otel_agentic.judges.chat_models import identity_of, make_model, name_of, own_connections, shared
from otel_agentic.judges.inquiry import Inquiry, Spent
from otel_agentic.judges.messages import FRAME, PANEL, RUBRIC_FRAME, SYSTEM, Reply
from otel_agentic.judges.panels import MAX_QUESTIONS, Panel, panel_key
from otel_agentic.judges.prompts import instructions_of, own_prompt, prompt_texts
from otel_agentic.truth.values import normalise

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    Answer = Verdict | JudgeFailure

#: Tolerance for the rounding errors of binary fractions: 0.85 is within 0.15 of 0.7.
_TOLERANCE = 1e-9


def is_close(score: float, threshold: float, band: float) -> bool:
    """Return whether a score is so close to the threshold, on either side, that the question is asked again.

    Asking again on one side only would bias the pass rate towards the other side.

    >>> is_close(0.85, 0.7, 0.15), is_close(0.55, 0.7, 0.15), is_close(0.9, 0.7, 0.15)
    (True, True, False)
    """
    return abs(score - threshold) <= band + _TOLERANCE


def passes(score: float, threshold: float) -> bool:
    """Return whether a score passes; a score equal to the threshold passes."""
    return score >= threshold - _TOLERANCE


def settled(replies: Sequence[Reply], votes: int, threshold: float) -> Reply | None:
    """Return the verdict of the majority, or None while more votes could still change it.

    The result is the low median of the majority's votes, with the reasoning of that vote. Its score is therefore one
    that a vote actually gave, on the majority's side of the threshold.

    Args:
        replies: the verdicts so far, without failed votes.
        votes: the number of votes requested, odd.
        threshold: the score at which an answer passes.

    >>> from otel_agentic.judges.messages import Reply
    >>> replies = [Reply(reasoning=str(score), score=score) for score in (0.75, 0.6, 0.8)]
    >>> settled(replies[:2], 3, 0.7), settled(replies, 3, 0.7).score
    (None, 0.75)
    """
    for outcome in (True, False):
        side = [reply for reply in replies if passes(reply.score, threshold) == outcome]
        if 2 * len(side) > votes:
            score = median_low(reply.score for reply in side)
            return next(reply for reply in side if reply.score == score)
    return None


_LOG: Final = logging.getLogger(__name__)
_EXAMPLES: Final = 5
#: Number of characters of an expected answer that are compared.
_COMPARED: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Canaries:
    """The number of canary questions, the number of those that the judge let pass, and the first of the latter."""

    total: int = 0
    fooled: int = 0
    examples: tuple[Question, ...] = ()


class CanaryWatch:
    """Chooses canaries, counts them, and warns of a judge that passes one."""

    def __init__(self, ratio: float) -> None:
        """Set the share of passing answers, in [0, 1], that are checked with a canary."""
        self._ratio = ratio
        self._lock = threading.Lock()
        self._counts = Canaries()

    @property
    def counts(self) -> Canaries:
        """The counts so far."""
        return self._counts

    def rivals(
        self, panels: Iterable[Sequence[tuple[int, Question]]]
    ) -> Iterator[tuple[Sequence[tuple[int, Question]], Question | None]]:
        """Yield panels of numbered questions, each with a canary, which the answer must fail, or None if it is not checked.

        Only questions about answers have canaries; they are asked by themselves. The choice depends only on the content of
        a question. The wrong expected answer is the most recent different one, so that the same questions in the same order
        yield the same canaries.
        """
        recent: list[Question] = []  # the last question, and the last one before it with a different expected answer
        for panel in panels:
            _, question = panel[0]
            rival = next((other for other in recent if _differ(other, question)), None)
            chosen = rival is not None and question.kind == "answer" and _share(question) < self._ratio
            canary = (
                replace(question, expected=rival.expected, also_accepted=rival.also_accepted)
                if chosen and rival
                else None
            )
            yield panel, canary
            if question.kind == "answer":
                recent = [question, *([rival] if rival else [])]

    def count(self, question: Question, score: float) -> None:
        """Count the score of a canary, and warn if it passes."""
        passed = passes(score, question.threshold)
        with self._lock:
            total, fooled, examples = self._counts.total + 1, self._counts.fooled, self._counts.examples
            if passed:
                fooled, examples = fooled + 1, (*examples, question)[:_EXAMPLES]
            self._counts = Canaries(total=total, fooled=fooled, examples=examples)
        # Warn at 1, 2, 4, 8 and so on, so that a judge that ignores answers is reported once per doubling. The texts
        # are not logged, because logs have other readers than the store.
        if passed and fooled.bit_count() == 1:
            _LOG.warning("the judge let a canary pass: %d of %d wrong answers passed so far", fooled, total)


def _differ(first: Question, second: Question) -> bool:
    """Return whether no accepted answer of one question contains one of the other."""
    left, right = ([normalise(text[:_COMPARED]) for text in question.accepted_answers] for question in (first, second))
    return all(bool(a and b) and a not in b and b not in a for a in left for b in right)


def _share(question: Question) -> float:
    """Return a pseudorandom number in [0, 1) that depends only on the content of a question."""
    content = repr((question.query, question.expected, question.answer)).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest()) / 2**64


_TOKENS_A_PRICE: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliberation:
    """Combines calls, votes and canaries into one verdict, according to the settings."""

    inquiry: Inquiry
    watch: CanaryWatch
    settings: JudgeSettings

    async def answers(
        self, questions: Sequence[Question], rival: Question | None, permit: Callable[[Question], bool]
    ) -> list[Verdict | JudgeFailure]:
        """Return the verdict on each question of a panel, or the failure.

        Questions without a readable reply in the panel are asked by themselves; so are all if the model does not support it.

        Args:
            questions: one question, or questions with the same `panel_key`.
            rival: the canary that the answer to a single question must not pass, or None.
            permit: returns whether one more call after the first is allowed for a question.
        """
        first = questions[0]
        panel = Panel(tuple(questions))
        if len(questions) == 1:
            return [await self.answer(first, rival, partial(permit, first))]
        spent = Spent()
        replies: Mapping[str, Reply] = {}
        if self.inquiry.can_ask(panel):
            result = await self.inquiry.panel_reply(panel, spent, partial(permit, first))
            if isinstance(result, CallProblem) and result.failure in {"outage", "refused"}:
                return self._panel_failures(result, spent.split(len(questions)))
            replies = {} if isinstance(result, CallProblem) else result

        async def answered(question: Question, reply: Reply | None, share: Spent) -> Verdict | JudgeFailure:
            if reply is not None:
                return self._verdict(reply, share)
            if not (question is first and not spent.tries) and not permit(question):
                message = f"{self.inquiry.model_name} gave no verdict among those of other metrics, and the budget allows no other try"
                return self.failure(message, share, reason="budget_exhausted")
            return await self.answer(question, None, partial(permit, question), share)

        shares = spent.split(len(questions))
        waiting = map(answered, questions, map(replies.get, panel.names), shares)
        return list(await asyncio.gather(*waiting))

    def _panel_failures(self, problem: CallProblem, shares: Sequence[Spent]) -> list[Verdict | JudgeFailure]:
        """Return a failure for each question of a panel; it counts once towards a pause of the judge."""
        return [
            self.failure(problem.message, share, kind=problem.failure if index == 0 else "question")
            for index, share in enumerate(shares)
        ]

    async def answer(
        self, question: Question, rival: Question | None, permit: Callable[[], bool], spent: Spent | None = None
    ) -> Verdict | JudgeFailure:
        """Return the verdict on a question, or the failure.

        Args:
            question: the question.
            rival: the canary that the answer must not pass, or None.
            permit: returns whether one more call after the first is allowed.
            spent: what the question has cost so far.
        """
        spent = spent or Spent()
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
        return self._verdict(reply, spent)

    def _verdict(self, reply: Reply, spent: Spent) -> Verdict:
        """Return the verdict of a reply with its expense."""
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
        """Return whether a reply requires a vote; replies to a rubric do not, because a rubric has no threshold."""
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
        votes, replies, last_problem = self.settings.votes, [first], ""
        for _ in range(votes - 1):
            if not permit():
                message = f"{self.inquiry.model_name} scored {first.score:g}, too close to the threshold for one vote; "
                return self.failure(f"{message}no budget for more", spent, reason="budget_exhausted")
            reply = await self.inquiry.reply(question, spent, permit)
            if isinstance(reply, CallProblem):
                last_problem = f": {reply.message}"
            else:
                replies.append(reply)
            majority = settled(replies, votes, question.threshold)
            if majority is not None:
                return majority
        return self.failure(f"no majority among {len(replies)} of {votes} votes{last_problem}", spent)

    def _cost_usd(self, spent: Spent) -> float | None:
        """Return the cost, or None if a price is not set or a reply did not state its tokens."""
        input_price, output_price = self.settings.input_price_usd, self.settings.output_price_usd
        if input_price is None or output_price is None or not spent.priced:
            return None
        return (spent.input_tokens * input_price + spent.output_tokens * output_price) / _TOKENS_A_PRICE


#: Incremented when the same reply would yield another verdict, or the same question another message.
_PROTOCOL: Final = 1
#: Number of concurrent calls per queued question: a few are queued so that a free slot does not wait for this thread.
_CALLS_PER_QUEUED: Final = 8
#: Estimated size of a message and its reply without prompt and material, and characters per token.
_FRAME_CHARACTERS: Final = len(SYSTEM) + 800
_CHARACTERS_A_TOKEN: Final = 4
#: Estimated size of a verdict with its reasoning.
_REPLY_CHARACTERS: Final = 240


class LangChainJudge:
    """Judges by a chat model (entry point `langchain`).

    `model` is the name of the model; `canaries` counts the canary questions and those that passed.
    """

    name: str = "langchain"
    kinds: frozenset[QuestionKind] = frozenset({"answer", "parameter", "utilization", "rubric"})

    def __init__(
        self,
        model: BaseChatModel,
        settings: JudgeSettings | None = None,
        *,
        rng: random.Random | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create a judge from a model.

        Args:
            model: any chat model of LangChain. Its own retries multiply with ours: create it with `max_retries=0`.
            settings: limits, timeouts and prompts; None uses the defaults.
            rng: source of jitter.
            sleep: waits a number of seconds between tries.
            clock: monotonic clock in seconds.

        Raises:
            ConfigError: the prompt file of the settings is invalid.
        """
        self._settings = settings or JudgeSettings()
        self._prompts = prompt_texts(self._settings.prompt)
        self.model = name_of(model)
        self.version = self._version_of(model)
        model, close = own_connections(model)
        self._closed = weakref.finalize(self, _close, close)
        self._closed.atexit = False  # at exit, the loop that would close the connections has already ended
        self.permit: Callable[[Question], bool] = lambda _: True
        self._watch = CanaryWatch(self._settings.canary_ratio)
        inquiry = Inquiry(
            model=model,
            model_name=self.model,
            settings=self._settings,
            prompts=self._prompts,
            rng=rng or random.Random(),  # noqa: S311 — jitter is not a secret
            sleep=sleep,
            clock=clock,
        )
        self._deliberation = Deliberation(inquiry=inquiry, watch=self._watch, settings=self._settings)
        self._open: set[Future[list[Answer]]] = set()
        self._open_lock = threading.Lock()

    @classmethod
    def from_settings(cls, settings: JudgeSettings, argument: str | None = None) -> Self:
        """Return the judge for the model that `--judge langchain:provider:model` names.

        Raises:
            UsageError: no model is named, a package is missing, or the provider does not take the options.
        """
        return cls(make_model(argument, settings.model_options), settings)

    @property
    def canaries(self) -> Canaries:
        """The number of canaries, and how many of them passed."""
        return self._watch.counts

    @property
    def reads_threshold(self) -> bool:
        """Whether a verdict depends on the threshold: only because of the votes near it."""
        return self._settings.votes > 1

    def judge(self, questions: Sequence[Question]) -> list[Answer]:
        """Return one verdict or failure per question, in order."""
        answers = dict(self.stream(enumerate(questions)))
        return [answers[number] for number in range(len(questions))]

    def stream(self, questions: Iterable[tuple[int, Question]]) -> Generator[tuple[int, Answer], None, None]:
        """Yield (number, verdict or failure) in order of completion; take the next question whenever a call may start.

        Closing the generator, or an interrupt, cancels the running calls.
        """
        yield from self.stream_panels([entry] for entry in questions)

    def panel_key(self, question: Question) -> Hashable | None:
        """Return a key that is equal for questions about the same material; None for one that is asked by itself."""
        return panel_key(question) if self._settings.panel else None

    def stream_panels(
        self, panels: Iterable[Sequence[tuple[int, Question]]]
    ) -> Generator[tuple[int, Answer], None, None]:
        """Yield (number, verdict or failure) of each question of each panel, like `stream`."""
        source = self._watch.rivals(panels)
        done: queue.SimpleQueue[tuple[list[int], Future[list[Answer]]]] = queue.SimpleQueue()
        running: set[Future[list[Answer]]] = set()
        limit = self._settings.concurrency + self._settings.concurrency // _CALLS_PER_QUEUED

        def fill() -> None:
            while len(running) < limit and (entry := next(source, None)) is not None:
                panel, rival = entry
                future = self._submit([question for _, question in panel], rival)
                running.add(future)
                future.add_done_callback(partial(_enqueue, done, [number for number, _ in panel]))

        try:
            fill()
            while running:
                numbers, future = done.get()
                running.discard(future)
                fill()
                yield from zip(numbers, self._results(future, len(numbers)), strict=True)
        finally:
            for future in running:
                future.cancel()

    def estimated_tokens(self, question: Question) -> int:
        """Return the estimated number of tokens, input and output, of one call for a question."""
        material = sum(min(len(text), self._settings.max_answer_characters) for _, text in question.texts)
        instructions = len(instructions_of(question, self._prompts))
        return (_FRAME_CHARACTERS + instructions + material) // _CHARACTERS_A_TOKEN

    def added_tokens(self, question: Question) -> int:
        """Return the estimated number of tokens, input and output, that a question adds to a panel."""
        asides = question.rubric.asides if question.rubric is not None else ()
        material = sum(len(text) for name, text in question.material if name in asides)
        return (len(instructions_of(question, self._prompts)) + material + _REPLY_CHARACTERS) // _CHARACTERS_A_TOKEN

    def expected_tokens(self, panel: Sequence[Question]) -> tuple[int, int]:
        """Return the estimated number of input and output tokens of the call for a panel or a single question."""
        request = panel[0] if len(panel) == 1 else Panel(tuple(panel))
        sent = self._deliberation.inquiry.characters_of(request)
        return sent // _CHARACTERS_A_TOKEN, len(panel) * _REPLY_CHARACTERS // _CHARACTERS_A_TOKEN

    def version_for(self, rubric: Rubric) -> str:
        """Return the version for the questions of a rubric: it depends on the text around the rubric and a user's instructions.

        The rubric's own instructions are part of each question's key. With panels, the version differs from that without.
        """
        own = own_prompt(rubric, self._prompts)
        panel = [[MAX_QUESTIONS, PANEL]] if self._settings.panel else []
        content = json.dumps([_PROTOCOL, RUBRIC_FRAME, None if own is None else own.digest, *panel])
        return f"{self.version}-{hashlib.blake2b(content.encode(), digest_size=4).hexdigest()}"

    def close(self) -> None:
        """Cancel running calls and close connections; a closed judge answers no further questions."""
        self._closed()
        with self._open_lock:
            futures = list(self._open)
        for future in futures:
            future.cancel()

    def _submit(self, panel: Sequence[Question], rival: Question | None) -> Future[list[Answer]]:
        if not self._closed.alive:
            cancelled: Future[list[Answer]] = Future()
            cancelled.cancel()
            return cancelled
        future = shared().submit(self._deliberation.answers(panel, rival, self.permit))
        with self._open_lock:
            self._open.add(future)
        future.add_done_callback(self._forget)
        return future

    def _forget(self, future: Future[list[Answer]]) -> None:
        with self._open_lock:
            self._open.discard(future)

    def _results(self, future: Future[list[Answer]], count: int) -> Sequence[Answer]:
        try:
            return future.result()
        except CancelledError:
            message = "the judge is closed"
        except Exception as error:  # noqa: BLE001 — from `permit`, or a model that breaks its contract
            message = f"{self.model}: {type(error).__name__}: {error}"
        return [JudgeFailure(reason="judge_error", message=message, model=self.model)] * count

    def _version_of(self, model: BaseChatModel) -> str:
        """Return a hash of everything that a verdict depends on, except the question."""
        settings = self._settings.model_dump(include={"method", "votes", "max_answer_characters"})
        settings["vote_band"] = self._settings.vote_band if self._settings.votes > 1 else None
        prompts = {kind: prompt.digest for kind, prompt in self._prompts.items() if kind != "rubric"}
        content = json.dumps([_PROTOCOL, FRAME, identity_of(model), settings, prompts], sort_keys=True)
        return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()


def _close(close: Callable[[], Awaitable[None]] | None) -> None:
    if close is not None:
        with suppress(RuntimeError):  # the loop is closed, and its connections with it
            shared().submit(_awaited(close))


async def _awaited(close: Callable[[], Awaitable[None]]) -> None:
    await close()


def _enqueue(
    done: queue.SimpleQueue[tuple[list[int], Future[list[Answer]]]], numbers: list[int], future: Future[list[Answer]]
) -> None:
    done.put((numbers, future))
