"""`otel-agentic judge`: agreement of a judge with people, its cache and its cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from otel_agentic.cli.options import format_option, opened, require_own_file, target_options, texts_of, time_ns
from otel_agentic.cli.progress import progress_bar
from otel_agentic.cli.render.notes import judge_notes
from otel_agentic.cli.render.terminal import Column, console, print_json, print_table, say, text
from otel_agentic.cli.render.text import NOTHING, interval, moment, percent, plural, ratio, short
from otel_agentic.errors import UsageError
from otel_agentic.results.evaluation import (
    BudgetUse,
    CachedJudge,
    Calibration,
    Cleared,
    Confusion,
    CurvePoint,
    Decider,
    Disagreement,
    JudgeCache,
    TargetCalibration,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

_MEANING: Final = {
    "agreement": "of all verdicts are the same",
    "kappa": "agreement beyond chance (1 perfect, 0 chance)",
    "sensitivity": "of what people pass, scored as a pass",
    "specificity": "of what people fail, scored as a fail",
}
#: Thresholds shown at most; JSON has all.
_THRESHOLDS: Final = 12
_TEXT: Final = 160
_TEXTS: Final = {
    "query": Column(name="query", least=20, spare=2),
    "expected": Column(name="expected", least=20),
    "answer": Column(name="answer", least=20),
    "reasoning": Column(name="reasons", least=24, spare=1),
}


def print_target(out: Console, target: str, found: TargetCalibration) -> None:
    """Print how far the judge agrees with people on turns, or on conversations."""
    rows = [(name, interval(getattr(found, name)), meaning) for name, meaning in _MEANING.items()]
    columns = [
        Column(name="", whole=True),
        Column(name=f"{found.level:.0%} interval", whole=True),
        *text("what it is"),
    ]
    print_table(out, columns, rows, f"On {plural(found.n, target)} ({found.interval_method} intervals)")
    click.echo()
    _print_deciders(out, target, found.deciders)
    _print_confusion(out, found.confusion)
    click.echo()
    for line in _notes(target, found):
        say(out, line)
    if len(found.curve) > 1:
        click.echo()
        _print_curve(out, found)
    for human in ("fail", "pass"):
        _print_examples(out, target, [one for one in found.examples if one.human == human])
    if found.warnings:
        click.echo()
    for warning in found.warnings:
        say(out, f"warning: {warning}", style="yellow")


def _print_deciders(out: Console, target: str, deciders: Sequence[Decider]) -> None:
    """Print which judge decided how many, and what no judge decided: that agreement is none of a judge."""
    if not deciders:
        return
    rows = [
        (
            "no judge (tool calls, outputs, missing turns)" if one.judge is None else f"{one.judge} {one.version}",
            f"{one.n:,}",
            f"{one.unsure:,}" if one.judge is not None else "",
            *(interval(rate) if one.n else "" for rate in (one.agreement, one.kappa)),
        )
        for one in deciders
    ]
    columns = [
        *text("decided by"),
        Column(name=f"{target}s", right=True),
        Column(name="unsure", right=True),
        Column(name="agreement", whole=True),
        Column(name="kappa", whole=True),
    ]
    print_table(out, columns, rows)
    click.echo()


def _print_confusion(out: Console, counts: Confusion) -> None:
    columns = [
        Column(name="people", whole=True),
        Column(name="scored pass", right=True),
        Column(name="scored fail", right=True),
    ]
    rows = [
        ("pass", f"{counts.both_pass:,}", f"{counts.false_fail:,}"),
        ("fail", f"{counts.false_pass:,}", f"{counts.both_fail:,}"),
    ]
    print_table(out, columns, rows)


def _notes(target: str, found: TargetCalibration) -> Iterator[str]:
    reasons = found.not_judged
    if reasons:
        told = ", ".join(f"{count:,} {reason}" for reason, count in reasons.items())
        yield f"labelled, but not judged and in no number: {told}"
    best = found.best_threshold
    if best is not None:
        yield (
            f"best threshold on these labels: {best.threshold:g} (agreement {percent(best.agreement)}), in force is "
            f"{found.threshold:g}; chosen on the labels that it is measured on, it will do worse on others"
        )
    if found.n and found.curve_n < found.n:
        left = found.n - found.curve_n
        yield f"{plural(left, target)} decided by something else than answers: not in the thresholds"


def _print_curve(out: Console, found: TargetCalibration) -> None:
    best = found.best_threshold
    chosen = _thinned(found.curve, None if best is None else best.threshold)
    rows = [
        (
            f"{point.threshold:g}",
            ratio(point.agreement),
            ratio(point.sensitivity),
            ratio(point.specificity),
            ratio(point.youden),
            "best" if best is not None and point.threshold == best.threshold else "",
        )
        for point in chosen
    ]
    columns = [
        Column(name=name, right=True) for name in ("threshold", "agreement", "sensitivity", "specificity", "Youden")
    ]
    print_table(out, [*columns, Column(name="", whole=True)], rows)


def _thinned(curve: Sequence[CurvePoint], best: float | None) -> list[CurvePoint]:
    """Return so many points of a curve as a person reads, evenly spread, with the best among them."""
    if len(curve) <= _THRESHOLDS:
        return list(curve)
    places = {round(step * (len(curve) - 1) / (_THRESHOLDS - 1)) for step in range(_THRESHOLDS)}
    return [point for place, point in enumerate(curve) if place in places or point.threshold == best]


def _print_examples(out: Console, target: str, examples: Sequence[Disagreement]) -> None:
    """Print disagreements of one kind; a column that none of them fills is left out."""
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
    numbers = [
        *([("turn", [one.turn for one in examples])] if target == "turn" else []),
        *(
            [("score", [ratio(one.score) for one in examples])]
            if any(one.score is not None for one in examples)
            else []
        ),
    ]
    columns = [
        Column(name="conversation", whole=True),
        *(Column(name=name, right=True) for name, _ in numbers),
        *(_TEXTS[name] for name in texts),
    ]
    cells = [[one.conversation_id for one in examples], *(values for _, values in numbers), *texts.values()]
    click.echo()
    print_table(out, columns, list(zip(*cells, strict=True)), verdict)


_INTERRUPTED: Final = 130
_JUDGE_HELP: Final = "The judge, by plug-in name as for `evaluate`; unless given, the one of the settings."


@click.group(short_help="Hold a judge against people; look into its memory.")
def judge() -> None:
    """Ask how far a judge can be trusted, and what it costs."""


@judge.command(short_help="Compare a judge's verdicts with people's.")
@target_options
@click.option(
    "--labels",
    multiple=True,
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="A CSV of people's verdicts: conversation_id[,turn][,verdict|reward][,environment]. Turns count from 1; a row "
    "without a turn is about the whole conversation.",
)
@click.option("--judge", "name", metavar="NAME", help=_JUDGE_HELP)
@click.option(
    "--random-sample",
    is_flag=True,
    help="The labelled conversations were drawn at random: rates may be corrected by them.",
)
@click.option(
    "--examples",
    metavar="N",
    type=click.IntRange(min=0),
    default=5,
    show_default=True,
    help="Disagreements shown at most, of each kind.",
)
@format_option
def calibrate(
    db: Path | None,
    server: str | None,
    config_file: Path | None,
    labels: tuple[Path, ...],
    name: str | None,
    random_sample: bool,
    examples: int,
    output: str,
) -> int:
    """Compare a judge's verdicts with people's, on turns and on conversations.

    Scores that are stored are taken as they are; what is missing is judged now, from the cache where it can be, within the
    budget. The result is stored and stands beside every rate that the judge had a part in.
    """
    given = {"judge": name} if name else {}
    with progress_bar(quiet=False) as progress, opened(db, server, config_file, progress, scoring=given) as client:
        require_own_file(client, "judge calibrate", given)
        found = client.get(
            Calibration,
            "judge_calibrate",
            labels=texts_of(labels, "labels"),
            random_sample=random_sample,
            examples=examples,
        )
    if output == "json":
        print_json(found)
    else:
        _print_calibration(found)
    return _INTERRUPTED if found.stopped else 0


@judge.command(short_help="Show what judges remember and cost; forget it.")
@target_options
@click.option("--clear", is_flag=True, help="Forget verdicts: they are asked for anew. What was spent stays counted.")
@click.option("--judge", "name", metavar="NAME", help="With --clear: those of this judge only.")
@click.option(
    "--before", metavar="TIME", help="With --clear: those from before this time, ISO 8601 or an age such as 7d."
)
@format_option
def cache(
    db: Path | None,
    server: str | None,
    config_file: Path | None,
    clear: bool,
    name: str | None,
    before: str | None,
    output: str,
) -> None:
    """Show how many verdicts of each judge, version and model are remembered, and what they cost.

    A verdict is found again by judge, version and everything that was asked. A judge of another version (another model,
    another prompt) asks anew.
    """
    if not clear and (name or before):
        raise UsageError("--judge and --before say what --clear forgets; give --clear, too")
    with opened(db, server, config_file) as client:
        if clear:
            own_name = name.partition(":")[0] if name else None  # behind the colon stands what the judge asks
            cleared = client.get(Cleared, "judge_clear", judge=own_name, before_ns=time_ns(before, "--before"))
            if output == "json":
                print_json(cleared)
            else:
                say(console(), f"{plural(cleared.cleared, 'verdict')} forgotten")
            return
        contents = client.get(JudgeCache, "judge_cache")
    if output == "json":
        print_json(contents)
    else:
        _print_cache(console(), contents)


def _print_calibration(found: Calibration) -> None:
    out = console()
    if found.stopped:
        say(out, "stopped: what was judged is kept; the same command goes on from here")
        return
    asked = found.judge
    model = f" ({asked.model})" if asked.model else ""
    decided, unsure = (
        sum(getattr(decider, name) for decider in _deciders(found) if decider.judge is not None)
        for name in ("n", "unsure")
    )
    say(
        out,
        f"Judge {asked.name}{model}, version {asked.version}: held against {plural(found.labels, 'label')}, decided "
        f"{decided:,}, unsure about {unsure:,}",
    )
    if not decided:
        without = any(one.n for one in _deciders(found))
        why = "tool calls, outputs and missing turns did, so these numbers say nothing about a judge"
        say(out, f"no judge decided any of them{f': {why}' if without else ''}", style="yellow")
    if found.blank:
        say(out, f"{plural(found.blank, 'row')} without a verdict left out")
    for line in judge_notes(asked):
        say(out, line)
    for target, calibration in (("turn", found.turn), ("conversation", found.conversation)):
        if calibration is not None:
            click.echo()
            print_target(out, target, calibration)
    if found.turn is None and found.conversation is None:
        say(out, "nothing to compare: no label leads to a conversation of this store")
    elif found.warnings:
        click.echo()
    for warning in found.warnings:
        say(out, f"warning: {warning}", style="yellow")


def _deciders(found: Calibration) -> list[Decider]:
    """Return the judges that decided, of turns and of conversations."""
    return [decider for target in (found.turn, found.conversation) if target is not None for decider in target.deciders]


def _print_cache(out: Console, found: JudgeCache) -> None:
    if found.judges:
        columns = [
            *text("judge", "model"),
            Column(name="version", whole=True, spare=1),
            *(Column(name=name, right=True) for name in ("verdicts", "failures", "calls", "tokens", "cost")),
            Column(name="last asked", whole=True, spare=2),
        ]
        print_table(out, columns, [_cache_row(row) for row in found.judges], "Verdicts remembered")
    else:
        say(out, "no verdicts are remembered; the exact judge needs none")
    for line in _budget(found.budget):
        say(out, line)


def _cache_row(row: CachedJudge) -> tuple[Any, ...]:
    tokens = (row.input_tokens or 0) + (row.output_tokens or 0)
    cost = NOTHING if row.cost_usd is None else f"${row.cost_usd:,.4f}"
    counts = (f"{count:,}" for count in (row.verdicts, row.failures, row.calls))
    last = moment(row.last_at)
    return (row.judge, row.model, row.judge_version, *counts, f"{tokens:,}", cost, last)


def _budget(budget: BudgetUse) -> list[str]:
    """Return a line with the use of each limit that is set."""
    limits = (
        ("max_calls", budget.calls, budget.max_calls),
        ("max_tokens", budget.tokens, budget.max_tokens),
        ("max_cost_usd", budget.cost_usd, budget.max_cost_usd),
    )
    told = [f"{used:,.6g} of {limit:,} (judge.{name})" for name, used, limit in limits if limit is not None]
    window = budget.window
    if not told:
        return [
            f"no budget is set (judge.max_calls, judge.max_tokens, judge.max_cost_usd); {budget.calls:,} calls in {window}"
        ]
    return [f"spent in the last {window}: {', '.join(told)}"]
