"""The pinned requirements are what pyproject.toml asks for, and their check sees when they are not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from tests.snapshots import opening
from tools.check_requirements import problems
from tools.generated import ROOT


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a folder with our pyproject.toml and requirements."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_our_own_requirements_are_pinned_hashed_and_current() -> None:
    assert [] == problems(ROOT)


def test_a_dependency_that_was_not_locked_is_named(checkout: Path) -> None:
    edit(checkout / "pyproject.toml", '"click>=8.2"', '"click>=8.2", "flask>=3"')

    assert [
        f"{name}.txt: pyproject.toml asks for flask>=3, pinned is None; run `make lock`" for name in ("runtime", "test")
    ] == problems(checkout)


def test_a_pin_that_no_longer_fits_is_named(checkout: Path) -> None:
    edit(checkout / "pyproject.toml", '"ruff>=0.14"', '"ruff>=99"')

    (problem,) = problems(checkout)
    assert opening(problem) == snapshot("check.txt: pyproject.toml asks for ruff>=99, pinned is ")


def test_a_tool_to_compare_with_that_was_not_locked_is_named(checkout: Path) -> None:
    edit(checkout / "pyproject.toml", 'peer-mlflow = ["mlflow>=', 'peer-mlflow = ["sanic", "mlflow>=')

    assert ["peer-mlflow.txt: pyproject.toml asks for sanic, pinned is None; run `make lock`"] == problems(checkout)


def test_files_that_pin_different_releases_are_named(checkout: Path) -> None:
    edit(checkout / "requirements" / "runtime.txt", "idna==", "idna==0.")

    (problem,) = problems(checkout)
    assert problem.startswith("test.txt: idna==")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("six>=1.16\n", "not one pinned and hashed release: six>=1.16"),
        ("six==1.16.0\n", "not one pinned and hashed release: six==1.16.0"),
        ("--extra-index-url https://example.org/simple\n", "holds an address"),
    ],
)
def test_a_line_that_is_not_pinned_and_hashed_or_holds_an_address_is_named(
    checkout: Path, line: str, complaint: str
) -> None:
    with (checkout / "requirements" / "test.txt").open("a", encoding="utf-8") as file:
        file.write(line)

    assert f"test.txt: {complaint}" in problems(checkout)
