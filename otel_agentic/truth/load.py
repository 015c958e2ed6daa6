"""Reads cases: JSON lines, one case a line, every problem of a file told at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from otel_agentic.errors import CaseError
from otel_agentic.truth.model import Case
from otel_agentic.truth.problems import describe

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFile:
    """The cases of one file, in its order, and what is wrong with the lines that hold none."""

    name: str
    cases: tuple[Case, ...]
    problems: tuple[str, ...]

    def require(self) -> tuple[Case, ...]:
        """Return the cases.

        Raises:
            CaseError: the file has problems; the message lists them, one a line.
        """
        if self.problems:
            raise CaseError("\n".join(self.problems))
        return self.cases


def read_cases(path: Path) -> CaseFile:
    """Return what a file of JSON lines holds.

    Raises:
        CaseError: the file cannot be read, or is not UTF-8.
    """
    return parse_cases(path.name, read_text(path, "cases"))


def read_text(path: Path, what: str) -> str:
    """Return the text of a UTF-8 file, without a byte order mark.

    Raises:
        CaseError: the file cannot be read, or is not UTF-8.
    """
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise CaseError(f"{what} file {path}: {error.strerror}; give a readable file") from error
    except UnicodeDecodeError as error:
        raise CaseError(f"{what} file {path}: byte {error.start} is not UTF-8; save the file as UTF-8") from error


def parse_cases(name: str, text: str) -> CaseFile:
    """Return what a text of JSON lines holds; `name` stands in the messages.

    A case without a `dataset` belongs to the one called like the file, without folder and ending.
    """
    # Not splitlines(): U+2028 and its like are ordinary characters inside a JSON text.
    return _parse_lines(name, text.removeprefix("\ufeff").split("\n"))


def _parse_lines(name: str, lines: Iterable[str]) -> CaseFile:
    found: dict[tuple[str, str], tuple[int, Case]] = {}
    problems: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            case = _with_dataset(Case.model_validate_json(line), name)
        except ValidationError as error:
            problems += [f"{name}:{number}: {sentence}" for sentence in describe(error)]
            continue
        if case.key in found:
            problems.append(
                f"{name}:{number}: case_id: {case.case_id!r} of dataset {case.dataset!r} stands on line "
                f"{found[case.key][0]} already; a case_id occurs once in a dataset"
            )
            continue
        found[case.key] = (number, case)
    return CaseFile(name=name, cases=tuple(case for _, case in found.values()), problems=tuple(problems))


def _with_dataset(case: Case, name: str) -> Case:
    if "dataset" in case.model_fields_set:
        return case
    stem = name.replace("\\", "/").rsplit("/", 1)[-1].split(".", 1)[0]
    return case.model_copy(update={"dataset": stem}) if stem else case
