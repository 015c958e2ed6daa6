"""Production conversations as drafts of cases: what was asked, and what the agent did about it, to be corrected."""

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
#: Characters of a glob that would not stand for themselves.
_GLOB: Final = "*?["


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """What makes two conversations one case: the agent, and everything that was asked of it."""

    agent: str | None
    queries: Queries

    @classmethod
    def of(cls, agent: str | None, queries: Iterable[str | None]) -> Asking:
        """Return it for the queries as they were said."""
        return cls(agent=agent, queries=queries_key(queries))

    @property
    def case_id(self) -> str:
        """The id of its case, the same each time. It tells nothing of the texts, for ids travel in telemetry."""
        said = json.dumps([self.agent, *self.queries], ensure_ascii=False)
        return f"production-{hashlib.sha256(said.encode()).hexdigest()[:_ID_DIGITS]}"

    @property
    def problem(self) -> str | None:
        """Why no case can be made of it, None when one can."""
        if not self.queries:
            return "without a turn"
        if not any(self.queries):
            return "no query was captured, so that no conversation could be matched with such a case"
        return None


def draft_case(
    conversation: Conversation, *, dataset: str, promoted_from: Sequence[str], why: str, count_errors: bool = False
) -> Case:
    """Return the draft of a case: the queries, the answers given and the calls made, as they were.

    Args:
        conversation: what it is made of.
        dataset: the dataset that it goes to.
        promoted_from: ids of the conversations that it stands for.
        why: why it was promoted, a sentence or two for its notes.
        count_errors: whether a call that answered with an error counts as made.
    """
    return Case(
        case_id=Asking.of(conversation.agent_name, (turn.query for turn in conversation.turns)).case_id,
        dataset=dataset,
        tags=(PROMOTED_TAG,),
        agent=_own_name(conversation.agent_name),
        turns=tuple(_turn(turn, count_errors=count_errors) for turn in conversation.turns),
        reviewed=False,
        promoted_from=tuple(promoted_from),
        notes=" ".join([why, *_remarks(conversation, count_errors=count_errors)]),
    )


def _own_name(agent: str | None) -> str | None:
    """Return a glob that fits this name alone."""
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
    """Return the calls that scoring counts, their steps numbered anew without gaps."""
    made = [call for call in turn.calls if _counts(call) and (count_errors or call.error is None)]
    steps = {step: number for number, step in enumerate(sorted({call.step for call in made}), start=1)}
    return tuple(
        ExpectedCall(
            tool_name=call.name,
            parameters=dict(call.arguments or {}),
            step=steps[call.step],
            # What was not captured is not known to be none.
            ignore_extra_parameters=call.arguments is None,
        )
        for call in made
    )


def _counts(call: ToolCall) -> bool:
    """Return whether a call is one that an expectation is about: no transfer, and no agent used as a tool."""
    return call.kind == "tool" and bool(call.name)


def _remarks(conversation: Conversation, *, count_errors: bool) -> Iterator[str]:
    """Yield what the draft does not say of the conversation, a sentence each."""
    made = [call for turn in conversation.turns for call in turn.calls if _counts(call)]
    errored = 0 if count_errors else sum(call.error is not None for call in made)
    if errored:
        yield f"Left out: {_number(errored, 'call')} that answered with an error."
    kept = [call for call in made if count_errors or call.error is None]
    unknown = sum(call.arguments is None for call in kept)
    if unknown:
        yield f"Not captured: the arguments of {_number(unknown, 'call')}."
    for what, places in (
        ("query", [turn.index + 1 for turn in conversation.turns if not turn.query_captured]),
        ("answer", [turn.index + 1 for turn in conversation.turns if not turn.answer_captured]),
    ):
        if places:
            yield f"Not captured: the {what} of turn {', '.join(map(str, places))}."


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
