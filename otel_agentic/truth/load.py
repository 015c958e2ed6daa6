"""Reading of case files: any text format, all problems of a file reported at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.errors import CaseError, TooLargeError
from otel_agentic.regular_files import read_regular
from otel_agentic.truth.formats.base import shown
from otel_agentic.truth.formats.json_text import parse_lines
from otel_agentic.truth.formats.native import Native

if TYPE_CHECKING:
    from pathlib import Path

    from otel_agentic.truth.formats.base import Document
    from otel_agentic.truth.model import Case

#: Files of ground truth are written by people: a larger file is probably something else.
MAX_FILE_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFile:
    """The cases of one file, in its order, and the problems of the invalid records."""

    name: str
    cases: tuple[Case, ...]
    problems: tuple[str, ...]

    def require(self) -> tuple[Case, ...]:
        """Return the cases.

        Raises:
            CaseError: the file has problems; the message lists them, one per line.
        """
        if self.problems:
            raise CaseError("\n".join(shown(self.problems)))
        return self.cases


def read_cases(path: Path, format_name: str | None = None) -> CaseFile:
    """Return the content of a file of cases: JSON lines, JSON, YAML or CSV, in any text format.

    Raises:
        CaseError: the file cannot be read, or is not UTF-8.
        TooLargeError: it is larger than any file of cases.
    """
    from otel_agentic.truth.formats.reading import read_document  # noqa: PLC0415 — loads the formats of other tools

    return _case_file(read_document(path.name, read_text(path, "cases"), format_name))


def read_text(path: Path, what: str) -> str:
    """Return the text of a UTF-8 file, without a byte order mark.

    Raises:
        CaseError: the file cannot be read, or is not UTF-8.
        TooLargeError: it is larger than any file of ground truth.
    """
    try:
        content = read_regular(path, MAX_FILE_BYTES + 1)
    except OSError as error:
        raise CaseError(f"{what} file {path}: {error.strerror}; give a readable file") from error
    return decoded(content, str(path), what)


def decoded(content: bytes, name: str, what: str) -> str:
    """Return the text of a file's bytes, without a byte order mark.

    Raises:
        CaseError: they are not UTF-8.
        TooLargeError: they are more than `MAX_FILE_BYTES`.
    """
    if len(content) > MAX_FILE_BYTES:
        raise TooLargeError(
            f"{what} file {name}: larger than {MAX_FILE_BYTES // 2**20} MiB; split it into several files"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CaseError(f"{what} file {name}: byte {error.start} is not UTF-8; save it as UTF-8") from error


def parse_cases(name: str, text: str) -> CaseFile:
    """Return the cases in native JSON lines; `name` identifies the file in messages.

    A case without a `dataset` belongs to the dataset named after the file, without folder and extension.
    """
    return _case_file(Native().read(parse_lines(text.removeprefix("\ufeff")), name))


def _case_file(document: Document) -> CaseFile:
    return CaseFile(name=document.name, cases=document.cases, problems=document.problems)
