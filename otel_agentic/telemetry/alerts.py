"""The Prometheus rule file, made for some objectives and windows, and the Grafana dashboard."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import yaml

from otel_agentic.config import Objective
from otel_agentic.telemetry.alert_rules import collector_alerts, data_alerts, recorded, window_alerts
from otel_agentic.telemetry.objective_rules import objective_rules
from otel_agentic.windows import parse_width

if TYPE_CHECKING:
    from collections.abc import Sequence

#: What agents are held to where nothing is configured: 90 % of conversations right.
DEFAULT_OBJECTIVE: Final = Objective(k=1, target=0.9)
_HEAD: Final = """\
# Prometheus rules over what otel-agentic emits; load them by `rule_files`.
# Written by `otel-agentic alerts rules` for the objectives and windows of its settings.
"""
_NO_OBJECTIVE: Final = """\
# No objective is configured (slo.objectives), so pass^1 >= 0.9 stands in; e-values are emitted of configured ones only.
"""
_DAY: Final = "24h"


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Names of the time windows that rules look at: one for most, and pairs (shorter, longer) for burn rates."""

    main: str
    fast: tuple[str, str] | None = None
    slow: tuple[str, str] | None = None

    @classmethod
    def of(cls, widths: Sequence[str]) -> Windows | None:
        """Return the windows to look at among those that are emitted, None where none of them is a time.

        The day is the main one, else the second narrowest.

        >>> Windows.of(["7d", "n200", "24h", "1h"])
        Windows(main='24h', fast=('1h', '24h'), slow=('24h', '7d'))
        """
        ordered = sorted((width for width in widths if not width.startswith("n")), key=parse_width)
        if not ordered:
            return None
        pairs = list(pairwise(ordered))
        return cls(
            main=_DAY if _DAY in ordered else ordered[min(1, len(ordered) - 1)],
            fast=pairs[0] if pairs else None,
            slow=pairs[-1] if len(pairs) > 1 else None,
        )


def rules_text(objectives: Sequence[Objective], widths: Sequence[str], sampled: float = 1.0) -> str:
    """Return a rule file of Prometheus.

    Args:
        objectives: what agents are held to; none gives rules for `DEFAULT_OBJECTIVE`.
        widths: the windows that are emitted; without a time among them there are only rules about the data.
        sampled: the lowest share of an agent's conversations that is evaluated.
    """
    windows = Windows.of(widths)
    groups = [] if windows is None else _window_groups(objectives or (DEFAULT_OBJECTIVE,), windows, sampled)
    about_us = [
        {"name": "agentic-data", "rules": data_alerts()},
        {"name": "agentic-collector", "rules": collector_alerts()},
    ]
    content = {"groups": [*groups, *about_us]}
    head = _HEAD if objectives else _HEAD + _NO_OBJECTIVE
    return head + yaml.dump(content, Dumper=_Dumper, sort_keys=False, width=1000, allow_unicode=True)


def dashboard_text() -> str:
    """Return the Grafana dashboard: JSON to be imported."""
    return files("otel_agentic.telemetry").joinpath("assets/dashboard.json").read_text(encoding="utf-8")


def _window_groups(objectives: Sequence[Objective], windows: Windows, sampled: float) -> list[dict[str, Any]]:
    return [
        {"name": "agentic-recorded", "rules": recorded()},
        *(
            {"name": f"agentic-objective-{place}", "rules": objective_rules(objective, windows)}
            for place, objective in enumerate(objectives, start=1)
        ),
        {"name": "agentic-windows", "rules": window_alerts(windows, sampled)},
    ]


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
