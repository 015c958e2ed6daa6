"""Annotations: what people and files recorded about conversations, turns and calls, and which verdict counts.

Several people may annotate the same target. An adjudicated verdict counts before theirs; without one, their verdict counts
only if all of them agree. The verdict `unsure` never counts, and neither does the feedback of end users.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from otel_agentic.truth.load import Label

AnnotationSource = Literal["person", "file", "event", "adjudication"]
AnnotationVerdict = Literal["pass", "fail", "unsure"]
#: The sources of verdicts that people give one conversation at a time.
VerdictOrigin = Literal["adjudication", "annotators"]

#: The name of annotations about a conversation as a whole, and of those about the answer of a turn.
CORRECT: Final = "correct"
ANSWER: Final = "answer"
#: The name of annotations that map a conversation to a case.
CASE: Final = "case"


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """One recorded annotation.

    Attributes:
        annotation_id: its id.
        annotator: name of the person, or of the file.
        source: the kind of annotator.
        environment: environment of the conversation; None if a labels file names the conversation by its id alone.
        conversation_id: the conversation.
        revision: its newest revision at that time; None if the conversation was not looked up.
        turn_index: 0-based; None for the conversation as a whole.
        position: 0-based position of a call in its turn; None for the turn or conversation as a whole.
        name: `CORRECT`, `ANSWER`, `CASE`, or the full name of a metric.
        verdict: None if only a case, a value or a label is recorded.
        value: value of the metric according to the annotator.
        label: label of the metric according to the annotator.
        case_id: case that the conversation is mapped to.
        decides: whether the verdict, or the case, may set the outcome of the conversation.
        random_sample: whether the annotated conversations were declared to be a random sample.
        note: comment.
        origin: file and line.
        annotated_ns: when it was recorded.
        retracts: id of the annotation that this one withdraws.
    """

    annotation_id: str
    annotator: str
    source: AnnotationSource
    conversation_id: str
    annotated_ns: int
    environment: str | None = None
    revision: int | None = None
    turn_index: int | None = None
    position: int | None = None
    name: str = CORRECT
    verdict: AnnotationVerdict | None = None
    value: float | None = None
    label: str | None = None
    case_id: str | None = None
    decides: bool = False
    random_sample: bool = False
    note: str | None = None
    origin: str | None = None
    retracts: str | None = None

    @property
    def target(self) -> AnnotationTarget:
        """The annotated conversation, turn or call, and the name of the annotation."""
        return AnnotationTarget(
            environment=self.environment,
            conversation_id=self.conversation_id,
            turn_index=self.turn_index,
            position=self.position,
            name=self.name,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationTarget:
    """A conversation, turn or call, and the name of the annotation; see `Annotation`."""

    environment: str | None
    conversation_id: str
    turn_index: int | None
    position: int | None
    name: str

    @property
    def sort_key(self) -> tuple[str, str, int, int, str]:
        """A key that sorts targets by conversation, turn, call and name."""
        turn = -1 if self.turn_index is None else self.turn_index
        call = -1 if self.position is None else self.position
        return (self.environment or "", self.conversation_id, turn, call, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedVerdict:
    """The verdict of people on one target: True for a pass, None if annotators disagree.

    `votes` are the annotators with a verdict, in order of their names, and their verdicts. `annotation` is the newest
    of the annotations that count.
    """

    verdict: bool | None
    source: VerdictOrigin
    votes: tuple[tuple[str, bool], ...]
    annotation: Annotation

    @property
    def target(self) -> AnnotationTarget:
        """The annotated conversation, turn or call."""
        return self.annotation.target

    def applied_to(self, label: Label | None) -> Label | None:
        """Return the label of the conversation with the verdict that takes precedence.

        A verdict from a labels file yields to an adjudication and takes precedence over annotators who agree.
        """
        if self.verdict is None or (self.source == "annotators" and label is not None and label.verdict is not None):
            return label
        case_id, line = (None, 0) if label is None else (label.case_id, label.line)
        return Label(
            conversation_id=self.target.conversation_id,
            case_id=case_id,
            verdict=self.verdict,
            line=line,
            source=self.source,
        )


def resolve(annotations: Iterable[Annotation]) -> dict[AnnotationTarget, ResolvedVerdict]:
    """Return the verdict of people on each target that has one, or on which they disagree.

    Args:
        annotations: the current annotations: at most one of each annotator and source on a target.

    >>> ana, ben = (Annotation(annotation_id=n, annotator=n, source="person", conversation_id="c", annotated_ns=1,
    ...                        verdict=v) for n, v in (("ana", "pass"), ("ben", "fail")))
    >>> [verdict.verdict for verdict in resolve([ana]).values()], [v.verdict for v in resolve([ana, ben]).values()]
    ([True], [None])
    """
    by_target: dict[AnnotationTarget, list[Annotation]] = {}
    for annotation in sorted(annotations, key=lambda item: (item.target.sort_key, item.annotated_ns)):
        if annotation.verdict in {"pass", "fail"} and annotation.source != "event":
            by_target.setdefault(annotation.target, []).append(annotation)
    return {target: _resolved(members) for target, members in by_target.items()}


def _resolved(annotations: Sequence[Annotation]) -> ResolvedVerdict:
    """Return the verdict on one target; the annotations are in order of time."""
    adjudicated = [item for item in annotations if item.source == "adjudication"][-1:]
    votes = {item.annotator: item.verdict == "pass" for item in annotations if item.source != "adjudication"}
    agreed = set(votes.values())
    if adjudicated:
        verdict: bool | None = adjudicated[0].verdict == "pass"
    else:
        verdict = next(iter(agreed)) if len(agreed) == 1 else None
    return ResolvedVerdict(
        verdict=verdict,
        source="adjudication" if adjudicated else "annotators",
        votes=tuple(sorted(votes.items())),
        annotation=(adjudicated or annotations)[-1],
    )


def votes_of(resolved: Iterable[ResolvedVerdict]) -> list[Mapping[str, bool]]:
    """Return the verdicts by annotator of each target that two or more people annotated."""
    return [dict(verdict.votes) for verdict in resolved if len(verdict.votes) > 1]
