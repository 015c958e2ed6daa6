"""`otel-agentic truth list|matches`: what is in force, and which conversation belongs to which case."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from otel_agentic.cli.options import (
    evaluation_option,
    format_option,
    opened,
    selection_of,
    selection_options,
    target_options,
)
from otel_agentic.cli.render.terminal import (
    Column,
    console,
    differing_and_shared,
    print_csv,
    print_json,
    print_table,
    say,
    say_evaluation,
    text,
)
from otel_agentic.cli.render.text import moment, percent, plural, ratio, short
from otel_agentic.errors import UsageError
from otel_agentic.results.conversations import CaseRow, MatchRow, QueryCluster

if TYPE_CHECKING:
    from pathlib import Path

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
#: Clusters shown unless told otherwise.
_CLUSTERS: Final = 50


@click.command(name="list", short_help="List the cases in force.")
@target_options
@format_option
def list_(db: Path | None, server: str | None, config_file: Path | None, output: str) -> None:
    """List the cases in force, with how much each expects and how many conversations were held against it.

    A case that is a draft waits for a person: nothing passes or fails by it until its `reviewed` is true.
    """
    with opened(db, server, config_file) as client:
        rows = client.get(list[CaseRow], "truth_list")
    if output == "json":
        print_json(rows)
    elif rows:
        _print_cases(rows)
    else:
        say(console(), "no cases in force; `otel-agentic truth import FILE` puts some in force")


@click.command(short_help="List which case each conversation was matched to.")
@target_options
@selection_options
@evaluation_option
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
@click.option(
    "--format",
    "output",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    help="Table for people, JSON for machines, or CSV: a labels file of each conversation with its case or suggested case.",
)
def matches(
    db: Path | None,
    server: str | None,
    config_file: Path | None,
    since: str | None,
    until: str | None,
    agent: str | None,
    evaluation: str | None,
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
        raise UsageError("--format csv writes a labels file and does not go with --clusters; use --format json")
    if limit is not None and not clusters:
        raise UsageError("--limit goes with --clusters")
    chosen = {**selection_of(since, until, agent, evaluation), **({"only": only} if only else {})}
    with opened(db, server, config_file) as client:
        if clusters:
            _show_clusters(client.get(list[QueryCluster], "truth_clusters", **chosen), only, evaluation, output, limit)
            return
        rows = client.get(list[MatchRow], "truth_matches", **chosen)
    if output == "json":
        print_json(rows)
    elif output == "csv":
        print_csv(
            ("conversation_id", "case_id"), [(row.conversation_id, name) for row in rows if (name := _label(row))]
        )
    elif not rows:
        say(console(), f"{_NONE[only]} in this selection")
    else:
        say_evaluation(console(), evaluation)
        _print_matches(rows)


def _show_clusters(
    rows: list[QueryCluster], only: str | None, evaluation: str | None, output: str, limit: int | None
) -> None:
    shown = rows[: limit or _CLUSTERS]
    if output == "json":
        print_json(shown)
    elif not rows:
        say(console(), f"{_NONE[only or 'unmatched']} in this selection")
    else:
        say_evaluation(console(), evaluation)
        _print_clusters(shown, rows, only or "unmatched")


def _label(row: MatchRow) -> str | None:
    """Return the case of a conversation, or else the suggested one, as a labels file names it."""
    dataset, case_id = row.dataset, row.case_id
    if not case_id:
        dataset, case_id = row.suggested_dataset, row.suggested_case_id
    return case_id and f"{dataset}/{case_id}"


def _print_cases(rows: list[CaseRow]) -> None:
    names, _ = differing_and_shared(rows, ("dataset", "agent", "source"))
    drafts = sum(not row.reviewed for row in rows)
    columns = [
        Column(name="case", least=20),
        *text(*names, "tags"),
        *([Column(name="state", whole=True)] if drafts else []),
        *(Column(name=name, right=True) for name in ("turns", "expected calls", "attempts")),
    ]
    shown = [
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
    title = f"{plural(len(rows), 'case')} in force"
    waiting = f", {plural(drafts, 'draft')} among them" if drafts else ""
    print_table(
        console(),
        columns,
        shown,
        f"{title}{waiting}, dataset {' version '.join(datasets.pop())}" if len(datasets) == 1 else f"{title}{waiting}",
    )


def _print_clusters(shown: list[QueryCluster], rows: list[QueryCluster], only: str) -> None:
    out = console()
    columns = [
        Column(name="first query", least=30),
        Column(name="size", right=True),
        Column(name="share", right=True),
        Column(name="agents", spare=2),
        Column(name="last seen", whole=True, spare=1),
        Column(name="newest like it", whole=True),
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
        for row in shown
    ]
    total = sum(row.size for row in rows)
    print_table(out, columns, cells, f"{total:,} {_CLUSTERED[only]} in {plural(len(rows), 'cluster')}, by first query")
    if len(shown) < len(rows):
        say(out, f"(the {len(shown):,} largest; --limit shows more)", style="dim")
    if only == "unmatched":
        say(
            out,
            "(`otel-agentic truth promote --unmatched` writes the newest of each as a case to annotate)",
            style="dim",
        )


def _print_matches(rows: list[MatchRow]) -> None:
    # What has no case has no dataset: that alone is no reason to tell it.
    datasets = {row.dataset for row in rows if row.dataset}
    names, _ = differing_and_shared(rows, ("agent", "environment", *(("dataset",) if len(datasets) > 1 else ())))
    warned = any(row.warning for row in rows)
    suggested = any(row.suggested_case_id for row in rows)
    columns = [
        Column(name="conversation", whole=True),
        *text(*names, "case", "method"),
        Column(name="confidence", right=True),
        *([Column(name="margin", right=True)] if suggested else []),
        *([Column(name="warning", least=30)] if warned else []),
    ]
    shown = [
        [
            row.conversation_id,
            *(getattr(row, name) for name in names),
            row.case_id or ", ".join(row.candidates or []) or row.suggested_case_id,
            "suggested" if row.suggested_case_id else row.method or row.reason,
            ratio(row.suggested_confidence if row.suggested_case_id else row.confidence),
            *([ratio(row.suggested_margin)] if suggested else []),
            *([row.warning or ""] if warned else []),
        ]
        for row in rows
    ]
    print_table(console(), columns, shown)
