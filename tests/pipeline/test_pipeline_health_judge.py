"""A judge that is left alone: told as a metric, by `doctor --live`, and as what waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inline_snapshot import snapshot

from tests.cli.running import on_terminal
from tests.judges.openai_server import OpenAIServer, Said, error, obliging
from tests.pipeline.running import eventually, running
from tests.pipeline.test_pipeline_live import gauge
from tests.pipeline.test_pipeline_live_breaker import CASES, settings_of, tell
from tests.snapshots import passage

if TYPE_CHECKING:
    from pathlib import Path

    from otel_agentic.net.server_file import LiveServer


def breaker(found: LiveServer) -> tuple[list[float], bool]:
    """Return whether it is open, and whether it ever was."""
    opened = gauge(found, "agentic_judge_breaker_opened_total")
    return gauge(found, "agentic_judge_breaker_open"), opened[0] > 0


def test_a_judge_that_is_left_alone_is_told_with_what_waits_for_it(tmp_path: Path) -> None:
    well: list[bool] = []
    db = tmp_path / "t.duckdb"

    def script(request: dict[str, Any], _: int) -> Said:
        return obliging(request) if well else error(503, "no")

    def waiting() -> bool:
        return gauge(found, "agentic_pipeline_backlog", agentic_stage="score")[0] > 0

    with OpenAIServer(script) as server, running(settings_of(db, server, cache=False), cases=CASES) as (_, found):
        assert ([0.0], False) == breaker(found)
        tell(found, range(3))
        eventually(lambda: breaker(found), ([1.0], True))
        tell(found, range(3, 6))
        eventually(waiting, wanted=True)
        told = " ".join(on_terminal(80, "doctor", "--live", "--db", str(db)))

        well.append(True)
        eventually(lambda: breaker(found), ([0.0], True))
        eventually(waiting, wanted=False)

    assert passage(told) == snapshot("in a row and is left alone")
