"""Digests of what was said so far: by them a run without a conversation id is found to go on with another.

Three ways in which a framework shows history, the surest first: the messages with their calls, the texts alone (calls are
rewritten on the way), and a transcript pasted into one message of the user.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from otel_agentic.conversations.answers import answer_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from otel_agentic.dialects.events import Message

#: A user's message and an answer: less history than that proves nothing.
_LEAST: Final = 2
#: `Guest: …`: who speaks, in a transcript.
_SPEAKER: Final = re.compile(r"^\s*[\w *#<>-]{1,32}:\s+")
#: Of a pasted transcript so many last lines are looked at, and shorter ones prove nothing.
_MOST_LINES: Final = 64
_LEAST_LINE: Final = 8


def digests_before(messages: Sequence[Message], queries: Iterable[str]) -> tuple[str, ...]:
    """Return digests of what was said before a run, the weakest first.

    Args:
        messages: what its first model call was sent.
        queries: the user's text that it answers, as the run and as the model was given it.
    """
    # Not the whole of it: what it was sent last is its own.
    earlier = (*_prefixes("texts", _texts(messages))[:-1], *_prefixes("messages", _whole(messages))[:-1])
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
    last = _spaced(answer.strip().rsplit("\n", 1)[-1]) if answer else ""
    return (*([_digest("line", last)] if len(last) >= _LEAST_LINE else []), *found)


def text_digest(text: str) -> str:
    """Return a digest of a text, spaces aside."""
    return _digest("text", _spaced(text))


def _transcript(query: str) -> Iterator[str]:
    lines = [_spaced(line) for line in query.strip().split("\n")][:-1]  # the last one is the user's own
    for line in lines[-_MOST_LINES:]:
        for said in dict.fromkeys((line, _spaced(_SPEAKER.sub("", line)))):
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
