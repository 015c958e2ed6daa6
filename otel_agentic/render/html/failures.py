"""What fails: causes, faults of tools, the map of tools, and the failing conversations with their details."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from otel_agentic.render.conversation_table import conversation_columns, conversation_rows
from otel_agentic.render.html.conversation import Conversation
from otel_agentic.render.html.difference import Difference, differences
from otel_agentic.render.html.filters import Share, distinguishing_keys, shared_value
from otel_agentic.render.report_tables import headline_bands
from otel_agentic.render.terminal import differing_and_shared
from otel_agentic.render.text import plural

if TYPE_CHECKING:
    from otel_agentic.render.html.links import Href, Links
    from otel_agentic.results.charts import (
        Charts,
        ConversationOutcomes,
        FailureCause,
        FailureCauses,
        ToolRows,
    )
    from otel_agentic.results.conversations import ConversationDetails
    from otel_agentic.results.failures import FailingTool, WrongValue
    from otel_agentic.results.reports import ReportGroup

#: The dimensions of tool correctness, each with the noun of the things that its score is the mean of.
DIMENSIONS: Final = {"selection": "call", "parameters": "call", "sequence": "call", "utilization": "result"}
BANDS: Final = ("perfect", "good", "moderate", "poor")
#: Each table of bands has at most this many groups.
_MAX_GROUPS: Final = 500
#: The number of rows of a table, and of conversations, that are always visible; the others are collapsed.
FEW_ROWS: Final = 8
FEW_CONVERSATIONS: Final = 12
#: The most frequent wrong values of a parameter, and the first differences of each.
_MAX_VALUES: Final = 3
_MAX_DIFFERENCES: Final = 2

#: The limit on the text of all conversations with details, in characters.
_MAX_TEXT: Final = 800_000

#: The anchor of each conversation with details, by environment and id.
Anchors = Mapping[tuple[str, str], str]


def conversations_of(details: Sequence[ConversationDetails]) -> list[Conversation]:
    """Return the first conversations, up to a limit on the text of all of them, which bounds the size of the page."""
    conversations: list[Conversation] = []
    size = 0
    for number, item in enumerate(details, 1):
        conversation = Conversation.of(item, f"c{number}")
        size += len(repr(conversation))
        if size > _MAX_TEXT:
            break
        conversations.append(conversation)
    return conversations


def anchors_of(conversations: Sequence[Conversation]) -> Anchors:
    """Return the anchors of conversations; they do not contain the ids, which are untrusted text."""
    return {(item.environment, item.conversation_id): item.anchor for item in conversations}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleLink:
    """A conversation and where its name leads."""

    conversation_id: str
    href: Href


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseRow:
    """A cause of failures with its newest conversation."""

    cause: FailureCause
    example: ExampleLink


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongValues:
    """The first differences of a wrong value from the expected one, the number of others, and how often it occurs."""

    differences: Sequence[Difference]
    more: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRow:
    """A kind of tool fault with its most frequent wrong values."""

    row: FailingTool
    wrong_values: Sequence[WrongValues]
    #: A sentence about the newest one, for faults without a wrong value.
    explanation: str | None
    example: ExampleLink
    #: Where the conversations with this fault are listed.
    href: Href


@dataclass(frozen=True, slots=True, kw_only=True)
class FailuresView:
    """The causes of failures and the faults of tools, the worst first; a column with one value in all rows is left out."""

    causes: Sequence[CauseRow]
    causes_left_out: int
    severity: str | None
    with_failures: bool
    faults: Sequence[FaultRow]
    faults_left_out: int
    keys: Sequence[str]

    @classmethod
    def of(cls, charts: Charts, links: Links) -> FailuresView:
        """Return the failures of a report."""
        causes: FailureCauses = charts.failures
        failing = charts.failing
        return cls(
            causes=[
                CauseRow(cause=cause, example=_example(cause.example_environment, cause.example_conversation, links))
                for cause in causes.rows
            ],
            causes_left_out=causes.left_out,
            severity=shared_value([cause.severity for cause in causes.rows]),
            with_failures=any(cause.failures != cause.conversations for cause in causes.rows),
            faults=fault_rows(failing.rows, links),
            faults_left_out=failing.left_out,
            keys=fault_keys(failing.rows),
        )


def fault_keys(rows: Sequence[FailingTool]) -> list[str]:
    """Return the keys in which faults differ: the agent, its version, or both."""
    return [key for key in ("agent", "agent_version") if differing_and_shared(rows, [key])[0]]


def _example(environment: str, conversation_id: str, links: Links) -> ExampleLink:
    return ExampleLink(conversation_id=conversation_id, href=links.conversation(environment, conversation_id))


def fault_rows(rows: Sequence[FailingTool], links: Links) -> list[FaultRow]:
    """Return kinds of tool faults with their most frequent wrong values."""
    return [_fault_row(row, links) for row in rows]


def _fault_row(row: FailingTool, links: Links) -> FaultRow:
    values = [_wrong_values(value) for value in (row.wrong_values or ())[:_MAX_VALUES]]
    return FaultRow(
        row=row,
        wrong_values=values,
        explanation=row.example if isinstance(row.example, str) and not values else None,
        example=_example(row.environment, row.example_conversation, links),
        href=links.fault(row),
    )


def _wrong_values(value: WrongValue) -> WrongValues:
    items = differences(value.expected, value.actual)
    return WrongValues(differences=items[:_MAX_DIFFERENCES], more=len(items[_MAX_DIFFERENCES:]), count=value.count)


@dataclass(frozen=True, slots=True, kw_only=True)
class BandRow:
    """The conversations of a group in each band of one dimension."""

    group: ReportGroup
    dimension: str
    counts: Mapping[str, int]

    @property
    def shares(self) -> list[Share]:
        """The bands that have conversations."""
        return [Share(css=f"band {band}", count=self.counts[band]) for band in BANDS if self.counts[band]]


def band_rows(groups: Sequence[ReportGroup]) -> list[BandRow]:
    """Return the bands of each group and dimension."""
    return [
        BandRow(group=group, dimension=dimension, counts=counts)
        for group in groups
        for dimension, counts in headline_bands(group).items()
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsView:
    """The scores of tools by dimension and band; `without` names dimensions that apply to no tool."""

    tools: ToolRows
    with_agent: bool
    dimensions: Mapping[str, str]
    without: Sequence[str]
    with_errors: bool
    bands: Sequence[BandRow]
    keys: Sequence[str]
    links: Links

    @classmethod
    def of(cls, charts: Charts, groups: Sequence[ReportGroup], links: Links) -> ToolsView:
        """Return the tools of a report."""
        rows = charts.tools.rows
        used = {
            name: noun
            for name, noun in DIMENSIONS.items()
            if any(getattr(row, name) is not None or getattr(row, f"{name}_faults") for row in rows)
        }
        return cls(
            tools=charts.tools,
            with_agent=bool(differing_and_shared(rows, ["agent"])[0]),
            dimensions=used,
            without=[name for name in DIMENSIONS if name not in used],
            with_errors=any(row.errored for row in rows),
            bands=band_rows(groups[:_MAX_GROUPS]),
            keys=distinguishing_keys(groups),
            links=links,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationsView:
    """The failing conversations with their details, and the table of the other conversations."""

    details: Sequence[Conversation]
    with_agent: bool
    others: Sequence[Sequence[str]]
    other_heads: Sequence[str]
    note: str | None

    @classmethod
    def of(
        cls, outcomes: ConversationOutcomes, conversations: Sequence[Conversation], anchors: Anchors
    ) -> ConversationsView:
        """Return the conversations; those with details are not in the table."""
        rows = [row for row in outcomes.rows if (row.environment, row.conversation_id) not in anchors]
        others = replace(outcomes, rows=rows)
        return cls(
            details=conversations,
            with_agent=len({(conversation.agent, conversation.agent_version) for conversation in conversations}) > 1,
            others=conversation_rows(others),
            other_heads=[column.name for column in conversation_columns(others)],
            note=_cut_note(outcomes.left_out),
        )


def _cut_note(left_out: int) -> str | None:
    """Return a note on the conversations that are not on the page, or None."""
    if not left_out:
        return None
    return (
        f"{plural(left_out, 'more conversation')} of this selection: `otel-agentic conversations list` lists them, and "
        "`otel-agentic conversations show ID` displays one with its turns."
    )
