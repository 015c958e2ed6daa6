"""`otel-agentic judge`: agreement of a judge with human labels, its cache and its cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from otel_agentic.cli.errors import INTERRUPTED
from otel_agentic.cli.help import HelpfulGroup
from otel_agentic.cli.options import (
    FILE,
    Target,
    format_option,
    present,
    require_own_file,
    target_options,
    texts_of,
    time_ns,
)
from otel_agentic.cli.progress import progress_bar
from otel_agentic.cli.truth.annotations import agreement_lines
from otel_agentic.errors import UsageError
from otel_agentic.render.notes import judge_notes
from otel_agentic.render.terminal import Column, console, fixed, numbers, print_result, print_table, say, text
from otel_agentic.render.text import NOTHING, interval, moment, percent, plural, ratio, short
from otel_agentic.results.evaluation import (
    BudgetUse,
    CachedJudge,
    Calibration,
    Cleared,
    Confusion,
    CurvePoint,
    Decider,
    Disagreement,
    Drift,
    FrozenAnchors,
    JudgeCache,
    MetricCalibration,
    TargetCalibration,
)

if TYPE_CHECKING:
    from rich.console import Console

_MEANING: Final = {
    "agreement": "share of equal verdicts",
    "kappa": "agreement beyond chance (1 perfect, 0 chance)",
    "sensitivity": "share of human passes scored as a pass",
    "specificity": "share of human failures scored as a fail",
}
#: The largest number of thresholds printed; JSON contains all.
_THRESHOLDS: Final = 12
_TEXT: Final = 160
#: The largest number of changed verdicts printed; JSON contains all.
_FLIPS: Final = 10
_TEXTS: Final = {
    "query": Column(name="query", least=20, spare=2),
    "expected": Column(name="expected", least=20),
    "answer": Column(name="answer", least=20),
    "reasoning": Column(name="reasons", least=24, spare=1),
}


def print_target(out: Console, target: str, calibration: TargetCalibration) -> None:
    """Print the agreement of the judge with human labels on turns, or on conversations."""
    if not calibration.n:
        say(out, f"no {target} was compared")
        for line in _notes(target, calibration):
            say(out, line)
        return
    rows = [(name, interval(getattr(calibration, name)), description) for name, description in _MEANING.items()]
    columns = [
        *fixed("", f"{calibration.level:.0%} interval"),
        *text("meaning"),
    ]
    print_table(out, columns, rows, f"On {plural(calibration.n, target)} ({calibration.interval_method} intervals)")
    click.echo()
    _print_deciders(out, target, calibration.deciders)
    _print_confusion(out, calibration.confusion)
    click.echo()
    for line in _notes(target, calibration):
        say(out, line)
    if len(calibration.curve) > 1:
        click.echo()
        _print_curve(out, calibration)
    for human in ("fail", "pass"):
        _print_examples(out, target, [example for example in calibration.examples if example.human == human])
    if calibration.warnings:
        click.echo()
    for warning in calibration.warnings:
        say(out, f"warning: {warning}", style="yellow")


def _print_deciders(out: Console, target: str, deciders: Sequence[Decider]) -> None:
    """Print the decisions of each judge, and those without a judge, whose agreement does not measure a judge."""
    if not deciders:
        return
    rows = [
        (
            "no judge (tool calls, outputs, missing turns)"
            if decider.judge is None
            else f"{decider.judge} {decider.version}",
            f"{decider.n:,}",
            f"{decider.unsure:,}" if decider.judge is not None else "",
            *(interval(rate) if decider.n else "" for rate in (decider.agreement, decider.kappa)),
        )
        for decider in deciders
    ]
    columns = [
        *text("decided by"),
        *numbers(f"{target}s", "unsure"),
        *fixed("agreement", "kappa"),
    ]
    print_table(out, columns, rows)
    click.echo()


def _print_confusion(out: Console, counts: Confusion) -> None:
    columns = [
        Column(name="people", unfolded=True),
        *numbers("scored pass", "scored fail"),
    ]
    rows = [
        ("pass", f"{counts.both_pass:,}", f"{counts.false_fail:,}"),
        ("fail", f"{counts.false_pass:,}", f"{counts.both_fail:,}"),
    ]
    print_table(out, columns, rows)


def _notes(target: str, calibration: TargetCalibration) -> Iterator[str]:
    reasons = calibration.not_judged
    if reasons:
        counts = ", ".join(f"{count:,} {reason}" for reason, count in reasons.items())
        yield f"labelled, but not judged and not counted: {counts}"
    best = calibration.best_threshold
    if best is not None:
        yield (
            f"best threshold on these labels: {best.threshold:g} (agreement {percent(best.agreement)}); active: "
            f"{calibration.threshold:g}; it is chosen and measured on the same labels, so expect less agreement on others"
        )
    if len(calibration.curve) > 1 and calibration.curve_n < calibration.n:
        excluded = calibration.n - calibration.curve_n
        yield f"{plural(excluded, target)} not decided by answers: excluded from the thresholds"


def _print_curve(out: Console, calibration: TargetCalibration) -> None:
    best = calibration.best_threshold
    points = _thinned(calibration.curve, None if best is None else best.threshold)
    rows = [
        (
            f"{point.threshold:g}",
            ratio(point.agreement),
            ratio(point.sensitivity),
            ratio(point.specificity),
            ratio(point.youden),
            "best" if best is not None and point.threshold == best.threshold else "",
        )
        for point in points
    ]
    columns = [
        Column(name=name, right=True) for name in ("threshold", "agreement", "sensitivity", "specificity", "Youden")
    ]
    print_table(out, [*columns, Column(name="", unfolded=True)], rows)


def _thinned(curve: Sequence[CurvePoint], best: float | None) -> list[CurvePoint]:
    """Return a readable number of points of a curve, evenly spaced, including the one with the best threshold."""
    if len(curve) <= _THRESHOLDS:
        return list(curve)
    indices = {round(step * (len(curve) - 1) / (_THRESHOLDS - 1)) for step in range(_THRESHOLDS)}
    return [point for index, point in enumerate(curve) if index in indices or point.threshold == best]


def _print_examples(out: Console, target: str, examples: Sequence[Disagreement]) -> None:
    """Print disagreements of one kind, without empty columns."""
    if not examples:
        return
    verdict = (
        "Scored as a pass, failed by people" if examples[0].human == "fail" else "Scored as a fail, passed by people"
    )
    texts = {
        name: [short(getattr(example, name), _TEXT) for example in examples]
        for name in _TEXTS
        if any(getattr(example, name) for example in examples)
    }
    numeric = [
        *([("turn", [example.turn for example in examples])] if target == "turn" else []),
        *(
            [("score", [ratio(example.score) for example in examples])]
            if any(example.score is not None for example in examples)
            else []
        ),
    ]
    columns = [
        Column(name="conversation", unfolded=True),
        *(Column(name=name, right=True) for name, _ in numeric),
        *(_TEXTS[name] for name in texts),
    ]
    cells = [[example.conversation_id for example in examples], *(values for _, values in numeric), *texts.values()]
    click.echo()
    print_table(out, columns, list(zip(*cells, strict=True)), verdict)


_CALIBRATE_HELP: Final = """Compare the verdicts of a judge with human labels: on answers, on outcomes of conversations, and in metrics.

Stored scores are used; missing scores of answers are judged now, from the cache if possible, within the budget. The result
is stored and reported next to every rate that depends on the judge.

\b
Examples:
  otel-agentic judge calibrate
  otel-agentic judge calibrate --labels human.csv --random-sample
  otel-agentic judge calibrate --metric agentest.helpfulness
"""
_DRIFT_HELP: Final = """Judge a frozen set of annotated answers and scores again, and compare the verdicts.

--freeze stores the anchor set: what people annotated, with the verdict of the judge. Without it, the judge is asked about
each anchor again, within the budget and without its cache; scores do not change. The exact McNemar test shows whether it passes
more or less than before, and whether it agrees more or less with people.

\b
Examples:
  otel-agentic judge drift --freeze
  otel-agentic judge drift --judge langchain:openai:gpt-5-mini --fail-on-drift
"""
_JUDGE_HELP: Final = "The judge, by plug-in name as for `evaluate`. Default: the configured judge."


@click.group(cls=HelpfulGroup)
def judge() -> None:
    """Compare a judge with human labels, and manage its cache and cost."""


@judge.command(help=_CALIBRATE_HELP, short_help="Compare the verdicts of a judge with human labels.")
@target_options
@click.option(
    "--labels",
    multiple=True,
    type=FILE,
    help="A CSV of human verdicts: conversation_id[,turn][,verdict|reward][,environment]. Turns count from 1; a row "
    "without a turn applies to the whole conversation. Default: what people annotated with `otel-agentic label`.",
)
@click.option(
    "--metric",
    "metrics",
    metavar="NAME",
    multiple=True,
    help="Only this metric, or answer (of turns) or correct (outcomes of conversations); repeatable. Default: everything "
    "that people annotated.",
)
@click.option("--judge", "name", metavar="NAME", help=_JUDGE_HELP)
@click.option(
    "--random-sample",
    is_flag=True,
    help="The labelled conversations are a random sample: use them to correct rates.",
)
@click.option(
    "--examples",
    metavar="N",
    type=click.IntRange(min=0),
    default=5,
    show_default=True,
    help="Show at most N disagreements of each kind.",
)
@format_option
def calibrate(
    target: Target,
    labels: tuple[Path, ...],
    metrics: tuple[str, ...],
    name: str | None,
    random_sample: bool,
    examples: int,
    output: str,
) -> int:
    """Compare the verdicts of a judge with human labels."""
    scoring = present(judge=name)
    with progress_bar(quiet=False) as progress, target.open(progress, scoring=scoring) as client:
        require_own_file(client, "judge calibrate", scoring)
        calibration = client.get(
            Calibration,
            "judge_calibrate",
            labels=texts_of(labels, "labels"),
            random_sample=random_sample,
            examples=examples,
            metrics=list(metrics) or None,
        )
    print_result(calibration, output, _print_calibration)
    return INTERRUPTED if calibration.stopped else 0


@judge.command(help=_DRIFT_HELP, short_help="Compare the judge now with its verdicts at an earlier time.")
@target_options
@click.option("--freeze", is_flag=True, help="Store the current verdicts on everything that people annotated.")
@click.option(
    "--metric", "metrics", metavar="NAME", multiple=True, help="Only answer, or this metric; repeatable. Default: all."
)
@click.option("--judge", "name", metavar="NAME", help=_JUDGE_HELP)
@click.option("--fail-on-drift", is_flag=True, help="Exit with code 1 if the judge has drifted.")
@format_option
def drift(
    target: Target, metrics: tuple[str, ...], name: str | None, output: str, *, freeze: bool, fail_on_drift: bool
) -> int:
    """Judge a frozen set of annotated answers and scores again, and compare the verdicts."""
    if freeze and fail_on_drift:
        raise UsageError("--freeze stores the verdicts and compares nothing: leave out --fail-on-drift")
    scoring = present(judge=name)
    with progress_bar(quiet=False) as progress, target.open(progress, scoring=scoring) as client:
        require_own_file(client, "judge drift", scoring)
        if freeze:
            frozen = client.get(FrozenAnchors, "judge_freeze", metrics=list(metrics) or None)
            print_result(frozen, output, _print_frozen)
            return 0
        result = client.get(Drift, "judge_drift", metrics=list(metrics) or None)
    print_result(result, output, _print_drift)
    if result.stopped:
        return INTERRUPTED
    return int(result.drifted and fail_on_drift)


def _print_frozen(frozen: FrozenAnchors) -> None:
    out = console()
    for name, count in frozen.anchors.items():
        say(out, f"{name.removeprefix('agentic.')}: {plural(count, 'anchor')} frozen")
    if frozen.left_out:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in frozen.left_out.items())
        say(out, f"annotated, but without a verdict of the judge: {reasons}")


def _print_drift(drift: Drift) -> None:
    out = console()
    if drift.stopped:
        say(out, "stopped: not all anchors were judged again")
    now = drift.judge_now
    say(
        out,
        f"Judge {now.name}, version {now.version}, compared with {'; '.join(drift.judges_before)} of {moment(drift.frozen_at)}",
    )
    columns = [
        Column(name="name", least=16),
        *numbers("n"),
        *fixed("agreement then", "now"),
        *numbers("to pass", "to fail"),
        *fixed("p (verdicts)", "p (agreement)"),
    ]
    rows = [
        (
            item.name.removeprefix("agentic."),
            f"{item.n:,}",
            ratio(item.agreement_before),
            ratio(item.agreement_now),
            f"{item.to_pass:,}",
            f"{item.to_fail:,}",
            ratio(item.p_verdicts),
            ratio(item.p_agreement),
        )
        for item in drift.anchors
    ]
    print_table(out, columns, rows)
    for item in drift.anchors:
        say(out, f"{item.name.removeprefix('agentic.')}: {item.verdict}", style="yellow" if item.drifted else None)
        if item.not_judged:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in item.not_judged.items())
            say(out, f"{item.name.removeprefix('agentic.')}: without a verdict now: {reasons}")
    for line in judge_notes(now):
        say(out, line)
    for flip in drift.flips[:_FLIPS]:
        turn = "" if flip.turn is None else f" turn {flip.turn}"
        say(
            out,
            f"{flip.conversation_id}{turn}: {flip.before} -> {flip.now} (people: {flip.human}) {short(flip.reasoning or '', _TEXT)}",
        )


@judge.command(short_help="Show cached verdicts and their cost, or clear the cache.")
@target_options
@click.option(
    "--clear",
    is_flag=True,
    help="Delete cached verdicts, so that the judge is asked again. Spent budget stays counted.",
)
@click.option("--judge", "name", metavar="NAME", help="With --clear: only verdicts of this judge.")
@click.option(
    "--before", metavar="TIME", help="With --clear: only verdicts before this time, ISO 8601 or an age such as 7d."
)
@format_option
def cache(
    target: Target,
    clear: bool,
    name: str | None,
    before: str | None,
    output: str,
) -> None:
    """Show the number of cached verdicts of each judge, version and model, and their cost.

    The cache key consists of the judge, its version and the complete question. Another version of a judge (another model or
    prompt) asks again.
    """
    if not clear and (name or before):
        raise UsageError("--judge and --before select what --clear deletes: add --clear")
    with target.open() as client:
        if clear:
            own_name = name.partition(":")[0] if name else None  # the model follows the colon
            result = client.get(Cleared, "judge_clear", judge=own_name, before_ns=time_ns(before, "--before"))
            print_result(result, output, _print_cleared)
            return
        contents = client.get(JudgeCache, "judge_cache")
    print_result(contents, output, _print_cache)


_NO_LABELS: Final = (
    "nothing to compare: no label or annotation is about a conversation in this store; `otel-agentic label ID "
    "pass|fail` records one"
)


def _print_metrics(out: Console, metrics: Sequence[MetricCalibration]) -> None:
    """Print the agreement of each metric with people, and its corrected pass rate; details of a single one."""
    columns = [
        Column(name="metric", least=16),
        *numbers("n"),
        *fixed("agreement", "kappa", "pass rate (judge)", "corrected (PPI++)", "Rogan-Gladen"),
    ]
    rows = [
        (
            metric.metric.removeprefix("agentic."),
            f"{metric.n:,}",
            *((interval(metric.agreement), interval(metric.kappa)) if metric.n else (NOTHING, NOTHING)),
            *(
                (NOTHING, NOTHING, NOTHING)
                if metric.corrected is None
                else map(interval, (metric.corrected.raw, metric.corrected.ppi, metric.corrected.rogan_gladen))
            ),
        )
        for metric in metrics
    ]
    print_table(out, columns, rows, "Metrics compared with people")
    for metric in metrics:
        for line in _metric_notes(metric):
            say(out, line)
    if len(metrics) == 1 and metrics[0].n:
        click.echo()
        print_target(out, metrics[0].target, metrics[0])


def _metric_notes(metric: MetricCalibration) -> Iterator[str]:
    name = metric.metric.removeprefix("agentic.")
    if not metric.n and not metric.not_judged and not metric.disagreements:
        part = {"turn": " --turn N", "call": " --turn N --call N"}.get(metric.target, "")
        yield f"{name}: not annotated yet; `otel-agentic label ID pass|fail{part} --name {name}` annotates a {metric.target}"
    if metric.not_judged.get("not_scored"):
        count = plural(metric.not_judged["not_scored"], "annotated item")
        yield f"{name}: {count} without a score; `otel-agentic evaluate --metrics {name}` computes it"
    if metric.disagreements:
        yield f"{name}: {plural(metric.disagreements, 'item')} left out, because annotators disagree"
    if metric.not_corrected is not None and metric.n:
        yield f"{name}: no corrected rate: {metric.not_corrected}"


def _print_calibration(calibration: Calibration) -> None:
    out = console()
    if calibration.stopped:
        say(out, "stopped: verdicts so far are kept; run the same command to continue")
        return
    _print_use(out, calibration)
    for target, comparison in (("turn", calibration.turn), ("conversation", calibration.conversation)):
        if comparison is not None:
            click.echo()
            print_target(out, target, comparison)
    if calibration.metrics:
        click.echo()
        _print_metrics(out, calibration.metrics)
    if not (calibration.turn or calibration.conversation or calibration.metrics):
        say(out, _NO_LABELS)
    elif calibration.warnings or calibration.annotators:
        click.echo()
    lines = [] if calibration.annotators is None else agreement_lines(calibration.annotators, 0)
    for line in lines:
        say(out, line)
    for warning in calibration.warnings:
        say(out, f"warning: {warning}", style="yellow")


def _print_use(out: Console, calibration: Calibration) -> None:
    """Print which judge was compared, and how many labels it decided."""
    use = calibration.judge
    model = f" ({use.model})" if use.model else ""
    deciders, unsure = (
        sum(getattr(decider, name) for decider in _deciders(calibration) if decider.judge is not None)
        for name in ("n", "unsure")
    )
    has_labels = calibration.turn is not None or calibration.conversation is not None
    counts = f": compared with {plural(calibration.labels, 'label')}, decided {deciders:,}, unsure about {unsure:,}"
    say(out, f"Judge {use.name}{model}, version {use.version}{counts if has_labels or not calibration.metrics else ''}")
    if not deciders and has_labels:
        without = any(decider.n for decider in _deciders(calibration))
        why = "tool calls, outputs and missing turns did, so these numbers do not measure a judge"
        say(out, f"no judge decided any of them{f': {why}' if without else ''}", style="yellow")
    if calibration.blank:
        say(out, f"{plural(calibration.blank, 'row')} without a verdict skipped")
    for line in judge_notes(use):
        say(out, line)


def _deciders(calibration: Calibration) -> list[Decider]:
    """Return the deciding judges of turns and of conversations."""
    return [
        decider
        for target in (calibration.turn, calibration.conversation)
        if target is not None
        for decider in target.deciders
    ]


def _print_cleared(result: Cleared) -> None:
    say(console(), f"{plural(result.cleared, 'verdict')} deleted")


def _print_cache(cache: JudgeCache) -> None:
    out = console()
    if cache.judges:
        columns = [
            *text("judge", "model"),
            Column(name="version", unfolded=True, spare=1),
            *(Column(name=name, right=True) for name in ("verdicts", "failures", "calls", "tokens", "cost")),
            Column(name="last asked", unfolded=True, spare=2),
        ]
        print_table(out, columns, [_cache_row(row) for row in cache.judges], "Cached verdicts")
    else:
        say(out, "no cached verdicts; the exact judge needs none")
    for line in _budget(cache.budget):
        say(out, line)


def _cache_row(row: CachedJudge) -> tuple[Any, ...]:
    tokens = (row.input_tokens or 0) + (row.output_tokens or 0)
    cost = NOTHING if row.cost_usd is None else f"${row.cost_usd:,.4f}"
    counts = (f"{count:,}" for count in (row.verdicts, row.failures, row.calls))
    last = moment(row.last_at)
    return (row.judge, row.model, row.judge_version, *counts, f"{tokens:,}", cost, last)


def _budget(budget: BudgetUse) -> list[str]:
    """Return a line with the use of each configured limit."""
    limits = (
        ("max_calls", budget.calls, budget.max_calls),
        ("max_tokens", budget.tokens, budget.max_tokens),
        ("max_cost_usd", budget.cost_usd, budget.max_cost_usd),
    )
    uses = [f"{spent:,.6g} of {limit:,} (judge.{name})" for name, spent, limit in limits if limit is not None]
    window = budget.window
    if not uses:
        return [
            f"no budget is set (judge.max_calls, judge.max_tokens, judge.max_cost_usd); {budget.calls:,} calls in {window}"
        ]
    return [f"spent in the last {window}: {', '.join(uses)}"]
