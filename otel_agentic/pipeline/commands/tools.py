"""Commands about tool calls."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from otel_agentic.errors import UsageError
from otel_agentic.pipeline.commands.base import EngineCommands, Json
from otel_agentic.pipeline.wire import plain
from otel_agentic.scoring.model import Dimension, FaultKind
from otel_agentic.store.evaluations import DEFAULT
from otel_agentic.store.failing import FaultFilter, example_of, failing_tools, scored_with_tools
from otel_agentic.store.selection import Selection


class ToolCommands(EngineCommands):
    """Ask which tools fail."""

    def tools_failing(
        self,
        *,
        since_ns: int | None = None,
        until_ns: int | None = None,
        agent: str | None = None,
        tool: str | None = None,
        dimension: Dimension | None = None,
        fault: FaultKind | None = None,
        parameter: str | None = None,
        by: Literal["version", "problem"] = "version",
        show: Annotated[int, Field(ge=1)] | None = None,
        counted: bool = False,
        evaluation: str = DEFAULT,
    ) -> Json:
        """Return which tool fails in which dimension: first what most conversations failed by.

        With `counted`, the rows stand under `rows`, beside what they were found in: how many closed conversations there
        are, are scored, expected tools, could not be evaluated, and how many tool faults they have. With `show`, the row of that number alone, and
        its newest fault under `example`.

        Raises:
            UsageError: there is no row of that number.
        """
        selection = Selection(since_ns=since_ns, until_ns=until_ns, agent=agent)
        only = FaultFilter(tool=tool, dimension=dimension, fault=fault, parameter=parameter)
        with self._showing(evaluation).store.read() as con:
            found_rows = failing_tools(con, selection, only, by_version=by == "version")
            rows = [{"evaluation": evaluation, **row} for row in found_rows]
            counts = {"evaluation": evaluation, **scored_with_tools(con, selection)} if counted else {}
            found: Json = {"rows": rows, **counts} if counted else rows
            if show is not None and rows:
                if show > len(rows):
                    raise UsageError(f"--show {show}: there is no such row; the last one is {len(rows)}")
                row = rows[show - 1]
                found = {**row, "example": example_of(con, selection, row, by_version=by == "version")}
        return plain(found)
