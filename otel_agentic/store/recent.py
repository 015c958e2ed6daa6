"""The newest span ids in memory, so that the file need not be searched for each received span."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

#: Trace id and span id as bytes. Complete ids are compared, so that two different spans are never confused.
_ID: Final = np.dtype("S24")
#: This many ids wait as text in a set before they are sorted into the array, which takes a fifth of the memory.
_WAITING: Final = 32_768

_Ids = np.ndarray[tuple[int], np.dtype[np.bytes_]]
_NONE: Final[_Ids] = np.empty(0, _ID)


class RecentIds:
    """The newest ids of stored spans, as text of trace id and span id together: 48 hex characters.

    Two generations bound the memory: 24 bytes per id, and as much again for half of the ids while more are sorted in. Every
    stored span that began after `forgotten_until_ns` is remembered here.
    """

    def __init__(self, limit: int) -> None:
        self._half = max(limit // 2, 1)
        self._waiting: set[str] = set()
        self._young, self._old = _NONE, _NONE
        self._young_until_ns = self._old_until_ns = -1
        self.forgotten_until_ns = -1

    def known(self, ids: Sequence[str]) -> set[str]:
        """Return those of the ids that are remembered."""
        known = self._waiting.intersection(ids)
        generations = [ids_of for ids_of in (self._young, self._old) if len(ids_of)]
        if generations and ids:
            requested = _packed(ids)
            for generation in generations:
                positions = np.minimum(np.searchsorted(generation, requested), len(generation) - 1)
                known.update(ids[index] for index in np.flatnonzero(generation[positions] == requested).tolist())
        return known

    def add(self, ids: Collection[str], latest_ns: int) -> None:
        """Remember ids of spans that began up to `latest_ns`; the oldest half is forgotten if there are too many."""
        self._waiting.update(ids)
        self._young_until_ns = max(self._young_until_ns, latest_ns)
        if len(self._waiting) < min(_WAITING, self._half):
            return
        self._young = np.sort(np.concatenate([self._young, _packed(self._waiting)]), kind="stable")
        self._waiting = set()
        if len(self._young) >= self._half:
            self.forget(self._old_until_ns)
            self._old, self._old_until_ns = self._young, self._young_until_ns
            self._young, self._young_until_ns = _NONE, -1

    def forget(self, until_ns: int) -> None:
        """Record that there are stored spans, begun up to this time, whose ids are not remembered."""
        self.forgotten_until_ns = max(self.forgotten_until_ns, until_ns)


def _packed(ids: Collection[str]) -> _Ids:
    return np.frombuffer(bytes.fromhex("".join(ids)), dtype=_ID)
