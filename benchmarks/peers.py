"""Other tools that store or score agent spans: their CPU time per span of the small chats of `benchmarks.agent_traffic`.

`make peers` installs them, pinned and hashed (requirements/peer-*.txt), each in an environment of its own. Phoenix and MLflow run
as servers until all spans are rows of their SQLite files; their CPU time while idle is subtracted. agentevals reads the spans
from a file and scores the tool calls by an eval set; a run with one conversation is subtracted. Fair Forge scores
the tool calls of turns that it gets as objects.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.agent_traffic import SPANS_A_TURN, case_turns, small_chats
from benchmarks.cpu_time import children_s, tree_s
from benchmarks.ingest import post_all
from benchmarks.ingest_requests import BATCH, as_json

Turn = tuple[dict[str, Any], dict[str, Any]]

_ENVIRONMENTS: Final = Path(__file__).parents[1] / ".venv" / "peers"
#: Conversations in a measurement. A server gets the first request as a warm-up.
_CONVERSATIONS: Final = 256
_START_S: Final = 240.0
_STORE_S: Final = 180.0
_IDLE_S: Final = 3.0
#: Passes of Fair Forge over the turns in one measurement.
_PASSES: Final = 20


def interpreter(environment: str) -> Path:
    """Return the interpreter of an environment that `make peers` creates; it may be missing."""
    return _ENVIRONMENTS / environment / "bin" / "python"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanServer:
    """A server that receives OTLP over HTTP and stores each span as a row of the table `spans` of an SQLite file.

    Attributes:
        command: the arguments of its interpreter; `{port}`, `{second_port}` and `{folder}` are replaced.
        variables: its environment variables, with the same replacements.
        file: the SQLite file, in its folder.
        health: the path that responds once it is ready.
        headers: HTTP headers of its requests.
    """

    command: tuple[str, ...]
    variables: Mapping[str, str]
    file: str
    health: str
    headers: Mapping[str, str] = field(default_factory=dict)

    def us_per_span(self, python: Path) -> float:
        """Return its CPU time per span, us, until all spans are rows."""
        with tempfile.TemporaryDirectory() as folder:
            port = _free_port()
            values = {"port": port, "second_port": _free_port(), "folder": folder}
            command = [str(python), *(part.format(**values) for part in self.command)]
            variables = {name: value.format(**values) for name, value in self.variables.items()}
            log = Path(folder) / "log"
            with log.open("wb") as output:
                process = subprocess.Popen(  # noqa: S603 — the peer
                    command, env={**os.environ, **variables}, stdout=output, stderr=output, cwd=folder
                )
                try:
                    return self._sent_us(process, f"http://127.0.0.1:{port}", Path(folder) / self.file)
                except (OSError, RuntimeError) as error:  # the timeout of `_await` is an OSError
                    raise RuntimeError(f"{command}: {error}: {log.read_text('utf-8')[-2000:]}") from error
                finally:
                    process.terminate()
                    process.wait(60)

    def _sent_us(self, process: subprocess.Popen[bytes], url: str, file: Path) -> float:
        workload = small_chats(_CONVERSATIONS)
        first, *rest = workload.requests
        headers = {"Content-Type": "application/x-protobuf", **self.headers}
        _await("it does not start", _START_S, lambda: process.poll() is not None or _responds(f"{url}{self.health}"))
        post_all(url, [first], headers)
        _await("the first spans are not stored", _STORE_S, lambda: _rows(file) >= BATCH)
        began_s, cpu_s = time.monotonic(), tree_s(process.pid)
        time.sleep(_IDLE_S)
        idle_share = (tree_s(process.pid) - cpu_s) / (time.monotonic() - began_s)
        began_s, cpu_s = time.monotonic(), tree_s(process.pid)
        post_all(url, rest, headers)
        _await("spans are not stored", _STORE_S, lambda: _rows(file) >= workload.spans)
        spent_s = tree_s(process.pid) - cpu_s - idle_share * (time.monotonic() - began_s)
        return spent_s / (workload.spans - BATCH) * 1e6


#: Without telemetry of its own.
PHOENIX: Final = SpanServer(
    command=("-m", "phoenix.server.main", "serve"),
    variables={
        "PHOENIX_TELEMETRY_ENABLED": "false",
        "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
        "PHOENIX_WORKING_DIR": "{folder}",
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": "{port}",
        "PHOENIX_GRPC_PORT": "{second_port}",
    },
    file="phoenix.db",
    health="/healthz",
)
#: With one worker and without jobs and telemetry of its own.
MLFLOW: Final = SpanServer(
    command=(
        *("-m", "mlflow", "server", "--workers", "1", "--host", "127.0.0.1", "--port", "{port}"),
        *("--backend-store-uri", "sqlite:///{folder}/mlflow.db"),
    ),
    variables={"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"},
    file="mlflow.db",
    health="/health",
    headers={"x-mlflow-experiment-id": "0"},
)


def agentevals_us(python: Path) -> float:
    """Return the CPU time of agentevals per span, us, from a file to the scores of its default metric.

    Raises:
        RuntimeError: it did not score each conversation.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "cases.json").write_text(json.dumps(_eval_set()))

        def run_s(conversations: int) -> float:
            spans = folder / f"{conversations}.jsonl"
            spans.write_bytes(b"\n".join(map(as_json, small_chats(conversations).requests)))
            command = (str(python.with_name("agentevals")), "run", str(spans), "-e", str(folder / "cases.json"))
            before_s = children_s()
            ran = subprocess.run((*command, "-o", "json"), check=False, capture_output=True)  # noqa: S603 — the peer
            spent_s = children_s() - before_s
            results = json.loads(ran.stdout)["traces"]
            scores = [metric for result in results for metric in result["metrics"] if metric["score"] is not None]
            if len(scores) != conversations:
                raise RuntimeError(f"agentevals scored {len(scores)} of {conversations} conversations: {ran.stderr!r}")
            return spent_s

        run_s(1)
        return (run_s(_CONVERSATIONS) - run_s(1)) / (small_chats(_CONVERSATIONS).spans - small_chats(1).spans) * 1e6


def _eval_set() -> dict[str, Any]:
    """Return the cases of the small chats as an eval set of ADK, the format of agentevals."""

    def content(role: str, text: str) -> dict[str, Any]:
        return {"role": role, "parts": [{"text": text}]}

    cases = [
        {
            "eval_id": f"case-{number}",
            "conversation": [
                {
                    "user_content": content("user", turn.query),
                    "final_response": content("model", turn.answer),
                    "intermediate_data": {"tool_uses": [{"name": "look_up", "args": turn.arguments}]},
                }
                for turn in turns
            ],
        }
        for number, turns in enumerate(case_turns())
    ]
    return {"eval_set_id": "small", "eval_cases": cases}


def fair_forge_us(python: Path) -> float:
    """Return the CPU time of Fair Forge's tool scoring per span of the turns, us.

    Raises:
        RuntimeError: it cannot score the turns.
    """
    call = [
        [{"tool_name": "look_up", "parameters": turn.arguments, "step": 1}] for turns in case_turns() for turn in turns
    ]
    turns: list[Turn] = [
        ({"tools_used": calls, "final_answer_uses_tools": True}, {"expected_tools": calls}) for calls in call
    ]
    fair_forge = FairForge.start(python, turns)
    if fair_forge is None or fair_forge.choose(list(range(len(turns)))) != list(range(len(turns))):
        raise RuntimeError("Fair Forge does not score the turns")
    with closing(fair_forge):
        fair_forge.run(_PASSES)
        return fair_forge.run(_PASSES) / (_PASSES * len(turns) * SPANS_A_TURN) * 1e6


class FairForge:
    """Fair Forge in its own interpreter."""

    def __init__(self, process: subprocess.Popen[str], version: str, scored: list[int]) -> None:
        self._process = process
        self._scored = frozenset(scored)
        self.version = version

    @classmethod
    def start(cls, python: Path, turns: list[Turn]) -> FairForge | None:
        """Return Fair Forge, ready to score turns, or None if the interpreter is missing or does not have it."""
        if not python.exists():
            return None
        worker = Path(__file__).with_name("fair_forge_turns.py")
        process = subprocess.Popen(  # noqa: S603 — the peer
            [str(python), str(worker)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            version, scored = _ask(process, turns)
        except (OSError, ValueError):
            process.kill()
            process.wait()
            return None
        return cls(process, version, scored)

    def choose(self, turns: list[int]) -> list[int]:
        """Return the turns that Fair Forge can score; later passes score these."""
        chosen = [number for number in turns if number in self._scored]
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(chosen) + "\n")
        return chosen

    def run(self, passes: int) -> float:
        """Return the CPU seconds of a number of passes."""
        return float(_ask(self._process, passes))

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def _ask(process: subprocess.Popen[str], question: object) -> Any:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(question) + "\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Another tool.

    Attributes:
        name: its name, and the work that is measured.
        environment: its folder, see `interpreter`.
        us_per_span: measures its CPU time per span, us; gets its interpreter.
        targets: our costs, `stored` or `scored`, that its CPU time is divided by, with the ratio that we aim at, if any.
    """

    name: str
    environment: str
    us_per_span: Callable[[Path], float]
    targets: Mapping[str, float | None] = field(default_factory=dict)

    def measured_us(self) -> float | None:
        """Return its CPU time per span, us, or None if it is not installed."""
        python = interpreter(self.environment)
        return self.us_per_span(python) if python.exists() else None


def _await(what_fails: str, timeout_s: float, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(what_fails)
        time.sleep(0.25)


def _responds(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2):  # noqa: S310 — our own URL
            return True
    except OSError:
        return False


def _rows(file: Path) -> int:
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as con:
        return int(con.execute("SELECT count(*) FROM spans").fetchone()[0])


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


PEERS: Final = (
    Peer(
        name="Phoenix, spans stored",
        environment="phoenix",
        us_per_span=PHOENIX.us_per_span,
        targets={"stored": 100, "scored": 20},
    ),
    Peer(
        name="MLflow, spans stored",
        environment="mlflow",
        us_per_span=MLFLOW.us_per_span,
        targets={"stored": 20, "scored": 1},
    ),
    Peer(
        name="agentevals, one metric of a file",
        environment="agentevals",
        us_per_span=agentevals_us,
        targets={"scored": None},
    ),
    # Without spans to read; `benchmarks.bench_tools` compares it with our scoring of the same calls.
    Peer(name="Fair Forge, tool scoring alone", environment="fair-forge", us_per_span=fair_forge_us),
)
