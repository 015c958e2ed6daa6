"""Every public name says what it is, and every package lists what it offers."""

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


def undocumented(tree: ast.Module) -> Iterator[str]:
    """Yield the public names of a module that have no docstring, the module itself as `module`."""
    if tree.body and not ast.get_docstring(tree):
        yield "module"
    yield from _below(tree, "")


def _below(node: ast.AST, prefix: str) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If | ast.Try):
            yield from _below(child, prefix)
        if not isinstance(child, Documented) or not is_public(child.name) or _is_another_half(child):
            continue
        if not ast.get_docstring(child):
            yield f"{prefix}{child.name} (line {child.lineno})"
        if isinstance(child, ast.ClassDef):
            yield from _below(child, f"{prefix}{child.name}.")


def _is_another_half(node: Documented) -> bool:
    """Return whether another definition of the same name speaks for this one: an overload, a setter."""
    names = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
    return bool(names & {"overload", "setter", "deleter"})


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


@pytest.mark.parametrize(
    "path", [path for path in FILES if is_public(path.stem) or path.name == "__init__.py"], ids=name_of
)
def test_every_public_name_has_a_docstring(path: Path) -> None:
    assert [] == list(undocumented(ast.parse(path.read_text(encoding="utf-8"))))


@pytest.mark.parametrize("folder", sorted({path.parent for path in FILES}), ids=name_of)
def test_every_folder_of_code_is_a_package(folder: Path) -> None:
    assert (folder / "__init__.py").is_file()


@pytest.mark.parametrize("path", INITS, ids=name_of)
def test_all_lists_what_a_package_offers_and_each_is_there(path: Path) -> None:
    package = import_module(".".join(path.relative_to(ROOT).parent.parts))
    names = list(getattr(package, "__all__", []))
    constants_classes_functions = sorted(names, key=lambda name: (not name.isupper(), name[:1].islower(), name))

    assert offered(ast.parse(path.read_text(encoding="utf-8"))) <= set(names)
    assert [] == [name for name in names if not hasattr(package, name)]
    assert constants_classes_functions == names
    assert len(set(names)) == len(names)


def test_the_check_sees_each_kind_of_name_without_a_docstring() -> None:
    source = """
class Open:
    def method(self): ...
    @property
    def value(self): ...
    @value.setter
    def value(self, new): ...
    def _own(self): ...
class _Closed:
    def method(self): ...
async def wait(): ...
if True:
    def late(): ...
"""

    assert [
        "module",
        "Open (line 2)",
        "Open.method (line 3)",
        "Open.value (line 5)",
        "wait (line 11)",
        "late (line 13)",
    ] == list(undocumented(ast.parse(source)))
