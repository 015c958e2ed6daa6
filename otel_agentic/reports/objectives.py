"""Objectives of every group as of a watermark, computed from the store, and their messages in logs and reports.

The evidence over time is not stored: it is computed from the final results, as the state is.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

import numpy as np

from otel_agentic.reports.conversations import iso
from otel_agentic.results.reports import EvidenceHistory, ObjectiveStatus
from otel_agentic.stats.sequential import e_value
from otel_agentic.stats.thinning import thinned
from otel_agentic.store.results import final_results, pending_results, result_digests, result_groups, watermark
from otel_agentic.windows.objectives import Finals, Monitor, Trace, objectives_of

if TYPE_CHECKING:
    from otel_agentic.config import Objective, SloSettings
    from otel_agentic.engine.engine import Engine
    from otel_agentic.store.connection import Connection
    from otel_agentic.store.table import Selection
    from otel_agentic.windows import GroupKey

NS_PER_S: Final = 1_000_000_000
#: The largest number of points of a history, and of the newest alarms of the change detector in it.
_MAX_POINTS: Final = 500
_MAX_CHANGES: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """A group with results, and its objectives."""

    key: GroupKey
    objectives: tuple[Objective, ...]


class Monitors:
    """The monitors of every objective and group, as of a watermark."""

    def __init__(self, slo: SloSettings, *, has_traces: bool = False) -> None:
        self._slo = slo
        #: The evidence after each block of the last `advance`, by number of the group and objective; empty without `has_traces`.
        self.traces: dict[tuple[int, str], Trace] = {}
        self._has_traces = has_traces
        self._monitors: dict[tuple[int, str], Monitor] = {}
        #: Digests of the results included so far, by number of the group.
        self._digests: dict[int, int] = {}
        #: Results up to and including this time have been processed, ns since the epoch; None before the first call.
        self.watermark_ns: int | None = None

    @property
    def all(self) -> list[Monitor]:
        """The monitors, sorted by group and objective; a group without an evaluated result has none."""
        return sorted(self._monitors.values(), key=lambda monitor: (monitor.key.sort_key(), monitor.objective.label))

    def groups(self, con: Connection) -> dict[int, _Group]:
        """Return the groups with objectives, by number."""
        groups = {
            subject: _Group(key=key, objectives=tuple(objectives_of(key.agent, self._slo.objectives, key.criterion)))
            for subject, key in result_groups(con).items()
        }
        return {subject: group for subject, group in groups.items() if group.objectives}

    def of(self, subject: int, key: GroupKey, objective: Objective) -> Monitor:
        """Return the monitor of a group and objective; a new one if it has no results yet."""
        return self._monitors.get((subject, objective.label)) or Monitor.of(key, objective, self._slo.block)

    def advance(self, con: Connection, watermark_ns: int) -> bool:
        """Include the results that became final up to a watermark; return whether there were any.

        A watermark that is not later than the current one is ignored.
        """
        included_ns = self.watermark_ns
        if included_ns is not None and watermark_ns <= included_ns:
            return False
        since_ns = self._slo.since_ns
        if included_ns is not None:
            since_ns = included_ns + 1 if since_ns is None else max(included_ns + 1, since_ns)
        groups, blocks = self.groups(con), sum(monitor.blocks for monitor in self._monitors.values())
        results = final_results(con, list(groups), since_ns=since_ns, until_ns=watermark_ns)
        after = {
            (subject, objective.label): (before or self.of(subject, group.key, objective)).traced(
                results.get(subject, Finals.none()), watermark_ns
            )
            for subject, group in groups.items()
            for objective in group.objectives
            if (before := self._monitors.get((subject, objective.label))) or subject in results
        }
        # In a single update, so that an error leaves everything unchanged.
        self._monitors |= {name: monitor for name, (monitor, _) in after.items()}
        if self._has_traces:
            self.traces = {name: trace for name, (_, trace) in after.items()}
        self._digests |= {subject: self._digests.get(subject, 0) ^ finals.digest for subject, finals in results.items()}
        self.watermark_ns = watermark_ns
        return bool(results) or blocks != sum(monitor.blocks for monitor in self._monitors.values())

    def restart_changed(self, con: Connection) -> bool:
        """Recompute each group of which a result up to the watermark changed; return whether there was one."""
        until_ns = self.watermark_ns
        if until_ns is None:
            return False
        groups, since_ns = self.groups(con), self._slo.since_ns
        digests = result_digests(con, list(groups), since_ns=since_ns, until_ns=until_ns)
        changed = {subject for subject in groups if digests.get(subject, 0) != self._digests.get(subject, 0)}
        results = final_results(con, sorted(changed), since_ns=since_ns, until_ns=until_ns)
        unchanged = {key: monitor for key, monitor in self._monitors.items() if key[0] not in changed}
        self._monitors = unchanged | {
            (subject, objective.label): Monitor.of(groups[subject].key, objective, self._slo.block).then(
                finals, until_ns
            )
            for subject, finals in results.items()
            for objective in groups[subject].objectives
        }
        self._digests |= {subject: results[subject].digest if subject in results else 0 for subject in changed}
        return bool(changed)


def objectives_report(engine: Engine, agent: str | None = None) -> list[ObjectiveStatus]:
    """Return the objectives in a report: the status of each group and objective, computed from the store.

    Conversations count from `slo.since` (or from the first one) to the watermark, independent of the selection of the report.

    Args:
        engine: the opened store.
        agent: only agents whose name matches this glob.

    Returns:
        The status sorted by group and objective; `pending` evaluated conversations are not final yet, and not included in
        `n`.
    """
    monitors = Monitors(engine.settings.slo)
    return [_status(monitor, waiting) for _, monitor, waiting in _computed(engine, monitors, agent)]


def objectives_over_time(engine: Engine, selection: Selection) -> tuple[list[ObjectiveStatus], list[EvidenceHistory]]:
    """Return the objectives of the groups of a selection as `objectives_report` does, and the evidence over time of each.

    The period of the selection limits the points of the histories, not the conversations that the evidence includes.
    """
    monitors = Monitors(engine.settings.slo, has_traces=True)
    rows = [
        (monitor, waiting, monitors.traces.get((subject, monitor.objective.label), Trace.none()))
        for subject, monitor, waiting in _computed(engine, monitors, selection.agent)
        if selection.agent_version in {None, monitor.key.agent_version}
        and selection.environment in {None, monitor.key.environment or ""}
    ]
    return (
        [_status(monitor, waiting) for monitor, waiting, _ in rows],
        [_history(monitor, trace, selection.since_ns) for monitor, _, trace in rows],
    )


def _computed(engine: Engine, monitors: Monitors, agent: str | None) -> list[tuple[int, Monitor, int]]:
    """Return the number of the group, the monitor and the waiting conversations of each objective with a result."""
    slo = engine.settings.slo
    with engine.store.read() as con:
        until_ns = watermark(con, engine.clock(), int(engine.settings.windows.lateness_s * NS_PER_S))
        monitors.advance(con, until_ns)
        groups = monitors.groups(con)
        pending = pending_results(con, until_ns, slo.since_ns)
    rows = [
        (subject, monitor, pending.get(subject, 0) + monitor.waiting.correct.size)
        for subject, group in groups.items()
        if agent is None or fnmatchcase(group.key.agent or "", agent)
        for objective in group.objectives
        for monitor in [monitors.of(subject, group.key, objective)]
    ]
    rows.sort(key=lambda row: (row[1].key.sort_key(), row[1].objective.label))
    return [row for row in rows if row[1].n or row[2]]


def _history(monitor: Monitor, trace: Trace, since_ns: int | None) -> EvidenceHistory:
    """Return the evidence of a period. A block that closed later may have ended earlier; its time is raised to that before."""
    ended_ns = np.maximum.accumulate(trace.ended_ns)
    first = 0 if since_ns is None else int(np.searchsorted(ended_ns, since_ns))
    points = first + thinned(trace.log_e[first:, np.newaxis], _MAX_POINTS)
    key = monitor.key
    return EvidenceHistory(
        agent=key.agent,
        agent_version=key.agent_version,
        environment=key.environment,
        service=key.service,
        objective=monitor.objective.label,
        alpha=monitor.objective.alpha,
        end_ns=ended_ns[points].tolist(),
        e_value=[e_value(log) for log in trace.log_e[points].tolist()],
        alarmed_ns=monitor.alarmed_ns if since_ns is None or (monitor.alarmed_ns or 0) >= since_ns else None,
        changed_ns=[int(ended_ns[position]) for position in trace.changed if position >= first][-_MAX_CHANGES:],
    )


def alarm_text(monitor: Monitor, alarmed_ns: int) -> str:
    """Return the log line of an objective that was broken at a time."""
    objective = monitor.objective
    return (
        f"{_named(monitor.key)}: {objective.label} is broken: e-value {monitor.e_value:.3g} after {monitor.n:,} "
        f"conversations{_in_blocks(monitor)}, {monitor.c:,} of them correct; it reached {1 / objective.alpha:.4g} at the conversation that ended "
        f"{_second(alarmed_ns)}. Such an alarm is false in at most {100 * objective.alpha:.3g} % of agents, ever."
    )


def change_text(monitor: Monitor, changed_ns: int) -> str:
    """Return the log line of a fall below the objective that was detected at a time."""
    return (
        f"{_named(monitor.key)}: the pass rate seems to have fallen below {monitor.p0:.3f} "
        f"({monitor.objective.label}), detected at the conversation that ended {_second(changed_ns)}. Without "
        f"a fall, such alarms are {monitor.objective.target_run_length:,.6g} "
        f"{'conversations' if monitor.block == 'none' else 'blocks'} apart or more, on average."
    )


def _in_blocks(monitor: Monitor) -> str:
    return "" if monitor.block == "none" else f" in {monitor.blocks:,} blocks"


def _status(monitor: Monitor, pending: int) -> ObjectiveStatus:
    key, objective = monitor.key, monitor.objective
    return ObjectiveStatus(
        agent=key.agent,
        agent_version=key.agent_version,
        environment=key.environment,
        service=key.service,
        objective=objective.label,
        k=objective.k,
        target=objective.target,
        p0=monitor.p0,
        method=objective.method,
        block=monitor.block,
        blocks=monitor.blocks,
        n=monitor.n,
        c=monitor.c,
        pending=pending,
        e_value=monitor.e_value,
        alpha=objective.alpha,
        alarm=monitor.alarmed_ns is not None,
        alarmed_at=_iso(monitor.alarmed_ns),
        target_run_length=objective.target_run_length,
        changes=monitor.changes,
        changed_at=_iso(monitor.changed_ns),
    )


def _named(key: GroupKey) -> str:
    parts = {"agent": key.agent, "version": key.agent_version, "environment": key.environment, "service": key.service}
    return ", ".join(f"{name} {value}" for name, value in parts.items() if value) or "agent without a name"


def _second(time_ns: int) -> str:
    return f"{datetime.fromtimestamp(time_ns // NS_PER_S, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _iso(time_ns: int | None) -> str | None:
    return None if time_ns is None else iso(time_ns)
