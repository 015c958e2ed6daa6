"""Cases made by running the systems we are compared with: `pytest tests/parity --parity-dir DIR` runs those in DIR.

A test module names the schema it runs (`PARITY_SCHEMA`) and takes `parity_case`; every file of DIR with that schema is
run, whatever its name. The option exists where this folder is named on the command line; elsewhere the default holds.
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
    """One case with the document it stands in, which states the tolerance."""

    document: dict[str, Any]
    case: dict[str, Any]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, type=Path, default=None, help="folder of parity files (default: the shared folder)")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "parity_case" not in metafunc.fixturenames:
        return
    folder = _folder(metafunc.config)
    schema = metafunc.module.PARITY_SCHEMA
    found = [
        pytest.param(ParityCase(document=document, case=case), id=f"{path.stem}-{case['id']}")
        for path, document in _documents(folder, schema)
        for case in document["cases"]
    ]
    absent = pytest.param(None, id="absent", marks=pytest.mark.skip(reason=f"no file of schema {schema} in {folder}"))
    metafunc.parametrize("parity_case", found or [absent])


def _folder(config: pytest.Config) -> Path:
    given = config.getoption(OPTION, default=None)
    return Path(given) if given is not None else SHARED / "parity"


def _documents(folder: Path, schema: str) -> list[tuple[Path, dict[str, Any]]]:
    documents = [(path, json.loads(path.read_text(encoding="utf-8"))) for path in sorted(folder.glob("*.json"))]
    return [(path, document) for path, document in documents if document.get("schema") == schema]
