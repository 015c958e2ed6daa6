"""Commands that tell what pictures are drawn from."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import Field

from otel_agentic.commands.registry import Context, command
from otel_agentic.config import Severity
from otel_agentic.errors import UsageError
from otel_agentic.reports.charts import ChartRequest, pictures
from otel_agentic.reports.conversations import iso
from otel_agentic.reports.failures import failures_json, found_failures, merged_groups
from otel_agentic.reports.report import IntervalKind
from otel_agentic.reports.report import report as build_report
from otel_agentic.reports.suites import Point, TrendBy, require_suite, trend
from otel_agentic.scoring.model import Dimension, FaultKind
from otel_agentic.store.queries.failures import (
    FaultFilter,
    example_of,
    failing_tools,
    failure_counts,
    scored_with_tools,
)
from otel_agentic.store.selection import DEFAULT, Selection, to_json_value
from otel_agentic.store.truth import load_cases
from otel_agentic.store.windows import scored_conversations
from otel_agentic.windows import GroupBy


@command("report", role="query")
def report(
    context: Context,
    *,
    k: list[int] | None = None,
    by: list[GroupBy] | None = None,
    window: str | None = None,
    since_ns: int | None = None,
    until_ns: int | None = None,
    agent: str | None = None,
    estimator: str | None = None,
    interval: IntervalKind = "default",
    compare: str | None = None,
    metrics: list[str] | None = None,
    evaluation: str = DEFAULT,
) -> dict[str, Any]:
    """Return the reliability of each group, and where it is asked for two groups against each other."""
    engine = context.showing(evaluation)
    found = build_report(
        engine,
        k=k,
        by=by or (),
        window=window,
        selection=Selection(since_ns=since_ns, until_ns=until_ns, agent=agent),
        estimator=estimator,
        interval=interval,
        compare=compare,
        metrics=metrics,
    )
    return {"evaluation": evaluation, **found}


@command("report_pictures", role="query")
def report_pictures(
    context: Context,
    *,
    k: list[int] | None = None,
    by: list[GroupBy] | None = None,
    window: str | None = None,
    since_ns: int | None = None,
    until_ns: int | None = None,
    agent: str | None = None,
    estimator: str | None = None,
    interval: IntervalKind = "default",
    compare: str | None = None,
    panels: Annotated[int, Field(ge=1, le=100)] = 12,
    evaluation: str = DEFAULT,
) -> dict[str, Any]:
    """Return curves over k, stored windows over time and the health of tools, of at most so many groups."""
    request = ChartRequest(
        k=k,
        by=by or (),
        window=window,
        selection=Selection(since_ns=since_ns, until_ns=until_ns, agent=agent),
        estimator=estimator,
        interval=interval,
        compare=compare,
        panels=panels,
    )
    found: dict[str, Any] = to_json_value(pictures(context.showing(evaluation), request))
    return found


@command("tools_failing", role="query")
def tools_failing(
    context: Context,
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
) -> Any:
    """Return which tool fails in which dimension: first what most conversations failed by.

    With `counted`, the rows stand under `rows`, beside what they were found in: how many closed conversations there
    are, are scored, expected tools, could not be evaluated, and how many tool faults they have. With `show`, the row of that number alone, and
    its newest fault under `example`.

    Raises:
        UsageError: there is no row of that number.
    """
    selection = Selection(since_ns=since_ns, until_ns=until_ns, agent=agent)
    only = FaultFilter(tool=tool, dimension=dimension, fault=fault, parameter=parameter)
    with context.showing(evaluation).store.read() as con:
        found_rows = failing_tools(con, selection, only, by_version=by == "version")
        rows = [{"evaluation": evaluation, **row} for row in found_rows]
        counts = {"evaluation": evaluation, **scored_with_tools(con, selection)} if counted else {}
        found: Any = {"rows": rows, **counts} if counted else rows
        if show is not None and rows:
            if show > len(rows):
                raise UsageError(f"--show {show}: there is no such row; the last one is {len(rows)}")
            row = rows[show - 1]
            found = {**row, "example": example_of(con, selection, row, by_version=by == "version")}
    return to_json_value(found)


@command("failures", role="query")
def failures(
    context: Context,
    *,
    since_ns: int | None = None,
    until_ns: int | None = None,
    agent: str | None = None,
    severity: Severity = "low",
    limit: Annotated[int, Field(ge=1)] | None = None,
    evaluation: str = DEFAULT,
) -> dict[str, Any]:
    """Return what went wrong, by cause, the worst first: failures of a severity, or worse.

    `groups` are at most `limit`; what stands beside them counts all.
    """
    selection = Selection(since_ns=since_ns, until_ns=until_ns, agent=agent)
    return _failures(context, selection, severity, limit, merge=False, evaluation=evaluation)


@command("failures_merged")
def failures_merged(
    context: Context,
    *,
    since_ns: int | None = None,
    until_ns: int | None = None,
    agent: str | None = None,
    severity: Severity = "low",
    limit: Annotated[int, Field(ge=1)] | None = None,
    evaluation: str = DEFAULT,
) -> dict[str, Any]:
    """Return the same after the judge said which groups have one cause; what it costs is in the budget."""
    selection = Selection(since_ns=since_ns, until_ns=until_ns, agent=agent)
    return _failures(context, selection, severity, limit, merge=True, evaluation=evaluation)


def _failures(
    context: Context, selection: Selection, severity: Severity, limit: int | None, *, merge: bool, evaluation: str
) -> dict[str, Any]:
    engine = context.showing(evaluation)
    found = found_failures(engine, selection).of(severity)
    with engine.store.read() as con:
        counts = failure_counts(con, selection)
    groups, note = merged_groups(engine, found.groups) if merge else (found.groups, None)
    return {"evaluation": evaluation, **failures_json(groups, counts=counts, limit=limit, note=note)}


@command("suites", role="query")
def suites(
    context: Context,
    *,
    since_ns: int | None = None,
    until_ns: int | None = None,
    agent: str | None = None,
    evaluation: str = DEFAULT,
) -> list[Any]:
    """Return each tag in force: its cases, its drafts, its conversations, and how many of them are correct."""
    with context.showing(evaluation).store.read() as con:
        cases = load_cases(con)
        scored = scored_conversations(con, Selection(since_ns=since_ns, until_ns=until_ns, agent=agent))
    tags = sorted({tag for case in cases for tag in case.tags})
    conversations = Counter(tag for one in scored for tag in set(one.tags))
    evaluated = Counter(tag for one in scored if one.outcome != "not_evaluated" for tag in set(one.tags))
    correct = Counter(tag for one in scored if one.outcome == "pass" for tag in set(one.tags))
    return [
        {
            "evaluation": evaluation,
            "suite": tag,
            "cases": sum(tag in case.tags for case in cases),
            "drafts": sum(tag in case.tags and not case.reviewed for case in cases),
            "conversations": conversations[tag],
            "n": evaluated[tag],
            "c": correct[tag],
        }
        for tag in tags
    ]


@command("suite_trend", role="query")
def suite_trend(
    context: Context,
    *,
    suite: Annotated[str, Field(min_length=1)],
    by: TrendBy = "version",
    since_ns: int | None = None,
    until_ns: int | None = None,
    agent: str | None = None,
    evaluation: str = DEFAULT,
) -> dict[str, Any]:
    """Return how the conversations of a suite did, point by point.

    Raises:
        BadInputError: no case in force bears the tag.
    """
    level = context.engine.settings.stats.level
    with context.showing(evaluation).store.read() as con:
        cases = require_suite(con, suite)
        scored = scored_conversations(con, Selection(since_ns=since_ns, until_ns=until_ns, agent=agent))
    points = trend((one for one in scored if suite in one.tags), by, level)
    return {
        "evaluation": evaluation,
        "suite": suite,
        "by": by,
        "level": level,
        "cases": len(cases),
        "drafts": sum(not case.reviewed for case in cases),
        "points": [to_json_value(_point_json(point)) for point in points],
    }


def _point_json(point: Point) -> dict[str, Any]:
    told = asdict(point)
    told["from"], told["until"] = iso(told.pop("first_ns")), iso(told.pop("last_ns"))
    for made, flip in zip(told["flips"], point.flips, strict=True):
        made["change"] = "broke" if flip.broke else "fixed"
    return told
