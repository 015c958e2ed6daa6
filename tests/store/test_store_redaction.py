"""The key of a store's marks, and the one way into the store that nothing passes by."""

from __future__ import annotations

import logging
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from otel_agentic.config import RedactionSettings, StoreSettings
from otel_agentic.errors import StoreUnusableError
from otel_agentic.store import Store
from otel_agentic.store.store import key_path
from otel_agentic.testing import batch, span
from tests.snapshots import passage, raises

if TYPE_CHECKING:
    from otel_agentic.dialects import Reader
    from tests.store.conftest import OpenStore

SECRET = "hunter22-" + "geheim"
ATTRIBUTES = {"note": f"password={SECRET}"}


def marks(store: Store) -> list[str]:
    with store.read() as con:
        return [text for (text,) in con.execute("SELECT attributes ->> 'note' FROM spans ORDER BY ALL").fetchall()]


def test_received_spans_are_redacted_before_they_are_stored(store: Store) -> None:
    store.accept(batch(span(attributes=ATTRIBUTES)))
    (mark,) = marks(store)
    assert mark.startswith("password=[redacted:credential:")
    assert {"credential redacted: credential": 1} == store.redacting.counts


def test_a_store_without_redaction_keeps_everything(db: Path, reader: Reader) -> None:
    with Store(StoreSettings(db=db), reader, redaction=RedactionSettings(credentials=False)) as store:
        store.accept(batch(span(attributes=ATTRIBUTES)))
        assert [ATTRIBUTES["note"]] == marks(store)
    assert not key_path(db).exists()


def test_the_key_is_made_for_the_first_secret_and_for_its_owner_alone(store: Store, db: Path) -> None:
    store.accept(batch(span(attributes={"note": "nothing"})))
    assert not key_path(db).exists()
    store.accept(batch(span(attributes=ATTRIBUTES)))
    assert 0o600 == stat.S_IMODE(key_path(db).stat().st_mode)
    assert 32 == len(bytes.fromhex(key_path(db).read_text()))
    assert sorted([db.name, key_path(db).name]) == sorted(
        path.name for path in db.parent.iterdir() if not path.name.startswith(f"{db.name}.wal")
    )


def test_the_key_is_not_in_the_database(open_store: OpenStore, db: Path) -> None:
    with open_store() as store:
        store.accept(batch(span(attributes=ATTRIBUTES)))
    key = bytes.fromhex(key_path(db).read_text())
    content = db.read_bytes()
    assert key not in content
    assert key.hex().encode() not in content
    assert SECRET.encode() not in content


def test_marks_of_one_store_agree_over_restarts_and_those_of_two_do_not(
    open_store: OpenStore, db: Path, reader: Reader, tmp_path: Path
) -> None:
    for copy_number in (1, 2):
        with open_store() as store:
            store.accept(batch(span(str(copy_number), attributes=ATTRIBUTES)))
            first_marks = marks(store)
    other = tmp_path / "other.duckdb"
    with Store(StoreSettings(db=other), reader) as store:
        store.accept(batch(span(attributes=ATTRIBUTES)))
        assert [first_marks[0], first_marks[0]] == first_marks
        assert not set(first_marks) & set(marks(store))


def test_a_lost_key_is_replaced_with_a_warning(
    open_store: OpenStore, db: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with open_store() as store:
        store.accept(batch(span(attributes=ATTRIBUTES)))
        assert not caplog.records  # a new store has lost nothing
    key_path(db).unlink()
    with open_store() as store, caplog.at_level(logging.WARNING):
        store.accept(batch(span("another", attributes=ATTRIBUTES)))
        assert 2 == len(set(marks(store)))
    (message,) = caplog.messages
    assert passage(message, value=key_path(db)) == snapshot(
        "<value> is missing, but the store contains redaction marks"
    )


@pytest.mark.parametrize("content", ["", "00", "not hexadecimal", "00" * 33])
def test_a_damaged_key_is_refused_by_name_and_never_replaced(open_store: OpenStore, db: Path, content: str) -> None:
    open_store().close()
    key_path(db).write_text(content)
    with raises(
        StoreUnusableError,
        snapshot("t.duckdb.key is not the key of a store"),
    ):
        open_store()
    assert content == key_path(db).read_text()


def test_a_key_that_others_can_read_is_reported(
    open_store: OpenStore, db: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with open_store() as store:
        store.accept(batch(span(attributes=ATTRIBUTES)))
    key_path(db).chmod(0o644)
    open_store()
    assert any("can be read by other users" in message for message in caplog.messages)


def test_a_key_that_cannot_be_written_refuses_the_batch_and_takes_it_later(store: Store, db: Path) -> None:
    blocked = key_path(db).with_name(f"{key_path(db).name}.new")
    blocked.mkdir()  # as good as a folder without room: the key cannot be written
    with raises(StoreUnusableError, snapshot("the redaction key cannot be written")):
        store.accept(batch(span(attributes=ATTRIBUTES)))
    assert [] == marks(store)
    blocked.rmdir()
    assert 1 == store.accept(batch(span(attributes=ATTRIBUTES))).accepted


def test_values_outside_spans_are_redacted_under_the_same_key(store: Store) -> None:
    store.accept(batch(span(attributes=ATTRIBUTES)))
    redacted: dict[str, Any] = store.redacting.value({"a": [ATTRIBUTES["note"]], "n": 1})
    assert {"a": marks(store), "n": 1} == redacted
    assert store.redacting.redacts_field("db_password")
    assert not store.redacting.redacts_field("max_tokens")
