"""The evaluation of one conversation: its score and the scores of evaluators, as one dialogue with the judge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from otel_agentic.compat import scorer
from otel_agentic.errors import CaseError, UsageError
from otel_agentic.evaluators.base import AskingEvaluator, Evaluator, Subject, asks
from otel_agentic.evaluators.criteria import MetricCriteria, MetricCriterion, parts_of
from otel_agentic.evaluators.registry import Chosen, evaluation_id_of, require_judge
from otel_agentic.evaluators.run import Ran, evaluating
from otel_agentic.scoring.criteria import parsed
from otel_agentic.scoring.outcome import aligned_turns, criteria_of, scoring
from otel_agentic.store.connection import DEFAULT
from otel_agentic.store.scores import Evaluation, save_evaluations
from otel_agentic.store.table import Measured, Scored

if TYPE_CHECKING:
    from otel_agentic.compat.scorers import Scorer
    from otel_agentic.config import EvaluatorSettings, ScoringSettings
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.judges import Judge
    from otel_agentic.judges.dialogue import Dialogue
    from otel_agentic.scoring import MatchedConversation
    from otel_agentic.scoring.model import ConversationScore
    from otel_agentic.scoring.parts import Part
    from otel_agentic.store.connection import Connection
    from otel_agentic.truth.match import Match
    from otel_agentic.truth.model import Case

    AnyEvaluator = Evaluator | AskingEvaluator


def subject_of(
    conversation: Conversation, match: Match, score: ConversationScore, settings: ScoringSettings
) -> Subject:
    """Return the input of evaluators; it has the case only if that is reviewed, with turns aligned as in scoring."""
    case = match.case if match.case is not None and match.case.reviewed else None
    aligned: Mapping[int, int] = {}
    if case is not None and score.turns:
        aligned = {turn.turn_index: turn.case_turn_index for turn in score.turns if turn.case_turn_index is not None}
    elif case is not None:
        aligned = aligned_turns(case, conversation.turns)
    return Subject(conversation=conversation, case=case, score=score, aligned=aligned, settings=settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveEvaluators:
    """The chosen evaluators with their evaluation ids.

    Attributes:
        chosen: the evaluators.
        ids: the evaluation ids, by name of the evaluator.
        evaluation: the name of the evaluation, the same as that of the conversation scores.
    """

    chosen: Chosen
    ids: Mapping[str, str]
    evaluation: str

    def measuring(
        self, evaluators: Sequence[AnyEvaluator], matched: MatchedConversation, subject: Subject
    ) -> Dialogue[list[Measured]]:
        """Return the dialogue that runs evaluators on a conversation."""
        results = yield from evaluating(evaluators, subject)
        return [self.measured(ran, matched) for ran in results]

    def measured(self, ran: Ran, matched: MatchedConversation, score_ids: Sequence[str] = ()) -> Measured:
        """Return the result of an evaluator for a conversation, with the id of its evaluation.

        The ids of the scores are computed unless they are known.
        """
        case = matched.match.case
        return Measured(
            conversation=matched.conversation,
            case_id=case.case_id if case is not None and case.reviewed else None,
            evaluator=ran.evaluator,
            evaluation_id=self.ids[ran.evaluator.name],
            scores=ran.scores,
            score_ids=tuple(score_ids),
            faults=ran.faults,
            evaluation=self.evaluation,
        )

    @classmethod
    def of(cls, chosen: Chosen, core: Evaluation, judge: Judge, settings: EvaluatorSettings) -> ActiveEvaluators:
        """Return the evaluators with their evaluation ids, derived from the evaluation of the conversation scores."""
        ids = {
            evaluator.name: evaluation_id_of(evaluator, core.evaluation_id, judge, settings)
            for evaluator in chosen.evaluators
        }
        return cls(chosen=chosen, ids=ids, evaluation=core.name)

    @classmethod
    def in_memory(cls, chosen: Chosen, evaluation: str = DEFAULT) -> ActiveEvaluators:
        """Return evaluators whose scores are not stored, so that they need no ids."""
        return cls(chosen=chosen, ids={evaluator.name: "" for evaluator in chosen.evaluators}, evaluation=evaluation)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationEvaluation:
    """The computation for each conversation of a run; of the judge, only its attributes are read."""

    judge: Judge
    settings: ScoringSettings
    active: ActiveEvaluators
    criteria: MetricCriteria

    def dialogue(self, matched: MatchedConversation) -> Dialogue[Scored]:
        """Return the dialogue that scores a conversation and runs the evaluators on it, those that decide first."""
        if self.settings.compat is not None:
            score = yield from scorer(self.settings.compat)(matched, self.judge, self.settings)
            return (yield from self.measured(matched, score))
        criteria = self.criteria.of(criteria_of(matched.match.case, self.settings))
        measured: list[Measured] = []

        def measure(score: ConversationScore) -> Dialogue[Mapping[str, Part | None]]:
            subject = subject_of(matched.conversation, matched.match, score, self.settings)
            measured.extend((yield from self.active.measuring(deciding(criteria), matched, subject)))
            return parts_of(criteria, [metric_score for item in measured for metric_score in item.scores])

        score = yield from scoring(matched, self.judge, self.settings, measure if criteria else None)
        return (yield from self.measured(matched, score, measured))

    def measured(
        self,
        matched: MatchedConversation,
        score: ConversationScore,
        done: Sequence[Measured] = (),
        evaluators: Sequence[AnyEvaluator] | None = None,
    ) -> Dialogue[Scored]:
        """Return the dialogue that runs evaluators on a scored conversation.

        Args:
            matched: the conversation.
            score: its score.
            done: the results of evaluators that ran already.
            evaluators: the evaluators to run; None for all others.
        """
        names = {item.evaluator.name for item in done}
        chosen = self.active.chosen.evaluators if evaluators is None else evaluators
        remaining = [evaluator for evaluator in chosen if evaluator.name not in names] if names else chosen
        subject = subject_of(matched.conversation, matched.match, score, self.settings)
        results = (yield from self.active.measuring(remaining, matched, subject)) if remaining else []
        return Scored(conversation=matched.conversation, match=matched.match, score=score, metrics=(*done, *results))


def scorer_of(settings: ScoringSettings) -> Scorer:
    """Return the function that scores a conversation: our own, or one with the arithmetic of another system."""
    return scoring if settings.compat is None else scorer(settings.compat)


def deciding(criteria: Iterable[MetricCriterion]) -> tuple[AnyEvaluator, ...]:
    """Return the evaluators of criteria, each once."""
    return tuple({criterion.evaluator.name: criterion.evaluator for criterion in criteria}.values())


def deciding_evaluators(
    criteria: MetricCriteria, cases: Iterable[Case], settings: ScoringSettings, judge: Judge
) -> Chosen:
    """Return the evaluators of all criteria of the settings and of cases.

    Raises:
        UsageError: a metric is unknown or ambiguous, has no threshold, or needs an LLM judge and none is set.
        CaseError: the same for the criteria of a case.
    """
    metrics = [*criteria.of(criteria_of(None, settings))]
    for case in cases:
        if case.criteria is not None:
            try:
                metrics += criteria.of(parsed(case.criteria))
            except UsageError as error:
                raise CaseError(f"case {case.case_id!r}: criteria: {error}") from error
    return require_judge(
        Chosen(evaluators=deciding(metrics), metrics=frozenset(criterion.metric for criterion in metrics)), judge
    )
