"""Conversations as text of bounded length for a judge, one JSON object per line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.evaluators.base import calls_in_order

if TYPE_CHECKING:
    from otel_agentic.conversations.model import ToolCall, Turn

#: Default characters of a transcript; below the limit of judges for one text (`judge.max_answer_characters`).
MAX_CHARACTERS: Final = 16_000
#: What each text, arguments or result is cut to, one after the other, until the whole fits.
_CUTS: Final = (4_000, 2_000, 1_000, 500, 200)
#: Reserved for the line that counts the omitted lines.
_GAP: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    r"""The text, one JSON object per line: no untrusted text can look like a line of another speaker.

    `{"turn": 1, "user": TEXT}`, `{"turn": 1, "call": NAME, "arguments": …, "result": … | "error": TEXT}`,
    `{"turn": 1, "agent": TEXT | null}`; turns are numbered from 1. A text that was cut keeps both of its ends, with
    `…_characters_left_out` next to it; unrecorded fields are listed in `"not recorded": [names]`. Lines omitted from
    the middle are replaced by `{"left_out": …}`. `cut` counts the texts that were cut, `left_out` the lines.
    """

    text: str
    cut: int = 0
    left_out: int = 0

    @property
    def note(self) -> str:
        """What to add to an explanation, in brackets and after a blank; "" where the judge was shown everything."""
        if not self.cut and not self.left_out:
            return ""
        return f" (the judge saw a shortened conversation: {self.cut} texts cut, {self.left_out} lines left out)"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """One line: its speaker, and by name its texts, or the JSON of other values."""

    turn: int
    kind: str
    texts: tuple[tuple[str, str], ...] = ()
    values: tuple[tuple[str, str], ...] = ()
    missing: tuple[str, ...] = ()


def transcript(turns: Sequence[Turn], *, max_characters: int = MAX_CHARACTERS) -> Transcript:
    r"""Return turns as a text of at most so many characters; there must be room for 200.

    >>> from otel_agentic.testing import tool_call, turn
    >>> print(transcript([turn("A hotel?", "The Ritz.", tool_call("search", {"q": "hotel"}, result=["Ritz"]))]).text)
    {"turn": 1, "user": "A hotel?"}
    {"turn": 1, "call": "search", "arguments": {"q": "hotel"}, "result": ["Ritz"]}
    {"turn": 1, "agent": "The Ritz."}
    """
    lines = [line for turn in turns for line in _lines(turn)]
    for most in _CUTS:
        written = [_written(line, most) for line in lines]
        if sum(len(text) + 1 for text, _ in written) <= max_characters:
            break
    else:
        return _without_middle(lines, written, max_characters)
    return Transcript(text="\n".join(text for text, _ in written), cut=sum(cut for _, cut in written))


def call_line(turn: Turn, call: ToolCall) -> str:
    r"""Return one call as the line that it is in a transcript, its arguments and its result cut where they are long.

    >>> from otel_agentic.testing import tool_call, turn
    >>> call = tool_call("search", {"q": "hotel"}, result=["Ritz"])
    >>> print(call_line(turn("A hotel?", "The Ritz.", call), call))
    {"turn": 1, "call": "search", "arguments": {"q": "hotel"}, "result": ["Ritz"]}
    """
    return _written(_called(turn.index + 1, call), _CUTS[1])[0]


def _without_middle(lines: Sequence[_Line], written: Sequence[tuple[str, int]], most: int) -> Transcript:
    """Return the lines of both ends that there is room for, half of it each."""
    sizes = [len(text) + 1 for text, _ in written]
    head = _fitting(sizes, (most - _GAP) // 2)
    tail = _fitting(sizes[:head:-1] if head else sizes[::-1], most - _GAP - sum(sizes[:head]))
    end = len(lines) - tail
    retained = [*written[:head], *written[end:]]
    texts = [text for text, _ in retained]
    texts.insert(head, _gap(lines[head:end]))
    return Transcript(text="\n".join(texts), cut=sum(cut for _, cut in retained), left_out=end - head)


def _fitting(sizes: Sequence[int], room: int) -> int:
    count = 0
    for size in sizes:
        room -= size
        if room < 0:
            break
        count += 1
    return count


def _gap(lines: Sequence[_Line]) -> str:
    counts = {kind: sum(line.kind == kind for line in lines) for kind in ("user", "call", "agent")}
    return json_line({"left_out": {"from_turn": lines[0].turn, "to_turn": lines[-1].turn, **counts}})


def _lines(turn: Turn) -> Iterator[_Line]:
    number = turn.index + 1
    if turn.query is not None or not turn.query_captured:
        yield _spoken(number, "user", turn.query)
    for call in calls_in_order(turn):
        yield _called(number, call)
    if turn.answer is not None or not turn.answer_captured:
        yield _spoken(number, "agent", turn.answer)
    else:
        error = () if turn.error is None else (("error", turn.error),)
        yield _Line(turn=number, kind="agent", texts=error, values=(("agent", "null"),))


def _spoken(number: int, kind: str, text: str | None) -> _Line:
    if text is None:
        return _Line(turn=number, kind=kind, missing=(kind,))
    return _Line(turn=number, kind=kind, texts=((kind, text),))


def _called(number: int, call: ToolCall) -> _Line:
    texts, values, missing = [("call", call.name)], [], []
    if call.kind != "tool":
        texts.append(("kind", call.kind))
    if call.arguments is None:
        missing.append("arguments")
    else:
        values.append(("arguments", json_line(dict(call.arguments))))
    if call.error is not None:
        texts.append(("error", call.error))
    elif not call.result_captured:
        missing.append("result")
    elif isinstance(call.result, str):
        texts.append(("result", call.result))
    else:
        values.append(("result", json_line(call.result)))
    return _Line(turn=number, kind="call", texts=tuple(texts), values=tuple(values), missing=tuple(missing))


def _written(line: _Line, most: int) -> tuple[str, int]:
    """Return a line, and how many of its texts were cut."""
    fields = [f'"turn": {line.turn}']
    cut = 0
    for name, text in line.texts:
        fields += _field(name, text, most)
        cut += len(text) > most
    for name, message in line.values:
        if len(message) > most:
            fields += _field(name, message, most)
            cut += 1
        else:
            fields.append(f'"{name}": {message}')
    if line.missing:
        fields.append(f'"not recorded": {json_line(list(line.missing))}')
    return "{" + ", ".join(fields) + "}", cut


def _field(name: str, text: str, most: int) -> list[str]:
    """Return a text as a field, with the number of characters cut from its middle."""
    if len(text) <= most:
        return [f'"{name}": {json_line(text)}']
    half = most // 2
    visible = f"{text[:half]} … {text[-half:]}"
    return [f'"{name}": {json_line(visible)}', f'"{name}_characters_left_out": {len(text) - 2 * half}']


def json_line(value: Any) -> str:
    """Return a value as JSON on one line, or a note if it has no JSON form."""
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):  # keys that are no texts, a number of thousands of digits, too deep
        return json.dumps("a value without a JSON form")
