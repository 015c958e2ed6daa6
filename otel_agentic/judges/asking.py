"""A judge asked with care: nothing is paid for twice, nothing beyond the budget, nothing is lost when a run is killed."""

from __future__ import annotations

from collections import deque
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Final, Self

from otel_agentic.errors import StoreError, UsageError
from otel_agentic.judges.allowance import Allowance, estimate
from otel_agentic.judges.base import (
    JudgeFailure,
    Question,
    ThriftyJudge,
    Verdict,
    is_calibrated,
    kinds_of,
    question_key,
    version_for,
)
from otel_agentic.judges.checked import ask, checked, flaw_of, raised
from otel_agentic.judges.forms import form_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from otel_agentic.config import JudgeSettings
    from otel_agentic.judges.base import Budget, Judge, JudgeCache, Rubric
    from otel_agentic.judges.breaker import Breaker, Patience

#: Questions given at once to a judge that does not stream: what a killed run has to ask again, at most.
_CHUNK: Final = 32


@dataclass(slots=True, kw_only=True)
class _Pass:
    """One pass over the waiting questions, by number.

    `asked` are under way, `refused` by the budget, `held` back because the circuit of their prompt is open. `began`: at least
    one was asked.
    """

    waiting: deque[tuple[int, Question]]
    asked: dict[int, Question] = field(default_factory=dict)
    refused: list[int] = field(default_factory=list)
    held: list[tuple[int, Question]] = field(default_factory=list)
    began: bool = False


class AskingJudge:
    """A judge that looks up what it knows, asks each other question once, and keeps each verdict as it comes.

    It is a judge itself, of the same name, version and kinds. One thread uses it at a time.
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
        """Stand before a judge.

        Args:
            judge: is asked what the cache does not know.
            cache: earlier verdicts; None asks everything anew.
            budget: what may be spent; None sets no limit. Questions beyond it come back as `budget_exhausted`.
            breaker: stops asking a judge, or with a prompt, that fails; None asks whatever happens. Questions that are not
                asked come back as `NotAsked`.
            patience: how long to wait for a judge that does not answer before its questions come back; None does not wait.
        """
        self.name: str = judge.name
        self.version: str = judge.version
        self.kinds = kinds_of(judge)
        self.calibrated = is_calibrated(judge)
        self._judge = judge
        self._cache = cache
        self._breaker = breaker
        self._patience = patience
        self._allowance = Allowance(budget, judge.estimated_tokens if isinstance(judge, ThriftyJudge) else estimate)
        if isinstance(judge, ThriftyJudge):
            judge.permit = self._allowance.take

    @classmethod
    def from_settings(cls, settings: JudgeSettings, argument: str | None = None) -> Self:  # noqa: ARG003 — the plug-in point
        """Raise: this judge stands before another one and is no plug-in.

        Raises:
            UsageError: always.
        """
        raise UsageError("AskingJudge is made with the judge it stands before: AskingJudge(judge)")

    def judge(self, questions: Sequence[Question]) -> list[Verdict | JudgeFailure]:
        """Return one verdict or failure a question, in their order."""
        answers = dict(self.verdicts(questions))
        return [answers[number] for number in range(len(questions))]

    def verdicts(self, questions: Sequence[Question]) -> Generator[tuple[int, Verdict | JudgeFailure], None, None]:
        """Yield (place, verdict or failure) in order of completion, the known ones first.

        Of equal questions one is asked; the others get its verdict as `cached`, or its failure without a cost.
        """
        places: dict[str, list[int]] = {}
        for place, question in enumerate(questions):
            places.setdefault(self.key(question), []).append(place)
        asked = {key: questions[found[0]] for key, found in places.items()}
        known = self._known(asked)
        for key, verdict in known.items():
            for place in places[key]:
                yield place, replace(verdict, cached=True)
        missing = {key: question for key, question in asked.items() if key not in known}
        with closing(self._answers(missing)) as answers:
            for key, answer in answers:
                first, *others = places[key]
                yield first, answer
                for place in others:
                    yield place, _copy(answer)

    def key(self, question: Question) -> str:
        """Return the cache key of a question: another judge, or another version of it, has another one."""
        if not getattr(self._judge, "reads_threshold", True):
            question = replace(question, threshold=0.0)
        return question_key(f"{self.name} {self.version_for(question.rubric)}", question)

    def version_for(self, rubric: Rubric | None) -> str:
        """Return the version of the judge as far as it concerns a rubric, see `base.version_for`."""
        return version_for(self._judge, rubric)

    def close(self) -> None:
        """Close the judge that is asked, if it can be closed."""
        close = getattr(self._judge, "close", None)
        if close is not None:
            close()

    def _known(self, asked: Mapping[str, Question]) -> Mapping[str, Verdict]:
        """Return what the cache knows; a kept verdict that is not of its rubric's form any more is asked for again."""
        found = self._cache.get(list(asked)) if self._cache is not None and asked else {}
        return {
            key: verdict
            for key, verdict in found.items()
            if asked[key].rubric is None or flaw_of(verdict, form_of(asked[key])) is None
        }

    def _answers(self, missing: Mapping[str, Question]) -> Generator[tuple[str, Verdict | JudgeFailure], None, None]:
        """Yield (key, verdict or failure) for each missing question, and keep what was paid for."""
        for key, question in missing.items():
            if question.rubric is not None and "rubric" not in self.kinds:
                yield key, self._cannot(question.rubric)
        missing = {key: each for key, each in missing.items() if each.rubric is None or "rubric" in self.kinds}
        keys = list(missing)
        waiting = deque(enumerate(missing.values()))
        try:
            while waiting:
                this = _Pass(waiting=waiting)
                with closing(self._asked(this)) as answers:
                    for number, answer in answers:
                        if self._cache is not None:
                            self._cache.put(keys[number], answer, missing[keys[number]])
                        yield keys[number], answer
                for number in this.refused:
                    told = f"not asked: {self._allowance.used_up}"
                    yield keys[number], JudgeFailure(reason="budget_exhausted", message=told)
                waiting = deque([*this.held, *this.waiting])
                if self._breaker is not None and not this.began and waiting and not self._waited(this):
                    for number, question in waiting:
                        yield keys[number], self._breaker.not_asked(question)
                    waiting.clear()
        finally:
            if self._cache is not None:
                self._cache.flush()

    def _cannot(self, rubric: Rubric) -> JudgeFailure:
        """Return that a judge of answers alone takes no rubric: what it would say of empty texts is no verdict."""
        told = (
            f"judge {self.name} takes no rubric ({rubric.name}): ask a model, as in --judge langchain:openai:gpt-5-mini"
        )
        return JudgeFailure(reason="judge_error", message=told)

    def _waited(self, this: _Pass) -> bool:
        """Wait for a judge that does not answer; return whether it is worth another try.

        A prompt that gets no verdict is not waited for: whether the model ever replies as it should is unknown.
        """
        outage_s = None if self._breaker is None else self._breaker.outage_s
        return (
            bool(this.waiting) and outage_s is not None and self._patience is not None and self._patience.wait(outage_s)
        )

    def _asked(self, this: _Pass) -> Generator[tuple[int, Verdict | JudgeFailure], None, None]:
        """Yield the answers to as many waiting questions as budget and breaker allow, and take these off the list."""
        waiting, asked = this.waiting, this.asked
        unasked: list[int] = []
        failure = JudgeFailure(reason="judge_error", message=f"judge {self.name} gave no verdict", tries=1)
        try:
            try:
                yield from self._streamed(this)
            except StoreError:  # of the budget, not of the judge
                raise
            except Exception as error:  # noqa: BLE001 — a stranger's judge may raise anything; its questions are told so
                failure = raised(self._judge, error)
                unasked = [number for number, _ in waiting]
                waiting.clear()
            for number in list(asked):
                yield number, self._settled(asked.pop(number), failure)
        finally:
            for question in asked.values():
                self._allowance.drop(question)
                if self._breaker is not None:
                    self._breaker.dropped(question)
        for number in unasked:  # nothing was paid for them
            yield number, replace(failure, tries=0)

    def _streamed(self, this: _Pass) -> Iterator[tuple[int, Verdict | JudgeFailure]]:
        """Yield what the judge says of allowed questions."""
        with closing(self._stream(self._allowed(this))) as stream:
            for number, answer in stream:
                if number in this.asked:
                    yield number, self._settled(this.asked.pop(number), answer)

    def _allowed(self, this: _Pass) -> Iterator[tuple[int, Question]]:
        """Yield waiting questions while budget and breaker allow them.

        A question refused while others are under way waits for the next pass: these may cost less than was held back. Once the
        budget refuses one, it refuses all that follow: a smaller one would take the place of what comes first in order, and
        what was judged would no longer be a random sample.
        """
        waiting = this.waiting
        while waiting:
            number, question = waiting[0]
            admission = "admitted" if self._breaker is None else self._breaker.admit(question)
            if admission == "judge_open":
                return
            if admission == "prompt_open":
                this.held.append(waiting.popleft())
            elif self._allowance.take(question):
                this.asked[number] = question
                this.began = True
                waiting.popleft()
                yield number, question
            else:
                if self._breaker is not None:
                    self._breaker.dropped(question)
                if self._allowance.idle:
                    this.refused += [number for number, _ in (*this.held, *waiting)]
                    this.held.clear()
                    waiting.clear()
                return

    def _settled(self, question: Question, answer: Verdict | JudgeFailure) -> Verdict | JudgeFailure:
        answer = checked(self._judge, answer, question)
        self._allowance.settle(question, answer)
        if self._breaker is not None:
            self._breaker.heard(question, answer)
        if self._patience is not None and isinstance(answer, Verdict):
            self._patience.answered()
        return answer

    def _stream(
        self, questions: Iterator[tuple[int, Question]]
    ) -> Generator[tuple[int, Verdict | JudgeFailure], None, None]:
        stream = getattr(self._judge, "stream", None)
        if stream is not None:
            yield from stream(questions)
            return
        while chunk := list(islice(questions, _CHUNK)):
            answers = ask(self._judge, [question for _, question in chunk])
            yield from zip((number for number, _ in chunk), answers, strict=True)


def _copy(answer: Verdict | JudgeFailure) -> Verdict | JudgeFailure:
    if isinstance(answer, Verdict):
        return replace(answer, cached=True)
    return replace(answer, tries=0, latency_s=0.0, input_tokens=0, output_tokens=0, cost_usd=None)
