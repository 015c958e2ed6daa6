"""The page about metrics lists the alerts, attributes and series that the code emits."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from otel_agentic.telemetry import names
from otel_agentic.telemetry.alerts import rules_text
from otel_agentic.telemetry.names import label_name, series_names

PAGE = (Path(__file__).parents[2] / "docs" / "telemetry.md").read_text(encoding="utf-8")


def rows(first: str) -> list[list[str]]:
    """Return the cells of the table rows whose first cell begins so."""
    table_rows = re.findall(rf"^\| (`{re.escape(first)}.*) \|$", PAGE, re.MULTILINE)
    return [[cell.strip() for cell in row.split(" |")] for row in table_rows]


def quoted(cell: str) -> tuple[str, ...]:
    return tuple(re.findall(r"`([^`]+)`", cell))


LABELS = {label_name(value) for name, value in vars(names).items() if name.isupper() and isinstance(value, str)}


def test_every_alert_has_a_row_with_its_severity() -> None:
    rules = [rule for group in yaml.safe_load(rules_text((), ("1h", "24h", "7d")))["groups"] for rule in group["rules"]]
    severity = {rule["alert"]: rule["labels"]["severity"] for rule in rules if "alert" in rule}
    assert {quoted(row[0])[0]: row[1] for row in rows("Agentic")} == severity
    recorded = {rule["record"] for rule in rules if "record" in rule}
    assert {name for name in recorded if f"`{name}`" not in PAGE} == set()


def test_every_own_attribute_of_events_and_metrics_is_on_the_page() -> None:
    own = {value for name, value in vars(names).items() if name.isupper() and str(value).startswith("agentic.")}
    evaluations = {names.EVALUATION_CONVERSATION, names.EVALUATION_ANSWER, names.EVALUATION_TOOL_CALL}
    attributes = own - evaluations - {names.EVALUATION_TOOL_PREFIX}
    assert {attribute for attribute in attributes if f"`{attribute}`" not in PAGE} == set()


def test_every_query_of_the_page_asks_for_series_and_labels_that_are_there() -> None:
    (block,) = re.findall(r"```promql\n(.*?)```", PAGE, re.DOTALL)
    lines = [line for line in block.splitlines() if line and not line.startswith("#")]
    series = {name for instrument in names.INSTRUMENTS for name in series_names(instrument)}
    used = {term for line in lines for term in re.findall(r"\bagentic_(?:metric|evaluation)_\w+", line)}
    assert (used - series - LABELS, len(lines)) == (set(), 4)
    assert {label for line in lines for label in re.findall(r"[{(,](\w+)=", line)} <= LABELS
