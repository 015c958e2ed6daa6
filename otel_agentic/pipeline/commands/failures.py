"""Commands about failures."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from otel_agentic.config import Severity
from otel_agentic.pipeline.commands.base import EngineCommands, Json
from otel_agentic.pipeline.failure_json import failures_json
from otel_agentic.pipeline.failures import found_failures, merged_groups
from otel_agentic.store.evaluations import DEFAULT
from otel_agentic.store.failures import failure_counts
from otel_agentic.store.selection import Selection


class FailureCommands(EngineCommands):
    """Ask what went wrong."""

    def failures(
        self,
        *,
        since_ns: int | None = None,
        until_ns: int | None = None,
        agent: str | None = None,
        severity: Severity = "low",
        limit: Annotated[int, Field(ge=1)] | None = None,
        evaluation: str = DEFAULT,
    ) -> dict[str, Json]:
        """Return what went wrong, by cause, the worst first: failures of a severity, or worse.

        `groups` are at most `limit`; what stands beside them counts all.
        """
        selection = Selection(since_ns=since_ns, until_ns=until_ns, agent=agent)
        return self._failures(selection, severity, limit, merge=False, evaluation=evaluation)

    def failures_merged(
        self,
        *,
        since_ns: int | None = None,
        until_ns: int | None = None,
        agent: str | None = None,
        severity: Severity = "low",
        limit: Annotated[int, Field(ge=1)] | None = None,
        evaluation: str = DEFAULT,
    ) -> dict[str, Json]:
        """Return the same after the judge said which groups have one cause; what it costs is in the budget."""
        selection = Selection(since_ns=since_ns, until_ns=until_ns, agent=agent)
        return self._failures(selection, severity, limit, merge=True, evaluation=evaluation)

    def _failures(
        self, selection: Selection, severity: Severity, limit: int | None, *, merge: bool, evaluation: str
    ) -> dict[str, Json]:
        engine = self._showing(evaluation)
        found = found_failures(engine, selection).of(severity)
        with engine.store.read() as con:
            counts = failure_counts(con, selection)
        groups, note = merged_groups(engine, found.groups) if merge else (found.groups, None)
        return {"evaluation": evaluation, **failures_json(groups, counts=counts, limit=limit, note=note)}
