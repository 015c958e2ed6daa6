"""`otel-agentic truth export|datasets|schema`: ground truth for other tools and for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from otel_agentic.cli.help import HelpfulCommand
from otel_agentic.cli.options import Target, file_option, format_option, target_options
from otel_agentic.cli.truth.files import FORMAT_NAMES
from otel_agentic.errors import UsageError
from otel_agentic.render.terminal import Column, console, fixed, print_json, print_table, print_text, say
from otel_agentic.render.text import compact, moment, plural, printable
from otel_agentic.results.conversations import DatasetVersion

if TYPE_CHECKING:
    from otel_agentic.results import JsonObject
    from otel_agentic.truth.formats import Loss

_BY_ENDING: Final = {".yaml": "yaml", ".yml": "yaml", ".csv": "csv", ".parquet": "parquet", ".pq": "parquet"}
#: The largest number of losses that are printed.
_MOST_LOSSES: Final = 100


@click.command(cls=HelpfulCommand, short_help="Write the current cases to a file, in any format.")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMAT_NAMES),
    help="The format; unless given, by the ending of --output, else native (JSON lines).",
)
@click.option("--dataset", metavar="NAME", help="Only the cases of this dataset.")
@file_option(
    "The file to write, which must not exist; unless given, standard output, where CSV shows control characters as U+FFFD."
)
@click.option(
    "--losses-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="The format of lost fields on standard error.",
)
@target_options
def export(
    form: str | None,
    dataset: str | None,
    file: Path | None,
    losses_format: str,
    target: Target,
) -> None:
    """Write the current cases, in the native format or in that of another tool.

    Each field that the format cannot hold is listed on standard error, with the reason. The losses are found by reading
    the written file again.
    """
    if file is not None and file.exists():
        raise UsageError(f"{file} exists; give another file, or move it away")
    with target.open() as client:
        records: list[JsonObject] = client.call("truth_export", dataset=dataset)
    target_format = form or (_BY_ENDING.get(file.suffix.lower(), "native") if file is not None else "native")
    losses = _write(records, target_format, file)
    if file is not None:
        say(console(), f"{plural(len(records), 'case')} written to {file}, format {target_format}")
    for line in _as_json(losses) if losses_format == "json" else _as_text(losses):
        print_text(f"{line}\n", err=True)


def _write(records: Sequence[JsonObject], form: str, file: Path | None) -> Sequence[Loss]:
    from otel_agentic.evaluation.case_files import write_cases  # noqa: PLC0415 — pydantic models are not needed for --help
    from otel_agentic.truth.formats.base import case_of  # noqa: PLC0415 — same

    text, losses = write_cases([case_of(record) for record in records], form, file)
    if text is not None:
        print_text(text, escapes=form != "csv")
    return losses


def _as_json(losses: Sequence[Loss]) -> Iterator[str]:
    yield compact(
        [
            {"dataset": loss.dataset, "case_id": loss.case_id, "field": loss.field or None, "reason": loss.reason}
            for loss in losses
        ]
    )


def _as_text(losses: Sequence[Loss]) -> Iterator[str]:
    """Yield one line per loss, and the total number if not all are shown."""
    if not losses:
        return
    several_datasets = len({loss.dataset for loss in losses}) > 1
    for loss in losses[:_MOST_LOSSES]:
        case = f"{loss.dataset}/{loss.case_id}" if several_datasets else loss.case_id
        yield printable(f"{case}: {loss.field or 'the whole case'}: {loss.reason}")
    more = (
        f"; the first {_MOST_LOSSES} are listed, --losses-format json lists all" if len(losses) > _MOST_LOSSES else ""
    )
    cases = len({(loss.dataset, loss.case_id) for loss in losses})
    yield f"{plural(len(losses), 'field')} of {plural(cases, 'case')} lost or changed{more}"


@click.command(cls=HelpfulCommand, short_help="List the versions of datasets.")
@click.option("--dataset", metavar="NAME", help="Only this dataset.")
@target_options
@format_option
def datasets(dataset: str | None, target: Target, output: str) -> None:
    """List the versions of each dataset, newest first: the number of cases, the time and the file of the import.

    The store keeps every version: `dataset_members` has the cases of each, `cases` their content.
    """
    with target.open() as client:
        rows = client.get(list[DatasetVersion], "truth_datasets", dataset=dataset)
    if output == "json":
        print_json(rows)
    elif rows:
        columns = [
            Column(name="dataset", least=12),
            Column(name="version", unfolded=True),
            Column(name="cases", right=True),
            *fixed("current since", "state"),
            Column(name="source", least=12, spare=1),
        ]
        cells = [
            (
                row.dataset,
                row.version,
                row.cases,
                moment(row.imported_at),
                "current" if row.current and row.cases else "past" if not row.current else "empty",
                row.source,
            )
            for row in rows
        ]
        print_table(console(), columns, cells)
    else:
        say(console(), "no dataset was imported; `otel-agentic truth import FILE` imports some")


@click.command(cls=HelpfulCommand, short_help="Print the JSON Schema of the case format.")
def schema() -> None:
    """Print the JSON Schema of the case format: of a case, a list of cases, or an object with a list `cases`."""
    from otel_agentic.truth.formats.base import schema_text  # noqa: PLC0415 — same

    print_text(schema_text(), escapes=True)
