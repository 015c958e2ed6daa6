"""Mappings of conversations to cases by people: the cases to choose from, and the choice with its effect.

A choice is an annotation of the conversation. It takes precedence over all other methods of matching, and changes only the
scores of the mapped conversations, which are evaluated again immediately.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from otel_agentic.errors import BadInputError, UsageError
from otel_agentic.reports.corrections import Reevaluation, evaluate_again
from otel_agentic.reports.promotion import clusters_of
from otel_agentic.store.annotations import add_annotations, annotations_on, new_annotation_id, retract
from otel_agentic.store.queries.conversations import Candidate, candidates, only_conversation, unknown_conversation
from otel_agentic.store.table import Selection
from otel_agentic.truth.annotations import CASE, Annotation, AnnotationTarget
from otel_agentic.truth.values import normalise

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from otel_agentic.evaluation.run import OnScored
    from otel_agentic.scoring.outcome import MatchedConversation
    from otel_agentic.store.connection import Connection
    from otel_agentic.store.table import Key
    from otel_agentic.truth import Case
    from otel_agentic.truth.match import Match

#: Maximum number of similar conversations that are mapped at once, the newest first.
MAX_MAPPED: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A conversation that a person maps to a case, and where others like it are searched.

    Attributes:
        conversation_id: the conversation.
        conversation_environment: its environment, if several have a conversation with this id.
        selection: the conversations among which others like it are searched.
        asks: of these, only conversations with a query that contains this text.
        exact: the id and the environment are its identity; see `only_conversation`.
    """

    conversation_id: str
    conversation_environment: str | None = None
    exact: bool = False
    selection: Selection = field(default_factory=Selection)
    asks: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A case to choose, its similarity to the queries of the conversation, and whether a method of matching names it."""

    case: Case
    similarity: float
    fits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """A conversation, its match by the current cases, the cases to choose from and the conversations like it.

    `similar` are the other closed conversations of its cluster, the newest first.
    """

    conversation: MatchedConversation
    mapped_by: str | None
    cases: list[Choice]
    similar: list[Candidate]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    """The case to which conversations were mapped (None if the choice was withdrawn), their number, and the effect."""

    case: Case | None
    mapped: int
    left_out: int
    outcomes: Reevaluation


def choices(engine: Engine, subject: Subject, *, text: str | None) -> Choices:
    """Return the cases to which a conversation may be mapped, the most similar first.

    Args:
        engine: the store and its resources.
        subject: the conversation.
        text: only cases that contain it in their id or in a query.

    Raises:
        BadInputError: the conversation is not in the store, or several have the id.
    """
    key, item = _matched(engine, subject)
    ranked = engine.runner.truth().index.similar(
        [turn.query for turn in item.conversation.turns], item.conversation.agent_name
    )
    named = _named(item.match)
    listed = [
        Choice(case=case, similarity=similarity, fits=not named.isdisjoint({case.case_id, _name(case)}))
        for case, similarity in ranked
        if text is None or _contains(case, normalise(text))
    ]
    with engine.store.read() as con:
        annotations = annotations_on(con, _target(key))
        similar = _similar(con, key, item.match, subject)
    return Choices(
        conversation=item,
        mapped_by=annotations[-1].annotator if annotations else None,
        cases=sorted(listed, key=lambda choice: not choice.fits),
        similar=[candidate for candidate in similar if candidate.key != key],
    )


def map_to_case(
    engine: Engine, subject: Subject, case_name: str | None, *, annotator: str, similar: bool, on_scored: OnScored
) -> Mapped:
    """Map a conversation to a case and evaluate it; without a case, withdraw the choice that people made for it.

    Args:
        engine: the store and its resources.
        subject: the conversation.
        case_name: the case, as `case_id` or `dataset/case_id`.
        annotator: the person.
        similar: also map the conversations of its cluster; see `Choices`.
        on_scored: see `EvaluationRunner.evaluate`.

    Raises:
        BadInputError: the conversation is not in the store or is not mapped, no case has the name, or it is for another agent.
        UsageError: cases of several datasets have the name.
    """
    key, item = _matched(engine, subject)
    chosen = engine.runner.chosen  # raises before anything is stored
    case = None if case_name is None else _case_named(engine, case_name, item)
    keys = [key]
    with engine.store.read() as con:
        if similar:
            others = _similar(con, key, item.match, subject)
            keys += [candidate.key for candidate in others if candidate.key != key and _is_for(case, candidate)]
        annotated = annotations_on(con, _target(key))
    mapped, now_ns = keys[:MAX_MAPPED], engine.clock()
    if case is None:
        if not annotated:
            raise BadInputError(f"conversation {key[1]!r} is not mapped to a case by a person")
        engine.store.write(lambda con: retract(con, annotated, now_ns))
    else:
        name = _name(case)
        engine.store.write(
            lambda con: add_annotations(con, [_annotation(key, name, annotator, now_ns) for key in mapped])
        )
    engine.runner.forget_truth()
    closed = mapped if item.conversation.closed_by is not None else mapped[1:]
    return Mapped(
        case=case,
        mapped=len(mapped),
        left_out=len(keys) - len(mapped),
        outcomes=evaluate_again(engine, closed, chosen, on_scored),
    )


def _matched(engine: Engine, subject: Subject) -> tuple[Key, MatchedConversation]:
    """Return the identity of a conversation, and its match by the current ground truth."""
    with engine.store.read() as con:
        name = engine.store.redacting.value(subject.conversation_id)
        key = only_conversation(con, name, subject.conversation_environment, exact=subject.exact)
    for item in engine.runner.match(engine.runner.truth(), [key]):
        return key, item
    raise BadInputError(unknown_conversation(key[1]))


def _similar(con: Connection, key: Key, match: Match, subject: Subject) -> list[Candidate]:
    """Return the closed conversations that begin like a conversation without a case and lack a case for the same reason."""
    if match.reason is None:
        return []
    unmatched = {
        candidate.key: candidate
        for candidate in candidates(con, subject.selection, kind=match.reason, text=subject.asks)
        if not candidate.open
    }
    for cluster in clusters_of(unmatched.values()):
        keys = [(member.environment, member.conversation_id) for member in cluster.members]
        if key in keys and cluster.query is not None:
            return [unmatched[member] for member in keys]
    return []


def _case_named(engine: Engine, name: str, item: MatchedConversation) -> Case:
    agent = item.conversation.agent_name
    cases = [case for case in engine.runner.truth().index if name in {case.case_id, _name(case)}]
    if not cases:
        raise BadInputError(f"no current case {name!r}; `otel-agentic truth list` lists the cases")
    if len(cases) > 1:
        names = ", ".join(repr(_name(case)) for case in cases)
        raise UsageError(f"case {name!r} is in several datasets: choose one of {names}")
    if not cases[0].is_for(agent):
        raise BadInputError(f"case {name!r} is for agent {cases[0].agent!r}, not for {agent!r}")
    return cases[0]


def _is_for(case: Case | None, candidate: Candidate) -> bool:
    return case is not None and case.is_for(candidate.agent)


def _named(match: Match) -> set[str]:
    """Return the names of the cases that a method of matching found, or that the text suggests."""
    suggested = () if match.suggestion is None else (_name(match.suggestion.case),)
    matched = () if match.case is None else (_name(match.case),)
    return {*match.candidates, *matched, *suggested} if match.case is None else set(matched)


def _contains(case: Case, text: str) -> bool:
    parts: Sequence[str | None] = (_name(case), *(turn.query for turn in case.turns))
    return any(text in normalise(part) for part in parts if part is not None)


def _name(case: Case) -> str:
    return f"{case.dataset}/{case.case_id}"


def _target(key: Key) -> AnnotationTarget:
    return AnnotationTarget(environment=key[0], conversation_id=key[1], turn_index=None, position=None, name=CASE)


def _annotation(key: Key, case_name: str, annotator: str, now_ns: int) -> Annotation:
    return Annotation(
        annotation_id=new_annotation_id(),
        annotator=annotator,
        source="person",
        environment=key[0],
        conversation_id=key[1],
        name=CASE,
        case_id=case_name,
        decides=True,
        annotated_ns=now_ns,
    )
