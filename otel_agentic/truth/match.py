"""Which case a conversation is an attempt of: found, or said to be unknown; never guessed.

The methods, first hit wins: the case id that a span names, the labels file, the queries of the whole conversation, the
first query alone. Text is compared after `normalise`. Where a method finds two cases that fit equally, the conversation
is ambiguous and no weaker method is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from otel_agentic.errors import CaseError
from otel_agentic.truth.text import normalise, says_text
from otel_agentic.truth.values import is_number, leaves

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from otel_agentic.conversations.model import Conversation
    from otel_agentic.truth.labels import Label
    from otel_agentic.truth.model import Case, ToolExpectation

MatchMethod = Literal["case_id", "labels_file", "exact_queries", "first_query", "fuzzy"]
UnmatchedReason = Literal["unmatched", "ambiguous"]

#: How sure each method is, in [0, 1]. A first query names one case today; tomorrow's cases may begin alike.
CONFIDENCE: Final[Mapping[MatchMethod, float]] = {
    "case_id": 1.0,
    "labels_file": 1.0,
    "exact_queries": 1.0,
    "first_query": 0.8,
}

#: Values looked at when asking whether a conversation and its case share any.
_VALUE_LIMIT: Final = 1000
#: A longer text is prose, not a value.
_PROSE_CHARACTERS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The case of a conversation, or why there is none.

    `candidates` are the ids of the cases that fit (one when matched, several when ambiguous), sorted.
    `warning` says that the ground truth looks wrong, or that a case id leads nowhere; None when nothing does.
    """

    case: Case | None
    method: MatchMethod | None
    confidence: float | None
    candidates: tuple[str, ...]
    warning: str | None
    reason: UnmatchedReason | None


class CaseIndex:
    """Cases, ready to be asked for by id and by queries."""

    def __init__(self, cases: Iterable[Case]) -> None:
        """Index the cases once.

        Raises:
            CaseError: two cases have the same dataset and case id but not the same content.
        """
        self._by_key: dict[tuple[str, str], Case] = {}
        self._by_id: dict[str, list[Case]] = {}
        self._by_queries: dict[tuple[str, ...], list[Case]] = {}
        self._by_first_query: dict[str, list[Case]] = {}
        for case in cases:
            self._add(case)

    def _add(self, case: Case) -> None:
        known = self._by_key.setdefault(case.key, case)
        if known is not case:
            if known.version != case.version:
                raise CaseError(
                    f"case {case.case_id!r} of dataset {case.dataset!r} is given twice with different content; keep one"
                )
            return
        self._by_id.setdefault(case.case_id, []).append(case)
        queries = [turn.query for turn in case.turns]
        if queries and queries[0] is not None:
            self._by_first_query.setdefault(normalise(queries[0]), []).append(case)
        complete = tuple(normalise(query) for query in queries if query is not None)
        if complete and len(complete) == len(queries):
            self._by_queries.setdefault(complete, []).append(case)

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[Case]:
        return iter(self._by_key.values())

    def match(self, conversation: Conversation, label: Label | None = None) -> Match:
        """Return the case of a conversation; `label` is its row of the labels file, if it has one."""
        missing: str | None = None
        for method, candidates, named in self._candidates(conversation, label):
            fitting = [case for case in candidates if case.is_for(conversation.agent_name)]
            if len(fitting) > 1:
                return _unmatched("ambiguous", fitting, missing)
            if fitting:
                return _matched(fitting[0], method, conversation, missing)
            if named is not None:
                missing = missing or _leads_nowhere(method, named, candidates, conversation)
        return _unmatched("unmatched", [], missing)

    def _candidates(
        self, conversation: Conversation, label: Label | None
    ) -> Iterator[tuple[MatchMethod, list[Case], str | None]]:
        """Yield each method with the cases it finds and the case id it was given, strongest method first."""
        if conversation.case_id is not None:
            yield "case_id", self._by_id.get(conversation.case_id, []), conversation.case_id
        if label is not None and label.case_id is not None:
            yield "labels_file", self._by_id.get(label.case_id, []), label.case_id
        queries = [turn.query for turn in conversation.turns]
        if not queries or queries[0] is None:
            return
        said = [normalise(query) for query in queries if query is not None]
        if len(said) == len(queries):
            yield "exact_queries", self._by_queries.get(tuple(said), []), None
        yield "first_query", self._by_first_query.get(said[0], []), None


def _matched(case: Case, method: MatchMethod, conversation: Conversation, missing: str | None) -> Match:
    warning = missing
    if method in {"case_id", "labels_file"} and shares_nothing(case, conversation):
        warning = (
            f"wrong ground truth? Case {case.case_id!r} of dataset {case.dataset!r} shares neither a query nor an "
            f"expected argument value with conversation {conversation.conversation_id!r}; check the id"
        )
    return Match(
        case=case,
        method=method,
        confidence=CONFIDENCE[method],
        candidates=(case.case_id,),
        warning=warning,
        reason=None,
    )


def _unmatched(reason: UnmatchedReason, fitting: list[Case], warning: str | None) -> Match:
    # Cases of several datasets may share an id: then the dataset tells the candidates apart.
    shared = len({case.case_id for case in fitting}) < len(fitting)
    names = sorted(f"{case.dataset}/{case.case_id}" if shared else case.case_id for case in fitting)
    return Match(case=None, method=None, confidence=None, candidates=tuple(names), warning=warning, reason=reason)


def _leads_nowhere(method: MatchMethod, case_id: str, found: list[Case], conversation: Conversation) -> str:
    source = "the spans name" if method == "case_id" else "the labels file names"
    if found:
        return (
            f"{source} case {case_id!r}, which is not for agent {conversation.agent_name!r}; check the case's `agent`"
        )
    return f"{source} case {case_id!r}, which is in no dataset; load its file or correct the id"


def shares_nothing(case: Case, conversation: Conversation) -> bool:
    """Return whether case and conversation share neither a query nor any expected argument value.

    A value is shared that is an argument of a made call, or that user or agent say. False where one of the two holds
    nothing to compare: silence is no sign of a wrong case.
    """
    expected_queries = {normalise(turn.query) for turn in case.turns if turn.query is not None}
    queries = {normalise(turn.query) for turn in conversation.turns if turn.query is not None}
    if expected_queries & queries:
        return False
    expected = _telling(
        value for tools in _expectations(case) for call in tools.calls for value in call.parameters.values()
    )
    made = _telling(call.arguments for turn in conversation.turns for call in turn.calls if call.arguments)
    if expected & made or any(_is_said(value, conversation) for value in expected):
        return False
    return bool((expected_queries and queries) or (expected and made))


def _expectations(case: Case) -> Iterator[ToolExpectation]:
    for tools in (case.tools, *(turn.tools for turn in case.turns)):
        if tools is not None:
            yield tools
            yield from tools.alternatives


def _telling(values: Iterable[Any]) -> set[str | float]:
    """Return the short texts (normalised) and numbers in the values.

    True, false and null say nothing about which case it is; prose, such as a summary, is worded anew each time.
    """
    found = (value for _, value in leaves(list(values), limit=_VALUE_LIMIT))
    return {
        normalise(value) if isinstance(value, str) else value
        for value in found
        if is_number(value) or (isinstance(value, str) and 0 < len(value) <= _PROSE_CHARACTERS)
    }


def _is_said(value: str | float, conversation: Conversation) -> bool:
    wanted = value if isinstance(value, str) else f"{value:g}"
    return any(
        says_text(normalise(text), wanted)
        for turn in conversation.turns
        for text in (turn.query, turn.answer)
        if text is not None
    )
