"""`otel-agentic truth promote`: production conversations as cases to be annotated."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from otel_agentic.cli.help import HelpfulCommand
from otel_agentic.cli.open_conversations import require_agent
from otel_agentic.cli.options import Selection, Target, conversation_options, file_option, target_options
from otel_agentic.errors import UsageError
from otel_agentic.render.terminal import console, print_text, say
from otel_agentic.render.text import compact, plural, printable
from otel_agentic.results.conversations import NotPromoted, Promotion

if TYPE_CHECKING:
    from otel_agentic.results import JsonObject

_YAML: Final = frozenset({".yaml", ".yml"})
#: The largest number of conversations named for each reason why they were left out.
_NAMED: Final = 3


@click.command(cls=HelpfulCommand, short_help="Write conversations as cases to be annotated.")
@click.argument("conversations", nargs=-1, metavar="[CONVERSATION]...")
@target_options
@conversation_options
@click.option("--failing", is_flag=True, help="Only conversations that failed, newest first.")
@click.option("--unmatched", is_flag=True, help="Only conversations without a case: the newest of each cluster.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Write at most N cases.")
@click.option("--dataset", metavar="NAME", help="The dataset of the cases; `production` unless given.")
@click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="TAG",
    help="A tag for the cases, such as regression, for `evaluate --suite` and `gate --suite`; with it, current cases "
    "that conversations failed are written with the tag, not drafted again.",
)
@file_option(
    "The file to write, which must not exist; unless given, standard output.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "yaml"]),
    help="JSON lines or YAML; unless given, by the ending of --output, else jsonl.",
)
@click.option("--quiet", is_flag=True, help="Print only the cases, and the conversations left out.")
def promote(
    conversations: tuple[str, ...],
    target: Target,
    selection: Selection,
    failing: bool,
    unmatched: bool,
    limit: int | None,
    dataset: str | None,
    tags: tuple[str, ...],
    file: Path | None,
    form: str | None,
    quiet: bool,
) -> None:
    """Write production conversations as cases to be annotated: the failing ones first, then those without a case.

    A case holds the queries, the answers and the calls of the agent, as a draft: nothing passes or fails by it until you
    have corrected it and set `reviewed` to true. Its notes state the reason. Parameters whose values another run need
    not repeat get a match mode, `ignore` or `judge`, and the notes state why. Conversations with the same queries
    become one case; those that already have a current case are left out.
    """
    arguments = selection.arguments
    # An environment also distinguishes conversations with the same id.
    conditions = [value for name, value in arguments.items() if name != "environment"]
    if conversations and (failing or unmatched or any(conditions)):
        raise UsageError(
            "give conversations, or choose them by --failing, --unmatched, --since, --until, --agent and --agent-version"
        )
    if file is not None and file.exists():
        raise UsageError(f"{file} exists, and may hold your annotations; give another file, or move it away")
    request = {
        "conversation_ids": list(conversations),
        "failing": failing or not unmatched,
        "unmatched": unmatched or not failing,
        "limit": limit,
        "dataset": dataset,
        "tags": list(tags) or None,
    }
    with target.open() as client:
        promotion = client.get(Promotion, "truth_promote", **arguments, **request)
        cases = [*promotion.cases, *promotion.tagged]
        if not cases:
            require_agent(client, selection)
    if cases:
        _write(cases, file, form or ("yaml" if file and file.suffix in _YAML else "jsonl"))
    if not quiet:
        for line in _summary(promotion, file, target.db):
            if file is None or not cases:
                click.echo(printable(line), err=True)
            else:
                say(console(), line)
    for line in _skipped(promotion.left_out):
        click.echo(printable(line), err=True)


def _write(cases: Sequence[JsonObject], file: Path | None, form: str) -> None:
    content = _as_yaml(cases) if form == "yaml" else "".join(f"{compact(case)}\n" for case in cases)
    if file is None:
        print_text(content, escapes=True)
        return
    try:
        file.write_text(content, encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(f"--output {file}: {error.strerror}; give a file that can be written") from error


def _as_yaml(cases: Sequence[JsonObject]) -> str:
    from otel_agentic.truth.formats.yaml_text import write_yaml  # noqa: PLC0415 — not needed for --help

    return write_yaml(list(cases))


def _summary(promotion: Promotion, file: Path | None, db: Path | None) -> Iterator[str]:
    """Yield the number of written cases, and the next command."""
    destination = f" to {file}" if file else ""
    if promotion.cases:
        conversations = sum(len(case["promoted_from"]) for case in promotion.cases)
        yield (
            f"{plural(len(promotion.cases), 'case')} of {plural(conversations, 'conversation')} written{destination}, "
            f"dataset {promotion.cases[0]['dataset']}: drafts, until you correct them and set `reviewed` to true"
        )
    if promotion.tagged:
        names = [f"{case['case_id']} of dataset {case['dataset']}" for case in promotion.tagged]
        more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        yield (
            f"{plural(len(names), 'current case')} written{destination} with the tag: {', '.join(names[:_NAMED])}{more}; they are "
            "reviewed, and count once they are imported (add the tag to the file that they came from, too)"
        )
    if promotion.cases or promotion.tagged:
        if file:
            name, store = shlex.quote(str(file)), f" --db {shlex.quote(str(db))}" if db else ""
            yield f"then: otel-agentic truth validate {name} && otel-agentic truth import {name}{store}"
        return
    unscored = promotion.unscored
    later = f"; {plural(unscored, 'conversation')} not evaluated yet, see `otel-agentic evaluate`" if unscored else ""
    yield f"nothing to promote in this selection{later}"


def _skipped(conversations: Sequence[NotPromoted]) -> Iterator[str]:
    """Yield one line per reason, with the first conversations that were left out for it."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for conversation in conversations:
        case = f" (case {conversation.case_id} of dataset {conversation.dataset})" if conversation.case_id else ""
        by_reason[conversation.reason].append(f"{conversation.conversation_id}{case}")
    for reason, names in by_reason.items():
        more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        yield f"left out, {reason}: {', '.join(names[:_NAMED])}{more}"
