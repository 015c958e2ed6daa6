"""Draft cases from stored conversations: first from failed conversations, then from those that match no case."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from otel_agentic.errors import BadInputError
from otel_agentic.judges.base import kinds_of
from otel_agentic.store.conversations import load_conversations
from otel_agentic.store.queries.conversations import Candidate, candidates, only_conversation, unscored
from otel_agentic.store.table import Selection
from otel_agentic.store.truth import load_cases
from otel_agentic.truth.match import queries_key
from otel_agentic.truth.promote import CaseIdentity, Cluster, Opening, cluster, draft_case

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from otel_agentic.store.connection import Connection
    from otel_agentic.truth import Case

#: Maximum characters of the reason why a conversation failed; the store has the full text.
_EXPLANATION_CHARACTERS: Final = 300
_SUSPECT: Final = "Its answers and calls are from a failing run: correct them before you set `reviewed` to true."
_UNCHECKED: Final = "Its answers and calls are what the agent did: check them before you set `reviewed` to true."


def promotion_reason(candidate: Candidate, known: Mapping[tuple[str, str], Case]) -> str:
    """Return the reason why a conversation was promoted, which becomes the notes of its draft case."""
    case = known.get((candidate.dataset or "", candidate.case_id or ""))
    of_case = f" case {candidate.case_id} of dataset {candidate.dataset}" if candidate.case_id else ""
    if candidate.outcome == "fail":
        explanation = _short(candidate.explanation or "")
        reason = f"Promoted because it failed{of_case} ({candidate.reason}): {explanation}. {_SUSPECT}"
    elif candidate.outcome == "pass":
        reason = f"Promoted by name; it passed{of_case}."
    else:
        state = f"not evaluated ({candidate.reason})" if candidate.outcome else "not evaluated yet"
        reason = f"Promoted by name; it was {state}. {_UNCHECKED}"
    same = case is not None and CaseIdentity.of(None, candidate.queries).queries == queries_key(
        turn.query for turn in case.turns
    )
    return f"{reason} {_duplicate_note(candidate)}" if same else reason


def _duplicate_note(candidate: Candidate) -> str:
    return f"Case {candidate.case_id} of dataset {candidate.dataset} has the same queries: keep one of the two."


def frequency_reason(example: Candidate, cluster: Cluster, total: int) -> str:
    """Return the reason why an unmatched conversation was promoted: how many of `total` begin with the same query."""
    similar = f"; {cluster.size:,} of {total:,} unmatched conversations begin like it" if cluster.size > 1 else ""
    warning = f" Warning: {example.warning}." if example.warning else ""
    return f"Promoted because no case matches it{similar}.{warning} {_UNCHECKED}"


def _short(text: str) -> str:
    return text if len(text) <= _EXPLANATION_CHARACTERS else f"{text[: _EXPLANATION_CHARACTERS - 1]}…"


_CHUNK: Final = 500
#: Maximum number of successful conversations with the same queries that a draft is compared with.
_MAX_COMPARED: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotionRequest:
    """The conversations to promote: by id, else the failing and the unmatched ones of a selection.

    `tags` are added to all cases, to build a suite. For a conversation with a reviewed active case, that case is returned with
    the tags instead of a draft, which no conversation would match. `exact`: the ids and the environment of the selection are
    identities; see `only_conversation`.
    """

    conversation_ids: Sequence[str] = ()
    exact: bool = False
    failing: bool = True
    unmatched: bool = True
    limit: int | None = None
    tags: tuple[str, ...] = ()
    selection: Selection = field(default_factory=Selection)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A conversation that was not promoted, the reason, and its existing case, if any."""

    candidate: Candidate
    reason: str
    case: Case | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Promoted:
    """The drafts, the skipped conversations, and the number of conversations of the selection without a score.

    With tags, `tagged` are the active cases that get them, without duplicates.
    """

    cases: tuple[Case, ...]
    skipped: tuple[Skipped, ...]
    unscored: int
    tagged: tuple[Case, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Conversations that become one case, which is built from the first."""

    candidates: tuple[Candidate, ...]
    reason: str

    @property
    def sources(self) -> tuple[Candidate, ...]:
        """The first conversation and, if it passed, others that passed: values in which they differ may vary."""
        first, *others = self.candidates
        passed = [candidate for candidate in others if first.outcome == candidate.outcome == "pass"]
        return (first, *passed[:_MAX_COMPARED])


def promote(engine: Engine, request: PromotionRequest, dataset: str) -> Promoted:
    """Return draft cases for the requested conversations; conversations with the same queries become one case.

    Raises:
        BadInputError: a conversation id is unknown, or exists in several environments.
    """
    with engine.store.read() as con:
        active_cases = {case.key: case for case in load_cases(con)}
        groups = _groups(con, request, active_cases)
        unscored_count = 0 if request.conversation_ids else unscored(con, request.selection)
        skipped: list[Skipped] = []
        tagged: list[Case] = []
        if request.tags:
            groups, tagged = _tagged(groups, active_cases, request.tags, skipped)
        tagged = tagged[: request.limit]
        limit = None if request.limit is None else request.limit - len(tagged)
        usable = list(islice(_usable(groups, dataset, active_cases, skipped), limit))
        rules = _Rules(
            dataset=dataset,
            count_errors=engine.settings.scoring.count_errors,
            has_judge="parameter" in kinds_of(engine.runner.judge),
        )
        drafts = _drafts(con, usable, rules)
        cases = tuple(_with_tags(case, request.tags) for case in drafts)
    return Promoted(cases=cases, skipped=tuple(skipped), unscored=unscored_count, tagged=tuple(tagged))


def _tagged(
    groups: Iterable[_Group], active_cases: Mapping[tuple[str, str], Case], tags: Sequence[str], skipped: list[Skipped]
) -> tuple[list[_Group], list[Case]]:
    """Return the groups without a reviewed active case, and the cases of the other groups with the tags.

    Conversations whose case already has the tags are skipped.
    """
    others: list[_Group] = []
    tagged: dict[tuple[str, str], Case] = {}
    for group in groups:
        pairs = [
            (candidate, active_cases.get((candidate.dataset or "", candidate.case_id or "")))
            for candidate in group.candidates
        ]
        cases = [(candidate, case) for candidate, case in pairs if case is not None and case.reviewed]
        if not cases:
            others.append(group)
        for candidate, case in cases:
            if set(tags) <= set(case.tags):
                reason = f"its case already has the tag {', '.join(tags)}"
                skipped.append(Skipped(candidate=candidate, reason=reason, case=case))
            else:
                tagged.setdefault(case.key, _with_tags(case, tags))
    return others, list(tagged.values())


def _with_tags(case: Case, tags: Sequence[str]) -> Case:
    return case.model_copy(update={"tags": tuple(dict.fromkeys((*case.tags, *tags)))}) if tags else case


def clusters_of(candidates: Iterable[Candidate]) -> list[Cluster]:
    """Return clusters of conversations with similar first queries, the largest first."""
    return cluster(
        Opening(
            environment=candidate.environment,
            conversation_id=candidate.conversation_id,
            agent=candidate.agent,
            query=next((query for query in candidate.queries if query and query.strip()), None),
            ended_ns=candidate.ended_ns,
        )
        for candidate in candidates
    )


def _groups(con: Connection, request: PromotionRequest, active_cases: Mapping[tuple[str, str], Case]) -> list[_Group]:
    """Return the groups to promote, the most important first."""
    if request.conversation_ids:
        named = _named(con, request)
        return _grouped((candidate, promotion_reason(candidate, active_cases)) for candidate in named)
    selected: list[tuple[Candidate, str]] = []
    if request.failing:
        failing = candidates(con, request.selection, kind="failing")
        selected += [(candidate, promotion_reason(candidate, active_cases)) for candidate in failing]
    if request.unmatched:
        selected += _frequent(candidates(con, request.selection, kind="unmatched"))
    return _grouped(selected)


def _named(con: Connection, request: PromotionRequest) -> Iterator[Candidate]:
    for name in dict.fromkeys(request.conversation_ids):
        environment, conversation_id = only_conversation(con, name, request.selection.environment, exact=request.exact)
        selection = replace(request.selection, environment=environment)
        matches = candidates(con, selection, conversation_id=conversation_id)
        if not matches:
            raise BadInputError(
                f"conversation {name!r} is not in this selection; leave out --since, --until, --agent and --agent-version"
            )
        yield matches[0]


def _frequent(unmatched: Sequence[Candidate]) -> Iterator[tuple[Candidate, str]]:
    """Yield the example of each cluster of unmatched conversations, the largest first, with those of identical queries.

    Conversations that cannot become a case come last, so that they are reported.
    """
    by_queries: dict[CaseIdentity, list[Candidate]] = defaultdict(list)
    for candidate in unmatched:
        by_queries[_queries(candidate)].append(candidate)
    by_key = {candidate.key: candidate for candidate in unmatched}
    for cluster_of_openings in clusters_of(unmatched):
        example = by_key[cluster_of_openings.example.environment, cluster_of_openings.example.conversation_id]
        queries = _queries(example)
        if queries.problem is None:
            reason = frequency_reason(example, cluster_of_openings, len(unmatched))
            yield from ((candidate, reason) for candidate in (example, *by_queries[queries]))
    yield from ((candidate, "") for candidate in unmatched if _queries(candidate).problem is not None)


def _grouped(selected: Iterable[tuple[Candidate, str]]) -> list[_Group]:
    by_queries: dict[CaseIdentity | tuple[str, str], list[tuple[Candidate, str]]] = defaultdict(list)
    for candidate, reason in selected:
        queries = _queries(candidate)
        by_queries[candidate.key if queries.problem else queries].append((candidate, reason))
    return [
        _Group(candidates=tuple(dict.fromkeys(candidate for candidate, _ in pairs)), reason=pairs[0][1])
        for pairs in by_queries.values()
    ]


def _queries(candidate: Candidate) -> CaseIdentity:
    return CaseIdentity.of(candidate.agent, candidate.queries)


def _usable(
    groups: Iterable[_Group], dataset: str, active_cases: Mapping[tuple[str, str], Case], skipped: list[Skipped]
) -> Iterator[_Group]:
    promoted: dict[str, list[Case]] = defaultdict(list)
    for case in active_cases.values():
        for name in case.promoted_from:
            promoted[name].append(case)
    for group in groups:
        first = group.candidates[0]
        queries = _queries(first)
        problem = queries.problem or ("still open; wait until it has closed" if first.open else None)
        # Importing the draft again would replace the case that a person has edited.
        existing = active_cases.get((dataset, queries.case_id)) or _promoted_case(
            first, promoted[first.conversation_id]
        )
        if problem is None and existing is None:
            yield group
        else:
            reason = problem or "already an active case"
            case_of_group = None if problem else existing
            skipped.extend(
                Skipped(candidate=candidate, reason=reason, case=case_of_group) for candidate in group.candidates
            )


def _promoted_case(candidate: Candidate, cases: Iterable[Case]) -> Case | None:
    """Return the case that was promoted from a conversation, among those that name its id.

    Conversations of several environments may have the same id: a case without a common query belongs to another
    conversation.
    """
    queries = {query for query in _queries(candidate).queries if query is not None}
    return next(
        (case for case in cases if not queries.isdisjoint(queries_key(turn.query for turn in case.turns))), None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rules:
    """How drafts are written, see `draft_case`."""

    dataset: str
    count_errors: bool
    has_judge: bool


def _drafts(con: Connection, groups: Sequence[_Group], rules: _Rules) -> Iterator[Case]:
    for start in range(0, len(groups), _CHUNK):
        part = groups[start : start + _CHUNK]
        loaded = load_conversations(con, [candidate.key for group in part for candidate in group.sources])
        by_key = {
            (conversation.environment, str(conversation.conversation_id)): conversation for conversation in loaded
        }
        for group in part:
            names = dict.fromkeys(candidate.conversation_id for candidate in group.candidates)
            conversation, *others = (by_key[candidate.key] for candidate in group.sources)
            yield draft_case(
                conversation,
                dataset=rules.dataset,
                promoted_from=tuple(names),
                why=group.reason,
                count_errors=rules.count_errors,
                has_judge=rules.has_judge,
                others=others,
            )
