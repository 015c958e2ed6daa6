"""What the pictures of a report are drawn from: curves over k, windows over time, the health of tools."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.reports.comparison import Compared
from otel_agentic.reports.report import failures_json, group_json, report_groups
from otel_agentic.stats import headline_estimator, shown_estimators, validate_k
from otel_agentic.stats.cluster import with_bootstrap
from otel_agentic.store.queries.conversations import WindowKind, tool_health, window_kinds, window_points
from otel_agentic.store.queries.failures import failing_tools
from otel_agentic.store.selection import DEFAULT
from otel_agentic.windows import attempts_of, parse_window, summarise

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from otel_agentic.engine.engine import Engine
    from otel_agentic.reports.report import IntervalKind
    from otel_agentic.store.selection import Selection
    from otel_agentic.windows import GroupBy, GroupKey, ScoredConversation

if TYPE_CHECKING:
    Groups = Mapping[GroupKey, Sequence[ScoredConversation]]

#: A curve reaches at least this far, so that its bend is seen.
CURVE_K: Final = 8
#: Points of a curve at most; beyond, the k are spread.
_MAX_CURVE: Final = 40
#: What is drawn over time: pass@3 and pass^3 where they are asked for, in windows of a day where they are kept.
_USUAL_K: Final = 3
_USUAL_WINDOW: Final = "24h"
_FAILING: Final = 15
_TOOLS: Final = 25
_NS_PER_S: Final = 1_000_000_000
_KEY: Final = ("agent", "agent_version", "environment", "service", "tag")
_POINT: Final = (
    "end_ns",
    "n",
    "c",
    "coverage",
    "pass_at_k",
    "pass_at_k_lower",
    "pass_at_k_upper",
    "pass_pow_k",
    "pass_pow_k_lower",
    "pass_pow_k_upper",
    "tier",
    "leaning",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureQuestion:
    """What is to be drawn: the question of the report, and how many `panels` a kind of picture has at most."""

    selection: Selection
    k: Sequence[int] | None = None
    by: Sequence[GroupBy] = ()
    window: str | None = None
    estimator: str | None = None
    interval: IntervalKind = "default"
    compare: str | None = None
    panels: int = 12


def pictures(engine: Engine, question: PictureQuestion) -> dict[str, Any]:
    """Return what the pictures of a report are drawn from, as JSON can say it.

    `curves`: of the groups with the most conversations, pass@k and pass^k for every k up to 8 or the highest asked.
    `history`: stored windows, by group; None where none is stored, as for any evaluation but the default one. `tools` and `failing`: the health of tools, and
    what is wrong with them. `failures`: what fails, by cause. Of each, `left_out` says how many there are beyond those. `first_ns` and `last_ns` are the
    ends of the oldest and the newest conversation, None where there is none.

    Raises:
        UsageError: a k or a group is not allowed.
        PluginError: there is no estimator of that name.
    """
    compared = None if question.compare is None else Compared.parse(question.compare)
    selection = question.selection
    groups = report_groups(engine, by=question.by, window=question.window, selection=selection, compared=compared)
    ended = [conversation.ended_ns for members in groups.values() for conversation in members]
    if question.window is not None and ended:  # tools are told of the same stretch of time as the groups
        selection = replace(selection, since_ns=min(ended), until_ns=max(ended) + 1)
    with engine.store.read() as con:
        tools = tool_health(con, selection)
        failing = failing_tools(con, selection)
    return {
        "first_ns": min(ended, default=None),
        "last_ns": max(ended, default=None),
        "curves": _curves(engine, question, groups),
        "history": _history(engine, question) if engine.store.evaluation == DEFAULT else None,
        "tools": {"rows": tools[:_TOOLS], "left_out": len(tools[_TOOLS:])},
        "failing": {"rows": failing[:_FAILING], "left_out": len(failing[_FAILING:])},
        "failures": failures_json(engine, question.selection, groups.values()),
    }


def curve_ks(k: Sequence[int]) -> tuple[int, ...]:
    """Return the k that a curve is drawn through: from 1 to the highest asked, at least 8, and those asked.

    >>> curve_ks([1, 3]), len(curve_ks([1, 1000])) <= 42
    ((1, 2, 3, 4, 5, 6, 7, 8), True)
    """
    last = max(*k, CURVE_K)
    step = -(-last // _MAX_CURVE)
    return tuple(sorted({*range(1, last + 1, step), *k, last}))


def choose_kind(
    kinds: Mapping[WindowKind, int],
    *,
    window: str | None,
    k: Collection[int],
    estimator: str,
) -> WindowKind | None:
    """Return which of the stored windows to draw, None where there are none.

    What was asked for where it is stored; else windows of 24 h, pass^3, and among equals those that are most.

    Args:
        kinds: how many windows there are of each kind.
        window: the width that was asked for.
        k: the k that are reported.
        estimator: the headline one.
    """

    def worth(kind: WindowKind) -> tuple[Any, ...]:
        wanted = (kind.window == window, kind.window == _USUAL_WINDOW, kind.estimator == estimator, kind.k in k)
        return (*wanted, kind.k == _USUAL_K, kinds[kind], kind.k, kind.window, kind.estimator)

    return max(kinds, key=worth, default=None)


def _curves(engine: Engine, question: PictureQuestion, groups: Groups) -> dict[str, Any]:
    stats = engine.settings.stats
    if question.estimator:
        stats = stats.model_copy(update={"estimator": question.estimator})
    asked = validate_k(stats.k if question.k is None else question.k)
    estimators = [engine.estimators(name)[0] for name in shown_estimators(stats)]
    evaluated = {key: n for key, members in groups.items() if (n := attempts_of(members).n)}
    largest = set(sorted(evaluated, key=lambda key: -evaluated[key])[: question.panels])
    rows = []
    for key, members in groups.items():
        if key not in largest:
            continue
        summary = summarise(key, members, estimators=estimators, settings=stats, k=curve_ks(asked))
        for each in estimators:
            estimates = summary.estimates[each.name]
            drawable = any(estimate.value is not None for k, estimate in estimates.pass_at_k.items() if k > 1)
            if not drawable and each.name != headline_estimator(stats):
                continue  # one attempt a case: nothing to draw per case
            if question.interval == "bootstrap":
                estimates = with_bootstrap(each, attempts_of(members), curve_ks(asked))
            told = group_json(
                replace(summary, estimates={each.name: estimates}, default_estimator=each.name), question.window
            )
            rows.append(told | {"cases_left_out": {str(k): count for k, count in estimates.cases_left_out.items()}})
    return {"rows": rows, "left_out": len(evaluated) - len(largest), "asked": list(asked)}


def _history(engine: Engine, question: PictureQuestion) -> dict[str, Any] | None:
    stats = engine.settings.stats
    asked = validate_k(stats.k if question.k is None else question.k)
    estimator = question.estimator or headline_estimator(stats)
    with engine.store.read() as con:
        kinds = window_kinds(con, question.selection)
        kind = choose_kind(kinds, window=question.window, k=asked, estimator=estimator)
        if kind is None:
            return None
        points = window_points(con, question.selection, kind, panels=question.panels, tags="tag" in question.by)
    windows = engine.settings.windows
    final_ns = int((windows.lateness_s + windows.step_s) * _NS_PER_S)
    series: dict[tuple[Any, ...], dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for point in points:
        columns = series[tuple(point[name] for name in _KEY)]
        for name in _POINT:
            columns[name].append(point[name])
        # A window that is still filling is written again and again; only one that was final already is restated.
        columns["restated"].append(point["revision"] > 1 and point["computed_ns"] > point["end_ns"] + final_ns)
    groups = [dict(zip(_KEY, key, strict=True)) | columns for key, columns in series.items()]
    return {
        "window": kind.window,
        "width_ns": parse_window(kind.window).width_ns,
        "k": kind.k,
        "estimator": kind.estimator,
        "level": points[0]["level"] if points else None,
        "widths": sorted({each.window for each in kinds}, key=_width_rank),
        "rows": groups,
        "left_out": (points[0]["series"] if points else 0) - len(groups),
    }


def _width_rank(window: str) -> tuple[bool, int]:
    """Return the sort key of a window: times by length, then counts such as n200."""
    found = parse_window(window)
    return (found.newest is not None, found.newest or found.width_ns or 0)
