"""Stored conversations -> stored scores, under the evaluator version in force."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

from otel_agentic.judges.choose import judge_named
from otel_agentic.pipeline.judging import Judging
from otel_agentic.pipeline.tally import Outcomes
from otel_agentic.scoring import MatchedConversation, evaluator_version, truth_version
from otel_agentic.store.conversations import load_conversations
from otel_agentic.store.judge_budget import DuckDbBudget
from otel_agentic.store.scores import (
    Evaluation,
    Scored,
    Selection,
    never_scored,
    save_evaluation,
    save_scores,
    scored_before,
    to_score,
)
from otel_agentic.store.truth import load_cases, load_labels, save_cases, save_labels
from otel_agentic.store.unsettled import result_of, stored_results, unsettled
from otel_agentic.truth import CaseIndex, parse_cases, parse_labels
from otel_agentic.truth.fuzzy import FuzzyRule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_agentic.config import JudgeSettings, ScoringSettings
    from otel_agentic.judges import Judge
    from otel_agentic.pipeline.rebuild import Key
    from otel_agentic.pipeline.tally import Evaluated
    from otel_agentic.store import Store
    from otel_agentic.store.database import Connection
    from otel_agentic.truth import Label

#: Told of conversations whose scores were just stored, and which of them had a score before.
OnScored = Callable[[Sequence[Scored], AbstractSet["Key"]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TruthFile:
    """A file of ground truth as its reader handed it over: the name for messages, and the text."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """The cases and labels in force, and the evaluation that they make with judge and settings."""

    index: CaseIndex
    labels: Mapping[str, Label]
    judge: Judge
    evaluation: Evaluation


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Conversations to be scored, oldest first; `again` are those whose score waits for the judge."""

    keys: Sequence[Key]
    again: AbstractSet[Key] = frozenset()


class Evaluating:
    """Matches and scores conversations; remembers cases and labels."""

    def __init__(self, store: Store, settings: ScoringSettings, judging: JudgeSettings) -> None:
        self._store = store
        self._settings = settings
        self._judging = judging
        self._truth: Truth | None = None

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

    def judging(self, stop: Callable[[], bool] = lambda: False) -> Judging:
        """Return a way to score with the judge; close it. Once `stop` says so, the judge is asked nothing new."""
        return Judging(self._store, self.judge, self.budget, scoring=self._settings, settings=self._judging, stop=stop)

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
        read_cases = [(file.name, parse_cases(file.name, file.text).require()) for file in cases]
        threshold = self._settings.reward_threshold
        read_labels = [
            (file.name, parse_labels(file.name, file.text, reward_threshold=threshold).require()) for file in labels
        ]
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
        truth = f"{truth_version(cases)}-{_labels_version(labels)}"
        evaluation = Evaluation(
            evaluation_id=evaluator_version(self.judge, self._settings, truth),
            judge=self.judge.name,
            judge_version=self.judge.version,
            settings_json=self._settings.model_dump_json(),
            truth_version=truth,
        )
        return Truth(
            index=CaseIndex(cases, FuzzyRule.of(self._settings)), labels=labels, judge=self.judge, evaluation=evaluation
        )

    def evaluate(
        self,
        truth: Truth,
        wanted: Wanted,
        done: OnScored = lambda *_: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Evaluated:
        """Score conversations and store the scores, part by part: what is done stays done.

        Args:
            truth: from `truth`.
            wanted: which conversations, see `wanted`.
            done: told of each part once it is stored, and which of it had a score before.
            stop: once it says so, nothing new is begun; what the judge is asked already is waited for and kept.
        """
        evaluation_id = truth.evaluation.evaluation_id
        self._store.write(lambda con: save_evaluation(con, truth.evaluation, self._store.clock()))
        with self._store.read() as con:
            restated = scored_before(con, wanted.keys)
        found = Outcomes()
        with self.judging(stop) as judging:
            for scored in judging.scored(wanted.keys, partial(self.match, truth)):
                part = self._changed(evaluation_id, scored, wanted.again)
                self._store.write(
                    partial(save_scores, evaluation_id=evaluation_id, scored=part, now_ns=self._store.clock())
                )
                found.add(part, restated, unchanged=len(scored) - len(part))
                done(part, restated)
        return found.told(evaluation_id, judging.tally)

    def wanted(self, truth: Truth, selection: Selection, *, again: bool = False) -> Wanted:
        """Return the closed conversations of a selection that have no score under this truth, or all of them.

        A score that the judge left open, because it failed or was not asked, is no score.
        """
        with self._store.read() as con:
            keys = to_score(con, truth.evaluation.evaluation_id, selection, again=again)
            open_now = [] if again else unsettled(con, truth.evaluation.evaluation_id, selection)
        return Wanted(keys=[*keys, *open_now], again=frozenset(open_now))

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

    def _changed(self, evaluation_id: str, scored: Sequence[Scored], again: AbstractSet[Key]) -> list[Scored]:
        """Return what says more than before: a score that waits for the judge, and waits on, is no news."""
        keys = {key for item in scored if (key := (item.score.environment, item.score.conversation_id)) in again}
        with self._store.read() as con:
            before = stored_results(con, evaluation_id, keys)
        return [
            item
            for item in scored
            if before.get((item.score.environment, item.score.conversation_id)) != result_of(item.score)
        ]


def _labels_version(labels: Mapping[str, Label]) -> str:
    """Return the content hash of some labels, whatever files they came from."""
    said = sorted((label.conversation_id, label.case_id, label.verdict) for label in labels.values())
    return hashlib.blake2b(repr(said).encode(), digest_size=8).hexdigest()
