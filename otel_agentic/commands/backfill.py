"""The command that scores, computes and emits a range of the past."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from otel_agentic.commands.interrupt import stop_on_interrupt
from otel_agentic.errors import OverloadedError, UsageError
from otel_agentic.evaluation.truth import TruthFile

if TYPE_CHECKING:
    from otel_agentic.backfill.plan import BackfillRequest
    from otel_agentic.backfill.run import BackfillContext
    from otel_agentic.engine.engine import Progress
from otel_agentic.commands.registry import Context, command

#: Characters of a file that are sent at once.
_PIECE: Final = 256 * 1024
_NS_PER_S: Final = 1_000_000_000
#: How long to wait for the current part once nobody listens, seconds.
_GRACE_S: Final = 10.0
#: How long to wait for another backfill, seconds: one that nobody listens to ends soon.
_TURN_S: Final = 2.0

#: What a running collector holds while it scores, and while it computes windows; None where there is none.
locks: tuple[AbstractContextManager[Any], AbstractContextManager[Any]] | None = None


@command("backfill")
def backfill(
    context: Context,
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
) -> Iterator[Any]:
    """Score, compute windows and emit; cases and labels are (name, text) and are remembered, except in a dry run.

    Yields {"stage", "done", "total"} for progress, {"text"} for each piece of an OpenMetrics file, and {"result"} at the
    end. Closing the iterator stops the backfill after the current part. `workers` is the number of scoring processes;
    None scores in this process. `labels_of_series` are added to every series of an OpenMetrics file.
    """
    from otel_agentic.backfill.plan import BackfillRequest  # noqa: PLC0415 — numpy is not needed to ask a server

    settings = context.engine.settings
    request = BackfillRequest(
        since_ns=since_ns,
        until_ns=until_ns,
        windows=tuple(windows or settings.windows.widths),
        step_ns=int(settings.windows.step_s * _NS_PER_S) if step_ns is None else step_ns,
        k=tuple(k or settings.stats.k),
        emit=emit,
        endpoint=endpoint,
        labels=labels_of_series or {},
    ).checked()
    if workers is not None and context.locks is not None:
        raise UsageError("a running collector scores in its own process: leave out --executor, or stop it first")
    truth = ([TruthFile(name=n, text=t) for n, t in cases], [TruthFile(name=n, text=t) for n, t in labels])
    if dry_run:
        return _in_background(lambda progress, _: iter([_estimate(context, request, truth, progress)]))
    return _in_background(lambda progress, stop: _run(context, request, truth, workers, _Listener(progress, stop)))


def _estimate(
    context: Context, request: BackfillRequest, truth: tuple[list[TruthFile], list[TruthFile]], progress: Progress
) -> Any:
    from otel_agentic.backfill.dry_run import (  # noqa: PLC0415 — same
        estimate_backfill,
        estimate_json,
        truth_with,
    )

    active = truth_with(context.engine, *truth)
    estimate = estimate_backfill(
        context.engine, request, truth=active, live=context.locks is not None, progress=progress
    )
    return {"result": estimate_json(estimate, request)}


class _Listener(NamedTuple):
    """Callbacks of the caller of a backfill: one receives its progress, one may stop it."""

    progress: Progress
    stop: Callable[[], bool]


def _run(
    context: Context,
    request: BackfillRequest,
    truth: tuple[list[TruthFile], list[TruthFile]],
    workers: int | None,
    listener: _Listener,
) -> Iterator[Any]:
    from otel_agentic.backfill.dry_run import done_json  # noqa: PLC0415 — same
    from otel_agentic.backfill.run import backfill  # noqa: PLC0415 — same
    from otel_agentic.engine.parallel import (  # noqa: PLC0415
        open_workers,
        scoring_over,
    )

    backfill_context = _context_of(context, listener)
    with _exclusively(context), open_workers(context.engine.settings, workers) as pool, TemporaryDirectory() as folder:
        if any(truth):
            with backfill_context.lock:
                context.engine.evaluating.remember(*truth)
        out = Path(folder) / "history.txt" if request.emit == "openmetrics" else None
        done = backfill(
            context.engine, request, evaluating=scoring_over(context.engine, pool), out=out, context=backfill_context
        )
        if out is not None and out.exists():
            yield from _pieces(out)
        problems = pool.problems if pool is not None else []
    yield {"result": {**done_json(done, request), "problems": problems}}


@contextmanager
def _exclusively(context: Context) -> Iterator[None]:
    """Admit one backfill at a time: two would write the same rows with different times of computation."""
    if not context.engine.backfill_lock.acquire(timeout=_TURN_S):
        raise OverloadedError("another backfill is running in this collector; try again when it is done")
    try:
        yield
    finally:
        context.engine.backfill_lock.release()


def _context_of(context: Context, listener: _Listener) -> BackfillContext:
    from otel_agentic.backfill.run import BackfillContext  # noqa: PLC0415 — same

    stopping = context.engine.stopping
    return BackfillContext(
        live=context.locks is not None,
        lock=context.scoring_lock,
        windows_lock=context.windows_lock,
        on_scored=context.on_scored,
        progress=listener.progress,
        stop=lambda: listener.stop() or stopping.is_set(),
    )


def _pieces(path: Path) -> Iterator[Any]:
    with path.open(encoding="utf-8", newline="") as file:
        while text := file.read(_PIECE):
            yield {"text": text}


def _in_background(work: Callable[[Progress, Callable[[], bool]], Iterator[Any]]) -> Iterator[Any]:
    """Yield the progress of some work and what it yields; it runs on its own thread, because a step may take long."""
    stop = threading.Event()
    arrived: SimpleQueue[Any | BaseException | None] = SimpleQueue()

    def run() -> None:
        try:
            for item in work(lambda stage, done, total: arrived.put(_step(stage, done, total)), stop.is_set):
                arrived.put(item)
            arrived.put(None)
        except BaseException as error:  # noqa: BLE001 — raised in the thread that listens
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


def _step(stage: str, done: int, total: int | None) -> Any:
    return {"stage": stage, "done": done, "total": total}
