"""The pages of matches: what users asked without a case, and the form that maps a conversation to one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.console.cases import effect
from otel_agentic.console.pages import Page
from otel_agentic.console.requests import PERIODS, SELECTION, ConsoleLinks, PageRequest, page_url
from otel_agentic.console.review import rates
from otel_agentic.render.text import plural
from otel_agentic.results import to_json
from otel_agentic.results.conversations import (
    CaseChoices,
    MappedConversations,
    MatchPage,
    QueryCluster,
    SimilarConversation,
    UnmatchedRow,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_agentic.commands import Client

_MAX_CLUSTERS: Final = 50
#: Rows of each table where the page shows all kinds; a page of one kind has more.
_MAX_OF_EACH: Final = 10
_MAX_CASES: Final = 20
#: The kinds that a form offers.
_KINDS: Final = {
    "": "all",
    "unmatched": "without a case",
    "ambiguous": "ambiguous",
    "suggested": "suggested",
    "warning": "with a warning",
    "text": "matched by text",
}
_TITLES: Final = {
    "ambiguous": "Several cases fit",
    "suggested": "Suggested cases",
    "warning": "Matches with a warning",
    "text": "Matched by text",
}
#: The kinds that the page shows without a condition.
_FIRST_KINDS: Final = ("ambiguous", "suggested", "warning")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRow:
    """Conversations that begin with similar queries, and the links to one of them and to the forms."""

    cluster: QueryCluster
    conversation: str
    choose: str
    create: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchRow:
    """A conversation with its match, and the link to the form for it."""

    match: UnmatchedRow
    conversation: str
    choose: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchTable:
    """Matches of one kind, their total number, and the link to the next page or to all of them."""

    kind: str
    title: str
    rows: list[MatchRow]
    total: int
    more: str | None


def matches(client: Client, request: PageRequest) -> Page:
    """Return the page with the queries without a case, the largest clusters first, and the matches that a person should check."""
    only = request.text("only")
    here = request.url(recorded=None, cursor=None)
    clusters: list[QueryCluster] | None = None
    if only in {None, "unmatched"}:
        clusters = client.get(
            list[QueryCluster], "truth_clusters", **request.selection(), only="unmatched", text=request.text("text")
        )
    pages = {kind: _page(client, request, kind) for kind in _kinds(only)}
    tables = [_table(request, kind, page, here) for kind, page in pages.items() if page.total or only is not None]
    visible = [_cluster_row(cluster, here) for cluster in (clusters or ())[:_MAX_CLUSTERS]]
    return Page(
        template="matches",
        values={
            "clusters": None if clusters is None else visible,
            "clusters_left_out": max(0, len(clusters or ()) - _MAX_CLUSTERS),
            "total": sum(cluster.size for cluster in clusters or ()),
            "tables": tables,
            "kinds": _KINDS,
            "periods": PERIODS,
            "has_conditions": bool(request.values.keys() - {"recorded", "cursor"}),
            "recorded": request.text("recorded"),
        },
        payload={"clusters": clusters, **pages},
        rows=[to_json(row) for row in (clusters if clusters is not None else pages[only or ""].rows)],
    )


def _kinds(only: str | None) -> tuple[str, ...]:
    if only is None:
        return _FIRST_KINDS
    return () if only == "unmatched" else (only,)


def _page(client: Client, request: PageRequest, kind: str) -> MatchPage:
    is_only = request.text("only") is not None
    return client.get(
        MatchPage,
        "matches_page",
        **request.selection(),
        only=kind,
        text=request.text("text"),
        cursor=request.text("cursor") if is_only else None,
        limit=request.number("limit") if is_only else _MAX_OF_EACH,
    )


def _table(request: PageRequest, kind: str, page: MatchPage, here: str) -> MatchTable:
    links = ConsoleLinks()
    is_only = request.text("only") is not None
    more = request.url(only=kind, recorded=None, cursor=page.next_cursor if is_only else None)
    return MatchTable(
        kind=kind,
        title=_TITLES.get(kind, kind),
        rows=[
            MatchRow(
                match=row,
                conversation=links.conversation(row.environment, row.conversation_id),
                choose=_choose(row.environment, row.conversation_id, here),
            )
            for row in page.rows
        ],
        total=page.total,
        more=None if page.next_cursor is None else more,
    )


def _cluster_row(cluster: QueryCluster, here: str) -> ClusterRow:
    key = (cluster.environment, cluster.example_conversation)
    return ClusterRow(
        cluster=cluster,
        conversation=ConsoleLinks().conversation(*key),
        choose=_choose(*key, here),
        create=page_url("/case", id=key[1], environment=key[0]),
    )


def _choose(environment: str, conversation_id: str, here: str) -> str:
    return page_url("/match", id=conversation_id, environment=environment, back=None if here == "/matches" else here)


def match(client: Client, request: PageRequest) -> Page:
    """Return the page with a conversation, the cases to which it may be mapped, and the conversations like it."""
    subject = _subject(request)
    choices = client.get(
        CaseChoices, "truth_choices", **subject, text=request.text("text"), limit=request.number("limit") or _MAX_CASES
    )
    links = ConsoleLinks()
    key = (choices.environment, choices.conversation_id)
    return Page(
        template="match",
        values={
            "choices": choices,
            "conversation": links.conversation(*key),
            "create": page_url("/case", id=key[1], environment=key[0]),
            "similar": [_similar_row(row, links) for row in choices.similar],
            "back": _list(request).url(),
        },
        payload=choices,
        rows=[to_json(choice) for choice in choices.cases],
    )


def _similar_row(row: SimilarConversation, links: ConsoleLinks) -> tuple[SimilarConversation, str]:
    return row, links.conversation(row.environment, row.conversation_id)


def map_conversations(client: Client, request: PageRequest) -> str:
    """Map the conversation of a form, or also those like it, to a case; return the link to continue with.

    Raises:
        OtelAgenticError: see the command `truth_map`.
    """
    before = rates(client, None)
    action = request.text("action") or "one"
    result = client.get(
        MappedConversations,
        "truth_map",
        **_subject(request),
        case=None if action == "withdraw" else request.required("case"),
        annotator=request.session.annotator,
        similar=action == "similar",
    )
    after = rates(client, None) if result.changed else before
    message = f"{_message(result)} {effect(result.evaluated, result.changed, before, after)}"
    return _list(request).url(recorded=message)


def _subject(request: PageRequest) -> Mapping[str, object]:
    """Return the conversation of a form, and the conditions of the list that led to it."""
    conditions = _list(request)
    key = request.conversation()
    return {
        "conversation_id": key["conversation_id"],
        "conversation_environment": key["environment"],
        "exact": key["exact"],
        "since_ns": conditions.since_ns(),
        **conditions.texts(*SELECTION),
        "asks": conditions.text("text"),
    }


def _list(request: PageRequest) -> PageRequest:
    """Return the list that led to a page."""
    back = request.back()
    return back if back.path == "/matches" else PageRequest("/matches", {}, request.session)


def _message(result: MappedConversations) -> str:
    count = plural(result.mapped, "conversation")
    if result.case_id is None:
        return f"Withdrawn: this conversation is no longer mapped to a case by a person. {_waiting(result)}".strip()
    left_out = (
        f" {result.left_out:,} more like it remain: too many to map at once, so map again." if result.left_out else ""
    )
    return f"Mapped {count} to {result.case_id}.{left_out} {_waiting(result)}".strip()


def _waiting(result: MappedConversations) -> str:
    is_waiting = result.evaluated < result.mapped
    return "Open conversations are evaluated when they close." if is_waiting else ""
