"""Two groups against each other, in words and as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_agentic.cli.report_notes import KEYS
from otel_agentic.cli.tables import Column, told_apart
from otel_agentic.cli.text import NOTHING, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_agentic.cli.report_notes import Group

_COIN = 0.5


def difference_title(comparison: dict[str, Any]) -> str:
    """Return what a table of differences is about."""
    return f"Difference of {comparison['by']} {comparison['b']} from {comparison['a']}"


def difference_columns(comparison: dict[str, Any]) -> list[Column]:
    """Return the columns of the table of differences."""
    names, _ = told_apart(comparison["groups"], KEYS)
    named = [Column(name=name.replace("agent_", "")) for name in names]
    rates = [f"{rate}, {role}" for role in ("pooled", "per case") for rate in ("pass@k", "pass^k")]
    return [*named, Column(name="k", right=True), *(Column(name=rate, whole=True) for rate in rates)]


def difference_rows(comparison: dict[str, Any]) -> list[list[Any]]:
    """Return the rows of the table of differences: one for each group and k."""
    names, _ = told_apart(comparison["groups"], KEYS)
    rows = []
    for group in comparison["groups"]:
        whole = [group[name] for name in names]
        for place, (k, found) in enumerate(group["differences"].items()):
            sides = [found[role] for role in ("pooled", "per_case")]
            told = [
                k,
                *(
                    NOTHING if side is None else difference(side[kind])
                    for side in sides
                    for kind in ("pass_at_k", "pass_pow_k")
                ),
            ]
            rows.append([*(whole if place == 0 else [""] * len(whole)), *told])
    return rows


def comparison_notes(comparison: dict[str, Any]) -> list[str]:
    """Return who is worse, with what probability, and what that rests on: a line a group, then what was left out."""
    groups, by = comparison["groups"], comparison["by"]
    lines = [line for group in groups for line in _told(group, comparison, _named(group, groups))]
    told = [*groups, *comparison["not_compared"]]
    for missing in comparison["not_compared"]:
        without = " and ".join(missing["without"])
        lines.append(f"{_missing_name(missing, told)}not compared, for nothing of {by} {without} was evaluated")
    if comparison["on_both"]:
        lines.append(f"{plural(comparison['on_both'], 'conversation')} on both sides left out")
    return lines


def difference(found: dict[str, float | None]) -> str:
    """Return a difference of ratios with its bounds, all signed.

    >>> difference({"value": -0.42, "lower": -0.606, "upper": 0.2})
    '-.420 [-.606, +.200]'
    """
    if found["value"] is None:
        return NOTHING
    return f"{_signed(found['value'])} [{_signed(found['lower'])}, {_signed(found['upper'])}]"


def probability(value: float) -> str:
    """Return a probability; only what is certain is 0 or 1.

    >>> probability(0.9973), probability(0.99997), probability(0.0001)
    ('.997', '>.999', '<.001')
    """
    if value < 0.0005:  # noqa: PLR2004 — three digits
        return "<.001"
    return ">.999" if value >= 0.9995 else f"{value:.3f}".removeprefix("0")  # noqa: PLR2004 — three digits


def _told(group: Group, comparison: dict[str, Any], name: str) -> Iterator[str]:
    a, b = comparison["a"], comparison["b"]
    yield f"{name}{_verdict(a, b, group['probability_worse'])}, {_basis(group)}{_single(group)}"
    left_out = group["cases_left_out"]
    for one, other, count in ((a, b, left_out["a"]), (b, a, left_out["b"])):
        if count:
            yield f"{name}left out: {plural(count, 'case')} of {one} that {other} has no evaluated attempt of"
    undefined = [k for k, found in group["differences"].items() if found["per_case"] is None]
    if undefined and group["method"] == "paired":
        yield f"{name}no per-case difference at k={', '.join(undefined)}: fewer than two cases have k attempts on both sides"


def _verdict(a: str, b: str, worse: float) -> str:
    """Return which side is the worse one; where it is as good as even, as with nothing but passes, neither is named."""
    chance = probability(max(worse, 1.0 - worse))
    if chance == probability(_COIN):
        return f"{b} is as likely to be better than {a} as to be worse"
    return f"{b} is {'worse' if worse > _COIN else 'better'} than {a} with probability {chance}"


def _single(group: Group) -> str:
    """Return the difference of single attempts that the probability rests on, where it is asked for."""
    found = group["differences"].get("1")
    if found is None:
        return ""
    return f": pass^1 {difference((found['per_case'] or found['pooled'])['pass_pow_k'])}"


def _basis(group: Group) -> str:
    if group["method"] == "paired":
        return f"paired over {plural(group['cases'], 'case')}"
    counts = group["n"]
    return f"unpaired, {counts['a']:,} and {plural(counts['b'], 'conversation')}"


def _named(group: Group, groups: Sequence[Group]) -> str:
    name = _name(group, groups)
    return f"{name}: " if name else ""


def _missing_name(group: Group, groups: Sequence[Group]) -> str:
    """Return the name of a group that is not compared; where it is that of no case, tag or tool, it is told so."""
    differing, _ = told_apart(groups, KEYS)
    if not differing:
        return ""
    return f"{_name(group, groups) or f'conversations without {differing[-1]}'}: "


def _name(group: Group, groups: Sequence[Group]) -> str:
    differing, _ = told_apart(groups, KEYS)
    return " ".join(str(group[each]) for each in differing if group[each])


def _signed(value: float | None) -> str:
    if value is None:
        return NOTHING
    text = f"{value:+.3f}"
    return f"{text[0]}1.00" if text[1:] == "1.000" else text[0] + text[2:]
