"""The sections of the page in their order: the answer first, then what fails, then how it was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from otel_agentic.render import corrected_rates, report_tables
from otel_agentic.render.html.failures import ConversationsView, FailuresView, ToolsView, anchors_of, conversations_of
from otel_agentic.render.html.filters import distinguishing_keys, time_of
from otel_agentic.render.html.links import FileLinks, Links
from otel_agentic.render.html.metrics import MetricsView
from otel_agentic.render.html.reliability import (
    CoverageView,
    CurvesView,
    Headline,
    HistoryView,
    Objectives,
    Summary,
    headlines,
)
from otel_agentic.render.notes import metric_advice
from otel_agentic.render.report_notes import (
    group_notes,
    method_notes,
    not_rebuilt_notes,
    shared_values,
    text_match_notes,
    tier_notes,
)
from otel_agentic.render.text import plural

if TYPE_CHECKING:
    from otel_agentic.render.terminal import Column
    from otel_agentic.results.charts import Charts, ConversationOutcomes
    from otel_agentic.results.conversations import ConversationDetails
    from otel_agentic.results.reports import Comparison, Report, ReportGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTable:
    """A table of the terminal report with its notes."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Any]]
    notes: Sequence[str]

    @classmethod
    def of(
        cls, title: str, columns: Sequence[Column], rows: Sequence[Sequence[Any]], notes: Sequence[str]
    ) -> TextTable:
        """Return the table with its empty cells filled from the row above, whose values they repeat."""
        filled: list[list[Any]] = []
        for row in rows:
            above = filled[-1] if filled else row
            filled.append([above[index] if value == "" else value for index, value in enumerate(row)])
        return cls(title=title, heads=[column.name for column in columns], rows=filled, notes=notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """The notes on the whole report, and those on single groups."""

    general: Sequence[str]
    groups: Sequence[str]

    @classmethod
    def of(cls, report: Report) -> Notes:
        """Return the notes of a report."""
        groups = report.groups
        metrics = (metric for group in groups for metric in group.metrics or ())
        clocks = [f"warning: {row.note}" for row in report.wrong_clocks]
        reuse = [] if report.id_reuse is None else report.id_reuse.notes
        return cls(
            general=[*not_rebuilt_notes(report), *text_match_notes(report), *clocks, *reuse, *method_notes(groups)],
            groups=list(dict.fromkeys([*tier_notes(groups), *group_notes(groups), *metric_advice(metrics)])),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PageView:
    """The page: `agent` if the report has only one, the number of agents, and the sections by name."""

    agent: str | None
    agents: int
    facts: Sequence[str]
    headlines: Sequence[Headline]
    sections: Sequence[tuple[str, object]]

    @classmethod
    def of(
        cls,
        report: Report,
        charts: Charts,
        about: str,
        *,
        outcomes: ConversationOutcomes | None = None,
        details: Sequence[ConversationDetails] = (),
        links: Links | None = None,
    ) -> PageView:
        """Return the page of a report; see `page` for the arguments. Without `links` it is a single file."""
        groups = report.groups
        conversations = conversations_of(details)
        anchors = anchors_of(conversations)
        links = links or FileLinks(anchors)
        shown_conversations = None if outcomes is None else ConversationsView.of(outcomes, conversations, anchors)
        agents = {group.agent for group in groups}
        return cls(
            agent=groups[0].agent if len(agents) == 1 else None,
            agents=len(agents),
            facts=_facts(groups, charts, about),
            headlines=headlines(groups, charts, links),
            sections=list(_sections(report, charts, shown_conversations, links)) if groups else [],
        )


def _sections(
    report: Report, charts: Charts, conversations: ConversationsView | None, links: Links
) -> Iterator[tuple[str, object]]:
    """Yield the name and the content of each section, in order; `sections.html.j2` has a macro for each."""
    groups = report.groups
    yield "Summary", Summary.of(report, links)
    if report.comparison:
        yield "Comparison", _comparison(report.comparison)
    if report.objectives:
        yield "Objectives", Objectives.of(report.objectives)
    is_evaluated = any(group.n for group in groups)
    if is_evaluated or charts.failures.rows:
        yield "Failures", FailuresView.of(charts, links)
    if conversations is not None:
        yield "Conversations", conversations
    # Without an evaluated conversation there is nothing to draw; Coverage contains the reasons.
    if is_evaluated:
        yield from _measurements(report, charts, links)
    yield "Coverage", CoverageView.of(groups)
    yield from _corrections(report)
    yield "Notes", Notes.of(report)


def _measurements(report: Report, charts: Charts, links: Links) -> Iterator[tuple[str, object]]:
    groups = report.groups
    # A single window per group is no history; the summary contains its numbers.
    if charts.history is not None and any(len(row.end_ns) > 1 for row in charts.history.rows):
        yield "Over time", HistoryView.of(charts.history)
    yield "Curves", CurvesView.of(charts.curves, distinguishing_keys(groups))
    yield "Tools", ToolsView.of(charts, groups, links)
    if groups[0].metrics is not None:
        yield "Metrics", MetricsView.of(groups, report.metrics_chosen)


def _comparison(comparison: Comparison) -> TextTable:
    return TextTable.of(
        report_tables.difference_title(comparison),
        report_tables.difference_columns(comparison),
        report_tables.difference_rows(comparison),
        report_tables.comparison_notes(comparison),
    )


def _corrections(report: Report) -> Iterator[tuple[str, TextTable]]:
    """Yield the tables of rates that are corrected with people's labels, and of the conditions of criteria."""
    groups = report.groups
    if rows := corrected_rates.corrected_rows(groups):
        columns, notes = corrected_rates.corrected_columns(groups), corrected_rates.corrected_notes(groups)
        yield "Judge errors", TextTable.of(corrected_rates.CORRECTED_TITLE, columns, rows, notes)
    if any(len(rule.parts) > 1 for rule in report.criteria):
        columns, rows = corrected_rates.parts_table(report.criteria)
        notes = corrected_rates.parts_notes(report.criteria)
        yield "Conditions", TextTable.of(corrected_rates.PARTS_TITLE, columns, rows, notes)
    if rows := corrected_rates.labelled_rows(groups):
        columns, notes = corrected_rates.labelled_columns(groups), corrected_rates.labelled_notes(groups)
        yield "Labels", TextTable.of(corrected_rates.LABELLED_TITLE, columns, rows, notes)


def _facts(groups: Sequence[ReportGroup], charts: Charts, about: str) -> list[str]:
    facts = [about[:1].upper() + about[1:], *shared_values(groups)]
    if charts.first_ns is not None and charts.last_ns is not None:
        facts.append(f"conversations that ended from {time_of(charts.first_ns)} to {time_of(charts.last_ns)} UTC")
    if groups:
        evaluated = sum(group.n for group in groups)
        facts.append(f"{plural(len(groups), 'group')}, {plural(evaluated, 'evaluated conversation')}")
    return facts
