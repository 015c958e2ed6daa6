"""`otel-agentic truth list|matches`: the current cases, and the case of each conversation."""

from __future__ import annotations

from typing import Final

import click

from otel_agentic.cli.help import HelpfulCommand
from otel_agentic.cli.open_conversations import require_agent
from otel_agentic.cli.options import Selection, Target, format_option, output_option, selection_options, target_options
from otel_agentic.errors import UsageError
from otel_agentic.render.terminal import (
    Column,
    console,
    differing_and_shared,
    numbers,
    print_csv,
    print_json,
    print_result,
    print_table,
    say,
    say_evaluation,
    text,
)
from otel_agentic.render.text import moment, percent, plural, ratio, short
from otel_agentic.results.conversations import CaseRow, MatchRow, QueryCluster

_NONE: Final = {
    None: "no conversations",
    "unmatched": "no unmatched conversations",
    "ambiguous": "no ambiguous conversations",
    "warning": "no matches with a warning",
    "suggested": "no conversations with a suggested case",
    "text": "no conversations matched by text",
}
_CLUSTERED: Final = {
    "unmatched": "unmatched conversations",
    "ambiguous": "ambiguous conversations",
    "warning": "conversations with a warning",
    "suggested": "conversations with a suggested case",
    "text": "conversations matched by text",
}
#: The default of `--limit`.
_CLUSTERS: Final = 50


@click.command(cls=HelpfulCommand, name="list", short_help="List the current cases.")
@target_options
@format_option
def list_(target: Target, output: str) -> None:
    """List the current cases, with their expectations and the number of conversations compared with each.

    A case that is a draft waits for a person: nothing passes or fails by it until its `reviewed` is true.
    """
    with target.open() as client:
        rows = client.get(list[CaseRow], "truth_list")
    print_result(rows, output, _print_cases)


@click.command(cls=HelpfulCommand, short_help="List which case each conversation was matched to.")
@target_options
@selection_options
@click.option(
    "--only",
    type=click.Choice(["unmatched", "ambiguous", "warning", "suggested", "text"]),
    help="Only those; suggested: with a case that their text suggests, text: matched by text.",
)
@click.option("--clusters", is_flag=True, help="Group them by what they begin with; unmatched ones unless --only.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"Only the first so many clusters; {_CLUSTERS} unless given.",
)
@output_option(
    "table", "json", "csv", note="; csv is a labels file of each conversation with its case or suggested case"
)
def matches(
    target: Target,
    selection: Selection,
    only: str | None,
    clusters: bool,
    limit: int | None,
    output: str,
) -> None:
    """List which case each conversation was matched to, how, and how surely.

    With --clusters: what users begin with in conversations that no case belongs to, most frequent first, so that you see
    what to annotate next. First queries that are equal but for order numbers and the like, or similar, are one cluster.

    A suggested case counts in nothing. To confirm suggestions, write them with --only suggested --format csv, delete the rows
    that are wrong, and give the file to `otel-agentic evaluate --labels`.
    """
    if clusters and output == "csv":
        raise UsageError("--format csv writes a labels file and cannot be combined with --clusters; use --format json")
    if limit is not None and not clusters:
        raise UsageError("--limit needs --clusters")
    arguments = {**selection.arguments, "only": only}
    with target.open() as client:
        if clusters:
            query_clusters = client.get(list[QueryCluster], "truth_clusters", **arguments)
            if not query_clusters:
                require_agent(client, selection)
            _show_clusters(query_clusters, only, selection.evaluation, output, limit)
            return
        rows = client.get(list[MatchRow], "truth_matches", **arguments)
        if not rows:
            require_agent(client, selection)
    if output == "json":
        print_json(rows)
    elif output == "csv":
        print_csv(
            ("conversation_id", "case_id"), [(row.conversation_id, name) for row in rows if (name := _label(row))]
        )
    elif not rows:
        say(console(), f"{_NONE[only]} in this selection")
    else:
        say_evaluation(console(), selection.evaluation)
        _print_matches(rows)


def _show_clusters(
    rows: list[QueryCluster], only: str | None, evaluation: str | None, output: str, limit: int | None
) -> None:
    visible = rows[: limit or _CLUSTERS]
    if output == "json":
        print_json(visible)
    elif not rows:
        say(console(), f"{_NONE[only or 'unmatched']} in this selection")
    else:
        say_evaluation(console(), evaluation)
        _print_clusters(visible, rows, only or "unmatched")


def _label(row: MatchRow) -> str | None:
    """Return the case of a conversation, else the suggested one, in the notation of a labels file."""
    dataset, case_id = row.dataset, row.case_id
    if not case_id:
        dataset, case_id = row.suggested_dataset, row.suggested_case_id
    return case_id and f"{dataset}/{case_id}"


def _print_cases(rows: list[CaseRow]) -> None:
    if not rows:
        say(console(), "no current cases; `otel-agentic truth import FILE` imports some")
        return
    names, _ = differing_and_shared(rows, ("dataset", "agent", "source"))
    drafts = sum(not row.reviewed for row in rows)
    columns = [
        Column(name="case", least=20),
        *text(*names, "tags"),
        *([Column(name="state", unfolded=True)] if drafts else []),
        *(Column(name=name, right=True) for name in ("turns", "expected calls", "attempts")),
    ]
    cells = [
        (
            row.case_id,
            *(getattr(row, name) for name in names),
            ", ".join(row.tags),
            *(["reviewed" if row.reviewed else "draft"] if drafts else []),
            row.turns,
            row.expected_calls,
            row.attempts,
        )
        for row in rows
    ]
    datasets = {(row.dataset, row.dataset_version) for row in rows}
    title = plural(len(rows), "current case")
    drafts_note = f", {plural(drafts, 'draft')} among them" if drafts else ""
    print_table(
        console(),
        columns,
        cells,
        f"{title}{drafts_note}, dataset {' version '.join(datasets.pop())}"
        if len(datasets) == 1
        else f"{title}{drafts_note}",
    )


def _print_clusters(visible: list[QueryCluster], rows: list[QueryCluster], only: str) -> None:
    out = console()
    columns = [
        Column(name="first query", least=30),
        *numbers("size", "share"),
        Column(name="agents", spare=2),
        Column(name="last seen", unfolded=True, spare=1),
        Column(name="newest like it", unfolded=True),
    ]
    cells = [
        (
            "(not captured)" if row.query is None else short(row.query, 120),
            f"{row.size:,}",
            percent(row.share),
            ", ".join(row.agents),
            moment(row.last_seen),
            row.example_conversation,
        )
        for row in visible
    ]
    total = sum(row.size for row in rows)
    print_table(out, columns, cells, f"{total:,} {_CLUSTERED[only]} in {plural(len(rows), 'cluster')}, by first query")
    if len(visible) < len(rows):
        say(out, f"(the {len(visible):,} largest; --limit shows more)", style="dim")
    if only == "unmatched":
        say(
            out,
            "(`otel-agentic truth promote --unmatched` writes the newest of each as a case to annotate)",
            style="dim",
        )


def _print_matches(rows: list[MatchRow]) -> None:
    # Conversations without a case have no dataset; they alone do not justify a column.
    datasets = {row.dataset for row in rows if row.dataset}
    names, _ = differing_and_shared(rows, ("agent", "environment", *(("dataset",) if len(datasets) > 1 else ())))
    has_warnings = any(row.warning for row in rows)
    has_suggestions = any(row.suggested_case_id for row in rows)
    columns = [
        Column(name="conversation", unfolded=True),
        *text(*names, "case", "method"),
        Column(name="confidence", right=True),
        *([Column(name="margin", right=True)] if has_suggestions else []),
        *([Column(name="warning", least=30)] if has_warnings else []),
    ]
    cells = [
        [
            row.conversation_id,
            *(getattr(row, name) for name in names),
            row.case_id or ", ".join(row.candidates or []) or row.suggested_case_id,
            "suggested" if row.suggested_case_id else row.method or row.reason,
            ratio(row.suggested_confidence if row.suggested_case_id else row.confidence),
            *([ratio(row.suggested_margin)] if has_suggestions else []),
            *([row.warning or ""] if has_warnings else []),
        ]
        for row in rows
    ]
    print_table(console(), columns, cells)
