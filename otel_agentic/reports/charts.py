"""The data of the charts of a report: curves over k, windows over time, the health of tools."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.reports.failures import found_failures
from otel_agentic.reports.report import rates_of
from otel_agentic.results import from_json
from otel_agentic.results.charts import (
    Charts,
    ConversationOutcome,
    ConversationOutcomes,
    CurveRow,
    Curves,
    FailingRows,
    FailureCause,
    FailureCauses,
    History,
    HistoryRow,
    ToolHealth,
    ToolRows,
    TurnOutcome,
)
from otel_agentic.results.failures import FailingTool
from otel_agentic.stats import headline_estimator, shown_estimators
from otel_agentic.stats.cluster import with_bootstrap
from otel_agentic.stats.tiers import claim_tiers
from otel_agentic.store.connection import DEFAULT, to_json_value
from otel_agentic.store.queries.conversations import WindowKind, tool_health, turn_outcomes, window_kinds, window_points
from otel_agentic.store.queries.failures import failing_tools
from otel_agentic.windows import (
    GroupKey,
    ScoredConversation,
    Window,
    WindowPoint,
    attempts_of,
    group_by_subject,
    is_tagged,
    parse_width,
    parse_window,
    results_of,
    roll,
    summarise,
    window_ends,
)
from otel_agentic.windows.roll import Ordered, tally

if TYPE_CHECKING:
    from otel_agentic.config import StatsSettings
    from otel_agentic.engine.engine import Engine
    from otel_agentic.reports.report import ReportRequest
    from otel_agentic.stats import Estimator
    from otel_agentic.store.queries.scored_conversations import KindTable
    from otel_agentic.store.table import Key, Selection
    from otel_agentic.windows.columns import Claims, IntArray, Results

    Groups = Mapping[GroupKey, Sequence[ScoredConversation]]

#: A curve extends at least to this k, so that its shape is visible.
CURVE_K: Final = 8
#: Maximum points of a curve; for a higher k, the points are spread evenly.
_MAX_CURVE: Final = 40
#: Preferred in the history: pass@3 and pass^3 if they are requested, in windows of a day if these are stored.
_USUAL_K: Final = 3
_USUAL_WINDOW: Final = "24h"
#: Widths of windows that are computed for a report; the narrowest is used of which at most `_MAX_WIDTHS` cover the time
#: of all conversations. Conversations within the least time have no history.
_WIDTHS: Final = ("15m", "1h", "6h", "24h", "7d", "30d")
_MAX_WIDTHS: Final = 12
_STEPS_PER_WIDTH: Final = 4
_MAX_POINTS: Final = 60
_MIN_SPAN_NS: Final = 15 * 60 * 1_000_000_000
#: The number of rows of each table.
_FAILING: Final = 15
_TOOLS: Final = 25
_CAUSES: Final = 20
#: Outcomes in the order of the table of conversations.
_OUTCOMES: Final = ("fail", "not_evaluated", "pass")
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


def charts(engine: Engine, request: ReportRequest, panels: int) -> Charts:
    """Return the data of the charts of a report, with at most `panels` panels of each kind of chart.

    `curves`: pass@k and pass^k of the groups with the most conversations, for every k up to 8 or the highest requested one.
    `history`: stored windows by group, or windows computed from the conversations of the report if none are stored; None if
    all conversations ended at about the same time. `tools` and `failing`: the health of tools, and their kinds of faults. `failures`: failures by cause. `left_out` counts the rows
    omitted from each.

    Raises:
        UsageError: a k or a group is invalid.
        PluginError: the estimator is unknown.
    """
    by = request.by or ()
    # Otherwise a conversation may be in no group, and those in groups must be known one by one.
    is_complete = request.compare is None and not is_tagged(by) and "tool" not in by
    with request.counted(engine) if is_complete else nullcontext() as table:
        groups = request.groups(engine, table)
        history = _history(engine, request, groups, panels, table)
        period = None if table is None else table.period
    keys: AbstractSet[Key] | None = None
    if table is None:
        keys = {(row.environment, row.conversation_id) for members in groups.values() for row in members}
        ended = [row.ended_ns for members in groups.values() for row in members]
        period = (min(ended), max(ended)) if ended else None
    selection: Selection = request
    if request.window is not None and period is not None:  # tools are reported for the same period as the groups
        selection = replace(request, since_ns=period[0], until_ns=period[1] + 1)
    with engine.store.read() as con:
        tools = tool_health(con, selection)
        failing = failing_tools(con, selection)
    return Charts(
        first_ns=None if period is None else period[0],
        last_ns=None if period is None else period[1],
        curves=_curves(engine, request, groups, panels),
        history=history,
        tools=ToolRows(rows=[ToolHealth(**row) for row in tools[:_TOOLS]], left_out=len(tools[_TOOLS:])),
        failing=FailingRows(
            rows=from_json(list[FailingTool], to_json_value(failing[:_FAILING])), left_out=len(failing[_FAILING:])
        ),
        failures=_failures(engine, selection, keys),
    )


def conversation_outcomes(engine: Engine, request: ReportRequest, limit: int) -> ConversationOutcomes:
    """Return the outcomes of the conversations of a report: failed ones first, then those not evaluated, each the newest first.

    Raises:
        UsageError: a group is invalid.
    """
    members = {
        (member.environment, member.conversation_id): member
        for group in request.groups(engine).values()
        for member in group
    }
    ordered = sorted(members.values(), key=lambda member: (_OUTCOMES.index(member.outcome), -member.ended_ns))
    first = ordered[:limit]
    with engine.store.read() as con:
        turns = turn_outcomes(con, [(member.environment, member.conversation_id) for member in first])
    rows = [
        ConversationOutcome(
            environment=member.environment,
            conversation_id=member.conversation_id,
            agent=member.agent,
            agent_version=member.agent_version,
            case_id=member.case_id,
            outcome=member.outcome,
            reason=member.reason,
            turns=[
                TurnOutcome(outcome=outcome, answer_score=score)
                for outcome, score in turns.get((member.environment, member.conversation_id), ())
            ],
        )
        for member in first
    ]
    return ConversationOutcomes(rows=rows, left_out=len(ordered) - len(rows))


def _failures(engine: Engine, selection: Selection, keys: AbstractSet[Key] | None) -> FailureCauses:
    """Return the most severe causes of failures of conversations; `keys` restricts the selection, None does not."""
    causes = found_failures(engine, selection, keys=keys, listed=0).groups
    rows = [
        FailureCause(
            title=group.title,
            severity=group.severity,
            failures=group.count,
            conversations=group.conversations,
            share=group.share,
            first_seen_ns=group.first_seen_ns,
            last_seen_ns=group.last_seen_ns,
            example_conversation=group.example.location.conversation_id,
            example_environment=group.example.location.environment,
            explanation=group.example.explanation,
        )
        for group in causes[:_CAUSES]
    ]
    return FailureCauses(rows=rows, left_out=len(causes[_CAUSES:]))


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

    The requested kind is preferred, then windows of 24 h and pass^3; among equally preferred kinds, the most frequent
    one.

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


def _curves(engine: Engine, request: ReportRequest, groups: Groups, panels: int) -> Curves:
    stats = request.stats(engine)
    k = curve_ks(stats.k)
    estimators = [engine.estimators(name)[0] for name in shown_estimators(stats)]
    evaluated = {key: n for key, members in groups.items() if (n := attempts_of(members).n)}
    largest = set(sorted(evaluated, key=lambda key: -evaluated[key])[:panels])
    rows = []
    for key, members in groups.items():
        if key not in largest:
            continue
        summary = summarise(key, members, estimators=estimators, settings=stats, k=k)
        for plugin in estimators:
            estimates = summary.estimates[plugin.name]
            drawable = any(estimate.value is not None for k, estimate in estimates.pass_at_k.items() if k > 1)
            if not drawable and plugin.name != headline_estimator(stats):
                continue  # one attempt per case: there is no curve per case
            if request.interval == "bootstrap":
                estimates = with_bootstrap(plugin, attempts_of(members), k)
            curve = replace(summary, estimates={plugin.name: estimates}, default_estimator=plugin.name)
            left_out = {str(k): count for k, count in estimates.cases_left_out.items()}
            rows.append(rates_of(CurveRow, curve, request.window, cases_left_out=left_out))
    return Curves(rows=rows, left_out=len(evaluated) - len(largest), asked=list(stats.k))


def _history(
    engine: Engine, request: ReportRequest, groups: Groups, panels: int, table: KindTable | None
) -> History | None:
    """Return the stored windows if they form a line or their width is requested, else windows computed for this report.

    `groups` are the conversations of the report; `table` contains them by kind, None if each was read.
    """
    stored = _stored_history(engine, request, panels) if engine.store.evaluation == DEFAULT else None
    if stored is not None and (stored.window == request.window or any(len(row.end_ns) > 1 for row in stored.rows)):
        return stored
    times = {} if table is None else table.times()
    return _computed_history(engine, request, groups, panels, times) or stored


def _computed_history(
    engine: Engine, request: ReportRequest, groups: Groups, panels: int, times: Mapping[int, IntArray]
) -> History | None:
    """Return windows of the conversations of a report, by subject like stored ones; None if their time is too short.

    `times` are the ends of the conversations of each kind. Each subject is counted on its own, which bounds the memory.
    """
    scored = {(row.environment, row.conversation_id): row for members in groups.values() for row in members}
    subjects = group_by_subject(scored.values())
    largest = dict(sorted(subjects.items(), key=lambda item: -sum(row.count for row in item[1]))[:panels])
    ended = {key: _ended(rows, times) for key, rows in largest.items()}
    first_ns, last_ns = (
        min((first for first, _ in ended.values()), default=0),
        max((last for _, last in ended.values()), default=0),
    )
    span_ns = last_ns - first_ns
    if span_ns < _MIN_SPAN_NS:
        return None
    width = next((name for name in _WIDTHS if span_ns <= _MAX_WIDTHS * parse_width(name)), _WIDTHS[-1])
    ends = window_ends(first_ns, last_ns, max(parse_width(width) // _STEPS_PER_WIDTH, span_ns // _MAX_POINTS))
    stats = request.stats(engine)
    k = _USUAL_K if _USUAL_K in stats.k else max(stats.k)
    estimator = engine.estimators(headline_estimator(stats))[0]
    series: dict[GroupKey, list[WindowPoint]] = {}
    for key, rows in largest.items():
        results = results_of(rows, times=times)
        claims = _claims(results, ends, estimator, stats)
        table = roll(results, [width], ends, estimators=[estimator], settings=stats, k=[k], claims=claims)
        series[key] = table.points()
    return History(
        window=width,
        width_ns=parse_width(width),
        k=k,
        estimator=estimator.name,
        level=stats.level,
        widths=[],
        rows=[_computed_row(key, series[key], estimator.name, k) for key in sorted(series, key=GroupKey.sort_key)],
        left_out=len(subjects) - len(largest),
    )


def _ended(rows: Sequence[ScoredConversation], times: Mapping[int, IntArray]) -> tuple[int, int]:
    """Return the ends of the first and the last conversation, ns."""
    first_ns = min(row.ended_ns for row in rows)
    last_ns = max(row.ended_ns if row.kind is None else int(times[row.kind][-1]) for row in rows)
    return first_ns, last_ns


def _claims(results: Results, ends: Sequence[int], estimator: Estimator, stats: StatsSettings) -> Claims:
    """Return the tier that the conversations of a subject up to each end support, without sampling weights."""
    since_first = Window(name="all", width_ns=ends[-1])
    tallies = tally(Ordered.of(results), [since_first], ends)
    claims = claim_tiers(replace(tallies.attempts, weights=None), stats, needed=False, estimator=estimator)
    points = zip(tallies.group.tolist(), tallies.end_ns.tolist(), tallies.content.tolist(), strict=True)
    return {(tallies.groups[group], end): claims[content].tier for group, end, content in points}


def _computed_row(key: GroupKey, points: Sequence[WindowPoint], estimator: str, k: int) -> HistoryRow:
    summaries = [point.summary for point in points]
    at_k, pow_k = (
        [getattr(summary.estimates[estimator], kind)[k] for summary in summaries]
        for kind in ("pass_at_k", "pass_pow_k")
    )
    return HistoryRow(
        agent=key.agent,
        agent_version=key.agent_version,
        environment=key.environment,
        service=key.service,
        tag=key.tag,
        end_ns=[point.end_ns for point in points],
        n=[summary.n for summary in summaries],
        c=[summary.c for summary in summaries],
        coverage=[summary.coverage for summary in summaries],
        pass_at_k=[estimate.value for estimate in at_k],
        pass_at_k_lower=[estimate.lower for estimate in at_k],
        pass_at_k_upper=[estimate.upper for estimate in at_k],
        pass_pow_k=[estimate.value for estimate in pow_k],
        pass_pow_k_lower=[estimate.lower for estimate in pow_k],
        pass_pow_k_upper=[estimate.upper for estimate in pow_k],
        tier=[summary.tier for summary in summaries],
        leaning=[summary.leaning for summary in summaries],
        restated=[False] * len(points),
    )


def _stored_history(engine: Engine, request: ReportRequest, panels: int) -> History | None:
    stats = request.stats(engine)
    with engine.store.read() as con:
        kinds = window_kinds(con, request)
        kind = choose_kind(kinds, window=request.window, k=stats.k, estimator=headline_estimator(stats))
        if kind is None:
            return None
        points = window_points(con, request, kind, panels=panels, tags=is_tagged(request.by or ()))
    windows = engine.settings.windows
    final_ns = int((windows.lateness_s + windows.step_s) * _NS_PER_S)
    series: dict[tuple[Any, ...], dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for point in points:
        columns = series[tuple(point[name] for name in _KEY)]
        for name in _POINT:
            columns[name].append(point[name])
        # An unfinished window is rewritten repeatedly; only a change of a final one is a restatement.
        columns["restated"].append(point["revision"] > 1 and point["computed_ns"] > point["end_ns"] + final_ns)
    return History(
        window=kind.window,
        width_ns=parse_window(kind.window).width_ns,
        k=kind.k,
        estimator=kind.estimator,
        level=points[0]["level"] if points else None,
        widths=sorted({stored.window for stored in kinds}, key=_width_rank),
        rows=[HistoryRow(**dict(zip(_KEY, key, strict=True)) | columns) for key, columns in series.items()],
        left_out=(points[0]["series"] if points else 0) - len(series),
    )


def _width_rank(window: str) -> tuple[bool, int]:
    """Return the sort key of a window: times by length, then counts such as n200."""
    parsed = parse_window(window)
    return (parsed.newest is not None, parsed.newest or parsed.width_ns or 0)
