"""The background loops of a running collector: scoring, windows and retention, each on a thread of its own.

Closed conversations are scored on their own thread, so that a slow judge delays nothing else.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import islice
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeVar

from otel_agentic.engine.engine import Engine, stored_estimators
from otel_agentic.engine.retention import ExportCounts, HourlyExport, RemovalCounts, RetentionPass, keep_ns_of
from otel_agentic.errors import ConfigError, StoreError
from otel_agentic.evaluation.run import EvaluationRequest, OnScored
from otel_agentic.evaluators.registry import unasked_note
from otel_agentic.judges import ExactJudge
from otel_agentic.store.connection import Connection, error_summary
from otel_agentic.store.conversations import retention_state
from otel_agentic.store.results import results_for
from otel_agentic.store.table import Selection
from otel_agentic.store.windows import (
    Changes,
    Claims,
    claims_at,
    count_windows,
    forget_changes,
    newest_end,
    read_changes,
    save_windows,
    stored_ends,
)
from otel_agentic.windows import Window, WindowTable, current_end, parse_windows, roll, window_table
from otel_agentic.windows.model import most_newest, widest_ns

if TYPE_CHECKING:
    from otel_agentic.evaluation.batch import ScoredBatch
    from otel_agentic.scoring import ConversationScore
    from otel_agentic.spans import SpanBatch
    from otel_agentic.store.table import Key
    from otel_agentic.telemetry import Telemetry

T = TypeVar("T")
_log = logging.getLogger(__name__)
#: Time limit of a drain, seconds. A stopped collector exits within ten seconds; the other two are left to close the
#: file.
DRAIN_S: Final = 8.0


class BackgroundLoop:
    """Repeats its work on its own thread, when it is woken or when some time has passed, until it is stopped.

    A subclass implements `_run`, which returns once `_stopping` is set.
    """

    def __init__(self, name: str) -> None:
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"otel-agentic-{name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Request that the next iteration begins soon."""
        self._wake.set()

    def stop(self) -> None:
        """Finish the work that must not be interrupted, then end the thread."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        raise NotImplementedError


class LoopErrorLogger:
    """Logs the failures of one loop. Not thread-safe: only the thread of the loop uses it."""

    def __init__(self, log: logging.Logger, work: str) -> None:
        """Create the logger.

        Args:
            log: the logger to write to.
            work: the work of one iteration, such as "computing windows".
        """
        self._log = log
        self._work = work
        self._problem: str | None = None

    def attempt(self, work: Callable[[], object]) -> bool:
        """Do the work of one iteration; an exception is only logged, because the next iteration tries again.

        Returns:
            Whether it succeeded.
        """
        try:
            work()
        except Exception as error:  # noqa: BLE001 — logged and retried
            self.failed(error)
            return False
        self.ended()
        return True

    def failed(self, error: Exception) -> None:
        """Log the failure of an iteration; the loop tries again.

        Store problems are temporary and last for many iterations, so they are logged once, in one line. Any other error
        is unexpected and logged with its traceback.
        """
        problem = str(error) if isinstance(error, StoreError) else None
        if problem is None:
            self._log.error("%s failed", self._work, exc_info=error)
        elif problem != self._problem:
            self._log.warning("%s waits for the store: %s", self._work, problem)
        self._problem = problem

    def ended(self) -> None:
        """Record that an iteration succeeded, so that a recurring problem is logged again."""
        self._problem = None


class Drain:
    """The time limit that all parts of a shutdown share."""

    def __init__(self, limit_s: float = DRAIN_S) -> None:
        self._until_s = time.monotonic() + limit_s
        #: Names of the parts that did not stop in time.
        self.left_behind: list[str] = []

    def stop_all(self, stops: Mapping[str, Callable[[], object]], most_s: float) -> None:
        """Stop parts concurrently; wait at most `most_s` seconds, and not beyond the time limit of the drain.

        Exceptions are logged and not raised, so that the other parts stop nevertheless.
        """
        limit_s = min(most_s, max(self._until_s - time.monotonic(), 0.0))
        threads = {
            name: threading.Thread(target=_stop_part, args=(name, stop), name=f"otel-agentic-stop-{name}", daemon=True)
            for name, stop in stops.items()
        }
        for thread in threads.values():
            thread.start()
        deadline_s = time.monotonic() + limit_s
        for name, thread in threads.items():
            thread.join(max(deadline_s - time.monotonic(), 0.0))
            if thread.is_alive():
                self.left_behind.append(name)
                _log.warning("%s did not stop within %.1f s and is left behind", name, limit_s)


def _stop_part(name: str, stop: Callable[[], object]) -> None:
    try:
        stop()
    except Exception:  # noqa: BLE001 — logged, because the other parts have to stop, too
        _log.exception("%s failed to stop", name)


#: Rejection reason of a span or log record that is older than the retention period.
EXPIRED: Final = "expired"


class RetentionLoop(BackgroundLoop):
    """Keeps the store within its retention period and the export folder up to date."""

    def __init__(self, engine: Engine) -> None:
        """Create the loop.

        Raises:
            ConfigError: `retention.keep` is not a duration such as 30d.
        """
        super().__init__("retention")
        self._engine = engine
        self._settings = engine.settings.retention
        self.keep_ns = keep_ns_of(engine.settings)
        self._export = HourlyExport(engine) if self._settings.export else None
        self._problem: str | None = None

    def start(self) -> None:
        """Start the thread, unless nothing is exported or removed."""
        if self.is_enabled:
            super().start()

    @property
    def is_enabled(self) -> bool:
        """Whether anything is exported or removed."""
        return self._export is not None or self.keep_ns is not None

    @property
    def problem(self) -> str | None:
        """The message of the failure of the last round, or None."""
        return self._problem

    def without_expired(self, batch: SpanBatch) -> SpanBatch:
        """Return a batch without expired items; they are counted as rejected with the reason `expired`."""
        if self.keep_ns is None:
            return batch
        oldest_ns = self._engine.clock() - self.keep_ns
        spans = tuple(span for span in batch.spans if max(span.start_ns, span.end_ns) >= oldest_ns)
        logs = tuple(log for log in batch.logs if log.time_ns >= oldest_ns)
        expired = len(batch.spans) + len(batch.logs) - len(spans) - len(logs)
        if not expired:
            return batch
        rejected = {**batch.rejected, EXPIRED: batch.rejected.get(EXPIRED, 0) + expired}
        return replace(batch, spans=spans, logs=logs, rejected=rejected)

    def round(self) -> tuple[ExportCounts | None, RemovalCounts | None]:
        """Export closed hours, then remove old conversations; returns None for a disabled step."""
        stop = self._stopping.is_set
        with self._engine.retention_lock:
            exported = self._export.run(stop) if self._export is not None else None
            removed = RetentionPass(self._engine, self.keep_ns, stop=stop).run() if self.keep_ns is not None else None
            if removed:
                self._engine.store.reclaim()
        return exported, removed

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._try_round()
            self._wake.wait(self._settings.every_s)
            self._wake.clear()

    def _try_round(self) -> None:
        try:
            exported, removed = self.round()
        except Exception as error:  # noqa: BLE001 — logged and retried: nothing was lost
            # A library's message may quote stored content: logs and `doctor` show only its class, the debug log
            # everything.
            _log.debug("retention failed", exc_info=error)
            self._set_problem(f"retention failed: {error_summary(error)}")
            return
        self._set_problem(exported.problem if exported is not None else None)
        if exported is not None and (exported.hours or exported.days):
            _log.info("exported %d hours of tables, merged %d days", exported.hours, exported.days)
        if removed:
            counts: dict[str, Any] = removed.to_json()
            _log.info("removed %(conversations)d conversations, %(spans)d spans, %(log_records)d log records", counts)

    def _set_problem(self, problem: str | None) -> None:
        """Store the problem, and log it if it changed."""
        if problem is not None and problem != self._problem:
            _log.warning("%s; it is retried", problem)
        self._problem = problem


#: Maximum number of conversations scored in one round, so that an `evaluate` command does not wait for a long backlog.
#: Under pressure a round is shorter, because it competes with the receivers.
_ROUND: Final = 500
#: Minimum number of conversations scored in one round under pressure.
_MIN_ROUND: Final = 100
#: Interval between searches of all conversations, seconds; others cover only those that closed, and so do not take longer
#: the more conversations there are.
_SEARCH_ALL_S: Final = 600.0
#: Time to wait after a failed round, seconds.
_RETRY_S: Final = 1.0
#: Interval between searches for conversations that can be scored without the judge while its breaker is open, seconds.
_CHECK_S: Final = 5.0
#: Maximum number of remembered conversations on which the judge failed before the breaker opened; others wait for
#: `evaluate`.
_MAX_FAILED: Final = 10_000
#: Maximum age of conversations whose missing metrics are computed. Older ones wait for `evaluate`, so that a new
#: release does not process the whole store.
_CATCHING_UP_NS: Final = 24 * 3600 * 1_000_000_000
#: Time to wait for the thread after the judge was closed, seconds. If the judge cannot be closed, waiting longer is
#: useless.
_CLOSING_S: Final = 1.0


class ScoringLoop(BackgroundLoop):
    """Scores closed conversations, including those that a crash or a failure left unscored."""

    def __init__(self, engine: Engine, on_scored: OnScored) -> None:
        """Create the loop.

        Args:
            engine: the opened store.
            on_scored: called with scores after they were stored.
        """
        super().__init__("scoring")
        self._engine = engine
        self._on_scored = on_scored
        self._errors = LoopErrorLogger(_log, "scoring closed conversations")
        self._failed: set[Key] = set()
        self._opened = 0
        self._judge_needed = False
        #: Whether metrics wait for a later round because the judge is unavailable.
        self._postponed = False
        self._unscored = 0
        self._search_lock = threading.Lock()
        #: The earliest end of the conversations to search for unscored ones, ns: None for all, infinite for none.
        self._since_ns: float | None = None
        self._searched_all_s = time.monotonic()
        #: Scored conversations that lack metrics, with the ids of the missing evaluations; None if not loaded.
        self._lacking_metrics: dict[Key, AbstractSet[str]] | None = None
        unasked = engine.runner.chosen.unasked  # logged at the start, before anything is received
        if unasked:
            _log.warning("metrics %s", unasked_note(unasked))
        #: Held while conversations are scored; any other code that scores must acquire it, too.
        self.lock = threading.Lock()

    def start(self) -> None:
        """Start with the conversations that an earlier process left unscored."""
        self.wake()
        super().start()

    def wake(self) -> None:
        """Search all conversations for unscored ones soon."""
        self._lower(None)
        super().wake()

    def closed(self, ended_ns: Iterable[int]) -> None:
        """Search the conversations from the earliest of some ends on, ns, because these conversations closed."""
        self._lower(min(ended_ns, default=inf))
        super().wake()

    @property
    def waiting(self) -> int:
        """The number of closed conversations that waited for a score or an unavailable judge in the last round."""
        return self._unscored + len(self._failed)

    def stop(self, grace_s: float | None = None) -> None:
        """Store the answers that arrive within `grace_s` seconds (None: all answers), then end the thread.

        The remaining conversations are scored after the next start.
        """
        self._engine.stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(grace_s)
        if self._thread.is_alive():
            self._engine.runner.close()  # cancels the judge's running requests
            self._thread.join(_CLOSING_S)

    def _run(self) -> None:
        stopping = self._engine.stopping
        while not stopping.is_set():
            self._await_work()
            try:
                while not stopping.is_set() and self._round():
                    pass
                self._errors.ended()
            except Exception as error:  # noqa: BLE001 — logged and retried: the conversations are in the store
                self._errors.failed(error)
                stopping.wait(_RETRY_S)
                self.wake()

    def _await_work(self) -> None:
        """Wait for closed conversations, or for the time to retry an unavailable judge."""
        breaker = self._engine.runner.breaker.state
        if breaker.state == "closed" or not self._judge_needed:
            self._wake.wait()
        elif breaker.state == "open":
            self._engine.stopping.wait(min(breaker.retry_in_s, _CHECK_S))
        else:
            self._wake.wait(_RETRY_S)
        self._wake.clear()

    def _round(self) -> bool:
        """Score closed conversations and those on which the judge failed; return whether more may be waiting."""
        runner, pressure = self._engine.runner, self._engine.pressure
        max_conversations = max(_MIN_ROUND, int(_ROUND * pressure.share))
        began = time.monotonic()
        with self.lock:
            since_ns = self._take_since()
            unscored = self._never_scored(since_ns)
            keys = unscored.keys
            self._unscored = len(keys)
            if keys:
                self._evaluate(replace(unscored, keys=keys[:max_conversations], chosen=runner.chosen))
                if runner.breaker.state.state == "closed":
                    self._unscored = max(0, len(keys) - max_conversations)
            if self._unscored or self._postponed:
                self._lower(since_ns)
            self._ask_again()
            if not keys:
                self._catch_up(max_conversations)
        self._judge_needed = bool(keys or self._failed or self._postponed)
        if self._lacking_metrics and not keys:
            pressure.rest(time.monotonic() - began, self._engine.stopping)
            return True
        if runner.breaker.state.state != "closed":
            return False
        if len(keys) <= max_conversations:
            return self._postponed  # the judge recovered in this round: no other event would wake this thread
        pressure.rest(time.monotonic() - began, self._engine.stopping)
        return True

    def _never_scored(self, since_ns: float | None) -> EvaluationRequest:
        if since_ns == inf:
            return EvaluationRequest(keys=())
        return self._engine.runner.never_scored(None if since_ns is None else int(since_ns))

    def _take_since(self) -> float | None:
        """Return the bound of the next search, and set that of the one after it."""
        now_s = time.monotonic()
        with self._search_lock:
            since_ns, self._since_ns = self._since_ns, inf
        if since_ns is None or now_s - self._searched_all_s > _SEARCH_ALL_S:
            self._searched_all_s = now_s
            return None
        return since_ns

    def _lower(self, since_ns: float | None) -> None:
        """Include conversations that ended at this time or later in the next search; None: all."""
        with self._search_lock:
            bounds = (self._since_ns, since_ns)
            self._since_ns = None if None in bounds else min(bound for bound in bounds if bound is not None)

    def _ask_again(self) -> None:
        """Once the judge answers again, score the conversations on which it failed before the breaker opened."""
        breaker = self._engine.runner.breaker.state
        if breaker.opened == self._opened:
            if not breaker.failures:
                self._failed.clear()  # single failures wait for `evaluate`
        elif breaker.state != "open" and self._failed:
            keys = frozenset(self._failed)
            self._failed.clear()
            self._evaluate(EvaluationRequest(keys=sorted(keys), again=keys, chosen=self._engine.runner.chosen))
            if self._engine.runner.breaker.state.state == "closed":
                self._opened = self._engine.runner.breaker.state.opened
            else:
                self._failed |= keys
        elif breaker.state == "closed":
            self._opened = breaker.opened

    def _catch_up(self, max_conversations: int) -> None:
        """Run evaluators on scored conversations that lack metrics after an early exit or an outage of the judge."""
        runner = self._engine.runner
        if self._postponed:
            if runner.breaker.state.state == "open":
                return
            self._postponed, self._lacking_metrics = False, None
        if self._lacking_metrics is None:
            since = Selection(since_ns=self._engine.clock() - _CATCHING_UP_NS)
            self._lacking_metrics = runner.lacking(runner.truth(), runner.chosen, since, live=True)
        portion = dict(islice(self._lacking_metrics.items(), max_conversations))
        if portion:
            self._lacking_metrics = dict(islice(self._lacking_metrics.items(), max_conversations, None))
            self._evaluate(EvaluationRequest(keys=(), chosen=runner.chosen, lacking=portion))
            if self._postponed:
                self._lacking_metrics = {}  # loaded again once the judge is available

    def _evaluate(self, request: EvaluationRequest) -> None:
        runner, stop = self._engine.runner, self._engine.stopping.is_set
        before = runner.breaker.state
        summary = runner.evaluate(runner.truth(), request, self._handle_scored, stop, waits=True)
        now = runner.breaker.state
        # Questions that failed before the breaker opened are asked again, too; single failures wait for `evaluate`.
        unavailable = now.state != "closed" or now.opened > before.opened
        self._postponed |= summary.tally.postponed > 0 or (unavailable and bool(request.chosen.judge_evaluators))

    def _handle_scored(self, batch: ScoredBatch, restated: AbstractSet[Key]) -> None:
        if not isinstance(self._engine.runner.judge, ExactJudge):  # which cannot fail
            failed = (item.conversation.key for item in batch if "judge_error" in _reasons(item.score))
            self._failed.update(islice(failed, max(0, _MAX_FAILED - len(self._failed))))
        self._on_scored(batch, restated)


def _reasons(score: ConversationScore) -> Iterator[str | None]:
    """Yield the reasons why parts of a conversation were not evaluated."""
    yield from (score.reason, score.computed_reason)
    for turn in score.turns:
        yield from (turn.reason, turn.answer_reason)
    yield from (tools.reason for tools in score.tools)


_NS_PER_S: Final = 1_000_000_000
#: Maximum time between two computations of the gauges, seconds: windows move even if nothing arrives.
_REFRESH_S: Final = 15.0
#: Minimum time between two writes of rows under load, seconds.
_ROWS_S: Final = 1.0
#: Ratio of idle time to the time that a computation takes, so that the loop uses at most a tenth of a core.
_SHARE: Final = 9
#: Up to this number of ends, the database counts the windows; for more ends, conversations are loaded and counted in
#: memory.
_FEW: Final = 8
#: Number of ends that are computed and written in one transaction; the writer stores spans in between.
_PORTION: Final = 200
#: Maximum number of ends that are computed at once. Only the newest ends are computed; `backfill` computes the others.
MOST_ENDS: Final = 5_000


class DueEnds:
    """Determines the window ends that are due, because time passed or because a conversation changed.

    Ends are whole multiples of the step since the epoch. An end is due if it passed since the last computation, if its
    window is the current one, or if its window contains or contained a changed conversation. For conversations from
    files, only stored ends are due, because `backfill` computes windows of a past without a running collector. Ends
    whose windows reach back to removed conversations are never due, so their stored rows stay unchanged.
    """

    def __init__(self, windows: Sequence[Window], step_ns: int) -> None:
        self._widths = [window.name for window in windows]
        self._reach_ns = widest_ns(windows)
        self._counts = most_newest(windows) > 0
        self._step_ns = step_ns
        self._computed_ns: int | None = None

    def ends(self, con: Connection, changes: Changes, now_ns: int) -> list[int]:
        """Return the due ends, ascending.

        Args:
            con: a connection for reading.
            changes: the changed conversations.
            now_ns: the current time.
        """
        current_end_ns = current_end(now_ns, self._step_ns)
        since_ns = (
            self._computed_ns if self._computed_ns is not None else newest_end(con, self._step_ns, current_end_ns)
        )
        ends: set[int] = set()
        if since_ns != current_end_ns or changes:
            ends |= self._grid(current_end_ns if since_ns is None else since_ns, current_end_ns)
        for first_ns, last_ns in self._affected(changes.live_ns, current_end_ns):
            ends |= self._grid(first_ns, last_ns)
        for first_ns, last_ns in self._affected((*changes.live_ns, *changes.other_ns), current_end_ns):
            ends |= set(stored_ends(con, self._widths, first_ns, last_ns, limit=MOST_ENDS))
        results_from_ns = retention_state(con).results_from_ns
        complete_from_ns = results_from_ns + self._reach_ns if results_from_ns else 0
        return sorted(end for end in ends if end >= complete_from_ns)[-MOST_ENDS:]

    def computed(self, now_ns: int) -> None:
        """Record that all due ends were computed and stored."""
        self._computed_ns = current_end(now_ns, self._step_ns)

    def _grid(self, first_ns: int, last_ns: int) -> set[int]:
        """Return the ends from one time to another, both inclusive; at most the newest `MOST_ENDS`."""
        return set(range(current_end(first_ns, self._step_ns), last_ns + 1, self._step_ns)[-MOST_ENDS:])

    def _affected(self, ended_ns: Iterable[int], current_end_ns: int) -> Iterator[tuple[int, int]]:
        """Yield the intervals of ends whose windows contain at least one of these times, in ascending order."""
        interval: tuple[int, int] | None = None
        for time_ns in sorted(time_ns for time_ns in ended_ns if time_ns <= current_end_ns):
            last_ns = current_end_ns if self._counts else min(current_end_ns, time_ns + self._reach_ns - 1)
            if interval is not None and time_ns > interval[1]:
                yield interval
                interval = None
            interval = (time_ns, last_ns) if interval is None else (interval[0], max(interval[1], last_ns))
        if interval is not None:
            yield interval


class WindowLoop(BackgroundLoop):
    """Computes windows when results change and as time passes, on its own thread."""

    def __init__(self, engine: Engine, telemetry: Telemetry, on_shown: Callable[[int], None] = lambda _: None) -> None:
        """Create the loop.

        Args:
            engine: the opened store, its settings and its clock.
            telemetry: exports the gauges.
            on_shown: called with the time, ns, up to which stored scores are included in the gauges.

        Raises:
            ConfigError: no window is configured, or one is invalid.
            PluginError: an estimator does not load.
        """
        super().__init__("windows")
        settings = engine.settings.windows
        self._engine = engine
        self._telemetry = telemetry
        self._on_shown = on_shown
        self._tags = settings.tags
        self._windows = parse_windows(settings.widths)
        if not self._windows:
            raise ConfigError("windows.widths is empty: give at least one window, such as 24h")
        self._estimators = stored_estimators(engine)
        self._due_ends = DueEnds(self._windows, int(settings.step_s * _NS_PER_S))
        self._gauge_errors = LoopErrorLogger(_log, "computing gauges")
        self._row_errors = LoopErrorLogger(_log, "computing windows")
        #: Held from reading results until their windows are stored; any other code that stores windows must acquire it,
        #: too.
        self.lock = threading.Lock()
        #: The number of transactions that stored only the next windows of unchanged results.
        self.commits_by_time = 0

    def start(self) -> None:
        """Start the thread."""
        self._wake.set()
        super().start()

    def refresh(self) -> WindowTable:
        """Compute the current gauges and all due rows, in one pass if few ends are due; return the current windows."""
        if self.lock.locked():
            self.show()  # gauges do not wait for an erasure
        with self.lock:
            now_ns, changes, ends = self._schedule()
            if len(ends) < _FEW:
                with self._engine.store.read() as con:
                    table = self._count(con, [now_ns, *ends])
                current = self._set_gauges(table.at([now_ns]), now_ns)
                if ends or changes:
                    rows = table.at(ends)
                    self._write(lambda con: self._save(con, rows, ends, changes, now_ns), changes)
                self._due_ends.computed(now_ns)
                return current
        current = self.show()
        self.store()
        return current

    def show(self) -> WindowTable:
        """Compute the windows that end now, and export them as gauges."""
        now_ns = self._engine.clock()
        with self._engine.store.read() as con:
            table = self._count(con, [now_ns])
        return self._set_gauges(table, now_ns)

    def store(self) -> int:
        """Compute and store the windows whose ends are due; return the number of new or changed rows."""
        with self.lock:
            now_ns, changes, ends = self._schedule()
            portions = [ends[start : start + _PORTION] for start in range(0, len(ends), _PORTION)]
            written = 0
            for number, portion in enumerate(portions):
                if number and self._stopping.is_set():
                    return written  # the other ends are due at the next start, because the changes stay recorded
                written += self._store(portion, now_ns, changes)
            if changes:
                self._engine.store.write(lambda con: forget_changes(con, changes))
            self._due_ends.computed(now_ns)
        return written

    def _schedule(self) -> tuple[int, Changes, list[int]]:
        """Return the current time, ns, the recorded changes, and the ends that are due."""
        now_ns = self._engine.clock()
        with self._engine.store.read() as con:
            changes = read_changes(con)
            return now_ns, changes, self._due_ends.ends(con, changes, now_ns)

    def _set_gauges(self, table: WindowTable, now_ns: int) -> WindowTable:
        self._telemetry.set_windows(table)
        self._on_shown(now_ns)
        return table

    def _save(self, con: Connection, rows: WindowTable, ends: Sequence[int], changes: Changes, now_ns: int) -> None:
        save_windows(con, rows, ends, now_ns)
        forget_changes(con, changes)

    def _store(self, ends: Sequence[int], now_ns: int, changes: Changes) -> int:
        with self._engine.store.read() as con:
            table = self._count(con, ends) if len(ends) <= _FEW else self._count_in_memory(con, ends)
        return self._write(lambda con: save_windows(con, table, ends, now_ns), changes)

    def _write(self, work: Callable[[Connection], T], changes: Changes) -> T:
        result = self._engine.store.write(work)
        self.commits_by_time += not changes
        return result

    def _count(self, con: Connection, ends: Sequence[int]) -> WindowTable:
        stats = self._engine.settings.stats
        tallies = count_windows(con, self._windows, ends, self._tags)
        claims = self._claims(con, ends)
        return window_table(tallies, estimators=self._estimators, settings=stats, k=stats.k, claims=claims)

    def _count_in_memory(self, con: Connection, ends: Sequence[int]) -> WindowTable:
        stats = self._engine.settings.stats
        results = results_for(con, self._windows, ends, self._tags)
        names = [window.name for window in self._windows]
        claims = self._claims(con, ends)
        return roll(results, names, ends, estimators=self._estimators, settings=stats, k=stats.k, claims=claims)

    def _claims(self, con: Connection, ends: Sequence[int]) -> Claims:
        settings = self._engine.settings
        return claims_at(
            con,
            ends,
            tags=self._tags,
            since_ns=settings.slo.since_ns,
            settings=settings.stats,
            estimators=self._estimators,
        )

    def _run(self) -> None:
        # If an iteration fails, gauges keep their last values, and the next iteration reads from the store again.
        stored_at = -_ROWS_S
        wait_s = 0.0
        behind = False
        while not self._stopping.is_set():
            behind |= self._wake.wait(wait_s)
            self._wake.clear()
            began = time.monotonic()
            if began - stored_at >= _ROWS_S:
                if not self._row_errors.attempt(self.refresh):
                    self._gauge_errors.attempt(self.show)
                stored_at, behind = time.monotonic(), False
            else:
                self._gauge_errors.attempt(self.show)
            # Many past ends, or an erasure, may take minutes, after which gauges must not be still for a multiple of that.
            self._stopping.wait(min(_SHARE * (time.monotonic() - began), _REFRESH_S))
            wait_s = _ROWS_S if behind else _REFRESH_S
        self._row_errors.attempt(self.refresh)  # changes during the last iteration; the last telemetry is sent after it
