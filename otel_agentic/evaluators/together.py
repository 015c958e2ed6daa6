"""Several evaluations that ask, as one: what all of them ask goes to the judge together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from otel_agentic.judges.base import Question

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from otel_agentic.evaluators.base import Asking, MetricScore
    from otel_agentic.judges.base import JudgeFailure, Verdict

    Answers = Sequence[Verdict | JudgeFailure]


def together(askings: Sequence[Asking]) -> Generator[list[Question], Answers, list[Sequence[MetricScore]]]:
    """Yield the questions of all evaluations, round by round, and return the scores of each, in their order."""
    found: dict[int, Sequence[MetricScore]] = {}
    answers: dict[int, Answers | None] = dict.fromkeys(range(len(askings)))
    while answers:
        asked: dict[int, Sequence[Question]] = {}
        for place, given in answers.items():
            try:
                asked[place] = _questions(askings[place], given)
            except StopIteration as ended:
                found[place] = ended.value
        if not asked:
            break
        got = iter((yield [question for questions in asked.values() for question in questions]))
        answers = {place: [next(got) for _ in questions] for place, questions in asked.items()}
    return [found[place] for place in range(len(askings))]


def _questions(asking: Asking, given: Answers | None) -> Sequence[Question]:
    """Return what an evaluation asks next; one that asks wrongly is told so where it asks, and the others go on."""
    asked: object = next(asking) if given is None else asking.send(given)
    if isinstance(asked, Iterable):
        questions = list(asked)
        if all(isinstance(one, Question) for one in questions):
            return questions
    return asking.throw(TypeError(f"it yields a {type(asked).__name__}; allowed: lists of Question"))
