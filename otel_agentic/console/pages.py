"""The pages that read: each is a function of a client and the parameters of a request.

A page has a template and its values, and is also available as JSON; a page with one table is available as CSV, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from otel_agentic.console.requests import PERIODS, SELECTION, ConsoleLinks, PageRequest, page_url
from otel_agentic.console.waterfall import waterfall
from otel_agentic.conversations.slices import ATTRIBUTES
from otel_agentic.errors import OtelAgenticError
from otel_agentic.render.html.conversation import Conversation
from otel_agentic.render.html.failures import ToolsView, fault_keys, fault_rows
from otel_agentic.render.html.filters import paragraph
from otel_agentic.render.html.sections import PageView
from otel_agentic.render.report_notes import period
from otel_agentic.render.text import short
from otel_agentic.results import to_json
from otel_agentic.results.annotations import AnnotationList
from otel_agentic.results.browsing import ConversationPage, SpanDetails, SpanList
from otel_agentic.results.charts import Charts
from otel_agentic.results.conversations import ConversationDetails
from otel_agentic.results.failures import FailingTool
from otel_agentic.results.reports import Report

if TYPE_CHECKING:
    from otel_agentic.commands import Client

#: The parameters of a list of conversations, in addition to a selection.
FILTERS: Final = (
    "outcome",
    "reason",
    "case_id",
    "tool",
    "fault",
    "parameter",
    "text",
    "in_slice",
)
#: The sections of a report on the first page, which states which agent is ready, and why another is not.
_FIRST_SECTIONS: Final = ("Summary", "Comparison", "Objectives", "Failures", "Over time", "Coverage")
_WINDOWS: Final = PERIODS | {"n200": "newest 200"}
_GROUPINGS: Final = ("version", "agent", "environment", "service", "tag", "case", "tool", *ATTRIBUTES)
_NAME: Final = 60
_MAX_TEXT: Final = 20_000
_MAX_SPANS: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page: its template with the values for it, its JSON form, and the rows of its CSV form (None without one), read once."""

    template: str
    values: Mapping[str, object]
    payload: Any = None
    rows: Iterable[Mapping[str, Any]] | None = None
    status: int = 200


#: A function that returns a page.
PageFunction = Callable[["Client", PageRequest], Page]


def reliability(client: Client, request: PageRequest) -> Page:
    """Return the groups with their tiers and rates, what fails, and both over time."""
    return _report_page(client, request, is_first=True)


def numbers(client: Client, request: PageRequest) -> Page:
    """Return the sections that the first page omits: curves over k, metrics, corrections, and notes on the method."""
    return _report_page(client, request, is_first=False)


def _report_page(client: Client, request: PageRequest, *, is_first: bool) -> Page:
    by = request.text("by") or "version"
    arguments: dict[str, Any] = {
        **request.texts(*SELECTION),
        "by": None if by == "agent" else [by],
        "window": request.text("window"),
        "criterion": request.text("criterion"),
        "estimator": request.text("estimator"),
        "compare": request.text("compare"),
        "k": request.numbers("k"),
    }
    report = client.get(Report, "report", **arguments)
    charts = client.get(Charts, "report_pictures", **arguments)
    window = request.text("window")
    since = window if window in PERIODS else None
    view = PageView.of(
        report, charts, period(window, None, None), links=ConsoleLinks(since, request.text("environment"))
    )
    return Page(
        template="overview",
        values={
            "view": view,
            "sections": [(name, content) for name, content in view.sections if (name in _FIRST_SECTIONS) == is_first],
            "is_first": is_first,
            "windows": _WINDOWS,
            "groupings": _GROUPINGS,
            "by": by,
        },
        payload=report,
        rows=(flat(to_json(group)) for group in report.groups),
    )


def tools(client: Client, request: PageRequest) -> Page:
    """Return the scores of tools by dimension, and their faults."""
    selection = request.selection()
    only = request.texts("tool", "dimension", "fault", "parameter")
    links = ConsoleLinks(**request.texts("since", "environment"))
    report = client.get(Report, "report", **selection, metrics=[], only_displayed=True)
    charts = client.get(Charts, "report_pictures", **selection)
    failing = client.get(list[FailingTool], "tools_failing", **selection, **only)
    return Page(
        template="tools",
        values={
            "view": ToolsView.of(charts, report.groups, links) if report.groups else None,
            "faults": fault_rows(failing, links),
            "keys": fault_keys(failing),
            "periods": PERIODS,
        },
        payload=failing,
        rows=(flat(to_json(row)) for row in failing),
    )


def conversations(client: Client, request: PageRequest) -> Page:
    """Return a page of the list of conversations."""
    labelled = request.text("labelled")
    result = client.get(
        ConversationPage,
        "conversations_page",
        **request.selection(),
        **request.texts(*FILTERS, "cursor"),
        labelled=None if labelled is None else labelled == "yes",
        disagreements=True if request.text("disagreements") else None,
        limit=request.number("limit"),
    )
    links = ConsoleLinks()
    rows = [(row, links.conversation(row.environment, row.conversation_id)) for row in result.rows]
    return Page(
        template="conversations",
        values={
            "rows": rows,
            "next_cursor": result.next_cursor,
            "periods": PERIODS,
            "active": _active(request),
            "tail": page_url("/tail", **request.texts(*SELECTION, "outcome")),
            "review": page_url(
                "/review", order="newest", **request.texts("since", *SELECTION, "disagreements", *FILTERS)
            ),
        },
        payload=result,
        rows=[to_json(row) for row in result.rows],
    )


def conversation(client: Client, request: PageRequest) -> Page:
    """Return a conversation with expected and actual calls, its verdicts, scores and spans."""
    key = request.conversation()
    details = client.get(ConversationDetails, "conversations_show", **key)
    offset = request.number("spans") or 0
    spans = client.get(SpanList, "conversation_spans", **key, offset=offset, limit=_MAX_SPANS)
    labels = client.get(AnnotationList, "truth_annotations", conversation_id=key["conversation_id"])
    view = conversation_view(details, request)
    shown_turns = range(view.turns_before, view.turns_before + len(view.turns))
    metrics = [metric for metric in details.metrics if metric.turn_index is None or metric.turn_index in shown_turns]
    return Page(
        template="details",
        values={
            "view": view,
            "details": details,
            "metrics": metrics,
            "slices": [(name, page_url("/conversations", in_slice=name)) for name in details.conversation.slices],
            "annotations": [row for row in labels.annotations if row.environment == view.environment],
            "waterfall": waterfall(spans.spans),
            "spans_before": offset,
            "earlier_spans": request.url(spans=str(max(0, offset - _MAX_SPANS))) if offset else None,
            "later_spans": None if spans.is_complete else request.url(spans=str(offset + _MAX_SPANS)),
            "case": _case_link(details),
            "accept": page_url("/case", id=view.conversation_id, environment=view.environment)
            if view.outcome != "pass" and details.conversation.closed_by is not None
            else None,
            "attempts": None if view.case_id is None else page_url("/conversations", case_id=view.case_id),
            "recorded": request.text("recorded"),
        },
        payload=details,
    )


def conversation_view(details: ConversationDetails, request: PageRequest) -> Conversation:
    """Return a conversation with the turns from the position of the parameter `turns`, and links to its other turns."""

    def page(first: int) -> str:
        return request.url(turns=str(first) if first else None, recorded=None)

    return Conversation.of(details, "c", first=request.number("turns") or 0, page=page)


def _case_link(details: ConversationDetails) -> str | None:
    score = details.score
    if score is None or score.case_id is None:
        return None
    return page_url("/case", case_id=score.case_id, dataset=score.dataset)


def span(client: Client, request: PageRequest) -> Page:
    """Return one span with its attributes."""
    details = client.get(
        SpanDetails, "span", trace_id=request.required("trace_id"), span_id=request.required("span_id")
    )
    parts = [
        ("Attributes", details.attributes),
        *(
            (f"Event {short(event.get('name'), _NAME)}", event.get("attributes") or {})
            for event in details.events or ()
        ),
        ("Resource", details.resource),
    ]
    tables = [(title, [(name, _text(value)) for name, value in sorted(items.items())]) for title, items in parts]
    return Page(template="span", values={"span": details, "tables": tables}, payload=details)


def sql(client: Client, request: PageRequest) -> Page:
    """Return the rows of a read-only SQL statement."""
    statement = request.text("q")
    result: Mapping[str, Any] = {"columns": [], "rows": []}
    problem: str | None = None
    if statement is not None:
        try:
            result = dict(client.call("query", sql=statement))  # a collector's answer is parsed on first access
        except OtelAgenticError as error:
            problem = str(error)
    rows = [dict(zip(result["columns"], row, strict=True)) for row in result["rows"]]
    return Page(
        template="sql",
        values={"statement": statement, "result": result, "problem": problem},
        payload=result if problem is None else {"error": problem},
        rows=rows,
        status=200 if problem is None else 400,
    )


def collector(client: Client, request: PageRequest) -> Page:  # noqa: ARG001 — it has no parameters
    """Return the state of the collector and of the store."""
    state = client.call("collector")  # which changes all the time, unlike the counts of a large store
    live = {**client.call("live"), **({"collector": state} if state else {})}
    stats = client.call("store_stats")
    return Page(
        template="collector",
        values={"state": state, "live": live, "stats": stats, "problems": state.get("problems") or []},
        payload={"live": live, "store": stats},
    )


#: The pages by path.
PAGES: Final[Mapping[str, PageFunction]] = {
    "/reliability": reliability,
    "/numbers": numbers,
    "/tools": tools,
    "/conversations": conversations,
    "/conversation": conversation,
    "/span": span,
    "/sql": sql,
    "/collector": collector,
}


def _text(value: Any) -> str:
    """Return the value of an attribute, JSON with indentation."""
    if isinstance(value, str) and value[:1] in {"{", "["}:
        with suppress(orjson.JSONDecodeError):
            value = orjson.loads(value)
    if not isinstance(value, str):
        value = orjson.dumps(value, option=orjson.OPT_INDENT_2, default=str).decode()
    return paragraph(value, _MAX_TEXT)


def _active(request: PageRequest) -> list[tuple[str, str, str]]:
    """Return the active conditions of a list: name, value, and the link without the condition."""
    return [
        (name.replace("_", " "), value, request.url(**{name: None, "cursor": None}))
        for name, value in request.values.items()
        if name not in {"cursor", "limit"}
    ]


def flat(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object without nested values, as a row of CSV; single nested objects are joined by dots."""
    fields: dict[str, Any] = {}
    for name, item in value.items():
        if isinstance(item, Mapping):
            fields |= {f"{name}.{inner}": nested for inner, nested in flat(item).items()}
        elif not isinstance(item, list):
            fields[name] = item
    return fields
