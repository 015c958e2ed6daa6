"""The sections of a report as a page: each with its heading, its pictures or tables, and words where there are none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_agentic.cli.advice import metric_advice
from otel_agentic.cli.html.further import comparison_part, corrected_part, objectives_part
from otel_agentic.cli.html.markup import Html, breakable, markup, stranger, tag
from otel_agentic.cli.html.metrics import bands_table, failures_table, layers_table, metrics_table
from otel_agentic.cli.html.names import telling, with_keys
from otel_agentic.cli.html.panels import curve_panels, history_panels, tier_table
from otel_agentic.cli.html.summary import coverage_table, curve_table, estimator_line, more_rows, summary_table
from otel_agentic.cli.html.theme import TIERS
from otel_agentic.cli.html.toolmap import failing_table, heat_legend, tool_map
from otel_agentic.cli.report_metrics import abstained, not_computed
from otel_agentic.cli.report_notes import (
    group_notes,
    method_notes,
    not_rebuilt_notes,
    shown_estimates,
    text_match_notes,
    tier_notes,
)
from otel_agentic.cli.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_agentic.cli.html.markup import Child
    from otel_agentic.cli.html.names import Group

#: Notes on groups that stand open; more of them are folded.
_OPEN_NOTES: Final = 8
_NO_WINDOWS: Final = (
    "No window is stored for this selection. A running collector (`otel-agentic serve`) stores them as conversations are "
    "scored; `otel-agentic backfill` computes them for the past."
)
_DEFAULT_ONLY: Final = "Windows are computed for the default evaluation only."
_NONE_EVALUATED: Final = (
    "No conversation of this selection was evaluated, so there is no curve to draw. The reasons stand under Coverage."
)
_NO_TOOLS: Final = "No call was scored: no case of this selection names expected tools (under `tools`), or its evaluation scores no single call."
_NO_FAULTS: Final = "No tool fault was found."
_NO_METRICS: Final = "No metric beyond the outcome was computed for this selection: `otel-agentic evaluate` computes those that need no judge."
_NO_FAILURES: Final = "Nothing failed in this selection."
_LAYERS: Final = "Reasoning, action, outcome: a run that breaks in one layer often breaks in the next ones, too. Counted is the first."
_BANDS: Final = "Perfect is 1.00, good from .75, moderate from .50, poor below."
_FAILURES: Final = (
    "What was found wrong in the same way counts as one cause. Each failure is in exactly one row; a conversation may have "
    "several. `otel-agentic failures` tells of single ones."
)
_COVERAGE: Final = tag(
    "p",
    "A conversation that could not be evaluated is neither right nor wrong. The last column is the pass rate if all of them "
    "had failed, and if all had passed but those that are known to fail.",
    class_="note",
)
_HEAT: Final = (
    "1.00 is faultless; the deeper the colour, the more is lost. A hatched cell is a dimension that does not apply, which is "
    "not a score of 0."
)
_HOLLOW: Final = " Hollow marks: cases with fewer than k attempts are left out there."
_ENDS: Final = " A curve ends where there are too few attempts."


def sections(found: Mapping[str, Any], drawn: Mapping[str, Any]) -> Iterator[tuple[str, Html]]:
    """Yield name and content of each section of a report that has groups, to be drawn inside `theme.drawing`.

    Args:
        found: the report.
        drawn: what the pictures are drawn from.
    """
    groups: Sequence[Group] = found["groups"]
    yield "Summary", markup((summary_table(groups), more_rows(groups), _tier_legend()))
    if found.get("comparison"):
        yield "Comparison", comparison_part(found["comparison"])
    if found.get("objectives"):
        yield "Objectives", objectives_part(found["objectives"])
    yield "Curves", _curves(drawn["curves"], telling(groups))
    yield "Over time", _history(drawn["history"], found["evaluation"])
    yield "Tools", _tools(drawn["tools"], drawn["failing"], groups)
    if groups[0].get("metrics") is not None:
        yield "Metrics", _metrics(groups, found.get("metrics_chosen"))
    if drawn.get("failures") is not None:
        yield "Failures", _failures(drawn["failures"])
    yield "Coverage", markup((_COVERAGE, coverage_table(groups), more_rows(groups)))
    if corrected := corrected_part(groups):
        yield "Judge errors", corrected
    clocks = [f"warning: {row['note']}" for row in found.get("wrong_clocks", ())]
    yield "Notes", _notes(groups, [*not_rebuilt_notes(found), *text_match_notes(found), *clocks])


def empty_state(text: str) -> Html:
    """Return words that stand where there is nothing to draw."""
    return tag("p", _coded(text), class_="empty-state")


def _curves(found: Mapping[str, Any], differing: Sequence[str]) -> Html:
    rows = with_keys(found["rows"])
    if not rows:
        return empty_state(_NONE_EVALUATED)
    legend = _legend("pass@k: at least one of k attempts is right", "pass^k: all k are right")
    return markup(
        (
            legend,
            tag("p", _bands(rows), class_="note"),
            curve_panels(rows, differing),
            _left_out(found["left_out"], "group", "in the summary"),
            _folded("The numbers behind the curves", curve_table(rows, differing)),
        )
    )


def _bands(rows: Sequence[Group]) -> str:
    """Return what bands are, and where there are some, what hollow marks and early ends of curves are."""
    points = [
        (found["value"] is not None, row["cases_left_out"].get(k, 0))
        for row in rows
        for k, found in shown_estimates(row)["pass_pow_k"].items()
    ]
    hollow = _HOLLOW if any(defined and left_out for defined, left_out in points) else ""
    ends = "" if all(defined for defined, _ in points) else _ENDS
    return f"Bands are the intervals: {estimator_line(rows)}.{hollow}{ends}"


def _history(history: Mapping[str, Any] | None, evaluation: str) -> Html:
    if evaluation != "default":
        return empty_state(_DEFAULT_ONLY)
    if history is None or not history["rows"]:
        return empty_state(_NO_WINDOWS)
    rows = with_keys(history["rows"])
    k, width = history["k"], history["window"]
    others = [other for other in history["widths"] if other != width]
    told = (
        f"Each point is a window of {_width_told(width)}, drawn at its end: estimator {history['estimator']}, {history['level']:.0%} "
        "intervals as bands. A line breaks where no window holds a conversation."
    )
    more = (
        f" Stored, too: {', '.join(others)}; `--window {others[-1]}` draws them, and bounds the tables."
        if others
        else ""
    )
    return markup(
        (
            _legend(f"pass@{k}", f"pass^{k}", restated=any(any(row["restated"]) for row in rows)),
            tag("p", _coded(told + more), class_="note"),
            history_panels(history, rows),
            _left_out(history["left_out"], "group", "not drawn; `--agent` chooses"),
            _folded("When each group had which tier", tier_table(rows, history["width_ns"])),
        )
    )


def _metrics(groups: Sequence[Group], chosen: Sequence[str] | None) -> Html:
    whole = metrics_table(groups, every=bool(chosen))
    if whole is None:
        return empty_state(_NO_METRICS)
    layers = layers_table(groups)
    first = (tag("h3", "Which layer broke first"), tag("p", _LAYERS, class_="note"), layers) if layers else None
    notes = [_coded(note) for note in not_computed(groups, chosen)] if chosen else list(_abstained(groups))
    listed = tag("ul", *(tag("li", note) for note in notes)) if notes else None
    return markup((first, tag("h3", "What each metric says"), whole, listed))


def _abstained(groups: Sequence[Group]) -> Iterator[Html]:
    """Yield which groups have metrics without any score, and how many."""
    for told, names in abstained(groups).items():
        named = [markup((", " if place else None, stranger(name))) for place, name in enumerate(names[:_OPEN_NOTES])]
        more = f" and {plural(len(names[_OPEN_NOTES:]), 'more group')}" if names[_OPEN_NOTES:] else None
        yield markup((named, more, ": ", _coded(told)))


def _failures(found: Mapping[str, Any]) -> Html:
    if not found["rows"]:
        return empty_state(_NO_FAILURES)
    left_out = _left_out(found["left_out"], "cause", "in `otel-agentic failures`")
    return markup((tag("p", _coded(_FAILURES), class_="note"), failures_table(found["rows"]), left_out))


def _in_bands(groups: Sequence[Group]) -> Html | None:
    bands = bands_table(groups)
    return markup((tag("h3", "In bands"), tag("p", _BANDS, class_="note"), bands)) if bands else None


def _tools(tools: Mapping[str, Any], failing: Mapping[str, Any], groups: Sequence[Group]) -> Html:
    if not tools["rows"]:
        return empty_state(_NO_TOOLS)
    faults = failing_table(failing["rows"]) if failing["rows"] else tag("p", _NO_FAULTS, class_="note")
    return markup(
        (
            tag("p", _HEAT, class_="note"),
            heat_legend(),
            tool_map(tools["rows"]),
            _left_out(tools["left_out"], "tool", "with fewer faults, not shown"),
            _in_bands(groups),
            tag("h3", "What is wrong"),
            faults,
            _left_out(failing["left_out"], "fault kind", "in `otel-agentic tools failing`"),
        )
    )


def _notes(groups: Sequence[Group], first: Sequence[str]) -> Html:
    metrics = (metric for group in groups for metric in group.get("metrics") or ())
    about = [
        tag("li", _coded(note))
        for note in dict.fromkeys([*tier_notes(groups), *group_notes(groups), *metric_advice(metrics)])
    ]
    told = tag("ul", *about) if about else None
    if len(about) > _OPEN_NOTES:
        told = _folded(f"{len(about)} notes on single groups", told)
    return markup((tag("ul", *(tag("li", _coded(note)) for note in (*first, *method_notes(groups)))), told))


def _legend(at: str, power: str, *, restated: bool = False) -> Html:
    keys = [
        tag("span", tag("span", class_="key at", aria_hidden="true"), " ", at),
        tag("span", tag("span", class_="key pow", aria_hidden="true"), " ", power),
    ]
    if restated:
        keys.append(tag("span", tag("span", class_="key ring", aria_hidden="true"), " restated after it was final"))
    return tag("p", *keys, class_="legend")


def _tier_legend() -> Html:
    signs = [
        tag("span", tag("span", style.sign, class_=f"shape {style.role}", aria_hidden="true"), " ", style.words)
        for style in TIERS.values()
    ]
    return tag("p", *signs, class_="legend")


def _folded(summary: str, content: Child) -> Html:
    return tag("details", tag("summary", summary), content)


def _left_out(count: int, noun: str, told: str) -> Html | None:
    return tag("p", _coded(f"{plural(count, f'more {noun}')} {told}."), class_="note") if count else None


def _coded(text: str) -> Html:
    """Return a sentence with what stands between backticks as code."""
    return markup([tag("code", part) if place % 2 else breakable(part) for place, part in enumerate(text.split("`"))])


def _width_told(window: str) -> str:
    return f"the last {window[1:]} conversations" if window.startswith("n") else window
