"""Every command on a store, by name: run in this process, or sent to the collector that holds the file.

Arguments and results are what JSON can say, for they cross the admin address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, ValidationError, validate_call

from otel_agentic.dialects.frameworks import framework_of
from otel_agentic.errors import BadInputError, UsageError
from otel_agentic.pipeline.coverage import by_framework, of_view
from otel_agentic.pipeline.evaluate import OnScored, TruthFile
from otel_agentic.pipeline.export import conversation_json
from otel_agentic.pipeline.report import report
from otel_agentic.store import browse
from otel_agentic.store.conversations import load_conversations
from otel_agentic.store.query_guard import run_query
from otel_agentic.store.scores import Scored, Selection
from otel_agentic.windows import GroupBy

if TYPE_CHECKING:
    from otel_agentic.pipeline.engine import Engine

_EXPORT_CHUNK: Final = 500
_INT_END: Final = 2**63
Json = Any
Step = Callable[[str, int, int | None], None]


class Commands:
    """The commands on one engine. Each public method is one command of the wire."""

    def __init__(self, engine: Engine, progress: Step = lambda *_: None, *, scored: OnScored = lambda *_: None) -> None:
        """Bind the commands.

        Args:
            engine: the opened store.
            progress: told how far a long command is.
            scored: told what an evaluation scored (the live collector emits it).
        """
        self._engine = engine
        self._progress = progress
        self._on_scored = scored

    def evaluate(
        self,
        *,
        cases: Sequence[tuple[str, str]] = (),
        labels: Sequence[tuple[str, str]] = (),
        since_ns: int | None = None,
        until_ns: int | None = None,
        agent: str | None = None,
        force: bool = False,
    ) -> dict[str, Json]:
        """Match and score closed conversations; cases and labels are (name, text) and are remembered."""
        evaluating = self._engine.evaluating
        fresh = evaluating.remember(
            [TruthFile(name=n, text=t) for n, t in cases], [TruthFile(name=n, text=t) for n, t in labels]
        )
        truth = evaluating.truth()
        selection = Selection(since_ns=since_ns, until_ns=until_ns, agent=agent)
        keys = evaluating.wanted(truth, selection, again=force)
        done = 0

        def step(scored: Sequence[Scored], restated: AbstractSet[tuple[str, str]]) -> None:
            nonlocal done
            done += len(scored)
            self._progress("scoring", done, len(keys))
            self._on_scored(scored, restated)

        evaluated = evaluating.evaluate(truth, keys, step)
        return {
            "evaluation_id": evaluated.evaluation_id,
            "cases": len(truth.index),
            "new_case_versions": fresh,
            "labels": len(truth.labels),
            "scored": evaluated.scored,
            "restated": evaluated.restated,
            "outcomes": dict(evaluated.outcomes),
            "reasons": dict(evaluated.reasons),
            "warnings": list(evaluated.warnings),
        }

    def report(
        self,
        *,
        k: list[int] | None = None,
        by: list[GroupBy] | None = None,
        window: str | None = None,
        since_ns: int | None = None,
        until_ns: int | None = None,
        agent: str | None = None,
        estimator: str | None = None,
    ) -> dict[str, Json]:
        """Return the reliability of each group."""
        selection = Selection(since_ns=since_ns, until_ns=until_ns, agent=agent)
        return report(self._engine, k=k, by=by or (), window=window, selection=selection, estimator=estimator)

    def tools_failing(
        self, *, since_ns: int | None = None, until_ns: int | None = None, agent: str | None = None
    ) -> Json:
        """Return which tool fails in which dimension, most frequent first."""
        with self._engine.store.read() as con:
            return plain(browse.failing_tools(con, Selection(since_ns=since_ns, until_ns=until_ns, agent=agent)))

    def query(self, *, sql: str) -> dict[str, Json]:
        """Return the rows of one read-only SQL statement."""
        limits = self._engine.settings.store
        with self._engine.store.connection() as con:
            found = run_query(con, sql, timeout_s=limits.query_timeout_s, max_rows=limits.query_max_rows)
        return {
            "columns": list(found.columns),
            "types": list(found.types),
            "rows": plain([list(row) for row in found.rows]),
            "truncated": found.truncated,
        }

    def conversations_list(
        self,
        *,
        since_ns: int | None = None,
        until_ns: int | None = None,
        agent: str | None = None,
        outcome: Literal["pass", "fail", "not_evaluated"] | None = None,
        limit: Annotated[int, Field(ge=1)] = 50,
    ) -> Json:
        """Return conversations, newest first."""
        selection = Selection(since_ns=since_ns, until_ns=until_ns, agent=agent)
        with self._engine.store.read() as con:
            return plain(browse.list_conversations(con, selection, outcome=outcome, limit=limit))

    def conversations_show(self, *, conversation_id: str, environment: str | None = None) -> dict[str, Json]:
        """Return one conversation with its score and its case."""
        with self._engine.store.read() as con:
            keys = browse.find_conversation(con, conversation_id, environment)
            if not keys:
                raise BadInputError(
                    f"no conversation {conversation_id!r}; `otel-agentic conversations list` shows them"
                )
            if len(keys) > 1:
                names = ", ".join(repr(found) for found, _ in keys)
                raise BadInputError(
                    f"conversation {conversation_id!r} exists in environments {names}; give --environment"
                )
            (conversation,) = load_conversations(con, keys)
            score = browse.score_of(con, keys[0])
        told = (score["case_id"], score["outcome"], score["reason"]) if score else None
        return {"conversation": conversation_json(conversation, told), "score": plain(score)}

    def conversations_export(
        self, *, since_ns: int | None = None, until_ns: int | None = None, agent: str | None = None
    ) -> Iterator[Json]:
        """Yield every conversation, one object each."""
        selection = Selection(since_ns=since_ns, until_ns=until_ns, agent=agent)
        with self._engine.store.read() as con:
            keys = browse.all_conversations(con, selection)
            outcomes = browse.outcomes_of(con)
        for start in range(0, len(keys), _EXPORT_CHUNK):
            with self._engine.store.read() as con:
                conversations = load_conversations(con, keys[start : start + _EXPORT_CHUNK])
            for conversation in conversations:
                yield conversation_json(
                    conversation, outcomes.get((conversation.environment, str(conversation.conversation_id)))
                )

    def truth_import(
        self, *, cases: Sequence[tuple[str, str]] = (), labels: Sequence[tuple[str, str]] = ()
    ) -> dict[str, Json]:
        """Put cases and labels, given as (name, text), in force."""
        fresh = self._engine.evaluating.remember(
            [TruthFile(name=name, text=text) for name, text in cases],
            [TruthFile(name=name, text=text) for name, text in labels],
        )
        with self._engine.store.read() as con:
            total = len(browse.list_cases(con))
        return {"new_case_versions": fresh, "cases": total}

    def truth_list(self) -> Json:
        """Return the cases in force."""
        with self._engine.store.read() as con:
            return plain(browse.list_cases(con))

    def truth_matches(
        self,
        *,
        since_ns: int | None = None,
        until_ns: int | None = None,
        agent: str | None = None,
        only: Literal["unmatched", "ambiguous", "warning"] | None = None,
    ) -> Json:
        """Return which case each conversation was matched to, and how."""
        selection = Selection(since_ns=since_ns, until_ns=until_ns, agent=agent)
        with self._engine.store.read() as con:
            return plain(browse.list_matches(con, selection, only=only))

    def store_summary(self) -> dict[str, Json]:
        """Return counts and content coverage of the store."""
        with self._engine.store.read() as con:
            return {**browse.counts(con), "coverage": by_framework(of_view(browse.coverage(con)))}

    def live(self) -> dict[str, Json]:
        """Return what arrived: spans by scope and dialect, counts, coverage. A running collector adds its own state."""
        with self._engine.store.read() as con:
            spans = browse.received(con)
        for row in spans:
            row["framework"] = framework_of(row["scope"], row["dialect"]).name
        return {"spans": plain(spans), **self.store_summary()}


#: Commands that may be called by name, and whether they yield a stream.
NAMES: Final[Mapping[str, bool]] = {
    "evaluate": False,
    "report": False,
    "tools_failing": False,
    "query": False,
    "conversations_list": False,
    "conversations_show": False,
    "conversations_export": True,
    "truth_import": False,
    "truth_list": False,
    "truth_matches": False,
    "store_summary": False,
    "live": False,
}


def call(commands: Commands, name: str, arguments: Mapping[str, Any]) -> Any:
    """Run a command by name with arguments from a stranger.

    Raises:
        UsageError: there is no such command, or an argument is missing, unknown or of the wrong type; names it.
    """
    if name not in NAMES:
        raise UsageError(f"no command {name!r}; there are {', '.join(NAMES)}")
    checked = validate_call(config=ConfigDict(arbitrary_types_allowed=True))(getattr(commands, name))
    try:
        return checked(**arguments)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"command {name}, argument {where}: {first['msg']}, got {first.get('input')!r}") from error


def plain(value: Any) -> Any:  # noqa: PLR0911 — one return a type
    """Return a value from the database as JSON can say it: times as ISO 8601 text, decimals as numbers."""
    match value:
        case bool() | None | str() | float():
            return value
        case int():  # an integer that JSON readers cannot hold becomes its digits
            return value if -_INT_END <= value < _INT_END else str(value)
        case Mapping():
            return {str(key): plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [plain(inner) for inner in value]
        case datetime():
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
        case Decimal():
            return float(value)
        case bytes():
            return value.hex()
        case _:
            return str(value)
