"""A collector whose judge goes away: spans are stored, conversations wait, and all is judged once when it is back."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from otel_agentic.testing import AgentRunScript, speak_genai
from tests.builders import rows
from tests.judges.openai_server import OpenAIServer, Said, error, obliging, said
from tests.pipeline.exporting import export, just_now
from tests.pipeline.running import eventually, live_settings, running

if TYPE_CHECKING:
    from pathlib import Path

    from otel_agentic.config import Settings
    from otel_agentic.net.server_file import LiveServer

CASES = [("cases.jsonl", '{"case_id": "hotel", "turns": [{"query": "Which hotel?", "answer": "The Ritz."}]}')]
SCORED = "SELECT outcome, count(*) FROM conversation_scores WHERE NOT superseded GROUP BY ALL ORDER BY ALL"
CLOSED = "SELECT count(*) FROM conversations WHERE closed_by IS NOT NULL AND NOT superseded"

FAULTS: dict[str, Said] = {
    "down": error(503, "no"),
    "resetting": Said(resets=True),
    "talking nonsense": said("I quite like it."),
    "NaN": said('{"reasoning": "x", "score": NaN}'),
    "1e9": said('{"reasoning": "x", "score": 1e9}'),
    "hanging": Said(hangs=True),
    "refusing": error(401, "no such key"),
}


def settings_of(db: Path, server: OpenAIServer, **judge: Any) -> Settings:
    options = {"base_url": server.base_url, "api_key": "none"}
    own = {"tries": 1, "backoff_s": 0, "timeout_s": 0.3, "concurrency": 1, "breaker_failures": 2, "breaker_wait_s": 0.3}
    return live_settings(
        db, scoring={"judge": "langchain:openai:small"}, judge={"model_options": options, **own, **judge}
    )


def tell(found: LiveServer, numbers: range) -> None:
    """Send conversations of the case, each with an answer of its own: each is a question of its own to the judge."""
    for number in numbers:
        script = AgentRunScript(conversation_id=f"c{number}").ask("Which hotel?").answers(f"The Ritz, room {number}.")
        export(found, speak_genai(script, start_ns=just_now()).spans)


@pytest.mark.parametrize("fault", ["down", "talking nonsense", "hanging"])
def test_a_collector_comes_back_by_itself_when_its_judge_does(tmp_path: Path, fault: str) -> None:
    well, asked = threading.Event(), Counter[bool]()

    def script(request: dict[str, Any], _: int) -> Said:
        asked[well.is_set()] += 1
        return obliging(request) if well.is_set() else FAULTS[fault]

    with OpenAIServer(script) as server:
        settings = settings_of(tmp_path / "t.duckdb", server, cache=False)
        with running(settings, cases=CASES) as (live, found):

            def breaker() -> Any:
                return live.health()["judge"]["state"]

            tell(found, range(3))
            eventually(breaker, "open")
            tell(found, range(3, 6))
            eventually(lambda: rows(live.engine, CLOSED), [(6,)])
            assert {"not_evaluated"} >= {outcome for outcome, _ in rows(live.engine, SCORED)}
            assert "judge" in live.run("live", {})["collector"]
            before = asked[False]

            well.set()
            eventually(lambda: rows(live.engine, SCORED), [("pass", 6)])
            assert "closed" == breaker()
    assert asked[False] - before <= 3  # tries while it was half open
    assert 6 == asked[True]
