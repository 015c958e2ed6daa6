"""The requests of a turn that are known so far, to tell which ones of a history are new."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from otel_agentic.conversations.duplicates import content_of, folded

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from otel_agentic.dialects import events


class Seen:
    """The requests that are known so far.

    A history may spell a request in its own way: another id, arguments left out. Until a known request was found in a
    history as it is (`vague` counts those that were not, by tool), any request of its tool may be it.
    """

    def __init__(self) -> None:
        self._seen: Counter[Hashable] = Counter()
        self._found: Counter[Hashable] = Counter()
        self._vague: Counter[str] = Counter()

    def add(self, request: events.CallRequest | None) -> None:
        """Note a request that a response shows."""
        if request is not None:
            self._seen.update(_marks(request))
            self._vague[folded(request.name)] += 1

    def unknown_of(self, messages: Sequence[events.Message]) -> Iterator[tuple[int, int, events.CallRequest]]:
        """Yield the requests of a history that are not known, with their places; from now on they are."""
        shown = [
            (index, position, request)
            for index, message in enumerate(messages)
            for position, request in enumerate(message.requests)
        ]
        by_id = [[(request.call_id,)] if request.call_id is not None else [] for _, _, request in shown]
        if self._missing(shown, by_id) and (missing := self._missing(shown, [_marks(item[2]) for item in shown])):
            vague = +self._vague
            for index, position, request in missing:
                name = folded(request.name)
                vague[name] -= 1
                if vague[name] < 0:
                    self._seen.update(_marks(request))
                    self._found.update(_marks(request))
                    yield index, position, request

    def _missing(
        self, shown: Sequence[tuple[int, int, events.CallRequest]], marks: Sequence[Sequence[Hashable]]
    ) -> list[tuple[int, int, events.CallRequest]]:
        missing = []
        here: Counter[Hashable] = Counter()
        for item, own in zip(shown, marks, strict=True):
            here.update(own)
            known = next((mark for mark in own if here[mark] <= self._seen[mark]), None)
            if known is None:
                missing.append(item)
            elif here[known] > self._found[known]:
                self._found[known] = here[known]
                self._vague[folded(item[2].name)] -= 1
        return missing


def _marks(request: events.CallRequest) -> list[Hashable]:
    """Return what a request is known by again: its id where it has one, and its content."""
    content = content_of(request)
    return [content] if request.call_id is None else [(request.call_id,), content]
