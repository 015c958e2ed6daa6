"""Rows of an evaluation dataset, kept in a store as conversations with their cases."""

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

#: The environment of rows: no deployment wrote them.
ENVIRONMENT: Final = "rows"
#: Problems that are told.
_TOLD: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """How many rows are kept, how many of them are new or changed, and how many tell nothing of an agent."""

    kept: int
    new: int
    without_agent: int


def keep_rows(engine: Engine, rows: Sequence[Attempt]) -> Kept:
    """Keep rows: a conversation each, of environment `rows`, and its case in force. The same rows again change nothing.

    Conversations and cases are called by dataset and row, as in `airline/row-3`. A conversation has the time at which it
    was first kept, for rows tell none.

    Raises:
        CaseError: rows of two files would be one conversation; lists all of them, with file and line. Nothing is kept.
    """
    _require_apart(rows)
    by_dataset: dict[str, dict[str, Case]] = {}
    made: list[Conversation] = []
    redacting, now_ns = engine.store.redacting, engine.store.clock()
    for row in rows:
        case = row.case.model_copy(update={"case_id": f"{row.case.dataset}/{row.case.case_id}"})
        by_dataset.setdefault(case.dataset, {})[case.case_id] = case
        if row.conversation is not None:
            made.append(_placed(redacting.record(row.conversation), case, _name_of(row), now_ns))
    engine.evaluating.remember(
        [TruthFile(name=name, text=native_lines(list(cases.values()))) for name, cases in by_dataset.items()], []
    )
    fresh: list[Conversation] = []

    def write(con: Connection) -> None:
        fresh[:] = _changed(con, made)
        save_conversations(con, [Built(conversation=one, ambiguous_link=False) for one in fresh], now_ns)

    engine.store.write(write)
    return Kept(kept=len(made), new=len(fresh), without_agent=len(rows) - len(made))


def _require_apart(rows: Sequence[Attempt]) -> None:
    known: dict[str, Attempt] = {}
    problems: list[str] = []
    for row in rows:
        first = known.setdefault(_name_of(row), row)
        if first is not row:
            problems.append(
                f"{row.file}:{row.line}: row {_name_of(row)!r} stands at {first.file}:{first.line} already; name the files "
                "differently, or give the rows another `dataset` or `id`"
            )
    if problems:
        raise CaseError("\n".join(problems[:_TOLD]))


def _name_of(row: Attempt) -> str:
    return f"{row.case.dataset}/{row.name}"


def _placed(made: Conversation, case: Case, name: str, now_ns: int) -> Conversation:
    moved = replace(
        made,
        environment=ENVIRONMENT,
        conversation_id=ConversationId(name),
        case_id=case.case_id,
    )
    return _at(moved, now_ns)


def _at(made: Conversation, time_ns: int) -> Conversation:
    turns = tuple(replace(turn, started_ns=time_ns, ended_ns=time_ns) for turn in made.turns)
    return replace(made, started_ns=time_ns, ended_ns=time_ns, turns=turns)


def _changed(con: Connection, made: Iterable[Conversation]) -> list[Conversation]:
    """Return the conversations that are new, or say something else than before: those as a further revision."""
    given = {(one.environment, str(one.conversation_id)): one for one in made}
    known = {(one.environment, str(one.conversation_id)): one for one in load_conversations(con, given)}
    revisions = current_revisions(con, given)
    changed: list[Conversation] = []
    for key, one in given.items():
        current = revisions.get(key)
        if current is None:
            changed.append(one)
        elif key not in known or content_hash(_at(one, known[key].started_ns)) != current.content_hash:
            changed.append(replace(one, revision=current.revision + 1))
    return changed
