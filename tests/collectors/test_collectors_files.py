from __future__ import annotations

import gzip
import io
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard
from inline_snapshot import snapshot
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collectors.files import (
    DAMAGED_REST,
    LINE_TOO_LARGE,
    MALFORMED_LINE,
    MALFORMED_MESSAGE,
    NOT_OTLP_FILE,
    FileChunk,
    FileReader,
)
from otel_agentic.config import Settings
from otel_agentic.errors import BadInputError
from otel_agentic.spans import Limits, merge_batches


def document(*names: str, indent: int | None = None) -> bytes:
    ids = {"traceId": "01" * 16, "spanId": "02" * 8, "startTimeUnixNano": "1", "endTimeUnixNano": "2"}
    spans = [{**ids, "name": name} for name in names]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}, indent=indent).encode()


def message(*names: str) -> bytes:
    request = ExportTraceServiceRequest()
    part = request.resource_spans.add().scope_spans.add()
    for name in names:
        part.spans.add(trace_id=b"\1" * 16, span_id=b"\2" * 8, name=name, start_time_unix_nano=1, end_time_unix_nano=2)
    return request.SerializeToString()


def delimited(*messages: bytes) -> bytes:
    return b"".join(bytes([len(data) & 127 | 128, len(data) >> 7]) + data for data in messages)


def names(chunks: list[FileChunk]) -> list[str]:
    return [span.name for chunk in chunks for span in chunk.batch.spans]


def problems(chunks: list[FileChunk]) -> list[str]:
    return [chunk.problem for chunk in chunks if chunk.problem is not None]


def read(path: Path, limits: Limits) -> list[FileChunk]:
    return list(FileReader(limits).read([path]))


PLAIN = {
    "lines": document("a") + b"\n" + document("b") + b"\n",
    "lines without a last end, with blank ones": b"\n\n" + document("a") + b"\r\n\n" + document("b"),
    "lines after a byte order mark": b"\xef\xbb\xbf" + document("a") + b"\n" + document("b"),
    "one line": document("a", "b"),
    "a pretty document": document("a", "b", indent=2),
    "a pretty document with tabs": document("a", "b", indent=2).replace(b"  ", b"\t"),
    "a single message": message("a", "b"),
    "delimited messages": delimited(message("a"), message("b")),
    "one delimited message": delimited(message("a", "b")),
}


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstandard.ZstdCompressor().compress])
@pytest.mark.parametrize("content", PLAIN.values(), ids=PLAIN.keys())
@pytest.mark.parametrize("name", ["spans.jsonl", "spans"])
def test_the_kind_is_recognised_by_content(
    tmp_path: Path, limits: Limits, name: str, content: bytes, compress: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / name
    path.write_bytes(compress(content))
    chunks = read(path, limits)
    assert (names(chunks), problems(chunks)) == (["a", "b"], [])
    assert {chunk.path for chunk in chunks} == {str(path)}
    assert chunks[-1].bytes_read == chunks[-1].total_bytes == path.stat().st_size


def test_gzip_members_after_each_other_are_one_file(tmp_path: Path, limits: Limits) -> None:
    path = tmp_path / "rotated.gz"
    path.write_bytes(gzip.compress(document("a") + b"\n") + gzip.compress(document("b")))
    assert names(read(path, limits)) == ["a", "b"]


def test_a_malformed_line_is_reported_with_its_number_and_reading_continues(tmp_path: Path, limits: Limits) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_bytes(b"\n".join([document("a"), b"{torn", document("b"), b"[]", document("c")]))
    chunks = read(path, limits)
    assert names(chunks) == ["a", "b", "c"]
    assert [chunk.line for chunk in chunks] == [1, 2, 3, 4, 5]
    assert [chunk.batch.rejected for chunk in chunks if chunk.problem] == [{MALFORMED_LINE: 1}] * 2
    assert problems(chunks)[0].startswith(f"{path}:2: not JSON: ")


def test_a_torn_first_line_does_not_hide_the_others(tmp_path: Path, limits: Limits) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_bytes(document("a")[40:] + b"\n" + document("b"))
    chunks = read(path, limits)
    assert (names(chunks), len(problems(chunks))) == (["b"], 1)


def test_lines_are_handed_on_together(tmp_path: Path, limits: Limits) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_bytes((document(*["x"] * 30) + b"\n") * 100)
    chunks = read(path, limits)
    assert len(names(chunks)) == 3000
    assert [chunk.line for chunk in chunks] == [1, 68]


def test_a_line_beyond_the_limit_is_skipped_without_keeping_it(tmp_path: Path, limits: Limits) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_bytes(b"\n".join([document("a"), document("x" * 3_000_000), document("b")]))
    chunks = read(path, replace(limits, max_request_bytes=1000))
    assert names(chunks) == ["a", "b"]
    assert [chunk.batch.rejected for chunk in chunks if chunk.problem] == [{LINE_TOO_LARGE: 1}]
    assert problems(chunks) == [f"{path}:2: longer than 1000 bytes (receive.max_request_bytes)"]


def test_a_document_beyond_the_limit_is_one_problem(tmp_path: Path, limits: Limits) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(document(*["x"] * 50, indent=1))
    [chunk] = read(path, replace(limits, max_request_bytes=1000))
    assert (chunk.line, chunk.batch.rejected) == (1, {LINE_TOO_LARGE: 1})


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.ZstdCompressor().compress])
def test_a_truncated_archive_gives_what_it_holds_and_a_problem(
    tmp_path: Path, limits: Limits, compress: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "traces.gz"
    noise = "".join(os.urandom(30_000).hex() for _ in range(10))
    path.write_bytes(compress(document("a") + b"\n" + document(noise) + b"\n" + document("b"))[:-200_000])
    chunks = read(path, limits)
    assert names(chunks) == ["a"]
    assert chunks[-1].batch.rejected == {DAMAGED_REST: 1}
    assert "truncated" in problems(chunks)[-1]


def test_a_damaged_message_is_reported_and_reading_continues(tmp_path: Path, limits: Limits) -> None:
    path = tmp_path / "spans.pb"
    path.write_bytes(delimited(message("a"), b"\xff" * 20, message("b")) + b"\x80\x01short")
    chunks = read(path, limits)
    assert names(chunks) == ["a", "b"]
    assert [chunk.batch.rejected for chunk in chunks if chunk.problem] == [{MALFORMED_MESSAGE: 1}] * 2
    assert "message 2: " in problems(chunks)[0]
    assert "message 4: truncated" in problems(chunks)[1]


def test_a_file_that_is_no_otlp_is_one_problem_if_named(tmp_path: Path, limits: Limits) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 10)
    chunks = read(path, limits)
    assert (names(chunks), len(problems(chunks))) == ([], 1)


def test_an_empty_file_has_no_chunks(tmp_path: Path, limits: Limits) -> None:
    path = tmp_path / "empty"
    path.touch()
    assert read(path, limits) == []


def test_a_directory_is_read_in_sorted_order_and_other_files_in_it_are_only_counted(
    tmp_path: Path, limits: Limits
) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / "c.jsonl").write_bytes(document("c"))
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(document("a", indent=1)))
    (tmp_path / "b" / "b.pb").write_bytes(message("b"))
    (tmp_path / ".git" / "hidden.jsonl").write_bytes(document("hidden"))
    (tmp_path / "README.md").write_bytes(b"# about\nthis folder\n")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(200))
    (tmp_path / "expected.json").write_bytes(b'{\n "framework": "x"\n}\n')
    chunks = read(tmp_path, limits)
    assert (names(chunks), problems(chunks)) == (["a", "b", "c"], [])
    ignored = merge_batches(chunk.batch for chunk in chunks).ignored
    assert ignored == snapshot({NOT_OTLP_FILE: 2, "JSON without resourceSpans or resourceLogs": 1})
    assert chunks[-1].bytes_read == chunks[-1].total_bytes


def test_linked_directories_are_not_followed(tmp_path: Path, limits: Limits) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "loop").symlink_to(tmp_path)
    (tmp_path / "real" / "a.jsonl").write_bytes(document("a"))
    assert names(read(tmp_path, limits)) == ["a"]


def test_standard_input_is_a_dash_and_stays_open(limits: Limits) -> None:
    stdin = io.BytesIO(gzip.compress(document("a") + b"\n" + document("b")))
    chunks = list(FileReader(limits, stdin=stdin).read(["-"]))
    assert names(chunks) == ["a", "b"]
    assert {(chunk.path, chunk.total_bytes) for chunk in chunks} == {("<stdin>", None)}
    assert not stdin.closed


def test_paths_that_cannot_be_read_are_named_before_anything_is_read(tmp_path: Path, limits: Limits) -> None:
    good, missing, pipe, loop = (tmp_path / name for name in ("good.jsonl", "missing", "pipe", "loop"))
    good.write_bytes(document("a"))
    os.mkfifo(pipe)
    loop.symlink_to(loop)
    for bad in (missing, pipe, loop, "/dev/null", "nul\0"):
        with pytest.raises(BadInputError, match=str(bad).replace("\0", ".")):
            next(FileReader(limits).read([good, bad]))


def test_a_named_pipe_inside_a_directory_is_reported_and_does_not_hang(tmp_path: Path, limits: Limits) -> None:
    os.mkfifo(tmp_path / "a.pipe")
    (tmp_path / "b.jsonl").write_bytes(document("b"))
    chunks = read(tmp_path, limits)
    assert names(chunks) == ["b"]
    assert "named pipe" in problems(chunks)[0]


def test_captures_are_read_as_a_directory_and_raw_protobuf_adds_only_duplicates(captures: Path) -> None:
    reader = FileReader.from_settings(Settings())
    folder = captures / "adk-2-schema2-span"
    batch = merge_batches(chunk.batch for chunk in reader.read([folder]))
    lines = merge_batches(chunk.batch for chunk in reader.read([folder / "traces.jsonl", folder / "logs.jsonl"]))
    assert (batch.rejected, lines.rejected) == ({}, {})
    assert len(batch.spans) > len(lines.spans)
    assert {span.span_id for span in batch.spans} == {span.span_id for span in lines.spans}
    assert len(batch.logs) > 0
