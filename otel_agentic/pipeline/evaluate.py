"""Stored conversations -> stored scores, under the evaluator version in force."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING

from otel_agentic.config import SamplingSettings
from otel_agentic.judges.breaker import Breaker
from otel_agentic.judges.choose import judge_named
from otel_agentic.pipeline.judging import Judging
from otel_agentic.pipeline.sampling import left_out, ratio_of, sample_of
from otel_agentic.pipeline.tally import Outcomes
from otel_agentic.pipeline.truth_in_force import Truth, TruthFile, cases_of, labels_of, truth_made_of
from otel_agentic.scoring import MatchedConversation
from otel_agentic.store.conversations import load_conversations
from otel_agentic.store.judge_budget import DuckDbBudget
from otel_agentic.store.sampling import raise_ratios
from otel_agentic.store.scores import (
    Scored,
    Selection,
    never_scored,
    save_evaluation,
    save_scores,
    scored_before,
    to_score,
)
from otel_agentic.store.truth import load_cases, load_labels, save_cases, save_labels
from otel_agentic.store.unsettled import news, unsettled
from otel_agentic.truth import CaseIndex
from otel_agentic.truth.redact import redacted_case, redacted_labels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_agentic.config import JudgeSettings, ScoringSettings
    from otel_agentic.judges import Judge, JudgeFailure, Verdict
    from otel_agentic.pipeline.rebuild import Key
    from otel_agentic.pipeline.tally import Evaluated
    from otel_agentic.store import Store
    from otel_agentic.store.database import Connection
    from otel_agentic.truth import Case, Label

__all__ = ["Evaluating", "OnScored", "Truth", "TruthFile", "Wanted"]

#: Told of conversations whose scores were just stored, and which of them had a score before.
OnScored = Callable[[Sequence[Scored], AbstractSet["Key"]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Conversations to be scored, oldest first; `again` are those whose score waits for the judge.

    `selection` is what they were looked for in, None where they were not looked for in the store.
    """

    keys: Sequence[Key]
    again: AbstractSet[Key] = frozenset()
    selection: Selection | None = None


class Evaluating:
    """Matches and scores conversations; remembers cases and labels."""

    def __init__(
        self,
        store: Store,
        settings: ScoringSettings,
        judging: JudgeSettings,
        sampling: SamplingSettings = SamplingSettings(),  # noqa: B008 — frozen
    ) -> None:
        self._store = store
        self._settings = settings
        self._judging = judging
        self._sampling = sampling
        self._truth: Truth | None = None
        #: The truth of the evaluation that is under way, or was last.
        self.underway: Truth | None = None
        #: Told of each answer of the judge, also of those from the cache.
        self.heard: Callable[[Verdict | JudgeFailure], None] = lambda _: None

    @cached_property
    def judge(self) -> Judge:
        """The judge of the settings.

        Raises:
            PluginError: it is not installed or does not load.
            UsageError: its argument is not one that it takes.
        """
        return judge_named(self._settings.judge, self._judging)

    @cached_property
    def budget(self) -> DuckDbBudget:
        """What judges may spend on this store."""
        return DuckDbBudget(self._store, self._judging)

    @cached_property
    def breaker(self) -> Breaker:
        """What leaves the judge alone while it fails, whoever asks it."""
        return Breaker(self._judging, self.judge.name)

    def judging(self, stop: Callable[[], bool] = lambda: False, *, waits: bool = False) -> Judging:
        """Return a way to score with the judge; close it. Once `stop` says so, the judge is asked nothing new.

        With `waits`, a conversation is not scored for which a judge that is left alone was not asked.
        """
        return Judging(
            self._store,
            self.judge,
            self.budget,
            scoring=self._settings,
            settings=self._judging,
            stop=stop,
            heard=self.heard,
            breaker=self.breaker,
            waits=waits,
        )

    def close(self) -> None:
        """Close the judge, if one was made and can be closed."""
        close = getattr(self.__dict__.get("judge"), "close", None)
        if close is not None:
            close()

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
        return truth_made_of(cases, labels, judge=self.judge, settings=self._settings)

    def evaluate(
        self,
        truth: Truth,
        wanted: Wanted,
        done: OnScored = lambda *_: None,
        stop: Callable[[], bool] = lambda: False,
        *,
        waits: bool = False,
    ) -> Evaluated:
        """Score conversations and store the scores, part by part: what is done stays done.

        What sampling leaves out is stored as such, and nobody is asked about it.

        Args:
            truth: from `truth`.
            wanted: which conversations, see `wanted`.
            done: told of each part once it is stored, and which of it had a score before.
            stop: once it says so, nothing new is begun; what the judge is asked already is waited for and kept.
            waits: leave unscored what a judge that fails and is left alone was not asked about.
        """
        self.underway = truth
        evaluation_id = truth.evaluation.evaluation_id
        self._store.write(partial(self._begun, truth, wanted.selection))
        with self._store.read() as con:
            restated = scored_before(con, wanted.keys)
            sample = sample_of(con, self._sampling, evaluation_id, wanted.keys)
        match = partial(self.match, truth)
        taken, left = sample.parted(wanted.keys)
        found = Outcomes()
        with self.judging(stop, waits=waits) as judging:
            for scored in map(sample.marked, chain(left_out(left, match, stop), judging.scored(taken, match))):
                with self._store.read() as con:
                    part = news(con, evaluation_id, scored, wanted.again)
                self._store.write(
                    partial(save_scores, evaluation_id=evaluation_id, scored=part, now_ns=self._store.clock())
                )
                found.add(part, restated, unchanged=len(scored) - len(part))
                done(part, restated)
        return found.told(evaluation_id, judging.tally)

    def wanted(self, truth: Truth, selection: Selection, *, again: bool = False) -> Wanted:
        """Return the closed conversations of a selection that have no score under this truth, or all of them.

        A score that the judge left open, because it failed or was not asked, is no score; nor is one that sampling left
        out and would not leave out now.
        """
        with self._store.read() as con:
            keys = to_score(con, truth.evaluation.evaluation_id, selection, again=again)
            open_now = [] if again else unsettled(con, truth.evaluation.evaluation_id, selection)
            taken, _ = sample_of(con, self._sampling, truth.evaluation.evaluation_id, open_now).parted(open_now)
        return Wanted(keys=[*keys, *taken], again=frozenset(taken), selection=selection)

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
