"""The open breaker of a judge is reported as a metric, by `doctor --live`, and with the work that waits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from inline_snapshot import snapshot

from tests.cli.running import on_terminal
from tests.judges.openai_server import OpenAIServer, ServerReply, error, obliging
from tests.live.running_collector import eventually, running
from tests.live.test_live_collector import gauge
from tests.live.test_live_judge_breaker import CASES, settings_of, tell
from tests.snapshots import passage

if TYPE_CHECKING:
    from otel_agentic.net.server_file import LiveServer


def breaker(addresses: LiveServer) -> tuple[list[float], bool]:
    """Return whether it is open, and whether it ever was."""
    opened = gauge(addresses, "agentic_judge_breaker_opened_total")
    return gauge(addresses, "agentic_judge_breaker_open"), opened[0] > 0


def test_an_open_breaker_of_the_judge_is_reported_with_the_work_that_waits(tmp_path: Path) -> None:
    well: list[bool] = []
    db = tmp_path / "t.duckdb"

    def script(request: dict[str, Any], _: int) -> ServerReply:
        return obliging(request) if well else error(503, "no")

    def waiting() -> bool:
        return gauge(addresses, "agentic_pipeline_backlog", agentic_stage="score")[0] > 0

    with OpenAIServer(script) as server, running(settings_of(db, server, cache=False), cases=CASES) as (_, addresses):
        assert ([0.0], False) == breaker(addresses)
        tell(addresses, range(3))
        eventually(lambda: breaker(addresses), ([1.0], True))
        tell(addresses, range(3, 6))
        eventually(waiting, expected=True)
        reported = " ".join(on_terminal(80, "doctor", "--live", "--db", str(db)))

        well.append(True)
        eventually(lambda: breaker(addresses), ([0.0], True))
        eventually(waiting, expected=False)

    assert passage(reported) == snapshot("in a row and is not called")
