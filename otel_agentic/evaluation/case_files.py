"""Case files in all formats, read and written by the client; a collector receives cases as native JSON lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from otel_agentic.errors import CaseError, UsageError
from otel_agentic.regular_files import read_regular
from otel_agentic.truth.formats import native_lines, read_document, read_rows, write_document, write_rows
from otel_agentic.truth.formats.base import first_problems
from otel_agentic.truth.formats.table import COLUMNS
from otel_agentic.truth.load import MAX_FILE_BYTES, decoded

if TYPE_CHECKING:
    from otel_agentic.truth.formats import Document, Loss
    from otel_agentic.truth.formats.files import Attempt
    from otel_agentic.truth.model import Case

PARQUET: Final = "parquet"
_MAGIC: Final = b"PAR1"
_SUFFIXES: Final = (".parquet", ".pq")


def read_file(path: Path, format_name: str | None = None) -> Document:
    """Return the content of a file of cases in any format.

    Args:
        path: the file; messages contain its name.
        format_name: a name in `FORMATS`; None detects the format by suffix and content.

    Raises:
        UsageError: the file cannot be read, or the format is unknown.
        CaseError: it is not UTF-8, or not a valid Parquet file.
        TooLargeError: it exceeds the size limit of case files.
    """
    content = _bytes(path)
    if format_name == PARQUET or content.startswith(_MAGIC) or path.suffix.lower() in _SUFFIXES:
        from otel_agentic.store.queries.parquet import read_parquet  # noqa: PLC0415 — DuckDB, needed for Parquet files only

        table = read_parquet(path)
        return read_rows(str(path), table.columns, list(enumerate(table.rows, start=1)), format_name)
    return read_document(str(path), decoded(content, str(path), "cases"), format_name)


def read_attempts_file(path: Path) -> tuple[Attempt, ...]:
    """Return the rows of a RAGAS or NeMo Evaluator dataset: text in any case format, or Parquet.

    Raises:
        UsageError: the file cannot be read.
        CaseError: it is not UTF-8, or rows cannot be read; the message lists all problems.
        TooLargeError: it exceeds the size limit of case files.
    """
    from otel_agentic.truth.formats.files import attempts_of, read_attempts  # noqa: PLC0415 — only `--rows` needs it

    content = _bytes(path, "rows")
    if content.startswith(_MAGIC) or path.suffix.lower() in _SUFFIXES:
        from otel_agentic.store.queries.parquet import read_parquet  # noqa: PLC0415 — as above
        from otel_agentic.truth.formats.table import row_records  # noqa: PLC0415 — same

        return attempts_of(row_records(list(enumerate(read_parquet(path).rows, start=1)), "row"), str(path))
    return read_attempts(str(path), decoded(content, str(path), "rows"))


def native_texts(paths: Iterable[Path], format_name: str | None = None) -> list[tuple[str, str]]:
    """Return the name and cases of each file as native JSON lines, the format that a collector accepts.

    Raises:
        CaseError: files have problems; the message lists the problems of all files.
    """
    documents = require([read_file(path, format_name) for path in paths])
    return [(document.name, native_lines(document.cases)) for document in documents]


def require(documents: list[Document]) -> list[Document]:
    """Return the documents if none has problems.

    Raises:
        CaseError: a document has problems; the message lists all problems.
    """
    problems = [problem for document in documents for problem in document.problems]
    if problems:
        raise CaseError("\n".join(first_problems(problems)))
    return documents


def write_cases(cases: Sequence[Case], format_name: str, path: Path | None) -> tuple[str | None, tuple[Loss, ...]]:
    """Write cases to a file; return the text if no path is passed, and the losses of the conversion.

    Raises:
        UsageError: a binary format without a path, or the file cannot be written.
    """
    if format_name == PARQUET:
        if path is None:
            raise UsageError("Parquet cannot be written to a terminal; pass --output FILE")
        from otel_agentic.store.queries.parquet import write_parquet  # noqa: PLC0415 — same

        table = write_rows(cases)
        write_parquet(path, COLUMNS, table.rows)
        return None, table.losses
    written = write_document(cases, format_name)
    if path is None:
        return written.text, written.losses
    try:
        path.write_text(written.text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; pass --output FILE in a writable folder") from error
    return None, written.losses


def _bytes(path: Path, what: str = "cases") -> bytes:
    """Return the bytes of a file, at most one more than the size limit allows."""
    try:
        return read_regular(path, MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{what} file {path}: {error.strerror}; give a readable file") from error
