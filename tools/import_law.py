"""Check the import rules that import-linter cannot express: where a part of a foreign package may be imported.

import-linter sees only the first part of the name of a foreign package, so it cannot distinguish `opentelemetry.sdk` from
`opentelemetry.proto`. Imports for type checking count too: a package that names a heavy type depends on it.

Run it as `python -m tools.import_law [ROOT]`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PACKAGES: Final = ("otel_agentic", "collectors")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A foreign package and the modules (with their submodules) that may import it."""

    package: str
    rooms: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """An import that breaks a rule."""

    path: Path
    line: int
    imported: str
    rule: Rule

    def __str__(self) -> str:
        rooms = ", ".join(self.rule.rooms)
        return f"{self.path}:{self.line}: imports {self.imported}; only {rooms} may import {self.rule.package}"


RULES: Final = (
    Rule(
        package="opentelemetry.sdk",
        rooms=(
            "collectors.in_process",
            "otel_agentic.demo",
            "otel_agentic.telemetry",
        ),
    ),
)


def violations(root: Path, rules: tuple[Rule, ...] = RULES) -> list[Violation]:
    """Return the imports under `root` that break a rule, by file and line."""
    return [
        Violation(path=path.relative_to(root), line=line, imported=imported, rule=rule)
        for package in PACKAGES
        for path in sorted((root / package).rglob("*.py"))
        for line, imported in _imports(path)
        for rule in rules
        if _within(imported, rule.package) and not _allowed(_module(path, root), rule)
    ]


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            # `from opentelemetry import sdk` names the package after `import`.
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def _within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def _allowed(module: str, rule: Rule) -> bool:
    return any(_within(module, room) for room in rule.rooms)


def _module(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def main() -> int:
    """Print the imports that break a rule; return the exit code."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1]
    broken = violations(root)
    for violation in broken:
        print(violation)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
