"""Tables and notes on rates corrected by people's verdicts: those of a judge, and those of a criterion without cases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_agentic.render.report_notes import key_columns, keyed_rows, name_of
from otel_agentic.render.terminal import Column
from otel_agentic.render.text import NOTHING, interval, plural, ratio

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_agentic.render.report_notes import Group
    from otel_agentic.results.reports import CorrectedRates, CriterionPart, CriterionRule, LabelCorrection, LabelRates

CORRECTED_TITLE: Final = "Pass rate, as judged and corrected by people's verdicts"
_WAYS: Final = (
    ("raw", "judge alone (raw)"),
    ("human", "people alone"),
    ("rogan_gladen", "Rogan-Gladen (corrected)"),
    ("ppi", "PPI++ (corrected)"),
)
#: If there are fewer labelled conversations, a note states that the interval is asymptotic.
_FEW: Final = 50


def corrected_columns(groups: Sequence[Group]) -> list[Column]:
    """Return the columns of the table of corrected rates."""
    return [*key_columns(groups), Column(name="pass rate by", unfolded=True), Column(name="rate", unfolded=True)]


def corrected_rows(groups: Sequence[Group]) -> list[list[Any]]:
    """Return four rows for each corrected group: the raw rate, that of people's labels, and two corrected rates."""

    def cells(group: Group) -> list[list[Any]]:
        rates = group.corrected
        return [] if rates is None else [[label, interval(getattr(rates, attribute))] for attribute, label in _WAYS]

    return keyed_rows(groups, cells)


def corrected_notes(groups: Sequence[Group]) -> list[str]:
    """Return notes on the basis of corrected rates, and the reasons why other rates are not corrected."""
    lines = []
    for group in groups:
        if group.corrected is not None:
            lines.append(f"{name_of(group, groups)}: {_basis_of_correction(group.corrected)}")
        elif group.not_corrected:
            lines.append(f"{name_of(group, groups)}: not corrected for the judge's errors: {group.not_corrected}")
    return lines


def _basis_of_correction(corrected: CorrectedRates) -> str:
    ppi, rogan_gladen = corrected.ppi, corrected.rogan_gladen
    basis = f"corrected by {plural(ppi.n_human, 'conversation')} that people labelled, {ppi.n_judge:,} more judged only"
    rates = (
        f" ({ratio(rogan_gladen.judged_rate)} by the judge, which both corrections start from); "
        f"sensitivity {ratio(rogan_gladen.sensitivity)}, specificity {ratio(rogan_gladen.specificity)}"
    )
    asymptotic_note = (
        f"; below {_FEW} labels the PPI++ interval, which is asymptotic, is rough" if ppi.n_human < _FEW else ""
    )
    return f"{basis}{rates}, lambda {ratio(ppi.power)}{asymptotic_note}"


LABELLED_TITLE: Final = "Pass rate, by the criterion and corrected by people's labels"
PARTS_TITLE: Final = "What the criterion consists of (conversations)"


def labelled_columns(groups: Sequence[Group]) -> list[Column]:
    """Return the columns of the table of rates corrected by labels."""
    k = next((list(group.pooled.pass_pow_k) for group in groups if group.label_correction is not None), [])
    rates = ["these conversations", *(f"pass^{count}" for count in k)]
    return [
        *key_columns(groups),
        Column(name="pass rate by", unfolded=True),
        *(Column(name=name, unfolded=True) for name in rates),
    ]


def labelled_rows(groups: Sequence[Group]) -> list[list[Any]]:
    """Return three rows for each corrected group: by the criterion, by the labels alone, and corrected."""

    def cells(group: Group) -> Iterator[list[Any]]:
        correction = group.label_correction
        if correction is None:
            return
        here = ratio(group.c / group.n) if group.n else NOTHING
        yield [f"{group.criterion} alone", here, *map(interval, group.pooled.pass_pow_k.values())]
        for label, rates in (("labels alone", correction.people), ("corrected (PPI++)", correction.corrected)):
            yield [label, *_intervals(rates)]

    return keyed_rows(groups, cells)


def _intervals(rates: LabelRates) -> list[str]:
    return [interval(rates.here), *map(interval, rates.pass_pow_k.values())]


def labelled_notes(groups: Sequence[Group]) -> list[str]:
    """Return notes on the labels of corrected rates, and the reasons why other rates are not corrected."""
    lines: list[str] = []
    for group in groups:
        name = name_of(group, groups)
        if group.label_correction is not None:
            lines += [f"{name}: {note}" for note in _about_labels(group.criterion, group.label_correction)]
        elif group.not_label_corrected and group.n:
            lines.append(
                f"{name}: {group.criterion} is not corrected by people's verdicts: {group.not_label_corrected} (docs/traffic.md)"
            )
    if any(group.label_correction is not None for group in groups):
        lines.append(
            "pass^k corrected by labels: k conversations drawn from this traffic all pass; repetitions of one case have no "
            "correction by labels"
        )
    return lines


def _about_labels(criterion: str, correction: LabelCorrection) -> Iterator[str]:
    yield (
        f"corrected by {plural(correction.labels, 'label')} of {plural(correction.conversations, 'conversation')}; correlation "
        f"with the labels: {criterion} {_correlation(correction.correlation)}, prediction from "
        f"{plural(len(correction.predictors), 'metric')} {_correlation(correction.prediction_correlation)} "
        f"(lambda {ratio(correction.power)})"
    )
    if not correction.random_sample:
        yield (
            "warning: the labels are not marked as a random sample: if conversations were chosen because they looked wrong, "
            "or right, the corrected rate is wrong, too; `label --random-sample` marks drawn ones"
        )
    if correction.not_used:
        yield (
            f"{plural(correction.not_used, 'label')} not used: outside of the random sample, or about an older revision of "
            "the conversation"
        )


def _correlation(value: float | None) -> str:
    return "undefined (one of them does not vary)" if value is None else f"{value:+.2f}".replace("0.", ".", 1)


def parts_table(rules: Sequence[CriterionRule]) -> tuple[list[Column], list[list[Any]]]:
    """Return the conditions of criteria that have several, with the conversations that have and that fail each."""
    columns = [
        Column(name="condition", unfolded=True),
        Column(name="known", right=True),
        Column(name="failed", right=True),
        Column(name="by this alone", right=True),
        Column(name="no value", spare=1),
    ]
    rows = [
        [
            part.condition.removesuffix(" if known"),
            f"{part.known:,}",
            f"{part.failed:,}" if part.known else NOTHING,
            f"{part.failed_alone:,}" if part.known else NOTHING,
            ", ".join(f"{count:,} {_reason(reason, part)}" for reason, count in part.missing.items()) or NOTHING,
        ]
        for rule in rules
        if len(rule.parts) > 1
        for part in rule.parts
    ]
    return columns, rows


def _reason(reason: str, part: CriterionPart) -> str:
    """Return a reason; a metric that was computed has no score where it does not apply."""
    return "no score" if reason == "not_scored" and part.known else reason


def parts_notes(rules: Sequence[CriterionRule]) -> list[str]:
    """Return the command that computes conditions without any score, and the shares of conversations that have one."""
    lines = []
    for rule in rules:
        absent = sorted({part.metric for part in rule.parts if not part.known and set(part.missing) == {"not_scored"}})
        if absent and len(absent) < len(rule.parts):
            lines.append(
                f"{rule.name}: {', '.join(absent)} never computed here, so {_decides(len(absent))} nothing; "
                f"`otel-agentic evaluate --metrics {','.join(absent)}` computes {'it' if len(absent) == 1 else 'them'}"
            )
    return lines


def _decides(count: int) -> str:
    return "it decides" if count == 1 else "they decide"
