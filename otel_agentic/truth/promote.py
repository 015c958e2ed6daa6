"""Drafts of cases from production conversations: the queries and the agent's actions, to be corrected by a person."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.truth.index import queries_key
from otel_agentic.truth.model import Case, CaseTurn, ExpectedCall, ToolExpectation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from otel_agentic.conversations.model import Conversation, ToolCall, Turn
    from otel_agentic.truth.index import Queries

PROMOTED_TAG: Final = "production"
DEFAULT_DATASET: Final = "production"
_ID_DIGITS: Final = 12
#: Characters with a special meaning in a glob.
_GLOB: Final = "*?["


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseIdentity:
    """The identity of a promoted case: conversations with the same agent and queries are one case."""

    agent: str | None
    queries: Queries

    @classmethod
    def of(cls, agent: str | None, queries: Iterable[str | None]) -> CaseIdentity:
        """Return the identity for raw queries."""
        return cls(agent=agent, queries=queries_key(queries))

    @property
    def case_id(self) -> str:
        """The id of the case, the same each time. It is a hash, since ids appear in telemetry and must not reveal texts."""
        content = json.dumps([self.agent, *self.queries], ensure_ascii=False)
        return f"production-{hashlib.sha256(content.encode()).hexdigest()[:_ID_DIGITS]}"

    @property
    def problem(self) -> str | None:
        """The reason why a case cannot be created, or None."""
        if not self.queries:
            return "without a turn"
        if not any(self.queries):
            return "no query was captured, so that no conversation could match such a case"
        return None


def draft_case(
    conversation: Conversation, *, dataset: str, promoted_from: Sequence[str], why: str, count_errors: bool = False
) -> Case:
    """Return the draft of a case: the queries, and the actual answers and calls.

    Args:
        conversation: the source conversation.
        dataset: the dataset of the case.
        promoted_from: ids of the conversations that the case represents.
        why: the reason for the promotion, a sentence or two for the notes.
        count_errors: whether calls that returned an error are included.
    """
    return Case(
        case_id=CaseIdentity.of(conversation.agent_name, (turn.query for turn in conversation.turns)).case_id,
        dataset=dataset,
        tags=(PROMOTED_TAG,),
        agent=_own_name(conversation.agent_name),
        turns=tuple(_turn(turn, count_errors=count_errors) for turn in conversation.turns),
        reviewed=False,
        promoted_from=tuple(promoted_from),
        notes=" ".join([why, *_remarks(conversation, count_errors=count_errors)]),
    )


def _own_name(agent: str | None) -> str | None:
    """Return a glob that matches this name alone."""
    if not agent:
        return None
    return "".join(f"[{character}]" if character in _GLOB else character for character in agent)


def _turn(turn: Turn, *, count_errors: bool) -> CaseTurn:
    calls = _draft_calls(turn, count_errors=count_errors)
    return CaseTurn(
        query=turn.query if turn.query and turn.query.strip() else None,
        answer=turn.answer if turn.answer and turn.answer.strip() else None,
        tools=ToolExpectation(calls=calls) if calls else None,
    )


def _draft_calls(turn: Turn, *, count_errors: bool) -> tuple[ExpectedCall, ...]:
    """Return the calls that scoring counts, with their steps renumbered without gaps."""
    actual = [call for call in turn.calls if _counts(call) and (count_errors or call.error is None)]
    steps = {step: number for number, step in enumerate(sorted({call.step for call in actual}), start=1)}
    return tuple(
        ExpectedCall(
            tool_name=call.name,
            parameters=dict(call.arguments or {}),
            step=steps[call.step],
            # Arguments that were not captured may exist.
            ignore_extra_parameters=call.arguments is None,
        )
        for call in actual
    )


def _counts(call: ToolCall) -> bool:
    """Return whether expectations apply to a call: no transfer, and no agent used as a tool."""
    return call.kind == "tool" and bool(call.name)


def _remarks(conversation: Conversation, *, count_errors: bool) -> Iterator[str]:
    """Yield the information that the draft lacks, a sentence each."""
    actual = [call for turn in conversation.turns for call in turn.calls if _counts(call)]
    errored = 0 if count_errors else sum(call.error is not None for call in actual)
    if errored:
        yield f"Left out: {_number(errored, 'call')} that returned an error."
    included = [call for call in actual if count_errors or call.error is None]
    unknown = sum(call.arguments is None for call in included)
    if unknown:
        yield f"Not captured: the arguments of {_number(unknown, 'call')}."
    for part, turns in (
        ("query", [turn.index + 1 for turn in conversation.turns if not turn.query_captured]),
        ("answer", [turn.index + 1 for turn in conversation.turns if not turn.answer_captured]),
    ):
        if turns:
            yield f"Not captured: the {part} of turn {', '.join(map(str, turns))}."


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
