"""Attribute values of OTLP/protobuf -> plain Python.

The string case comes first: nine of ten attribute values are text, and asking protobuf which member of the oneof is set costs
as much as reading the text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_agentic.spans.sanitize import (
    CUT_ATTRIBUTES,
    CUT_DEPTH,
    MAX_DEPTH,
    clean_bytes,
    clean_float,
    clean_name,
    clean_text,
    first_of,
)

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Sequence

    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

    from otel_agentic.spans.limits import Limits


def read_attributes(pairs: Sequence[KeyValue], limits: Limits, altered: Counter[str]) -> dict[str, Any]:
    """Return an attribute list as a dict; of equal keys the last wins, as in the SDKs."""
    longest_key, longest_text = limits.max_name_bytes, limits.max_value_bytes
    attributes: dict[str, Any] = {}
    for pair in first_of(pairs, limits.max_attributes, CUT_ATTRIBUTES, altered):
        key, value = pair.key, pair.value
        # The tests of `clean_text` are repeated inline: a call for each key and text made decoding 15 % slower.
        if len(key) > longest_key or not key.isascii() or "\0" in key:
            key = clean_name(key, limits, altered)
        text = value.string_value
        if not text:
            attributes[key] = read_value(value, limits, altered)
        elif len(text) > longest_text or not text.isascii() or "\0" in text:
            attributes[key] = clean_text(text, longest_text, altered)
        else:
            attributes[key] = text
    return attributes


def read_value(value: AnyValue, limits: Limits, altered: Counter[str], depth: int = 0) -> Any:
    """Return an AnyValue as a plain Python value, None for an empty one."""
    reader = _READERS.get(value.WhichOneof("value") or "")
    return None if reader is None else reader(value, limits, altered, depth)


def _string(value: AnyValue, limits: Limits, altered: Counter[str], _depth: int) -> str:
    return clean_text(value.string_value, limits.max_value_bytes, altered)


def _int(value: AnyValue, _limits: Limits, _altered: Counter[str], _depth: int) -> int:
    return value.int_value


def _bool(value: AnyValue, _limits: Limits, _altered: Counter[str], _depth: int) -> bool:
    return value.bool_value


def _double(value: AnyValue, _limits: Limits, altered: Counter[str], _depth: int) -> float | str:
    return clean_float(value.double_value, altered)


def _bytes(value: AnyValue, limits: Limits, altered: Counter[str], _depth: int) -> bytes:
    return clean_bytes(value.bytes_value, limits.max_value_bytes, altered)


def _nested(value: AnyValue, limits: Limits, altered: Counter[str], depth: int) -> Any:
    if depth >= MAX_DEPTH:
        altered[CUT_DEPTH] += 1
        return None
    if value.HasField("array_value"):
        return [read_value(item, limits, altered, depth + 1) for item in value.array_value.values]
    pairs = value.kvlist_value.values
    return {clean_name(pair.key, limits, altered): read_value(pair.value, limits, altered, depth + 1) for pair in pairs}


#: Members that a later OTLP adds are read as empty.
_READERS: Final[dict[str, Callable[[AnyValue, Limits, Counter[str], int], Any]]] = {
    "string_value": _string,
    "int_value": _int,
    "bool_value": _bool,
    "double_value": _double,
    "bytes_value": _bytes,
    "array_value": _nested,
    "kvlist_value": _nested,
}
