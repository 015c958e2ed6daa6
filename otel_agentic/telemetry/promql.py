"""PromQL over our own metrics: selectors from attributes, never a name written twice."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from otel_agentic.telemetry import names
from otel_agentic.telemetry.prometheus import label_name, series_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_agentic.telemetry.names import Instrument

#: The labels that say which group a series is about.
GROUP_LABELS: Final = tuple(
    map(
        label_name,
        (
            names.GEN_AI_AGENT_NAME,
            names.GEN_AI_AGENT_VERSION,
            names.DEPLOYMENT_ENVIRONMENT_NAME,
            names.SUBJECT_SERVICE_NAME,
            names.CASE_TAG,
        ),
    )
)
_SPECIAL: Final = frozenset("\\.+*?()|[]{}^$")
#: What a character class lists: a range, or one character.
_LISTED: Final = re.compile(r"(.)-(.)|(.)", re.DOTALL)


def selector(
    instrument: Instrument,
    equal: Mapping[str, str | int] | None = None,
    *,
    unlike: Mapping[str, str | int] | None = None,
    agent: str = "*",
) -> str:
    """Return the selector of a metric that is one series a point.

    Args:
        instrument: no histogram.
        equal: attributes that must have these values,
        unlike: and those that must not.
        agent: name or glob of the agent.

    >>> from otel_agentic.telemetry import names
    >>> selector(names.COVERAGE, {names.WINDOW: "24h"}, agent="travel-*")
    'agentic_coverage_ratio{agentic_window="24h",gen_ai_agent_name=~"travel-.*"}'
    """
    (series,) = series_names(instrument)
    return series + matchers(equal, unlike=unlike, agent=agent)


def matchers(
    equal: Mapping[str, str | int] | None = None,
    *,
    unlike: Mapping[str, str | int] | None = None,
    agent: str = "*",
) -> str:
    """Return matchers in braces, nothing where there are none; see `selector`."""
    found = [f"{label_name(name)}={quoted(str(value))}" for name, value in (equal or {}).items()]
    found += [f"{label_name(name)}!={quoted(str(value))}" for name, value in (unlike or {}).items()]
    if agent != "*":
        found.append(f"{label_name(names.GEN_AI_AGENT_NAME)}=~{quoted(glob_to_re2(agent))}")
    return f"{{{','.join(found)}}}" if found else ""


def quoted(text: str) -> str:
    r"""Return a text as PromQL writes it.

    >>> print(quoted('the "best"'))
    "the \"best\""
    """
    return json.dumps(text, ensure_ascii=False)


def glob_to_re2(glob: str) -> str:
    r"""Return a glob as the regular expression of Prometheus, which matches whole values.

    >>> print(glob_to_re2("a.b-*"), glob_to_re2("v[!12]?"))
    a\.b-.* v[^12].
    """
    parts, rest = [], glob
    while rest:
        end = rest.find("]", 3 if rest.startswith("[!") else 2) if rest[0] == "[" else -1
        if end > 0:
            parts.append(_character_class(rest[1:end]))
            rest = rest[end + 1 :]
            continue
        parts.append({"*": ".*", "?": "."}.get(rest[0]) or _literal(rest[0]))
        rest = rest[1:]
    return "".join(parts)


def _character_class(content: str) -> str:
    negated = content.startswith("!")
    listed = _LISTED.findall(content[1:] if negated else content)
    parts = [_escaped(one) if one else f"{_escaped(low)}-{_escaped(high)}" for low, high, one in listed if low <= high]
    if not parts:  # ranges that are all empty
        return "." if negated else r"[^\s\S]"
    return f"[{'^' if negated else ''}{''.join(parts)}]"


def _escaped(character: str) -> str:
    return f"\\{character}" if character in "\\[]^-" else character


def _literal(character: str) -> str:
    return f"\\{character}" if character in _SPECIAL else character
