"""What tests ask of the shipped Grafana dashboard."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from otel_agentic.telemetry.alerts import dashboard_text

#: What Grafana puts in for a variable; its own ones among them. Longer names first.
VALUES: Final = {
    "$__rate_interval": "5m",
    "$__range": "1h",
    "$criterion": "correct",
    "$environment": ".*",
    "$estimator": ".*",
    "$version": ".*",
    "$window": "1h",
    "$agent": ".*",
    "$tag": "",
    "$k": ".*",
}


def dashboard() -> dict[str, Any]:
    """Return the dashboard."""
    content: dict[str, Any] = json.loads(dashboard_text())
    return content


def panels() -> list[dict[str, Any]]:
    """Return all panels, rows too."""
    return list(dashboard()["panels"])


def targets() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (title of the panel, query) of each query."""
    for panel in panels():
        for target in panel.get("targets", ()):
            yield panel["title"], target


def filled(expression: str) -> str:
    """Return an expression with values for its variables."""
    for name, value in VALUES.items():
        expression = expression.replace(name, value)
    return expression
