"""Runs the demo: agents, collector and backend, and prints the results."""

from __future__ import annotations

import json
import shlex
import signal
import sys
import threading
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from otel_agentic.demo.backend import running_backend
from otel_agentic.demo.findings import EVENT, GAUGE, GAUGE_K, await_telemetry, find, gauge_attributes
from otel_agentic.demo.processes import NEW, TRIP_PLANNER, running_agents, running_collector, wait_until
from otel_agentic.demo.scenario import PROGRESS, REVISED
from otel_agentic.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_agentic.commands.client import Client
    from otel_agentic.demo.backend import Received
    from otel_agentic.demo.findings import Fault, Findings, Json
    from otel_agentic.demo.processes import Sent, Service

#: The metrics that are shown, in words: one or two of each family that needs no model, and a label of one.
_METRICS: Final = (
    ("its calls broke first", "agentic.layers.verdict", "action"),
    ("tool F1", "agentic.layers.tool_f1", None),
    ("arguments valid", "agentic.layers.parameter_validity", None),
    ("exact trajectory", "agentic.trajectory.exact", None),
    ("tool calls", "agentic.operations.tool_calls", None),
    ("retries", "agentic.operations.retries", None),
)
_COLOURS: Final = {"ready": "green", "not_ready": "red", "insufficient_evidence": "cyan"}


def show(out: Console, found: Findings, received: Received, *, db: Path, program: str) -> None:
    """Print everything, in the order in which a reader asks; `program` is the command line as a shell starts it."""
    _title(out, "How reliable is each agent?", "pooled unless marked, with 95 % intervals")
    out.print(reliability(found.groups))
    out.print()
    for group in found.groups:
        out.print(tier(group))
    _title(out, "What is wrong with which tool?", "and in which version")
    out.print(failing_tools(found.faults))
    for line in revisions(found):
        out.print(f"\n{line}")
    _title(out, "What else do the metrics say?", "some of them; `otel-agentic report` has all")
    out.print(metrics(found.groups))
    _title(out, "One failing conversation, expected beside made", found.failing["conversation"]["conversation_id"])
    for part in conversation(found.failing):
        out.print(part)
    out.print(verdict(found.failing))
    _title(out, "What the telemetry backend received", "over OTLP, from the collector")
    for line in telemetry(found, received):
        out.print(line)
    _title(out, "Now you", "the collector is stopped; its store is one open file")
    out.print(escape(f"{program} report --db {shlex.quote(str(db))} --by version"), soft_wrap=True)


def _title(out: Console, question: str, note: str) -> None:
    out.print(f"\n[bold]{question}[/]  [dim]{escape(note)}[/]", soft_wrap=True)


def reliability(groups: Sequence[Json]) -> Table:
    """Return the reliability table."""
    table = _table("agent", "right", "coverage", "pass@1", "pass^3", "pass^3, per case", right=("right", "coverage"))
    for group in groups:
        pooled, per_case = group["pooled"], group["per_case"]
        rates = (pooled["pass_at_k"]["1"], pooled["pass_pow_k"]["3"], per_case["pass_pow_k"]["3"])
        counts = (f"{group['c']}/{group['n']}", f"{group['coverage']:.0%}")
        table.add_row(_name(group), *counts, *map(_interval, rates))
    return table


def tier(group: Json) -> str:
    """Return the tier as a sentence: a claim, or what it leans to and how much evidence is missing."""
    name = group["tier"]
    parts = [f"{_name(group)}: [{_COLOURS.get(name, 'yellow')}]{name}[/]"]
    if group["leaning"] is not None:
        more = f", {group['needed']} more conversations at this rate would settle it" if group["needed"] else ""
        parts.append(f"leaning {group['leaning']}{more}")
    parts += [f"{count} not evaluated ({reason})" for reason, count in group["not_evaluated"].items()]
    return "; ".join(parts)


def failing_tools(faults: Sequence[Fault]) -> Table:
    """Return the failing tools, a line for each fault."""
    table = _table("tool", "dimension", "fault", "times", "in version", right=("times",))
    for fault in faults:
        versions = ", ".join(fault.versions)
        seen = f"[red]{versions} only[/]" if fault.versions == (NEW,) else versions
        table.add_row(fault.tool, fault.dimension or "none", escape(_what(fault)), str(fault.count), seen)
    return table


def metrics(groups: Sequence[Json]) -> Table:
    """Return what metrics beyond right and wrong say of each agent: a mean, or how often a label was given."""
    names = [_name(group) for group in groups]
    table = _table("mean, or how often", *names, right=names)
    for words, name, label in _METRICS:
        table.add_row(words, *(_metric(group, name, label) for group in groups))
    return table


def conversation(found: Json) -> Iterator[str | Table]:
    """Yield, for each turn of one conversation, the user's query, then expected beside made."""
    expected = found["score"]["case"]["turns"]
    for turn, score in zip(found["conversation"]["turns"], found["score"]["turn_scores"], strict=True):
        case = expected[score["case_turn_index"]]
        yield f"[bold]user: {escape(turn['query'])}[/]"
        table = _table("", "expected", "made")
        for wanted, made in _beside(case["tools"]["calls"], turn["tools"]):
            table.add_row("call", escape(wanted), "as expected" if made == wanted else f"[red]{escape(made)}[/]")
        answer = escape(turn["answer"] or "")
        said = answer if score["answer_outcome"] == "pass" else f"[red]{answer}[/]"
        table.add_row("answer", escape(case.get("answer") or ""), said)
        yield table


def verdict(found: Json) -> str:
    """Return what was decided of a conversation, and why."""
    score = found["score"]
    return f"[red]{score['outcome']}[/] ({score['reason']}): {escape(score['explanation'])}"


def telemetry(found: Findings, received: Received) -> list[str]:
    """Return what arrived in the backend, line by line."""
    group = found.group(TRIP_PLANNER, NEW)
    ours = {name: count for name, count in received.points.items() if name.startswith("agentic.")}
    points = f"{sum(ours.values()):,} points of {len(ours)} metrics, {received.events[EVENT]:,} {EVENT} events"
    subject = f'gen_ai.agent.name="{group["agent"]}", gen_ai.agent.version="{group["agent_version"]}"'
    arrived = received.gauge(GAUGE, gauge_attributes(group))
    told = f"{GAUGE}{{{subject}, agentic.k={GAUGE_K}}} = {arrived:.4f}, as pass^{GAUGE_K} in the table"
    return [points, escape(told)]


def revisions(found: Findings) -> list[str]:
    """Return what became of conversations whose spans came late."""
    return [
        f"A tool span of {name} came after the conversation had closed: revision {revision} took its place ({outcome})."
        for name, revision, outcome in found.revised
    ]


def _what(fault: Fault) -> str:
    if fault.parameter is None:
        return {"missing": "missing: not called", "errored": "errored: then tried again"}.get(fault.kind, fault.kind)
    return f"{fault.parameter}: expected {_json(fault.expected)}, actual {_json(fault.actual)}"


def _metric(group: Json, name: str, label: str | None) -> str:
    found = next((metric for metric in group["metrics"] if metric["name"] == name), None)
    if found is None or not found["n"]:
        return "no data"
    return f"{found['mean']:.2f}" if label is None else f"{found['labels'].get(label, 0)} of {found['n']}"


def _beside(expected: Sequence[Json], made: Sequence[Json]) -> list[tuple[str, str]]:
    wanted = [_call(call["tool_name"], call["parameters"]) for call in expected]
    asked = [_call(call["name"], call["arguments"]) for call in made]
    return list(zip_longest(wanted, asked, fillvalue=""))


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
    """Run the demo, print what it found, and return the exit code 0. Nothing is left running.

    Args:
        out: where to print; None prints on standard output.
        keep: an existing or new folder for the DuckDB file; None makes a temporary one, which stays.
        program: how a shell starts the command line; the last line printed is a command to go on with.

    Raises:
        UsageError: the extra `demo` is not installed, or `keep` holds the file of an earlier demo.
        BackendError: something did not start, or did not arrive; names it.
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
        out.print(f"[dim]{_told(sent)}[/]")
        _send_late(collector.client, services, expected=sum(each.held_back for each in sent))
        found = find(collector.client)
        await_telemetry(backend.received, found)
    show(out, found, backend.received, db=db, program=program)
    return 0


@contextmanager
def _orderly_end() -> Iterator[None]:
    """Let a request to terminate unwind the stack, as Ctrl-C does, so that no process stays behind."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
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
        raise UsageError(f"{db} is there already, from an earlier demo; give another folder, or remove it")
    return db


def _await_scores(client: Client, services: Sequence[Service]) -> list[Sent]:
    """Return what the agents sent, when all of it is stored, and each conversation closed and scored."""
    sent = [service.sent() for service in services]
    wanted = [sum(each.spans for each in sent), sum(each.conversations for each in sent)]
    wait_until(
        lambda: client.call("query", sql=PROGRESS)["rows"][0] == wanted,
        f"{wanted[0]} spans to arrive and {wanted[1]} conversations to close and be scored",
        limit_s=_SCORED_LIMIT_S,
    )
    return sent


def _send_late(client: Client, services: Sequence[Service], *, expected: int) -> None:
    """Let the spans go that were kept back until their conversations were closed, and await the new revisions."""
    for service in services:
        service.finish()
    wait_until(
        lambda: len(client.call("query", sql=REVISED)["rows"]) == expected,
        f"{expected} conversations to be scored again after their late spans",
        limit_s=_SCORED_LIMIT_S,
    )


def _told(sent: Sequence[Sent]) -> str:
    conversations, spans = sum(each.conversations for each in sent), sum(each.spans for each in sent)
    late = sum(each.held_back for each in sent)
    return f"{conversations} conversations, {spans} spans over OTLP/HTTP and OTLP/gRPC, and {late} span too late …"
