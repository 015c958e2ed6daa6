"""Every package lists what it offers. That every public name has a docstring is a rule of ruff, `D1`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

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
    names: set[str] = set()
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for node in _statements(tree.body):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PACKAGES:
            names |= {alias.asname or alias.name for alias in node.names} - used
        elif isinstance(node, Documented):
            names.add(node.name)
    return {name for name in names if is_public(name)}


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        if isinstance(node, ast.If):  # names of lazily loaded modules are imported for type checking
            yield from node.body


def test_every_folder_of_code_is_a_package() -> None:
    assert set() == {path.parent for path in FILES} - {path.parent for path in INITS}


@pytest.mark.parametrize("path", INITS, ids=name_of)
def test_all_lists_the_public_names_of_a_package_and_all_exist(path: Path) -> None:
    package = import_module(".".join(path.relative_to(ROOT).parent.parts))
    names = list(getattr(package, "__all__", []))
    constants_classes_functions = sorted(names, key=lambda name: (not name.isupper(), name[:1].islower(), name))

    assert offered(ast.parse(path.read_text(encoding="utf-8"))) <= set(names)
    assert [] == [name for name in names if not hasattr(package, name)]
    assert constants_classes_functions == names
    assert len(set(names)) == len(names)
