"""The known requests of a turn, to find the new requests in a history."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from otel_agentic.conversations.duplicates import content_of, folded

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from otel_agentic.dialects import events


class KnownRequests:
    """The requests that are known so far.

    A history may represent a request differently: with another id, without arguments. Until a known request is matched exactly
    in a history (`vague` counts those that were not, by tool), any request of its tool may be the same one.
    """

    def __init__(self) -> None:
        self._known: Counter[Hashable] = Counter()
        self._matched: Counter[Hashable] = Counter()
        self._vague: Counter[str] = Counter()

    def add(self, request: events.CallRequest | None) -> None:
        """Add a request from a response."""
        if request is not None:
            self._known.update(_keys(request))
            self._vague[folded(request.name)] += 1

    def unknown_of(self, messages: Sequence[events.Message]) -> Iterator[tuple[int, int, events.CallRequest]]:
        """Yield the unknown requests of a history with their message index and position; from then on they are known."""
        requests = [
            (index, position, request)
            for index, message in enumerate(messages)
            for position, request in enumerate(message.requests)
        ]
        by_id = [[(request.call_id,)] if request.call_id is not None else [] for _, _, request in requests]
        if self._missing(requests, by_id) and (
            missing := self._missing(requests, [_keys(item[2]) for item in requests])
        ):
            vague = +self._vague
            for index, position, request in missing:
                name = folded(request.name)
                vague[name] -= 1
                if vague[name] < 0:
                    self._known.update(_keys(request))
                    self._matched.update(_keys(request))
                    yield index, position, request

    def _missing(
        self, requests: Sequence[tuple[int, int, events.CallRequest]], keys: Sequence[Sequence[Hashable]]
    ) -> list[tuple[int, int, events.CallRequest]]:
        missing = []
        here: Counter[Hashable] = Counter()
        for item, own in zip(requests, keys, strict=True):
            here.update(own)
            known = next((key for key in own if here[key] <= self._known[key]), None)
            if known is None:
                missing.append(item)
            elif here[known] > self._matched[known]:
                self._matched[known] = here[known]
                self._vague[folded(item[2].name)] -= 1
        return missing


def _keys(request: events.CallRequest) -> list[Hashable]:
    """Return the keys that identify a request: its id if it has one, and its content."""
    content = content_of(request)
    return [content] if request.call_id is None else [(request.call_id,), content]
