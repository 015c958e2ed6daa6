"""Destinations of backfilled points and events: OTLP, an OpenMetrics file, or none; and the identity of a run."""

from __future__ import annotations

import hashlib
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from otel_agentic.backfill.plan import run_id_of
from otel_agentic.engine.engine import stored_estimator_names
from otel_agentic.errors import UsageError
from otel_agentic.evaluation.score_events import evaluator_of
from otel_agentic.telemetry import EventHistory, OpenMetricsHistory, OtlpHistory, SentEvents
from otel_agentic.telemetry.sinks import loggable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from otel_agentic.backfill.plan import Asked
    from otel_agentic.config import EmitSettings, ScoringSettings
    from otel_agentic.engine.engine import Engine
    from otel_agentic.evaluation.run import EvaluationRunner, OnScored
    from otel_agentic.store.selection import Scored
    from otel_agentic.store.table import Key
    from otel_agentic.windows.columns import WindowTable


class PointSink(Protocol):
    """Takes the points of some window ends after the other, in order of time."""

    @property
    def wants_points(self) -> bool:
        """Whether it takes any."""
        ...

    @property
    def whole(self) -> bool:
        """Whether it wants every end in each run, as a file does; else what was sent before stays where it is."""
        ...

    def send(self, table: WindowTable) -> int:
        """Return how many points were taken, once they are.

        Raises:
            BackendError: the backend did not take them.
        """
        ...

    def finish(self) -> None:
        """Take notice that there are no more."""
        ...


class NoSink:
    """Takes nothing: the rows are enough."""

    wants_points = False
    whole = False

    def send(self, table: WindowTable) -> int:  # noqa: ARG002 — the protocol
        """Return 0."""
        return 0

    def finish(self) -> None:
        """Do nothing."""


class OtlpSink:
    """Sends points to an OTLP endpoint, with the ends of their windows as timestamps."""

    wants_points = True
    whole = False

    def __init__(self, history: OtlpHistory) -> None:
        self._history = history

    def send(self, table: WindowTable) -> int:
        """Return how many points the backend took."""
        return self._history.send(table)

    def finish(self) -> None:
        """Do nothing: what was sent was answered."""


class OpenMetricsSink:
    """Writes points to a file for `promtool tsdb create-blocks-from openmetrics`; the file is there once it is whole."""

    wants_points = True
    whole = True

    def __init__(self, history: OpenMetricsHistory) -> None:
        self._history = history

    def send(self, table: WindowTable) -> int:
        """Return how many points were put by."""
        return self._history.add(table)

    def finish(self) -> None:
        """Write the file."""
        self._history.finish()


@contextmanager
def sink_of(asked: Asked, emit: EmitSettings, out: Path | None) -> Iterator[PointSink]:
    """Lend the sink that a backfill asks for, and close it.

    Raises:
        UsageError: an endpoint, or a file, is missing.
        ConfigError: the endpoint is not http(s)://host:port.
    """
    if asked.emit == "none":
        yield NoSink()
    elif asked.emit == "otlp":
        with closing(OtlpHistory(emit, endpoint_of(asked, emit))) as history:
            yield OtlpSink(history)
    else:
        if out is None:
            raise UsageError("emit openmetrics: name the file to write")
        with closing(OpenMetricsHistory(out, emit, labels=asked.labels)) as file:
            yield OpenMetricsSink(file)


def endpoint_of(asked: Asked, emit: EmitSettings) -> str:
    """Return the OTLP endpoint of a backfill.

    Raises:
        UsageError: there is none.
    """
    endpoint = asked.endpoint or emit.endpoint
    if endpoint is None:
        raise UsageError("--emit otlp: give --endpoint http(s)://host:port, or set emit.endpoint")
    return endpoint


def identity_of(engine: Engine, asked: Asked) -> tuple[str, str]:
    """Return the id of a backfill on a store and what it is made of, as JSON: everything that decides its rows."""
    settings = engine.settings
    target = endpoint_of(asked, settings.emit) if asked.emit == "otlp" else ""
    # A backend has one id, however it was named; so has a last end, however far behind it until lies: an age moves on.
    same = replace(asked, endpoint=loggable(target) if target else None, until_ns=asked.last_wanted_ns)
    return run_id_of(
        same,
        {
            "target": hashlib.blake2b(target.encode(), digest_size=8).hexdigest(),
            "estimators": stored_estimator_names(settings),
            "stats": settings.stats.model_dump(mode="json"),
            "since": settings.slo.since_ns,
            "tags": settings.windows.tags,
            "evaluation_id": engine.evaluating.truth().evaluation.evaluation_id,
        },
    )


class Events:
    """Sends the events of scores that were just stored, before more are made; or none, without a history."""

    def __init__(self, evaluating: EvaluationRunner, settings: ScoringSettings, history: EventHistory | None) -> None:
        self._evaluating = evaluating
        self._settings = settings
        self._history = history

    @property
    def told(self) -> SentEvents:
        """What became of the events so far."""
        return SentEvents() if self._history is None else self._history.outcome

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
