"""Texts compared with recorded ones, which `make snapshots` replaces by the closest passage where they no longer occur."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_Position = Literal["anywhere", "start", "end", "whole"]
_LEAST_RATIO = 0.3  # a passage that is less similar is not the recorded text in other words


def passage(text: object, **values: object) -> Any:
    """Return an object equal to every text that occurs in `text`: a string, an exception, or an `ExceptionInfo`.

    White space counts as one space. `<name>` in a recorded text stands for the value of that name.
    """
    return Text(_string(text), values, "anywhere")


def opening(text: object, **values: object) -> Any:
    """Return an object equal to every text that `text` begins with; see `passage`."""
    return Text(_string(text), values, "start")


def ending(text: object, **values: object) -> Any:
    """Return an object equal to every text that `text` ends with; see `passage`."""
    return Text(_string(text), values, "end")


def message(text: object, **values: object) -> Any:
    """Return an object equal to `text` only, white space included; see `passage`."""
    return Text(_string(text), values, "whole")


class Text:
    """A text, the values that recorded texts name, and the recorded texts that it was compared with.

    Not a dataclass: inline-snapshot would write its constructor into the source instead of its `repr`.
    """

    def __init__(self, text: str, values: Mapping[str, object], position: _Position) -> None:
        self.text = text
        self.values = values
        self.position = position
        self.recorded: list[str] = []

    __hash__ = None  # type: ignore[assignment]  # equal to many texts

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Text):
            return (self.text, self.position) == (other.text, other.position)
        if not isinstance(other, str):
            return NotImplemented
        self.recorded.append(other)
        return self._matches(other)

    def __repr__(self) -> str:
        """Return the passage that is most similar to a recorded text: what a fix writes into the source."""
        if equal := [recorded for recorded in self.recorded if self._matches(recorded)]:
            return repr(equal[0])
        _, closest = max(
            (match for recorded in self.recorded for match in self._passages(recorded)), default=(0, self.text)
        )
        for name, value in self.values.items():
            closest = re.sub(rf"(?<!\w){re.escape(str(value))}(?!\w)", f"<{name}>", closest)
        return repr(closest)

    def _matches(self, recorded: str) -> bool:
        for name, value in self.values.items():
            recorded = recorded.replace(f"<{name}>", str(value))
        if self.position == "whole":
            return recorded == self.text
        text, words = _one_spaced(self.text), _one_spaced(recorded)
        if not words:
            return False  # an empty text occurs everywhere
        return {"anywhere": words in text, "start": text.startswith(words), "end": text.endswith(words)}[self.position]

    def _passages(self, recorded: str) -> Iterator[tuple[float, str]]:
        """Yield runs of lines, sentences and clauses, with how similar they are to a recorded text."""
        if self.position == "whole":
            return
        clauses = [
            clause
            for line in self.text.splitlines()
            for clause in re.split(r"(?<=[;:.,)])\s+", _one_spaced(line))
            if clause
        ]
        matcher = SequenceMatcher(b=recorded.split(), autojunk=False)
        for first in range(1 if self.position == "start" else len(clauses)):
            for end in range(len(clauses) if self.position == "end" else first + 1, len(clauses) + 1):
                candidate = " ".join(clauses[first:end])
                words = candidate.split()
                if len(words) > 3 * len(recorded.split()) + 10:
                    break
                matcher.set_seq1(words)
                if matcher.quick_ratio() >= _LEAST_RATIO and matcher.ratio() >= _LEAST_RATIO:
                    yield matcher.ratio(), candidate


def _one_spaced(text: str) -> str:
    return " ".join(text.split())


def _string(text: object) -> str:
    return str(text.value if isinstance(text, pytest.ExceptionInfo) else text)
