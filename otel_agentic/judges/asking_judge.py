"""Calls of a judge with a cache, a budget and circuit breakers.

No question is paid for twice, spending stays within the budget, and verdicts survive a killed run. Judges are plug-ins:
their results are checked, and an exception becomes a failure for each of its questions.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Final, Self

from otel_agentic.errors import StoreError, UsageError
from otel_agentic.judges.base import (
    Budget,
    BudgetAwareJudge,
    Judge,
    JudgeCache,
    JudgeFailure,
    PanelJudge,
    Question,
    ReplyForm,
    Rubric,
    Verdict,
    is_calibrated,
    kinds_of,
    metric_of,
    question_key,
    version_for,
)
from otel_agentic.judges.call_problems import problem_of
from otel_agentic.judges.panels import grouped

if TYPE_CHECKING:
    from otel_agentic.config import JudgeSettings
    from otel_agentic.judges.base import Breaker, Patience

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
    """The limits of the settings; `values` maps the name of a setting to its limit, None if not set."""

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
        exceeded = (
            f"judge.{name} {limit:,}"
            for name, limit in self.values.items()
            if limit is not None and totals[name] > limit
        )
        return next(exceeded, None)


def estimate(question: Question) -> int:
    """Return the estimated number of tokens of a question for a judge without its own estimate.

    >>> from otel_agentic.judges.base import Question
    >>> estimate(Question(query="2+2?", expected="4", answer="four", threshold=0.7))
    602
    """
    instructions = 0 if question.rubric is None else len(question.rubric.instructions)
    texts = sum(len(text) for _, text in question.texts)
    return _PROMPT_TOKENS + (instructions + texts) // _CHARACTERS_A_TOKEN


@dataclass(slots=True)
class _Reserved:
    """The calls and tokens that a running question may still cost."""

    calls: int = 0
    tokens: int = 0


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
        self._reserved: dict[Question, _Reserved] = {}

    def take(self, question: Question) -> bool:
        """Reserve one more call for a question, if the budget allows it; return whether it does."""
        return self._take(question, 1, self._estimate(question))

    def join(self, question: Question, tokens: int) -> bool:
        """Reserve the tokens that a question adds to the call of a panel, if the budget allows them; return whether it does."""
        return self._take(question, 0, tokens)

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

    def _take(self, question: Question, calls: int, tokens: int) -> bool:
        with self._lock:
            if self._budget is not None:
                all_calls = calls + sum(reserved.calls for reserved in self._reserved.values())
                all_tokens = tokens + sum(reserved.tokens for reserved in self._reserved.values())
                if not self._budget.allows(calls=all_calls, tokens=all_tokens):
                    return False
            reserved = self._reserved.setdefault(question, _Reserved())
            reserved.calls += calls
            reserved.tokens += tokens
            return True


def ask(judge: Judge, questions: Sequence[Question]) -> list[Verdict | JudgeFailure]:
    """Return one verdict or failure per question, in order, even if the judge raises."""
    if not questions:
        return []
    try:
        answers = list(judge.judge(questions))
    except Exception as error:  # noqa: BLE001 — a third-party judge may raise anything; the error goes to every question
        return [raised(judge, error)] * len(questions)
    if len(answers) != len(questions):
        message = f"judge {judge.name} gave {len(answers)} verdicts for {len(questions)} questions"
        return [JudgeFailure(reason="judge_error", message=message, kind="prompt", tries=1)] * len(questions)
    return [checked(judge, answer, question) for answer, question in zip(answers, questions, strict=True)]


def checked(judge: Judge, answer: object, question: Question) -> Verdict | JudgeFailure:
    """Return the answer of a judge, or a failure if it has the wrong type or form for the question.

    >>> from otel_agentic.judges.exact import ExactJudge
    >>> question = Question(query="2+2?", expected="4", answer="four", threshold=0.7)
    >>> checked(ExactJudge(), Verdict(score=float("nan"), reasoning=""), question).message
    'judge exact gave score nan; allowed: 0 to 1'
    """
    if isinstance(answer, JudgeFailure):
        return answer
    if not isinstance(answer, Verdict):
        message = f"judge {judge.name} gave {type(answer).__name__}; allowed: Verdict, JudgeFailure"
        return JudgeFailure(reason="judge_error", message=message, kind="prompt", tries=1)
    flaw = flaw_of(answer, question.form)
    if flaw is None:
        return answer
    return JudgeFailure(
        reason="judge_error",
        message=f"judge {judge.name} gave {flaw}",
        kind="prompt",
        model=answer.model,
        tries=answer.tries,
        latency_s=answer.latency_s,
        input_tokens=answer.input_tokens,
        output_tokens=answer.output_tokens,
        cost_usd=answer.cost_usd,
    )


def flaw_of(verdict: Verdict, form: ReplyForm | None) -> str | None:
    """Return how a verdict violates the requested form, with the allowed values, or None if it does not.

    >>> from otel_agentic.judges.base import ReplyForm
    >>> flaw_of(Verdict(score=1.0, reasoning=""), ReplyForm(kind="label", labels=("good", "bad")))
    'label None; allowed: good, bad'
    """
    if form is not None and form.kind == "label":
        return None if verdict.label in form.labels else f"label {verdict.label!r}; allowed: {', '.join(form.labels)}"
    if form is not None and form.kind == "texts":
        texts: object = verdict.texts
        is_valid = isinstance(texts, tuple) and len(texts) <= form.most and all(isinstance(text, str) for text in texts)
        return None if is_valid else f"invalid texts; allowed: a tuple of at most {form.most} texts"
    score: object = verdict.score
    low, high = (0.0, 1.0) if form is None else (form.low, form.high)
    is_valid = isinstance(score, int | float) and not isinstance(score, bool) and low <= score <= high
    return None if is_valid else f"score {score!r}; allowed: {low:g} to {high:g}"


def raised(judge: Judge, error: Exception) -> JudgeFailure:
    """Return the failure for an exception that a judge raised."""
    message = f"judge {judge.name} raised {type(error).__name__}: {error}"
    return JudgeFailure(reason="judge_error", message=message, kind=problem_of(error).failure, tries=1)


#: Questions per call of a judge that does not stream: the maximum that a killed run must ask again.
_CHUNK: Final = 32


@dataclass(slots=True, kw_only=True)
class _Pass:
    """One pass over the waiting questions, by number.

    `active` are being asked, `refused` exceed the budget, `held` wait because the circuit of their prompt is open. `began`: at
    least one was asked; `ended`: no further one is asked in this pass. `panels` maps each question to its panel.
    """

    waiting: deque[tuple[int, Question]]
    panels: Mapping[int, int]
    active: dict[int, Question] = field(default_factory=dict)
    refused: list[int] = field(default_factory=list)
    held: list[tuple[int, Question]] = field(default_factory=list)
    began: bool = False
    ended: bool = False

    @property
    def next_panel(self) -> int | None:
        """The panel of the question that waits first, None if no further one is asked in this pass."""
        return self.panels[self.waiting[0][0]] if self.waiting and not self.ended else None


class AskingJudge:
    """A judge that returns cached verdicts, asks each other question once, and stores each verdict as soon as it arrives.

    It is a judge itself, with the same name, version and kinds. One thread uses it at a time.
    """

    def __init__(
        self,
        judge: Judge,
        *,
        cache: JudgeCache | None = None,
        budget: Budget | None = None,
        breaker: Breaker | None = None,
        patience: Patience | None = None,
    ) -> None:
        """Wrap a judge.

        Args:
            judge: answers the questions for which the cache has no verdict.
            cache: earlier verdicts; None asks every question.
            budget: limit on expenses; None for no limit. Questions beyond it are answered with `budget_exhausted`.
            breaker: pauses a judge, or a prompt, that fails; None never pauses. Questions that are not asked are answered with
                `NotAsked`.
            patience: limits the wait for an unresponsive judge before its questions fail; None does not wait.
        """
        self.name: str = judge.name
        self.version: str = judge.version
        self.kinds = kinds_of(judge)
        self.calibrated = is_calibrated(judge)
        self._judge = judge
        self._cache = cache
        self._breaker = breaker
        self._patience = patience
        self._allowance = Allowance(budget, judge.estimated_tokens if isinstance(judge, BudgetAwareJudge) else estimate)
        if isinstance(judge, BudgetAwareJudge):
            judge.permit = self._allowance.take

    @classmethod
    def from_settings(cls, settings: JudgeSettings, argument: str | None = None) -> Self:  # noqa: ARG003 — the plug-in point
        """Raise an error, because this judge wraps another one and is not a plug-in.

        Raises:
            UsageError: always.
        """
        raise UsageError("AskingJudge is created from another judge: AskingJudge(judge)")

    def judge(self, questions: Sequence[Question]) -> list[Verdict | JudgeFailure]:
        """Return one verdict or failure per question, in order."""
        answers = dict(self.verdicts(questions))
        return [answers[number] for number in range(len(questions))]

    def verdicts(self, questions: Sequence[Question]) -> Generator[tuple[int, Verdict | JudgeFailure], None, None]:
        """Yield (index, verdict or failure) in order of completion, cached ones first.

        Of equal questions only one is asked; the others receive its verdict as `cached`, or its failure without a cost.
        """
        indices: dict[str, list[int]] = {}
        for index, question in enumerate(questions):
            indices.setdefault(self.key(question), []).append(index)
        distinct = {key: questions[positions[0]] for key, positions in indices.items()}
        cached = self._cached_verdicts(distinct)
        for key, verdict in cached.items():
            for index in indices[key]:
                yield index, replace(verdict, cached=True)
        missing = {key: question for key, question in distinct.items() if key not in cached}
        with closing(self._answers(missing)) as answers:
            for key, answer in answers:
                first, *others = indices[key]
                yield first, answer
                for index in others:
                    yield index, _answer_of_equal(answer)

    def key(self, question: Question) -> str:
        """Return the cache key of a question: it depends on the judge and its version."""
        if not getattr(self._judge, "reads_threshold", True):
            question = replace(question, threshold=0.0)
        return question_key(f"{self.name} {self.version_for(question.rubric)}", question)

    def version_for(self, rubric: Rubric | None) -> str:
        """Return the version of the judge for the questions of a rubric, see `base.version_for`."""
        return version_for(self._judge, rubric)

    def close(self) -> None:
        """Close the wrapped judge, if it can be closed."""
        close = getattr(self._judge, "close", None)
        if close is not None:
            close()

    def _cached_verdicts(self, questions: Mapping[str, Question]) -> Mapping[str, Verdict]:
        """Return the cached verdicts, without those that no longer have the form of their rubric."""
        cached = self._cache.get(list(questions)) if self._cache is not None and questions else {}
        return {
            key: verdict
            for key, verdict in cached.items()
            if questions[key].rubric is None or flaw_of(verdict, questions[key].form) is None
        }

    def _answers(self, missing: Mapping[str, Question]) -> Generator[tuple[str, Verdict | JudgeFailure], None, None]:
        """Yield (key, verdict or failure) for each missing question, and store the paid verdicts."""
        for key, question in missing.items():
            if question.rubric is not None and "rubric" not in self.kinds:
                yield key, self._rubric_failure(question.rubric)
        missing = {
            key: question for key, question in missing.items() if question.rubric is None or "rubric" in self.kinds
        }
        panels = self.panels(missing)
        keys = [key for panel in panels for key in panel]
        panel_of = dict(enumerate(index for index, panel in enumerate(panels) for _ in panel))
        waiting = deque(enumerate(missing[key] for key in keys))
        try:
            while waiting:
                batch = _Pass(waiting=waiting, panels=panel_of)
                with closing(self._answer_batch(batch)) as answers:
                    for number, answer in answers:
                        if self._cache is not None:
                            self._cache.put(keys[number], answer, missing[keys[number]])
                        yield keys[number], answer
                for number in batch.refused:
                    message = f"not asked: {self._allowance.used_up}"
                    yield keys[number], JudgeFailure(reason="budget_exhausted", message=message)
                waiting = deque([*batch.held, *batch.waiting])
                if self._breaker is not None and not batch.began and waiting and not self._wait_for_judge(batch):
                    for number, question in waiting:
                        yield keys[number], self._breaker.not_asked(question)
                    waiting.clear()
        finally:
            if self._cache is not None:
                self._cache.flush()

    def panels(self, questions: Mapping[str, Question]) -> list[list[str]]:
        """Return the keys of questions by panel, in the order of the first question of each; alone if the judge has no panels.

        The order within a panel is that of the names of the rubrics, regardless of the order of the questions.
        """
        keys = list(questions)
        if not isinstance(self._judge, PanelJudge):
            return [[key] for key in keys]
        indices = grouped([self._judge.panel_key(question) for question in questions.values()])
        return [
            sorted((keys[index] for index in panel), key=lambda key: metric_of(questions[key])) for panel in indices
        ]

    def _rubric_failure(self, rubric: Rubric) -> JudgeFailure:
        """Return the failure for a judge without support for rubrics: it would judge the question's empty texts."""
        message = (
            f"judge {self.name} takes no rubric ({rubric.name}): ask a model, as in --judge langchain:openai:gpt-5-mini"
        )
        return JudgeFailure(reason="judge_error", message=message)

    def _wait_for_judge(self, batch: _Pass) -> bool:
        """Wait for an unresponsive judge; return whether another try is worthwhile.

        There is no wait for a prompt without verdicts: the model may never reply correctly to it.
        """
        outage_s = None if self._breaker is None else self._breaker.outage_s
        return (
            bool(batch.waiting)
            and outage_s is not None
            and self._patience is not None
            and self._patience.wait(outage_s)
        )

    def _answer_batch(self, batch: _Pass) -> Generator[tuple[int, Verdict | JudgeFailure], None, None]:
        """Yield the answers to as many waiting questions as budget and breaker allow, and remove these from the queue."""
        waiting, active = batch.waiting, batch.active
        unasked: list[int] = []
        failure = JudgeFailure(reason="judge_error", message=f"judge {self.name} gave no verdict", tries=1)
        try:
            try:
                yield from self._streamed_answers(batch)
            except StoreError:  # raised by the budget, not by the judge
                raise
            except Exception as error:  # noqa: BLE001 — a third-party judge may raise anything; the error goes to its questions
                failure = raised(self._judge, error)
                unasked = [number for number, _ in waiting]
                waiting.clear()
            for number in list(active):
                yield number, self._settle(active.pop(number), failure)
        finally:
            for question in active.values():
                self._allowance.drop(question)
                if self._breaker is not None:
                    self._breaker.release(question)
        for number in unasked:  # these were never asked, so they have no cost
            yield number, replace(failure, tries=0)

    def _streamed_answers(self, batch: _Pass) -> Iterator[tuple[int, Verdict | JudgeFailure]]:
        """Yield the judge's answers to allowed questions."""
        with closing(self._stream(self._allowed_panels(batch))) as stream:
            for number, answer in stream:
                if number in batch.active:
                    yield number, self._settle(batch.active.pop(number), answer)

    def _allowed_panels(self, batch: _Pass) -> Iterator[list[tuple[int, Question]]]:
        """Yield the panels of waiting questions while budget and breaker allow them.

        A question refused while others are running waits for the next pass, because these may cost less than was
        reserved. Once the budget refuses a question, it refuses all that follow: otherwise smaller questions would
        displace earlier ones, and the judged answers would no longer be a random sample.
        """
        while (index := batch.next_panel) is not None:
            panel: list[tuple[int, Question]] = []
            while batch.next_panel == index:
                if self._admit(batch, joins=bool(panel)):
                    panel.append(batch.waiting.popleft())
            if panel:
                yield panel

    def _admit(self, batch: _Pass, *, joins: bool) -> bool:
        """Return whether the first waiting question may be asked now, in a call of its own or (`joins`) in that of a panel."""
        waiting = batch.waiting
        number, question = waiting[0]
        admission = "admitted" if self._breaker is None else self._breaker.admit(question)
        if admission == "judge_open":
            batch.ended = True
        elif admission == "prompt_open":
            batch.held.append(waiting.popleft())
        elif self._takes(question, joins=joins):
            batch.active[number] = question
            batch.began = True
            return True
        else:
            batch.ended = True
            if self._breaker is not None:
                self._breaker.release(question)
            if self._allowance.idle:
                batch.refused += [number for number, _ in (*batch.held, *waiting)]
                batch.held.clear()
                waiting.clear()
        return False

    def _takes(self, question: Question, *, joins: bool) -> bool:
        if joins and isinstance(self._judge, PanelJudge):
            return self._allowance.join(question, self._judge.added_tokens(question))
        return self._allowance.take(question)

    def _settle(self, question: Question, answer: Verdict | JudgeFailure) -> Verdict | JudgeFailure:
        answer = checked(self._judge, answer, question)
        self._allowance.settle(question, answer)
        if self._breaker is not None:
            self._breaker.record(question, answer)
        if self._patience is not None and isinstance(answer, Verdict):
            self._patience.answered()
        return answer

    def _stream(
        self, panels: Iterator[list[tuple[int, Question]]]
    ) -> Generator[tuple[int, Verdict | JudgeFailure], None, None]:
        if isinstance(self._judge, PanelJudge):
            yield from self._judge.stream_panels(panels)
            return
        questions = (entry for panel in panels for entry in panel)
        stream = getattr(self._judge, "stream", None)
        if stream is not None:
            yield from stream(questions)
            return
        while chunk := list(islice(questions, _CHUNK)):
            answers = ask(self._judge, [question for _, question in chunk])
            yield from zip((number for number, _ in chunk), answers, strict=True)


def _answer_of_equal(answer: Verdict | JudgeFailure) -> Verdict | JudgeFailure:
    """Return the answer for a question equal to the one that was asked, without its cost."""
    if isinstance(answer, Verdict):
        return replace(answer, cached=True)
    return replace(answer, tries=0, latency_s=0.0, input_tokens=0, output_tokens=0, cost_usd=None)
