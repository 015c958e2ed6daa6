"""Matching of conversations with cases by id, queries or text; a conversation without a reliable match stays unknown.

The methods are tried in this order, and the first match counts: the case that a person chose, the case id in the spans,
the labels file, the queries of the whole conversation, its first query, and, if the settings enable it, the text of all
queries. Queries are compared after `normalise`. If a method matches two cases equally well, the conversation is ambiguous and no weaker
method is tried. Drafts that have not been reviewed are tried only if no reviewed case matches by any method. Unless the
settings enable matches by text, the most similar case is only a suggestion.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

from otel_agentic.config import MatchingSettings
from otel_agentic.errors import CaseError
from otel_agentic.truth.sentences import Spoken, contradict, denies, form, resemble, says_nothing
from otel_agentic.truth.values import Bag, is_number, leaves, normalise, says_text

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.truth.load import Label
    from otel_agentic.truth.model import Case, ToolExpectation
    from otel_agentic.truth.text_index import TextIndex, TextMatch

MatchMethod = Literal["person", "case_id", "labels_file", "exact_queries", "first_query", "text"]

#: Confidence of each method, in [0, 1]. The first query matches one case today, but a future case may begin in the same
#: way. A match by text has its own calibrated probability.
CONFIDENCE: Final[Mapping[MatchMethod, float]] = {
    "person": 1.0,
    "case_id": 1.0,
    "labels_file": 1.0,
    "exact_queries": 1.0,
    "first_query": 0.8,
}
#: Confidence of an id that differs in case or white space.
RESPELLED_CONFIDENCE: Final = 0.9

#: Queries in order, normalised; None for a query that is not annotated, or not known.
Queries = tuple[str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A case id assigned to a conversation, and its source: a person, the spans or the labels file."""

    method: Literal["person", "case_id", "labels_file"]
    case_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchRequest:
    """The inputs of matching: the assigned case ids, the strongest first, the agent and the queries of a conversation."""

    named: Sequence[Named]
    agent_name: str | None
    queries: Sequence[str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """The cases that a method matched, at least one, and its confidence."""

    method: MatchMethod
    cases: Sequence[Case]
    confidence: float


class Pool:
    """Cases, indexed by id and by queries."""

    def __init__(self, cases: Iterable[Case]) -> None:
        self._cases = tuple(cases)
        self._by_name: dict[str, list[Case]] = defaultdict(list)
        self._by_spelling: dict[str, list[Case]] = defaultdict(list)
        self._by_queries: dict[Queries, list[Case]] = defaultdict(list)
        self._by_first_query: dict[Queries, list[Case]] = defaultdict(list)
        for case in self._cases:
            self._add(case)

    def _add(self, case: Case) -> None:
        for name in (case.case_id, f"{case.dataset}/{case.case_id}"):
            self._by_name[name].append(case)
            self._by_spelling[_spelling(name)].append(case)
        queries = queries_key(turn.query for turn in case.turns)
        first = _up_to_first(queries)
        if first:
            self._by_queries[queries].append(case)
            self._by_first_query[first].append(case)

    def named(self, name: str) -> tuple[list[Case], float]:
        """Return the cases with an id, written `case_id` or `dataset/case_id`, and the confidence of the match."""
        exact = self._by_name.get(name)
        return (exact, 1.0) if exact else (self._by_spelling.get(_spelling(name), []), RESPELLED_CONFIDENCE)

    def hit(self, request: MatchRequest) -> Hit | None:
        """Return the hit of the first method that matches any case for the agent, or None."""
        return next((hit for hit in self._hits(request) if hit.cases), None)

    def _hits(self, request: MatchRequest) -> Iterator[Hit]:
        for named in request.named:
            cases, confidence = self.named(named.case_id)
            yield _hit(named.method, cases, request, confidence)
        queries = queries_key(request.queries)
        first = _up_to_first(queries)
        if not first:
            return
        yield _hit("exact_queries", self._by_queries.get(queries, []), request)
        same_beginning = [case for case in self._by_first_query.get(first, []) if case.is_for(request.agent_name)]
        yield _hit("first_query", _same_continuation(same_beginning, request.queries[len(first) - 1 :]), request)

    def nearest(self, request: MatchRequest) -> TextMatch | None:
        """Return the case whose text is most similar to the user's queries, or None."""
        return self._texts.nearest(request.queries, request.agent_name)

    def similar(self, queries: Iterable[str | None], agent_name: str | None) -> list[tuple[Case, float]]:
        """Return the cases for an agent with their similarity to the user's queries, in [0, 1]."""
        return self._texts.similar(queries, agent_name)

    @cached_property
    def _texts(self) -> TextIndex:
        from otel_agentic.truth.text_index import TextIndex  # noqa: PLC0415 — imports numpy; built for unmatched conversations

        return TextIndex(self._cases)


def _same_continuation(cases: Sequence[Case], queries: Sequence[str | None]) -> Sequence[Case]:
    """Return the cases that also match the later queries of a conversation, those with the most equal queries.

    Args:
        cases: cases that begin with the first query.
        queries: the queries of the conversation, from the first known one.
    """
    if not cases:
        return ()
    spoken = [Spoken.of([query]) for query in queries if query is not None]
    matches = [(case, equal) for case in cases if (equal := _equal_queries(case, spoken)) is not None]
    highest = max((equal for _, equal in matches), default=0)
    return [case for case, equal in matches if equal == highest]


def _equal_queries(case: Case, spoken: Sequence[Spoken]) -> int | None:
    """Return the number of queries of a conversation that equal those of the case, or None if it does not match the case.

    The first queries are equal. Each later one must resemble a query of the case, in order, or have no content. Queries after
    the last one of the case are not annotated and therefore not compared, so a case of one turn matches every
    continuation.
    """
    expected = [Spoken.of([turn.query]) for turn in case.turns if turn.query is not None]
    position, matched, equal = 1, 1, 1
    for index, query in enumerate(spoken[1:], start=1):
        if matched == len(expected):
            spoken = spoken[:index]
            break
        match = next((at for at in range(position, len(expected)) if resemble(query, expected[at])), None)
        if match is not None:
            position, matched, equal = match + 1, matched + 1, equal + (query.words == expected[match].words)
        elif not says_nothing(query) or any(denies(query, other) for other in expected[position : position + 1]):
            return None
    return None if contradict(Spoken.joined(spoken), Spoken.joined(expected)) else equal


def _hit(method: MatchMethod, cases: Sequence[Case], request: MatchRequest, confidence: float | None = None) -> Hit:
    applicable = [case for case in cases if case.is_for(request.agent_name)]
    return Hit(method=method, cases=applicable, confidence=CONFIDENCE[method] if confidence is None else confidence)


def queries_key(queries: Iterable[str | None]) -> Queries:
    """Return the normalised queries, with None for a query that is unknown or consists of punctuation only.

    >>> queries_key(["Where is my order?", None, "?"])
    ('where is my order', None, None)
    """
    return tuple(None if query is None else normalise(query) or None for query in queries)


def _up_to_first(queries: Queries) -> Queries:
    """Return the queries up to the first known one, or () if all are unknown: an agent may speak before its user."""
    index = next((index for index, query in enumerate(queries) if query is not None), None)
    return () if index is None else queries[: index + 1]


def _spelling(name: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


#: Maximum number of values compared.
_VALUE_LIMIT: Final = 1000
#: A longer text is prose, not a value: the wording of a summary differs each time.
_PROSE_CHARACTERS: Final = 60
#: Minimum similarity (`Bag.similarity`) of two wordings of one query. If people or models play the same case twice, at
#: least one pair of their queries is nearly always this similar; see docs/matching.md for the measurement.
_SAME_QUERY: Final = 0.4
#: Minimum share of the words of the shorter text, without common words, that two wordings of one request have in
#: common.
_SAME_REQUEST: Final = 0.3
#: With this many turns, or identifiers among the arguments, identifiers are compared even if their forms differ.
_ENOUGH_TURNS: Final = 3
_ENOUGH_IDENTIFIERS: Final = 2
#: Texts with fewer words (without common ones) differ only if they share no word and both sides have several queries.
_ENOUGH_WORDS: Final = 10

Value = str | float


def shares_nothing(case: Case, conversation: Conversation) -> bool:
    """Return whether case and conversation share neither a query nor any expected argument value.

    A value is shared if it is an argument of an actual call, or occurs in a query or answer. If the calls of both contain
    identifiers (texts of letters and digits, such as order numbers), only these count: a city or a number of bags fits many
    cases. In the first two turns a single identifier of another form, such as a user id where an order is expected, proves
    nothing. False if one of the two contains too little to compare: a conversation that ended early is not evidence.
    """
    expected_queries, queries = (
        [turn.query for turn in turns if turn.query] for turns in (case.turns, conversation.turns)
    )
    if expected_queries and not {normalise(text) for text in expected_queries}.isdisjoint(map(normalise, queries)):
        return False
    expected = _values(
        value for tools in _expectations(case) for call in tools.calls for value in call.parameters.values()
    )
    actual = _values(call.arguments for turn in conversation.turns for call in turn.calls if call.arguments)
    expected_identifiers, actual_identifiers = _identifiers(expected), _identifiers(actual)
    early = len(conversation.turns) < _ENOUGH_TURNS and len(actual_identifiers) < _ENOUGH_IDENTIFIERS
    if (
        expected_identifiers
        and actual_identifiers
        and not (early and set(map(form, expected_identifiers)).isdisjoint(map(form, actual_identifiers)))
    ):
        return not (expected_identifiers & actual_identifiers or _mentions(expected_identifiers, conversation))
    if expected & actual or _mentions(expected, conversation):
        return False
    if expected_queries and queries:
        return _ask_for_different_things(expected_queries, queries)
    return bool(expected and actual and not (expected_identifiers and actual_identifiers))


def _ask_for_different_things(expected_queries: Sequence[str], queries: Sequence[str]) -> bool:
    """Return whether no two queries are similar and the shorter text shares few of its words with the other.

    Short texts must share no word at all. A single short query proves nothing, because it may be vague.
    """
    expected, actual = Spoken.of(expected_queries).content, Spoken.of(queries).content
    shorter, shared = min(len(expected), len(actual)), len(expected & actual)
    if not shorter or shared >= _SAME_REQUEST * shorter:
        return False
    if shorter < _ENOUGH_WORDS and (shared or min(len(expected_queries), len(queries)) == 1):
        return False
    left, right = ([Bag.of(text) for text in texts] for texts in (expected_queries, queries))
    return not any(bag.similarity(other) >= _SAME_QUERY for bag in left for other in right)


def _expectations(case: Case) -> Iterator[ToolExpectation]:
    for tools in (case.tools, *(turn.tools for turn in case.turns)):
        if tools is not None:
            yield tools
            yield from tools.alternatives


def _values(values: Iterable[Any]) -> set[Value]:
    """Return the short texts (normalised) and numbers in the values; true, false and null do not distinguish cases."""
    candidates = (value for _, value in leaves(list(values), limit=_VALUE_LIMIT))
    return {
        normalise(value) if isinstance(value, str) else value
        for value in candidates
        if is_number(value) or (isinstance(value, str) and 0 < len(value) <= _PROSE_CHARACTERS)
    }


def _identifiers(values: Iterable[Value]) -> set[str]:
    """Return the texts that contain both letters and digits."""
    return {
        value
        for value in values
        if isinstance(value, str) and any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    }


def _mentions(values: Iterable[Value], conversation: Conversation) -> bool:
    texts = [normalise(text) for turn in conversation.turns for text in (turn.query, turn.answer) if text is not None]
    expected = (value if isinstance(value, str) else f"{value:g}" for value in values)
    return any(says_text(text, value) for value in expected for text in texts)


UnmatchedReason = Literal["unmatched", "ambiguous"]

_SHOWN_CHARACTERS: Final = 200
#: What assigns a case id, in a sentence.
_SOURCES: Final = {
    "person": "a person chose",
    "case_id": "the spans name",
    "labels_file": "the labels file names",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The case of a conversation, or the reason why it has none.

    `confidence` is in [0, 1]. `candidates` are the ids of the cases that fit (one when matched, several when ambiguous),
    sorted. `warning` reports ground truth that looks wrong, or an assigned case id that was not used; otherwise None.
    `suggestion` is the case most similar to the text of an unmatched conversation, to be confirmed by a person.
    """

    case: Case | None
    method: MatchMethod | None
    confidence: float | None
    candidates: tuple[str, ...]
    warning: str | None
    reason: UnmatchedReason | None
    suggestion: TextMatch | None = None


class CaseIndex:
    """Cases, prepared for matching with conversations."""

    def __init__(self, cases: Iterable[Case], matching: MatchingSettings = MatchingSettings()) -> None:  # noqa: B008 — frozen
        """Index the cases once.

        Args:
            cases: reviewed cases and drafts.
            matching: whether and how the text of all queries is compared.

        Raises:
            CaseError: two cases have the same dataset and case id but different content.
        """
        self._by_key = _by_key(cases)
        self._matching = matching
        self._reviewed = Pool(case for case in self if case.reviewed)
        self._drafts = Pool(case for case in self if not case.reviewed)

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[Case]:
        return iter(self._by_key.values())

    def match(self, conversation: Conversation, label: Label | None = None) -> Match:
        """Return the case of a conversation; `label` is its row of the labels file, if it has one."""
        request = _request(conversation, label)
        hit = self._reviewed.hit(request) or self._drafts.hit(request)
        nearest = self._by_text(request) if hit is None and self._matching.text != "off" else None
        if nearest is not None and self._matching.text == "auto":
            hit = Hit(method="text", cases=[nearest.case], confidence=nearest.confidence)
        warning = self._unused_id_warning(request, hit)
        if hit is None:
            return replace(_unmatched("unmatched", [], warning), suggestion=nearest)
        if len(hit.cases) > 1:
            return _unmatched("ambiguous", hit.cases, warning)
        return _matched(hit, conversation, warning)

    def similar(self, queries: Iterable[str | None], agent_name: str | None) -> list[tuple[Case, float]]:
        """Return the cases for an agent, those with the most similar text first, with the similarity in [0, 1]."""
        all_queries = list(queries)
        cases = [pair for pool in (self._reviewed, self._drafts) for pair in pool.similar(all_queries, agent_name)]
        return sorted(cases, key=lambda pair: (-pair[1], pair[0].key))

    def _by_text(self, request: MatchRequest) -> TextMatch | None:
        """Return the case with the most similar text, or None if the confidence is below the threshold."""
        matches = (pool.nearest(request) for pool in (self._reviewed, self._drafts))
        return next((match for match in matches if match and match.confidence >= self._matching.text_threshold), None)

    def _unused_id_warning(self, request: MatchRequest, hit: Hit | None) -> str | None:
        """Return a warning about the first assigned case id that was not used, or None."""
        methods = [named.method for named in request.named]
        unused = request.named[: methods.index(hit.method)] if hit and hit.method in methods else request.named
        return self._reason_unused(unused[0], request.agent_name) if unused else None

    def _reason_unused(self, named: Named, agent_name: str | None) -> str:
        subject = f"{_SOURCES[named.method]} case {_shortened(named.case_id)!r}"
        cases = [*self._reviewed.named(named.case_id)[0], *self._drafts.named(named.case_id)[0]]
        if not cases:
            return f"{subject}, which is in no dataset; load its file or correct the id"
        if not any(case.is_for(agent_name) for case in cases):
            return f"{subject}, which is not for agent {agent_name!r}; check the case's `agent`"
        return f"{subject}, a draft: a reviewed case that fits goes before it"


def _shortened(name: str) -> str:
    """Return an untrusted id, shortened because messages are stored with every conversation."""
    return name if len(name) <= _SHOWN_CHARACTERS else f"{name[: _SHOWN_CHARACTERS - 1]}…"


def _by_key(cases: Iterable[Case]) -> dict[tuple[str, str], Case]:
    by_key: dict[tuple[str, str], Case] = {}
    for case in cases:
        existing = by_key.setdefault(case.key, case)
        if existing is not case and existing.version != case.version:
            raise CaseError(
                f"case {case.case_id!r} of dataset {case.dataset!r} exists twice with different content; keep one"
            )
    return by_key


def _request(conversation: Conversation, label: Label | None) -> MatchRequest:
    candidates = [Named(method="case_id", case_id=conversation.case_id or "")]
    if label is not None and label.case_id:
        assigned = Named(method=label.case_method, case_id=label.case_id)
        # A person has seen the conversation, so their choice comes first.
        candidates.insert(0 if assigned.method == "person" else 1, assigned)
    return MatchRequest(
        named=[named for named in candidates if named.case_id.strip()],
        agent_name=conversation.agent_name,
        queries=[turn.query for turn in conversation.turns],
    )


def _matched(hit: Hit, conversation: Conversation, warning: str | None) -> Match:
    (case,) = hit.cases
    if hit.method in {"case_id", "labels_file"} and shares_nothing(case, conversation):
        warning = (
            f"wrong ground truth? Case {case.case_id!r} of dataset {case.dataset!r} shares neither a query nor an "
            f"expected argument value with conversation {conversation.conversation_id!r}; check the id"
        )
    return Match(
        case=case,
        method=hit.method,
        confidence=hit.confidence,
        candidates=(case.case_id,),
        warning=warning,
        reason=None,
    )


def _unmatched(reason: UnmatchedReason, fitting: Sequence[Case], warning: str | None) -> Match:
    # Cases of several datasets may have the same id; the dataset distinguishes them.
    repeated_ids = len({case.case_id for case in fitting}) < len(fitting)
    names = sorted(f"{case.dataset}/{case.case_id}" if repeated_ids else case.case_id for case in fitting)
    return Match(case=None, method=None, confidence=None, candidates=tuple(names), warning=warning, reason=reason)
