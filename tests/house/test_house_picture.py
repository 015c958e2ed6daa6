"""The picture of the packages in CONTRIBUTING matches the folders and the import contract; no modules import each other."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tools.house_figures import import_circles

ROOT = Path(__file__).parents[2]


def pictured() -> list[set[str]]:
    """Return the packages of each line of the picture, from top to bottom."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    picture = text.split("```text\n")[1].split("```")[0]
    return [set(re.split(r" {4,}", line.strip())[0].split()) for line in picture.splitlines()]


def test_the_picture_has_the_layers_of_the_import_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")

    assert [set(layer.split(" | ")) for layer in layers] == pictured()


def test_the_picture_has_every_folder_and_module_of_the_package() -> None:
    package = ROOT / "otel_agentic"
    names = {path.parent.name for path in package.glob("*/__init__.py")} | {path.stem for path in package.glob("*.py")}

    assert names - {"__init__"} == set().union(*pictured())


def test_no_modules_import_each_other() -> None:
    assert import_circles(ROOT) == []
