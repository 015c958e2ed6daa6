"""Drafts of cases from production conversations, and clusters of opening queries."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.truth.match import Queries, queries_key
from otel_agentic.truth.model import Case, CaseTurn, ExpectedCall, ToolExpectation
from otel_agentic.truth.proposals import CallKey, Proposal, proposals
from otel_agentic.truth.values import normalise, words

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation, ToolCall, Turn

#: Minimum similarity in percent (rapidfuzz, InDel over sorted words) of two first queries with the same question.
_SAME_QUESTION: Final = 80
#: Number of words of a query that are compared: the question comes first, and a pasted document must not add to the
#: cost.
_WORDS: Final = 20
#: Maximum number of clusters (the most frequent) that other queries can join; further dissimilar queries remain
#: separate.
_MAX_LEADERS: Final = 1000
#: Replaces words with a digit, so that "order A1" and "order B2" are the same question.
_FIGURE: Final = "#"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A conversation and its first query, None if it was not captured; `ended_ns` is its end, ns since the epoch."""

    environment: str
    conversation_id: str
    agent: str | None
    query: str | None
    ended_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Conversations with similar opening queries.

    `query` is the most frequent first query in the words of the newest conversation, None if not captured; `example` is that
    conversation. `members` are the conversations, newest first, and `share` is their share of all clustered ones, in (0, 1]. `agents` are names,
    most frequent first. Times are those of the earliest and the latest end, ns since the epoch.
    """

    query: str | None
    members: tuple[Opening, ...]
    share: float
    agents: tuple[str, ...]
    example: Opening
    first_seen_ns: int
    last_seen_ns: int

    @property
    def size(self) -> int:
        """The number of conversations."""
        return len(self.members)


def cluster(openings: Iterable[Opening]) -> list[Cluster]:
    """Return the clusters of conversations by opening query, the largest first; independent of the order of conversations.

    Queries are equal if they contain the same words, independent of order, case and punctuation, with words with digits treated
    as equal. The others join the most similar of the `_MAX_LEADERS` most frequent ones, if one is similar enough.
    """
    by_question: dict[str, list[Opening]] = defaultdict(list)
    for opening in openings:
        by_question[_question(opening.query)].append(opening)
    total = sum(map(len, by_question.values()))
    groups = _join({question: len(group) for question, group in by_question.items()})
    clusters = [
        _cluster(by_question[leader], [opening for question in questions for opening in by_question[question]], total)
        for leader, questions in groups.items()
    ]
    return sorted(
        clusters, key=lambda item: (-item.size, -item.last_seen_ns, item.query or "", item.example.conversation_id)
    )


def _question(query: str | None) -> str:
    """Return the sorted words of a query, with words with digits made equal; "" for an unknown query.

    >>> _question("Where is order A1?") == _question("where is order B2")
    True
    """
    tokens = words(normalise(query or ""))[:_WORDS]
    return " ".join(sorted(_FIGURE if any(map(str.isdigit, word)) else word for word in tokens))


def _join(sizes: Mapping[str, int]) -> Mapping[str, Sequence[str]]:
    """Return the questions of each cluster by its leading question, independent of the input order."""
    from rapidfuzz import fuzz, process  # noqa: PLC0415 — only clustering needs it

    groups: dict[str, list[str]] = {}
    leaders: list[str] = []
    for question in sorted(sizes, key=lambda text: (-sizes[text], text)):
        # A question without words was not captured and is similar to no other.
        best = (
            process.extractOne(question, leaders, scorer=fuzz.ratio, score_cutoff=_SAME_QUESTION) if question else None
        )
        if best is not None:
            groups[best[0]].append(question)
            continue
        groups[question] = [question]
        if question and len(leaders) < _MAX_LEADERS:
            leaders.append(question)
    return groups


def _cluster(leading: Sequence[Opening], members: Sequence[Opening], total: int) -> Cluster:
    example = max(leading, key=_recency)
    agents = Counter(opening.agent for opening in members if opening.agent is not None)
    ends = [opening.ended_ns for opening in members]
    return Cluster(
        query=example.query,
        members=tuple(sorted(members, key=_recency, reverse=True)),
        share=len(members) / total,
        agents=tuple(sorted(agents, key=lambda name: (-agents[name], name))),
        example=example,
        first_seen_ns=min(ends),
        last_seen_ns=max(ends),
    )


def _recency(opening: Opening) -> tuple[int, str, str]:
    return opening.ended_ns, opening.environment, opening.conversation_id


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
        """The id of the case: a deterministic hash, because ids appear in telemetry and must not reveal texts."""
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
    conversation: Conversation,
    *,
    dataset: str,
    promoted_from: Sequence[str],
    why: str,
    count_errors: bool = False,
    has_judge: bool = False,
    others: Sequence[Conversation] = (),
) -> Case:
    """Return the draft of a case: the queries, the actual answers and calls, and match modes for their parameters.

    Args:
        conversation: the source conversation.
        dataset: the dataset of the case.
        promoted_from: ids of the conversations that the case represents.
        why: the reason for the promotion, a sentence or two for the notes.
        count_errors: whether calls that returned an error are included.
        has_judge: whether a judge compares parameters.
        others: further successful conversations with the same queries.
    """
    proposed = proposals(conversation, has_judge=has_judge, others=others)
    return Case(
        case_id=CaseIdentity.of(conversation.agent_name, (turn.query for turn in conversation.turns)).case_id,
        dataset=dataset,
        tags=(PROMOTED_TAG,),
        agent=_agent_glob(conversation.agent_name),
        turns=tuple(_turn(turn, proposed, count_errors=count_errors) for turn in conversation.turns),
        reviewed=False,
        promoted_from=tuple(promoted_from),
        notes=" ".join([why, *_remarks(conversation, proposed, count_errors=count_errors)]),
    )


def _agent_glob(agent: str | None) -> str | None:
    """Return a glob that matches only this agent name, or None without a name."""
    if not agent:
        return None
    return "".join(f"[{character}]" if character in _GLOB else character for character in agent)


_Proposed = Mapping[CallKey, Mapping[str, Proposal]]


def _turn(turn: Turn, proposed: _Proposed, *, count_errors: bool) -> CaseTurn:
    calls = _draft_calls(turn, proposed, count_errors=count_errors)
    return CaseTurn(
        query=turn.query if turn.query and turn.query.strip() else None,
        answer=turn.answer if turn.answer and turn.answer.strip() else None,
        tools=ToolExpectation(calls=calls) if calls else None,
    )


def _draft_calls(turn: Turn, proposed: _Proposed, *, count_errors: bool) -> tuple[ExpectedCall, ...]:
    """Return the calls that scoring counts, with their steps renumbered without gaps."""
    actual = _counted_calls(turn, count_errors=count_errors)
    steps = {step: number for number, step in enumerate(sorted({call.step for call in actual}), start=1)}
    return tuple(
        ExpectedCall(
            tool_name=call.name,
            parameters=dict(call.arguments or {}),
            step=steps[call.step],
            match={name: proposal.mode for name, proposal in proposed.get((turn.index, call.position), {}).items()},
            # The call may have had arguments that were not captured.
            ignore_extra_parameters=call.arguments is None,
        )
        for call in actual
    )


def _counted_calls(turn: Turn, *, count_errors: bool) -> list[ToolCall]:
    return [call for call in turn.calls if _is_scored(call) and (count_errors or call.error is None)]


def _is_scored(call: ToolCall) -> bool:
    """Return whether expectations apply to a call: it is neither a transfer nor an agent used as a tool."""
    return call.kind == "tool" and bool(call.name)


def _remarks(conversation: Conversation, proposed: _Proposed, *, count_errors: bool) -> Iterator[str]:
    """Yield a sentence for each kind of information that the draft lacks, and for each reason of a match mode."""
    included = [call for turn in conversation.turns for call in _counted_calls(turn, count_errors=count_errors)]
    left_out = sum(_is_scored(call) for turn in conversation.turns for call in turn.calls) - len(included)
    if left_out:
        yield f"Left out: {_counted(left_out, 'call')} that returned an error."
    unknown = sum(call.arguments is None for call in included)
    if unknown:
        yield f"Not captured: the arguments of {_counted(unknown, 'call')}."
    for part, turns in (
        ("query", [turn.index + 1 for turn in conversation.turns if not turn.query_captured]),
        ("answer", [turn.index + 1 for turn in conversation.turns if not turn.answer_captured]),
    ):
        if turns:
            yield f"Not captured: the {part} of turn {', '.join(map(str, turns))}."
    for (mode, reason), turns_of in _proposals_by_reason(conversation, proposed, count_errors=count_errors).items():
        parameters = (f"{name} (turn {', '.join(map(str, turns))})" for name, turns in turns_of.items())
        yield f"Proposed match {mode} ({reason}): {'; '.join(parameters)}."


def _proposals_by_reason(
    conversation: Conversation, proposed: _Proposed, *, count_errors: bool
) -> dict[tuple[str, str], dict[str, dict[int, None]]]:
    """Return the turns (1-based, in order) of each parameter, such as `send.body`, by mode and reason."""
    result: dict[tuple[str, str], dict[str, dict[int, None]]] = defaultdict(lambda: defaultdict(dict))
    for turn in conversation.turns:
        for call in _counted_calls(turn, count_errors=count_errors):
            for name, proposal in proposed.get((turn.index, call.position), {}).items():
                part = f" because of {proposal.part}" if proposal.part else ""
                result[proposal.mode, proposal.reason][f"{call.name}.{name}{part}"][turn.index + 1] = None
    return result


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
