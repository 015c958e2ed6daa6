"""Every package lists what it offers. That every public name has a docstring is a rule of ruff, `D1`."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("otel_agentic", "collectors")
FILES: Final = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
INITS: Final = [path for path in FILES if path.name == "__init__.py"]

Documented = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def is_public(name: str) -> bool:
    return not name.startswith("_")


def offered(tree: ast.Module) -> set[str]:
    """Return the public names that an `__init__` defines, or imports from us without using them itself."""
    found: set[str] = set()
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for node in _statements(tree.body):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PACKAGES:
            found |= {alias.asname or alias.name for alias in node.names} - used
        elif isinstance(node, Documented):
            found.add(node.name)
    return {name for name in found if is_public(name)}


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        if isinstance(node, ast.If):  # names of lazily loaded modules are imported for type checking
            yield from node.body


def test_every_folder_of_code_is_a_package() -> None:
    assert set() == {path.parent for path in FILES} - {path.parent for path in INITS}


@pytest.mark.parametrize("path", INITS, ids=name_of)
def test_all_lists_what_a_package_offers_and_each_is_there(path: Path) -> None:
    package = import_module(".".join(path.relative_to(ROOT).parent.parts))
    names = list(getattr(package, "__all__", []))
    constants_classes_functions = sorted(names, key=lambda name: (not name.isupper(), name[:1].islower(), name))

    assert offered(ast.parse(path.read_text(encoding="utf-8"))) <= set(names)
    assert [] == [name for name in names if not hasattr(package, name)]
    assert constants_classes_functions == names
    assert len(set(names)) == len(names)
