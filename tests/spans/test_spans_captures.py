"""Real exports: every span arrives, nothing is rejected, and both encodings of one request agree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from otel_agentic.spans import (
    Limits,
    SpanBatch,
    decode_document,
    decode_logs,
    decode_message,
    decode_traces,
    merge_batches,
)
from otel_agentic.spans.model import NOT_AN_EVENT, OUTSIDE_SPAN


def read(path: Path, limits: Limits) -> SpanBatch:
    return merge_batches(decode_document(line, limits) for line in path.read_bytes().splitlines())


def items(path: Path, blocks: str, parts: str, name: str) -> list[dict[str, Any]]:
    """Return the raw items of a file of JSON lines, by plain json."""
    documents = [json.loads(line) for line in path.read_text().splitlines()]
    scopes = [part for document in documents for block in document.get(blocks, []) for part in block.get(parts, [])]
    return [item for scope in scopes for item in scope.get(name, [])]


def test_every_span_of_every_capture_is_read_and_none_is_rejected(captures: Path, limits: Limits) -> None:
    files = sorted(captures.glob("*/traces.jsonl"))
    assert len(files) == 59
    for path in files:
        batch = read(path, limits)
        raw = items(path, "resourceSpans", "scopeSpans", "spans")
        assert (path, len(raw), {}, {}, {}) == (path, len(batch.spans), batch.rejected, batch.ignored, batch.altered)
        assert [span["spanId"].lower() for span in raw] == [span.span_id for span in batch.spans]


def test_every_log_record_of_every_capture_is_kept_or_counted(captures: Path, limits: Limits) -> None:
    for path in sorted(captures.glob("*/logs.jsonl")):
        batch = read(path, limits)
        raw = items(path, "resourceLogs", "scopeLogs", "logRecords")
        assert batch.rejected == {}
        assert set(batch.ignored) <= {NOT_AN_EVENT, OUTSIDE_SPAN}
        assert len(raw) == len(batch.logs) + sum(batch.ignored.values())


def test_the_first_request_in_protobuf_gives_the_spans_of_the_first_json_line(captures: Path, limits: Limits) -> None:
    files = sorted(captures.glob("*/raw-traces-001.pb"))
    assert files
    for path in files:
        raw = decode_traces(path.read_bytes(), limits)
        lines = read(path.with_name("traces.jsonl"), limits)
        assert raw.rejected == {}
        assert _by_id(raw) == {key: _by_id(lines)[key] for key in _by_id(raw)}
        assert decode_message(path.read_bytes(), limits) == raw


def test_raw_log_records_equal_those_of_the_json_lines(captures: Path, limits: Limits) -> None:
    for path in sorted(captures.glob("*/raw-logs-001.pb")):
        raw = decode_logs(path.read_bytes(), limits)
        assert raw.logs == read(path.with_name("logs.jsonl"), limits).logs[: len(raw.logs)]
        assert decode_message(path.read_bytes(), limits) == raw


def _by_id(batch: SpanBatch) -> dict[tuple[str, str], object]:
    return {(span.trace_id, span.span_id): span for span in batch.spans}
