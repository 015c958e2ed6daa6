"""`otel-agentic truth import|validate`: files of cases and labels."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from otel_agentic.cli.help import HelpfulCommand
from otel_agentic.cli.options import FILE, Target, create_store, format_option, labels_option, target_options, texts_of
from otel_agentic.errors import CaseError, UsageError
from otel_agentic.render.terminal import console, print_json, say
from otel_agentic.render.text import plural
from otel_agentic.results import to_json
from otel_agentic.results.conversations import CheckedFile, FieldLoss, TruthImport

if TYPE_CHECKING:
    from otel_agentic.truth.formats import Document

#: The names of `otel_agentic.truth.formats.FORMATS`, repeated here because importing it for --help would be slow.
FORMAT_NAMES: Final = ("native", "yaml", "csv", "parquet", "fair-forge", "ragas", "outcome", "adk", "tau-bench")
#: The forms of the native format.
_NATIVE: Final = frozenset(FORMAT_NAMES[:4])

file_format_option = click.option(
    "--file-format",
    type=click.Choice(FORMAT_NAMES),
    help="The format of the files of cases; unless given, it follows from ending and shape.",
)


@click.command(cls=HelpfulCommand, name="import", short_help="Import files of cases and labels.")
@click.argument("files", nargs=-1, type=FILE, metavar="[FILE]...")
@labels_option
@file_format_option
@click.option(
    "--random-sample",
    is_flag=True,
    help="The labelled conversations were drawn at random: use them to correct the rates of all.",
)
@target_options
@format_option
def import_(
    files: tuple[Path, ...],
    labels: tuple[Path, ...],
    file_format: str | None,
    target: Target,
    output: str,
    *,
    random_sample: bool,
) -> None:
    """Import files of cases and labels; a changed case becomes a new version of the case and of its dataset.

    Cases are read from JSON lines, JSON, YAML, CSV and Parquet, and from files of Fair Forge, RAGAS and NeMo Evaluator,
    ADK, tau-bench and outcome-style evaluations. docs/cases.md describes them all. A CSV with a column conversation_id holds
    labels. Creates the store if it does not exist.
    """
    if not files and not labels:
        raise UsageError("nothing to import: give files of cases or labels")
    label_files = () if file_format else tuple(path for path in files if _holds_labels(path))
    documents = _read([path for path in files if path not in label_files], file_format)
    texts = {"cases": _native(documents), "labels": texts_of((*label_files, *labels), "labels")}
    if target.server is None:
        create_store(target.settings())
    with target.open() as client:
        result = client.get(TruthImport, "truth_import", **texts, random_sample=random_sample)
    losses = [(document.name, loss) for document in documents for loss in _losses(document)]
    if output == "json":
        left_out = [{"file": name, **to_json(loss)} for name, loss in losses]
        print_json({**to_json(result), "left_out": left_out})
        return
    out = console()
    labels_note = f" and {plural(result.labels, 'label')}" if result.labels else ""
    cases = f"{plural(result.cases, 'case')}{labels_note} now current"
    say(out, f"{plural(result.new_case_versions, 'new case version')}; {cases}")
    for warning in result.warnings:
        say(out, f"warning: {warning}", style="yellow")
    for dataset in result.datasets:
        if dataset.changed:
            version = f"now version {dataset.version}" if dataset.version else "no longer current"
            say(out, f"dataset {dataset.dataset}: {plural(dataset.cases, 'case')}, {version}")
    for name, loss in losses:
        say(out, f"{name}: {_loss_text(loss)}")


@click.command(cls=HelpfulCommand, short_help="Check files of cases or labels.")
@click.argument("files", nargs=-1, required=True, type=FILE, metavar="FILE...")
@file_format_option
@format_option
def validate(files: tuple[Path, ...], file_format: str | None, output: str) -> None:
    """Check files of cases (in any format) or labels (CSV); lists every problem with file, line and field."""
    checked = [_checked(path, file_format) for path in files]
    if output == "json":
        print_json(checked)
    else:
        for file in checked:
            _print_checked(file)
    problems = [problem for file in checked for problem in file.problems]
    if problems:
        raise CaseError("\n".join(problems))


def _print_checked(file: CheckedFile) -> None:
    out = console()
    state = plural(len(file.problems), "problem") if file.problems else "ok"
    form = f" ({file.format})" if file.format not in {None, "", *_NATIVE} else ""
    say(out, f"{file.file}: {plural(file.count, file.kind)}{form}, {state}")
    for loss in file.left_out:
        say(out, f"  {_loss_text(loss)}")


def _checked(path: Path, file_format: str | None) -> CheckedFile:
    if file_format is None and _holds_labels(path):
        from otel_agentic.truth import parse_labels  # noqa: PLC0415 — pydantic models are not needed for --help

        labels = parse_labels(*texts_of((path,), "labels")[0])
        return CheckedFile(
            file=str(path),
            kind="label",
            format=None,
            count=len(labels.labels),
            problems=list(labels.problems),
            left_out=[],
        )
    from otel_agentic.evaluation.case_files import read_file  # noqa: PLC0415 — same

    document = read_file(path, file_format)
    return CheckedFile(
        file=str(path),
        kind="case",
        format=document.format,
        count=len(document.cases),
        problems=list(document.problems),
        left_out=_losses(document),
    )


def _holds_labels(path: Path) -> bool:
    """Return whether a file is a CSV of labels: its header has a column of conversation ids."""
    if path.suffix.lower() != ".csv":
        return False
    ((_, content),) = texts_of((path,), "cases or labels")
    first = content.removeprefix("\ufeff").lstrip().split("\n", 1)[0]
    return "conversation_id" in [cell.strip().lower() for cell in next(csv.reader([first]), [])]


def _read(paths: Sequence[Path], file_format: str | None) -> list[Document]:
    from otel_agentic.evaluation.case_files import read_file, require  # noqa: PLC0415 — same

    return require([read_file(path, file_format) for path in paths])


def _native(documents: Sequence[Document]) -> list[tuple[str, str]]:
    from otel_agentic.truth.formats import native_lines  # noqa: PLC0415 — same

    return [(document.name, native_lines(document.cases)) for document in documents]


def _losses(document: Document) -> list[FieldLoss]:
    """Return the fields of a file that a case cannot represent, with the number of affected cases."""
    counts = Counter(loss.field for loss in document.losses)
    return [FieldLoss(field=field, cases=count) for field, count in sorted(counts.items())]


def _loss_text(loss: FieldLoss) -> str:
    return f"{loss.field} left out of {plural(loss.cases, 'case')}: cases do not have this field"
