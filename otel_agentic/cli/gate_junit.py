"""A gate as JUnit XML, which CI systems show as tests: a condition is a test case."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from otel_agentic.cli.gate_words import condition_of, found_of, sentence_of, wanted_of
from otel_agentic.cli.text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

_SUITE = "otel-agentic gate"


def junit_of(found: dict[str, Any]) -> str:
    """Return the XML: failed conditions are failures, so are those without data; where that is allowed they are skipped."""
    rows = found["rows"]
    skipped = sum(row["allowed"] for row in rows)
    failures = sum(row["verdict"] != "pass" for row in rows) - skipped
    counts = {"tests": str(len(rows)), "failures": str(failures), "errors": "0", "skipped": str(skipped)}
    top = ET.Element("testsuites", {"name": _SUITE, **counts})
    suite = ET.SubElement(top, "testsuite", {"name": _SUITE, **counts, "time": "0"})
    for row in rows:
        _add(suite, row, rows)
    ET.indent(top)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(top, encoding="unicode")}\n'


def _add(suite: ET.Element, row: dict[str, Any], rows: Sequence[dict[str, Any]]) -> None:
    # `printable` leaves no character that XML does not allow.
    name = printable(f"{condition_of(row)} {wanted_of(row)}")
    agent = " ".join(printable(str(row["agent"] or "unknown agent")).split())
    case = ET.SubElement(suite, "testcase", {"classname": f"gate.{agent}", "name": name, "time": "0"})
    if row["verdict"] == "pass":
        ET.SubElement(case, "system-out").text = printable(f"{found_of(row)}: {row['reason']}")
        return
    told = sentence_of(row, rows)
    if row["allowed"]:
        ET.SubElement(case, "skipped", {"message": told})
        return
    ET.SubElement(case, "failure", {"message": told, "type": row["verdict"]}).text = told
