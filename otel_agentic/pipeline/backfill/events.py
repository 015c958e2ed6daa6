"""The evaluation events of what a backfill scores, sent as it scores: they do not wait, and none is dropped."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from otel_agentic.pipeline.backfill.identity import identity_of
from otel_agentic.pipeline.backfill.sinks import endpoint_of
from otel_agentic.pipeline.score_events import evaluator_of
from otel_agentic.telemetry import EventHistory, SentEvents

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from otel_agentic.config import ScoringSettings
    from otel_agentic.pipeline.backfill.plan import Asked
    from otel_agentic.pipeline.engine import Engine
    from otel_agentic.pipeline.evaluate import EvaluationRunner, OnScored
    from otel_agentic.store.selection import Scored
    from otel_agentic.store.table import Key


class Events:
    """Sends the events of scores that were just stored, before more are made; or none, without a history."""

    def __init__(self, evaluating: EvaluationRunner, settings: ScoringSettings, history: EventHistory | None) -> None:
        self._evaluating = evaluating
        self._settings = settings
        self._history = history

    @property
    def told(self) -> SentEvents:
        """What became of the events so far."""
        return SentEvents() if self._history is None else self._history.told

    def after(self, on_scored: OnScored) -> OnScored:
        """Return what tells of scores as before, and then sends their events."""
        history = self._history
        if history is None:
            return on_scored

        def told(scored: Sequence[Scored], restated: AbstractSet[Key]) -> None:
            on_scored(scored, restated)
            truth = self._evaluating.current_truth or self._evaluating.truth()
            history.send((each.conversation, each.score, evaluator_of(each, truth, self._settings)) for each in scored)

        return told


@contextmanager
def events_of(engine: Engine, asked: Asked, evaluating: EvaluationRunner) -> Iterator[Events]:
    """Lend what sends the events of a backfill: over OTLP, unless the settings want none."""
    emit = engine.emit
    if asked.emit != "otlp" or emit.events == "none":
        yield Events(evaluating, engine.settings.scoring, None)
        return
    run_id, _ = identity_of(engine, asked)
    with closing(EventHistory(emit, endpoint_of(asked, emit), run_id=run_id)) as history:
        yield Events(evaluating, engine.settings.scoring, history)
