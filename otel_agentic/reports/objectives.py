"""Objectives of every group as of a watermark, made from the store; and what is said of them."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.reports.conversations import iso
from otel_agentic.store.results import watermark
from otel_agentic.store.windows import final_results, pending_results, result_digests, result_groups
from otel_agentic.windows.objectives import Finals, Monitor, objectives_of

if TYPE_CHECKING:
    from otel_agentic.config import Objective, SloSettings
    from otel_agentic.engine.engine import Engine
    from otel_agentic.store.connection import Connection
    from otel_agentic.windows import GroupKey

NS_PER_S: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """A group of which there are results, and what it is held to."""

    key: GroupKey
    objectives: tuple[Objective, ...]


class Monitors:
    """Every objective of every group, as of a watermark."""

    def __init__(self, slo: SloSettings) -> None:
        self._slo = slo
        self._monitors: dict[tuple[int, str], Monitor] = {}
        #: Of the results that were seen of each group, by its number.
        self._digests: dict[int, int] = {}
        #: Results up to this time were seen, inclusive, ns since the epoch; None before the first look.
        self.watermark_ns: int | None = None

    @property
    def all(self) -> list[Monitor]:
        """The monitors, sorted by group and objective; a group without an evaluated result has none."""
        return sorted(self._monitors.values(), key=lambda each: (each.key.sort_key(), each.objective.label))

    def groups(self, con: Connection) -> dict[int, _Group]:
        """Return the groups that are held to something, by number."""
        found = {
            subject: _Group(key=key, objectives=tuple(objectives_of(key.agent, self._slo.objectives)))
            for subject, key in result_groups(con).items()
        }
        return {subject: group for subject, group in found.items() if group.objectives}

    def of(self, subject: int, key: GroupKey, objective: Objective) -> Monitor:
        """Return the monitor of a group and objective, a new one where nothing was seen yet."""
        return self._monitors.get((subject, objective.label)) or Monitor.of(key, objective, self._slo.block)

    def advance(self, con: Connection, watermark_ns: int) -> bool:
        """Take in what became final up to the watermark; return whether there was anything. It never goes back."""
        seen_ns = self.watermark_ns
        if seen_ns is not None and watermark_ns <= seen_ns:
            return False
        since_ns = self._slo.since_ns
        if seen_ns is not None:
            since_ns = seen_ns + 1 if since_ns is None else max(seen_ns + 1, since_ns)
        groups, counted = self.groups(con), sum(each.blocks for each in self._monitors.values())
        found = final_results(con, list(groups), since_ns=since_ns, until_ns=watermark_ns)
        self._monitors |= {  # all at once: an error leaves everything as it was
            (subject, objective.label): after
            for subject, group in groups.items()
            for objective in group.objectives
            if (before := self._monitors.get((subject, objective.label))) or subject in found
            for after in [
                (before or self.of(subject, group.key, objective)).then(found.get(subject, Finals.none()), watermark_ns)
            ]
        }
        self._digests |= {subject: self._digests.get(subject, 0) ^ finals.digest for subject, finals in found.items()}
        self.watermark_ns = watermark_ns
        return bool(found) or counted != sum(each.blocks for each in self._monitors.values())

    def anew(self, con: Connection) -> bool:
        """Begin anew, up to the watermark, with each group of which a result changed; return whether there was one."""
        until_ns = self.watermark_ns
        if until_ns is None:
            return False
        groups, since_ns = self.groups(con), self._slo.since_ns
        digests = result_digests(con, list(groups), since_ns=since_ns, until_ns=until_ns)
        changed = {each for each in groups if digests.get(each, 0) != self._digests.get(each, 0)}
        found = final_results(con, sorted(changed), since_ns=since_ns, until_ns=until_ns)
        kept = {known: monitor for known, monitor in self._monitors.items() if known[0] not in changed}
        self._monitors = kept | {
            (subject, objective.label): Monitor.of(groups[subject].key, objective, self._slo.block).then(
                finals, until_ns
            )
            for subject, finals in found.items()
            for objective in groups[subject].objectives
        }
        self._digests |= {subject: found[subject].digest if subject in found else 0 for subject in changed}
        return bool(changed)


def objectives_report(engine: Engine, agent: str | None = None) -> list[dict[str, Any]]:
    """Return what a report says of objectives: one object for each group and objective, made from the store.

    It counts from `slo.since` (or from the first conversation) to the watermark, whatever else the report is about.

    Args:
        engine: the opened store.
        agent: only agents whose name fits this glob.

    Returns:
        Sorted by group and objective. Times are ISO 8601 text, null where there is none; `pending` evaluated
        conversations are not final yet, and not among the `n`.
    """
    slo = engine.settings.slo
    monitors = Monitors(slo)
    with engine.store.read() as con:
        until_ns = watermark(con, engine.clock(), int(engine.settings.windows.lateness_s * NS_PER_S))
        monitors.advance(con, until_ns)
        groups = monitors.groups(con)
        pending = pending_results(con, until_ns, slo.since_ns)
    rows = [
        (monitor, pending.get(subject, 0) + monitor.waiting.correct.size)
        for subject, group in groups.items()
        if agent is None or fnmatchcase(group.key.agent or "", agent)
        for objective in group.objectives
        for monitor in [monitors.of(subject, group.key, objective)]
    ]
    rows.sort(key=lambda row: (row[0].key.sort_key(), row[0].objective.label))
    return [_monitor_json(monitor, waiting) for monitor, waiting in rows if monitor.n or waiting]


def alarm_text(monitor: Monitor) -> str:
    """Return the log line of a broken objective."""
    objective = monitor.objective
    return (
        f"{_named(monitor.key)}: {objective.label} is broken: e-value {monitor.e_value:.3g} after {monitor.n:,} "
        f"conversations{_in_blocks(monitor)}, {monitor.c:,} of them correct; it reached {1 / objective.alpha:.4g} with the one that ended "
        f"{_iso(monitor.alarmed_ns)}. Such an alarm is false in at most {100 * objective.alpha:.3g} % of agents, ever"
    )


def change_text(monitor: Monitor) -> str:
    """Return the log line of a fall below what was promised."""
    return (
        f"{_named(monitor.key)}: the pass rate seems to have fallen below {monitor.p0:.3f} "
        f"({monitor.objective.label}), seen at the conversation that ended {_iso(monitor.changed_ns)}. Where it did not, "
        f"such alarms are {monitor.objective.target_run_length:,.6g} "
        f"{'conversations' if monitor.block == 'none' else 'blocks'} apart or more, on average"
    )


def _in_blocks(monitor: Monitor) -> str:
    return "" if monitor.block == "none" else f" in {monitor.blocks:,} blocks"


def _monitor_json(monitor: Monitor, pending: int) -> dict[str, Any]:
    key, objective = monitor.key, monitor.objective
    return {
        "agent": key.agent,
        "agent_version": key.agent_version,
        "environment": key.environment,
        "service": key.service,
        "objective": objective.label,
        "k": objective.k,
        "target": objective.target,
        "p0": monitor.p0,
        "method": objective.method,
        "block": monitor.block,
        "blocks": monitor.blocks,
        "n": monitor.n,
        "c": monitor.c,
        "pending": pending,
        "e_value": monitor.e_value,
        "alpha": objective.alpha,
        "alarm": monitor.alarmed_ns is not None,
        "alarmed_at": _iso(monitor.alarmed_ns),
        "target_run_length": objective.target_run_length,
        "changes": monitor.changes,
        "changed_at": _iso(monitor.changed_ns),
    }


def _named(key: GroupKey) -> str:
    told = {"agent": key.agent, "version": key.agent_version, "environment": key.environment, "service": key.service}
    return ", ".join(f"{name} {value}" for name, value in told.items() if value) or "agent without a name"


def _iso(time_ns: int | None) -> str | None:
    return None if time_ns is None else iso(time_ns)
