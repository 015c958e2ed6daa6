"""Since when rows of certain traces and conversations are stored, so that a look-up need not read all earlier rows."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import md5
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from otel_agentic.store.table import LAST_NS, Column, rows_with

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from duckdb import DuckDBPyConnection

#: Ids in one partition.
_PARTITION: Final = 65_536
#: Part of the digest of an id that is kept: a wrong match, which costs time but changes no result, has a probability of 1 in
#: 65,536 for each partition.
_DIGEST: Final = np.dtype("<u4")
#: A new partition begins this much before its first id, so that others that arrived a little earlier belong to it, too.
_OVERLAP_NS: Final = 60_000_000_000
#: The newest row with an id is usually written within this time after the first ones.
_PROMPT_NS: Final = 3_600_000_000_000
#: All times.
ALWAYS: Final = (0, LAST_NS)
#: The rows of `trace_links` and `conversations` that are read at a time.
_CHUNK: Final = 250_000
#: The ids in these tables, each with the time at which its row was written.
_IDS: Final = (
    ("trace_links", "trace_id", "received_until"),
    ("trace_links", "conversation_id", "received_until"),
    ("trace_links", "CASE WHEN explicit_id IS DISTINCT FROM conversation_id THEN explicit_id END", "received_until"),
    ("conversations", "conversation_id", "built_at"),
)
#: `_digests` in SQL.
_LOAD: Final = """
SELECT (md5_number(id) & 4294967295::UHUGEINT)::UINTEGER AS digest, epoch_ns(written) AS ns
FROM (SELECT {id} AS id, {written} AS written FROM {table} WHERE rowid >= $first AND rowid < $first + $size)
WHERE id IS NOT NULL
"""
_SIZE: Final = "SELECT coalesce(max(rowid) + 1, 0) FROM {table}"

_Digests: TypeAlias = np.ndarray[tuple[int], np.dtype[np.uint32]]
_Times: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(slots=True)
class _Partition:
    """Ids of which rows were written from a time on, and the time of their last row that is known; new ones are not sorted in yet."""

    first_ns: int
    last_ns: int
    digests: _Digests
    new: set[int] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self.digests) + len(self.new)

    def sort(self) -> None:
        """Sort the new ids in."""
        added = np.fromiter(self.new, _DIGEST, len(self.new))
        self.digests, self.new = np.union1d(self.digests, added), set()

    def contains(self, digests: _Digests) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return which of some digests belong to the partition."""
        matches = np.zeros(len(digests), dtype=bool)
        if len(self.digests):
            positions = self.digests.searchsorted(digests)
            matches = self.digests.take(positions, mode="clip") == digests
        if self.new:
            matches |= np.array([digest in self.new for digest in digests.tolist()], dtype=bool)
        return matches


_FIRST: Final = attrgetter("first_ns")


class KnownIds:
    """The ids of the stored traces and conversations, with the time since when rows with them are stored. Thread-safe.

    The rows are those of `trace_links` and `conversations`, the times those of their `received_until` and `built_at`. Both are
    stored nearly in the order of these times, so that DuckDB skips earlier ones. An index of DuckDB would keep 40 to 70 bytes
    for each id in memory, and joins would not use it; this takes 4 bytes. It is read from the store when it is first used.
    """

    def __init__(self, read: Callable[[], AbstractContextManager[DuckDBPyConnection]]) -> None:
        """Know nothing yet; `read` provides a connection to the store."""
        self._read = read
        self._lock = threading.Lock()
        self._is_current = True
        #: In the order of their times; None until they are loaded.
        self._partitions: list[_Partition] | None = None

    def since(self, ids: Iterable[str], *, load: bool = True) -> int:
        """Return a time from which on all rows with any of some ids were written.

        Args:
            ids: ids of traces or conversations.
            load: False to read nothing from the store: then the result is 0 until something else has caused that.

        Returns:
            The time, ns; `LAST_NS`, the last one, if there are no such rows.
        """
        return self._period(ids, load=load)[0]

    def periods(self, name: str) -> Iterator[tuple[int, int]]:
        """Yield periods (ns) in which rows with an id were written: first that of most such rows, then that of all.

        A caller stops at the first one that contains the row in question. Nothing is read from the store: all times are one
        period until something else has caused that. Nothing is yielded if there are no such rows.
        """
        first_ns, last_ns = self._period([name], load=False)
        if first_ns < last_ns:
            yield first_ns, last_ns
        if first_ns < LAST_NS and last_ns < LAST_NS:
            yield first_ns, LAST_NS

    def _period(self, ids: Iterable[str], *, load: bool) -> tuple[int, int]:
        """Return since when rows with any of some ids were written, and until when most of them probably were, ns."""
        digests = np.sort(_digests(list(ids)))  # a search for sorted ones takes half of the time
        with self._lock:
            if not self._is_current or not (load or self._partitions is not None):
                return ALWAYS
            return next(
                (
                    (item.first_ns, min(item.last_ns + _PROMPT_NS, LAST_NS))
                    for item in self._loaded()
                    if item.contains(digests).any()
                ),
                (LAST_NS, LAST_NS),
            )

    def add(self, ids: Sequence[str], times_ns: Sequence[int]) -> None:
        """Add ids of rows that a transaction is about to write, with the times of these rows, ns; an id may recur."""
        digests = _digests(ids)
        with self._lock:
            if self._is_current:
                self._add(digests, np.array(times_ns, np.int64))

    def forget(self) -> None:
        """Search all rows from now on, because rows are added without `add`."""
        with self._lock:
            self._is_current, self._partitions = False, None

    def _loaded(self) -> list[_Partition]:
        if self._partitions is None:
            with self._read() as con:
                self._partitions = sorted(_stored(con), key=_FIRST)
        return self._partitions

    def _add(self, digests: _Digests, times_ns: _Times) -> None:
        partitions = self._loaded()
        missing = np.ones(len(digests), dtype=bool)
        for partition in partitions:
            missing &= ~(partition.contains(digests) & (times_ns >= partition.first_ns))
        self._insert(partitions, digests[missing], times_ns[missing])

    def _insert(self, partitions: list[_Partition], digests: _Digests, times_ns: _Times) -> None:
        """Insert ids, each into the newest partition that began by its time; a new one begins where that is full."""
        order = np.argsort(times_ns, kind="stable")
        digests, times_ns = digests[order], times_ns[order]
        while len(digests):
            first_ns = int(times_ns[0])
            index = bisect_right(partitions, first_ns, key=_FIRST) - 1
            if index < 0 or (index == len(partitions) - 1 and len(partitions[index]) >= _PARTITION):
                earliest_ns = partitions[index].first_ns if index >= 0 else 0
                index += 1
                begin_ns = max(first_ns - _OVERLAP_NS, earliest_ns)
                partitions.insert(index, _Partition(begin_ns, first_ns, np.empty(0, _DIGEST)))
            partition, is_newest = partitions[index], index == len(partitions) - 1
            size = max(_PARTITION - len(partition), 0)
            if not is_newest:
                size = int(np.searchsorted(times_ns, partitions[index + 1].first_ns))
            partition.new.update(digests[:size].tolist())
            partition.last_ns = max(partition.last_ns, *times_ns[:size].tolist()[-1:])
            if not is_newest or len(partition) >= _PARTITION:
                partition.sort()
            digests, times_ns = digests[size:], times_ns[size:]


def _stored(con: DuckDBPyConnection) -> Iterator[_Partition]:
    """Yield the stored ids, in partitions of rows that were written about the same time."""
    for table, text, written in _IDS:
        sql = _LOAD.format(table=table, id=text, written=written)
        ((size,),) = con.execute(_SIZE.format(table=table)).fetchall()
        for first in range(0, size, _CHUNK):
            columns = con.execute(sql, {"first": first, "size": _CHUNK}).fetchnumpy()
            digests, times_ns = np.asarray(columns["digest"]), np.asarray(columns["ns"])
            order = np.argsort(times_ns, kind="stable")
            for start in range(0, len(order), _PARTITION):
                part = order[start : start + _PARTITION]
                yield _Partition(int(times_ns[part[0]]), int(times_ns[part[-1]]), np.unique(digests[part]))


def _digests(ids: Sequence[str]) -> _Digests:
    digests = b"".join(md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()[:4] for text in ids)
    return np.frombuffer(digests, _DIGEST)


def rows_since(
    con: DuckDBPyConnection, requested: Mapping[str, Column], sql: str, since_ns: int, **parameters: int
) -> list[tuple[Any, ...]]:
    """Return the rows of a query that reads the table `requested` and rows written since a time, the parameter `since`.

    The query is not run if no row was written since then; see `table.rows_with` and `KnownIds.since`.
    """
    return rows_with(con, requested, sql, {"since": since_ns, **parameters}) if since_ns < LAST_NS else []
