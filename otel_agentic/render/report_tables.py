"""A report as tables, printed to a terminal or as Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from otel_agentic.render import corrected_rates
from otel_agentic.render.conversation_table import (
    CONVERSATIONS_TITLE,
    conversation_columns,
    conversation_notes,
    conversation_rows,
)
from otel_agentic.render.notes import metric_advice
from otel_agentic.render.report_notes import (
    KEYS,
    criterion_notes,
    estimates_by_role,
    first_success_notes,
    group_notes,
    key_columns,
    keyed_rows,
    method_notes,
    name_of,
    not_rebuilt_notes,
    objective_notes,
    text_match_notes,
    tier_notes,
    title,
)
from otel_agentic.render.terminal import Column, console, differing_and_shared, fits, print_table, say
from otel_agentic.render.text import NOTHING, interval, markdown, percent, plural, ratio, short

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from otel_agentic.render.report_notes import Group
    from otel_agentic.results.charts import ConversationOutcomes
    from otel_agentic.results.conversations import MetricScoreRow
    from otel_agentic.results.reports import (
        ComparedGroup,
        Comparison,
        GroupKeys,
        Mean,
        MetricSummary,
        Rate,
        Report,
    )

_COIN: Final = 0.5


def difference_title(comparison: Comparison) -> str:
    """Return the title of the table of differences."""
    return f"Difference of {comparison.by} {comparison.b} from {comparison.a}"


def difference_columns(comparison: Comparison) -> list[Column]:
    """Return the columns of the table of differences."""
    rates = [f"{rate}, {role}" for role in ("pooled", "per case") for rate in ("pass@k", "pass^k")]
    columns = [Column(name="k", right=True), *(Column(name=rate, unfolded=True) for rate in rates)]
    return [*key_columns(comparison.groups), *columns]


def difference_rows(comparison: Comparison) -> list[list[Any]]:
    """Return the rows of the table of differences: one for each group and k."""
    return keyed_rows(comparison.groups, _differences)


def _differences(group: ComparedGroup) -> Iterator[list[Any]]:
    for k, differences in group.differences.items():
        sides = [
            (None, None) if side is None else (side.pass_at_k, side.pass_pow_k)
            for side in (differences.pooled, differences.per_case)
        ]
        yield [k, *(difference(rate) for rates in sides for rate in rates)]


def comparison_notes(comparison: Comparison) -> list[str]:
    """Return one line per group: the worse side, its probability and the basis; then the conversations left out."""
    groups, comparison_key = comparison.groups, comparison.by
    lines = [line for group in groups for line in _group_lines(group, comparison, _group_name(group, groups))]
    every_group = [*groups, *comparison.not_compared]
    for missing in comparison.not_compared:
        without = " and ".join(missing.without)
        lines.append(
            f"{_missing_name(missing, every_group)}not compared, because nothing of {comparison_key} {without} was evaluated"
        )
    if comparison.on_both:
        lines.append(f"{plural(comparison.on_both, 'conversation')} on both sides left out")
    return lines


def difference(rate: Rate | None) -> str:
    """Return a difference of ratios with its bounds, all signed.

    >>> from otel_agentic.results.reports import Rate
    >>> difference(Rate(value=-0.42, lower=-0.606, upper=0.2))
    '-.420 [-.606, +.200]'
    """
    if rate is None or rate.value is None:
        return NOTHING
    return f"{_signed(rate.value)} [{_signed(rate.lower)}, {_signed(rate.upper)}]"


def probability(value: float) -> str:
    """Return a probability; only certainty is shown as 0 or 1.

    >>> probability(0.9973), probability(0.99997), probability(0.0001)
    ('.997', '>.999', '<.001')
    """
    if value < 0.0005:  # noqa: PLR2004 — three digits
        return "<.001"
    return ">.999" if value >= 0.9995 else f"{value:.3f}".removeprefix("0")  # noqa: PLR2004 — three digits


def _group_lines(group: ComparedGroup, comparison: Comparison, name: str) -> Iterator[str]:
    a, b = comparison.a, comparison.b
    yield f"{name}{_verdict(a, b, group.probability_worse)}, {_basis(group)}{_single(group)}"
    left_out = group.cases_left_out
    for side, other_side, count in ((a, b, left_out.a), (b, a, left_out.b)):
        if count:
            yield f"{name}left out: {plural(count, 'case')} of {side} that {other_side} has no evaluated attempt of"
    undefined_k = [k for k, rates in group.differences.items() if rates.per_case is None]
    if undefined_k and group.method == "paired":
        yield f"{name}no per-case difference at k={', '.join(undefined_k)}: fewer than two cases have k attempts on both sides"


def _verdict(a: str, b: str, worse: float) -> str:
    """Return which side is worse; neither is named if the sides are practically equal, for example if all passed."""
    chance = probability(max(worse, 1.0 - worse))
    if chance == probability(_COIN):
        return f"{b} is as likely to be better than {a} as to be worse"
    return f"{b} is {'worse' if worse > _COIN else 'better'} than {a} with probability {chance}"


def _single(group: ComparedGroup) -> str:
    """Return the difference of single attempts that the probability is based on, if k = 1 was requested."""
    first = group.differences.get("1")
    if first is None:
        return ""
    return f": pass^1 {difference((first.per_case or first.pooled).pass_pow_k)}"


def _basis(group: ComparedGroup) -> str:
    if group.method == "paired":
        return f"paired over {plural(group.cases, 'case')}"
    counts = group.n
    return f"unpaired, {counts.a:,} and {plural(counts.b, 'conversation')}"


def _group_name(group: GroupKeys, groups: Sequence[GroupKeys]) -> str:
    name = _name(group, groups)
    return f"{name}: " if name else ""


def _missing_name(group: GroupKeys, groups: Sequence[GroupKeys]) -> str:
    """Return the name of a group that is not compared, even if its case, tag or tool is missing."""
    differing, _ = differing_and_shared(groups, KEYS)
    if not differing:
        return ""
    return f"{_name(group, groups) or f'conversations without {differing[-1]}'}: "


def _name(group: GroupKeys, groups: Sequence[GroupKeys]) -> str:
    differing, _ = differing_and_shared(groups, KEYS)
    return " ".join(str(value) for name in differing if (value := getattr(group, name)))


def _signed(value: float | None) -> str:
    if value is None:
        return NOTHING
    text = f"{value:+.3f}"
    return f"{text[0]}1.00" if text[1:] == "1.000" else text[0] + text[2:]


METRICS_TITLE: Final = "Metrics beyond the outcome"
BANDS_TITLE: Final = "Tool scores in bands (conversations): perfect 1.00, good from .75, moderate from .50, poor below"
#: The largest number of groups whose metrics are printed; for more groups, only metrics requested by name are printed.
MOST_GROUPS: Final = 6
_COLUMNS: Final = (
    Column(name="metric", unfolded=True),
    Column(name="score", least=16),
    Column(name="scores", right=True),
    Column(name="good is", unfolded=True, spare=2),
    Column(name="failures", right=True),
    Column(name="not evaluated", least=14, spare=1),
)
_BANDS: Final = ("perfect", "good", "moderate", "poor")
_LABELS: Final = 4
#: Numbers from this value on are printed without decimals.
_LARGE: Final = 1000
_NAME: Final = 40
#: The largest number of metric names in a sentence.
_NAMED: Final = 6
_OURS: Final = "agentic."
_SIGNS: Final = {"s": "{} s", "ms": "{} ms", "{USD}": "${}", "USD": "${}"}


def metrics_of(group: Group, *, every: bool = False) -> list[MetricSummary]:
    """Return the metrics of a group that have a score; with `every`, also those that abstained throughout."""
    return [metric for metric in group.metrics or () if every or metric.n]


def table_of_metrics(groups: Sequence[Group], *, every: bool = False) -> tuple[list[Column], list[list[Any]]]:
    """Return columns and rows of the table of metrics, one row per group and metric.

    Only the first row of a group contains its name. A column without any value is omitted.
    """
    columns = [*key_columns(groups), *_COLUMNS]
    rows = keyed_rows(groups, lambda group: map(_metric_cells, metrics_of(group, every=every)))
    used_columns = [index for index in range(len(columns)) if any(row[index] != NOTHING for row in rows)]
    return [columns[index] for index in used_columns], [[row[index] for index in used_columns] for row in rows]


def table_of_bands(groups: Sequence[Group]) -> tuple[list[Column], list[list[Any]]]:
    """Return columns and rows of tool scores in bands, one row per group and dimension."""

    def cells(group: Group) -> Iterator[list[Any]]:
        for dimension, bands in headline_bands(group).items():
            yield [dimension, *(f"{bands[band]:,}" for band in _BANDS)]

    columns = [Column(name="dimension", unfolded=True), *(Column(name=band, right=True) for band in _BANDS)]
    return [*key_columns(groups), *columns], keyed_rows(groups, cells)


def headline_bands(group: Group) -> dict[str, dict[str, int]]:
    """Return the bands of the weighted dimensions.

    Utilization, which has no default weight, is only shown in details.
    """
    bands = group.tool_bands or {}
    return {dimension: counts for dimension, counts in bands.items() if dimension != "utilization"}


def metric_notes(groups: Sequence[Group], chosen: Sequence[str] | None = None) -> list[str]:
    """Return the notes on the metrics: those not shown, and the command that shows them.

    Args:
        groups: the groups of the report.
        chosen: the metrics that were requested by name; None without a request.
    """
    metrics = [metric for group in groups for metric in group.metrics or ()]
    if chosen:
        return [*not_computed(groups, chosen), *metric_advice(metrics)]
    if len(groups) > MOST_GROUPS and any(metrics_of(group) for group in groups):
        return [
            f"metrics of {plural(len(groups), 'group')} are not shown: --metrics A,B shows some, --format json has all"
        ]
    silent = [f"{', '.join(names)}: {sentence}" for sentence, names in abstained(groups).items()]
    return [*silent, *metric_advice(metrics)]


def abstained(groups: Sequence[Group]) -> dict[str, list[str]]:
    """Return the groups by the sentence about their metrics that had nothing to score."""
    sentence: dict[str, list[str]] = {}
    for group in groups:
        if (silent := _silent(group)) is not None:
            sentence.setdefault(silent, []).append(name_of(group, groups))
    return sentence


def not_computed(groups: Sequence[Group], chosen: Sequence[str]) -> list[str]:
    """Return a sentence about the metrics that were never computed; empty if all were."""
    computed = {metric.name for group in groups for metric in group.metrics or ()}
    missing = [name.removeprefix(_OURS) for name in chosen if name not in computed]
    return [_not_computed(missing)] if missing else []


def _not_computed(names: Sequence[str]) -> str:
    """Return a sentence with the metrics that were never computed, and the command that computes one."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    sentence = ", ".join(names[:_NAMED])
    return f"not computed here: {sentence}{more}; `otel-agentic evaluate --metrics {names[0]}` computes one"


def _silent(group: Group) -> str | None:
    """Return a sentence with the number of metrics that abstained throughout and the reasons; None if no metric did."""
    silent = [metric for metric in group.metrics or () if not metric.n]
    if not silent:
        return None
    reasons = dict.fromkeys(reason for metric in silent for reason in metric.not_evaluated)
    why = f" ({', '.join(reasons)})" if reasons else ""
    sentence = f"{plural(len(silent), 'more metric')} had nothing to score{why}"
    return f"{sentence}; `otel-agentic report --metrics all` shows them"


def shown_name(metric: MetricSummary | MetricScoreRow) -> str:
    """Return the display name of a metric, without the namespace of the built-in metrics.

    >>> from types import SimpleNamespace as Metric
    >>> shown_name(Metric(name="agentic.layers.verdict")), shown_name(Metric(name="politeness"))
    ('layers.verdict', 'politeness')
    """
    return short(str(metric.name).removeprefix(_OURS), _NAME)


def shown_score(metric: MetricSummary) -> str:
    """Return the mean of a metric, or the shares of its labels.

    >>> from types import SimpleNamespace as Metric
    >>> shown_score(Metric(mean=4.25, unit="1", range=[1.0, 5.0], labels={}, n=8))
    '4.25 of 1 to 5'
    >>> shown_score(Metric(mean=None, unit="1", range=[0.0, 1.0], labels={"none": 3, "action": 1}, n=4))
    'none 75%, action 25%'
    """
    shares = ", ".join(label_shares(metric))
    if metric.mean is None:
        return shares or NOTHING
    sentence = shown_value(metric.mean, metric)
    return f"{sentence}: {shares}" if shares else sentence


def label_shares(metric: MetricSummary) -> Iterator[str]:
    """Yield the most frequent labels of a metric, each with its share of the scores."""
    labels = list(metric.labels.items())
    for label, count in labels[:_LABELS]:
        yield f"{short(label, _NAME)} {percent(count / metric.n)}"
    if labels[_LABELS:]:
        yield f"{plural(len(labels[_LABELS:]), 'other label')}"


def shown_value(value: float, metric: MetricSummary | MetricScoreRow, *, scale: bool = True) -> str:
    """Return a value of a metric with its unit.

    >>> from types import SimpleNamespace as Metric
    >>> shown_value(2.5, Metric(unit="s", range=[0.0, None])), shown_value(0.0213, Metric(unit="{USD}", range=[0.0, None]))
    ('2.5 s', '$0.0213')
    >>> shown_value(0.5, Metric(unit="1", range=[0.0, 1.0])), shown_value(1234.0, Metric(unit="{token}", range=[0.0, None]))
    ('.500', '1,234 tokens')
    """
    unit, bounds = metric.unit or "1", metric.range
    if unit == "1" and bounds == [0.0, 1.0]:
        return ratio(value)
    number = _number(value)
    if unit == "1":
        scale_note = f" of {bounds[0]:g} to {bounds[1]:g}" if scale and bounds and None not in bounds else ""
        return f"{number}{scale_note}"
    if unit in _SIGNS:
        return _SIGNS[unit].format(number)
    noun = short(unit.strip("{}"), _NAME)
    return f"{number} {noun}{'' if value == 1 or not unit.startswith('{') else 's'}"


def shown_threshold(metric: MetricSummary) -> str:
    """Return the threshold of a metric as text.

    >>> from types import SimpleNamespace as Metric
    >>> shown_threshold(Metric(threshold=Metric(min=3.0, max=None))), shown_threshold(Metric(threshold=None))
    ('at least 3', '—')
    """
    threshold = metric.threshold
    if threshold is None:
        return NOTHING
    least = "" if threshold.min is None else f"at least {threshold.min:g}"
    most = "" if threshold.max is None else f"at most {threshold.max:g}"
    return ", ".join(filter(None, (least, most)))


def shown_reasons(metric: MetricSummary) -> str:
    """Return the number of missing scores by reason, as text."""
    most = sorted(
        metric.not_evaluated.items(), key=lambda reason_and_count: (-reason_and_count[1], reason_and_count[0])
    )
    return ", ".join(f"{count:,} {reason}" for reason, count in most) or NOTHING


def can_fail(metric: MetricSummary) -> bool:
    """Return whether a metric defines failures."""
    return metric.threshold is not None or bool(metric.failing_labels)


def _metric_cells(metric: MetricSummary) -> list[str]:
    failures = f"{metric.failures:,}" if can_fail(metric) else NOTHING
    return [
        shown_name(metric),
        shown_score(metric),
        f"{metric.n:,}",
        shown_threshold(metric),
        failures,
        shown_reasons(metric),
    ]


def _number(value: float) -> str:
    """Return a number with three significant digits; a large one keeps all of its integer digits.

    >>> _number(1234.5), _number(4.2512), _number(0.02129), _number(-0.0)
    ('1,234', '4.25', '0.0213', '0')
    """
    value += 0.0  # -0 is 0
    return f"{value:,.0f}" if abs(value) >= _LARGE else f"{value:.3g}"


NOTHING_FOUND: Final = "no closed conversations in this selection"
#: The summary omits utilization, which has no default weight; `tools` and `conversations show` include it.
_DIMENSIONS: Final = ("selection", "parameters", "sequence")
_TOOLS_TITLE: Final = "Tool correctness: mean score (conversations)"


@dataclass(frozen=True, slots=True, kw_only=True)
class _TableContent:
    """The columns and rows of a table before it is rendered."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]


def print_report(report: Report, about: str) -> None:
    """Print a report as a table, followed by the notes on its numbers.

    Args:
        report: the report.
        about: the time range of the report, as text.
    """
    out = console()
    groups = report.groups
    if not groups:
        for note in (NOTHING_FOUND, *not_rebuilt_notes(report)):
            say(out, note)
        return
    heading = f"{title(groups)} ({about})"
    layouts = [_reliability(groups, stacked=stacked) for stacked in (False, True)]
    keys = next((layout for layout in layouts if fits(layout.columns, layout.rows, out.width)), None)
    if keys is None:
        _print_blocks(out, groups, heading)
    else:
        print_table(out, keys.columns, keys.rows, heading)
    for title_of_table, table in _other_tables(report):
        click.echo()
        print_table(out, table.columns, table.rows, title_of_table)
    click.echo()
    for note in _report_notes(report):
        say(out, note)
    for note in method_notes(groups):
        say(out, note, style="dim")


def print_requested_metrics(out: Console, report: Report) -> None:
    """Print the metrics that were requested by name, with the notes on those that were not computed."""
    for heading, table in _metrics(report):
        if heading == METRICS_TITLE and table.rows:
            click.echo()
            print_table(out, table.columns, table.rows, heading)
    for note in metric_notes(report.groups, report.metrics_chosen):
        say(out, note)


def print_markdown(report: Report, conversations: ConversationOutcomes, about: str) -> None:
    """Print a report as Markdown: tables, then the notes as a list. See `print_report`."""
    groups = report.groups
    if not groups:
        click.echo(markdown(" ".join([NOTHING_FOUND, *not_rebuilt_notes(report)])))
        return
    lines = [f"## {markdown(title(groups))}", "", f"{markdown(about).capitalize()}.", "", *_pipes(_reliability(groups))]
    for title_of_table, table in _other_tables(report):
        lines += ["", f"### {markdown(title_of_table)}", "", *_pipes(table)]
    table = _TableContent(columns=conversation_columns(conversations), rows=conversation_rows(conversations))
    lines += ["", f"### {markdown(CONVERSATIONS_TITLE)}", "", *_pipes(table)]
    notes = [*conversation_notes(conversations), *_report_notes(report), *method_notes(groups)]
    click.echo("\n".join([*lines, "", *(f"- {markdown(note)}" for note in notes)]))


def _other_tables(report: Report) -> Iterator[tuple[str, _TableContent]]:
    """Yield title and content of each non-empty table below the rates."""
    groups, comparison = report.groups, report.comparison
    tables = [(_TOOLS_TITLE, _tools(_of_first_criterion(report))), *_metrics(report)]
    if comparison is not None:
        differences = _TableContent(columns=difference_columns(comparison), rows=difference_rows(comparison))
        tables.append((difference_title(comparison), differences))
    tables += (
        (heading, _TableContent(columns=columns, rows=rows))
        for heading, columns, rows in (
            (corrected_rates.PARTS_TITLE, *corrected_rates.parts_table(report.criteria)),
            (
                corrected_rates.CORRECTED_TITLE,
                corrected_rates.corrected_columns(groups),
                corrected_rates.corrected_rows(groups),
            ),
            (
                corrected_rates.LABELLED_TITLE,
                corrected_rates.labelled_columns(groups),
                corrected_rates.labelled_rows(groups),
            ),
        )
    )
    yield from ((title, table) for title, table in tables if table.rows)


def _of_first_criterion(report: Report) -> list[Group]:
    """Return the groups of the first criterion: the scores of tools and metrics are the same for all."""
    return [group for group in report.groups if group.criterion == report.criteria[0].name]


def _metrics(report: Report) -> Iterator[tuple[str, _TableContent]]:
    """Yield tool scores in bands, and the other metrics; for many groups, only the requested metrics."""
    groups, chosen = _of_first_criterion(report), report.metrics_chosen
    if len(groups) <= MOST_GROUPS:
        columns, rows = table_of_bands(groups)
        yield BANDS_TITLE, _TableContent(columns=columns, rows=rows)
    if len(groups) <= MOST_GROUPS or chosen:
        columns, rows = table_of_metrics(groups, every=bool(chosen))
        yield METRICS_TITLE, _TableContent(columns=columns, rows=rows)


def _report_notes(report: Report) -> list[str]:
    """Return the notes on the numbers: the comparison first, then the objectives."""
    comparison = report.comparison
    comparison_lines = [] if comparison is None else comparison_notes(comparison)
    sentence = [
        *criterion_notes(report),
        *not_rebuilt_notes(report),
        *text_match_notes(report),
        *comparison_lines,
        *objective_notes(report.objectives or ()),
    ]
    metric_lines = metric_notes(report.groups, report.metrics_chosen)
    correction_lines = [
        *corrected_rates.parts_notes(report.criteria),
        *corrected_rates.corrected_notes(report.groups),
        *corrected_rates.labelled_notes(report.groups),
    ]
    clocks = [f"warning: {row.note}" for row in report.wrong_clocks]
    reuse = [] if report.id_reuse is None else report.id_reuse.notes
    return list(
        dict.fromkeys(
            [
                *sentence,
                *clocks,
                *reuse,
                *tier_notes(report.groups),
                *first_success_notes(report.groups),
                *group_notes(report.groups),
                *metric_lines,
                *correction_lines,
            ]
        )
    )


def _print_blocks(out: Console, groups: Sequence[Group], heading: str) -> None:
    """Print a small table for each group, because the terminal is too narrow for one table of all groups."""
    say(out, heading, style="bold")
    stacked = not all(fits(_estimate_columns(groups), _estimate_rows(group), out.width) for group in groups)
    for group in groups:
        name = f"{name_of(group, groups)}: " if len(groups) > 1 else ""
        coverage = f"coverage {percent(group.coverage)}"
        click.echo()
        say(out, f"{name}{group.c:,} of {group.n:,} correct, {coverage}, {group.tier}")
        print_table(out, _estimate_columns([group], stacked=stacked), _estimate_rows(group, stacked=stacked))


def _reliability(groups: Sequence[Group], *, stacked: bool = False) -> _TableContent:
    """Return a table with one row per group and k; counts, coverage and tier of a group are in its first row.

    Args:
        groups: the groups of the report.
        stacked: whether to print estimates below each other instead of side by side, which takes less than half of the
            width.
    """
    columns = [
        *key_columns(groups),
        Column(name="correct" if any(group.criterion == "correct" for group in groups) else "passed", right=True),
        Column(name="coverage", right=True),
        Column(name="tier", unfolded=True),
        *_estimate_columns(groups, stacked=stacked),
    ]

    def cells(group: Group) -> Iterator[list[Any]]:
        counts = [f"{group.c:,}/{group.n:,}", percent(group.coverage), group.tier]
        for index, estimates in enumerate(_estimate_rows(group, stacked=stacked)):
            yield [*(counts if index == 0 else [""] * len(counts)), *estimates]

    return _TableContent(columns=columns, rows=keyed_rows(groups, cells))


def _estimate_columns(groups: Sequence[Group], *, stacked: bool = False) -> list[Column]:
    """Return the columns of the estimates: pass@k and pass^k, each pooled, per case and by a third estimator."""
    if stacked:
        return [
            Column(name="estimate", unfolded=True),
            Column(name="k", right=True),
            *(Column(name=rate, unfolded=True) for rate in ("pass@k", "pass^k")),
        ]
    estimates = estimates_by_role(groups[0])
    names = [f"{rate}, {role}" for role in estimates for rate in ("pass@k", "pass^k")]
    return [Column(name="k", right=True), *(Column(name=name, unfolded=True) for name in names)]


def _estimate_rows(group: Group, *, stacked: bool = False) -> list[list[str]]:
    estimates = estimates_by_role(group)
    if stacked:
        return [
            [role if index == 0 else "", k, interval(rates.pass_at_k[k]), interval(rates.pass_pow_k[k])]
            for role, rates in estimates.items()
            for index, k in enumerate(rates.pass_at_k)
        ]
    return [
        [k, *(interval(by_k[k]) for rates in estimates.values() for by_k in (rates.pass_at_k, rates.pass_pow_k))]
        for k in group.pooled.pass_at_k
    ]


def _tools(groups: Sequence[Group]) -> _TableContent:
    """Return the table of the mean of each tool dimension that any group has."""
    names, _ = differing_and_shared(groups, KEYS)
    groups_with_tools = [group for group in groups if group.tool_dimensions.keys() & set(_DIMENSIONS)]
    present = [name for name in _DIMENSIONS if any(name in group.tool_dimensions for group in groups_with_tools)]
    rows = [
        [*(getattr(group, name) for name in names), *(_mean(group.tool_dimensions.get(name)) for name in present)]
        for group in groups_with_tools
    ]
    return _TableContent(
        columns=[*key_columns(groups), *(Column(name=name, right=True) for name in present)], rows=rows
    )


def _mean(mean: Mean | None) -> str | None:
    return None if mean is None else f"{ratio(mean.mean)} ({mean.n:,})"


def _pipes(drawn: _TableContent) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    yield f"| {' | '.join(markdown(column.name) for column in drawn.columns)} |"
    yield f"|{'|'.join('---:' if column.right else '---' for column in drawn.columns)}|"
    for row in drawn.rows:
        yield f"| {' | '.join(markdown(value) for value in row)} |"
