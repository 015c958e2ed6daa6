"""Scores what closed in a running collector, on a thread of its own: a judge that takes its time holds up nothing else."""

from __future__ import annotations

import logging
import threading
import time
from itertools import islice
from typing import TYPE_CHECKING, Final

from otel_agentic.pipeline.evaluate import Wanted
from otel_agentic.pipeline.metrics import unasked_note
from otel_agentic.pipeline.rounds import Rounds
from otel_agentic.store.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from otel_agentic.pipeline.engine import Engine
    from otel_agentic.pipeline.evaluate import OnScored
    from otel_agentic.pipeline.rebuild import Key
    from otel_agentic.scoring import ConversationScore
    from otel_agentic.store.selection import Scored

_log = logging.getLogger(__name__)
#: Conversations scored before it is asked again what closed: an `evaluate` command need not wait for a long backlog. Under
#: pressure a round is shorter, since what receives spans competes with it.
_ROUND: Final = 500
_LEAST_ROUND: Final = 25
_RETRY_S: Final = 1.0
#: How often it is looked what can be scored without a judge that is left alone, seconds.
_LOOK_S: Final = 5.0
#: Conversations remembered that a judge failed on before it was left alone; what is more waits for `evaluate`.
_MOST_FAILED: Final = 10_000
#: What closed longer ago, and lacks what evaluators say, waits for `evaluate`: a new release does not redo a whole store.
_CATCHING_UP_NS: Final = 24 * 3600 * 1_000_000_000
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
        self._rounds = Rounds(_log, "scoring closed conversations")
        self._thread = threading.Thread(target=self._run, name="otel-agentic-scoring", daemon=True)
        self._failed: set[Key] = set()
        self._opened = 0
        self._left = False
        #: Whether metrics wait for a later round because the judge does not answer.
        self._postponed = False
        self._never = 0
        #: Conversations that have a score and lack what evaluators say; None until it is looked for.
        self._lacking: dict[Key, AbstractSet[str]] | None = None
        unasked = engine.evaluating.chosen.unasked  # what cannot run is told before anything is received
        if unasked:
            _log.warning("metrics are %s", unasked_note(unasked))
        #: Held while scores are made; whoever scores otherwise takes it, too.
        self.lock = threading.Lock()

    def start(self) -> None:
        """Begin with what an earlier process left."""
        self._wake.set()
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many closed conversations wait for a score, or for a judge that is left alone, as of the last look."""
        return self._never + len(self._failed)

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
            self._await_work()
            try:
                while not stopping.is_set() and self._round():
                    pass
                self._rounds.ended()
            except Exception as error:  # noqa: BLE001 — logged, and tried again: the conversations wait in the store
                self._rounds.failed(error)
                stopping.wait(_RETRY_S)
                self._wake.set()

    def _await_work(self) -> None:
        """Wait for conversations that closed, or for the time to try again a judge that is left alone."""
        breaker = self._engine.evaluating.breaker.state
        if breaker.state == "closed" or not self._left:
            self._wake.wait()
        elif breaker.state == "open":
            self._engine.stopping.wait(min(breaker.retry_in_s, _LOOK_S))
        else:
            self._wake.wait(_RETRY_S)
        self._wake.clear()

    def _round(self) -> bool:
        """Score some of what closed, and some of what the judge failed on; return whether there may be more."""
        evaluating, pressure = self._engine.evaluating, self._engine.pressure
        most = max(_LEAST_ROUND, int(_ROUND * pressure.share))
        began = time.monotonic()
        with self.lock:
            keys = evaluating.never_scored().keys
            self._never = len(keys)
            if keys:
                self._evaluate(Wanted(keys=keys[:most], chosen=evaluating.chosen))
                if evaluating.breaker.state.state == "closed":
                    self._never = max(0, len(keys) - most)
            self._ask_again()
            if not keys:
                self._catch_up(most)
        self._left = bool(keys or self._failed or self._postponed)
        if self._lacking and not keys:
            pressure.rest(time.monotonic() - began, self._engine.stopping)
            return True
        if evaluating.breaker.state.state != "closed":
            return False
        if len(keys) <= most:
            return self._postponed  # the judge came back in this round: no other event would wake up this thread
        pressure.rest(time.monotonic() - began, self._engine.stopping)
        return True

    def _ask_again(self) -> None:
        """Score again what the judge failed on before it was left alone, once it answers again."""
        breaker = self._engine.evaluating.breaker.state
        if breaker.opened == self._opened:
            if not breaker.failures:
                self._failed.clear()  # single failures: they wait for `evaluate`
        elif breaker.state != "open" and self._failed:
            keys = frozenset(self._failed)
            self._failed.clear()
            self._evaluate(Wanted(keys=sorted(keys), again=keys, chosen=self._engine.evaluating.chosen))
            if self._engine.evaluating.breaker.state.state == "closed":
                self._opened = self._engine.evaluating.breaker.state.opened
            else:
                self._failed |= keys
        elif breaker.state == "closed":
            self._opened = breaker.opened

    def _catch_up(self, most: int) -> None:
        """Run evaluators on some of what lacks metrics: an earlier process ended too soon, or the judge did not answer."""
        evaluating = self._engine.evaluating
        if self._postponed:
            if evaluating.breaker.state.state == "open":
                return
            self._postponed, self._lacking = False, None
        if self._lacking is None:
            since = Selection(since_ns=self._engine.clock() - _CATCHING_UP_NS)
            self._lacking = evaluating.lacking(evaluating.truth(), evaluating.chosen, since, live=True)
        some = dict(islice(self._lacking.items(), most))
        if some:
            self._lacking = dict(islice(self._lacking.items(), most, None))
            self._evaluate(Wanted(keys=(), chosen=evaluating.chosen, lacking=some))
            if self._postponed:
                self._lacking = {}  # it is looked for again once the judge may be asked

    def _evaluate(self, wanted: Wanted) -> None:
        evaluating, stop = self._engine.evaluating, self._engine.stopping.is_set
        before = evaluating.breaker.state
        found = evaluating.evaluate(evaluating.truth(), wanted, self._told, stop, waits=True)
        now = evaluating.breaker.state
        # What failed before the judge was no longer asked is asked again, too; single failures wait for `evaluate`.
        away = now.state != "closed" or now.opened > before.opened
        self._postponed |= found.tally.postponed > 0 or (away and bool(wanted.chosen.judged))

    def _told(self, scored: Sequence[Scored], restated: AbstractSet[Key]) -> None:
        failed = (item.conversation.key for item in scored if "judge_error" in _reasons(item.score))
        self._failed.update(islice(failed, max(0, _MOST_FAILED - len(self._failed))))
        self._scored(scored, restated)


def _reasons(score: ConversationScore) -> Iterator[str | None]:
    """Yield why parts of a conversation were not evaluated."""
    yield from (score.reason, score.computed_reason)
    for turn in score.turns:
        yield from (turn.reason, turn.answer_reason)
    yield from (tools.reason for tools in score.tools)
