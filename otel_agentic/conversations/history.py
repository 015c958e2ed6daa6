"""Digests of the message history, by which a run without a conversation id is recognised as the continuation of another.

A framework sends history in one of three ways, the most reliable first: the messages with their calls, the texts alone (calls
are rewritten), and a transcript pasted into one message of the user.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.conversations.answers import answer_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from otel_agentic.dialects.events import Message

#: A user's message and an answer: a shorter history proves nothing.
_LEAST: Final = 2
#: `Guest: …`: the speaker in a transcript.
_SPEAKER: Final = re.compile(r"^\s*[\w *#<>-]{1,32}:\s+")
#: The same on a line of its own.
_LABEL: Final = re.compile(r"^[\w *#<>-]{1,32}:$")
#: The number of last lines of a pasted transcript that are examined, and the length below which a line proves nothing.
_MOST_LINES: Final = 64
_LEAST_LINE: Final = 8


def digests_before(messages: Sequence[Message], queries: Iterable[str]) -> tuple[str, ...]:
    """Return digests of the messages before a run, the weakest first.

    Args:
        messages: the input of its first model call.
        queries: the user's text that it answers, from the run and from the model's input.
    """
    before = [message for message in messages if message.role != "system"][:-1]  # the last message is the run's own
    earlier = (*_prefixes("texts", _texts(before)), *_prefixes("messages", _texts_and_calls(before)))
    return (*dict.fromkeys(digest for query in queries for digest in _transcript(query)), *earlier)


def digests_after(messages: Sequence[Message], answer: str | None) -> tuple[str, ...]:
    """Return the digests that a run which continues this one has among its own `digests_before`.

    Args:
        messages: the input and output of its last model call.
        answer: the answer of the run.
    """
    last_digests = []
    for kind, contents in (("texts", _texts(messages)), ("messages", _texts_and_calls(messages))):
        digests = _prefixes(kind, contents)
        # Messages without an answer are continued, however short they are.
        if len(digests) >= _LEAST or (digests and messages[-1].role != "assistant"):
            last_digests.append(digests[-1])
    line = _last_line(answer)
    return (*([line] if line is not None else []), *last_digests)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """The form of a query and its answer in a transcript that a later query may contain.

    `lines` are the last lines of the query, each with and without the speaker, `answer` those of the answer. `digest` is the
    digest of the answer's last line, which is among the `digests_after`.
    """

    lines: tuple[frozenset[str], ...] = ()
    answer: tuple[frozenset[str], ...] = ()
    digest: str | None = None

    def shows(self, earlier: Transcript) -> bool:
        """Return whether the query contains an earlier answer, and the earlier query directly before it.

        An answer alone proves nothing: people paste answers, and many answers end with the same line.
        """
        if not earlier.answer:
            return False
        query, size = frozenset().union(*earlier.lines), len(earlier.answer)
        return any(
            self.lines[at] & earlier.answer[-1] and self.lines[at - size] & query
            for at in range(size, len(self.lines) - 1)  # the last one is the user's own
        )


def transcript_of(queries: Iterable[str], answer: str | None) -> Transcript:
    """Return the form of a query and its answer in a transcript."""
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
    """Return a digest of a text with normalised white space."""
    return _digest("text", _spaced(text))


def _transcript(query: str) -> Iterator[str]:
    lines = [_spaced(line) for line in query.strip().split("\n")][:-1]  # the last one is the user's own
    for line in lines[-_MOST_LINES:]:
        for text in dict.fromkeys((line, _plain(line))):
            if len(text) >= _LEAST_LINE:
                yield _digest("line", text)


def _spaced(text: str) -> str:
    return " ".join(text.split())


def _texts(messages: Iterable[Message]) -> Iterator[object]:
    for message in messages:
        text = answer_in(message) if message.role == "assistant" else message.text if message.role == "user" else None
        if text and text.strip():
            yield [message.role, " ".join(text.split())]


def _texts_and_calls(messages: Iterable[Message]) -> Iterator[object]:
    """Yield the text and calls of each message except system prompts."""
    for message in messages:
        if message.role == "system":
            continue
        text = " ".join((message.text or "").split())
        requested = [(request.call_id, request.name) for request in message.requests]
        answered = [result.call_id for result in message.results]
        if text or requested or answered:
            yield [message.role, text, requested, answered]


def _prefixes(kind: str, contents: Iterable[object]) -> list[str]:
    """Return the digest of every prefix of some contents."""
    import hashlib  # noqa: PLC0415 — needed only for traces without a conversation id

    digest = hashlib.blake2b(kind.encode(), digest_size=16)
    digests = []
    for item in contents:
        digest.update(repr(item).encode("utf-8", "surrogatepass"))
        digests.append(digest.copy().hexdigest())
    return digests


def _digest(kind: str, text: str) -> str:
    return _prefixes(kind, [text])[0]
