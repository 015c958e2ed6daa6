"""`otel_agentic.open`: the results of a store as typed rows, tables for notebooks and pandas data frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from html import escape
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar, overload
from weakref import finalize

from otel_agentic.api.frames import module
from otel_agentic.commands import LocalClient, open_client
from otel_agentic.config import Settings, load_settings
from otel_agentic.errors import UsageError
from otel_agentic.results import to_json
from otel_agentic.results.conversations import ConversationDetails, ConversationRow
from otel_agentic.results.failures import FailingTool, FailingTools, FailureGroup, FailureReport
from otel_agentic.results.reports import Report, ReportGroup

if TYPE_CHECKING:
    import os

    import pandas as pd

    from otel_agentic.commands import Client
    from otel_agentic.spans import Sink

T = TypeVar("T")
#: A time: an aware or naive (UTC) datetime, ISO 8601 text, or an age such as "7d".
Time = datetime | str
#: Endings of columns with times.
_TIMES = ("_at", "_seen", "since")
#: The number of rows of a displayed table, and the characters of a cell.
_ROWS, _CHARACTERS = 20, 80


#: Stores that stay open without a reference, because their sink is used.
_SINKS: Final[set[OpenStore]] = set()


class Rows(Sequence[T], Generic[T]):
    """Typed rows with a table for people, in a notebook as HTML, and a pandas data frame."""

    def __init__(self, rows: Sequence[T], columns: Sequence[str], records: Sequence[dict[str, Any]]) -> None:
        """Store rows, and the same rows as records with the columns that a table displays first."""
        self._rows, self._columns, self._records = rows, columns, records

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        """Return a row, or several."""
        return self._rows[index]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._rows)

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a data frame; times are datetimes in UTC.

        Raises:
            UsageError: pandas is not installed; the message names the extra.
        """
        pandas = module("pandas", "to_pandas")
        frame: pd.DataFrame = pandas.DataFrame(self._records)
        for name in frame.columns:
            if str(name).endswith(_TIMES):
                frame[name] = pandas.to_datetime(frame[name], utc=True, format="ISO8601")
        return frame

    def __repr__(self) -> str:
        """Return the first rows as text, aligned in columns."""
        lines = [self._columns, *self._cells()]
        widths = [max(len(line[index]) for line in lines) for index in range(len(self._columns))]
        text = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
        ]
        return "\n".join([*text, *self._more()])

    def _repr_html_(self) -> str:
        """Return the first rows as an HTML table; cells are escaped."""
        head = "".join(f"<th>{escape(name)}</th>" for name in self._columns)
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in line)}</tr>" for line in self._cells())
        more = "".join(f"<p>{escape(line)}</p>" for line in self._more())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"

    def _cells(self) -> Iterator[list[str]]:
        for record in self._records[:_ROWS]:
            yield [_cell(record.get(name)) for name in self._columns]

    def _more(self) -> Iterator[str]:
        if len(self) > _ROWS:
            yield f"… and {len(self) - _ROWS:,} more rows"


def _cell(value: Any) -> str:
    text = "" if value is None else f"{value:.3f}" if isinstance(value, float) else " ".join(str(value).split())
    return text if len(text) <= _CHARACTERS else f"{text[: _CHARACTERS - 1]}…"


@dataclass(frozen=True, slots=True)
class StoreReport:
    """The reliability of each group: `groups` as typed rows with a table, and `details`, the complete result."""

    groups: Rows[ReportGroup]
    details: Report

    def to_pandas(self) -> pd.DataFrame:
        """Return a row for each group; see `Rows.to_pandas`."""
        return self.groups.to_pandas()

    def __repr__(self) -> str:
        """Return the table of the groups."""
        return repr(self.groups)

    def _repr_html_(self) -> str:
        return self.groups._repr_html_()


class OpenStore:
    """A store, opened by `otel_agentic.open`. A context manager that closes it; otherwise it closes with its last reference.

    Its methods run the commands of the command line, with the same options, in this process or in the collector that holds
    the file. All of them raise `OtelAgenticError`.
    """

    def __init__(self, client: Client, settings: Settings) -> None:
        self._client = client
        self._settings = settings
        self._finalizer = finalize(self, client.close)

    def report(
        self,
        *,
        k: Sequence[int] | None = None,
        by: Sequence[str] = (),
        window: str | None = None,
        since: Time | None = None,
        until: Time | None = None,
        agent: str | None = None,
        agent_version: str | None = None,
        environment: str | None = None,
        criterion: str | None = None,
    ) -> StoreReport:
        """Return how reliable each agent is: pass@k and pass^k with intervals, coverage and tier.

        Args:
            k: the k of pass@k and pass^k; None for those of the settings.
            by: also group by "version", "environment", "service", "tag", "case", "tool" or a slice such as "model".
            window: only the last "24h", "7d" and so on, or the newest "n200" conversations of each group.
            since: conversations that ended at or after this time.
            until: conversations that ended before this time.
            agent: agents whose name matches this glob.
            agent_version: conversations of this version of an agent.
            environment: conversations of this deployment environment.
            criterion: what counts as a success; None for "correct".
        """
        details = self._client.get(
            Report,
            "report",
            k=None if k is None else list(k),
            by=list(by),
            window=window,
            criterion=criterion,
            **_selection(since, until, agent, agent_version, environment),
        )
        records = [_report_record(group) for group in details.groups]
        columns = [name for name in records[0] if not name.endswith(_BOUNDS)] if records else []
        return StoreReport(Rows(details.groups, columns, records), details)

    def conversations(
        self,
        *,
        outcome: str | None = None,
        since: Time | None = None,
        until: Time | None = None,
        agent: str | None = None,
        agent_version: str | None = None,
        environment: str | None = None,
        limit: int = 1000,
    ) -> Rows[ConversationRow]:
        """Return the newest conversations, with case and outcome ("pass", "fail" or "not_evaluated")."""
        rows = self._client.get(
            list[ConversationRow],
            "conversations_list",
            outcome=outcome,
            limit=limit,
            **_selection(since, until, agent, agent_version, environment),
        )
        return _rows(
            rows,
            ("conversation_id", "agent", "agent_version", "ended_at", "turn_count", "case_id", "outcome", "reason"),
        )

    def conversation(self, conversation_id: str, *, environment: str | None = None) -> ConversationDetails:
        """Return one conversation with its turns, calls, score, case and metrics."""
        return self._client.get(
            ConversationDetails, "conversations_show", conversation_id=conversation_id, environment=environment
        )

    def failing_tools(
        self,
        *,
        since: Time | None = None,
        until: Time | None = None,
        agent: str | None = None,
        agent_version: str | None = None,
        environment: str | None = None,
        tool: str | None = None,
    ) -> Rows[FailingTool]:
        """Return the faults of tools, the worst first, with an example of each."""
        result = self._client.get(
            FailingTools,
            "tools_failing",
            counted=True,
            by="problem",
            tool=tool,
            **_selection(since, until, agent, agent_version, environment),
        )
        columns = (
            "tool",
            "dimension",
            "fault",
            "parameter",
            "failed",
            "faults",
            "expected",
            "actual",
            "example_conversation",
        )
        return _rows(result.rows, columns)

    def failures(
        self,
        *,
        since: Time | None = None,
        until: Time | None = None,
        agent: str | None = None,
        agent_version: str | None = None,
        environment: str | None = None,
        limit: int | None = None,
    ) -> Rows[FailureGroup]:
        """Return the failures grouped by root cause, the worst first."""
        report = self._client.get(
            FailureReport, "failures", limit=limit, **_selection(since, until, agent, agent_version, environment)
        )
        return _rows(
            report.groups, ("severity", "title", "conversations", "share", "last_seen", "example_conversation")
        )

    def query(self, sql: str) -> Rows[tuple[Any, ...]]:
        """Return the rows of a query, which can only read."""
        result = self._client.call("query", sql=sql)
        rows = [tuple(row) for row in result["rows"]]
        return Rows(rows, result["columns"], [dict(zip(result["columns"], row, strict=True)) for row in rows])

    @property
    def sink(self) -> Sink:
        """The destination of a span processor that stores the spans of this process: `AgenticSpanProcessor(store.sink)`.

        Raises:
            UsageError: a collector holds the file; export the spans to it instead.
        """
        store = self._local().opened().store
        _SINKS.add(self)
        self._finalizer.atexit = False  # the last spans may arrive later
        return store

    def rebuild(self) -> int:
        """Rebuild and close the conversations of all stored spans; return how many are new or changed.

        A collector does this by itself; without one, nothing else does.

        Raises:
            UsageError: a collector holds the file.
        """
        from otel_agentic.commands.ingest import close_open  # noqa: PLC0415 — few callers need it

        return len(close_open(self._local().opened(), lambda *_: None).saved)

    def evaluate(self, *, cases: Sequence[str | os.PathLike[str]] = ()) -> dict[str, int]:
        """Match closed conversations to cases and score them; return the number of conversations by outcome.

        Args:
            cases: files of cases to load first, in any format of `truth import`.
        """
        from otel_agentic.evaluation.case_files import native_texts  # noqa: PLC0415 — few callers pass cases

        texts = native_texts(map(Path, cases)) if cases else []
        outcomes: dict[str, int] = self._client.call("evaluate", cases=texts)["outcomes"]
        return outcomes

    def close(self) -> None:
        """Close the store."""
        _SINKS.discard(self)
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _local(self) -> LocalClient:
        if not isinstance(self._client, LocalClient):
            raise UsageError(
                f"{self._settings.store.db} is held by a running collector: export the spans to it over OTLP instead"
            )
        return self._client


def open(  # noqa: A001 — `otel_agentic.open` reads like the built-in function, which this module does not use
    db: str | os.PathLike[str] | None = None, *, server: str | None = None, create: bool = False
) -> OpenStore:
    """Open a store and return its results; see `OpenStore`.

    Args:
        db: the DuckDB file; None for that of the settings. A collector that holds it answers in its place.
        server: the admin address of a running collector, instead of a file.
        create: create the file if it is missing.

    Raises:
        UsageError: both a file and a server are given, or the file is missing.
        StoreError: the file cannot be used.

    Example:
        ```
        with otel_agentic.open("agents.duckdb") as store:
            print(store.report(by=["version"]))
            store.failing_tools().to_pandas()
        ```
    """
    if db is not None and server is not None:
        raise UsageError("open: give a file or a server, not both: a server has its own file")
    settings = load_settings() if db is None else load_settings(store={"db": Path(db)})
    file = settings.store.db
    if server is None and not file.exists():
        if not create:
            raise UsageError(f"{file}: no such store; give an existing file, or create=True")
        from otel_agentic.engine.engine import Engine  # noqa: PLC0415 — only a new file needs it here

        Engine(settings, create=True).close()
    return OpenStore(open_client(settings, server=server), settings)


_BOUNDS = ("_lower", "_upper")


def _report_record(group: ReportGroup) -> dict[str, Any]:
    """Return a group as a flat record: its keys, counts, tier, and the headline estimates with their bounds."""
    keys = ("agent", "agent_version", "environment", "service", "tag", "dataset", "case", "tool", "criterion")
    record: dict[str, Any] = {name: value for name in keys if (value := getattr(group, name)) is not None}
    record |= {"n": group.n, "c": group.c, "coverage": group.coverage, "tier": group.tier}
    estimates = group.estimates[group.default_estimator]
    for symbol, rates in (("pass@", estimates.pass_at_k), ("pass^", estimates.pass_pow_k)):
        for k, rate in rates.items():
            record |= {f"{symbol}{k}": rate.value, f"{symbol}{k}_lower": rate.lower, f"{symbol}{k}_upper": rate.upper}
    return record


def _rows(rows: Sequence[T], columns: Sequence[str]) -> Rows[T]:
    names = {field.name for row in rows[:1] for field in fields(row)}  # type: ignore[arg-type]  # results are dataclasses
    return Rows(rows, [name for name in columns if not rows or name in names], [to_json(row) for row in rows])


def _selection(
    since: Time | None, until: Time | None, agent: str | None, agent_version: str | None, environment: str | None
) -> dict[str, Any]:
    return {
        "since_ns": _ns(since, "since"),
        "until_ns": _ns(until, "until"),
        "agent": agent,
        "agent_version": agent_version,
        "environment": environment,
    }


def _ns(time: Time | None, name: str) -> int | None:
    from otel_agentic.windows import time_ns  # noqa: PLC0415 — numpy is slow to import

    if time is None:
        return None
    return time_ns(time.isoformat() if isinstance(time, datetime) else time, name)
