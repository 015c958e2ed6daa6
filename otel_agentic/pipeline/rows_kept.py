"""Stores rows of an evaluation dataset as conversations with their cases."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from otel_agentic.conversations.model import ConversationId
from otel_agentic.errors import CaseError
from otel_agentic.pipeline.truth_in_force import TruthFile
from otel_agentic.store.conversations import (
    Built,
    content_hash,
    current_revisions,
    load_conversations,
    save_conversations,
)
from otel_agentic.truth.formats import native_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_agentic.conversations.model import Conversation
    from otel_agentic.pipeline.engine import Engine
    from otel_agentic.store.database import Connection
    from otel_agentic.truth import Case
    from otel_agentic.truth.formats.attempts import Attempt

#: The environment of rows, which no deployment produced.
ENVIRONMENT: Final = "rows"
#: Maximum number of problems in a message.
_MOST_PROBLEMS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRows:
    """The number of stored rows, of new or changed ones among them, and of rows without agent output."""

    stored: int
    new: int
    without_agent: int


def store_rows(engine: Engine, rows: Sequence[Attempt]) -> StoredRows:
    """Store rows, each as a conversation of environment `rows` with its case; storing the same rows again changes nothing.

    Conversations and cases are named by dataset and row, such as `airline/row-3`. The time of a conversation is when it was
    first stored, because rows contain no time.

    Raises:
        CaseError: rows of two files have the same name; lists all of them with file and line. Nothing is stored.
    """
    _require_apart(rows)
    by_dataset: dict[str, dict[str, Case]] = {}
    conversations: list[Conversation] = []
    redacting, now_ns = engine.store.redacting, engine.store.clock()
    for row in rows:
        case = row.case.model_copy(update={"case_id": f"{row.case.dataset}/{row.case.case_id}"})
        by_dataset.setdefault(case.dataset, {})[case.case_id] = case
        if row.conversation is not None:
            conversations.append(_as_stored(redacting.record(row.conversation), case, _name_of(row), now_ns))
    engine.evaluating.remember(
        [TruthFile(name=name, text=native_lines(list(cases.values()))) for name, cases in by_dataset.items()], []
    )
    fresh: list[Conversation] = []

    def write(con: Connection) -> None:
        fresh[:] = _changed(con, conversations)
        save_conversations(
            con, [Built(conversation=conversation, ambiguous_link=False) for conversation in fresh], now_ns
        )

    engine.store.write(write)
    return StoredRows(stored=len(conversations), new=len(fresh), without_agent=len(rows) - len(conversations))


def _require_apart(rows: Sequence[Attempt]) -> None:
    known: dict[str, Attempt] = {}
    problems: list[str] = []
    for row in rows:
        first = known.setdefault(_name_of(row), row)
        if first is not row:
            problems.append(
                f"{row.file}:{row.line}: row {_name_of(row)!r} already exists at {first.file}:{first.line}; rename one of the "
                "files, or give the rows another `dataset` or `id`"
            )
    if problems:
        raise CaseError("\n".join(problems[:_MOST_PROBLEMS]))


def _name_of(row: Attempt) -> str:
    return f"{row.case.dataset}/{row.name}"


def _as_stored(conversation: Conversation, case: Case, name: str, now_ns: int) -> Conversation:
    moved = replace(
        conversation,
        environment=ENVIRONMENT,
        conversation_id=ConversationId(name),
        case_id=case.case_id,
    )
    return _at(moved, now_ns)


def _at(conversation: Conversation, time_ns: int) -> Conversation:
    turns = tuple(replace(turn, started_ns=time_ns, ended_ns=time_ns) for turn in conversation.turns)
    return replace(conversation, started_ns=time_ns, ended_ns=time_ns, turns=turns)


def _changed(con: Connection, conversations: Iterable[Conversation]) -> list[Conversation]:
    """Return the new conversations, and the changed ones as the next revision."""
    by_key = {
        (conversation.environment, str(conversation.conversation_id)): conversation for conversation in conversations
    }
    known = {
        (conversation.environment, str(conversation.conversation_id)): conversation
        for conversation in load_conversations(con, by_key)
    }
    revisions = current_revisions(con, by_key)
    changed: list[Conversation] = []
    for key, conversation in by_key.items():
        current = revisions.get(key)
        if current is None:
            changed.append(conversation)
        elif key not in known or content_hash(_at(conversation, known[key].started_ns)) != current.content_hash:
            changed.append(replace(conversation, revision=current.revision + 1))
    return changed
