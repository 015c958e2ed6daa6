"""Stored conversations -> stored scores, under the evaluator version in force."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

from otel_agentic import plugins
from otel_agentic.scoring import MatchedConversation, evaluator_version, score_conversations, truth_version
from otel_agentic.store.conversations import load_conversations
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
from otel_agentic.truth import CaseIndex, parse_cases, parse_labels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_agentic.config import JudgeSettings, ScoringSettings
    from otel_agentic.judges import Judge
    from otel_agentic.pipeline.rebuild import Key
    from otel_agentic.store import Store
    from otel_agentic.store.database import Connection
    from otel_agentic.truth import Label

#: Conversations scored and written at once.
_CHUNK = 500


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
class Evaluated:
    """What an evaluation did: how many conversations it scored, how many of them had a score before, with what result."""

    evaluation_id: str
    scored: int
    restated: int
    outcomes: Mapping[str, int]
    reasons: Mapping[str, int]
    warnings: tuple[str, ...]


class Evaluating:
    """Matches and scores conversations; remembers cases and labels."""

    def __init__(self, store: Store, settings: ScoringSettings, judging: JudgeSettings) -> None:
        self._store = store
        self._settings = settings
        self._judging = judging
        self._truth: Truth | None = None

    @cached_property
    def _judge(self) -> Judge:
        name, colon, argument = self._settings.judge.partition(":")
        judge: Judge = plugins.get("judges", name).load().from_settings(self._judging, argument if colon else None)
        return judge

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
            evaluation_id=evaluator_version(self._judge, self._settings, truth),
            judge=self._judge.name,
            judge_version=self._judge.version,
            settings_json=self._settings.model_dump_json(),
            truth_version=truth,
        )
        return Truth(index=CaseIndex(cases), labels=labels, judge=self._judge, evaluation=evaluation)

    def evaluate(self, truth: Truth, keys: Sequence[Key], done: OnScored = lambda *_: None) -> Evaluated:
        """Score conversations and store the scores, part by part: what is done stays done.

        Args:
            truth: from `truth`.
            keys: conversations, see `wanted`.
            done: told of each part once it is stored, and which of it had a score before.
        """
        evaluation_id = truth.evaluation.evaluation_id
        self._store.write(lambda con: save_evaluation(con, truth.evaluation, self._store.clock()))
        outcomes: Counter[str] = Counter()
        reasons: Counter[str] = Counter()
        warnings: set[str] = set()
        with self._store.read() as con:
            restated = scored_before(con, keys)
        for start in range(0, len(keys), _CHUNK):
            part = self._score(truth, keys[start : start + _CHUNK])
            self._store.write(
                partial(save_scores, evaluation_id=evaluation_id, scored=part, now_ns=self._store.clock())
            )
            outcomes.update(item.score.outcome for item in part)
            reasons.update(item.score.reason for item in part if item.score.reason is not None)
            warnings.update(item.match.warning for item in part if item.match.warning is not None)
            done(part, restated)
        return Evaluated(
            evaluation_id=evaluation_id,
            scored=outcomes.total(),
            restated=len(restated),
            outcomes=outcomes,
            reasons=reasons,
            warnings=tuple(sorted(warnings)),
        )

    def wanted(self, truth: Truth, selection: Selection, *, again: bool = False) -> list[Key]:
        """Return the closed conversations of a selection that have no score under this truth, or all of them."""
        with self._store.read() as con:
            return to_score(con, truth.evaluation.evaluation_id, selection, again=again)

    def never_scored(self) -> list[Key]:
        """Return the closed conversations whose newest revision no evaluation has scored."""
        with self._store.read() as con:
            return never_scored(con)

    def _score(self, truth: Truth, keys: Sequence[Key]) -> list[Scored]:
        with self._store.read() as con:
            conversations = load_conversations(con, keys)
        labels = [truth.labels.get(str(conversation.conversation_id)) for conversation in conversations]
        matches = [
            truth.index.match(conversation, label) for conversation, label in zip(conversations, labels, strict=True)
        ]
        matched = [
            MatchedConversation(conversation=conversation, match=match, label=label)
            for conversation, match, label in zip(conversations, matches, labels, strict=True)
        ]
        scores = score_conversations(matched, judge=truth.judge, settings=self._settings)
        return [
            Scored(conversation=conversation, match=match, score=score)
            for conversation, match, score in zip(conversations, matches, scores, strict=True)
        ]


def _labels_version(labels: Mapping[str, Label]) -> str:
    """Return the content hash of some labels, whatever files they came from."""
    said = sorted((label.conversation_id, label.case_id, label.verdict) for label in labels.values())
    return hashlib.blake2b(repr(said).encode(), digest_size=8).hexdigest()
