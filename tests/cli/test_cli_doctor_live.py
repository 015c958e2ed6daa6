"""`otel-agentic doctor --live`: what a running collector says of itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from rich.cells import cell_len

from otel_agentic.config import ReceiveSettings
from otel_agentic.spans import decode_document
from otel_agentic.spans.limits import Limits
from tests.cli.running import done, on_terminal, run
from tests.cli.small import conversation, request, spans_of
from tests.pipeline.running import eventually, live_settings, running
from tests.store.test_store_reopening import fill, kill

LIMITS: Final = Limits.from_settings(ReceiveSettings())
_CALL: Final = ("look_up", {"order": "A1"}, '{"day": "Monday"}')


def test_a_file_that_no_collector_holds_is_told_and_not_opened() -> None:
    ran = run("doctor", "--live", "--db", "t.duckdb")

    assert 5 == ran.code
    assert ran.err.startswith(
        "otel-agentic: no collector holds t.duckdb; `otel-agentic serve --db t.duckdb` starts one"
    )
    assert not Path("t.duckdb").exists()


def test_a_running_collector_tells_what_it_receives_and_what_went_wrong(tmp_path: Path) -> None:
    db = tmp_path / "t.duckdb"
    bad = {**spans_of(conversation("c2"))[0], "traceId": "xx"}
    with running(live_settings(db)) as (live, found):
        assert "nothing has arrived yet: point the exporter at http://" in done("doctor", "--live", "--db", db).out
        for each in (conversation("c1", calls=[_CALL], content=False), request([bad])):
            live.accept(decode_document(json.dumps(each).encode(), LIMITS))
        eventually(lambda: done("doctor", "--live", "--db", db, "--format", "json").json["turns"], 1)
        told = done("doctor", "--live", "--server", found.admin).out
        state = done("doctor", "--live", "--db", db, "--format", "json").json
        wide = {width: on_terminal(width, "doctor", "--live", "--db", str(db)) for width in (60, 80, 160)}

    assert told.startswith("the collector is ready, since ")
    assert "2 spans and log records stored since then, 0 duplicate, 1 rejected" in told
    assert "\nwaiting: " in told
    assert "\nstore " in told
    assert ["shop", "shop-tracing", "genai", "genai", "2"] == line_with(told, "shop-tracing").split()[:5]
    assert "queries: 0 of 1, answers: 0 of 1, arguments: 0 of 1, results: 0 of 1 — content capture is off: set " in told
    assert "problems seen since the start\n  1 x " in told
    assert ("shop", "shop-tracing", "genai", 2) == tuple(
        state["spans"][0][name] for name in ("service", "scope", "dialect", "spans")
    )
    assert {"ready", "received", "reasons", "problems", "open_conversations"} <= set(state["collector"])
    assert {"why_not", "backlog", "queued_spans", "store_bytes", "log_bytes", "judge", "retention_problem"} <= set(
        state["collector"]
    )
    assert [] == [width for width, lines in wide.items() if any(cell_len(line) > width for line in lines)]


def test_a_collector_whose_store_is_away_says_why_and_shows_the_rest(tmp_path: Path) -> None:
    db = tmp_path / "t.duckdb"
    with running(live_settings(db)) as (live, found):
        with live.engine.store.connection():  # a reader that does not let go holds up the opening
            fill(live.engine.store)
            kill(live.engine.store)
            told = on_terminal(80, "doctor", "--live", "--server", found.admin)
        eventually(lambda: live.ready, wanted=True)

    assert told[0].startswith("the collector does not take spans; up since ")
    assert "is being opened again" in " ".join(told[1:3])
    assert any(line.startswith("waiting: ") for line in told)
    assert [] == [line for line in told if cell_len(line) > 80]


def line_with(told: str, word: str) -> str:
    return next(line for line in told.splitlines() if word in line)
