"""`otel-agentic store erase`: it asks, lists the rows, and leaves no byte of them in the files of the store."""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from inline_snapshot import snapshot

from otel_agentic.commands import Commands
from otel_agentic.engine.engine import Engine
from otel_agentic.testing import AgentRunScript, scripted_call, speak_genai
from tests.builders import feed
from tests.cli.running import done, run
from tests.live.otlp_export import export
from tests.live.running_collector import OPEN, eventually, live_settings, running
from tests.snapshots import passage
from tests.stores import settings_for

if TYPE_CHECKING:
    from otel_agentic.live.collector import LiveCollector
    from otel_agentic.spans.model import SpanBatch

#: Texts that occur nowhere else; each is stored as it is.
PERSON = "person-7f3a91"
WORDS = "Zanzibar-9d41c7"


def spoken(conversation_id: str, words: str, user: str) -> SpanBatch:
    script = AgentRunScript(conversation_id=conversation_id).ask(f"I am {words}. Which hotel?")
    batch = speak_genai(
        script.calls(scripted_call("search", {"q": words}, result=[words])).answers(f"For {words}: Ritz")
    )
    return replace(
        batch, spans=tuple(replace(span, attributes={**span.attributes, "user.id": user}) for span in batch.spans)
    )


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two conversations, one of them with a note, feedback and a case. Copy it."""
    file = tmp_path_factory.mktemp("erased") / "t.duckdb"
    with Engine(settings_for(file), create=True) as engine:
        feed(engine, spoken("mine", WORDS, PERSON))
        feed(engine, spoken("other", "Lisbon", "someone-else"))
        Commands(engine).call("feedback", {"conversation_id": "other", "user": PERSON, "verdict": "fail"})
    done("label", "mine", "fail", "--note", f"{WORDS} was booked", "--as", "ann", "--db", file)
    done("evaluate", "--db", file)
    return file


@pytest.fixture
def db(tmp_path: Path, filled: Path) -> Path:
    """A copy of the filled store, in a folder of its own."""
    folder = tmp_path / "store"
    folder.mkdir()
    return Path(shutil.copy(filled, folder))


def stored(live: LiveCollector) -> list[str]:
    """Return the ids of the conversations, without the process that a query of users needs."""
    with live.engine.store.read() as con:
        return [name for (name,) in con.execute("SELECT conversation_id FROM conversations ORDER BY ALL").fetchall()]


def contains(folder: Path, text: str) -> list[str]:
    """Return the files in which a text occurs."""
    return [path.name for path in sorted(folder.rglob("*")) if path.is_file() and text.encode() in path.read_bytes()]


def test_no_byte_is_left_in_the_files(db: Path) -> None:
    assert ["t.duckdb"] == contains(db.parent, WORDS) == contains(db.parent, PERSON)

    result = done("store", "erase", "--db", db, "--user", PERSON, "--yes", "--format", "json").json

    assert [{"environment": "", "conversation_id": "mine"}] == result["conversations"]
    assert (0, 2) == (result["left"], result["rows"]["annotations"])
    assert [] == contains(db.parent, WORDS) == contains(db.parent, PERSON)
    names = [item["conversation_id"] for item in done("conversations", "list", "--db", db, "--format", "json").json]
    assert ["other"] == names
    assert 3 == run("store", "erase", "--db", db, "--user", PERSON, "--yes").code


def test_it_says_what_it_erases_and_what_it_cannot(db: Path) -> None:
    dry = done("store", "erase", "--db", db, "--conversation", "mine", "--dry-run").out
    assert passage(dry) == snapshot("would erase 1 conversation: mine")
    assert 2 == len(done("conversations", "list", "--db", db, "--format", "json").json)

    out = done("store", "erase", "--db", db, "--conversation", "mine", "--yes").out

    assert "erased 1 conversation: mine" in out
    assert "a search afterwards found nothing" in out
    assert "not changed: backups" in out


def test_without_a_terminal_it_needs_yes(db: Path) -> None:
    ran = run("store", "erase", "--db", db, "--user", PERSON)

    assert 2 == ran.code
    assert "would erase 1 conversation: mine" in ran.err
    assert "pass --yes" in ran.err
    assert 2 == len(done("conversations", "list", "--db", db, "--format", "json").json)


@pytest.mark.parametrize("subject", [(), ("--user", PERSON, "--conversation", "mine")])
def test_exactly_one_of_user_and_conversation_is_needed(db: Path, subject: tuple[str, ...]) -> None:
    ran = run("store", "erase", "--db", db, *subject, "--yes")

    assert (2, True) == (ran.code, "either --user or --conversation" in ran.err)


def test_a_collector_erases_an_open_conversation_and_does_not_rebuild_it(tmp_path: Path) -> None:
    settings = live_settings(tmp_path / "t.duckdb", **OPEN)
    with running(settings) as (live, addresses):
        for name, words, user in (("mine", WORDS, PERSON), ("other", "Lisbon", "someone-else")):
            export(addresses, spoken(name, words, user).spans)
        eventually(lambda: stored(live), ["mine", "other"])

        out = done("store", "erase", "--db", settings.store.db, "--user", PERSON, "--yes").out

        assert "free blocks of it may contain erased text" in out
        assert ["other"] == stored(live)
        export(addresses, spoken("third", "Porto", "someone-else").spans)
        eventually(lambda: stored(live), ["other", "third"])
        assert live.assembler.tick().left_out == ()
    assert "Zanzibar" not in str(done("query", "FROM spans", "--db", settings.store.db).out)
    done("store", "vacuum", "--db", settings.store.db)
    assert [] == contains(tmp_path, WORDS)


def test_an_erasure_that_waits_for_an_export_stops_no_loop(tmp_path: Path) -> None:
    settings = live_settings(tmp_path / "t.duckdb", **OPEN)
    with running(settings) as (live, addresses):
        export(addresses, spoken("mine", WORDS, PERSON).spans)
        eventually(lambda: stored(live), ["mine"])
        erasing = threading.Thread(target=live.run, args=("store_erase", {"user": PERSON}))
        with live.engine.retention_lock:  # as a long export holds it
            erasing.start()
            export(addresses, spoken("other", "Lisbon", "someone-else").spans)
            eventually(lambda: stored(live), ["mine", "other"])
            assert erasing.is_alive()
        erasing.join()

        assert ["other"] == stored(live)
