"""Print the size and shape of the product: logical lines, files, import circles, and the files that one span enters.

A logical line contains a token; blank lines, comments and docstrings do not count. Import circles are groups of modules
that import each other, directly or through others; imports for type checking and inside functions count too. For the
trip of a span, a collector runs in this process, receives one conversation over gRPC, and every call into the product
is recorded until `/metrics` contains pass@k.

Run it as `python -m tools.house_figures [ROOT]`, where ROOT is a checkout to measure with this interpreter; it never
fails because of a figure.
"""

from __future__ import annotations

import ast
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import tokenize
import urllib.request
from collections import Counter
from collections.abc import Container, Iterator
from pathlib import Path
from types import FrameType
from typing import Final

from tools.generated import ROOT

PACKAGES: Final = ("otel_agentic", "collectors")
_NO_CODE: Final = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
}  # fmt: skip
_FUNCTION_BODY: Final = 1  # CO_OPTIMIZED: set for functions, not for modules and classes, whose bodies run at import
_WAIT_S: Final = 60.0
_METRIC: Final = "agentic_pass_at_k_ratio"


def logical_lines(source: str) -> int:
    r"""Return the number of lines with a token, without docstrings.

    >>> logical_lines('def f():\n    "Return."\n\n    # why\n    return (1,\n        2)\n')
    3
    """
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in _NO_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node
        ):
            docstring = node.body[0]
            lines -= set(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    return len(lines)


def product_files(root: Path) -> list[Path]:
    """Return the Python files of the product, sorted."""
    return sorted(path for package in PACKAGES for path in (root / package).rglob("*.py"))


def import_circles(root: Path) -> list[list[str]]:
    """Return the groups of modules that import each other, each sorted."""
    paths = {_module(path, root): path for path in product_files(root)}
    graph = {name: set(_imported(path, paths)) - {name} for name, path in paths.items()}
    reached = {name: _reachable(name, graph) for name in graph}
    circles = {
        tuple(sorted(other for other in others if name in reached.get(other, ())))
        for name, others in reached.items()
        if name in others
    }
    return [list(circle) for circle in sorted(circles)]


def _reachable(name: str, graph: dict[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    waiting = [name]
    while waiting:
        new = graph.get(waiting.pop(), set()) - reached
        reached |= new
        waiting += new
    return reached


def _module(path: Path, root: Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def _imported(path: Path, modules: Container[str]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                target = f"{node.module}.{alias.name}"
                yield target if target in modules else node.module


def trip() -> set[str]:
    """Return the files of the product that a conversation enters between the gRPC port and `/metrics`."""
    from otel_agentic import LiveCollector, load_settings  # noqa: PLC0415 — this process measures one checkout

    files: Counter[str] = Counter()
    packages = tuple(
        f"{Path(sys.modules['otel_agentic'].__file__ or '').parents[1]}/{package}/" for package in PACKAGES
    )

    def record(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_flags & _FUNCTION_BODY and code.co_filename.startswith(packages):
            files[code.co_filename] += 1

    with tempfile.TemporaryDirectory() as folder:
        settings = load_settings(
            store={"db": Path(folder) / "t.duckdb"},
            receive={"grpc": "127.0.0.1:0", "http": "127.0.0.1:0"},
            admin={"address": "127.0.0.1:0"},
            conversations={"turn_idle_s": 0.05, "idle_s": 0.2, "idle_without_id_s": 0.2},
            windows={"widths": ["1h"], "step_s": 1, "lateness_s": 1e-3},
        )
        threading.setprofile(record)
        collector = LiveCollector(settings)
        try:
            addresses = collector.start()
            collector.run("truth_import", {"cases": [("cases.jsonl", json.dumps(_CASE))]})
            files.clear()  # starting is not part of the trip
            _send(str(addresses.grpc).removeprefix("http://"))
            _await_metric(f"{addresses.admin}/metrics")
            return set(files)
        finally:
            threading.setprofile(None)
            collector.stop()


_CASE: Final = {
    "case_id": "where",
    "turns": [{"query": "Where is my order?", "answer": "It arrives on Monday."}],
    "tools": {"calls": [{"tool_name": "look_up", "parameters": {"order": "A1"}}]},
}


def _send(address: str) -> None:
    """Export one conversation, of an agent run with a model call and a tool call, over OTLP/gRPC."""
    import grpc  # type: ignore[import-untyped]  # noqa: PLC0415 — only the trip needs it
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest  # noqa: PLC0415 — same
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue  # noqa: PLC0415 — same

    def attributes(values: dict[str, str]) -> list[KeyValue]:
        return [KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in values.items()]

    def messages(role: str, text: str) -> str:
        return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])

    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.extend(attributes({"service.name": "shop"}))
    scope = resource.scope_spans.add()
    exchange = {
        "gen_ai.input.messages": messages("user", "Where is my order?"),
        "gen_ai.output.messages": messages("assistant", "It arrives on Monday."),
    }
    call = {
        "gen_ai.tool.name": "look_up",
        "gen_ai.tool.call.arguments": '{"order": "A1"}',
        "gen_ai.tool.call.result": "ok",
    }
    run = {"gen_ai.agent.name": "clerk", "gen_ai.conversation.id": "c1", "agentic.conversation.end": "true"}
    now_ns = time.time_ns()
    for number, (operation, values) in enumerate(
        [("invoke_agent", run | exchange), ("chat", exchange), ("execute_tool", call)], start=1
    ):
        scope.spans.add(
            trace_id=bytes(15) + b"\x01",
            span_id=bytes(7) + bytes([number]),
            parent_span_id=b"" if number == 1 else bytes(7) + b"\x01",
            name=operation,
            start_time_unix_nano=now_ns - 5_000_000_000 + number,
            end_time_unix_nano=now_ns - 4_000_000_000 - number,
            attributes=attributes({"gen_ai.operation.name": operation, **values}),
        )
    with grpc.insecure_channel(address) as channel:
        export = channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")
        export(request.SerializeToString(), timeout=_WAIT_S)


def _await_metric(url: str) -> None:
    deadline = time.monotonic() + _WAIT_S
    while time.monotonic() < deadline:
        with urllib.request.urlopen(url, timeout=_WAIT_S) as response:  # noqa: S310 — our own collector, on this machine
            if _METRIC in response.read().decode():
                return
        time.sleep(0.05)


def report(root: Path) -> Iterator[str]:
    """Yield the lines of the figures of a checkout."""
    sources = {path.relative_to(root): path.read_text(encoding="utf-8") for path in product_files(root)}
    lines: Counter[str] = Counter()
    files: Counter[str] = Counter()
    folders: Counter[str] = Counter()
    for path, source in sources.items():
        package = "/".join(path.parent.parts[:2])
        lines[package] += logical_lines(source)
        files[package] += 1
        folders[path.parent.as_posix()] += 1
    yield f"{'package':32} {'files':>6} {'logical lines':>14}"
    yield from (f"{package:32} {files[package]:6} {count:14,}" for package, count in sorted(lines.items()))
    yield f"{'in all':32} {len(sources):6} {sum(lines.values()):14,}\n"
    yield "files per folder, the largest first"
    yield from (f"  {folder:30} {count:6}" for folder, count in folders.most_common())
    circles = import_circles(root)
    yield f"\nimport circles: {len(circles)}"
    yield from (f"  {', '.join(circle)}" for circle in circles)
    done = subprocess.run(  # noqa: S603 — this file, with this interpreter
        [sys.executable, __file__, "--trip"],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    entered = [Path(file).relative_to(root) for file in done.stdout.splitlines()]
    yield f"\nfiles entered by the trip of one span: {len(entered) or 'not measured: ' + done.stderr[-500:]}"
    packages = Counter("/".join(path.parts[:2]) for path in entered)
    yield from (f"  {package:30} {count:6}" for package, count in packages.most_common())


def main() -> None:
    """Print the figures of a checkout, or with `--trip` the files that a span enters."""
    arguments = sys.argv[1:]
    if arguments == ["--trip"]:
        print("\n".join(sorted(trip())))
    else:
        print("\n".join(report(Path(arguments[0]).resolve() if arguments else ROOT)))


if __name__ == "__main__":
    main()
