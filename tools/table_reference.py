"""Write tables into hand-written pages, generated from the data that they list; the text around them stays.

Run it as `python -m tools.table_reference [--check]`. `TABLES` lists the pages and their tables.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

import yaml

from collectors.conformance import CHECKS
from otel_agentic.telemetry import names
from otel_agentic.telemetry.alerts import rules_text
from otel_agentic.telemetry.names import series_names
from tests.hostile.arrivals import ARRIVALS
from tests.telemetry.attributes import MUST, SOME, SUBJECT
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


def instruments() -> Table:
    """Return the metrics with their attributes in addition to those of the agent."""
    return ("metric", "meaning", "kind", "unit", "attributes", "in Prometheus"), [
        (
            _code(instrument.name),
            instrument.description,
            "state set, 1 or 0"
            if instrument is names.TIER_STATUS
            else instrument.kind.removeprefix("observable_").replace("up_down_", "up-down "),
            _code(instrument.unit),
            _code(*sorted((MUST[instrument.name] | SOME.get(instrument.name, set())) - SUBJECT - {names.CRITERION})),
            _code(*series_names(instrument)),
        )
        for instrument in sorted(names.INSTRUMENTS, key=lambda item: not MUST[item.name] >= SUBJECT)
    ]


def alerts() -> Table:
    """Return the alerts of the default settings."""
    groups = yaml.safe_load(rules_text((), ("1h", "24h", "7d")))["groups"]
    return ("alert", "severity", "fires after", "meaning"), [
        (_code(rule["alert"]), rule["labels"]["severity"], rule.get("for", "0m"), rule["annotations"]["description"])
        for group in groups
        for rule in group["rules"]
        if "alert" in rule
    ]


def _code(*texts: str) -> str:
    return " ".join(f"`{text}`" for text in texts)


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
    ROOT / "docs" / "telemetry.md": {"metrics": instruments, "alerts": alerts},
    ROOT / "docs" / "cases.md": {
        "case": fields("Case"),
        "turn": fields("CaseTurn"),
        "tools": fields("ToolExpectation"),
        "call": fields("ExpectedCall"),
    },
}


def markdown(table: Table) -> str:
    r"""Return a table in Markdown.

    >>> markdown((("a", "b"), [("1", "")]))
    '| a | b |\n|---|---|\n| 1 | |\n'
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
        before, opening, rest = text.partition(begin)
        _, closing, after = rest.partition(end)
        if not (opening and closing):
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
