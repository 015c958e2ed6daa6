"""Texts compared with recorded ones, which `make snapshots` replaces by the closest passage where they no longer occur."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import SequenceMatcher
from typing import Any, Literal, TypeVar

import pytest

_Source = str | BaseException | pytest.ExceptionInfo[Any]
E = TypeVar("E", bound=BaseException)
_Position = Literal["anywhere", "start", "end", "exact", "item"]
_LEAST_RATIO = 0.3  # a passage that is less similar is not the recorded text in other words


def passage(text: _Source, /, **values: object) -> Any:
    """Return an object equal to every text that occurs in `text`: a string, an exception, or an `ExceptionInfo`.

    White space counts as one space, unless the recorded text has a line break or two spaces in a row. `<name>` in a
    recorded text represents the value of the argument `name`.
    """
    return Text(_string(text), values, "anywhere")


def opening(text: _Source, /, **values: object) -> Any:
    """Return an object equal to every text that `text` begins with; see `passage`."""
    return Text(_string(text), values, "start")


def ending(text: _Source, /, **values: object) -> Any:
    """Return an object equal to every text that `text` ends with; see `passage`."""
    return Text(_string(text), values, "end")


def exactly(text: _Source, /, **values: object) -> Any:
    """Return an object equal to `text` only, white space included; see `passage`."""
    return Text(_string(text), values, "exact")


def item(texts: Iterable[str], /, **values: object) -> Any:
    """Return an object equal to each of some texts, white space included; see `passage`."""
    if isinstance(texts, str):
        raise TypeError("one text; for a part of it use passage")
    return Text(tuple(texts), values, "item")


@contextmanager
def raises(
    kind: type[E] | tuple[type[E], ...], recorded: str, /, **values: object
) -> Iterator[pytest.ExceptionInfo[E]]:
    """Expect an exception whose message holds a recorded text; see `passage`."""
    with pytest.raises(kind) as caught:
        yield caught
    text = passage(caught, **values)
    assert text == recorded, f"{text!r}, expected {recorded!r}"


class Text:
    """A text, the values that recorded texts name, and the recorded texts that it was compared with.

    Not a dataclass: inline-snapshot would write its constructor into the source instead of its `repr`.
    """

    def __init__(self, text: str | tuple[str, ...], values: Mapping[str, object], position: _Position) -> None:
        self.text = text if isinstance(text, str) else "\n".join(text)
        self.items = (text,) if isinstance(text, str) else text
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
        for recorded in self.recorded:
            if self._matches(recorded):
                return repr(recorded)
        similar = [match for recorded in self.recorded for match in self._similar(recorded)]
        _, closest = max(similar, default=(0.0, self.text))
        for name, value in self.values.items():
            closest = re.sub(rf"(?<!\w){re.escape(str(value))}(?!\w)", f"<{name}>", closest)
        return repr(closest)

    def _matches(self, recorded: str) -> bool:
        expected = self._filled(recorded)
        if self.position in {"exact", "item"}:
            return expected in self.items
        if not expected.strip():
            return False  # an empty text occurs everywhere
        text = self.text if re.search(r"\n|  ", expected) else _one_spaced(self.text)
        if self.position == "start":
            return text.startswith(expected)
        return text.endswith(expected) if self.position == "end" else expected in text

    def _filled(self, recorded: str) -> str:
        for name, value in self.values.items():
            recorded = recorded.replace(f"<{name}>", str(value))
        return recorded

    def _similar(self, recorded: str) -> Iterator[tuple[float, str]]:
        """Yield the passages that are similar to a recorded text, each after the ratio of words that they share."""
        expected = self._filled(recorded).split()
        matcher = SequenceMatcher(b=expected, autojunk=False)
        for candidate in self._passages(max_words=3 * len(expected) + 10):
            matcher.set_seq1(candidate.split())
            if matcher.quick_ratio() >= _LEAST_RATIO and matcher.ratio() >= _LEAST_RATIO:
                yield matcher.ratio(), candidate

    def _passages(self, max_words: int) -> Iterator[str]:
        """Yield what could be recorded instead: all runs of clauses at the position."""
        if self.position in {"exact", "item"}:
            yield from self.items
            return
        lines = map(_one_spaced, self.text.splitlines())
        clauses = [clause for line in lines for clause in re.split(r"(?<=[;:.,)])\s+", line) if clause]
        temporary = rf"^\S*{re.escape(tempfile.gettempdir())}\S*/"
        for first in range(1 if self.position == "start" else len(clauses)):
            words = 0
            for end, clause in enumerate(clauses[first:], first + 1):
                words += len(clause.split())
                if words > max_words:
                    break
                run = " ".join(clauses[first:end])
                if self.position == "anywhere":
                    yield re.sub(temporary, "", run).rstrip(",:;")
                elif self.position == "start" or end == len(clauses):
                    yield run


def _one_spaced(text: str) -> str:
    return " ".join(text.split())


def _string(text: _Source) -> str:
    if not isinstance(text, (str, BaseException, pytest.ExceptionInfo)):
        raise TypeError(f"{type(text).__name__} is no text; for several texts use item")
    return str(text.value if isinstance(text, pytest.ExceptionInfo) else text)
