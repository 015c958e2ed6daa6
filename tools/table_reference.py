"""Write tables into hand-written pages, generated from the data that they list; the text around them stays.

Run it as `python -m tools.table_reference [--check]`. The tables are the checks of docs/conformance.md, the fields of docs/cases.md and
the inputs of docs/hostile-input.md.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

from collectors.conformance import CHECKS
from tests.hostile.arrivals import ARRIVALS
from tools.generated import ROOT, stale

Table = tuple[Sequence[str], Iterable[Sequence[str]]]


def checks() -> Table:
    """Return the checks of an OTLP receiver."""
    head = ("check", "severity", "what must hold", "where it is written")
    return head, [(f"`{check.id}`", check.severity, check.holds, check.spec) for check in CHECKS]


def inputs() -> Table:
    """Return the malformed and hostile inputs with their results and the counted changes."""
    rows = [
        (
            arrival.arrives,
            arrival.becomes,
            "; ".join(f"{count:,} x {reason}" for reason, count in arrival.counted.items()),
        )
        for arrival in ARRIVALS
    ]
    return ("Input", "Result", "Counted as"), rows


def fields(model: str) -> Callable[[], Table]:
    """Return a function that returns the fields of a model of the case format."""

    def table() -> Table:
        text = files("otel_agentic.truth.formats").joinpath("case_fields.toml").read_text("utf-8")
        return ("field", "meaning"), [(f"`{name}`", meaning) for name, meaning in tomllib.loads(text)[model].items()]

    return table


#: The tables of each page, by the name in their markers.
TABLES: Final[Mapping[Path, Mapping[str, Callable[[], Table]]]] = {
    ROOT / "docs" / "conformance.md": {"checks": checks},
    ROOT / "docs" / "hostile-input.md": {"inputs": inputs},
    ROOT / "docs" / "cases.md": {
        "case": fields("Case"),
        "turn": fields("CaseTurn"),
        "tools": fields("ToolExpectation"),
        "call": fields("ExpectedCall"),
    },
}


def markdown(table: Table) -> str:
    """Return a table in Markdown.

    >>> markdown((("a", "b"), [("1", "")]))
    '| a | b |\\n|---|---|\\n| 1 | |\\n'
    """
    head, rows = table
    lines = [head, *rows]
    text = ["| " + " | ".join(line).rstrip() + " |" for line in lines]
    return "\n".join([text[0], "|" + "---|" * len(head), *text[1:]]) + "\n"


def page(path: Path) -> str:
    """Return a page with new tables between its markers.

    Raises:
        ValueError: a marker is missing on the page.
    """
    text = path.read_text(encoding="utf-8")
    for name, table in TABLES[path].items():
        begin, end = f"<!-- {name}: written by `make docs` -->\n", f"<!-- end of {name} -->\n"
        before, found, rest = text.partition(begin)
        _, ended, after = rest.partition(end)
        if not (found and ended):
            raise ValueError(f"{path.relative_to(ROOT)} has no markers of the table {name}")
        text = f"{before}{begin}\n{markdown(table())}\n{end}{after}"
    return text


def main() -> int:
    """Write the pages, or with `--check` compare them; return the exit code."""
    parser = argparse.ArgumentParser(description="Write tables into the pages of docs/ from the code.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if a page is not current")
    if not parser.parse_args().check:
        for path in TABLES:
            path.write_text(page(path), encoding="utf-8")
        return 0
    problems = [problem for path in TABLES if (problem := stale(path, page(path)))]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
