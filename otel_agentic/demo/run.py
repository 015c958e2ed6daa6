"""Runs the demo, queries its results from the collector, and checks the telemetry that must have arrived in the backend."""

from __future__ import annotations

import json
import shlex
import signal
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from otel_agentic.demo.processes import (
    NEW,
    TRIP_PLANNER,
    Received,
    Sent,
    Service,
    running_agents,
    running_backend,
    running_collector,
    wait_until,
)
from otel_agentic.demo.scenario import PROGRESS, REVISED
from otel_agentic.errors import BackendError, UsageError

if TYPE_CHECKING:
    from otel_agentic.commands.client import Client

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
    faults = [_fault(fault_rows) for fault_rows in rows_by_fault.values()]
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


#: The displayed metrics with their captions: one or two of each family that needs no model, and a label of one.
_METRICS: Final = (
    ("its calls broke first", "agentic.layers.verdict", "action"),
    ("tool F1", "agentic.layers.tool_f1", None),
    ("arguments valid", "agentic.layers.parameter_validity", None),
    ("exact trajectory", "agentic.trajectory.exact", None),
    ("tool calls", "agentic.operations.tool_calls", None),
    ("retries", "agentic.operations.retries", None),
)
_COLOURS: Final = {"ready": "green", "not_ready": "red", "insufficient_evidence": "cyan"}


def show(out: Console, findings: Findings, received: Received, *, db: Path, program: str) -> None:
    """Print all results, in the order of a reader's questions; `program` is the command as it is called in a shell."""
    _title(out, "How reliable is each agent?", "pooled unless marked, with 95 % intervals")
    out.print(reliability(findings.groups))
    out.print()
    for group in findings.groups:
        out.print(tier(group))
    _title(out, "What is wrong with which tool?", "and in which version")
    out.print(failing_tools(findings.faults))
    for line in revisions(findings):
        out.print(f"\n{line}")
    _title(out, "What do other metrics show?", "a selection; `otel-agentic report` has all")
    out.print(metrics(findings.groups))
    _title(out, "One failing conversation, expected vs. actual", findings.failing["conversation"]["conversation_id"])
    for part in conversation(findings.failing):
        out.print(part)
    out.print(verdict(findings.failing))
    _title(out, "What the telemetry backend received", "over OTLP, from the collector")
    for line in telemetry(findings, received):
        out.print(line)
    _title(out, "Now you", "the collector is stopped; its store is one open file")
    out.print(escape(f"{program} report --db {shlex.quote(str(db))} --by version"), soft_wrap=True)


def _title(out: Console, question: str, note: str) -> None:
    out.print(f"\n[bold]{question}[/]  [dim]{escape(note)}[/]", soft_wrap=True)


def reliability(groups: Sequence[Json]) -> Table:
    """Return the reliability table."""
    table = _table("agent", "right", "coverage", "pass@1", "pass^3", "pass^3, per case", right=("right", "coverage"))
    for group in groups:
        pooled_estimates, per_case = group["pooled"], group["per_case"]
        rates = (pooled_estimates["pass_at_k"]["1"], pooled_estimates["pass_pow_k"]["3"], per_case["pass_pow_k"]["3"])
        counts = (f"{group['c']}/{group['n']}", f"{group['coverage']:.0%}")
        table.add_row(_name(group), *counts, *map(_interval, rates))
    return table


def tier(group: Json) -> str:
    """Return the tier as a sentence: a claim, or its tendency and the missing evidence."""
    name = group["tier"]
    parts = [f"{_name(group)}: [{_COLOURS.get(name, 'yellow')}]{name}[/]"]
    if group["leaning"] is not None:
        more = f", {group['needed']} more conversations at this rate would settle it" if group["needed"] else ""
        parts.append(f"leaning {group['leaning']}{more}")
    parts += [f"{count} not evaluated ({reason})" for reason, count in group["not_evaluated"].items()]
    return "; ".join(parts)


def failing_tools(faults: Sequence[Fault]) -> Table:
    """Return the failing tools, one line per fault."""
    table = _table("tool", "dimension", "fault", "times", "in version", right=("times",))
    for fault in faults:
        versions = ", ".join(fault.versions)
        versions_text = f"[red]{versions} only[/]" if fault.versions == (NEW,) else versions
        table.add_row(
            fault.tool, fault.dimension or "none", escape(_fault_text(fault)), str(fault.count), versions_text
        )
    return table


def metrics(groups: Sequence[Json]) -> Table:
    """Return other metrics of each agent: a mean, or the number of results with a label."""
    names = [_name(group) for group in groups]
    table = _table("mean, or count", *names, right=names)
    for caption, name, label in _METRICS:
        table.add_row(caption, *(_metric(group, name, label) for group in groups))
    return table


def conversation(payload: Json) -> Iterator[str | Table]:
    """Yield, for each turn of one conversation, the user's query, then expected vs. actual calls."""
    expected = payload["score"]["case"]["turns"]
    for turn, score in zip(payload["conversation"]["turns"], payload["score"]["turn_scores"], strict=True):
        case = expected[score["case_turn_index"]]
        yield f"[bold]user: {escape(turn['query'])}[/]"
        table = _table("", "expected", "actual")
        for expected_call, actual_call in _pair_calls(case["tools"]["calls"], turn["tools"]):
            table.add_row(
                "call",
                escape(expected_call),
                "as expected" if actual_call == expected_call else f"[red]{escape(actual_call)}[/]",
            )
        answer = escape(turn["answer"] or "")
        actual_answer = answer if score["answer_outcome"] == "pass" else f"[red]{answer}[/]"
        table.add_row("answer", escape(case.get("answer") or ""), actual_answer)
        yield table


def verdict(payload: Json) -> str:
    """Return the outcome of a conversation with its reason."""
    score = payload["score"]
    return f"[red]{score['outcome']}[/] ({score['reason']}): {escape(score['explanation'])}"


def telemetry(findings: Findings, received: Received) -> list[str]:
    """Return the data in the backend, line by line."""
    group = findings.group(TRIP_PLANNER, NEW)
    ours = {name: count for name, count in received.points.items() if name.startswith("agentic.")}
    points = f"{sum(ours.values()):,} points of {len(ours)} metrics, {received.events[EVENT]:,} {EVENT} events"
    subject = f'gen_ai.agent.name="{group["agent"]}", gen_ai.agent.version="{group["agent_version"]}"'
    gauge_value = received.gauge(GAUGE, gauge_attributes(group))
    gauge = f"{GAUGE}{{{subject}, agentic.k={GAUGE_K}}} = {gauge_value:.4f}, as pass^{GAUGE_K} in the table"
    return [points, escape(gauge)]


def revisions(findings: Findings) -> list[str]:
    """Return the new revisions of conversations with late spans."""
    return [
        f"A tool span of {name} arrived after the conversation had closed: revision {revision} replaced it ({outcome})."
        for name, revision, outcome in findings.revised
    ]


def _fault_text(fault: Fault) -> str:
    if fault.parameter is None:
        return {"missing": "missing: not called", "errored": "errored: then tried again"}.get(fault.kind, fault.kind)
    return f"{fault.parameter}: expected {_json(fault.expected)}, actual {_json(fault.actual)}"


def _metric(group: Json, name: str, label: str | None) -> str:
    result = next((metric for metric in group["metrics"] if metric["name"] == name), None)
    if result is None or not result["n"]:
        return "no data"
    return f"{result['mean']:.2f}" if label is None else f"{result['labels'].get(label, 0)} of {result['n']}"


def _pair_calls(expected: Sequence[Json], actual: Sequence[Json]) -> list[tuple[str, str]]:
    expected_calls = [_call(call["tool_name"], call["parameters"]) for call in expected]
    actual_calls = [_call(call["name"], call["arguments"]) for call in actual]
    return list(zip_longest(expected_calls, actual_calls, fillvalue=""))


def _call(name: str, arguments: Mapping[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={_json(value)}' for key, value in arguments.items())})"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _name(group: Json) -> str:
    return escape(f"{group['agent']} {group['agent_version']}")


def _interval(estimate: Json) -> str:
    if estimate["value"] is None:
        return "no data"
    low, high = _ratio(estimate["lower"]), _ratio(estimate["upper"])
    return escape(f"{_ratio(estimate['value'])} [{low},{high}]")


def _ratio(value: float) -> str:
    text = f"{value:.2f}"
    return "1.0" if text == "1.00" else text.removeprefix("0")


def _table(*columns: str, right: Sequence[str] = ()) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table


CASES: Final = Path(__file__).with_name("cases.jsonl")
DB_NAME: Final = "demo.duckdb"
#: Packages that the agents need, and the collector does not.
_EXTRA: Final = (
    "langchain",
    "openinference.instrumentation.langchain",
    "opentelemetry.instrumentation.genai.langchain",
)
_SCORED_LIMIT_S: Final = 120.0


def run_demo(out: Console | None = None, keep: Path | None = None, program: str = "otel-agentic") -> int:
    """Run the demo, print its results, and return the exit code 0. All processes are stopped.

    Args:
        out: the console; None prints on standard output.
        keep: an existing or new folder for the DuckDB file; None creates a temporary one, which is kept.
        program: the command as it is called in a shell; the last line printed is a command to continue with.

    Raises:
        UsageError: the extra `demo` is not installed, or `keep` contains the file of an earlier demo.
        BackendError: a process did not start, or data did not arrive; names it.
    """
    _require_extra()
    db = _new_file(keep)
    out = out or Console(highlight=False)
    out.print("[dim]Starting a collector, three agents and a telemetry backend on free ports …[/]")
    with (
        _orderly_end(),
        running_backend() as backend,
        running_collector(db, CASES, backend.endpoint) as collector,
        running_agents(collector.server) as services,
    ):
        sent = _await_scores(collector.client, services)
        out.print(f"[dim]{_summary(sent)}[/]")
        _send_late(collector.client, services, expected=sum(service.held_back for service in sent))
        findings = find(collector.client)
        await_telemetry(backend.received, findings)
    show(out, findings, backend.received, db=db, program=program)
    return 0


@contextmanager
def _orderly_end() -> Iterator[None]:
    """Let SIGTERM unwind the stack, like Ctrl-C, so that no process is left running."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals can be handled only in the main thread
        return
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _require_extra() -> None:
    missing = [name for name in _EXTRA if not _is_installed(name)]
    if missing:
        raise UsageError(f"the demo needs {', '.join(missing)}: pip install 'otel-agentic[demo]'")


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a package above it is missing
        return False


def _new_file(keep: Path | None) -> Path:
    folder = Path(mkdtemp(prefix="otel-agentic-demo-")) if keep is None else keep.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    db = folder / DB_NAME
    if db.exists():
        raise UsageError(f"{db} exists already, from an earlier demo; use another folder, or remove it")
    return db


def _await_scores(client: Client, services: Sequence[Service]) -> list[Sent]:
    """Return the agents' counts after all spans are stored, and all conversations are closed and scored."""
    sent = [service.sent() for service in services]
    expected = [sum(counts.spans for counts in sent), sum(counts.conversations for counts in sent)]
    wait_until(
        lambda: client.call("query", sql=PROGRESS)["rows"][0] == expected,
        f"{expected[0]} spans to arrive and {expected[1]} conversations to close and be scored",
        limit_s=_SCORED_LIMIT_S,
    )
    return sent


def _send_late(client: Client, services: Sequence[Service], *, expected: int) -> None:
    """Send the spans that were delayed until their conversations were closed, and wait for the new revisions."""
    for service in services:
        service.finish()
    wait_until(
        lambda: len(client.call("query", sql=REVISED)["rows"]) == expected,
        f"{expected} conversations to be scored again after their late spans",
        limit_s=_SCORED_LIMIT_S,
    )


def _summary(sent: Sequence[Sent]) -> str:
    conversations, spans = sum(counts.conversations for counts in sent), sum(counts.spans for counts in sent)
    late = sum(counts.held_back for counts in sent)
    return f"{conversations} conversations, {spans} spans over OTLP/HTTP and OTLP/gRPC, and {late} late span …"
