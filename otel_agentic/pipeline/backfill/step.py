"""One part of a backfill: its windows computed, stored, emitted, and noted as done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from otel_agentic.store.backfills import advance_pass, computed_since, count_rows
from otel_agentic.store.windows import save_windows

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from otel_agentic.pipeline.backfill.rolling import Rolling
    from otel_agentic.pipeline.backfill.sinks import PointSink
    from otel_agentic.pipeline.engine import Engine
    from otel_agentic.store.backfills import Pass
    from otel_agentic.store.database import Connection
    from otel_agentic.windows.columns import WindowTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Does one part after the other.

    The rows come first, then the points, then the note that the part is done: a kill on the way repeats the part, and
    doubles nothing. Points that are sent a second time have the timestamps and values of the first.

    Attributes:
        engine: the opened store.
        rolling: computes windows.
        sink: takes points.
        begun: the pass. All of its rows say that they were computed when it began: so a later pass knows what was sent.
        lock: held while windows are computed and stored.
    """

    engine: Engine
    rolling: Rolling
    sink: PointSink
    begun: Pass
    lock: AbstractContextManager[Any]

    def store(self, part: range) -> WindowTable:
        """Compute the windows of a part, and write what is new or differs."""
        begun = self.begun
        with self.lock:
            table, now_ns = self.rolling.table(part), self.engine.clock()

            def save(con: Connection) -> None:
                count_rows(con, begun.run_id, save_windows(con, table, part, begun.started_ns), now_ns)

            self.engine.store.write(save)
        return table

    def emit(self, part: range, table: WindowTable) -> None:
        """Send the points of a part that was stored, and note that it is done."""
        ends = self._to_send(part) if self.sink.wants_points else ()
        sent = 0
        if ends:
            sent = self.sink.send(table if len(ends) == len(part) else self.rolling.table(ends))
        run_id, now_ns = self.begun.run_id, self.engine.clock()
        self.engine.store.write(lambda con: advance_pass(con, run_id, part[-1], points=sent, now_ns=now_ns))

    def _to_send(self, part: range) -> Sequence[int]:
        """Return the ends whose points go out: of those that have come, those that say something new since they last did."""
        now_ns, sent_ns = self.engine.clock(), self.begun.sent_ns
        past = [end_ns for end_ns in part if end_ns <= now_ns]
        if self.sink.whole or sent_ns is None:
            return past
        with self.engine.store.read() as con:
            restated = computed_since(con, past, sent_ns)
        # What had not come yet when the last pass began may not have been sent by it.
        return sorted({*restated, *(end_ns for end_ns in past if end_ns > sent_ns)})
