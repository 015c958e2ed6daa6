"""Cases made by running the systems we are compared with: `pytest tests/parity --parity-dir DIR` runs those in DIR.

A test module names the schema it runs (`PARITY_SCHEMA`), and the list of cases in its documents where that is not
`cases` (`PARITY_LIST`). A test takes `parity_case`, or `parity_document` for data that a document has once. Every file of
DIR with that schema is run, independent of its name. The option exists where this folder is named on the command line;
elsewhere the default holds.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.shared import SHARED

OPTION = "--parity-dir"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParityCase:
    """One case with its document, which states the tolerance."""

    document: dict[str, Any]
    case: dict[str, Any]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, type=Path, default=None, help="folder of parity files (default: the shared folder)")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for argument in {"parity_case", "parity_document"} & set(metafunc.fixturenames):
        folder, schema = _folder(metafunc.config), metafunc.module.PARITY_SCHEMA
        documents = _documents(folder, schema)
        result = _cases(documents, metafunc.module) if argument == "parity_case" else _document(documents)
        reason = f"no file of schema {schema} in {folder} has such cases"
        metafunc.parametrize(
            argument, result or [pytest.param(None, id="absent", marks=pytest.mark.skip(reason=reason))]
        )


def _cases(documents: list[tuple[Path, dict[str, Any]]], module: Any) -> list[Any]:
    name = getattr(module, "PARITY_LIST", "cases")
    return [
        pytest.param(ParityCase(document=document, case=case), id=f"{path.stem}-{case.get('id', index)}")
        for path, document in documents
        for index, case in enumerate(document.get(name) or [])
    ]


def _document(documents: list[tuple[Path, dict[str, Any]]]) -> list[Any]:
    return [pytest.param(document, id=path.stem) for path, document in documents]


def _folder(config: pytest.Config) -> Path:
    given = config.getoption(OPTION, default=None)
    if given is not None and not given.is_dir():
        raise pytest.UsageError(f"{OPTION} {given}: no such folder")
    return Path(given) if given is not None else SHARED / "parity"


def _documents(folder: Path, schema: str) -> list[tuple[Path, dict[str, Any]]]:
    documents = [(path, json.loads(path.read_text(encoding="utf-8-sig"))) for path in sorted(folder.glob("*.json"))]
    return [
        (path, document)
        for path, document in documents
        if isinstance(document, dict) and document.get("schema") == schema
    ]
