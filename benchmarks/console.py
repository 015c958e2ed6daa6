"""Measure the pages of the console on a large store: elapsed time of 20 requests over HTTP for each page and its JSON twin.

python -m benchmarks.console                              # a million conversations; takes about 5 GB of disk and 15 minutes
python -m benchmarks.console --spans 800000 --folder DIR  # a tenth, in a folder that keeps the store
python -m benchmarks.console --spans 5000000 --spans-a-chat 5  # a million conversations, most of them with one turn

The store is that of `benchmarks.growth`, and `otel-agentic console` serves it. The first request of a page is printed alone: later
ones can reuse its report. It counts until the page has its numbers: before, the page states that they are being computed. Statements of
SQL follow after half a second, as those of a person. The console is another process, whose CPU time for all requests is printed, too; the
processes of statements are not included. Measurements begin when the reports that a log-in prepares are computed.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx

from benchmarks.agent_traffic import TURNS
from benchmarks.cpu_time import process_s
from benchmarks.growth import grown_store

REQUESTS: Final = 20
_SPANS: Final = 8_000_000
#: The console is idle if it uses less than a tenth of this time, seconds.
_IDLE_S: Final = 2.0
#: How long to wait before a page is reloaded whose numbers are being computed, seconds.
_RELOAD_S: Final = 0.2
#: A person reads an answer before sending the next statement, for at least this time, seconds.
_THINKING_S: Final = 0.5
_PATHS: Final = (
    "/",
    "/?window=24h",
    "/numbers",
    "/tools",
    "/conversations",
    "/conversations?outcome=fail",
    "/conversations?tool=look_up&fault=wrong_parameters",
    "/conversations?text=catalogue+7",
    "/conversation?{conversation}",
    "/span?{span}",
    "/review",
    "/cases",
    "/case?{case}",
    "/matches",
    "/match?{conversation}",
    "/monitors",
    "/tail",
    "/sql?q=SELECT+42",
    "/sql?q=SELECT+agent,+outcome,+count(*)+FROM+results+GROUP+BY+ALL",
    "/collector",
)


def main() -> None:
    """Build the store, and measure each page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spans", type=int, default=_SPANS, help="the size of the store")
    parser.add_argument(
        "--spans-a-chat", type=int, choices=TURNS, default=8, help="spans of a conversation; default: 8"
    )
    parser.add_argument("--folder", type=Path, help="keep the store here, and use the one that is there")
    parser.add_argument("--only", action="append", help="only pages that begin with this path")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = grown_store(options.folder or Path(folder), options.spans, options.spans_a_chat)
        with _console(store) as (client, pid):
            _measure(client, pid, tuple(options.only or ("",)))


@contextmanager
def _console(db: Path) -> Iterator[tuple[httpx.Client, int]]:
    """Serve the console of a store; yield a client with a session, and the id of the process."""
    command = (sys.executable, "-m", "otel_agentic.cli", "console", "--no-browser", "--db", str(db))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 — our own command
        assert process.stdout is not None
        link = urlsplit(next(line for line in process.stdout if "ticket=" in line).strip())
        url = f"{link.scheme}://{link.netloc}"
        headers = {"sec-fetch-site": "same-origin"}
        with httpx.Client(base_url=url, headers=headers, timeout=600) as client:
            client.post("/login", data={"ticket": parse_qs(link.query)["ticket"][0]})
            _wait_until_idle(process.pid)
            yield client, process.pid
        process.terminate()


def _wait_until_idle(pid: int) -> None:
    """Wait until the process hardly uses CPU time; print how much it used since it was started."""
    began_s = time.perf_counter()
    while True:
        before_s = process_s(pid)
        time.sleep(_IDLE_S)
        if process_s(pid) - before_s < _IDLE_S / 10:
            break
    print(
        f"prepared {time.perf_counter() - began_s - _IDLE_S:.0f} s after the log-in; {before_s:.1f} s CPU since the start"
    )


def _measure(client: httpx.Client, pid: int, only: tuple[str, ...]) -> None:
    print(f"{'page':<52} {'first':>8} {'p50':>8} {'p95':>8} {'CPU':>8}  ms a request   {'size':>7}")
    for path in _chosen(client, only):
        for target in (path, _twin(path)):
            _, first_s = _timed(client, target)
            cpu_s = process_s(pid)
            answers = [_timed(client, target, _THINKING_S if path.startswith("/sql") else 0.0) for _ in range(REQUESTS)]
            cpu_s = process_s(pid) - cpu_s
            ms = [1e3 * elapsed_s for _, elapsed_s in answers]
            size = len(answers[-1][0].content) / 1024
            name = target if len(target) < 52 else f"{target[:48]}…"  # noqa: PLR2004 — the width of the column
            numbers = (1e3 * first_s, statistics.median(ms), _p95(ms), 1e3 * cpu_s / REQUESTS)
            print(f"{name:<52}", *(f"{number:8.1f}" for number in numbers), f"{size:18.1f} KB", flush=True)


def _chosen(client: httpx.Client, only: tuple[str, ...]) -> list[str]:
    """Return the targets, with the parameters of the pages about one object."""
    row = client.get("/conversations.json?outcome=fail&limit=1").json()["rows"][0]
    conversation = urlencode({"id": row["conversation_id"], "environment": row["environment"]})
    page = client.get(f"/conversation?{conversation}").text
    links = {name: unescape(re.findall(rf'href="/{name}\?([^"]+)"', page)[0]) for name in ("span", "case")}
    return [path.format(conversation=conversation, **links) for path in _PATHS if path.startswith(only)]


def _twin(path: str) -> str:
    """Return the target of the JSON form of a page."""
    page, mark, query = path.partition("?")
    return f"{'/reliability' if page == '/' else page}.json{mark}{query}"


def _timed(client: httpx.Client, target: str, after_s: float = 0.0) -> tuple[httpx.Response, float]:
    """Return the answer to a request that is sent after a time, and how long it took, seconds."""
    time.sleep(after_s)
    began_s = time.perf_counter()
    while (answer := client.get(target)).status_code == httpx.codes.ACCEPTED:
        time.sleep(_RELOAD_S)
    elapsed_s = time.perf_counter() - began_s
    if answer.status_code != httpx.codes.OK:
        sys.exit(f"{target}: status {answer.status_code}: {answer.text[:300]}")
    return answer, elapsed_s


def _p95(ms: Sequence[float]) -> float:
    return sorted(ms)[round(0.95 * len(ms)) - 1]


if __name__ == "__main__":
    main()
