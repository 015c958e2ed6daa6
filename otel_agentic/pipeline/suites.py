"""Suites: the conversations whose cases bear a tag, such as `regression`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from otel_agentic.errors import BadInputError
from otel_agentic.store.truth import load_cases

if TYPE_CHECKING:
    from otel_agentic.pipeline.evaluate import EvaluationRequest, EvaluationRunner, Truth
    from otel_agentic.store.database import Connection
    from otel_agentic.truth import Case

#: Conversations that are matched at once.
_CHUNK: Final = 500
#: Tags told in an error.
_TOLD: Final = 20


def require_suite(con: Connection, tag: str) -> list[Case]:
    """Return the cases in force that bear a tag.

    Raises:
        BadInputError: none does; names the tags that there are.
    """
    cases = load_cases(con)
    found = [case for case in cases if tag in case.tags]
    if not found:
        tags = sorted({each for case in cases for each in case.tags})
        there = f"tags in force: {', '.join(tags[:_TOLD])}" if tags else "no case in force has a tag"
        raise BadInputError(
            f"no case in force has the tag {tag!r}; {there}; `otel-agentic truth promote --failing --tag {tag}` drafts cases"
        )
    return found


def of_suite(evaluating: EvaluationRunner, truth: Truth, wanted: EvaluationRequest, tag: str) -> EvaluationRequest:
    """Return what is wanted of conversations that are matched to a case with a tag; all of it is matched for that.

    Args:
        evaluating: what matches.
        truth: the ground truth in force.
        wanted: conversations to be scored.
        tag: the tag of the suite, of at least one case.
    """
    asked = [*wanted.keys, *wanted.lacking]
    found = (
        one
        for start in range(0, len(asked), _CHUNK)
        for one in evaluating.match(truth, asked[start : start + _CHUNK])
        if one.match.case is not None and tag in one.match.case.tags
    )
    ours = frozenset((one.conversation.environment, str(one.conversation.conversation_id)) for one in found)
    return replace(
        wanted,
        keys=[key for key in wanted.keys if key in ours],  # the oldest is scored first
        again=wanted.again & ours,
        lacking={key: names for key, names in wanted.lacking.items() if key in ours},
    )
