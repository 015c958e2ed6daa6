"""Stored conversations -> stored scores, under the evaluator version in force."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from otel_agentic.config import EvaluatorSettings, MatchingSettings, SamplingSettings
from otel_agentic.evaluators.registry import Chosen
from otel_agentic.judges import ExactJudge
from otel_agentic.pipeline.means import Means
from otel_agentic.pipeline.metrics import InForce, Measuring
from otel_agentic.pipeline.metrics_beside import Beside
from otel_agentic.pipeline.sampling import in_order_of_place, left_out, ratio_of, sample_of
from otel_agentic.pipeline.tally import Outcomes
from otel_agentic.pipeline.truth_in_force import Truth, TruthFile, cases_of, labels_of, truth_made_of
from otel_agentic.scoring import MatchedConversation
from otel_agentic.store.conversations import load_conversations
from otel_agentic.store.evaluations import DEFAULT
from otel_agentic.store.metric_scores import lacking
from otel_agentic.store.metric_stored import stored_scores
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
    from otel_agentic.pipeline.judging import Judging
    from otel_agentic.pipeline.rebuild import Key
    from otel_agentic.pipeline.tally import Evaluated
    from otel_agentic.store import Store
    from otel_agentic.store.database import Connection
    from otel_agentic.store.metric_scores import Measured
    from otel_agentic.store.metric_stored import StoredScore
    from otel_agentic.truth import Case, Label

__all__ = ["Evaluating", "OnScored", "Truth", "TruthFile", "Wanted"]

#: Told of conversations whose scores were just stored, and which of them had a score before.
OnScored = Callable[[Sequence[Scored], AbstractSet["Key"]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Conversations to be scored, oldest first; `again` are those whose score waits for the judge.

    `selection` is what they were looked for in, None where they were not looked for in the store. `chosen` are the
    evaluators that are run beside, and `lacking` the conversations that keep their score and that some of these, by
    evaluation id, were not run on yet.
    """

    keys: Sequence[Key]
    again: AbstractSet[Key] = frozenset()
    selection: Selection | None = None
    chosen: Chosen = Chosen()  # noqa: RUF009 — frozen
    lacking: Mapping[Key, AbstractSet[str]] = field(default_factory=dict)


class Evaluating(Means):
    """Matches and scores conversations; remembers cases and labels."""

    def __init__(
        self,
        store: Store,
        settings: ScoringSettings,
        judging: JudgeSettings,
        sampling: SamplingSettings = SamplingSettings(),  # noqa: B008 — frozen
        evaluators: EvaluatorSettings = EvaluatorSettings(),  # noqa: B008 — frozen
        *,
        matching: MatchingSettings = MatchingSettings(),  # noqa: B008 — frozen
    ) -> None:
        super().__init__(store, settings, judging, evaluators)
        self._sampling = sampling
        self._matching = matching
        self._truth: Truth | None = None
        self._begun_ids: frozenset[str] = frozenset()
        #: The truth of the evaluation that is under way, or was last.
        self.underway: Truth | None = None

    def remember(self, cases: Sequence[TruthFile], labels: Sequence[TruthFile]) -> int:
        """Put case files and labels files in force; return how many case versions are new.

        All files are read before anything is written.

        Raises:
            CaseError: a file has problems; lists them all.
        """
        redacting, threshold = self._store.redacting, self._settings.reward_threshold
        read_cases = [(file.name, cases_of(file, redacting)) for file in cases]
        read_labels = [(file.name, labels_of(file, redacting, threshold)) for file in labels]
        CaseIndex([case for _, found in read_cases for case in found])  # two files may contradict each other
        now_ns = self._store.clock()

        def write(con: Connection) -> int:
            for name, given in read_labels:
                save_labels(con, given, name, now_ns)
            return sum(save_cases(con, found, name, now_ns) for name, found in read_cases)

        try:
            return self._store.write(write)
        finally:
            self._truth = None

    def truth(self) -> Truth:
        """Return the ground truth in force; it is read again only after `remember`.

        Raises:
            PluginError: the judge is not installed or does not load.
        """
        if self._truth is None:
            self._truth = self._read_truth()
        return self._truth

    def _read_truth(self) -> Truth:
        with self._store.read() as con:
            cases, labels = load_cases(con), load_labels(con)
        # Again: what was put in force under other settings must compare with what is taken out of spans now.
        redacting = self._store.redacting
        return self.truth_of([redacted_case(case, redacting) for case in cases], redacted_labels(labels, redacting))

    def truth_of(self, cases: Sequence[Case], labels: Mapping[str, Label]) -> Truth:
        """Return the ground truth that some cases and labels would be, in force or not."""
        return truth_made_of(cases, labels, judge=self.judge, settings=self._settings, matching=self._matching)

    def evaluate(
        self,
        truth: Truth,
        wanted: Wanted,
        done: OnScored = lambda *_: None,
        stop: Callable[[], bool] = lambda: False,
        *,
        waits: bool = False,
        measured: Callable[[Sequence[Measured]], None] = lambda _: None,
    ) -> Evaluated:
        """Score conversations and store the scores, part by part: what is done stays done.

        What sampling leaves out is stored as such, and nobody is asked about it.

        Args:
            truth: from `truth`.
            wanted: which conversations, see `wanted`.
            done: told of each part once it is stored, and which of it had a score before.
            stop: once it says so, nothing new is begun; what the judge is asked already is waited for and kept.
            waits: leave for a later round what a judge that does not answer was not asked; else the run waits for it.
            measured: told of what evaluators said, once it is stored.

        Returns:
            What was scored, under the name of the truth's evaluation. Telemetry hears of the default one alone.
        """
        self.underway = truth
        evaluation_id, name = truth.evaluation.evaluation_id, truth.evaluation.name
        self._store.write(partial(self._begun, truth, wanted.selection))
        with self._store.read() as con:
            restated = scored_before(con, wanted.keys, name)
            sample = sample_of(con, self._sampling, evaluation_id, wanted.keys)
        match = partial(self.match, truth)
        taken, left = sample.parted(wanted.keys)
        found = Outcomes()

        def saved(scored: Sequence[Scored]) -> list[Scored]:
            with self._store.read() as con:
                part = news(con, evaluation_id, scored, wanted.again)
            now_ns = self._store.clock()
            self._store.write(
                partial(save_scores, evaluation_id=evaluation_id, scored=part, now_ns=now_ns, evaluation=name)
            )
            found.add(part, restated, unchanged=len(scored) - len(part))
            done(part, restated)
            return part

        with self.judging(stop, waits=waits) as judging:
            for scored in map(sample.marked, left_out(left, match, stop)):
                saved(scored)
            beside = Beside(self._measuring(truth, wanted, judging, stop, measured), wanted.chosen, restated)
            for keys in beside.parts(self.in_order(taken, wanted.chosen)):
                for scored in map(sample.marked, judging.scored(keys, match)):
                    beside.scored(saved(scored))
                beside.part_ended()
            beside.catch_up(wanted.lacking, match, judging, stored=partial(self._stored, evaluation_id))
        return found.told(evaluation_id, judging.tally, beside.tally)

    def in_order(self, keys: Sequence[Key], chosen: Chosen) -> Sequence[Key]:
        """Return conversations in the order in which they are scored: where a judge is asked, that of its budget."""
        asks_judge = chosen.judged or not isinstance(self.judge, ExactJudge)
        return in_order_of_place(keys) if asks_judge else keys

    def _measuring(
        self,
        truth: Truth,
        wanted: Wanted,
        judging: Judging,
        stop: Callable[[], bool],
        measured: Callable[[Sequence[Measured]], None],
    ) -> Measuring:
        def told(found: Sequence[Measured]) -> None:
            if truth.evaluation.name == DEFAULT:
                self.measured(found)
            measured(found)

        under = self._in_force(truth, wanted.chosen)
        ids = frozenset(under.ids.values())
        if not ids <= self._begun_ids:  # in a running collector many small parts follow one another
            self._store.write(partial(under.begun, core=truth.evaluation, now_ns=self._store.clock()))
            self._begun_ids |= ids
        return Measuring(self._store, under, self._settings, ask=judging.ask, told=told, stop=stop)

    def _in_force(self, truth: Truth, chosen: Chosen) -> InForce:
        return InForce.of(chosen, truth.evaluation, self.judge, self._evaluators)

    def _stored(self, evaluation_id: str, keys: Sequence[Key]) -> Mapping[Key, StoredScore]:
        with self._store.read() as con:
            return stored_scores(con, evaluation_id, keys)

    def wanted(
        self, truth: Truth, selection: Selection, *, again: bool = False, chosen: Chosen | None = None
    ) -> Wanted:
        """Return the closed conversations of a selection that have no score under this truth, or all of them.

        A score that the judge left open, because it failed or was not asked, is no score; nor is one that sampling left
        out and would not leave out now. With evaluators `chosen`, what they were not run on is told beside.
        """
        with self._store.read() as con:
            keys = to_score(con, truth.evaluation.evaluation_id, selection, again=again)
            open_now = [] if again else unsettled(con, truth.evaluation.evaluation_id, selection)
            taken, _ = sample_of(con, self._sampling, truth.evaluation.evaluation_id, open_now).parted(open_now)
        found = Wanted(keys=[*keys, *taken], again=frozenset(taken), selection=selection, chosen=chosen or Chosen())
        return found if again else replace(found, lacking=self.lacking(truth, found.chosen, selection))

    def lacking(
        self, truth: Truth, chosen: Chosen, selection: Selection, *, live: bool = False
    ) -> dict[Key, AbstractSet[str]]:
        """Return the scored conversations that some of the evaluators, by evaluation id, were not run on yet."""
        under = self._in_force(truth, chosen)
        with self._store.read() as con:
            found = lacking(con, truth.evaluation.evaluation_id, under.judged, selection, live=live)
            sample = sample_of(con, self._sampling, truth.evaluation.evaluation_id, list(found))
        return {key: ids for key, ids in found.items() if sample.takes(key)}

    def never_scored(self) -> Wanted:
        """Return the closed conversations whose newest revision no evaluation has scored."""
        with self._store.read() as con:
            return Wanted(keys=never_scored(con))

    def match(self, truth: Truth, keys: Sequence[Key]) -> list[MatchedConversation]:
        """Return conversations with their cases and labels, by start time."""
        with self._store.read() as con:
            conversations = load_conversations(con, keys)
        labels = [truth.labels.get(str(conversation.conversation_id)) for conversation in conversations]
        return [
            MatchedConversation(conversation=conversation, match=truth.index.match(conversation, label), label=label)
            for conversation, label in zip(conversations, labels, strict=True)
        ]

    def _begun(self, truth: Truth, selection: Selection | None, con: Connection) -> None:
        """Remember that an evaluation runs; where a ratio was raised since, the scores that are there count by it."""
        save_evaluation(con, truth.evaluation, self._store.clock())
        if selection is not None:
            raise_ratios(con, truth.evaluation.evaluation_id, selection, partial(ratio_of, self._sampling))
