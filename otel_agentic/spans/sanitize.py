"""Cleaning of untrusted values: nothing here raises on data, and every change is counted.

| received | becomes |
|---|---|
| NaN, Infinity | the text `NaN`, `Infinity`, `-Infinity` (one NaN would poison every average over a column) |
| an integer beyond 64 bits | its digits as text |
| NUL, a lone surrogate | U+FFFD |
| text beyond a limit | its beginning, cut between characters; a long text is cut before the word that the limit would split |
| a value nested deeper than 48 levels | None |
| a time of 0, or of the year 2200 and later | unset: a span's other time, an event's span start; 0 if there is no such time |
| an end before the start | the start |
| an enumeration value that OTLP does not define | 0, unset |
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from otel_agentic.spans.limits import cut_text

if TYPE_CHECKING:
    from collections import Counter

    from otel_agentic.spans.limits import Limits

_Item = TypeVar("_Item")

#: The first integer beyond 64 bits with a sign.
_INT64_END: Final = 2**63
#: The first time that is out of range, 1 January 2200: DuckDB's range ends in 2262, and there must be room for durations that
#: are added to a time, such as how long a conversation may be idle.
TIME_END_NS: Final = 7_258_118_400 * 10**9
#: The depth to which protobuf itself reads nested AnyValues, so that OTLP/JSON and OTLP/protobuf agree.
MAX_DEPTH: Final = 48

TRACE_ID_HEX: Final = 32
SPAN_ID_HEX: Final = 16

CUT_VALUE: Final = "attribute value beyond max_value_bytes cut"
CUT_NAME: Final = "name beyond max_name_bytes cut"
CUT_ATTRIBUTES: Final = "attributes beyond max_attributes cut"
CUT_EVENTS: Final = "events or links beyond max_events cut"
CUT_DEPTH: Final = "value nested deeper than 48 levels cut"
MENDED_TEXT: Final = "NUL or lone surrogate replaced"
MENDED_NUMBER: Final = "number that is NaN, infinite or beyond 64 bits kept as text"
MENDED_BYTES: Final = "bytesValue that is not base64 kept as text"
MENDED_TYPE: Final = "value of a type that OTLP does not know"
MENDED_TIME: Final = "time of 0, or of the year 2200 and later, taken as unset"
MENDED_ORDER: Final = "end before start set to the start"
MENDED_PARENT: Final = "parent_span_id that is not 8 bytes taken as none"
DROPPED_LINK: Final = "link whose trace or span id is not 16/8 bytes or is all zero dropped"

#: Half a key or password can no longer be recognised as one: a word of up to this many characters is not split.
_WORD: Final = 256
#: Texts of up to this many bytes are names or remarks, in which every character matters.
_SHORT_BYTES: Final = 4096

_HEX: Final = "0123456789abcdefABCDEF"
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


def clean_text(text: str, max_bytes: int, altered: Counter[str], cut_reason: str = CUT_VALUE) -> str:
    r"""Return text that UTF-8 and the store can represent, at most `max_bytes` long.

    >>> from collections import Counter
    >>> clean_text("a\0b", 10, Counter())
    'a\ufffdb'
    """
    if len(text) <= max_bytes and text.isascii() and "\0" not in text:
        return text
    replaced = _replace_invalid(text)
    if replaced != text:
        altered[MENDED_TEXT] += 1
    cut = cut_text(replaced, max_bytes)
    if len(cut) == len(replaced):
        return cut
    altered[cut_reason] += 1
    return _without_half_a_word(cut) if max_bytes > _SHORT_BYTES and not replaced[len(cut)].isspace() else cut


def clean_float(value: float, altered: Counter[str]) -> float | str:
    """Return the number, or its OTLP/JSON text if it is not finite.

    >>> from collections import Counter
    >>> clean_float(float("-inf"), Counter())
    '-Infinity'
    """
    if math.isfinite(value):
        return value
    altered[MENDED_NUMBER] += 1
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def clean_int(value: int, altered: Counter[str]) -> int | str:
    """Return the number, or its digits as text if it does not fit into 64 bits."""
    if -_INT64_END <= value < _INT64_END:
        return value
    altered[MENDED_NUMBER] += 1
    try:
        return str(value)
    except ValueError:  # Python refuses to write more than 4,300 decimal digits
        return hex(value)


def clean_bytes(value: bytes, max_bytes: int, altered: Counter[str]) -> bytes:
    """Return the first `max_bytes` of a value."""
    if len(value) <= max_bytes:
        return value
    altered[CUT_VALUE] += 1
    return value[:max_bytes]


def clean_value(value: object, limits: Limits, altered: Counter[str], depth: int = 0) -> Any:
    """Return a plain Python value as it would be after a transfer by OTLP."""
    if isinstance(value, (str, bytes, bytearray)) or not isinstance(value, (Mapping, Sequence)):
        return _clean_scalar(value, limits, altered)
    if depth >= MAX_DEPTH:
        altered[CUT_DEPTH] += 1
        return None
    if isinstance(value, Mapping):
        pairs = value.items()
        return {clean_name(str(key), limits, altered): clean_value(v, limits, altered, depth + 1) for key, v in pairs}
    return [clean_value(item, limits, altered, depth + 1) for item in value]


def _clean_scalar(value: object, limits: Limits, altered: Counter[str]) -> Any:
    match value:
        case None | bool():
            return value
        case str():
            return clean_text(value, limits.max_value_bytes, altered)
        case int():
            return clean_int(value, altered)
        case float():
            return clean_float(value, altered)
        case bytes() | bytearray():
            return clean_bytes(bytes(value), limits.max_value_bytes, altered)
        case _:
            altered[MENDED_TYPE] += 1
            return f"<{type(value).__name__}>"


def clean_name(name: str, limits: Limits, altered: Counter[str]) -> str:
    """Return a name or an attribute key within the limit for names."""
    return clean_text(name, limits.max_name_bytes, altered, CUT_NAME)


def clean_time(time_ns: int, fallback_ns: int, altered: Counter[str]) -> int:
    """Return a time, or the fallback if it is unset or out of range; 0 if both are.

    >>> from collections import Counter
    >>> clean_time(2**64 - 1, 5, Counter())
    5
    """
    if 0 < time_ns < TIME_END_NS:
        return time_ns
    altered[MENDED_TIME] += 1
    return fallback_ns if 0 < fallback_ns < TIME_END_NS else 0


def clean_times(start_ns: int, end_ns: int, altered: Counter[str]) -> tuple[int, int]:
    """Return start and end of a span, in range and in order.

    >>> from collections import Counter
    >>> clean_times(7, 0, Counter()), clean_times(7, 3, Counter())
    ((7, 7), (7, 7))
    """
    start = clean_time(start_ns, end_ns, altered)
    end = clean_time(end_ns, start, altered)
    if end < start:
        altered[MENDED_ORDER] += 1
        end = start
    return start, end


def clean_enum(value: int, highest: int) -> int:
    """Return the value of an enumeration from 0 to `highest`, or 0 for an unknown value."""
    return value if 0 <= value <= highest else 0


def first_of(items: Sequence[_Item], count: int, reason: str, altered: Counter[str]) -> Sequence[_Item]:
    """Return the first `count` items; the others are counted in `altered` under the reason."""
    surplus = len(items) - count
    if surplus <= 0:
        return items
    altered[reason] += surplus
    return items[:count]


def id_of_bytes(raw: bytes, hex_length: int) -> str:
    """Return an id as lower-case hex text, or the empty text if its length is wrong or it is all zero."""
    return raw.hex() if len(raw) * 2 == hex_length and any(raw) else ""


def id_of_text(text: object, hex_length: int) -> str:
    """Return a hex id in lower case, or the empty text if it is not such an id or all zero.

    >>> id_of_text("00F067AA0BA902B7", 16)
    '00f067aa0ba902b7'
    """
    if not isinstance(text, str) or len(text) != hex_length or text.strip(_HEX) or not text.strip("0"):
        return ""
    return text.lower()


def _without_half_a_word(cut: str) -> str:
    """Return a text up to its last white space or quote, if that is near the end."""
    end = cut[-_WORD:]
    edge = next(
        (position for position in range(len(end), 0, -1) if end[position - 1].isspace() or end[position - 1] in "\"'"),
        0,
    )
    return cut[: len(cut) - len(end) + edge] if edge else cut


def _replace_invalid(text: str) -> str:
    replaced = text.replace("\0", _REPLACEMENT)
    if replaced.isascii():
        return replaced
    try:
        replaced.encode()
    except UnicodeEncodeError:
        # Through UTF-16, a pair of surrogates becomes its character, a lone one the replacement character.
        return replaced.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return replaced
