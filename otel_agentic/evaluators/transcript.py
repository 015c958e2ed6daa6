"""Conversations as text of bounded length for a judge, one JSON object per line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.evaluators.base import calls_in_order
from otel_agentic.judges.base import JsonLines

if TYPE_CHECKING:
    from otel_agentic.conversations.model import ToolCall, Turn

#: Default characters of a transcript; below the limit of judges for one text (`judge.max_answer_characters`).
MAX_CHARACTERS: Final = 16_000
#: Limits in characters of each text, arguments or result; the next one is tried until the transcript fits.
_CUTS: Final = (4_000, 2_000, 1_000, 500, 200)
#: Reserved for the line that counts the omitted lines.
_GAP: Final = 200
#: A string of a JSON text, or white space between its tokens.
_STRING_OR_SPACE: Final = re.compile(r'("(?:[^"\\]|\\.)*+")|\s+')


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    r"""A conversation as text, one JSON object per line, so that untrusted text cannot imitate another speaker's line.

    `{"turn":1,"user":TEXT}`, `{"turn":1,"call":NAME,"arguments":…,"result":… | "error":TEXT}`,
    `{"turn":1,"agent":TEXT | null}`; turns are numbered from 1. A result that is the text of a JSON object or list is that
    object or list. A text that was cut keeps both of its ends, with `…_characters_left_out` next to it; unrecorded fields
    are listed in `"not recorded":[names]`. Lines omitted from the middle are replaced by `{"left_out":…}`.
    `cut` counts the texts that were cut to `max_text` characters, `left_out` the omitted lines. `last` is the number of
    lines of the last turn.
    """

    text: JsonLines
    cut: int = 0
    left_out: int = 0
    last: int = 0
    max_text: int = _CUTS[0]

    @property
    def fits(self) -> bool:
        """Whether the conversation was short enough: no line is omitted, and only very long texts are cut."""
        return not self.left_out and self.max_text == _CUTS[0]

    @property
    def material(self) -> dict[str, str]:
        """The conversation as the texts `turn`, its last turn, and `earlier`, the turns before it, if anything did.

        Questions about a conversation and those about its last turn therefore have the same material, and share a call,
        unless texts had to be cut.
        """
        lines = self.text.split("\n")
        earlier, turn = (JsonLines("\n".join(part)) for part in (lines[: -self.last], lines[-self.last :]))
        return {"earlier": earlier, "turn": turn} if earlier else {"turn": turn}

    @property
    def note(self) -> str:
        """A remark for explanations, in parentheses after a space; "" if the transcript is complete."""
        if not self.cut and not self.left_out:
            return ""
        return f" (the judge saw a shortened conversation: {self.cut} texts cut, {self.left_out} lines left out)"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """One line: its kind, by name its texts and the JSON of other values, and the names of unrecorded fields."""

    turn: int
    kind: str
    texts: tuple[tuple[str, str], ...] = ()
    values: tuple[tuple[str, str], ...] = ()
    missing: tuple[str, ...] = ()


def transcript(turns: Sequence[Turn], *, max_characters: int = MAX_CHARACTERS, max_text: int = _CUTS[0]) -> Transcript:
    r"""Return turns as a text of at most `max_characters` characters, at least 200.

    Each text, arguments or result has at most `max_text` characters, at least 200, and fewer if the transcript would be too long.

    >>> from otel_agentic.testing import tool_call, turn
    >>> print(transcript([turn("A hotel?", "The Ritz.", tool_call("search", {"q": "hotel"}, result=["Ritz"]))]).text)
    {"turn":1,"user":"A hotel?"}
    {"turn":1,"call":"search","arguments":{"q":"hotel"},"result":["Ritz"]}
    {"turn":1,"agent":"The Ritz."}
    """
    lines = [line for turn in turns for line in _lines(turn)]
    for cut in (cut for cut in _CUTS if cut <= max_text):
        rendered_lines = [_rendered(line, cut) for line in lines]
        if sum(len(text) + 1 for text, _ in rendered_lines) <= max_characters:
            break
    else:
        return _without_middle(lines, rendered_lines, max_characters)
    return Transcript(
        text=JsonLines("\n".join(text for text, _ in rendered_lines)),
        cut=sum(cut for _, cut in rendered_lines),
        last=_count_last(lines),
        max_text=cut,
    )


def _count_last(lines: Sequence[_Line]) -> int:
    """Return the number of lines of the last turn."""
    return sum(line.turn == lines[-1].turn for line in lines) if lines else 0


def call_line(turn: Turn, call: ToolCall) -> JsonLines:
    r"""Return one call as a line of a transcript, with long arguments and results cut.

    >>> from otel_agentic.testing import tool_call, turn
    >>> call = tool_call("search", {"q": "hotel"}, result=["Ritz"])
    >>> print(call_line(turn("A hotel?", "The Ritz.", call), call))
    {"turn":1,"call":"search","arguments":{"q":"hotel"},"result":["Ritz"]}
    """
    return JsonLines(_rendered(_tool_call_line(turn.index + 1, call), _CUTS[1])[0])


def _without_middle(
    lines: Sequence[_Line], rendered_lines: Sequence[tuple[str, int]], max_characters: int
) -> Transcript:
    """Return as many lines from the beginning and the end as fit; the beginning takes at most half of the space."""
    sizes = [len(text) + 1 for text, _ in rendered_lines]
    head = _count_fitting(sizes, (max_characters - _GAP) // 2)
    tail = _count_fitting(sizes[:head:-1] if head else sizes[::-1], max_characters - _GAP - sum(sizes[:head]))
    end = len(lines) - tail
    retained = [*rendered_lines[:head], *rendered_lines[end:]]
    texts = [text for text, _ in retained]
    texts.insert(head, _gap(lines[head:end]))
    # The line that counts the omitted ones belongs to the last turn if these are all of that turn.
    last = _count_last([*lines[:head], lines[head], *lines[end:]])
    return Transcript(
        text=JsonLines("\n".join(texts)), cut=sum(cut for _, cut in retained), left_out=end - head, last=last
    )


def _count_fitting(sizes: Sequence[int], room: int) -> int:
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
        yield _message_line(number, "user", turn.query)
    for call in calls_in_order(turn):
        yield _tool_call_line(number, call)
    if turn.answer is not None or not turn.answer_captured:
        yield _message_line(number, "agent", turn.answer)
    else:
        error = () if turn.error is None else (("error", turn.error),)
        yield _Line(turn=number, kind="agent", texts=error, values=(("agent", "null"),))


def _message_line(number: int, kind: str, text: str | None) -> _Line:
    if text is None:
        return _Line(turn=number, kind=kind, missing=(kind,))
    return _Line(turn=number, kind=kind, texts=((kind, text),))


def _tool_call_line(number: int, call: ToolCall) -> _Line:
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
    else:
        value = _json_in(call.result) if isinstance(call.result, str) else json_line(call.result)
        if value is None:
            texts.append(("result", call.result))
        else:
            values.append(("result", value))
    return _Line(turn=number, kind="call", texts=tuple(texts), values=tuple(values), missing=tuple(missing))


def _json_in(text: str) -> str | None:
    """Return a text that is a JSON object or list, without white space between its tokens; None for any other text."""
    if text.lstrip()[:1] not in {"{", "["}:
        return None
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    return _STRING_OR_SPACE.sub(r"\1", text)


def _rendered(line: _Line, max_text: int) -> tuple[str, int]:
    """Return a line, and how many of its texts were cut."""
    fields = [f'"turn":{line.turn}']
    cut = 0
    for name, text in line.texts:
        fields += _field(name, text, max_text)
        cut += len(text) > max_text
    for name, value in line.values:
        if len(value) > max_text:
            fields += _field(name, value, max_text)
            cut += 1
        else:
            fields.append(f'"{name}":{value}')
    if line.missing:
        fields.append(f'"not recorded":{json_line(list(line.missing))}')
    return "{" + ",".join(fields) + "}", cut


def _field(name: str, text: str, max_text: int) -> list[str]:
    """Return a text as a field, with the number of characters cut from its middle."""
    if len(text) <= max_text:
        return [f'"{name}":{json_line(text)}']
    half = max_text // 2
    shortened = f"{text[:half]} … {text[-half:]}"
    return [f'"{name}":{json_line(shortened)}', f'"{name}_characters_left_out":{len(text) - 2 * half}']


def json_line(value: Any) -> str:
    """Return a value as JSON on one line, without spaces, or a note if it has no JSON form."""
    try:
        return json.dumps(value, ensure_ascii=False, default=str, separators=(",", ":"))
    except (
        TypeError,
        ValueError,
        RecursionError,
    ):  # keys that are not strings, integers with thousands of digits, deep nesting
        return json.dumps("a value without a JSON form")
