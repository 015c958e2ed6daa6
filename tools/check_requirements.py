"""Check requirements/: every line is pinned and hashed, no line contains an address, and all requirements of pyproject.toml occur.

Run it as `python -m tools.check_requirements`.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.generated import ROOT

_CONTINUED: Final = re.compile(r"\\\n\s*")
_PIN: Final = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;]+)( ; [^-]+)?(\s+--hash=sha256:[0-9a-f]{64})+")


def problems(root: Path) -> list[str]:
    """Return the problems of the files under `root`/requirements, one readable line each."""
    folder = root / "requirements"
    needed = _asked_for(root)
    texts = {name: (folder / f"{name}.txt").read_text(encoding="utf-8") for name in needed}
    collected = [problem for name, text in texts.items() for problem in _shape(name, text)]
    pins = {name: _pins(text) for name, text in texts.items()}
    for name, requirements in needed.items():
        collected += _coverage(name, requirements, pins[name])
    collected += _agreement("build", pins["build"], pins["test"])
    collected += [*_agreement("test", pins["test"], pins["runtime"]), *_agreement("check", pins["check"], pins["test"])]
    return collected


def _lines(text: str) -> list[str]:
    return [line for line in _CONTINUED.sub(" ", text).splitlines() if line.strip()]


def _shape(name: str, text: str) -> list[str]:
    lines = _lines(text)
    malformed = [
        f"{name}.txt: not one pinned and hashed release: {line[:80]}" for line in lines if not _PIN.fullmatch(line)
    ]
    return [*malformed, *([f"{name}.txt: holds an address"] if "://" in text else [])]


def _pins(text: str) -> dict[str, str]:
    matches = [_PIN.fullmatch(line) for line in _lines(text)]
    return {canonicalize_name(match["name"]): match["version"] for match in matches if match}


def _asked_for(root: Path) -> dict[str, list[Requirement]]:
    """Return the requirements of pyproject.toml for each file."""
    with (root / "pyproject.toml").open("rb") as file:
        document = tomllib.load(file)
    project = document["project"]
    groups = {name: _expanded(document["dependency-groups"], name) for name in document["dependency-groups"]}
    extras = project["optional-dependencies"]
    runtime = project["dependencies"]
    return {
        "runtime": [Requirement(line) for line in runtime],
        "build": [Requirement(line) for line in groups["build"]],
        "test": [Requirement(line) for line in [*runtime, *extras["judges"], *extras["demo"], *groups["test"]]],
        "check": [Requirement(line) for line in groups["check"]],
        **{
            name: [Requirement(line) for line in lines]
            for name, lines in groups.items()
            if name in {"browser", "docs"} or name.startswith("peer-")
        },
    }


def _expanded(groups: dict[str, list[str | dict[str, str]]], name: str) -> list[str]:
    """Return the requirements of a dependency group and of the groups that it includes."""
    return [
        requirement
        for line in groups[name]
        for requirement in ([line] if isinstance(line, str) else _expanded(groups, line["include-group"]))
    ]


def _coverage(name: str, requirements: Iterable[Requirement], pins: dict[str, str]) -> list[str]:
    uncovered = []
    for requirement in requirements:
        pinned = pins.get(canonicalize_name(requirement.name))
        if pinned is None or not requirement.specifier.contains(pinned, prereleases=True):
            uncovered.append(f"{name}.txt: pyproject.toml asks for {requirement}, pinned is {pinned}; run `make lock`")
    return uncovered


def _agreement(name: str, pins: dict[str, str], base: dict[str, str]) -> list[str]:
    """Return the packages that two files pin to different releases; the files are installed into one environment."""
    return [
        f"{name}.txt: {package}=={version}, the file below it pins {base[package]}; run `make lock`"
        for package, version in pins.items()
        if base.get(package, version) != version
    ]


def main() -> int:
    """Print the problems; return the exit code."""
    collected = problems(ROOT)
    for problem in collected:
        print(problem)
    return 1 if collected else 0


if __name__ == "__main__":
    sys.exit(main())
