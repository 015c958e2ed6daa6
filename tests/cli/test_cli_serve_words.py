"""Messages of `otel-agentic serve` at its start: lines for people, log entries for machines, and warnings."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from otel_agentic.cli.logs import log_to
from otel_agentic.cli.serve import addresses, say, warn_of_export
from otel_agentic.config import Settings
from otel_agentic.net.server_file import LiveServer
from otel_agentic.render.store import print_exported
from otel_agentic.results.store import ExportedStore

HERE = LiveServer(
    pid=1, admin="http://127.0.0.1:8321", http="http://127.0.0.1:4318", grpc="http://127.0.0.1:4317", started_at=""
)


@pytest.fixture
def machine() -> Iterator[tuple[Settings, io.StringIO]]:
    """Settings of a log that a machine reads, and that log."""
    settings, written, before = Settings.model_validate({"log": {"format": "json"}}), io.StringIO(), logging.root.level
    handlers = [*logging.root.handlers]
    log_to(written, settings.log)
    yield settings, written
    logging.root.handlers[:] = handlers
    logging.root.setLevel(before)
    for own in ("otel_agentic", "collectors"):
        logging.getLogger(own).setLevel(logging.NOTSET)


def test_people_read_lines_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    settings = Settings()
    say(settings, *addresses(settings, HERE))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == snapshot("collecting into otel-agentic.duckdb; Ctrl-C stops")
    assert "  OTLP/HTTP  http://127.0.0.1:4318" == lines[2]


def test_where_the_log_is_json_everything_is(
    machine: tuple[Settings, io.StringIO], capsys: pytest.CaptureFixture[str]
) -> None:
    settings, written = machine
    say(settings, *addresses(settings, HERE))
    entries = [json.loads(line) for line in written.getvalue().splitlines()]
    assert "" == capsys.readouterr().out
    assert ("info", "OTLP/HTTP http://127.0.0.1:4318") == (entries[2]["level"], entries[2]["message"])


@pytest.mark.parametrize("export", [True, False])
def test_an_export_folder_that_cannot_be_written_is_reported_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, export: bool
) -> None:
    folder = tmp_path / "a file"
    folder.touch()
    warn_of_export(Settings.model_validate({"retention": {"export": export, "export_folder": folder}}))
    assert [f"{folder}: File exists: cannot export to this folder (--export, retention.export_folder)"] * export == [
        record.getMessage() for record in caplog.records
    ]


def test_a_folder_that_is_not_there_is_made(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "a" / "b"
    warn_of_export(Settings.model_validate({"retention": {"export": True, "export_folder": folder}}))
    assert ([], True) == (caplog.records, folder.is_dir())


def test_an_export_of_nothing_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    print_exported(ExportedStore(folder="out", files=0, bytes=0, tables={}))
    assert capsys.readouterr().out == snapshot("nothing to write: the store holds nothing of that time\n")
