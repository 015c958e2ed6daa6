"""Several evaluations that ask, as one: what all of them ask goes to the judge together."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from otel_agentic.evaluators.base import Asking, MetricScore
    from otel_agentic.judges.base import JudgeFailure, Question, Verdict

    Answers = Sequence[Verdict | JudgeFailure]


def together(askings: Sequence[Asking]) -> Generator[list[Question], Answers, list[Sequence[MetricScore]]]:
    """Yield the questions of all evaluations, round by round, and return the scores of each, in their order."""
    found: dict[int, Sequence[MetricScore]] = {}
    answers: dict[int, Answers | None] = dict.fromkeys(range(len(askings)))
    while answers:
        asked: dict[int, Sequence[Question]] = {}
        for place, given in answers.items():
            try:
                asked[place] = list(next(askings[place]) if given is None else askings[place].send(given))
            except StopIteration as ended:
                found[place] = ended.value
        if not asked:
            break
        got = iter((yield [question for questions in asked.values() for question in questions]))
        answers = {place: [next(got) for _ in questions] for place, questions in asked.items()}
    return [found[place] for place in range(len(askings))]
