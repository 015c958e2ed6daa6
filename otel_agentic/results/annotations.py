"""Results of commands on annotations."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """The verdict of one annotator, pass or fail."""

    annotator: str
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedLabel:
    """A recorded or withdrawn annotation and its effect.

    `active_verdict` is the verdict of people that counts, None if they disagree (`disagree`) or gave none. `outcome` is
    the outcome of the conversation after it was scored again (`rescored`); otherwise `note` has the reason, if the
    annotation may change an outcome.
    """

    annotation_id: str | None
    annotator: str
    environment: str
    conversation_id: str
    turn: int | None
    call: int | None
    name: str
    verdict: str | None
    retracted: int
    votes: list[Vote]
    active_verdict: str | None
    active_source: str | None
    disagree: bool
    rescored: bool
    outcome: str | None
    outcome_source: str | None
    computed_outcome: str | None
    note: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedFeedback:
    """Recorded feedback of an end user on a conversation, or on one turn of it, counted from 1."""

    annotation_id: str
    environment: str
    conversation_id: str
    turn: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationRow:
    """A current annotation; turns and calls are counted from 1."""

    annotation_id: str
    annotator: str
    source: str
    environment: str
    conversation_id: str
    turn: int | None
    call: int | None
    name: str
    verdict: str | None
    value: float | None
    label: str | None
    note: str | None
    annotated_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotatorAgreement:
    """Agreement between annotators on `items` that two or more of them judged; None if it is undefined."""

    items: int
    annotators: list[str]
    disagreements: int
    agreement: float | None
    cohen_kappa: float | None
    alpha: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationList:
    """Annotations, the agreement of their annotators, and the number of targets on which no verdict counts."""

    annotations: list[AnnotationRow]
    agreement: AnnotatorAgreement
    without_verdict: int
