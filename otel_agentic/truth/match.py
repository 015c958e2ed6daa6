"""Matching of a conversation with the case that it is an attempt of; a conversation without a match stays unknown.

The methods, first hit wins: the case id in the spans, the labels file, the queries of the whole conversation, the queries so
far, and, if the settings enable it, the text of all queries. Queries are compared after `normalise`. If a method matches two
cases equally well, the conversation is ambiguous and no weaker method is tried. Drafts that have not been reviewed are tried
only if no reviewed case matches by any method. Unless the settings enable matches by text, the most similar case is a
suggestion, which has no effect.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from otel_agentic.config import MatchingSettings
from otel_agentic.errors import CaseError
from otel_agentic.truth.index import Hit, MatchMethod, MatchRequest, Named, Pool
from otel_agentic.truth.wrong import shares_nothing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from otel_agentic.conversations.model import Conversation
    from otel_agentic.truth.labels import Label
    from otel_agentic.truth.model import Case
    from otel_agentic.truth.text_index import TextMatch

__all__ = ["CaseIndex", "Match", "MatchMethod", "UnmatchedReason"]

UnmatchedReason = Literal["unmatched", "ambiguous"]

_SHOWN_CHARACTERS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The case of a conversation, or the reason why it has none.

    `confidence` is in [0, 1]. `candidates` are the ids of the cases that fit (one when matched, several when ambiguous),
    sorted. `warning` reports a ground truth that looks wrong, or a case id that leads nowhere; otherwise None.
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
            matching: the use of the text of all queries.

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
        warning = self._not_followed(request, hit)
        if hit is None:
            return replace(_unmatched("unmatched", [], warning), suggestion=nearest)
        if len(hit.cases) > 1:
            return _unmatched("ambiguous", hit.cases, warning)
        return _matched(hit, conversation, warning)

    def _by_text(self, request: MatchRequest) -> TextMatch | None:
        """Return the case that the text of a conversation is most similar to, if the confidence suffices."""
        matches = (pool.nearest(request) for pool in (self._reviewed, self._drafts))
        return next((match for match in matches if match and match.confidence >= self._matching.text_threshold), None)

    def _not_followed(self, request: MatchRequest, hit: Hit | None) -> str | None:
        """Return the reason why the first assigned case id, unless the hit is by it, leads to no case."""
        methods = [named.method for named in request.named]
        passed_over = request.named[: methods.index(hit.method)] if hit and hit.method in methods else request.named
        return self._leads_nowhere(passed_over[0], request.agent_name) if passed_over else None

    def _leads_nowhere(self, named: Named, agent_name: str | None) -> str:
        source = "the spans name" if named.method == "case_id" else "the labels file names"
        subject = f"{source} case {_cut(named.case_id)!r}"
        cases = [*self._reviewed.named(named.case_id)[0], *self._drafts.named(named.case_id)[0]]
        if not cases:
            return f"{subject}, which is in no dataset; load its file or correct the id"
        if not any(case.is_for(agent_name) for case in cases):
            return f"{subject}, which is not for agent {agent_name!r}; check the case's `agent`"
        return f"{subject}, a draft: a reviewed case that fits goes before it"


def _cut(name: str) -> str:
    """Return an untrusted id as quoted in messages, which are stored with every conversation."""
    return name if len(name) <= _SHOWN_CHARACTERS else f"{name[: _SHOWN_CHARACTERS - 1]}…"


def _by_key(cases: Iterable[Case]) -> dict[tuple[str, str], Case]:
    by_key: dict[tuple[str, str], Case] = {}
    for case in cases:
        known = by_key.setdefault(case.key, case)
        if known is not case and known.version != case.version:
            raise CaseError(
                f"case {case.case_id!r} of dataset {case.dataset!r} exists twice with different content; keep one"
            )
    return by_key


def _request(conversation: Conversation, label: Label | None) -> MatchRequest:
    candidates = [
        Named(method="case_id", case_id=conversation.case_id or ""),
        Named(method="labels_file", case_id=(label and label.case_id) or ""),
    ]
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
    # Cases of several datasets may share an id: then the dataset distinguishes the candidates.
    shared = len({case.case_id for case in fitting}) < len(fitting)
    names = sorted(f"{case.dataset}/{case.case_id}" if shared else case.case_id for case in fitting)
    return Match(case=None, method=None, confidence=None, candidates=tuple(names), warning=warning, reason=reason)
