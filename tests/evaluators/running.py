"""Evaluators run over several subjects, one result for each evaluator and subject."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from otel_agentic.evaluators.run import evaluating
from otel_agentic.judges.dialogue import run_dialogues

if TYPE_CHECKING:
    from otel_agentic.evaluators.base import AskingEvaluator, Evaluator, MetricScore, Subject
    from otel_agentic.judges.dialogue import Ask


class RanOn(NamedTuple):
    """The result of an evaluator for the subject with an index."""

    subject_index: int
    evaluator: Evaluator | AskingEvaluator
    scores: tuple[MetricScore, ...]
    faults: tuple[str, ...]


def evaluate(
    evaluators: Sequence[Evaluator | AskingEvaluator], subjects: Sequence[Subject], ask: Ask = lambda _: ()
) -> Iterator[RanOn]:
    """Yield the results of each subject as soon as its questions are answered."""
    for index, results in run_dialogues((evaluating(evaluators, subject) for subject in subjects), ask):
        for ran in results:
            yield RanOn(index, *ran)
