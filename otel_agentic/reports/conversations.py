"""Conversations as JSON objects, the coverage of their content, and the settings that would capture the rest.

`otel_agentic.api` reads the JSON objects back.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.dialects.frameworks import Framework, framework_of
from otel_agentic.results import to_json
from otel_agentic.results.conversations import ShownCall, ShownTurn
from otel_agentic.results.reports import IdReuse, WrongClock
from otel_agentic.results.store import Coverage, Missing
from otel_agentic.store.connection import to_json_value
from otel_agentic.store.queries.conversations import id_reuse, wrong_clocks

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation, ToolCall, Turn
    from otel_agentic.store import Store

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FRACTION: Final = re.compile(r"[.,](?P<digits>\d{1,30})")


def conversation_json(
    conversation: Conversation, score: tuple[str | None, str, str | None] | None = None
) -> dict[str, Any]:
    """Return a conversation as a JSON object.

    Args:
        conversation: the conversation.
        score: case id, outcome and reason of its newest score, or None without a score.
    """
    case_id, outcome, reason = score or (conversation.case_id, None, None)
    return {
        "conversation_id": str(conversation.conversation_id),
        "environment": conversation.environment,
        "revision": conversation.revision,
        "agent_name": conversation.agent_name,
        "agent_version": conversation.agent_version,
        "service": conversation.service,
        "started_at": iso(conversation.started_ns),
        "ended_at": iso(conversation.ended_ns),
        "closed_by": conversation.closed_by,
        "verdict": conversation.verdict,
        "case_id": case_id,
        "outcome": outcome,
        "reason": reason,
        "slices": list(conversation.slices),
        "turns": [to_json(shown_turn(turn)) for turn in conversation.turns],
    }


def iso(time_ns: int) -> str:
    """Return a time as ISO 8601 text in UTC with nine digits of a second.

    >>> iso(1_700_000_000_123_456_789)
    '2023-11-14T22:13:20.123456789Z'
    """
    seconds, nanoseconds = divmod(time_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{nanoseconds:09d}Z"


def ns_of_iso(text: str) -> int:
    """Return the nanoseconds since the epoch of an ISO 8601 text; without an offset it is UTC.

    Raises:
        ValueError: the text is not an ISO 8601 time.

    >>> ns_of_iso("2023-11-14T22:13:20.123456789Z")
    1700000000123456789
    """
    fraction = _FRACTION.search(text)
    seconds = text if fraction is None else text[: fraction.start()] + text[fraction.end() :]
    moment = datetime.fromisoformat(seconds)
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
    part_ns = int(fraction["digits"].ljust(9, "0")[:9]) if fraction else 0
    return (since.days * 86_400 + since.seconds) * 1_000_000_000 + part_ns


def shown_turn(turn: Turn, *, with_source: bool = False) -> ShownTurn:
    """Return a turn; its calls have the kind of record that they come from if `with_source` is set."""
    return ShownTurn(
        index=turn.index,
        query=turn.query,
        query_captured=turn.query_captured,
        answer=turn.answer,
        answer_captured=turn.answer_captured,
        trace_id=turn.trace_id,
        span_id=turn.span_id,
        error=turn.error,
        tools=[_call(call, call.source if with_source else None) for call in turn.calls],
    )


def _call(call: ToolCall, source: str | None) -> ShownCall:
    return ShownCall(
        name=call.name,
        kind=call.kind,
        arguments=dict(call.arguments) if call.arguments is not None else None,
        result=call.result,
        result_captured=call.result_captured,
        step=call.step,
        error=call.error,
        call_id=call.call_id,
        span_id=call.span_id,
        parent_span_id=call.parent_span_id,
        agent_name=call.agent_name,
        used=call.used_flag,
        source=source,
    )


#: Kinds of content: the title, the unit in which it is counted, and the units that do not need it.
_KINDS: Final = {
    "query": ("queries", "turns", None),
    "answer": ("answers", "turns", "failed_turns"),
    "arguments": ("arguments", "calls", None),
    "results": ("results", "calls", "failed_calls"),
    "conversation_id": ("conversation ids", "turns", None),
}
_CONTENT: Final = ("query", "answer", "arguments", "results")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """Counts of turns and calls, of failed ones, and of those with each kind of content.

    A failed turn needs no answer and a failed call no result, so these are not counted even if they have one. A transfer to
    another agent is not counted as a call, because it has no arguments and result of its own.
    """

    turns: int = 0
    failed_turns: int = 0
    calls: int = 0
    failed_calls: int = 0
    query: int = 0
    answer: int = 0
    arguments: int = 0
    results: int = 0
    conversation_id: int = 0

    def __add__(self, other: Recorded) -> Recorded:
        """Return the sums of both."""
        return Recorded(**{part.name: getattr(self, part.name) + getattr(other, part.name) for part in fields(self)})

    def of(self, kind: str) -> int:
        """Return how many turns or calls should have a kind of content."""
        _, unit, exempt = _KINDS[kind]
        return int(getattr(self, unit)) - (int(getattr(self, exempt)) if exempt else 0)


#: Service, dialect and instrumentation scope of a turn.
Writer = tuple[str | None, str | None, str | None]


def wrong_clocks_of(store: Store) -> list[WrongClock]:
    """Return, by service, the number of conversations that a wrong clock dated later than they were received."""
    with store.read() as con:
        rows = wrong_clocks(con)
    return [
        WrongClock(
            service=row["service"],
            conversations=row["conversations"],
            latest=to_json_value(row["latest"]),
            note=wrong_clock_note(row["service"], row["conversations"]),
        )
        for row in rows
    ]


def wrong_clock_note(service: str | None, conversations: int) -> str:
    """Return a note on the conversations of a service whose clock is ahead.

    >>> wrong_clock_note("planner", 1)
    'the clock of service planner is ahead: 1 conversation ended after it was received; it counts from its arrival'
    """
    several = f"{conversations:,} conversations ended after they were received; they count from their arrival"
    single = "1 conversation ended after it was received; it counts from its arrival"
    return f"the clock of service {service or '(unnamed)'} is ahead: {single if conversations == 1 else several}"


def id_reuse_of(store: Store) -> IdReuse | None:
    """Return how often conversation ids were reused, None if they were not."""
    with store.read() as con:
        counts = id_reuse(con)
    return id_reuse_counted(counts["shared_ids"], counts["conversations"], counts["possible"])


def id_reuse_counted(shared_ids: int, conversations: int, possible: int) -> IdReuse | None:
    """Return the reuse of conversation ids with notes, None if no id was reused.

    >>> id_reuse_counted(1, 3, 0).notes
    ['1 conversation id is shared by 3 conversations, which are counted separately (id, id#2, id@service)']
    >>> id_reuse_counted(0, 0, 0)
    """
    notes = []
    if shared_ids:
        ids = "1 conversation id is" if shared_ids == 1 else f"{shared_ids:,} conversation ids are"
        notes.append(
            f"{ids} shared by {conversations:,} conversations, which are counted separately (id, id#2, id@service)"
        )
    if possible:
        several = f"{possible:,} conversations may each be" if possible > 1 else "1 conversation may be"
        notes.append(
            f"{several} several attempts under one reused id, counted as one: use a new conversation id for each attempt, "
            "set agentic.attempt.id on its spans, or mark its end with agentic.conversation.end"
        )
    if not notes:
        return None
    return IdReuse(shared_ids=shared_ids, conversations=conversations, possible=possible, notes=notes)


def of_conversations(conversations: Iterable[Conversation]) -> dict[Writer, Recorded]:
    """Return the recorded content of conversations by service, dialect and scope, counted as in the view `v_coverage`."""
    counts: dict[Writer, Recorded] = defaultdict(Recorded)
    for conversation in conversations:
        has_id = conversation.link_method == "explicit"
        for turn in conversation.turns:
            counts[conversation.service, turn.dialect, turn.scope] += _of_turn(turn, has_id=has_id)
    return dict(counts)


def of_view(rows: Iterable[Mapping[str, Any]]) -> dict[Writer, Recorded]:
    """Return the recorded content of rows of the view `v_coverage`, which contain shares."""
    return {(row["service"], row["dialect"], row["scope"]): _of_row(row) for row in rows}


def _of_row(row: Mapping[str, Any]) -> Recorded:
    totals = Recorded(**{name: row[name] for name in ("turns", "failed_turns", "calls", "failed_calls")})
    return replace(totals, **{name: round((row[name] or 0.0) * totals.of(name)) for name in _KINDS})


def by_framework(recorded: Mapping[Writer, Recorded]) -> list[Coverage]:
    """Return the coverage of each service, dialect and framework.

    Shares are shares of turns, or for `arguments` and `results` of calls; null without any. `missing` lists each kind
    of content that is incomplete, with the count and the setting that records it.
    """
    total: dict[tuple[str | None, str | None, str], Recorded] = defaultdict(Recorded)
    known: dict[str, Framework] = {}
    scopes: dict[tuple[str | None, str | None, str], set[str]] = defaultdict(set)
    for (service, dialect, scope), counts in recorded.items():
        framework = framework_of(scope, dialect)
        known[framework.name] = framework
        total[service, dialect, framework.name] += counts
        scopes[service, dialect, framework.name] |= {scope} - {None}  # type: ignore[arg-type]  # None is removed
    return [
        Coverage(
            service=service,
            dialect=dialect,
            framework=name,
            scopes=sorted(scopes[service, dialect, name]),
            turns=counts.turns,
            calls=counts.calls,
            **_shares(counts),
            missing=_missing(counts, known[name]),
        )
        for (service, dialect, name), counts in sorted(total.items(), key=lambda item: [str(part) for part in item[0]])
    ]


def _of_turn(turn: Turn, *, has_id: bool) -> Recorded:
    calls = [call for call in turn.calls if call.kind != "transfer"]
    failed = turn.error is not None
    return Recorded(
        turns=1,
        failed_turns=failed,
        calls=len(calls),
        failed_calls=sum(call.error is not None for call in calls),
        query=turn.query_captured,
        answer=turn.answer_captured and not failed,
        arguments=sum(call.arguments is not None for call in calls),
        results=sum(call.result_captured and call.error is None for call in calls),
        conversation_id=has_id,
    )


def _shares(counts: Recorded) -> dict[str, float | None]:
    return {name: getattr(counts, name) / total if (total := counts.of(name)) else None for name in _KINDS}


def _missing(counts: Recorded, framework: Framework) -> list[Missing]:
    nothing = not any(getattr(counts, name) for name in _CONTENT)
    missing = []
    for name, (title, _, _) in _KINDS.items():
        have, of = getattr(counts, name), counts.of(name)
        if have < of:
            advice = _id_advice(have, framework) if name == "conversation_id" else _advice(framework, nothing=nothing)
            missing.append(Missing(what=title, have=have, of=of, advice=advice))
    return missing


def _advice(framework: Framework, *, nothing: bool) -> str:
    setting = framework.content.replace("`", "")
    if nothing:
        return f"content capture is off: {setting}"
    return f"recorded in part: {setting}; for the limits see docs/frameworks/{framework.name}.md"


def _id_advice(have: int, framework: Framework) -> str:
    setting = framework.conversation_id.replace("`", "")
    return f"{'not all spans have one' if have else 'no span has one'}: {setting}"
