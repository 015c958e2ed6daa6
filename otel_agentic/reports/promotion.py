"""Stored conversations -> draft cases: the failed conversations first, then those that match no case."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from otel_agentic.errors import BadInputError
from otel_agentic.store.conversations import load_conversations
from otel_agentic.store.queries.conversations import Candidate, candidates, unscored
from otel_agentic.store.selection import Selection
from otel_agentic.store.truth import load_cases
from otel_agentic.truth.match import queries_key
from otel_agentic.truth.promote import CaseIdentity, Cluster, Opening, cluster, draft_case

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from otel_agentic.engine.engine import Engine
    from otel_agentic.store.connection import Connection
    from otel_agentic.truth import Case

#: Characters kept of why a conversation failed: its whole story stands in the store.
_EXPLANATION_CHARACTERS: Final = 300
_SUSPECT: Final = "Its answers and calls are those of a failing run: correct them before you set `reviewed` to true."
_UNCHECKED: Final = "Its answers and calls are what the agent did: check them before you set `reviewed` to true."


def why(one: Candidate, known: Mapping[tuple[str, str], Case]) -> str:
    """Return why a conversation was promoted, for the notes of its case."""
    case = known.get((one.dataset or "", one.case_id or ""))
    against = f" case {one.case_id} of dataset {one.dataset}" if one.case_id else ""
    if one.outcome == "fail":
        told = f"Promoted because it failed{against} ({one.reason}): {_short(one.explanation or '')}. {_SUSPECT}"
    elif one.outcome == "pass":
        told = f"Promoted by name; it passed{against}."
    else:
        state = f"not evaluated ({one.reason})" if one.outcome else "not evaluated yet"
        told = f"Promoted by name; it was {state}. {_UNCHECKED}"
    same = case is not None and CaseIdentity.of(None, one.queries).queries == queries_key(t.query for t in case.turns)
    return f"{told} {_doubled(one)}" if same else told


def _doubled(one: Candidate) -> str:
    return f"Case {one.case_id} of dataset {one.dataset} has the same queries: keep one of the two."


def why_frequent(example: Candidate, found: Cluster, total: int) -> str:
    """Return why an unmatched conversation was promoted: how many of `total` begin like it."""
    alike = f"{found.size:,} of {total:,} unmatched conversations begin like it" if found.size > 1 else ""
    warning = f" Mind: {example.warning}." if example.warning else ""
    return f"Promoted because no case belongs to it{f'; {alike}' if alike else ''}.{warning} {_UNCHECKED}"


def _short(text: str) -> str:
    return text if len(text) <= _EXPLANATION_CHARACTERS else f"{text[: _EXPLANATION_CHARACTERS - 1]}…"


_CHUNK: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to promote: conversations by id, else the failing and the unmatched ones of a selection.

    With `tags`, a suite is built: cases bear them, and of a conversation that a reviewed case is in force for, that case is
    returned with them, in the place of a draft that nothing would be matched with.
    """

    conversation_ids: Sequence[str] = ()
    failing: bool = True
    unmatched: bool = True
    limit: int | None = None
    environment: str | None = None
    tags: tuple[str, ...] = ()
    selection: Selection = field(default_factory=Selection)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A conversation of which no case was made, why, and the case that there is of it already."""

    candidate: Candidate
    reason: str
    case: Case | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Promoted:
    """The drafts, what was left out, and how many conversations of the selection have no score yet.

    With tags, `tagged` are the cases in force that get them, each once.
    """

    cases: tuple[Case, ...]
    left_out: tuple[LeftOut, ...]
    unscored: int
    tagged: tuple[Case, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Conversations that become one case; the first is what it is made of."""

    candidates: tuple[Candidate, ...]
    why: str


def promote(engine: Engine, wanted: Wanted, dataset: str) -> Promoted:
    """Return drafts of cases for what is wanted; conversations in which the same was asked become one.

    Raises:
        BadInputError: there is no conversation of a given id, or several environments have one.
    """
    with engine.store.read() as con:
        known = {case.key: case for case in load_cases(con)}
        groups = _groups(con, wanted, known)
        waiting = 0 if wanted.conversation_ids else unscored(con, wanted.selection, wanted.environment)
        left_out: list[LeftOut] = []
        tagged: list[Case] = []
        if wanted.tags:
            groups, tagged = _tagged(groups, known, wanted.tags, left_out)
        tagged = tagged[: wanted.limit]
        limit = None if wanted.limit is None else wanted.limit - len(tagged)
        chosen = list(islice(_usable(groups, dataset, known, left_out), limit))
        count_errors = engine.settings.scoring.count_errors
        drafts = _drafts(con, chosen, dataset, count_errors=count_errors)
        cases = tuple(_with_tags(case, wanted.tags) for case in drafts)
    return Promoted(cases=cases, left_out=tuple(left_out), unscored=waiting, tagged=tuple(tagged))


def _tagged(
    groups: Iterable[_Group], known: Mapping[tuple[str, str], Case], tags: Sequence[str], left_out: list[LeftOut]
) -> tuple[list[_Group], list[Case]]:
    """Return the groups that no reviewed case in force belongs to, and the cases of the others with the tags.

    A case that bears them already is left out, each conversation of it with the reason.
    """
    others: list[_Group] = []
    found: dict[tuple[str, str], Case] = {}
    for group in groups:
        belonging = [(one, known.get((one.dataset or "", one.case_id or ""))) for one in group.candidates]
        cases = [(one, case) for one, case in belonging if case is not None and case.reviewed]
        if not cases:
            others.append(group)
        for one, case in cases:
            if set(tags) <= set(case.tags):
                told = f"its case bears the tag {', '.join(tags)} already"
                left_out.append(LeftOut(candidate=one, reason=told, case=case))
            else:
                found.setdefault(case.key, _with_tags(case, tags))
    return others, list(found.values())


def _with_tags(case: Case, tags: Sequence[str]) -> Case:
    return case.model_copy(update={"tags": tuple(dict.fromkeys((*case.tags, *tags)))}) if tags else case


def clusters_of(found: Iterable[Candidate]) -> list[Cluster]:
    """Return conversations by what they begin with, largest cluster first."""
    return cluster(
        Opening(
            environment=one.environment,
            conversation_id=one.conversation_id,
            agent=one.agent,
            query=next((query for query in one.queries if query and query.strip()), None),
            ended_ns=one.ended_ns,
        )
        for one in found
    )


def _groups(con: Connection, wanted: Wanted, known: Mapping[tuple[str, str], Case]) -> list[_Group]:
    """Return the groups in the order in which they matter."""
    if wanted.conversation_ids:
        return _folded((one, why(one, known)) for one in _named(con, wanted))
    found: list[tuple[Candidate, str]] = []
    if wanted.failing:
        failing = candidates(con, wanted.selection, kind="failing", environment=wanted.environment)
        found += [(one, why(one, known)) for one in failing]
    if wanted.unmatched:
        found += _frequent(candidates(con, wanted.selection, kind="unmatched", environment=wanted.environment))
    return _folded(found)


def _named(con: Connection, wanted: Wanted) -> Iterator[Candidate]:
    for name in dict.fromkeys(wanted.conversation_ids):
        found = candidates(con, wanted.selection, environment=wanted.environment, conversation_id=name)
        if not found:
            raise BadInputError(f"no conversation {name!r}; `otel-agentic conversations list` shows them")
        if len(found) > 1:
            names = ", ".join(repr(one.environment) for one in found)
            raise BadInputError(f"conversation {name!r} exists in environments {names}; give --environment")
        yield found[0]


def _frequent(unmatched: Sequence[Candidate]) -> Iterator[tuple[Candidate, str]]:
    """Yield the example of each cluster of unmatched conversations, largest first, and those that asked just the same.

    Last come those of which no case can be made, to be told.
    """
    by_asking: dict[CaseIdentity, list[Candidate]] = defaultdict(list)
    for one in unmatched:
        by_asking[_asking(one)].append(one)
    by_key = {one.key: one for one in unmatched}
    for found in clusters_of(unmatched):
        example = by_key[found.example.environment, found.example.conversation_id]
        asking = _asking(example)
        if asking.problem is None:
            told = why_frequent(example, found, len(unmatched))
            yield from ((one, told) for one in (example, *by_asking[asking]))
    yield from ((one, "") for one in unmatched if _asking(one).problem is not None)


def _folded(found: Iterable[tuple[Candidate, str]]) -> list[_Group]:
    by_asking: dict[CaseIdentity | tuple[str, str], list[tuple[Candidate, str]]] = defaultdict(list)
    for one, told in found:
        asking = _asking(one)
        by_asking[one.key if asking.problem else asking].append((one, told))
    return [
        _Group(candidates=tuple(dict.fromkeys(one for one, _ in same)), why=same[0][1]) for same in by_asking.values()
    ]


def _asking(one: Candidate) -> CaseIdentity:
    return CaseIdentity.of(one.agent, one.queries)


def _usable(
    groups: Iterable[_Group], dataset: str, known: Mapping[tuple[str, str], Case], left_out: list[LeftOut]
) -> Iterator[_Group]:
    made_of: dict[str, list[Case]] = defaultdict(list)
    for draft in known.values():
        for name in draft.promoted_from:
            made_of[name].append(draft)
    for group in groups:
        first = group.candidates[0]
        reason = _asking(first).problem or ("still open; wait until it has closed" if first.open else None)
        # To import it again would put the draft in the place of what a person has made of it.
        case = known.get((dataset, _asking(first).case_id)) or _made_of(first, made_of[first.conversation_id])
        if reason is None and case is None:
            yield group
        else:
            told = reason or "in force as a case already"
            same = None if reason else case
            left_out.extend(LeftOut(candidate=one, reason=told, case=same) for one in group.candidates)


def _made_of(one: Candidate, cases: Iterable[Case]) -> Case | None:
    """Return which of the cases that name the conversation's id is made of it.

    Sessions of several environments share an id: one that shares no query is of another one.
    """
    asked = {query for query in _asking(one).queries if query is not None}
    return next((case for case in cases if not asked.isdisjoint(queries_key(t.query for t in case.turns))), None)


def _drafts(con: Connection, groups: Sequence[_Group], dataset: str, *, count_errors: bool) -> Iterator[Case]:
    for start in range(0, len(groups), _CHUNK):
        part = groups[start : start + _CHUNK]
        loaded = load_conversations(con, [group.candidates[0].key for group in part])
        by_key = {(one.environment, str(one.conversation_id)): one for one in loaded}
        for group in part:
            names = dict.fromkeys(one.conversation_id for one in group.candidates)
            conversation = by_key[group.candidates[0].key]
            yield draft_case(
                conversation, dataset=dataset, promoted_from=tuple(names), why=group.why, count_errors=count_errors
            )
