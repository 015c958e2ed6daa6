"""Scores what closed in a running collector, on a thread of its own: a judge that takes its time holds up nothing else."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from otel_agentic.pipeline.evaluate import Wanted

if TYPE_CHECKING:
    from otel_agentic.pipeline.engine import Engine
    from otel_agentic.pipeline.evaluate import OnScored

_log = logging.getLogger(__name__)
#: Conversations scored before it is asked again what closed: an `evaluate` command need not wait for a long backlog. Under
#: pressure a round is shorter, since what receives spans competes with it.
_ROUND: Final = 500
_LEAST_ROUND: Final = 25
_RETRY_S: Final = 1.0
#: How long a closed judge is waited for; one that cannot be closed would not come back any sooner.
_CLOSING_S: Final = 1.0


class LiveScoring:
    """Scores conversations once they are closed: those that just closed, and those that a kill or a failure left."""

    def __init__(self, engine: Engine, scored: OnScored) -> None:
        """Prepare.

        Args:
            engine: the opened store.
            scored: told of scores once they are stored.
        """
        self._engine = engine
        self._scored = scored
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="otel-agentic-scoring", daemon=True)
        #: Held while scores are made; whoever scores otherwise takes it, too.
        self.lock = threading.Lock()

    def start(self) -> None:
        """Begin with what an earlier process left."""
        self._wake.set()
        self._thread.start()

    def wake(self) -> None:
        """Look for conversations that closed."""
        self._wake.set()

    def stop(self, grace_s: float) -> None:
        """Keep what the judge says within a while, and end; what is not scored then is scored after the next start."""
        self._engine.stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(grace_s)
        if self._thread.is_alive():
            self._engine.evaluating.close()  # cancels what the judge is at work on
            self._thread.join(_CLOSING_S)

    def _run(self) -> None:
        stopping = self._engine.stopping
        while not stopping.is_set():
            self._wake.wait()
            self._wake.clear()
            try:
                while not stopping.is_set() and self._round():
                    pass
            except Exception:  # noqa: BLE001 — logged, and tried again: the conversations wait in the store
                _log.exception("scoring closed conversations failed")
                stopping.wait(_RETRY_S)
                self._wake.set()

    def _round(self) -> bool:
        """Score some of what closed; return whether there may be more."""
        evaluating, pressure = self._engine.evaluating, self._engine.pressure
        most = max(_LEAST_ROUND, int(_ROUND * pressure.share))
        began = time.monotonic()
        with self.lock:
            keys = evaluating.never_scored().keys
            if keys:
                wanted = Wanted(keys=keys[:most])
                evaluating.evaluate(evaluating.truth(), wanted, self._scored, self._engine.stopping.is_set)
        if len(keys) <= most:
            return False
        self._engine.stopping.wait(pressure.rest_s(time.monotonic() - began))
        return True
