"""Conditions of a gate as flags say them."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final

import orjson

from otel_agentic.errors import BadInputError, UsageError
from otel_agentic.regular_files import read_regular

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_THRESHOLD: Final = re.compile(r"([^<>=]+)(>=|<=|=)([^<>=]+)")
_K: Final = re.compile(r"0*[1-9][0-9]{0,5}")
_ENDS: Final = {">=": "min", "<=": "max"}


def by_k(given: Sequence[str], flag: str) -> dict[str, float]:
    """Return ratios by k.

    Raises:
        UsageError: one is not K=V with a whole number of at least 1 and a ratio.

    >>> by_k(["3=0.7", "1=.9,5=0.5"], "--min-pass-pow-k")
    {'3': 0.7, '1': 0.9, '5': 0.5}
    """
    found = {}
    for part in (part.strip() for text in given for part in text.split(",")):
        k, equals, value = (each.strip() for each in part.partition("="))
        ratio = _number(value)
        if not equals or not _K.fullmatch(k) or ratio is None or not 0.0 <= ratio <= 1.0:
            raise UsageError(
                f"{flag} {part!r}: give K=V, a whole number from 1 to 999999 and a ratio from 0 to 1, such as 3=0.7"
            )
        found[str(int(k))] = ratio
    return found


def thresholds_of(given: Sequence[str]) -> dict[str, Any]:
    """Return limits of metrics: a number where the metric says on which side it lies, else `min` and `max`.

    Raises:
        UsageError: one is not METRIC=V, METRIC>=V or METRIC<=V.

    >>> thresholds_of(["helpfulness=3.5", "latency>=1", "latency<=20"])
    {'helpfulness': 3.5, 'latency': {'min': 1.0, 'max': 20.0}}
    """
    found: dict[str, Any] = {}
    for text in given:
        parts = _THRESHOLD.fullmatch(text.strip())
        value = _number(parts[3]) if parts else None
        if parts is None or value is None:
            raise UsageError(
                f"--threshold {text!r}: give METRIC=V, or 'METRIC>=V' or 'METRIC<=V' in quotes, such as helpfulness=3.5"
            )
        name, sign = parts[1].strip(), parts[2]
        if sign == "=":
            found[name] = value
        else:
            before = found.get(name)
            found[name] = {**(before if isinstance(before, dict) else {}), _ENDS[sign]: value}
    return found


def regressions_of(given: Sequence[str]) -> dict[str, Any]:
    """Return what is compared with a baseline, and how much worse it may be.

    Raises:
        UsageError: how much worse is not a number of at least 0.

    >>> regressions_of(["success", "pass^3=0.05"])
    {'success': 'chance', 'pass^3': 0.05}
    """
    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = (each.strip() for each in text.partition("="))
        drop = _number(value)
        if not name or (equals and (drop is None or drop < 0.0)):
            raise UsageError(
                f"--max-regression {text!r}: give WHAT, or WHAT=V with a number of at least 0, such as success or pass^3=0.05"
            )
        found[name] = drop if equals else "chance"
    return found


def allowed_of(given: Sequence[str]) -> list[str]:
    """Return the names that may have no data; several may stand in one, with commas."""
    return [name for text in given for name in (each.strip() for each in text.split(",")) if name]


def json_file(path: Path) -> Any:
    """Return what a JSON file holds.

    Raises:
        BadInputError: it cannot be read, or is not JSON.
    """
    try:
        return orjson.loads(read_regular(path))
    except OSError as error:
        raise BadInputError(
            f"baseline file {path}: {error.strerror}; `otel-agentic gate --save-baseline {path}` makes one"
        ) from error
    except orjson.JSONDecodeError as error:
        raise BadInputError(f"baseline file {path} is not JSON: {error}") from error


def _number(text: str) -> float | None:
    """Return a finite number, None where it is none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
