"""Digests of what was said so far: by them a run without a conversation id is found to go on with another.

Three ways in which a framework shows history, the surest first: the messages with their calls, the texts alone (calls are
rewritten on the way), and a transcript pasted into one message of the user.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.conversations.answers import answer_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from otel_agentic.dialects.events import Message

#: A user's message and an answer: less history than that proves nothing.
_LEAST: Final = 2
#: `Guest: …`: who speaks, in a transcript.
_SPEAKER: Final = re.compile(r"^\s*[\w *#<>-]{1,32}:\s+")
#: The same on a line of its own.
_LABEL: Final = re.compile(r"^[\w *#<>-]{1,32}:$")
#: Of a pasted transcript so many last lines are looked at, and shorter ones prove nothing.
_MOST_LINES: Final = 64
_LEAST_LINE: Final = 8


def digests_before(messages: Sequence[Message], queries: Iterable[str]) -> tuple[str, ...]:
    """Return digests of what was said before a run, the weakest first.

    Args:
        messages: what its first model call was sent.
        queries: the user's text that it answers, as the run and as the model was given it.
    """
    before = [message for message in messages if message.role != "system"][:-1]  # what it was sent last is its own
    earlier = (*_prefixes("texts", _texts(before)), *_prefixes("messages", _whole(before)))
    return (*dict.fromkeys(digest for query in queries for digest in _transcript(query)), *earlier)


def digests_after(messages: Sequence[Message], answer: str | None) -> tuple[str, ...]:
    """Return the digests that a run which goes on with this one has among its own.

    Args:
        messages: what its last model call was sent and said.
        answer: what the run answered.
    """
    found = []
    for kind, said in (("texts", _texts(messages)), ("messages", _whole(messages))):
        digests = _prefixes(kind, said)
        # What still waits for its answer goes on, however little was said.
        if len(digests) >= _LEAST or (digests and messages[-1].role != "assistant"):
            found.append(digests[-1])
    line = _last_line(answer)
    return (*([line] if line is not None else []), *found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """What a query and its answer look like in the transcript that a later query may be.

    `lines` are the last lines of the query, each with and without who speaks, `answer` those of the answer. `digest` is that
    of the answer's last line, as it stands among the `digests_after`.
    """

    lines: tuple[frozenset[str], ...] = ()
    answer: tuple[frozenset[str], ...] = ()
    digest: str | None = None

    def shows(self, earlier: Transcript) -> bool:
        """Return whether the query has an earlier answer, and right before it what was asked.

        An answer alone proves nothing: people paste it, and many end alike.
        """
        if not earlier.answer:
            return False
        asked, size = frozenset().union(*earlier.lines), len(earlier.answer)
        return any(
            self.lines[at] & earlier.answer[-1] and self.lines[at - size] & asked
            for at in range(size, len(self.lines) - 1)  # the last one is the user's own
        )


def transcript_of(queries: Iterable[str], answer: str | None) -> Transcript:
    """Return how a transcript shows a query and its answer."""
    lines = tuple(line for query in queries for line in _plain_lines(query))
    return Transcript(lines=lines, answer=_plain_lines(answer), digest=_last_line(answer))


def _plain_lines(text: str | None) -> tuple[frozenset[str], ...]:
    lines = (_spaced(line) for line in (text or "").strip().split("\n")[-_MOST_LINES:])
    return tuple(frozenset({line, _plain(line)}) for line in lines if line and not _LABEL.match(line))


def _plain(line: str) -> str:
    return _spaced(_SPEAKER.sub("", line))


def _last_line(answer: str | None) -> str | None:
    last = _spaced(answer.strip().rsplit("\n", 1)[-1]) if answer else ""
    return _digest("line", last) if len(last) >= _LEAST_LINE else None


def text_digest(text: str) -> str:
    """Return a digest of a text, spaces aside."""
    return _digest("text", _spaced(text))


def _transcript(query: str) -> Iterator[str]:
    lines = [_spaced(line) for line in query.strip().split("\n")][:-1]  # the last one is the user's own
    for line in lines[-_MOST_LINES:]:
        for said in dict.fromkeys((line, _plain(line))):
            if len(said) >= _LEAST_LINE:
                yield _digest("line", said)


def _spaced(text: str) -> str:
    return " ".join(text.split())


def _texts(messages: Iterable[Message]) -> Iterator[object]:
    for message in messages:
        said = answer_in(message) if message.role == "assistant" else message.text if message.role == "user" else None
        if said and said.strip():
            yield [message.role, " ".join(said.split())]


def _whole(messages: Iterable[Message]) -> Iterator[object]:
    """Yield what each message says: text and calls, system prompts left out."""
    for message in messages:
        if message.role == "system":
            continue
        text = " ".join((message.text or "").split())
        asked = [(request.call_id, request.name) for request in message.requests]
        told = [result.call_id for result in message.results]
        if text or asked or told:
            yield [message.role, text, asked, told]


def _prefixes(kind: str, said: Iterable[object]) -> list[str]:
    """Return a digest for each length of what was said."""
    import hashlib  # noqa: PLC0415 — only traces without a conversation id come here

    digest = hashlib.blake2b(kind.encode(), digest_size=16)
    found = []
    for item in said:
        digest.update(repr(item).encode("utf-8", "surrogatepass"))
        found.append(digest.copy().hexdigest())
    return found


def _digest(kind: str, text: str) -> str:
    return _prefixes(kind, [text])[0]
