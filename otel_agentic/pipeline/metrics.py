"""Scored conversations -> what evaluators say of them, stored."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from otel_agentic.errors import UsageError
from otel_agentic.evaluators.base import Subject
from otel_agentic.evaluators.identity import evaluation_id_of
from otel_agentic.evaluators.registry import asks
from otel_agentic.evaluators.run import evaluate
from otel_agentic.judges.base import kinds_of
from otel_agentic.pipeline.metrics_tally import MetricTally
from otel_agentic.pipeline.sampling import place_of
from otel_agentic.scoring.turns import align_turns
from otel_agentic.store.metric_scores import Measured, evaluated_before, save_metrics
from otel_agentic.store.scores import save_evaluations

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
    from otel_agentic.store.database import Connection
    from otel_agentic.store.scores import Evaluation
    from otel_agentic.store.selection import Scored
    from otel_agentic.truth.match import Match

    AnyOne = Evaluator | AskingEvaluator

#: Scores written at once, and how long they wait for others, seconds.
_ROWS: Final = 20_000
_PATIENCE_S: Final = 1.0
#: Metrics named in a sentence.
_NAMED: Final = 5


def require_judge(chosen: Chosen, judge: Judge) -> Chosen:
    """Return what can be computed with a judge: where it asks no model, metrics that need one are left out of a family.

    Raises:
        UsageError: a metric that needs a model was named, or nothing is left; names them, and says what to do.
    """
    if not chosen.judged or "rubric" in kinds_of(judge):
        return chosen
    names = [name for name in chosen.asked_for if name not in chosen.broad]
    rest = chosen.without_judge()
    if not names and (rest.evaluators or rest.groups):
        return rest
    raise UsageError(
        f"a model is to be asked for {_some(names or rest.unasked)}, and judge {judge.name!r} asks none; choose one that does, "
        "as in --judge langchain:openai:gpt-5-mini, or other metrics"
    )


def unasked_note(names: Sequence[str]) -> str:
    """Return a sentence on metrics that were left out, for the judge asks no model.

    >>> unasked_note(["agentic.agentest.coherence"])
    'left out, for a model is to be asked: agentest.coherence; give a judge that asks one, as in --judge langchain:openai:gpt-5-mini'
    """
    told = ", ".join(name.removeprefix("agentic.") for name in names)
    return f"left out, for a model is to be asked: {told}; give a judge that asks one, as in --judge langchain:openai:gpt-5-mini"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def subject_of(
    conversation: Conversation, match: Match, score: ConversationScore, settings: ScoringSettings
) -> Subject:
    """Return what evaluators look at: a case counts once it is reviewed, and its turns are found as scoring finds them."""
    case = match.case if match.case is not None and match.case.reviewed else None
    aligned: Mapping[int, int] = {}
    if case is not None and score.turns:
        aligned = {turn.turn_index: turn.case_turn_index for turn in score.turns if turn.case_turn_index is not None}
    elif case is not None:
        places = align_turns([turn.query for turn in case.turns], [turn.query for turn in conversation.turns])
        aligned = {conversation.turns[place].index: index for place, index in places.items()}
    return Subject(conversation=conversation, case=case, score=score, aligned=aligned, settings=settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """Evaluators that were chosen, under the evaluation that the core scores belong to.

    `ids` are the evaluation ids by name of the evaluator, `evaluation` is the name of the evaluation.
    """

    chosen: Chosen
    ids: Mapping[str, str]
    evaluation: str

    @classmethod
    def of(cls, chosen: Chosen, core: Evaluation, judge: Judge, settings: EvaluatorSettings) -> InForce:
        """Return evaluators with their evaluation ids under the evaluation of the core scores."""
        ids = {one.name: evaluation_id_of(one, core.evaluation_id, judge, settings) for one in chosen.evaluators}
        return cls(chosen=chosen, ids=ids, evaluation=core.name)

    @property
    def judged(self) -> Mapping[str, bool]:
        """By evaluation id, whether a judge is asked."""
        return {self.ids[one.name]: asks(one) for one in self.chosen.evaluators}

    def begun(self, con: Connection, core: Evaluation, now_ns: int) -> None:
        """Remember which evaluators run."""
        evaluations = [
            replace(core, evaluation_id=self.ids[one.name], evaluator=one.name, evaluator_version=one.version)
            for one in self.chosen.evaluators
        ]
        save_evaluations(con, evaluations, now_ns)


class Measuring:
    """Runs evaluators over scored conversations and stores what they say, part by part: what is done stays done."""

    def __init__(
        self,
        store: Store,
        under: InForce,
        settings: ScoringSettings,
        *,
        ask: Ask,
        told: Callable[[Sequence[Measured]], None],
        stop: Callable[[], bool],
    ) -> None:
        """Begin.

        Args:
            store: where scores go.
            under: the evaluators.
            settings: those of scoring.
            ask: asks the judge.
            told: told of what was just stored.
            stop: once it says so, nothing new is begun.
        """
        self._store = store
        self._under = under
        self._settings = settings
        self._ask = ask
        self._told = told
        self._stop = stop
        self.tally = MetricTally()

    @property
    def stopped(self) -> bool:
        """Whether nothing new is to be begun."""
        return self._stop()

    def id_of(self, evaluator: AnyOne) -> str:
        """Return the evaluation id of an evaluator."""
        return self._under.ids[evaluator.name]

    def measure(self, scored: Sequence[Scored], evaluators: Iterable[AnyOne], *, fresh: bool = False) -> None:
        """Run some evaluators over scored conversations; `fresh` says that none has said anything of them before."""
        chosen = list(evaluators)
        if not scored or not chosen or self._stop():
            return
        known: AbstractSet[tuple[str, str, str]] = frozenset()
        if not fresh:
            with self._store.read() as con:
                known = evaluated_before(con, [item.conversation.key for item in scored], self._under.evaluation)
        if any(map(asks, chosen)):  # the order in which the judge's budget is spent
            scored = sorted(scored, key=lambda item: place_of(item.conversation.key))
        subjects = [subject_of(item.conversation, item.match, item.score, self._settings) for item in scored]
        for ran in _gathered(evaluate(chosen, subjects, self._ask)):
            self._save([self._measured(one, scored[one.place], known) for one in ran])
            self.tally.faults.update(fault for one in ran for fault in one.faults)

    def _measured(self, ran: Ran, item: Scored, known: AbstractSet[tuple[str, str, str]]) -> Measured:
        environment, name = item.conversation.key
        case = item.match.case
        return Measured(
            conversation=item.conversation,
            case_id=case.case_id if case is not None and case.reviewed else None,
            evaluator=ran.evaluator,
            evaluation_id=self._under.ids[ran.evaluator.name],
            scores=ran.scores,
            restated=(environment, str(name), ran.evaluator.name) in known,
            evaluation=self._under.evaluation,
        )

    def _save(self, measured: Sequence[Measured]) -> None:
        fresh = not any(one.restated for one in measured)
        self._store.write(partial(save_metrics, measured=measured, now_ns=self._store.clock(), fresh=fresh))
        self.tally.add(measured)
        self._told(measured)


def _gathered(found: Iterator[Ran]) -> Iterator[list[Ran]]:
    ready: list[Ran] = []
    rows, since_s = 0, time.monotonic()
    for ran in found:
        ready.append(ran)
        rows += len(ran.scores)
        if rows >= _ROWS or time.monotonic() - since_s >= _PATIENCE_S:
            yield ready
            ready, rows, since_s = [], 0, time.monotonic()
    if ready:
        yield ready
