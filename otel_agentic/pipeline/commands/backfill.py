"""The command that brings the past up to date: scores, windows, emission."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Literal

from otel_agentic.errors import OverloadedError, UsageError
from otel_agentic.pipeline.commands.base import EngineCommands, Json
from otel_agentic.pipeline.evaluate import TruthFile
from otel_agentic.pipeline.interrupt import stop_on_interrupt

if TYPE_CHECKING:
    from otel_agentic.pipeline.backfill.plan import Asked
    from otel_agentic.pipeline.backfill.run import Surroundings
    from otel_agentic.pipeline.engine import Progress

#: Characters of a file that are handed on at once.
_PIECE: Final = 256 * 1024
_NS_PER_S: Final = 1_000_000_000
#: How long the part that is under way is waited for once nobody listens any more.
_GRACE_S: Final = 10.0
#: How long another backfill is waited for: one that nobody listens to any more ends soon.
_TURN_S: Final = 2.0


class BackfillCommands(EngineCommands):
    """Backfill a range of the past."""

    #: What a running collector holds while it scores, and while it computes windows; None where there is none.
    locks: tuple[AbstractContextManager[Any], AbstractContextManager[Any]] | None = None

    def backfill(
        self,
        *,
        cases: Sequence[tuple[str, str]] = (),
        labels: Sequence[tuple[str, str]] = (),
        since_ns: int | None = None,
        until_ns: int | None = None,
        windows: list[str] | None = None,
        step_ns: int | None = None,
        k: list[int] | None = None,
        emit: Literal["none", "otlp", "openmetrics"] = "none",
        endpoint: str | None = None,
        labels_of_series: dict[str, str] | None = None,
        dry_run: bool = False,
        workers: int | None = None,
    ) -> Iterator[Json]:
        """Score, compute windows and emit; cases and labels are (name, text) and are remembered, unless in a dry run.

        Yields {"stage", "done", "total"} on the way, {"text"} for each piece of an OpenMetrics file, {"result"} at the end.
        Whoever stops listening stops it, after the part that is under way. `workers` processes score, None: this one.
        `labels_of_series` stand on every series of an OpenMetrics file.
        """
        from otel_agentic.pipeline.backfill.plan import Asked  # noqa: PLC0415 — numpy is not needed to ask a server

        settings = self._engine.settings
        asked = Asked(
            since_ns=since_ns,
            until_ns=until_ns,
            windows=tuple(windows or settings.windows.widths),
            step_ns=int(settings.windows.step_s * _NS_PER_S) if step_ns is None else step_ns,
            k=tuple(k or settings.stats.k),
            emit=emit,
            endpoint=endpoint,
            labels=labels_of_series or {},
        ).checked()
        if workers is not None and self.locks is not None:
            raise UsageError("a running collector scores in its own process: leave out --executor, or stop it first")
        truth = ([TruthFile(name=n, text=t) for n, t in cases], [TruthFile(name=n, text=t) for n, t in labels])
        if dry_run:
            return _told(lambda progress, _: iter([self._estimated(asked, truth, progress)]))
        return _told(lambda progress, stop: self._backfilled(asked, truth, workers, progress, stop))

    def _estimated(self, asked: Asked, truth: tuple[list[TruthFile], list[TruthFile]], progress: Progress) -> Json:
        from otel_agentic.pipeline.backfill.dry import estimated, truth_with  # noqa: PLC0415 — same
        from otel_agentic.pipeline.backfill.told import estimate_json  # noqa: PLC0415 — same

        given = truth_with(self._engine, *truth)
        found = estimated(self._engine, asked, truth=given, live=self.locks is not None, progress=progress)
        return {"result": estimate_json(found, asked)}

    def _backfilled(
        self,
        asked: Asked,
        truth: tuple[list[TruthFile], list[TruthFile]],
        workers: int | None,
        progress: Progress,
        stop: Callable[[], bool],
    ) -> Iterator[Json]:
        from otel_agentic.pipeline.backfill.run import backfill  # noqa: PLC0415 — same
        from otel_agentic.pipeline.backfill.told import done_json  # noqa: PLC0415 — same
        from otel_agentic.pipeline.parallel import open_workers  # noqa: PLC0415 — same
        from otel_agentic.pipeline.parallel_scoring import scoring_over  # noqa: PLC0415 — same

        around = self._around(progress, stop)
        with self._alone(), open_workers(self._engine.settings, workers) as pool, TemporaryDirectory() as folder:
            if any(truth):
                with around.lock:
                    self._engine.evaluating.remember(*truth)
            out = Path(folder) / "history.txt" if asked.emit == "openmetrics" else None
            done = backfill(self._engine, asked, evaluating=scoring_over(self._engine, pool), out=out, around=around)
            if out is not None and out.exists():
                yield from _pieces(out)
            problems = pool.problems if pool is not None else []
        yield {"result": {**done_json(done, asked), "problems": problems}}

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Have this store to itself among backfills: two would write the same rows at different times of computation."""
        if not self._engine.backfilling.acquire(timeout=_TURN_S):
            raise OverloadedError("another backfill is running in this collector; try again when it is done")
        try:
            yield
        finally:
            self._engine.backfilling.release()

    def _around(self, progress: Progress, stop: Callable[[], bool]) -> Surroundings:
        from otel_agentic.pipeline.backfill.run import Surroundings  # noqa: PLC0415 — same

        scoring, windows = self.locks or (nullcontext(), nullcontext())
        stopping = self._engine.stopping
        return Surroundings(
            live=self.locks is not None,
            lock=scoring,
            windows_lock=windows,
            on_scored=self._on_scored,
            progress=progress,
            stop=lambda: stop() or stopping.is_set(),
        )


def _pieces(path: Path) -> Iterator[Json]:
    with path.open(encoding="utf-8", newline="") as file:
        while text := file.read(_PIECE):
            yield {"text": text}


def _told(work: Callable[[Progress, Callable[[], bool]], Iterator[Json]]) -> Iterator[Json]:
    """Yield how far some work is, and what it yields. It runs on a thread of its own: a step of it may take long."""
    stop = threading.Event()
    arrived: SimpleQueue[Json | BaseException | None] = SimpleQueue()

    def run() -> None:
        try:
            for item in work(lambda stage, done, total: arrived.put(_step(stage, done, total)), stop.is_set):
                arrived.put(item)
            arrived.put(None)
        except BaseException as error:  # noqa: BLE001 — raised where it is listened to
            arrived.put(error)

    thread = threading.Thread(target=run, name="otel-agentic-backfill", daemon=True)
    thread.start()
    try:
        with stop_on_interrupt(stop):
            while (item := arrived.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
    finally:
        stop.set()
        thread.join(_GRACE_S)


def _step(stage: str, done: int, total: int | None) -> Json:
    return {"stage": stage, "done": done, "total": total}
