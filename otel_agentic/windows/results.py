"""Scored conversations, one by one, as the columns that windows are counted from."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

import numpy as np

from otel_agentic.scoring.model import DIMENSIONS
from otel_agentic.windows.columns import Results
from otel_agentic.windows.group import subject_key
from otel_agentic.windows.model import GroupKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from otel_agentic.scoring.model import Outcome
    from otel_agentic.windows.model import ScoredConversation

#: How outcomes stand in columns.
OUTCOME_CODES: Final[dict[Outcome, int]] = {"pass": 1, "fail": 0, "not_evaluated": -1}


def results_of(scored: Iterable[ScoredConversation], tags: Sequence[str] = ()) -> Results:
    """Return the columns of scored conversations, in event order, groups sorted by key.

    Args:
        scored: conversations in any order, each once.
        tags: case tags, names or globs, that make groups of their own beside the whole.
    """
    ordered = sorted(scored, key=lambda each: (each.ended_ns, each.environment, each.conversation_id))
    rows = [(key, each) for each in ordered for key in _keys(each, tags)]
    groups = sorted({key for key, _ in rows}, key=GroupKey.sort_key)
    cases = sorted({each.case_key for each in ordered if each.case_id is not None})
    reasons = sorted({_reason(each) for each in ordered if each.outcome == "not_evaluated"})
    group_codes = {key: code for code, key in enumerate(groups)}
    case_codes = {key: code for code, key in enumerate(cases)}
    reason_codes = {reason: code for code, reason in enumerate(reasons)}
    return Results(
        groups=groups,
        group=np.array([group_codes[key] for key, _ in rows], dtype=np.int64),
        case=np.array([-1 if each.case_id is None else case_codes[each.case_key] for _, each in rows], dtype=np.int64),
        ended_ns=np.array([each.ended_ns for _, each in rows], dtype=np.int64),
        outcome=np.array([OUTCOME_CODES[each.outcome] for _, each in rows], dtype=np.int64),
        reasons=reasons,
        reason=np.array(
            [reason_codes[_reason(each)] if each.outcome == "not_evaluated" else -1 for _, each in rows], dtype=np.int64
        ),
        dimensions=np.array(
            [[each.dimensions.get(name, np.nan) for name in DIMENSIONS] for _, each in rows], dtype=np.float64
        ).reshape(-1, len(DIMENSIONS)),
        weight=np.array([each.weight for _, each in rows], dtype=np.float64),
    )


def _keys(scored: ScoredConversation, tags: Sequence[str]) -> Iterator[GroupKey]:
    whole = subject_key(scored)
    yield whole
    for tag in dict.fromkeys(scored.tags):
        if any(fnmatchcase(tag, glob) for glob in tags):
            yield GroupKey(
                agent=whole.agent,
                agent_version=whole.agent_version,
                environment=whole.environment,
                service=whole.service,
                tag=tag,
            )


def _reason(scored: ScoredConversation) -> str:
    return scored.reason or "no_data"
