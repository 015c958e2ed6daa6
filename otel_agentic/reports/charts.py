"""The data of the charts of a report: curves over k, windows over time, the health of tools."""

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

    Groups = Mapping[GroupKey, Sequence[ScoredConversation]]

#: A curve extends at least to this k, so that its shape is visible.
CURVE_K: Final = 8
#: Maximum points of a curve; for a higher k, the points are spread evenly.
_MAX_CURVE: Final = 40
#: Preferred over time: pass@3 and pass^3 if they are requested, in windows of a day if these are stored.
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
class ChartRequest:
    """The request of a report, with the maximum number of `panels` of each kind of chart."""

    selection: Selection
    k: Sequence[int] | None = None
    by: Sequence[GroupBy] = ()
    window: str | None = None
    estimator: str | None = None
    interval: IntervalKind = "default"
    compare: str | None = None
    panels: int = 12


def pictures(engine: Engine, request: ChartRequest) -> dict[str, Any]:
    """Return the data of the charts of a report as a JSON object.

    `curves`: pass@k and pass^k of the groups with the most conversations, for every k up to 8 or the highest requested one.
    `history`: stored windows by group; None if no windows are stored, as for all evaluations except the default one. `tools`
    and `failing`: the health of tools, and their kinds of faults. `failures`: failures by cause. `left_out` counts the rows
    omitted from each. `first_ns` and `last_ns` are the ends of the oldest and the newest conversation, None without any.

    Raises:
        UsageError: a k or a group is invalid.
        PluginError: the estimator is unknown.
    """
    compared = None if request.compare is None else Compared.parse(request.compare)
    selection = request.selection
    groups = report_groups(engine, by=request.by, window=request.window, selection=selection, compared=compared)
    ended = [conversation.ended_ns for members in groups.values() for conversation in members]
    if request.window is not None and ended:  # tools are reported for the same period as the groups
        selection = replace(selection, since_ns=min(ended), until_ns=max(ended) + 1)
    with engine.store.read() as con:
        tools = tool_health(con, selection)
        failing = failing_tools(con, selection)
    return {
        "first_ns": min(ended, default=None),
        "last_ns": max(ended, default=None),
        "curves": _curves(engine, request, groups),
        "history": _history(engine, request) if engine.store.evaluation == DEFAULT else None,
        "tools": {"rows": tools[:_TOOLS], "left_out": len(tools[_TOOLS:])},
        "failing": {"rows": failing[:_FAILING], "left_out": len(failing[_FAILING:])},
        "failures": failures_json(engine, request.selection, groups.values()),
    }


def curve_ks(k: Sequence[int]) -> tuple[int, ...]:
    """Return the k of the points of a curve: from 1 to the highest requested, at least to 8, and the requested ones.

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
    """Return the kind of stored windows to draw, or None without windows.

    The requested kind if it is stored; otherwise windows of 24 h and pass^3, and among equal kinds the most frequent one.

    Args:
        kinds: the number of windows of each kind.
        window: the requested width.
        k: the reported k.
        estimator: the headline estimator.
    """

    def rank(kind: WindowKind) -> tuple[Any, ...]:
        preferred = (kind.window == window, kind.window == _USUAL_WINDOW, kind.estimator == estimator, kind.k in k)
        return (*preferred, kind.k == _USUAL_K, kinds[kind], kind.k, kind.window, kind.estimator)

    return max(kinds, key=rank, default=None)


def _curves(engine: Engine, request: ChartRequest, groups: Groups) -> dict[str, Any]:
    stats = engine.settings.stats
    if request.estimator:
        stats = stats.model_copy(update={"estimator": request.estimator})
    requested_k = validate_k(stats.k if request.k is None else request.k)
    estimators = [engine.estimators(name)[0] for name in shown_estimators(stats)]
    evaluated = {key: n for key, members in groups.items() if (n := attempts_of(members).n)}
    largest = set(sorted(evaluated, key=lambda key: -evaluated[key])[: request.panels])
    rows = []
    for key, members in groups.items():
        if key not in largest:
            continue
        summary = summarise(key, members, estimators=estimators, settings=stats, k=curve_ks(requested_k))
        for plugin in estimators:
            estimates = summary.estimates[plugin.name]
            drawable = any(estimate.value is not None for k, estimate in estimates.pass_at_k.items() if k > 1)
            if not drawable and plugin.name != headline_estimator(stats):
                continue  # one attempt per case: there is no curve per case
            if request.interval == "bootstrap":
                estimates = with_bootstrap(plugin, attempts_of(members), curve_ks(requested_k))
            row = group_json(
                replace(summary, estimates={plugin.name: estimates}, default_estimator=plugin.name), request.window
            )
            rows.append(row | {"cases_left_out": {str(k): count for k, count in estimates.cases_left_out.items()}})
    return {"rows": rows, "left_out": len(evaluated) - len(largest), "asked": list(requested_k)}


def _history(engine: Engine, request: ChartRequest) -> dict[str, Any] | None:
    stats = engine.settings.stats
    requested_k = validate_k(stats.k if request.k is None else request.k)
    estimator = request.estimator or headline_estimator(stats)
    with engine.store.read() as con:
        kinds = window_kinds(con, request.selection)
        kind = choose_kind(kinds, window=request.window, k=requested_k, estimator=estimator)
        if kind is None:
            return None
        points = window_points(con, request.selection, kind, panels=request.panels, tags="tag" in request.by)
    windows = engine.settings.windows
    final_ns = int((windows.lateness_s + windows.step_s) * _NS_PER_S)
    series: dict[tuple[Any, ...], dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for point in points:
        columns = series[tuple(point[name] for name in _KEY)]
        for name in _POINT:
            columns[name].append(point[name])
        # An unfinished window is rewritten repeatedly; only a change of a final one is a restatement.
        columns["restated"].append(point["revision"] > 1 and point["computed_ns"] > point["end_ns"] + final_ns)
    groups = [dict(zip(_KEY, key, strict=True)) | columns for key, columns in series.items()]
    return {
        "window": kind.window,
        "width_ns": parse_window(kind.window).width_ns,
        "k": kind.k,
        "estimator": kind.estimator,
        "level": points[0]["level"] if points else None,
        "widths": sorted({stored.window for stored in kinds}, key=_width_rank),
        "rows": groups,
        "left_out": (points[0]["series"] if points else 0) - len(groups),
    }


def _width_rank(window: str) -> tuple[bool, int]:
    """Return the sort key of a window: times by length, then counts such as n200."""
    parsed = parse_window(window)
    return (parsed.newest is not None, parsed.newest or parsed.width_ns or 0)
