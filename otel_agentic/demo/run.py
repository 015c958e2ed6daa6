"""Runs the demo: recorded or live agents against a live collector, whose telemetry arrives in a minimal backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from otel_agentic.demo.processes import (
    NEW,
    TRIP_PLANNER,
    Received,
    Running,
    Service,
    running_agents,
    running_backend,
    running_collector,
)
from otel_agentic.demo.recordings import Replay, Sent
from otel_agentic.demo.scenario import PROGRESS, REVISED
from otel_agentic.errors import BackendError, UsageError
from otel_agentic.live.attempts import orderly_end
from otel_agentic.results.failures import FailureReport
from otel_agentic.results.reports import Report, ReportGroup

if TYPE_CHECKING:
    from otel_agentic.commands.client import Client

CASES: Final = Path(__file__).with_name("cases.jsonl")
DB_NAME: Final = "demo.duckdb"
#: The gauge that is compared with the report, its k and its window.
GAUGE: Final = "agentic.pass_pow_k.ratio"
GAUGE_K: Final = 3
_WINDOW: Final = "1h"
EVENT: Final = "gen_ai.evaluation.result"
_SAME: Final = 1e-9
#: The number of root causes in the output.
_CAUSES: Final = 3
#: Packages that the live agents need, and the collector does not.
_EXTRA: Final = (
    "langchain",
    "openinference.instrumentation.langchain",
    "opentelemetry.instrumentation.genai.langchain",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """The telemetry that arrived in the backend: its counts, and the value of one gauge, with its attributes."""

    points: int
    metrics: int
    events: int
    gauge: float
    attributes: dict[str, str | int]

    @property
    def gauge_text(self) -> str:
        """The gauge as a sentence."""
        agent, version = self.attributes["gen_ai.agent.name"], self.attributes["gen_ai.agent.version"]
        return f"pass^{GAUGE_K} of {agent} {version} is {self.gauge:.4f} there, too"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """The results of the demo, and the store that has them.

    `revised` are the conversations to which late spans were added: id, revision and outcome.
    """

    db: Path
    sent: Sent
    report: Report
    failures: FailureReport
    revised: tuple[tuple[str, int, str], ...]
    telemetry: Telemetry


def run_demo(folder: Path, progress: Callable[[str], None], *, live: bool = False) -> DemoResult:
    """Run the demo and return its results; all its processes are stopped.

    Args:
        folder: the folder of the DuckDB file, which must not contain one yet.
        progress: receives a line about each stage.
        live: run the real agents, which needs the extra `demo`, instead of their recordings.

    Raises:
        UsageError: the extra is not installed.
        BackendError: a process failed; names it.
    """
    if live:
        _require_extra()
    db = folder / DB_NAME
    progress("Starting a collector and a telemetry backend on free ports …")
    with (
        orderly_end(),
        running_backend() as backend,
        running_collector(db, CASES, backend.endpoint) as collector,
        running_agents(collector.server, live=live) as agents,
    ):
        progress(f"{'Running' if live else 'Replaying recordings of'} three real agents over OTLP/HTTP and OTLP/gRPC …")
        sent = _await_scores(collector, agents)
        _send_late(collector, agents, expected=sent.held_back)
        report = collector.client.get(Report, "report", by=["version"], metrics=[])
        return DemoResult(
            db=db,
            sent=sent,
            report=report,
            failures=collector.client.get(FailureReport, "failures", limit=_CAUSES, records=0),
            revised=_revised(collector.client),
            telemetry=_await_telemetry(collector, backend.received, _group(report, TRIP_PLANNER, NEW)),
        )


def _require_extra() -> None:
    missing = [name for name in _EXTRA if not _is_installed(name)]
    if missing:
        raise UsageError(f"demo --live needs {', '.join(missing)}: pip install 'otel-agentic[demo]'")


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a package above it is missing
        return False


def _await_scores(collector: Running, agents: Sequence[Service | Replay]) -> Sent:
    """Return the counts of all agents after their spans are stored and their conversations are scored."""
    counts = [agent.sent() for agent in agents]
    sent = Sent(
        conversations=sum(count.conversations for count in counts),
        spans=sum(count.spans for count in counts),
        held_back=sum(count.held_back for count in counts),
    )
    collector.wait_until(
        lambda: collector.client.call("query", sql=PROGRESS)["rows"][0] == [sent.spans, sent.conversations],
        f"{sent.spans} spans to arrive and {sent.conversations} conversations to be scored",
    )
    return sent


def _send_late(collector: Running, agents: Sequence[Service | Replay], *, expected: int) -> None:
    """Send the spans that were delayed until their conversations were closed, and wait for the new revisions."""
    for agent in agents:
        agent.finish()
    collector.wait_until(
        lambda: len(_revised(collector.client)) == expected,
        f"{expected} conversations to be scored again after their late spans",
    )


def _revised(client: Client) -> tuple[tuple[str, int, str], ...]:
    return tuple((row[0], row[1], row[2]) for row in client.call("query", sql=REVISED)["rows"])


def _group(report: Report, agent: str, version: str) -> ReportGroup:
    for group in report.groups:
        if (group.agent, group.agent_version) == (agent, version):
            return group
    raise BackendError(f"the report lacks {agent} {version}")


def _await_telemetry(collector: Running, received: Received, group: ReportGroup) -> Telemetry:
    """Wait until the backend has the events, and a gauge that equals the report."""
    expected = group.estimates[group.default_estimator].pass_pow_k[str(GAUGE_K)].value
    attributes: dict[str, str | int] = {
        "gen_ai.agent.name": str(group.agent),
        "gen_ai.agent.version": str(group.agent_version),
        "agentic.k": GAUGE_K,
        "agentic.window": _WINDOW,
        "agentic.estimator": group.default_estimator,
    }

    def value() -> float | None:
        gauge = received.gauge(GAUGE, attributes)
        return gauge if gauge is not None and abs(gauge - (expected or 0.0)) < _SAME else None

    collector.wait_until(
        lambda: value() is not None and received.events[EVENT] > 0,
        f"{GAUGE} with the report's value {expected} and {EVENT} events to arrive in the backend",
    )
    own = {name: count for name, count in received.points.items() if name.startswith("agentic.")}
    return Telemetry(
        points=sum(own.values()),
        metrics=len(own),
        events=received.events[EVENT],
        gauge=value() or 0.0,
        attributes=attributes,
    )
