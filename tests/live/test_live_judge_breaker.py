"""A collector whose judge goes away: spans are stored, conversations wait, and all is judged once when it is back."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from otel_agentic.testing import AgentRunScript, speak_genai
from tests.builders import rows
from tests.judges.openai_server import OpenAIServer, ServerReply, completed, error, obliging
from tests.live.otlp_export import export, just_now
from tests.live.running_collector import eventually, live_settings, running

if TYPE_CHECKING:
    from otel_agentic.config import Settings
    from otel_agentic.net.server_file import LiveServer

CASES = [("cases.jsonl", '{"case_id": "hotel", "turns": [{"query": "Which hotel?", "answer": "The Ritz."}]}')]
SCORED = "SELECT outcome, count(*) FROM conversation_scores WHERE NOT superseded GROUP BY ALL ORDER BY ALL"
CLOSED = "SELECT count(*) FROM conversations WHERE closed_by IS NOT NULL AND NOT superseded"

FAULTS: dict[str, ServerReply] = {
    "down": error(503, "no"),
    "resetting": ServerReply(resets=True),
    "unreadable replies": completed("I quite like it."),
    "NaN": completed('{"reasoning": "x", "score": NaN}'),
    "1e9": completed('{"reasoning": "x", "score": 1e9}'),
    "hanging": ServerReply(hangs=True),
    "refusing": error(401, "no such key"),
}


def settings_of(db: Path, server: OpenAIServer, **judge: Any) -> Settings:
    options = {"base_url": server.base_url, "api_key": "none"}
    own = {"tries": 1, "backoff_s": 0, "timeout_s": 0.3, "concurrency": 1, "breaker_failures": 2, "breaker_wait_s": 0.3}
    return live_settings(
        db, scoring={"judge": "langchain:openai:small"}, judge={"model_options": options, **own, **judge}
    )


def tell(addresses: LiveServer, numbers: range) -> None:
    """Send conversations of the case, each with an answer of its own: each is a question of its own to the judge."""
    for number in numbers:
        script = AgentRunScript(conversation_id=f"c{number}").ask("Which hotel?").answers(f"The Ritz, room {number}.")
        export(addresses, speak_genai(script, start_ns=just_now()).spans)


_MORE: Final = [pytest.param(fault, marks=pytest.mark.slow) for fault in ("unreadable replies", "hanging")]


@pytest.mark.parametrize("fault", ["down", *_MORE])
def test_a_collector_comes_back_by_itself_when_its_judge_does(tmp_path: Path, fault: str) -> None:
    well, requested = threading.Event(), Counter[bool]()

    def script(request: dict[str, Any], _: int) -> ServerReply:
        requested[well.is_set()] += 1
        return obliging(request) if well.is_set() else FAULTS[fault]

    with OpenAIServer(script) as server:
        settings = settings_of(tmp_path / "t.duckdb", server, cache=False)
        with running(settings, cases=CASES) as (live, addresses):

            def breaker() -> Any:
                return live.health()["judge"]["state"]

            tell(addresses, range(3))
            eventually(breaker, "open")
            tell(addresses, range(3, 6))
            eventually(lambda: rows(live.engine, CLOSED), [(6,)])
            assert {"not_evaluated"} >= {outcome for outcome, _ in rows(live.engine, SCORED)}
            assert "judge" in live.run("live", {})["collector"]
            before = requested[False]

            well.set()
            eventually(lambda: rows(live.engine, SCORED), [("pass", 6)])
            assert "closed" == breaker()
    assert requested[False] - before <= 3  # tries while it was half open
    assert 6 == requested[True]
