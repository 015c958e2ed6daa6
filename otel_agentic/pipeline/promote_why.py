"""Why a conversation was promoted: the notes of the draft that is made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_agentic.truth.index import queries_key
from otel_agentic.truth.promote import CaseIdentity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_agentic.store.promotion import Candidate
    from otel_agentic.truth import Case
    from otel_agentic.truth.clusters import Cluster

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
