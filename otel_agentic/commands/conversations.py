"""Commands about conversations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from otel_agentic.commands.registry import Context, command
from otel_agentic.errors import BadInputError
from otel_agentic.evaluators.failures import FailureRules
from otel_agentic.evaluators.registry import metrics_by_name
from otel_agentic.reports.conversations import conversation_json
from otel_agentic.reports.metric_summary import with_severity
from otel_agentic.store.conversations import load_conversations
from otel_agentic.store.queries import conversations as browse
from otel_agentic.store.selection import DEFAULT, Selection, to_json_value

_EXPORT_CHUNK: Final = 500


@command("conversations_list", role="query")
def conversations_list(
    context: Context,
    *,
    since_ns: int | None = None,
    until_ns: int | None = None,
    agent: str | None = None,
    outcome: Literal["pass", "fail", "not_evaluated"] | None = None,
    limit: Annotated[int, Field(ge=1)] = 50,
    evaluation: str = DEFAULT,
) -> Any:
    """Return conversations, newest first."""
    selection = Selection(since_ns=since_ns, until_ns=until_ns, agent=agent)
    with context.showing(evaluation).store.read() as con:
        return to_json_value(browse.list_conversations(con, selection, outcome=outcome, limit=limit))


@command("conversations_show", role="query")
def conversations_show(
    context: Context, *, conversation_id: str, environment: str | None = None, evaluation: str = DEFAULT
) -> dict[str, Any]:
    """Return one conversation with its score, its case, and what metrics say of it."""
    with context.showing(evaluation).store.read() as con:
        keys = browse.find_conversation(con, conversation_id, environment)
        if not keys:
            raise BadInputError(f"no conversation {conversation_id!r}; `otel-agentic conversations list` shows them")
        if len(keys) > 1:
            names = ", ".join(repr(found) for found, _ in keys)
            raise BadInputError(f"conversation {conversation_id!r} exists in environments {names}; give --environment")
        (conversation,) = load_conversations(con, keys)
        score = browse.score_of(con, keys[0])
        metrics = browse.metrics_of(con, keys[0])
    settings, installed = context.engine.settings.evaluators, context.engine.evaluating.installed
    rules = FailureRules(metrics_by_name(installed).values(), settings)
    told = (score["case_id"], score["outcome"], score["reason"]) if score else None
    return {
        "evaluation": evaluation,
        "conversation": conversation_json(conversation, told),
        "score": to_json_value(score),
        "metrics": to_json_value(with_severity(metrics, conversation, rules)),
    }


@command("conversations_export", role="query")
def conversations_export(
    context: Context,
    *,
    since_ns: int | None = None,
    until_ns: int | None = None,
    agent: str | None = None,
    evaluation: str = DEFAULT,
) -> Iterator[Any]:
    """Yield every conversation, one object each."""
    selection = Selection(since_ns=since_ns, until_ns=until_ns, agent=agent)
    with context.showing(evaluation).store.read() as con:
        keys = browse.all_conversations(con, selection)
        outcomes = browse.outcomes_of(con)
    for start in range(0, len(keys), _EXPORT_CHUNK):
        with context.engine.store.read() as con:
            conversations = load_conversations(con, keys[start : start + _EXPORT_CHUNK])
        for conversation in conversations:
            yield conversation_json(
                conversation, outcomes.get((conversation.environment, str(conversation.conversation_id)))
            )
