"""A calibration as tables: rates with intervals, who passes what, other thresholds, disagreements to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from otel_agentic.cli.output import say
from otel_agentic.cli.tables import Column, print_table, text
from otel_agentic.cli.text import interval, percent, plural, ratio, short

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


def print_target(out: Console, target: str, found: dict[str, Any]) -> None:
    """Print how far the judge agrees with people on turns, or on conversations."""
    rows = [(name, interval(found[name]), meaning) for name, meaning in _MEANING.items()]
    columns = [
        Column(name="", whole=True),
        Column(name=f"{found['level']:.0%} interval", whole=True),
        *text("what it is"),
    ]
    print_table(out, columns, rows, f"On {plural(found['n'], target)} ({found['interval_method']} intervals)")
    click.echo()
    _print_deciders(out, target, found["deciders"])
    _print_confusion(out, found["confusion"])
    click.echo()
    for line in _notes(target, found):
        say(out, line)
    if len(found["curve"]) > 1:
        click.echo()
        _print_curve(out, found)
    for human in ("fail", "pass"):
        _print_examples(out, target, [one for one in found["examples"] if one["human"] == human])
    if found["warnings"]:
        click.echo()
    for warning in found["warnings"]:
        say(out, f"warning: {warning}", style="yellow")


def _print_deciders(out: Console, target: str, deciders: Sequence[dict[str, Any]]) -> None:
    """Print which judge decided how many, and what no judge decided: that agreement is none of a judge."""
    if not deciders:
        return
    rows = [
        (
            "no judge (tool calls, outputs, missing turns)"
            if one["judge"] is None
            else f"{one['judge']} {one['version']}",
            f"{one['n']:,}",
            f"{one['unsure']:,}" if one["judge"] is not None else "",
            *(interval(one[name]) if one["n"] else "" for name in ("agreement", "kappa")),
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


def _print_confusion(out: Console, counts: dict[str, int]) -> None:
    columns = [
        Column(name="people", whole=True),
        Column(name="scored pass", right=True),
        Column(name="scored fail", right=True),
    ]
    rows = [
        ("pass", f"{counts['both_pass']:,}", f"{counts['false_fail']:,}"),
        ("fail", f"{counts['false_pass']:,}", f"{counts['both_fail']:,}"),
    ]
    print_table(out, columns, rows)


def _notes(target: str, found: dict[str, Any]) -> Iterator[str]:
    reasons = found["not_judged"]
    if reasons:
        told = ", ".join(f"{count:,} {reason}" for reason, count in reasons.items())
        yield f"labelled, but not judged and in no number: {told}"
    best = found["best_threshold"]
    if best is not None:
        yield (
            f"best threshold on these labels: {best['threshold']:g} (agreement {percent(best['agreement'])}), in force is "
            f"{found['threshold']:g}; chosen on the labels that it is measured on, it will do worse on others"
        )
    if found["n"] and found["curve_n"] < found["n"]:
        left = found["n"] - found["curve_n"]
        yield f"{plural(left, target)} decided by something else than answers: not in the thresholds"


def _print_curve(out: Console, found: dict[str, Any]) -> None:
    best = found["best_threshold"]
    chosen = _thinned(found["curve"], None if best is None else best["threshold"])
    rows = [
        (
            f"{point['threshold']:g}",
            ratio(point["agreement"]),
            ratio(point["sensitivity"]),
            ratio(point["specificity"]),
            ratio(point["youden"]),
            "best" if best is not None and point["threshold"] == best["threshold"] else "",
        )
        for point in chosen
    ]
    columns = [
        Column(name=name, right=True) for name in ("threshold", "agreement", "sensitivity", "specificity", "Youden")
    ]
    print_table(out, [*columns, Column(name="", whole=True)], rows)


def _thinned(curve: Sequence[dict[str, Any]], best: float | None) -> list[dict[str, Any]]:
    """Return so many points of a curve as a person reads, evenly spread, with the best among them."""
    if len(curve) <= _THRESHOLDS:
        return list(curve)
    places = {round(step * (len(curve) - 1) / (_THRESHOLDS - 1)) for step in range(_THRESHOLDS)}
    return [point for place, point in enumerate(curve) if place in places or point["threshold"] == best]


def _print_examples(out: Console, target: str, examples: Sequence[dict[str, Any]]) -> None:
    """Print disagreements of one kind; a column that none of them fills is left out."""
    if not examples:
        return
    verdict = (
        "Scored as a pass, failed by people" if examples[0]["human"] == "fail" else "Scored as a fail, passed by people"
    )
    texts = {
        name: [short(one[name], _TEXT) for one in examples] for name in _TEXTS if any(one[name] for one in examples)
    }
    numbers = [
        *([("turn", [one["turn"] for one in examples])] if target == "turn" else []),
        *(
            [("score", [ratio(one["score"]) for one in examples])]
            if any(one["score"] is not None for one in examples)
            else []
        ),
    ]
    columns = [
        Column(name="conversation", whole=True),
        *(Column(name=name, right=True) for name, _ in numbers),
        *(_TEXTS[name] for name in texts),
    ]
    cells = [[one["conversation_id"] for one in examples], *(values for _, values in numbers), *texts.values()]
    click.echo()
    print_table(out, columns, list(zip(*cells, strict=True)), verdict)
