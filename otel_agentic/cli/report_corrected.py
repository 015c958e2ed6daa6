"""Pass rates as the judge has them, beside the same corrected by people's verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_agentic.cli.report_notes import KEYS, name_of
from otel_agentic.cli.tables import Column, text, told_apart
from otel_agentic.cli.text import interval, plural, ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.cli.report_notes import Group

CORRECTED_TITLE: Final = "Pass rate, as judged and corrected by people's verdicts"
_WAYS: Final = (
    ("raw", "judge alone (raw)"),
    ("human", "people alone"),
    ("rogan_gladen", "Rogan-Gladen (corrected)"),
    ("ppi", "PPI++ (corrected)"),
)
#: With fewer labelled conversations the asymptotic interval is told to be one.
_FEW: Final = 50


def corrected_columns(groups: Sequence[Group]) -> list[Column]:
    """Return the columns of the table of corrected rates."""
    names, _ = told_apart(groups, KEYS)
    named = text(*(name.replace("agent_", "") for name in names))
    return [*named, Column(name="pass rate by", whole=True), Column(name="rate", whole=True)]


def corrected_rows(groups: Sequence[Group]) -> list[list[Any]]:
    """Return four rows for each group that was corrected: raw, people's, and corrected in two ways."""
    names, _ = told_apart(groups, KEYS)
    rows: list[list[Any]] = []
    for group in groups:
        found = group.get("corrected")
        if found is not None:
            whole = [group[name] for name in names]
            for place, (way, told) in enumerate(_WAYS):
                rows.append([*(whole if place == 0 else [""] * len(whole)), told, interval(found[way])])
    return rows


def corrected_notes(groups: Sequence[Group]) -> list[str]:
    """Return what corrected rates rest on, and why others are not corrected."""
    lines = []
    for group in groups:
        if group.get("corrected") is not None:
            lines.append(f"{name_of(group, groups)}: {_rests_on(group['corrected'])}")
        elif group.get("not_corrected"):
            lines.append(f"{name_of(group, groups)}: not corrected for the judge's errors: {group['not_corrected']}")
    return lines


def _rests_on(found: dict[str, Any]) -> str:
    ppi, other = found["ppi"], found["rogan_gladen"]
    told = f"corrected by {plural(ppi['n_human'], 'conversation')} that people labelled, {ppi['n_judge']:,} more judged only"
    rates = (
        f" ({ratio(other['judged_rate'])} by the judge, which both corrections start from); "
        f"sensitivity {ratio(other['sensitivity'])}, specificity {ratio(other['specificity'])}"
    )
    few = f"; below {_FEW} labels the PPI++ interval, which is asymptotic, is rough" if ppi["n_human"] < _FEW else ""
    return f"{told}{rates}, lambda {ratio(ppi['lambda'])}{few}"
