"""Commands as the pages of the console run them: reports, which take seconds on a large store, are reused."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

import orjson

from otel_agentic.commands.client import Client, present, typed
from otel_agentic.errors import OtelAgenticError, OverloadedError

_log = logging.getLogger(__name__)
#: Commands whose results are reused while the store is unchanged, and for a time in proportion to their duration.
_REPORTS: Final = frozenset(
    {
        "live",
        "report",
        "report_pictures",
        "store_stats",
        "tools_failing",
        "truth_case",
        "truth_clusters",
        "truth_list",
    }
)
#: Commands that change the results of reports.
_WRITES: Final = frozenset({"label", "truth_map", "truth_save"})
_REUSE: Final = 5.0
_MAX_REUSE_S: Final = 60.0
#: A report is current for this long while the store is unchanged, seconds: only what the end of a period leaves out may
#: differ then. If the store has changed, no page shows a report that is older.
_MAX_AGE_S: Final = 600.0
#: No page waits for a report that took longer than this, seconds, if there is an earlier one.
_SLOW_S: Final = 1.0
_MAX_REPORTS: Final = 32
#: Reports that are computed at a time for pages that do not wait.
_MAX_AWAITED: Final = 8
#: Commands that the collector runs: a function of name and arguments that returns a JSON value.
Run = Callable[[str, Mapping[str, Any]], Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Report:
    """A result, the changes of the store before it was computed, when that ended, and how long it took, seconds."""

    name: str
    result: Any
    changes: int
    at_s: float
    took_s: float
    at: datetime
    #: The result by type: to validate a report of many groups takes longer than the rest of a page.
    typed: dict[Any, Any] = field(default_factory=dict)

    def is_current(self, now_s: float, changes: int) -> bool:
        age_s = now_s - self.at_s
        return age_s < (_MAX_AGE_S if changes == self.changes else min(_MAX_REUSE_S, _REUSE * self.took_s))

    def is_better_than_none(self, now_s: float, changes: int) -> bool:
        """Return whether to display it, with its time, until there is a new one."""
        return self.took_s > _SLOW_S and (changes == self.changes or now_s - self.at_s < _MAX_AGE_S)

    def is_due(self, now_s: float) -> bool:
        """Return whether to compute a new one for the next page, which takes at most a sixth of a core for each report."""
        return now_s - self.at_s >= _REUSE * self.took_s

    def of(self, kind: type[T]) -> T:
        if kind not in self.typed:
            self.typed[kind] = typed(kind, self.name, self.result)
        result: T = self.typed[kind]
        return result


class ReportPendingError(Exception):
    """A report is still being computed; `for_s` is for how long, seconds."""

    def __init__(self, name: str, for_s: float) -> None:
        super().__init__(f"the report {name} is being computed")
        self.for_s = for_s


@dataclass(slots=True, kw_only=True)
class _Awaited:
    """A report that is computed for a page that does not wait; times in seconds, None until it is computed."""

    began_s: float
    ended_s: float | None = None
    report: Future[_Report] = field(default_factory=Future)


class Reports:
    """The newest reports of one store. Thread-safe.

    A report that took t seconds is reused for ten minutes while the store is unchanged, and otherwise for 5 t, but at most a
    minute, unless a verdict or a case was recorded in the meantime. So those of a small store are always current. Later, one that
    took more than a second is returned, for up to ten minutes if the store has changed, and after 5 t a thread computes a new
    one. Concurrent requests for a report compute it once. A request that does not wait gets an error instead of a report that
    takes longer, which is computed nevertheless, so that a later request gets it.
    """

    def __init__(self, changes: Callable[[], int], clock: Callable[[], float] = time.monotonic) -> None:
        """Create the cache.

        Args:
            changes: returns how often the store has changed.
            clock: a monotonic clock, seconds.
        """
        self._changes = changes
        self._clock = clock
        #: By command and arguments, the oldest first.
        self._reports: dict[bytes, _Report] = {}
        #: Held while a report is computed, by command and arguments.
        self._computing: WeakValueDictionary[bytes, threading.Lock] = WeakValueDictionary()
        self._lock = threading.Lock()
        #: The reports that are renewed, or wait for it.
        self._waiting: set[bytes] = set()
        #: Held while a report is renewed: no page waits for these, and several would compete with those that do.
        self._renewing = threading.Lock()
        #: The reports that pages wait for by reloading, by command and arguments: a verdict in the meantime does not remove these.
        self._awaited: dict[bytes, _Awaited] = {}

    def clear(self) -> None:
        """Forget all reports, also those that are being computed."""
        self._reports = {}

    def get(
        self, run: Run, name: str, arguments: Mapping[str, Any], patience_s: float | None = None
    ) -> tuple[_Report, bool]:
        """Return a report that may be reused, or else a new one; and whether it is current.

        Args:
            run: runs the command.
            name: the command.
            arguments: its arguments.
            patience_s: how long to wait for a new one, seconds; None for as long as it takes.

        Raises:
            ReportPendingError: it takes longer.
            OverloadedError: it is new, and too many others are being computed.
        """
        key = orjson.dumps([name, arguments], option=orjson.OPT_SORT_KEYS)
        with self._lock:
            computing = self._computing.setdefault(key, threading.Lock())
        known = self._reports.get(key)
        if known is not None:
            now_s, changes = self._clock(), self._changes()
            if known.is_current(now_s, changes):
                return known, True
            if known.is_better_than_none(now_s, changes):
                if known.is_due(now_s):
                    self._start_to_renew(computing, key, run, name, arguments)
                return known, False
        if patience_s is None:
            return self._current(computing, key, run, name, arguments), True
        report = self._within(patience_s, key, name, lambda: self._current(computing, key, run, name, arguments))
        return report, self._reports.get(key) is report

    def _within(self, patience_s: float, key: bytes, name: str, compute: Callable[[], _Report]) -> _Report:
        """Return a report that is computed within a time, or was since an earlier request."""
        awaited = self._start(key, compute)
        wait([awaited.report], patience_s)
        if not awaited.report.done():
            raise ReportPendingError(name, self._clock() - awaited.began_s)
        with self._lock:
            if self._awaited.get(key) is awaited:
                del self._awaited[key]
        return awaited.report.result()

    def _start(self, key: bytes, compute: Callable[[], _Report]) -> _Awaited:
        """Return a report that is being computed, or was within the last minute; start to compute it otherwise."""
        now_s = self._clock()
        with self._lock:
            for other, item in list(self._awaited.items()):
                if item.ended_s is not None and now_s - item.ended_s > _MAX_REUSE_S:
                    del self._awaited[other]
            if key in self._awaited:
                return self._awaited[key]
            running = sum(item.ended_s is None for item in self._awaited.values())
            if running >= _MAX_AWAITED:
                raise OverloadedError(f"{running} reports are being computed already; try again when one is done")
            awaited = self._awaited[key] = _Awaited(began_s=now_s)
        threading.Thread(target=self._compute, args=(awaited, compute), daemon=True).start()
        return awaited

    def _compute(self, awaited: _Awaited, compute: Callable[[], _Report]) -> None:
        try:
            report = compute()
        except BaseException as error:  # noqa: BLE001 — the page that asks for the report raises it
            awaited.ended_s = self._clock()
            awaited.report.set_exception(error)
        else:
            awaited.ended_s = self._clock()
            awaited.report.set_result(report)

    def _start_to_renew(
        self, computing: threading.Lock, key: bytes, run: Run, name: str, arguments: Mapping[str, Any]
    ) -> None:
        with self._lock:
            if key in self._waiting:
                return
            self._waiting.add(key)
        threading.Thread(target=self._renew, args=(computing, key, run, name, arguments), daemon=True).start()

    def _renew(self, computing: threading.Lock, key: bytes, run: Run, name: str, arguments: Mapping[str, Any]) -> None:
        try:
            with self._renewing:
                self._current(computing, key, run, name, arguments)
        except OtelAgenticError as error:
            _log.warning("the report %s is not renewed: %s", name, error)
        except Exception:  # noqa: BLE001 — no page waits for it; after ten minutes one does, and fails with the error
            _log.exception("renewing the report %s failed", name)
        finally:
            with self._lock:
                self._waiting.discard(key)

    def _current(
        self, computing: threading.Lock, key: bytes, run: Run, name: str, arguments: Mapping[str, Any]
    ) -> _Report:
        with computing:
            reports = self._reports
            known = reports.get(key)
            began_s, changes = self._clock(), self._changes()
            if known is not None and known.is_current(began_s, changes):
                return known
            result = run(name, arguments)
            now_s = self._clock()
            # A verdict that was recorded meanwhile replaced the dictionary: this result is not reused then.
            reports.pop(key, None)
            reports[key] = report = _Report(
                name=name, result=result, changes=changes, at_s=now_s, took_s=now_s - began_s, at=datetime.now(UTC)
            )
            for oldest in list(reports)[:-_MAX_REPORTS]:
                reports.pop(oldest, None)
            return report


class CommandClient(Client):
    """A client of a function that runs commands in this process for a page.

    Attributes:
        as_of: the time of the oldest report that is not current; None if all are.
    """

    def __init__(self, run: Run, reports: Reports, patience_s: float | None = None) -> None:
        """Create a client.

        Args:
            run: runs commands.
            reports: the reports of the store.
            patience_s: how long to wait for a report that takes long, seconds: then calls raise `ReportPendingError`.
        """
        self._run = run
        self._reports = reports
        self._patience_s = patience_s
        self.as_of: datetime | None = None

    def call(self, name: str, /, **arguments: Any) -> Any:
        """Run a command and return its result as a JSON value."""
        arguments = present(arguments)
        if name not in _REPORTS:
            result = self._run(name, arguments)
            if name in _WRITES:
                self._reports.clear()
            return result
        return self._report(name, arguments).result

    def get(self, kind: type[T], name: str, /, **arguments: Any) -> T:
        """Run a command and return its result as a type of `otel_agentic.results`; see `Client.get`."""
        if name not in _REPORTS:
            return super().get(kind, name, **arguments)
        return self._report(name, present(arguments)).of(kind)

    def _report(self, name: str, arguments: Mapping[str, Any]) -> _Report:
        report, is_current = self._reports.get(self._run, name, arguments, self._patience_s)
        if not is_current:
            self.as_of = report.at if self.as_of is None else min(self.as_of, report.at)
        return report

    def stream(self, name: str, /, **arguments: Any) -> Generator[Any]:
        """Yield the JSON values of a command that streams."""
        yield from self._run(name, present(arguments))

    def close(self) -> None:
        """Do nothing: the owner of the function releases its resources."""
