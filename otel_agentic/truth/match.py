"""Which case a conversation is an attempt of: found, or said to be unknown; never guessed.

The methods, first hit wins: the case id that a span names, the labels file, the queries of the whole conversation, the
queries so far, and where the settings ask for it the text of all queries. Queries are compared after `normalise`. Where a
method finds two cases that fit equally, the conversation is ambiguous and no weaker method is asked. A draft that nobody
has reviewed is asked for only where no reviewed case fits by any method. Unless the text of the queries matches, the case
that it finds is a suggestion, which counts in nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from otel_agentic.config import MatchingSettings
from otel_agentic.errors import CaseError
from otel_agentic.truth.index import Asked, Hit, MatchMethod, Named, Pool
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
    """The case of a conversation, or why there is none.

    `confidence` is in [0, 1]. `candidates` are the ids of the cases that fit (one when matched, several when ambiguous),
    sorted. `warning` says that the ground truth looks wrong, or that a case id leads nowhere; None when nothing does.
    `suggestion` is the case that the text of an unmatched conversation is nearest to, for a person to confirm.
    """

    case: Case | None
    method: MatchMethod | None
    confidence: float | None
    candidates: tuple[str, ...]
    warning: str | None
    reason: UnmatchedReason | None
    suggestion: TextMatch | None = None


class CaseIndex:
    """Cases, ready to be matched with conversations."""

    def __init__(self, cases: Iterable[Case], matching: MatchingSettings = MatchingSettings()) -> None:  # noqa: B008 — frozen
        """Index the cases once.

        Args:
            cases: reviewed ones and drafts.
            matching: what the text of all queries is used for.

        Raises:
            CaseError: two cases have the same dataset and case id but not the same content.
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
        asked = _asked(conversation, label)
        hit = self._reviewed.hit(asked) or self._drafts.hit(asked)
        found = self._by_text(asked) if hit is None and self._matching.text != "off" else None
        if found is not None and self._matching.text == "auto":
            hit = Hit(method="text", cases=[found.case], confidence=found.confidence)
        warning = self._not_followed(asked, hit)
        if hit is None:
            return replace(_unmatched("unmatched", [], warning), suggestion=found)
        if len(hit.cases) > 1:
            return _unmatched("ambiguous", hit.cases, warning)
        return _matched(hit, conversation, warning)

    def _by_text(self, asked: Asked) -> TextMatch | None:
        """Return the case that the text of a conversation is nearest to, where that is likely enough to be right."""
        found = (pool.nearest(asked) for pool in (self._reviewed, self._drafts))
        return next((one for one in found if one and one.confidence >= self._matching.text_threshold), None)

    def _not_followed(self, asked: Asked, hit: Hit | None) -> str | None:
        """Return why the first case id that was given, and that the hit is not by, leads to no case."""
        methods = [named.method for named in asked.named]
        passed_over = asked.named[: methods.index(hit.method)] if hit and hit.method in methods else asked.named
        return self._leads_nowhere(passed_over[0], asked.agent_name) if passed_over else None

    def _leads_nowhere(self, named: Named, agent_name: str | None) -> str:
        source = "the spans name" if named.method == "case_id" else "the labels file names"
        told = f"{source} case {_cut(named.case_id)!r}"
        cases = [*self._reviewed.named(named.case_id)[0], *self._drafts.named(named.case_id)[0]]
        if not cases:
            return f"{told}, which is in no dataset; load its file or correct the id"
        if not any(case.is_for(agent_name) for case in cases):
            return f"{told}, which is not for agent {agent_name!r}; check the case's `agent`"
        return f"{told}, a draft: a reviewed case that fits goes before it"


def _cut(name: str) -> str:
    """Return an id that strangers gave as messages show it: these are stored with every conversation."""
    return name if len(name) <= _SHOWN_CHARACTERS else f"{name[: _SHOWN_CHARACTERS - 1]}…"


def _by_key(cases: Iterable[Case]) -> dict[tuple[str, str], Case]:
    found: dict[tuple[str, str], Case] = {}
    for case in cases:
        known = found.setdefault(case.key, case)
        if known is not case and known.version != case.version:
            raise CaseError(
                f"case {case.case_id!r} of dataset {case.dataset!r} is given twice with different content; keep one"
            )
    return found


def _asked(conversation: Conversation, label: Label | None) -> Asked:
    given = [
        Named(method="case_id", case_id=conversation.case_id or ""),
        Named(method="labels_file", case_id=(label and label.case_id) or ""),
    ]
    return Asked(
        named=[named for named in given if named.case_id.strip()],
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
    # Cases of several datasets may share an id: then the dataset tells the candidates apart.
    shared = len({case.case_id for case in fitting}) < len(fitting)
    names = sorted(f"{case.dataset}/{case.case_id}" if shared else case.case_id for case in fitting)
    return Match(case=None, method=None, confidence=None, candidates=tuple(names), warning=warning, reason=reason)
