"""Ground truth: the files it comes from, and the active cases and labels with the evaluation that they make."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from otel_agentic.errors import UsageError
from otel_agentic.scoring import evaluator_version, truth_version
from otel_agentic.store.judges import locations_of
from otel_agentic.store.scores import Evaluation
from otel_agentic.truth import CaseIndex, parse_cases, parse_labels
from otel_agentic.truth.load import redacted_case, redacted_labels

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_agentic.config import MatchingSettings, ScoringSettings
    from otel_agentic.judges import Judge
    from otel_agentic.store import Store
    from otel_agentic.truth import Case, Label
    from otel_agentic.truth.load import Redacts

#: Maximum number of labels named in a message.
_MOST_NAMED: Final = 5
#: Allowed names of evaluations.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TruthFile:
    """A file of ground truth as passed by its reader: the name for messages, and the text."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """The active cases and labels, and the evaluation that they make with a judge and settings."""

    index: CaseIndex
    labels: Mapping[str, Label]
    judge: Judge
    evaluation: Evaluation

    def named(self, name: str) -> Truth:
        """Return the same truth for a named evaluation, whose scores are stored alongside those of other evaluations.

        Raises:
            UsageError: the name is not allowed.
        """
        if name == self.evaluation.name:
            return self
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"evaluation {name!r}: a name has at most 64 letters, digits and any of . _ - : after a letter or digit"
            )
        content = f"{name}\0{self.evaluation.evaluation_id}"
        evaluation_id = hashlib.sha256(content.encode()).hexdigest()[: len(self.evaluation.evaluation_id)]
        return replace(self, evaluation=replace(self.evaluation, name=name, evaluation_id=evaluation_id))


def cases_of(file: TruthFile, redacts: Redacts) -> tuple[Case, ...]:
    """Return the cases of a file, redacted.

    Raises:
        CaseError: the file has problems; the message lists them all.
    """
    return tuple(redacted_case(case, redacts) for case in parse_cases(file.name, file.text).require())


def labels_of(file: TruthFile, redacts: Redacts, reward_threshold: float) -> Mapping[str, Label]:
    """Return the labels of a file by conversation id, redacted.

    Raises:
        CaseError: the file has problems; the message lists them all.
    """
    labels = parse_labels(file.name, file.text, reward_threshold=reward_threshold).require()
    return redacted_labels(labels, redacts)


def make_truth(
    cases: Sequence[Case],
    labels: Mapping[str, Label],
    *,
    judge: Judge,
    settings: ScoringSettings,
    matching: MatchingSettings,
) -> Truth:
    """Return the ground truth that cases and labels make with a judge and settings."""
    version = f"{truth_version(cases)}-{_labels_version(labels)}"
    evaluation = Evaluation(
        evaluation_id=evaluator_version(judge, settings, f"{version}-{matching.model_dump_json()}"),
        judge=judge.name,
        judge_version=judge.version,
        settings_json=settings.model_dump_json(),
        truth_version=version,
    )
    return Truth(index=CaseIndex(cases, matching), labels=labels, judge=judge, evaluation=evaluation)


def _labels_version(labels: Mapping[str, Label]) -> str:
    """Return the content hash of labels, independent of their files."""
    rows = sorted((label.conversation_id, label.case_id, label.verdict) for label in labels.values())
    return hashlib.blake2b(repr(rows).encode(), digest_size=8).hexdigest()


def unknown_labels(store: Store, files: Sequence[TruthFile]) -> Iterator[str]:
    """Yield a message about labels whose conversation is not in the store; the labels are stored nevertheless.

    Args:
        store: the store.
        files: valid label files, as checked by `EvaluationRunner.remember`.
    """
    names = [name for file in files for name in parse_labels(file.name, file.text).labels]
    redacted: list[str] = [store.redacting.value(name) for name in names]
    with store.read() as con:
        known = locations_of(con, redacted)
    unknown = sorted({name for name in redacted if name not in known})
    if unknown:
        more = f" and {len(unknown) - _MOST_NAMED:,} more" if len(unknown) > _MOST_NAMED else ""
        listed = ", ".join(repr(name) for name in unknown[:_MOST_NAMED]) + more
        labels = "1 label waits" if len(unknown) == 1 else f"{len(unknown):,} labels wait"
        yield f"{labels} for a conversation that is not in the store: {listed}"
