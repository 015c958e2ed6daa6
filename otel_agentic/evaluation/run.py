"""Evaluation of stored conversations: match them, score them under the active ground truth, and store the scores."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.config import EvaluatorSettings, JudgeSettings, MatchingSettings, SamplingSettings, ScoringSettings
from otel_agentic.errors import UsageError
from otel_agentic.evaluation.batch import BatchMaker, EvaluationSummary, ScoredBatch, Tally
from otel_agentic.evaluation.conversation import (
    ActiveEvaluators,
    ConversationEvaluation,
    deciding_evaluators,
    scorer_of,
)
from otel_agentic.evaluation.judge_runs import JUDGED_BATCH, JudgeRun, batches
from otel_agentic.evaluation.listener import EvaluationListener
from otel_agentic.evaluation.scope import (
    Truth,
    TruthFile,
    cases_of,
    in_order_of_position,
    labels_of,
    left_out,
    make_truth,
    ratio_of,
    sample_of,
)
from otel_agentic.evaluators.base import AnyEvaluator, asks
from otel_agentic.evaluators.criteria import MetricCriteria
from otel_agentic.evaluators.registry import Chosen, all_evaluators, chosen, require_judge
from otel_agentic.judges import ExactJudge
from otel_agentic.judges.base import Breaker
from otel_agentic.judges.chat_models import same_models
from otel_agentic.judges.dialogue import run_dialogues
from otel_agentic.judges.registry import judge_named
from otel_agentic.scoring.criteria import CORRECT, fingerprint, texts_of
from otel_agentic.store.annotations import annotated_since, load_labels, load_mappings, load_verdicts, save_labels
from otel_agentic.store.connection import DEFAULT
from otel_agentic.store.conversations import load_conversations
from otel_agentic.store.criteria import FurtherCriterion, save_further_results
from otel_agentic.store.judges import DuckDbBudget, models_of
from otel_agentic.store.queries.scores import changed_scores, stored_scores, waiting_for_judge, with_faults
from otel_agentic.store.results import raise_ratios
from otel_agentic.store.score_rows import score_types
from otel_agentic.store.scores import (
    NewScores,
    conversations_to_score,
    evaluated_before,
    missing_evaluations,
    never_scored,
    save_evaluations,
    scored_before,
)
from otel_agentic.store.truth import load_cases, save_cases
from otel_agentic.truth import Case, CaseIndex, Label
from otel_agentic.truth.load import redacted_case, redacted_labels

if TYPE_CHECKING:
    from otel_agentic.judges import Judge
    from otel_agentic.judges.dialogue import Dialogue
    from otel_agentic.scoring import ConversationScore, MatchedConversation
    from otel_agentic.store import Store
    from otel_agentic.store.connection import Connection
    from otel_agentic.store.table import Key, Measured, Scored, Selection


#: Called with conversations whose scores were just stored, and those among them that had a score before.
OnScored = Callable[[ScoredBatch, AbstractSet["Key"]], None]
#: Number of conversations that are loaded, matched and scored again in one batch.
_PORTION: Final = 500
#: The time of the last run of an evaluation is stored at most this often by a running collector, ns.
_SAVED_AGAIN_NS: Final = 60_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRequest:
    """The conversations to score, oldest first.

    Attributes:
        keys: the conversations.
        again: the conversations among them whose existing score waits for the judge.
        first: the conversations among them that are known to have no score in the default evaluation.
        selection: how they were selected in the store; None if they were not.
        chosen: evaluators to run in addition to scoring.
        lacking: conversations that keep their score, each with the evaluation ids of the evaluators still to be run on
            it.
    """

    keys: Sequence[Key]
    again: AbstractSet[Key] = frozenset()
    first: AbstractSet[Key] = frozenset()
    selection: Selection | None = None
    chosen: Chosen = Chosen()  # noqa: RUF009 — frozen
    lacking: Mapping[Key, AbstractSet[str]] = field(default_factory=dict)


class EvaluationRunner:
    """Matches and scores conversations with the configured judge and evaluators, and stores cases and labels."""

    def __init__(
        self,
        store: Store,
        settings: ScoringSettings,
        judge_settings: JudgeSettings,
        sampling: SamplingSettings = SamplingSettings(),  # noqa: B008 — frozen
        evaluators: EvaluatorSettings = EvaluatorSettings(),  # noqa: B008 — frozen
        *,
        matching: MatchingSettings = MatchingSettings(),  # noqa: B008 — frozen
        further: Sequence[str] = (),
        listener: EvaluationListener = EvaluationListener(),  # noqa: B008 — it has no state
    ) -> None:
        self.store = store
        self._settings = settings
        self._judge_settings = judge_settings
        self._evaluators = evaluators
        self._listener = listener
        self._sampling = sampling
        self._matching = matching
        self._further = further
        self._truth: Truth | None = None
        #: The number of cases when they were last read; None before.
        self.case_count: int | None = None
        #: The evaluations that were stored, and when, ns.
        self._saved_ids: frozenset[str] = frozenset()
        self._saved_ns = 0

    @cached_property
    def installed(self) -> tuple[AnyEvaluator, ...]:
        """All evaluators: the installed ones, and those in the files of the settings.

        Raises:
            PluginError: an evaluator does not load or breaks the contract.
            UsageError: a file cannot be loaded.
        """
        return all_evaluators(self._evaluators)

    @cached_property
    def configured(self) -> frozenset[str]:
        """The full names of the metrics in the settings. Raises what `chosen` raises."""
        return chosen(self._evaluators, among=self.installed).metrics

    @cached_property
    def chosen(self) -> Chosen:
        """The evaluators in the settings.

        Raises:
            PluginError: an evaluator or the judge does not load, or an evaluator breaks the contract.
            UsageError: a name is unknown or ambiguous, a file cannot be loaded, or a metric needs an LLM judge and none
                is set.
        """
        return self.choose(None)

    def choose(self, names: Sequence[str] | None) -> Chosen:
        """Return the evaluators of these metrics only; None: those in the settings. Raises what `chosen` raises."""
        return require_judge(chosen(self._evaluators, names, among=self.installed), self.judge)

    @cached_property
    def judge(self) -> Judge:
        """The judge in the settings.

        Raises:
            PluginError: it is not installed or does not load.
            UsageError: it does not accept its argument.
        """
        return judge_named(self._settings.judge, self._judge_settings)

    @cached_property
    def budget(self) -> DuckDbBudget:
        """The judge budget of this store."""
        return DuckDbBudget(self.store, self._judge_settings)

    @cached_property
    def breaker(self) -> Breaker:
        """The circuit breaker of the judge, shared by everything that asks it."""
        return Breaker(self._judge_settings, self.judge.name)

    def judge_run(self, stop: Callable[[], bool] = lambda: False, *, waits: bool = False) -> JudgeRun:
        """Return a run that scores with the judge, to be used as a context manager.

        Once `stop` returns True, no new question is asked. With `waits`, conversations whose questions were not asked
        because the judge is unavailable stay unscored for a later run.
        """
        return JudgeRun(
            self.store,
            self.judge,
            self.budget,
            settings=self._judge_settings,
            stop=stop,
            on_answer=self._listener.judge_answered,
            breaker=self.breaker,
            waits=waits,
        )

    def close(self) -> None:
        """Close the judge, if it was created and can be closed."""
        close = getattr(self.__dict__.get("judge"), "close", None)
        if close is not None:
            close()

    def remember(self, cases: Sequence[TruthFile], labels: Sequence[TruthFile], *, random_sample: bool = False) -> int:
        """Store case files and label files as the active ground truth; return the number of new case versions.

        All files are read before anything is written. `random_sample` declares that the labelled conversations were drawn
        at random.

        Raises:
            CaseError: a file has problems; the message lists them all.
        """
        redacting, threshold = self.store.redacting, self._settings.reward_threshold
        read_cases = [(file.name, cases_of(file, redacting)) for file in cases]
        read_labels = [(file.name, labels_of(file, redacting, threshold)) for file in labels]
        CaseIndex([case for _, cases in read_cases for case in cases])  # raises if two files contradict each other
        now_ns = self.store.clock()

        def write(con: Connection) -> int:
            for name, named_labels in read_labels:
                save_labels(con, named_labels, name, now_ns, random_sample=random_sample)
            return sum(save_cases(con, cases, name, now_ns) for name, cases in read_cases)

        try:
            return self.store.write(write)
        finally:
            self.forget_truth()

    def forget_truth(self) -> None:
        """Read the ground truth again when it is needed: cases, labels or verdicts in the store changed."""
        self._truth = None

    def truth(self) -> Truth:
        """Return the active ground truth; it is cached until the next `remember` or `forget_truth`.

        Raises:
            PluginError: the judge is not installed or does not load.
        """
        if self._truth is None:
            self._truth = self._read_truth()
        return self._truth

    def _read_truth(self) -> Truth:
        with self.store.read() as con:
            cases, labels = load_cases(con), load_labels(con)
            verdicts, mappings = load_verdicts(con), load_mappings(con)
        self.case_count = len(cases)
        # Redacted again: truth stored under other settings has to match spans that are redacted under the current ones.
        redacting = self.store.redacting
        redacted_cases = [redacted_case(case, redacting) for case in cases]
        truth = self.truth_of(redacted_cases, redacted_labels(labels, redacting))
        return replace(truth, verdicts=verdicts, mappings=mappings)

    def truth_of(self, cases: Sequence[Case], labels: Mapping[str, Label]) -> Truth:
        """Return the ground truth that cases and labels make, without storing it."""
        return make_truth(
            cases,
            labels,
            judge=self.judge,
            settings=self._settings,
            matching=self._matching,
            deciding=deciding_evaluators(self.criteria, cases, self._settings, self.judge),
        )

    @cached_property
    def criteria(self) -> MetricCriteria:
        """Resolves criteria on metrics of all evaluators."""
        return MetricCriteria(evaluators=self.installed, settings=self._evaluators)

    @cached_property
    def further(self) -> tuple[FurtherCriterion, ...]:
        """The criteria that have results and windows of their own.

        Raises:
            UsageError: a criterion is malformed, or reads a metric that is unknown or not computed.
            PluginError: an evaluator does not load.
        """
        return tuple(map(self._further_criterion, self._further))

    def _further_criterion(self, name: str) -> FurtherCriterion:
        parts = self.criteria.stored(texts_of(name, self._settings))
        for part in parts:
            left_out = set(part.names) - self.configured
            if left_out and not (part.criterion.of_case or part.criterion.optional):
                raise UsageError(
                    f"windows.criteria: {name!r} reads {', '.join(sorted(left_out))}, which evaluators.metrics leaves out; add it there"
                )
        return FurtherCriterion(name=name, criteria=fingerprint(name, self._settings), parts=parts)

    def evaluate(
        self,
        truth: Truth,
        request: EvaluationRequest,
        on_scored: OnScored = lambda *_: None,
        stop: Callable[[], bool] = lambda: False,
        *,
        waits: bool = False,
        on_metrics: Callable[[Sequence[Measured]], None] = lambda _: None,
    ) -> EvaluationSummary:
        """Score conversations and store the scores in batches; each stored batch stays stored if the run ends early.

        Conversations that sampling excludes get a score that records the exclusion; the judge is not asked about them.

        Args:
            truth: from `truth`.
            request: the conversations, from `select`.
            on_scored: called with each stored batch and the conversations in it that had a score before.
            stop: once it returns True, no new work begins; answers that were already requested are awaited and stored.
            waits: leave conversations for a later run while the judge is unavailable, instead of waiting for it.
            on_metrics: called with the scores of evaluators, after they were stored.

        Returns:
            The counts of the run, under the evaluation name of the truth. Only the default evaluation is reported to
            the listener.
        """
        evaluation_id, name = truth.evaluation.evaluation_id, truth.evaluation.name
        evaluation = self.evaluation(truth, request.chosen)
        self._save_evaluations(truth, request.selection, evaluation.active)
        first: AbstractSet[Key] = request.first if name == DEFAULT else frozenset()
        with self.store.read() as con:
            restated = scored_before(con, [key for key in request.keys if key not in first], name)
            sample = sample_of(con, self._sampling, evaluation_id, request.keys)
            types = score_types(con)
        included, excluded = sample.parted(request.keys)
        summary = EvaluationSummary(evaluation_id=evaluation_id)

        maker = BatchMaker(
            evaluation=evaluation,
            sample=sample,
            types=types,
            evaluation_id=evaluation_id,
            criteria=fingerprint(CORRECT, self._settings),
            restated=restated,
        )

        def saved(batch: ScoredBatch) -> None:
            core = batch.rows.core
            before: Container[Key] = restated if core else request.lacking
            known = self._evaluated_before([key for key in batch.rows.keys if key in before], name)
            are_first = first >= set(batch.rows.keys)
            self.store.write(
                partial(self._save, scores=batch.rows, restated=known, evaluation=name, are_first=are_first)
            )
            summary.merge(batch.summary)
            if core:
                summary.restated += sum(key in restated for key in batch.rows.keys)
                on_scored(batch, restated)
            if batch.summary.metrics.rows:
                if name == DEFAULT:
                    self._listener.metrics_stored(batch, known)
                on_metrics(batch.measured(known))

        with self.judge_run(stop, waits=waits) as judge_run:
            for scored in left_out(excluded, partial(self.match, truth), stop):
                saved(maker.batch(scored, self.store.clock()))
            keys = self.in_order(included, request.chosen)
            for batch in self._batches(truth, replace(request, keys=keys), maker, judge_run, stop):
                saved(batch)
            for scored in self._lacking_scores(truth, request.lacking, evaluation, judge_run, stop):
                saved(maker.batch(scored, self.store.clock(), core=False))
        summary.tally = judge_run.tally
        return summary

    def _batches(
        self,
        truth: Truth,
        request: EvaluationRequest,
        maker: BatchMaker,
        judge_run: JudgeRun,
        stop: Callable[[], bool],  # noqa: ARG002 — the run knows it; other runners need it
    ) -> Iterator[ScoredBatch]:
        """Score the conversations of a request; yield them in batches, without those whose score has not changed."""
        for scored in judge_run.evaluated(request.keys, partial(self.match, truth), maker.evaluation):
            part = scored
            if request.again:
                with self.store.read() as con:
                    part = changed_scores(con, maker.evaluation_id, scored, request.again)
            yield maker.batch(part, self.store.clock(), unchanged=len(scored) - len(part))

    def _evaluated_before(self, keys: Sequence[Key], evaluation: str) -> AbstractSet[tuple[str, str, str]]:
        if not keys:
            return frozenset()
        with self.store.read() as con:
            return evaluated_before(con, keys, evaluation)

    def _save(
        self,
        con: Connection,
        scores: NewScores,
        restated: AbstractSet[tuple[str, str, str]],
        evaluation: str,
        *,
        are_first: bool,
    ) -> None:
        """Save scores, and the results by further criteria that follow from them."""
        scores.save(con, restated, are_first=are_first)
        if evaluation == DEFAULT:
            save_further_results(con, scores.keys, self.further)

    def _lacking_scores(
        self,
        truth: Truth,
        lacking: Mapping[Key, AbstractSet[str]],
        evaluation: ConversationEvaluation,
        judge_run: JudgeRun,
        stop: Callable[[], bool],
    ) -> Iterator[list[Scored]]:
        """Run evaluators on conversations that keep their scores; yield the results in batches.

        The judge is not asked for the scores again: they are computed from its cached verdicts.
        """
        for ids, keys in groupby(sorted(lacking, key=lambda key: sorted(lacking[key])), key=lacking.__getitem__):
            missing = [item for item in evaluation.active.chosen.evaluators if evaluation.active.ids[item.name] in ids]
            batch, size = list(keys), _PORTION
            if any(map(asks, missing)):
                batch, size = in_order_of_position(batch), JUDGED_BATCH
            for start in range(0, len(batch), size):
                if stop():
                    return
                matched = self.match(truth, batch[start : start + size])
                scores = self._stored_scores(truth, matched, judge_run)
                matched = [item for item in matched if item.conversation.key in scores]

                def measured(item: MatchedConversation) -> Dialogue[Scored]:
                    return evaluation.measured(item, scores[item.conversation.key], (), missing)  # noqa: B023 — run at once

                yield from batches((result for _, result in judge_run.run(matched, measured)), _PORTION)

    def _stored_scores(
        self, truth: Truth, matched: Sequence[MatchedConversation], judge_run: JudgeRun
    ) -> dict[Key, ConversationScore]:
        """Return the scores of conversations as they are stored, with their faults computed again."""
        keys = [item.conversation.key for item in matched]
        with self.store.read() as con:
            stored = stored_scores(con, truth.evaluation.evaluation_id, keys, current=True)
        computed = self._computed_scores(matched, judge_run)
        return {key: with_faults(stored[key], score) for key, score in computed.items() if key in stored}

    def _computed_scores(
        self, matched: Sequence[MatchedConversation], judge_run: JudgeRun
    ) -> dict[Key, ConversationScore]:
        """Return the scores that follow from cached verdicts, without criteria on metrics."""
        score = scorer_of(self._settings)
        with judge_run.cached_answers() as ask:
            dialogues = (score(item, self.judge, self._settings) for item in matched)
            return {matched[index].conversation.key: score for index, score in run_dialogues(dialogues, ask)}

    def provisional_scores(self, keys: Sequence[Key]) -> dict[Key, ConversationScore]:
        """Return the scores that open conversations have so far.

        They are not stored. A judge that calls a model is not asked: without a cached verdict, an answer is not evaluated.
        """
        with self.judge_run() as judge_run:
            return self._computed_scores(self.match(self.truth(), keys), judge_run)

    def in_order(self, keys: Sequence[Key], chosen: Chosen) -> Sequence[Key]:
        """Return conversations in scoring order: if a judge is asked, the order in which its budget is spent."""
        asks_judge = chosen.judge_evaluators or not isinstance(self.judge, ExactJudge)
        return in_order_of_position(keys) if asks_judge else keys

    def evaluation(self, truth: Truth, chosen: Chosen = Chosen()) -> ConversationEvaluation:  # noqa: B008 — frozen
        """Return the evaluation of each conversation: its score, and the scores of the chosen evaluators."""
        active = self._active(truth, chosen)
        return ConversationEvaluation(judge=self.judge, settings=self._settings, active=active, criteria=self.criteria)

    def _save_evaluations(self, truth: Truth, selection: Selection | None, active: ActiveEvaluators) -> None:
        """Store the evaluations, and raise the sampling ratio of existing scores if the setting was raised."""
        evaluation_id, now_ns = truth.evaluation.evaluation_id, self.store.clock()
        ids = frozenset((evaluation_id, *active.ids.values()))
        is_recent = ids <= self._saved_ids and 0 <= now_ns - self._saved_ns < _SAVED_AGAIN_NS
        if selection is None and is_recent:
            return  # a running collector evaluates many small batches

        def write(con: Connection) -> None:
            save_evaluations(con, [truth.evaluation], now_ns)
            if not ids <= self._saved_ids:
                active.save(con, core=truth.evaluation, now_ns=now_ns)
            if selection is not None:
                raise_ratios(con, evaluation_id, selection, partial(ratio_of, self._sampling))

        self.store.write(write)
        self._saved_ids |= ids
        self._saved_ns = now_ns

    def _active(self, truth: Truth, chosen: Chosen) -> ActiveEvaluators:
        return ActiveEvaluators.of(chosen.with_all(truth.deciding), truth.evaluation, self.judge, self._evaluators)

    def select(
        self, truth: Truth, selection: Selection, *, again: bool = False, chosen: Chosen | None = None
    ) -> EvaluationRequest:
        """Return the closed conversations of a selection that have no score under this truth, or all if `again`.

        A score counts as missing if the judge failed or was not asked, or if sampling excluded the conversation and
        would include it now. With `chosen`, the request also lists the evaluators still to be run on scored
        conversations.
        """
        with self.store.read() as con:
            keys = conversations_to_score(con, truth.evaluation.evaluation_id, selection, again=again)
            waiting = [] if again else waiting_for_judge(con, truth.evaluation.evaluation_id, selection)
            annotated = [] if again else annotated_since(con, truth.evaluation.evaluation_id, selection)
            included, _ = sample_of(con, self._sampling, truth.evaluation.evaluation_id, waiting).parted(waiting)
        request = EvaluationRequest(
            keys=list(dict.fromkeys([*keys, *annotated, *included])),
            again=frozenset(included),
            selection=selection,
            chosen=chosen or Chosen(),
        )
        return request if again else replace(request, lacking=self.lacking(truth, request.chosen, selection))

    def lacking(
        self, truth: Truth, chosen: Chosen, selection: Selection, *, live: bool = False
    ) -> dict[Key, AbstractSet[str]]:
        """Return the scored conversations, each with the evaluation ids of the evaluators still to be run on it."""
        active = self._active(truth, chosen)
        with self.store.read() as con:
            missing = missing_evaluations(con, truth.evaluation.evaluation_id, active.asks_judge, selection, live=live)
            sample = sample_of(con, self._sampling, truth.evaluation.evaluation_id, list(missing))
        return {key: ids for key, ids in missing.items() if sample.takes(key)}

    def never_scored(self, since_ns: int | None = None) -> EvaluationRequest:
        """Return the closed conversations whose newest revision has no score; see `store.scores.never_scored`."""
        with self.store.read() as con:
            unscored = never_scored(con, since_ns)
        return EvaluationRequest(
            keys=list(unscored), first=frozenset(key for key, is_first in unscored.items() if is_first)
        )

    def match(self, truth: Truth, keys: Sequence[Key]) -> list[MatchedConversation]:
        """Return conversations with their cases and labels, by start time."""
        with self.store.read() as con:
            conversations = load_conversations(con, keys, self.built_since(keys))
        return truth.matched(conversations)

    def built_since(self, keys: Sequence[Key]) -> int:
        """Return a time, ns, before which none of some conversations was built: of use to a collector, which knows all ids."""
        return self.store.known_ids.since((name for _, name in keys), load=False)


def judge_json(runner: EvaluationRunner, tally: Tally, keys: Sequence[Key]) -> dict[str, Any]:
    """Return the judge's name, calls, cost and models, and which budget limit is exhausted.

    Args:
        runner: the judge, its budget and its store.
        tally: the counts of the run.
        keys: the conversations about which the judge was asked.
    """
    judge = runner.judge
    models = judge_models(judge, tally)
    with runner.store.read() as con:
        agents = models_of(con, keys) if models else set()
    return {
        "name": judge.name,
        "version": judge.version,
        "models": models,
        "same_as_agent": same_models(models, agents),
        **tally.to_json(),
        "canaries": tally.canaries,
        "canaries_passed": tally.fooled,
        "used_up": runner.budget.used_up if tally.refused else None,
    }


def judge_models(judge: Judge, tally: Tally) -> list[str]:
    """Return the models that answered, else the configured model; empty if the judge asks no model."""
    configured_model = getattr(judge, "model", None)
    return sorted(tally.models) or ([configured_model] if isinstance(configured_model, str) else [])
