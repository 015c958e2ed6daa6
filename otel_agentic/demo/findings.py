"""The results that the demo queries from the collector, and the telemetry that must have arrived in the backend."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.demo.processes import NEW, TRIP_PLANNER, wait_until
from otel_agentic.demo.scenario import REVISED
from otel_agentic.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.commands.client import Client
    from otel_agentic.demo.backend import Received

Json = dict[str, Any]

#: The gauge that is compared with the report.
GAUGE: Final = "agentic.pass_pow_k.ratio"
GAUGE_K: Final = 3
#: The failing conversation in the output.
FAILING_CONVERSATION: Final = "milan-weekend-1.1.0-1"
_WINDOW: Final = "1h"
EVENT: Final = "gen_ai.evaluation.result"
_ARRIVAL_LIMIT_S: Final = 120.0
_SAME: Final = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault of one tool, with the versions of the agent in which it occurred."""

    agent: str
    tool: str
    dimension: str | None
    kind: str
    parameter: str | None
    expected: Any
    actual: Any
    count: int
    versions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The collector's results: report groups and one conversation as on the wire, faults, and late revisions."""

    groups: tuple[Json, ...]
    faults: tuple[Fault, ...]
    failing: Json
    revised: tuple[tuple[str, int, str], ...]

    def group(self, agent: str, version: str) -> Json:
        """Return the report of one version of one agent.

        Raises:
            BackendError: it is missing in the report; names it.
        """
        for group in self.groups:
            if (group["agent"], group["agent_version"]) == (agent, version):
                return group
        raise BackendError(f"the report lacks {agent} {version}")


def find(client: Client) -> Findings:
    """Return the collector's results after all conversations are scored.

    Raises:
        OtelAgenticError: it refuses one of the requests.
    """
    return Findings(
        groups=tuple(client.call("report", by=["version"])["groups"]),
        faults=group_faults(client.call("tools_failing")),
        failing=client.call("conversations_show", conversation_id=FAILING_CONVERSATION),
        revised=tuple((row[0], row[1], row[2]) for row in client.call("query", sql=REVISED)["rows"]),
    )


def group_faults(rows: Sequence[Json]) -> tuple[Fault, ...]:
    """Return the failing tools of all versions together, most frequent first."""
    rows_by_fault: dict[tuple[str, ...], list[Json]] = defaultdict(list)
    for row in rows:
        name = tuple(str(row[key]) for key in ("agent", "tool", "dimension", "fault", "parameter"))
        rows_by_fault[name].append(row)
    faults = [_fault(matching) for matching in rows_by_fault.values()]
    return tuple(sorted(faults, key=lambda fault: (-fault.count, fault.tool, fault.parameter or "")))


def _fault(rows: Sequence[Json]) -> Fault:
    first = rows[0]
    return Fault(
        agent=first["agent"],
        tool=first["tool"],
        dimension=first["dimension"],
        kind=first["fault"],
        parameter=first["parameter"],
        expected=first["expected"],
        actual=first["actual"],
        count=sum(row["faults"] for row in rows),
        versions=tuple(sorted(str(row["agent_version"]) for row in rows)),
    )


def pass_pow_k(group: Json) -> float:
    """Return the pass^k in the report that the displayed gauge must equal."""
    value: float = group["estimates"][group["default_estimator"]]["pass_pow_k"][str(GAUGE_K)]["value"]
    return value


def gauge_attributes(group: Json) -> dict[str, str | int]:
    """Return the attributes of the gauge with the value of a report group."""
    return {
        "gen_ai.agent.name": group["agent"],
        "gen_ai.agent.version": group["agent_version"],
        "agentic.k": GAUGE_K,
        "agentic.window": _WINDOW,
        "agentic.estimator": group["default_estimator"],
    }


def await_telemetry(received: Received, findings: Findings) -> None:
    """Wait until the backend has the events, and a gauge that equals the report.

    Raises:
        BackendError: they do not arrive in time; names the missing ones.
    """
    group = findings.group(TRIP_PLANNER, NEW)
    expected, attributes = pass_pow_k(group), gauge_attributes(group)

    def is_there() -> bool:
        value = received.gauge(GAUGE, attributes)
        return value is not None and abs(value - expected) < _SAME

    wait_until(
        is_there, f"{GAUGE} to arrive in the backend with the report's value {expected:.3f}", limit_s=_ARRIVAL_LIMIT_S
    )
    wait_until(lambda: received.events[EVENT] > 0, f"{EVENT} events to arrive in the backend", limit_s=_ARRIVAL_LIMIT_S)
