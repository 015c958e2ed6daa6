"""Stored conversations -> stored scores, under the active evaluator version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from otel_agentic.config import EvaluatorSettings, MatchingSettings, SamplingSettings
from otel_agentic.evaluators.registry import Chosen
from otel_agentic.judges import ExactJudge
from otel_agentic.pipeline.means import EvaluationListener, EvaluationResources, NoEvaluationListener
from otel_agentic.pipeline.metrics import ActiveEvaluators, MetricRunner
from otel_agentic.pipeline.metrics_beside import MetricPass
from otel_agentic.pipeline.sampling import in_order_of_position, left_out, ratio_of, sample_of
from otel_agentic.pipeline.tally import OutcomeCounts
from otel_agentic.pipeline.truth_in_force import Truth, TruthFile, cases_of, labels_of, make_truth
from otel_agentic.scoring import MatchedConversation
from otel_agentic.store.conversations import load_conversations
from otel_agentic.store.evaluations import DEFAULT
from otel_agentic.store.metric_scores import lacking
from otel_agentic.store.metric_stored import stored_outcomes
from otel_agentic.store.sampling import raise_ratios
from otel_agentic.store.scores import never_scored, save_evaluation, save_scores, scored_before, to_score
from otel_agentic.store.selection import Scored, Selection
from otel_agentic.store.truth import load_cases, load_labels, save_cases, save_labels
from otel_agentic.store.unsettled import news, unsettled
from otel_agentic.truth import CaseIndex
from otel_agentic.truth.redact import redacted_case, redacted_labels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_agentic.config import JudgeSettings, ScoringSettings
    from otel_agentic.pipeline.judging import JudgeRun
    from otel_agentic.pipeline.tally import EvaluationSummary
    from otel_agentic.store import Store
    from otel_agentic.store.database import Connection
    from otel_agentic.store.metric_scores import Measured
    from otel_agentic.store.metric_stored import StoredOutcomes
    from otel_agentic.store.table import Key
    from otel_agentic.truth import Case, Label

__all__ = ["EvaluationRequest", "EvaluationRunner", "OnScored", "Truth", "TruthFile"]

#: Called with conversations whose scores were just stored, and those among them that had a score before.
OnScored = Callable[[Sequence[Scored], AbstractSet["Key"]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRequest:
    """The conversations to score, oldest first.

    Attributes:
        keys: the conversations.
        again: those among them whose existing score waits for the judge.
        selection: how they were selected in the store; None if they were not.
        chosen: evaluators to run in addition to scoring.
        lacking: conversations that keep their score, each with the evaluation ids of the evaluators still to be run on it.
    """

    keys: Sequence[Key]
    again: AbstractSet[Key] = frozenset()
    selection: Selection | None = None
    chosen: Chosen = Chosen()  # noqa: RUF009 — frozen
    lacking: Mapping[Key, AbstractSet[str]] = field(default_factory=dict)


class EvaluationRunner(EvaluationResources):
    """Matches and scores conversations, and stores cases and labels."""

    def __init__(
        self,
        store: Store,
        settings: ScoringSettings,
        judge_settings: JudgeSettings,
        sampling: SamplingSettings = SamplingSettings(),  # noqa: B008 — frozen
        evaluators: EvaluatorSettings = EvaluatorSettings(),  # noqa: B008 — frozen
        *,
        matching: MatchingSettings = MatchingSettings(),  # noqa: B008 — frozen
        listener: EvaluationListener = NoEvaluationListener(),  # noqa: B008 — it has no state
    ) -> None:
        super().__init__(store, settings, judge_settings, evaluators, listener)
        self._sampling = sampling
        self._matching = matching
        self._truth: Truth | None = None
        self._saved_ids: frozenset[str] = frozenset()
        #: The truth of the current evaluation, or of the last one.
        self.current_truth: Truth | None = None

    def remember(self, cases: Sequence[TruthFile], labels: Sequence[TruthFile]) -> int:
        """Store case files and label files as the active ground truth; return the number of new case versions.

        All files are read before anything is written.

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
                save_labels(con, named_labels, name, now_ns)
            return sum(save_cases(con, cases, name, now_ns) for name, cases in read_cases)

        try:
            return self.store.write(write)
        finally:
            self._truth = None

    def truth(self) -> Truth:
        """Return the active ground truth; it is cached until the next `remember`.

        Raises:
            PluginError: the judge is not installed or does not load.
        """
        if self._truth is None:
            self._truth = self._read_truth()
        return self._truth

    def _read_truth(self) -> Truth:
        with self.store.read() as con:
            cases, labels = load_cases(con), load_labels(con)
        # Redacted again: truth stored under other settings has to match spans that are redacted under the current ones.
        redacting = self.store.redacting
        return self.truth_of([redacted_case(case, redacting) for case in cases], redacted_labels(labels, redacting))

    def truth_of(self, cases: Sequence[Case], labels: Mapping[str, Label]) -> Truth:
        """Return the ground truth that cases and labels make, without storing it."""
        return make_truth(cases, labels, judge=self.judge, settings=self._settings, matching=self._matching)

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

        Conversations that sampling leaves out get a score that records this, and no judge is asked about them.

        Args:
            truth: from `truth`.
            request: the conversations, from `select`.
            on_scored: called with each stored batch and the conversations in it that had a score before.
            stop: once it returns True, no new work begins; answers that were already requested are awaited and stored.
            waits: leave conversations for a later run while the judge is unavailable, instead of waiting for it.
            on_metrics: called with the scores of evaluators, after they were stored.

        Returns:
            The counts of the run, under the evaluation name of the truth. Only the default evaluation is reported to the
            listener.
        """
        self.current_truth = truth
        evaluation_id, name = truth.evaluation.evaluation_id, truth.evaluation.name
        self.store.write(partial(self._save_evaluation, truth, request.selection))
        with self.store.read() as con:
            restated = scored_before(con, request.keys, name)
            sample = sample_of(con, self._sampling, evaluation_id, request.keys)
        match = partial(self.match, truth)
        included, left = sample.parted(request.keys)
        counts = OutcomeCounts()

        def saved(scored: Sequence[Scored]) -> list[Scored]:
            with self.store.read() as con:
                part = news(con, evaluation_id, scored, request.again)
            now_ns = self.store.clock()
            self.store.write(
                partial(save_scores, evaluation_id=evaluation_id, scored=part, now_ns=now_ns, evaluation=name)
            )
            counts.add(part, restated, unchanged=len(scored) - len(part))
            on_scored(part, restated)
            return part

        with self.judge_run(stop, waits=waits) as judge_run:
            for scored in map(sample.marked, left_out(left, match, stop)):
                saved(scored)
            metric_pass = MetricPass(
                self._measuring(truth, request, judge_run, stop, on_metrics), request.chosen, restated
            )
            for keys in metric_pass.parts(self.in_order(included, request.chosen)):
                for scored in map(sample.marked, judge_run.scored(keys, match)):
                    metric_pass.scored(saved(scored))
                metric_pass.part_ended()
            metric_pass.catch_up(request.lacking, match, judge_run, stored=partial(self._stored, evaluation_id))
        return counts.summary(evaluation_id, judge_run.tally, metric_pass.tally)

    def in_order(self, keys: Sequence[Key], chosen: Chosen) -> Sequence[Key]:
        """Return conversations in scoring order: if a judge is asked, the order in which its budget is spent."""
        asks_judge = chosen.judged or not isinstance(self.judge, ExactJudge)
        return in_order_of_position(keys) if asks_judge else keys

    def _measuring(
        self,
        truth: Truth,
        request: EvaluationRequest,
        judge_run: JudgeRun,
        stop: Callable[[], bool],
        on_metrics: Callable[[Sequence[Measured]], None],
    ) -> MetricRunner:
        def report(scores: Sequence[Measured]) -> None:
            if truth.evaluation.name == DEFAULT:
                self._listener.metrics_stored(scores)
            on_metrics(scores)

        active = self._active(truth, request.chosen)
        ids = frozenset(active.ids.values())
        if not ids <= self._saved_ids:  # a running collector evaluates many small batches
            self.store.write(partial(active.save, core=truth.evaluation, now_ns=self.store.clock()))
            self._saved_ids |= ids
        return MetricRunner(self.store, active, self._settings, ask=judge_run.ask, on_scores=report, stop=stop)

    def _active(self, truth: Truth, chosen: Chosen) -> ActiveEvaluators:
        return ActiveEvaluators.of(chosen, truth.evaluation, self.judge, self._evaluators)

    def _stored(self, evaluation_id: str, keys: Sequence[Key]) -> Mapping[Key, StoredOutcomes]:
        with self.store.read() as con:
            return stored_outcomes(con, evaluation_id, keys)

    def select(
        self, truth: Truth, selection: Selection, *, again: bool = False, chosen: Chosen | None = None
    ) -> EvaluationRequest:
        """Return the closed conversations of a selection that have no score under this truth, or all of them if `again`.

        A score counts as missing if the judge failed or was not asked, or if sampling left the conversation out and would
        include it now. With `chosen`, the request also lists the evaluators still to be run on scored conversations.
        """
        with self.store.read() as con:
            keys = to_score(con, truth.evaluation.evaluation_id, selection, again=again)
            open_now = [] if again else unsettled(con, truth.evaluation.evaluation_id, selection)
            included, _ = sample_of(con, self._sampling, truth.evaluation.evaluation_id, open_now).parted(open_now)
        request = EvaluationRequest(
            keys=[*keys, *included], again=frozenset(included), selection=selection, chosen=chosen or Chosen()
        )
        return request if again else replace(request, lacking=self.lacking(truth, request.chosen, selection))

    def lacking(
        self, truth: Truth, chosen: Chosen, selection: Selection, *, live: bool = False
    ) -> dict[Key, AbstractSet[str]]:
        """Return the scored conversations, each with the evaluation ids of the evaluators that were not run on it yet."""
        active = self._active(truth, chosen)
        with self.store.read() as con:
            missing = lacking(con, truth.evaluation.evaluation_id, active.asks_judge, selection, live=live)
            sample = sample_of(con, self._sampling, truth.evaluation.evaluation_id, list(missing))
        return {key: ids for key, ids in missing.items() if sample.takes(key)}

    def never_scored(self) -> EvaluationRequest:
        """Return the closed conversations whose newest revision has no score in any evaluation."""
        with self.store.read() as con:
            return EvaluationRequest(keys=never_scored(con))

    def match(self, truth: Truth, keys: Sequence[Key]) -> list[MatchedConversation]:
        """Return conversations with their cases and labels, by start time."""
        with self.store.read() as con:
            conversations = load_conversations(con, keys)
        labels = [truth.labels.get(str(conversation.conversation_id)) for conversation in conversations]
        return [
            MatchedConversation(conversation=conversation, match=truth.index.match(conversation, label), label=label)
            for conversation, label in zip(conversations, labels, strict=True)
        ]

    def _save_evaluation(self, truth: Truth, selection: Selection | None, con: Connection) -> None:
        """Store the evaluation; existing scores of the selection take a sampling ratio that was raised since."""
        save_evaluation(con, truth.evaluation, self.store.clock())
        if selection is not None:
            raise_ratios(con, truth.evaluation.evaluation_id, selection, partial(ratio_of, self._sampling))
