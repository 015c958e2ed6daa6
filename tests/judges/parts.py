"""Judges, a cache and a budget made of plain Python, which count their questions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from otel_agentic.judges import JudgeFailure, Question, Verdict
from otel_agentic.judges.base import metric_of

if TYPE_CHECKING:
    from otel_agentic.config import JudgeSettings

Answer = Verdict | JudgeFailure


def question(answer: str = "four", *, query: str = "2+2?", expected: str = "4", threshold: float = 0.7) -> Question:
    return Question(query=query, expected=expected, answer=answer, threshold=threshold)


def questions(count: int) -> list[Question]:
    return [question(f"answer {number}") for number in range(count)]


def right(request: Question) -> Answer:
    return Verdict(score=1.0, reasoning=f"judged {request.answer}", input_tokens=100, output_tokens=10, cost_usd=0.001)


def failing(request: Question) -> Answer:
    return JudgeFailure(reason="judge_error", message=f"no idea about {request.answer}", tries=2, input_tokens=50)


@dataclass
class PlainJudge:
    """Answers a list at once; counts the questions."""

    say: Callable[[Question], Answer] = right
    name: str = "plain"
    version: str = "1"
    requests: Counter[str] = field(default_factory=Counter)
    lists: list[int] = field(default_factory=list)

    @classmethod
    def from_settings(cls, settings: JudgeSettings, argument: str | None = None) -> Self:  # noqa: ARG003 — the plug-in point
        return cls()

    def judge(self, questions: Sequence[Question]) -> list[Answer]:
        self.lists.append(len(questions))
        self.requests.update(item.answer for item in questions)
        return [self.say(item) for item in questions]


@dataclass
class Streaming(PlainJudge):
    """Answers in the opposite order, with `slots` questions at once."""

    slots: int = 4
    most_at_once: int = 0

    def stream(self, questions: Iterable[tuple[int, Question]]) -> Iterator[tuple[int, Answer]]:
        source = iter(questions)
        under_way: list[tuple[int, Question]] = []
        while True:
            while len(under_way) < self.slots and (pulled := next(source, None)) is not None:
                self.requests[pulled[1].answer] += 1
                under_way.append(pulled)
            if not under_way:
                return
            self.most_at_once = max(self.most_at_once, len(under_way))
            number, request = under_way.pop()
            yield number, self.say(request)


@dataclass
class MemoryCache:
    """Keeps verdicts; `flushed` is what a killed process would find again."""

    stored: dict[str, Verdict] = field(default_factory=dict)
    failures: list[JudgeFailure] = field(default_factory=list)
    metrics: dict[str, str] = field(default_factory=dict)
    flushes: int = 0

    def get(self, keys: Sequence[str]) -> dict[str, Verdict]:
        return {key: self.stored[key] for key in keys if key in self.stored}

    def put(self, key: str, verdict: Answer, question: Question) -> None:
        self.metrics[key] = metric_of(question)
        if isinstance(verdict, Verdict):
            self.stored[key] = verdict
        else:
            self.failures.append(verdict)

    def flush(self) -> None:
        self.flushes += 1


@dataclass
class CallBudget:
    """A budget of calls and tokens, which records its expenses."""

    max_calls: int = 10**9
    max_tokens: int = 10**9
    calls: int = 0
    tokens: int = 0

    def allows(self, *, calls: int, tokens: int) -> bool:
        return self.calls + calls <= self.max_calls and self.tokens + tokens <= self.max_tokens

    def spend(self, verdict: Answer) -> None:
        self.calls += verdict.tries
        self.tokens += verdict.input_tokens + verdict.output_tokens
