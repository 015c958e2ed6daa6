"""Commands that read results: reports, charts, failures and conversations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field

from otel_agentic.commands.registry import Context, command
from otel_agentic.config import Severity
from otel_agentic.errors import BadInputError, UsageError
from otel_agentic.evaluators.registry import metrics_by_name
from otel_agentic.evaluators.run import FailureRules
from otel_agentic.reports.charts import charts, conversation_outcomes
from otel_agentic.reports.conversations import conversation_json
from otel_agentic.reports.failures import failure_report, found_failures, merged_groups
from otel_agentic.reports.metric_summary import with_severity
from otel_agentic.reports.objectives import objectives_over_time
from otel_agentic.reports.report import ReportRequest
from otel_agentic.reports.report import report as build_report
from otel_agentic.results import from_json
from otel_agentic.results.charts import Charts, ConversationOutcomes
from otel_agentic.results.conversations import OpenConversations
from otel_agentic.results.failures import FailureReport
from otel_agentic.results.reports import Acknowledged, MonitorList, RaisedAlarm, Report
from otel_agentic.store.alarms import acknowledge, list_alarms
from otel_agentic.store.connection import DEFAULT, to_json_value
from otel_agentic.store.conversations import load_conversations
from otel_agentic.store.queries import conversations as browse
from otel_agentic.store.queries.failures import (
    FaultFilter,
    example_of,
    failing_tools,
    failure_counts,
    scored_with_tools,
)
from otel_agentic.store.table import Selection

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine


@command("report", role="query")
def report(
    context: Context,
    *,
    request: ReportRequest,
    metrics: list[str] | None = None,
    only_displayed: bool = False,
    e_values: bool = True,
    evaluation: str = DEFAULT,
) -> Report:
    """Return the reliability of each group, and the comparison of two groups if it is requested."""
    engine = context.showing(evaluation)
    return build_report(engine, request, metrics, only_displayed=only_displayed, e_values=e_values)


@command("report_pictures", role="query")
def report_pictures(
    context: Context,
    *,
    request: ReportRequest,
    panels: Annotated[int, Field(ge=1, le=100)] = 12,
    evaluation: str = DEFAULT,
) -> Charts:
    """Return curves over k, stored windows over time and the health of tools, for at most `panels` groups."""
    return charts(context.showing(evaluation), request, panels)


@command("report_conversations", role="query")
def report_conversations(
    context: Context,
    *,
    request: ReportRequest,
    limit: Annotated[int, Field(ge=1, le=10_000)] = 50,
    evaluation: str = DEFAULT,
) -> ConversationOutcomes:
    """Return the conversations of a report with the outcome of each turn, failed ones first."""
    return conversation_outcomes(context.showing(evaluation), request, limit)


@command("monitors", role="query")
def monitors(
    context: Context, *, selection: Selection, limit: Annotated[int, Field(ge=1, le=10_000)] = 100
) -> MonitorList:
    """Return the objectives of all groups, and the newest alarms that were raised in the period of the selection."""
    with context.engine.store.read() as con:
        alarms = list_alarms(con, selection, limit)
    has_objectives = bool(context.engine.settings.slo.objectives)
    objectives, histories = objectives_over_time(context.engine, selection) if has_objectives else ([], [])
    return MonitorList(
        objectives=objectives,
        histories=histories,
        alarms=[from_json(RaisedAlarm, to_json_value(alarm)) for alarm in alarms],
    )


@command("acknowledge_alarm", role="review")
def acknowledge_alarm(
    context: Context,
    *,
    alarm_id: str,
    annotator: Annotated[str, Field(min_length=1, max_length=100)],
    note: Annotated[str, Field(max_length=2000)] | None = None,
) -> Acknowledged:
    """Record that a person has taken note of an alarm; a later acknowledgement replaces an earlier one.

    Raises:
        BadInputError: there is no such alarm.
    """
    store = context.engine.store
    clean_note: str | None = store.redacting.value(note)
    now_ns = context.engine.clock()
    exists = store.write(lambda con: acknowledge(con, alarm_id, annotator=annotator, note=clean_note, now_ns=now_ns))
    if not exists:
        raise BadInputError(f"no alarm {alarm_id!r}: `monitors` lists the alarms")
    return Acknowledged(alarm_id=alarm_id, annotator=annotator)


@command("tools_failing", role="query")
def tools_failing(
    context: Context,
    *,
    selection: Selection,
    only: FaultFilter,
    by: Literal["version", "problem"] = "version",
    show: Annotated[int, Field(ge=1)] | None = None,
    counted: bool = False,
    evaluation: str = DEFAULT,
) -> Any:
    """Return which tool fails in which dimension; rows by which most conversations failed come first.

    With `counted`, the rows are under `rows`, next to counts of closed conversations, of those that are scored, that
    expect tools, that could not be evaluated, and of their tool faults. With `show`, return only the row with that
    number, with its newest fault under `example`.

    Raises:
        UsageError: there is no row with that number.
    """
    with context.showing(evaluation).store.read() as con:
        found_rows = failing_tools(con, selection, only, by_version=by == "version")
        rows = [{"evaluation": evaluation, **row} for row in found_rows]
        counts = {"evaluation": evaluation, **scored_with_tools(con, selection)} if counted else {}
        result: Any = {"rows": rows, **counts} if counted else rows
        if show is not None and rows:
            if show > len(rows):
                raise UsageError(f"--show {show}: no such row; the last row is {len(rows)}")
            row = rows[show - 1]
            result = {**row, "example": example_of(con, selection, row, by_version=by == "version")}
    return to_json_value(result)


@command("failures", role="query")
def failures(
    context: Context,
    *,
    selection: Selection,
    severity: Severity = "low",
    limit: Annotated[int, Field(ge=1)] | None = None,
    records: Annotated[int, Field(ge=0)] | None = None,
    evaluation: str = DEFAULT,
) -> FailureReport:
    """Return failures of at least a severity by cause, the worst first.

    `groups` contains at most `limit` causes, each with its newest `records` failures; the counts include all.
    """
    return _failures(context.showing(evaluation), selection, severity, limit, records, merge=False)


@command("failures_merged")
def failures_merged(
    context: Context,
    *,
    selection: Selection,
    severity: Severity = "low",
    limit: Annotated[int, Field(ge=1)] | None = None,
    records: Annotated[int, Field(ge=0)] | None = None,
    evaluation: str = DEFAULT,
) -> FailureReport:
    """Return the same as `failures` after the judge merged groups with the same cause.

    Its calls count against the budget.
    """
    return _failures(context.showing(evaluation), selection, severity, limit, records, merge=True)


def _failures(
    engine: Engine, selection: Selection, severity: Severity, limit: int | None, records: int | None, *, merge: bool
) -> FailureReport:
    all_failures = found_failures(engine, selection, listed=records).of(severity)
    with engine.store.read() as con:
        counts, days = failure_counts(con, selection)
    groups, note = merged_groups(engine, all_failures.groups) if merge else (all_failures.groups, None)
    return failure_report(
        groups,
        all_failures.problems,
        days,
        limit=limit,
        records=records,
        note=note,
        evaluation=engine.store.evaluation,
        **counts,
    )


_EXPORT_CHUNK: Final = 500


@command("conversations_list", role="query")
def conversations_list(
    context: Context,
    *,
    selection: Selection,
    outcome: Literal["pass", "fail", "not_evaluated"] | None = None,
    limit: Annotated[int, Field(ge=1)] = 50,
    evaluation: str = DEFAULT,
) -> Any:
    """Return conversations, newest first."""
    with context.showing(evaluation).store.read() as con:
        return to_json_value(browse.list_conversations(con, selection, outcome=outcome, limit=limit))


@command("conversations_open", role="query")
def conversations_open(
    context: Context,
    *,
    selection: Selection,
    scored: bool = False,
    arriving: bool = False,
    limit: Annotated[int, Field(ge=1)] = 1000,
) -> OpenConversations:
    """Return the open conversations of a selection, `scored` the newest of them with their provisional outcomes.

    With `arriving`, also count the traces that are not in a conversation yet, which reads the times of all spans.
    """
    from otel_agentic.reports.provisional import open_conversations  # noqa: PLC0415 — few commands score conversations

    return open_conversations(context.engine, selection, limit=limit if scored else 0, arriving=arriving)


@command("conversations_show", role="query")
def conversations_show(
    context: Context,
    *,
    conversation_id: str,
    environment: str | None = None,
    exact: bool = False,
    evaluation: str = DEFAULT,
) -> dict[str, Any]:
    """Return one conversation with its score, its case, and its metrics; for `exact`, see `only_conversation`."""
    store = context.showing(evaluation).store
    with store.read() as con:
        key = browse.only_conversation(con, conversation_id, environment, exact=exact)
        newest = browse.newest_revision(con, key, store.known_ids.periods(key[1]))
        score = browse.score_of(con, newest)
        metrics = browse.metrics_of(con, newest, score)
    settings, installed = context.engine.settings.evaluators, context.engine.runner.installed
    rules = FailureRules(metrics_by_name(installed).values(), settings)
    result = (score["case_id"], score["outcome"], score["reason"]) if score else None
    return {
        "evaluation": evaluation,
        "conversation": conversation_json(newest.conversation, result),
        "score": to_json_value(score),
        "metrics": to_json_value(with_severity(metrics, newest.conversation, rules)),
    }


@command("conversations_export", role="query")
def conversations_export(
    context: Context,
    *,
    selection: Selection,
    evaluation: str = DEFAULT,
) -> Iterator[Any]:
    """Yield one object per conversation."""
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
