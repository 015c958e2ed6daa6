"""The scope of an evaluation: active ground truth, and sampling of conversations.

If evaluating all conversations costs too much, a hash of the conversation key selects those that are evaluated. A
conversation has a fixed position in [0, 1) and is included if its position is below the ratio. Therefore a conversation
is included or excluded as a whole, the decision needs no memory, and a higher ratio only adds conversations.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from otel_agentic.errors import CaseError, UsageError
from otel_agentic.evaluators.registry import Chosen
from otel_agentic.scoring import ConversationScore, MatchedConversation, evaluator_version, truth_version
from otel_agentic.store.conversations import conversations_named, shared_id_message
from otel_agentic.store.judges import locations_of
from otel_agentic.store.results import Recorded, recorded_ratios
from otel_agentic.store.scores import Evaluation
from otel_agentic.store.table import Scored
from otel_agentic.truth import Case, CaseIndex, Label, parse_cases, parse_labels
from otel_agentic.truth.load import Redacts, redacted_case, redacted_labels

if TYPE_CHECKING:
    from otel_agentic.config import MatchingSettings, SamplingSettings, ScoringSettings
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.judges import Judge
    from otel_agentic.store import Store
    from otel_agentic.store.connection import Connection
    from otel_agentic.store.table import Key
    from otel_agentic.truth.annotations import ResolvedVerdict

#: Maximum number of labels named in a message.
_MAX_NAMED: Final = 5
#: Allowed names of evaluations.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")


#: The warning of a collector without ground truth: it receives and rebuilds, and computes no outcome.
NO_CASES: Final = (
    "no cases are loaded, so no outcome can be computed: set truth.cases in the settings, start with --cases FILE, or run "
    "`otel-agentic truth import FILE`"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TruthFile:
    """A file of ground truth as passed by its reader: the name for messages, and the text."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotations:
    """The active cases and labels, which conversations are matched with.

    `verdicts` are those that people gave to single conversations, `mappings` the cases that they chose for them.
    """

    index: CaseIndex
    labels: Mapping[str, Label]
    verdicts: Mapping[Key, ResolvedVerdict] = field(default_factory=dict)
    mappings: Mapping[Key, str] = field(default_factory=dict)

    def are(self, other: Annotations) -> bool:
        """Return whether these are the same objects, and not only equal ones."""
        return all(getattr(self, item.name) is getattr(other, item.name) for item in fields(Annotations))

    def matched(self, conversations: Iterable[Conversation]) -> list[MatchedConversation]:
        """Return conversations with their cases and labels."""
        labelled = ((conversation, self.label_of(conversation.key)) for conversation in conversations)
        return [
            MatchedConversation(conversation=conversation, match=self.index.match(conversation, label), label=label)
            for conversation, label in labelled
        ]

    def label_of(self, key: Key) -> Label | None:
        """Return the label of a conversation with the verdict and the case that take precedence, or None."""
        label, verdict, case_id = self.labels.get(key[1]), self.verdicts.get(key), self.mappings.get(key)
        if verdict is not None:
            label = verdict.applied_to(label)
        if case_id is None:
            return label
        label = label or Label(conversation_id=key[1], case_id=None, verdict=None, line=0)
        return replace(label, case_id=case_id, case_method="person")


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth(Annotations):
    """The active cases and labels, and the evaluation that they define together with a judge and settings.

    `deciding` are the evaluators of criteria. Verdicts and mappings are no part of the evaluation's identity: a new one
    changes only the score of its conversation.
    """

    judge: Judge
    evaluation: Evaluation
    deciding: Chosen = Chosen()  # noqa: RUF009 — frozen

    @property
    def annotations(self) -> Annotations:
        """What conversations are matched with, without the evaluation."""
        return Annotations(index=self.index, labels=self.labels, verdicts=self.verdicts, mappings=self.mappings)

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
    deciding: Chosen = Chosen(),  # noqa: B008 — frozen
) -> Truth:
    """Return the ground truth that cases and labels define together with a judge, settings and deciding evaluators."""
    version = f"{truth_version(cases)}-{_labels_version(labels)}"
    versions = "".join(f"-{evaluator.name}={evaluator.version}" for evaluator in deciding.evaluators)
    evaluation = Evaluation(
        evaluation_id=evaluator_version(judge, settings, f"{version}-{matching.model_dump_json()}{versions}"),
        judge=judge.name,
        judge_version=judge.version,
        settings_json=settings.model_dump_json(),
        truth_version=version,
    )
    return Truth(index=CaseIndex(cases, matching), labels=labels, judge=judge, evaluation=evaluation, deciding=deciding)


def _labels_version(labels: Mapping[str, Label]) -> str:
    """Return the content hash of labels, independent of their files."""
    rows = sorted((label.conversation_id, label.case_id, label.verdict) for label in labels.values())
    return hashlib.blake2b(repr(rows).encode(), digest_size=8).hexdigest()


def check_labels(store: Store, files: Sequence[TruthFile]) -> None:
    """Check that each label fits one conversation, or one in each environment.

    Raises:
        CaseError: several conversations share the id of a label; the message lists them.
    """
    problems = []
    for file in files:
        labels = {
            store.redacting.value(name): label for name, label in parse_labels(file.name, file.text).labels.items()
        }
        with store.read() as con:
            named = conversations_named(con, labels)
        for name, keys in named.items():
            if len({own_name for _, own_name in keys}) > 1:
                problems.append(f"{file.name}:{labels[name].line}: {shared_id_message(name, keys)}")
    if problems:
        raise CaseError("\n".join(problems))


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
        more = f" and {len(unknown) - _MAX_NAMED:,} more" if len(unknown) > _MAX_NAMED else ""
        listed = ", ".join(repr(name) for name in unknown[:_MAX_NAMED]) + more
        labels = "1 label waits" if len(unknown) == 1 else f"{len(unknown):,} labels wait"
        yield f"{labels} for a conversation that is not in the store: {listed}"


#: Personalization of the hash, so that sampling does not correlate with other decisions by a hash of the same key.
_PURPOSE: Final = b"sampling"
#: Excluded conversations matched and stored in one batch.
_PORTION: Final = 500
_EXCLUDED_EXPLANATION: Final = "not evaluated: excluded by sampling"


def position_of(key: Key) -> float:
    """Return the position of a conversation in [0, 1), the same in every process and version.

    >>> round(position_of(("production", "conv-1")), 6)
    0.940517
    """
    digest = hashlib.blake2b("\0".join(key).encode("utf-8", "surrogatepass"), digest_size=8, person=_PURPOSE).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53  # 53 bits fit a float exactly, so 1.0 is never reached


def in_order_of_position(keys: Iterable[Key]) -> list[Key]:
    """Return conversations in the order in which the judge's budget is spent on them.

    The order is independent of time and subject, so the conversations judged before the budget was exhausted are a
    random sample of all.
    """
    return sorted(keys, key=position_of)


def ratio_of(settings: SamplingSettings, agent: str | None) -> float:
    """Return the share of an agent's conversations that is evaluated.

    >>> from otel_agentic.config import SamplingSettings
    >>> settings = SamplingSettings(ratio=0.5, agents={"support-*": 0.1, "*": 0.2})
    >>> ratio_of(settings, "support-eu"), ratio_of(settings, "sales"), ratio_of(settings, None)
    (0.1, 0.2, 0.5)
    """
    if agent is not None:
        for pattern, ratio in settings.agents.items():
            if fnmatchcase(agent, pattern):
                return ratio
    return settings.ratio


def takes_all(settings: SamplingSettings) -> bool:
    """Return whether every conversation is evaluated, for every agent.

    >>> from otel_agentic.config import SamplingSettings
    >>> takes_all(SamplingSettings()), takes_all(SamplingSettings(agents={"sales": 0.5}))
    (True, False)
    """
    return settings.ratio == 1.0 and all(ratio == 1.0 for ratio in settings.agents.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The conversations that are included, and the ratio of each.

    The ratio is the higher of the current ratio and the ratio recorded under the same evaluation. Therefore an included
    conversation stays included if the setting is lowered or a new revision arrives.

    Attributes:
        settings: the current ratios.
        recorded: the recorded ratio by conversation; empty if all conversations are included.
    """

    settings: SamplingSettings
    recorded: Mapping[Key, Recorded]

    def ratio(self, key: Key) -> float:
        """Return the share of conversations of the same agent that is evaluated."""
        known = self.recorded.get(key)
        if known is None:
            return 1.0 if takes_all(self.settings) else ratio_of(self.settings, None)
        return max(ratio_of(self.settings, known.agent), known.ratio or 0.0)

    def takes(self, key: Key) -> bool:
        """Return whether a conversation is evaluated."""
        ratio = self.ratio(key)
        return ratio >= 1.0 or position_of(key) < ratio

    def parted(self, keys: Sequence[Key]) -> tuple[list[Key], list[Key]]:
        """Return the included conversations, and the excluded ones whose exclusion is not recorded in a score yet."""
        included = {key: self.takes(key) for key in keys}
        unrecorded = [
            key for key in keys if not included[key] and not (key in self.recorded and self.recorded[key].scored)
        ]
        return [key for key in keys if included[key]], unrecorded

    def of(self, keys: Iterable[Key]) -> Sample:
        """Return the sample with the recorded ratios of some conversations only."""
        return replace(self, recorded={key: self.recorded[key] for key in keys if key in self.recorded})

    def marked(self, scored: Sequence[Scored]) -> list[Scored]:
        """Return scores with their sampling ratios."""
        return [
            item if (ratio := self.ratio(item.conversation.key)) == 1.0 else replace(item, sample_ratio=ratio)
            for item in scored
        ]


def sample_of(con: Connection, settings: SamplingSettings, evaluation_id: str, keys: Sequence[Key]) -> Sample:
    """Return the sample of conversations under an evaluation."""
    recorded = {} if takes_all(settings) else recorded_ratios(con, evaluation_id, keys)
    return Sample(settings=settings, recorded=recorded)


def left_out(
    keys: Sequence[Key], match: Callable[[Sequence[Key]], list[MatchedConversation]], stop: Callable[[], bool]
) -> Iterator[list[Scored]]:
    """Yield the scores of excluded conversations in batches, until `stop` returns True.

    They are matched, because the cases and tags of the whole sampled population must be known.
    """
    for start in range(0, len(keys), _PORTION):
        if stop():
            return
        matched = match(keys[start : start + _PORTION])
        yield [
            Scored(conversation=item.conversation, match=item.match, score=_excluded_score(item)) for item in matched
        ]


def _excluded_score(matched: MatchedConversation) -> ConversationScore:
    """Return the score of an excluded conversation: not evaluated."""
    conversation, match = matched.conversation, matched.match
    case = match.case
    return ConversationScore(
        environment=conversation.environment,
        conversation_id=str(conversation.conversation_id),
        revision=conversation.revision,
        case_id=case.case_id if case else None,
        dataset=case.dataset if case else None,
        case_version=case.version if case else None,
        match_method=match.method,
        match_confidence=match.confidence,
        warning=match.warning,
        outcome="not_evaluated",
        reason="sampled_out",
        outcome_source="computed",
        computed_outcome="not_evaluated",
        computed_reason="sampled_out",
        answer_outcome="not_evaluated",
        tool_outcome="not_evaluated",
        both_outcome="not_evaluated",
        turns=(),
        tools=(),
        missing_outputs=(),
        explanation=_EXCLUDED_EXPLANATION,
    )
