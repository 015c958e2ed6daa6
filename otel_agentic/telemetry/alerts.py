"""The Prometheus rule file for given objectives and windows, and the Grafana dashboard.

The rules are data: `assets/rules.yaml`. A string in it may contain placeholders `%{name}`, which are replaced after the
file is parsed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise
from typing import Any, Final

import yaml

from otel_agentic.config import Objective
from otel_agentic.windows import parse_width

#: The objective that is used if none is configured: 90 % of conversations correct.
DEFAULT_OBJECTIVE: Final = Objective(k=1, target=0.9)
#: Coverage below which a rate is unreliable: the conversations that could not be evaluated may be the failures.
LOW_COVERAGE: Final = 0.8
#: Burn rate that is fast, if the objective permits it; see `fast_burn`.
_FAST_BURN: Final = 2.0
_HEAD: Final = """\
# Prometheus rules over the telemetry of otel-agentic; load them by `rule_files`.
# Written by `otel-agentic alerts rules` for the objectives and windows of its settings.
"""
_NO_OBJECTIVE: Final = """\
# No objective is configured (slo.objectives), so pass^1 >= 0.9 is used; e-values are emitted for configured ones only.
"""
_DAY: Final = "24h"
_PLACEHOLDER: Final = re.compile(r"%\{(\w+)\}")
#: The group that is repeated for each objective, and the groups that need no time window.
_PER_OBJECTIVE: Final = "agentic-objective-%{number}"
_WITHOUT_WINDOW: Final = frozenset({"agentic-data", "agentic-collector"})
_SPECIAL: Final = frozenset("\\.+*?()|[]{}^$")
#: The items of a character class: a range, or one character.
_CLASS_ITEM: Final = re.compile(r"(.)-(.)|(.)", re.DOTALL)


def rules_text(objectives: Sequence[Objective], widths: Sequence[str], sampled: float = 1.0) -> str:
    """Return a rule file for Prometheus.

    Args:
        objectives: the objectives of agents; without any, the rules are for `DEFAULT_OBJECTIVE`.
        widths: the windows that are emitted; without a time window there are only rules about the data.
        sampled: the lowest share of an agent's conversations that is evaluated, which lowers the expected coverage.
    """
    windows = Windows.of(widths)
    text = files("otel_agentic.telemetry").joinpath("assets/rules.yaml").read_text(encoding="utf-8")
    groups: list[dict[str, Any]] = []
    for group in yaml.safe_load(text)["groups"]:
        if windows is None:
            groups += [group] if group["name"] in _WITHOUT_WINDOW else []
        elif group["name"] == _PER_OBJECTIVE:
            for number, objective in enumerate(objectives or (DEFAULT_OBJECTIVE,), start=1):
                groups.append(_fill(group, {"number": str(number), **_objective_values(objective, windows)}))
        else:
            groups.append(_fill(group, {"main": windows.main, "low_coverage": _number(LOW_COVERAGE * sampled)}))
    head = _HEAD if objectives else _HEAD + _NO_OBJECTIVE
    return head + yaml.dump({"groups": groups}, Dumper=_Dumper, sort_keys=False, width=1000, allow_unicode=True)


def dashboard_text() -> str:
    """Return the Grafana dashboard as JSON that can be imported."""
    return files("otel_agentic.telemetry").joinpath("assets/dashboard.json").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Names of the time windows in rules: one for most rules, and pairs (shorter, longer) for burn rates."""

    main: str
    fast: tuple[str, str] | None = None
    slow: tuple[str, str] | None = None

    @classmethod
    def of(cls, widths: Sequence[str]) -> Windows | None:
        """Return the windows to use among those that are emitted, or None if there is no time window.

        The main window is the day if it is emitted, else the second narrowest one.

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


def _objective_values(objective: Objective, windows: Windows) -> dict[str, str]:
    """Return the values of placeholders in the rules of one objective."""
    values = {
        "main": windows.main,
        "agent": "" if objective.agent == "*" else f",gen_ai_agent_name=~{quoted(glob_to_re2(objective.agent))}",
        "criterion": quoted(objective.criterion),
        "k": str(objective.k),
        "power": "" if objective.k == 1 else f" ^ {objective.k}",
        "target": _number(objective.target),
        "alpha": f"{objective.alpha:g}",
        "evidence": _number(1 / objective.alpha),
        "fast_burn": _number(fast_burn(objective)),
        "objective": quoted(objective.label),
        "label": objective.label,
        "label_template": objective.label.replace("{{", '{{"{{"}}'),  # labels of alerts are templates
    }
    for name, pair in (("fast", windows.fast), ("slow", windows.slow)):
        if pair is not None:
            values |= {f"{name}_short": pair[0], f"{name}_long": pair[1]}
    return values


def fast_burn(objective: Objective) -> float:
    """Return the burn rate that counts as fast: 2, or the midpoint of 1 and the highest possible rate if that is less.

    If every conversation fails, the error budget burns at 1 / (1 - target): at a target of .9, the rate is at most 10.
    """
    highest = 1 / (1 - objective.target)
    return min(_FAST_BURN, (1 + highest) / 2)


def _fill(group: Mapping[str, Any], values: Mapping[str, str]) -> dict[str, Any]:
    """Return a group with its placeholders replaced, without the rules for which a value is missing."""
    rules = [rule for rule in group["rules"] if values.keys() >= set(_PLACEHOLDER.findall(json.dumps(rule)))]
    filled_group: dict[str, Any] = _replace_placeholders({**group, "rules": rules}, values)
    return filled_group


def _replace_placeholders(value: Any, values: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _replace_placeholders(element, values) for key, element in value.items()}
    if isinstance(value, list):
        return [_replace_placeholders(element, values) for element in value]
    return _PLACEHOLDER.sub(lambda match: values[match[1]], value)


def _number(value: float) -> str:
    """Return a number without rounding noise: .1 and not .09999999999999998."""
    return f"{value:.12g}"


def quoted(text: str) -> str:
    r"""Return a text as a PromQL string.

    >>> print(quoted('the "best"'))
    "the \"best\""
    """
    return json.dumps(text, ensure_ascii=False)


def glob_to_re2(glob: str) -> str:
    r"""Return a glob as a regular expression of Prometheus, which is anchored at both ends.

    >>> print(glob_to_re2("a.b-*"), glob_to_re2("v[!12]?"))
    a\.b-.* v[^12].
    """
    parts, remaining = [], glob
    while remaining:
        end = remaining.find("]", 3 if remaining.startswith("[!") else 2) if remaining[0] == "[" else -1
        if end > 0:
            parts.append(_character_class(remaining[1:end]))
            remaining = remaining[end + 1 :]
            continue
        parts.append({"*": ".*", "?": "."}.get(remaining[0]) or _literal(remaining[0]))
        remaining = remaining[1:]
    return "".join(parts)


def _character_class(content: str) -> str:
    negated = content.startswith("!")
    ranges = _CLASS_ITEM.findall(content[1:] if negated else content)
    parts = [
        _escaped(character) if character else f"{_escaped(low)}-{_escaped(high)}"
        for low, high, character in ranges
        if low <= high
    ]
    if not parts:  # ranges that are all empty
        return "." if negated else r"[^\s\S]"
    return f"[{'^' if negated else ''}{''.join(parts)}]"


def _escaped(character: str) -> str:
    return f"\\{character}" if character in "\\[]^-" else character


def _literal(character: str) -> str:
    return f"\\{character}" if character in _SPECIAL else character


class _Dumper(yaml.SafeDumper):
    """Writes multi-line strings as block scalars."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
