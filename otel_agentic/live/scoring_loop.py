"""Scores closed conversations in a running collector, on its own thread: a slow judge delays nothing else."""

from __future__ import annotations

import logging
import threading
import time
from itertools import islice
from typing import TYPE_CHECKING, Final

from otel_agentic.evaluation.metrics import unasked_note
from otel_agentic.evaluation.run import EvaluationRequest
from otel_agentic.live.loops import LoopErrorLogger
from otel_agentic.store.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from otel_agentic.engine.engine import Engine
    from otel_agentic.evaluation.run import OnScored
    from otel_agentic.scoring import ConversationScore
    from otel_agentic.store.selection import Scored
    from otel_agentic.store.table import Key

_log = logging.getLogger(__name__)
#: Conversations scored before looking for newly closed ones, so that an `evaluate` command does not wait for a long backlog.
#: Under pressure a round is shorter, because it competes with the receivers.
_ROUND: Final = 500
_LEAST_ROUND: Final = 25
_RETRY_S: Final = 1.0
#: While the judge's breaker is open, interval of looking for conversations that can be scored without the judge, seconds.
_CHECK_S: Final = 5.0
#: Maximum number of remembered conversations on which the judge failed before the breaker opened; others wait for `evaluate`.
_MAX_FAILED: Final = 10_000
#: Conversations that closed earlier and lack metrics wait for `evaluate`: a new release does not redo a whole store.
_CATCHING_UP_NS: Final = 24 * 3600 * 1_000_000_000
#: Time to wait for a closed judge, seconds; a judge that cannot be closed would not return sooner.
_CLOSING_S: Final = 1.0


class ScoringLoop:
    """Scores conversations after they closed, including those that a crash or a failure left unscored."""

    def __init__(self, engine: Engine, on_scored: OnScored) -> None:
        """Create the loop.

        Args:
            engine: the opened store.
            on_scored: called with scores after they were stored.
        """
        self._engine = engine
        self._on_scored = on_scored
        self._wake = threading.Event()
        self._errors = LoopErrorLogger(_log, "scoring closed conversations")
        self._thread = threading.Thread(target=self._run, name="otel-agentic-scoring", daemon=True)
        self._failed: set[Key] = set()
        self._opened = 0
        self._judge_needed = False
        #: Whether metrics wait for a later round because the judge is unavailable.
        self._postponed = False
        self._unscored = 0
        #: Conversations that have a score and lack metrics, with the missing evaluations; None if not loaded.
        self._lacking_metrics: dict[Key, AbstractSet[str]] | None = None
        unasked = engine.evaluating.chosen.unasked  # logged at the start, before anything is received
        if unasked:
            _log.warning("metrics %s", unasked_note(unasked))
        #: Held while conversations are scored; everything else that scores takes it, too.
        self.lock = threading.Lock()

    def start(self) -> None:
        """Start with the conversations that an earlier process left unscored."""
        self._wake.set()
        self._thread.start()

    @property
    def waiting(self) -> int:
        """The number of closed conversations that wait for a score or for an unavailable judge, as of the last round."""
        return self._unscored + len(self._failed)

    def wake(self) -> None:
        """Look for closed conversations soon."""
        self._wake.set()

    def stop(self, grace_s: float) -> None:
        """Store the answers that arrive within `grace_s` seconds, then end; the rest is scored after the next start."""
        self._engine.stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(grace_s)
        if self._thread.is_alive():
            self._engine.evaluating.close()  # cancels the judge's running requests
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
                self._wake.set()

    def _await_work(self) -> None:
        """Wait for closed conversations, or for the time to retry an unavailable judge."""
        breaker = self._engine.evaluating.breaker.state
        if breaker.state == "closed" or not self._judge_needed:
            self._wake.wait()
        elif breaker.state == "open":
            self._engine.stopping.wait(min(breaker.retry_in_s, _CHECK_S))
        else:
            self._wake.wait(_RETRY_S)
        self._wake.clear()

    def _round(self) -> bool:
        """Score some closed conversations and some on which the judge failed; return whether there may be more."""
        evaluating, pressure = self._engine.evaluating, self._engine.pressure
        most = max(_LEAST_ROUND, int(_ROUND * pressure.share))
        began = time.monotonic()
        with self.lock:
            keys = evaluating.never_scored().keys
            self._unscored = len(keys)
            if keys:
                self._evaluate(EvaluationRequest(keys=keys[:most], chosen=evaluating.chosen))
                if evaluating.breaker.state.state == "closed":
                    self._unscored = max(0, len(keys) - most)
            self._ask_again()
            if not keys:
                self._catch_up(most)
        self._judge_needed = bool(keys or self._failed or self._postponed)
        if self._lacking_metrics and not keys:
            pressure.rest(time.monotonic() - began, self._engine.stopping)
            return True
        if evaluating.breaker.state.state != "closed":
            return False
        if len(keys) <= most:
            return self._postponed  # the judge recovered in this round: no other event would wake this thread
        pressure.rest(time.monotonic() - began, self._engine.stopping)
        return True

    def _ask_again(self) -> None:
        """Once the judge answers again, score the conversations on which it failed before the breaker opened."""
        breaker = self._engine.evaluating.breaker.state
        if breaker.opened == self._opened:
            if not breaker.failures:
                self._failed.clear()  # single failures wait for `evaluate`
        elif breaker.state != "open" and self._failed:
            keys = frozenset(self._failed)
            self._failed.clear()
            self._evaluate(EvaluationRequest(keys=sorted(keys), again=keys, chosen=self._engine.evaluating.chosen))
            if self._engine.evaluating.breaker.state.state == "closed":
                self._opened = self._engine.evaluating.breaker.state.opened
            else:
                self._failed |= keys
        elif breaker.state == "closed":
            self._opened = breaker.opened

    def _catch_up(self, most: int) -> None:
        """Run evaluators on scored conversations without metrics: a process ended early, or the judge was unavailable."""
        evaluating = self._engine.evaluating
        if self._postponed:
            if evaluating.breaker.state.state == "open":
                return
            self._postponed, self._lacking_metrics = False, None
        if self._lacking_metrics is None:
            since = Selection(since_ns=self._engine.clock() - _CATCHING_UP_NS)
            self._lacking_metrics = evaluating.lacking(evaluating.truth(), evaluating.chosen, since, live=True)
        some = dict(islice(self._lacking_metrics.items(), most))
        if some:
            self._lacking_metrics = dict(islice(self._lacking_metrics.items(), most, None))
            self._evaluate(EvaluationRequest(keys=(), chosen=evaluating.chosen, lacking=some))
            if self._postponed:
                self._lacking_metrics = {}  # loaded again once the judge is available

    def _evaluate(self, request: EvaluationRequest) -> None:
        evaluating, stop = self._engine.evaluating, self._engine.stopping.is_set
        before = evaluating.breaker.state
        summary = evaluating.evaluate(evaluating.truth(), request, self._handle_scored, stop, waits=True)
        now = evaluating.breaker.state
        # Questions that failed before the breaker opened are asked again, too; single failures wait for `evaluate`.
        unavailable = now.state != "closed" or now.opened > before.opened
        self._postponed |= summary.tally.postponed > 0 or (unavailable and bool(request.chosen.judged))

    def _handle_scored(self, scored: Sequence[Scored], restated: AbstractSet[Key]) -> None:
        failed = (item.conversation.key for item in scored if "judge_error" in _reasons(item.score))
        self._failed.update(islice(failed, max(0, _MAX_FAILED - len(self._failed))))
        self._on_scored(scored, restated)


def _reasons(score: ConversationScore) -> Iterator[str | None]:
    """Yield the reasons why parts of a conversation were not evaluated."""
    yield from (score.reason, score.computed_reason)
    for turn in score.turns:
        yield from (turn.reason, turn.answer_reason)
    yield from (tools.reason for tools in score.tools)
