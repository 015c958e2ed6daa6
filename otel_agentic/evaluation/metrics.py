"""Runs evaluators over scored conversations and stores their scores."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from otel_agentic.errors import UsageError
from otel_agentic.evaluation.counts import MetricTally
from otel_agentic.evaluation.sampling import position_of
from otel_agentic.evaluators.base import Subject
from otel_agentic.evaluators.registry import asks, evaluation_id_of
from otel_agentic.evaluators.run import evaluate
from otel_agentic.judges.base import kinds_of
from otel_agentic.scoring.outcome import align_turns
from otel_agentic.store.scores import Measured, evaluated_before, save_evaluations, save_metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from otel_agentic.config import EvaluatorSettings, ScoringSettings
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.evaluators.base import AskingEvaluator, Evaluator
    from otel_agentic.evaluators.registry import Chosen
    from otel_agentic.evaluators.run import Ask, Ran
    from otel_agentic.judges import Judge
    from otel_agentic.scoring.model import ConversationScore
    from otel_agentic.store import Store
    from otel_agentic.store.connection import Connection
    from otel_agentic.store.scores import Evaluation
    from otel_agentic.store.selection import Scored
    from otel_agentic.truth.match import Match

    AnyEvaluator = Evaluator | AskingEvaluator

#: Scores written in one transaction, and how long they wait for further scores, seconds.
_ROWS: Final = 20_000
_PATIENCE_S: Final = 1.0
#: Maximum number of metric names in one message.
_NAMED: Final = 5


def require_judge(chosen: Chosen, judge: Judge) -> Chosen:
    """Return the evaluators that can run with a judge: without an LLM judge, a family loses the metrics that need one.

    Raises:
        UsageError: a metric that needs an LLM judge was named, or no metric is left.
    """
    if not chosen.judged or "rubric" in kinds_of(judge):
        return chosen
    names = [name for name in chosen.asked_for if name not in chosen.broad]
    rest = chosen.without_judge()
    if not names and (rest.evaluators or rest.groups):
        return rest
    raise UsageError(
        f"an LLM judge is needed for {_some(names or rest.unasked)}, and judge {judge.name!r} calls no model; pass "
        "--judge langchain:openai:gpt-5-mini, or choose other metrics"
    )


def unasked_note(names: Sequence[str]) -> str:
    """Return a message that names the metrics skipped because they need an LLM judge.

    >>> unasked_note(["agentic.agentest.coherence"])
    'skipped (needs an LLM judge): agentest.coherence; pass --judge langchain:openai:gpt-5-mini'
    """
    skipped = ", ".join(name.removeprefix("agentic.") for name in names)
    return f"skipped (needs an LLM judge): {skipped}; pass --judge langchain:openai:gpt-5-mini"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def subject_of(
    conversation: Conversation, match: Match, score: ConversationScore, settings: ScoringSettings
) -> Subject:
    """Return the input of evaluators: a case is used only if it is reviewed, and its turns are aligned as in scoring."""
    case = match.case if match.case is not None and match.case.reviewed else None
    aligned: Mapping[int, int] = {}
    if case is not None and score.turns:
        aligned = {turn.turn_index: turn.case_turn_index for turn in score.turns if turn.case_turn_index is not None}
    elif case is not None:
        indices = align_turns([turn.query for turn in case.turns], [turn.query for turn in conversation.turns])
        aligned = {conversation.turns[index].index: case_index for index, case_index in indices.items()}
    return Subject(conversation=conversation, case=case, score=score, aligned=aligned, settings=settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveEvaluators:
    """The chosen evaluators with their evaluation ids.

    Attributes:
        chosen: the evaluators.
        ids: the evaluation id by name of the evaluator.
        evaluation: the name of the evaluation, the same as that of the conversation scores.
    """

    chosen: Chosen
    ids: Mapping[str, str]
    evaluation: str

    @classmethod
    def of(cls, chosen: Chosen, core: Evaluation, judge: Judge, settings: EvaluatorSettings) -> ActiveEvaluators:
        """Return the evaluators with their evaluation ids, derived from the evaluation of the conversation scores."""
        ids = {
            evaluator.name: evaluation_id_of(evaluator, core.evaluation_id, judge, settings)
            for evaluator in chosen.evaluators
        }
        return cls(chosen=chosen, ids=ids, evaluation=core.name)

    @property
    def asks_judge(self) -> Mapping[str, bool]:
        """Whether the evaluator asks the judge, by evaluation id."""
        return {self.ids[evaluator.name]: asks(evaluator) for evaluator in self.chosen.evaluators}

    def save(self, con: Connection, core: Evaluation, now_ns: int) -> None:
        """Store an evaluation for each evaluator."""
        evaluations = [
            replace(
                core,
                evaluation_id=self.ids[evaluator.name],
                evaluator=evaluator.name,
                evaluator_version=evaluator.version,
            )
            for evaluator in self.chosen.evaluators
        ]
        save_evaluations(con, evaluations, now_ns)


class MetricRunner:
    """Runs evaluators over scored conversations and stores the scores in batches."""

    def __init__(
        self,
        store: Store,
        active: ActiveEvaluators,
        settings: ScoringSettings,
        *,
        ask: Ask,
        on_scores: Callable[[Sequence[Measured]], None],
        stop: Callable[[], bool],
    ) -> None:
        """Create a runner.

        Args:
            store: receives the scores.
            active: the evaluators.
            settings: the scoring settings.
            ask: asks the judge.
            on_scores: called with each batch of scores, after it was stored.
            stop: once it returns True, no new work begins.
        """
        self._store = store
        self._active = active
        self._settings = settings
        self._ask = ask
        self._on_scores = on_scores
        self._stop = stop
        self.tally = MetricTally()

    @property
    def stopped(self) -> bool:
        """Whether no new work may begin."""
        return self._stop()

    def id_of(self, evaluator: AnyEvaluator) -> str:
        """Return the evaluation id of an evaluator."""
        return self._active.ids[evaluator.name]

    def measure(self, scored: Sequence[Scored], evaluators: Iterable[AnyEvaluator], *, fresh: bool = False) -> None:
        """Run evaluators over scored conversations; `fresh`: none of them has metric scores yet."""
        chosen = list(evaluators)
        if not scored or not chosen or self._stop():
            return
        known: AbstractSet[tuple[str, str, str]] = frozenset()
        if not fresh:
            with self._store.read() as con:
                known = evaluated_before(con, [item.conversation.key for item in scored], self._active.evaluation)
        if any(map(asks, chosen)):  # the order in which the judge's budget is spent
            scored = sorted(scored, key=lambda item: position_of(item.conversation.key))
        subjects = [subject_of(item.conversation, item.match, item.score, self._settings) for item in scored]
        for batch in _batches(evaluate(chosen, subjects, self._ask)):
            self._save([self._measured(result, scored[result.place], known) for result in batch])
            self.tally.faults.update(fault for result in batch for fault in result.faults)

    def _measured(self, ran: Ran, item: Scored, known: AbstractSet[tuple[str, str, str]]) -> Measured:
        environment, name = item.conversation.key
        case = item.match.case
        return Measured(
            conversation=item.conversation,
            case_id=case.case_id if case is not None and case.reviewed else None,
            evaluator=ran.evaluator,
            evaluation_id=self._active.ids[ran.evaluator.name],
            scores=ran.scores,
            restated=(environment, str(name), ran.evaluator.name) in known,
            evaluation=self._active.evaluation,
        )

    def _save(self, measured: Sequence[Measured]) -> None:
        fresh = not any(item.restated for item in measured)
        self._store.write(partial(save_metrics, measured=measured, now_ns=self._store.clock(), fresh=fresh))
        self.tally.add(measured)
        self._on_scores(measured)


def _batches(results: Iterator[Ran]) -> Iterator[list[Ran]]:
    ready: list[Ran] = []
    rows, since_s = 0, time.monotonic()
    for ran in results:
        ready.append(ran)
        rows += len(ran.scores)
        if rows >= _ROWS or time.monotonic() - since_s >= _PATIENCE_S:
            yield ready
            ready, rows, since_s = [], 0, time.monotonic()
    if ready:
        yield ready
