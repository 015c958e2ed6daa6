"""What a gate found, in words: the cells of its table, and the lines around it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_agentic.cli.advice import advice
from otel_agentic.cli.report_compare import difference
from otel_agentic.cli.text import NOTHING, moment, plural, printable, ratio

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Row = dict[str, Any]

#: Conditions whose values are ratios; so are `pass^k` and `pass@k`.
_RATIOS: Final = ("success", "coverage")
_NAMES: Final = {"n": "evaluated"}
#: Digits of a ratio, and the most that are shown to tell it from its limit.
_DIGITS: Final = range(3, 10)


def condition_of(row: Row) -> str:
    """Return what is looked at.

    >>> condition_of({"condition": "severity", "kind": "severity", "label": "critical"})
    'failures, critical'
    """
    if row["kind"] == "severity":
        return f"failures, {row['label']}"
    name = str(row["condition"]).removeprefix("agentic.")
    return f"{name} against baseline" if row["kind"] == "regression" else _NAMES.get(name, name)


def wanted_of(row: Row) -> str:
    """Return what is wanted of it.

    >>> wanted_of({"condition": "pass^3", "kind": "rate", "operator": ">=", "limit": 0.7})
    '>= .700'
    """
    wanted, operator = row["limit"], row["operator"]
    if wanted == "chance":
        return "not worse"
    if operator == "in":
        return str(wanted)
    if row["kind"] == "severity":
        return "0"
    if row["kind"] == "regression" and is_ratio(row):
        return f"drop <= {ratio(abs(wanted))}"
    if row["kind"] == "regression":
        return f"change {operator} {_signed(wanted)}"
    return f"{operator} {ratio(wanted) if is_ratio(row) else _plain(wanted)}"


def found_of(row: Row) -> str:
    """Return what was found, with its interval where it has one."""
    value, lower, upper = row["value"], row["lower"], row["upper"]
    if row["kind"] == "tier" and row["label"]:
        return str(row["label"])
    if value is None:
        return NOTHING
    if row["kind"] == "regression":
        ends = {"value": value, "lower": lower, "upper": upper}
        if is_ratio(row):
            return difference(ends)
        return _signed(value) if lower is None else f"{_signed(value)} [{_signed(lower)}, {_signed(upper)}]"
    if not is_ratio(row):
        return _plain(value)
    told = [_apart(each, row["limit"]) for each in (value, lower, upper) if each is not None]
    return f"{told[0]} [{told[1]}, {told[2]}]" if len(told) > 1 else told[0]


def verdict_of(row: Row) -> str:
    """Return pass, fail or no data."""
    if row["verdict"] != "no_data":
        return str(row["verdict"])
    return "no data, allowed" if row["allowed"] else "no data"


def is_ratio(row: Row) -> bool:
    """Return whether its values are ratios."""
    return row["condition"] in _RATIOS or str(row["condition"]).startswith(("pass^", "pass@"))


def stops(row: Row) -> bool:
    """Return whether the gate fails by it."""
    return row["verdict"] == "fail" or (row["verdict"] == "no_data" and not row["allowed"])


def sentence_of(row: Row, rows: Sequence[Row]) -> str:
    """Return one row as a line: whose, what, wanted, found, why."""
    whose = f"{row['agent'] or 'unknown agent'}: " if several(rows) else ""
    found = f"{found_of(row)}, " if row["value"] is not None or row["label"] else ""
    found = "" if row["verdict"] == "no_data" else found
    told = f"{whose}{condition_of(row)} {wanted_of(row)}: {verdict_of(row)}, {found}{row['reason']}"
    return printable(" ".join(told.split()))


def several(rows: Sequence[Row]) -> bool:
    """Return whether the rows are of several agents."""
    return len({row["agent"] for row in rows}) > 1


def headline(found: dict[str, Any]) -> str:
    """Return the verdict on the whole."""
    rows = found["rows"]
    failed = [row for row in rows if stops(row)]
    without = sum(row["verdict"] == "no_data" for row in failed)
    agents = _whose(found["agents"])
    if failed:
        want = f", {without:,} for want of data" if without else ""
        return f"gate failed: {len(failed):,} of {plural(len(rows), 'condition')}{agents} {_do(len(failed))} not hold{want}"
    allowed = sum(row["allowed"] for row in rows)
    rest = f"; {allowed:,} without data, which is allowed" if allowed else ""
    return f"gate passed: {plural(len(rows) - allowed, 'condition')}{agents} {'holds' if len(rows) - allowed == 1 else 'hold'}{rest}"


def notes_of(found: dict[str, Any]) -> list[str]:
    """Return what is to be known of it, and what to do."""
    told = [*_method(found), *(str(note) for note in found["notes"])]
    base = found["baseline"]
    if base:
        many = plural(base["conversations"], "conversation")
        told.insert(0, f"baseline {base['name']}: {many}, saved {moment(base['saved_at'])} UTC")
    if any(row["verdict"] == "no_data" and not row["allowed"] for row in found["rows"]):
        told += advice(found["not_evaluated"])
        told.append("a condition without data fails; --allow-no-data NAME lets it pass")
    if found["saved_baseline"]:
        told.append(f"baseline {found['saved_baseline']} saved: {plural(found['conversations'], 'conversation')}")
    elif found["asked_to_save"]:
        told.append(f"baseline {found['asked_to_save']} not saved: the gate failed")
    return told


def _method(found: dict[str, Any]) -> Iterator[str]:
    """Yield how rates were estimated, and what their intervals are."""
    names = sorted({row["estimator"] for row in found["rows"] if row["estimator"]})
    exact = any(row["interval"] == "clopper_pearson_effective_n" for row in found["rows"])
    if names:
        yield f"pass^k and pass@k by {' and '.join(names)}, as in a report"
    if exact:
        yield f"{found['level'] * 100:g} % intervals of Clopper and Pearson; attempts of one case may go alike, and weigh less"


def _whose(agents: Sequence[str | None]) -> str:
    if len(agents) == 1:
        return f" of {' '.join(printable(agents[0] or 'an unknown agent').split())}"
    return f" of {plural(len(agents), 'agent')}" if agents else ""


def _do(count: int) -> str:
    return "does" if count == 1 else "do"


def _plain(value: float) -> str:
    return f"{int(value):,}" if float(value).is_integer() else f"{value:.4g}"


def _signed(value: float) -> str:
    return f"{value:+.4g}"


def _apart(value: float, limit: Any) -> str:
    """Return a ratio with so many digits that it is seen on which side of its limit it lies."""
    if not isinstance(limit, int | float) or value == limit:
        return ratio(value)
    digits = next((each for each in _DIGITS if round(value, each) != round(limit, each)), _DIGITS[-1])
    return ratio(value) if digits == _DIGITS[0] else f"{value:.{digits}f}".removeprefix("0")
