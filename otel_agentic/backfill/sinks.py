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

    from otel_agentic.backfill.plan import BackfillRequest
    from otel_agentic.config import EmitSettings, ScoringSettings
    from otel_agentic.engine.engine import Engine
    from otel_agentic.evaluation.run import EvaluationRunner, OnScored
    from otel_agentic.store.selection import Scored
    from otel_agentic.store.table import Key
    from otel_agentic.windows.columns import WindowTable


class PointSink(Protocol):
    """Receives the points of window ends, in order of time."""

    @property
    def wants_points(self) -> bool:
        """Whether it receives points."""
        ...

    @property
    def needs_all_ends(self) -> bool:
        """Whether every run must send every end, as for a file; a backend keeps the points of earlier runs."""
        ...

    def send(self, table: WindowTable) -> int:
        """Send points and return how many were accepted.

        Raises:
            BackendError: the backend did not accept them.
        """
        ...

    def finish(self) -> None:
        """Finish after the last points."""
        ...


class NoSink:
    """Receives nothing: only the rows of the store are computed."""

    wants_points = False
    needs_all_ends = False

    def send(self, table: WindowTable) -> int:  # noqa: ARG002 — the protocol
        """Return 0."""
        return 0

    def finish(self) -> None:
        """Do nothing."""


class OtlpSink:
    """Sends points to an OTLP endpoint, with the ends of their windows as timestamps."""

    wants_points = True
    needs_all_ends = False

    def __init__(self, history: OtlpHistory) -> None:
        self._history = history

    def send(self, table: WindowTable) -> int:
        """Send points and return how many the backend accepted."""
        return self._history.send(table)

    def finish(self) -> None:
        """Do nothing: every request has been answered."""


class OpenMetricsSink:
    """Writes points to a file for `promtool tsdb create-blocks-from openmetrics`; the file appears when it is complete."""

    wants_points = True
    needs_all_ends = True

    def __init__(self, history: OpenMetricsHistory) -> None:
        self._history = history

    def send(self, table: WindowTable) -> int:
        """Add points and return how many."""
        return self._history.add(table)

    def finish(self) -> None:
        """Write the file."""
        self._history.finish()


@contextmanager
def sink_of(request: BackfillRequest, emit: EmitSettings, out: Path | None) -> Iterator[PointSink]:
    """Yield the sink of a backfill, and close it at the end.

    Raises:
        UsageError: the endpoint or file is missing.
        ConfigError: the endpoint is not http(s)://host:port.
    """
    if request.emit == "none":
        yield NoSink()
    elif request.emit == "otlp":
        with closing(OtlpHistory(emit, endpoint_of(request, emit))) as history:
            yield OtlpSink(history)
    else:
        if out is None:
            raise UsageError("emit openmetrics: name the file to write")
        with closing(OpenMetricsHistory(out, emit, labels=request.labels)) as file:
            yield OpenMetricsSink(file)


def endpoint_of(request: BackfillRequest, emit: EmitSettings) -> str:
    """Return the OTLP endpoint of a backfill.

    Raises:
        UsageError: no endpoint is configured.
    """
    endpoint = request.endpoint or emit.endpoint
    if endpoint is None:
        raise UsageError("--emit otlp: pass --endpoint http(s)://host:port, or set emit.endpoint")
    return endpoint


def identity_of(engine: Engine, request: BackfillRequest) -> tuple[str, str]:
    """Return the id of a backfill of a store, and everything that determines its rows, as JSON."""
    settings = engine.settings
    target = endpoint_of(request, settings.emit) if request.emit == "otlp" else ""
    # Equal backends have equal ids, and so have equal last ends: `until` given as an age differs in every run.
    normalised = replace(request, endpoint=loggable(target) if target else None, until_ns=request.last_end_ns)
    return run_id_of(
        normalised,
        {
            "target": hashlib.blake2b(target.encode(), digest_size=8).hexdigest(),
            "estimators": stored_estimator_names(settings),
            "stats": settings.stats.model_dump(mode="json"),
            "since": settings.slo.since_ns,
            "tags": settings.windows.tags,
            "evaluation_id": engine.evaluating.truth().evaluation.evaluation_id,
        },
    )


class ScoreEvents:
    """Sends the events of scores right after they are stored; nothing without a history."""

    def __init__(self, evaluating: EvaluationRunner, settings: ScoringSettings, history: EventHistory | None) -> None:
        self._evaluating = evaluating
        self._settings = settings
        self._history = history

    @property
    def sent(self) -> SentEvents:
        """The events sent so far, and those lost."""
        return SentEvents() if self._history is None else self._history.outcome

    def after(self, on_scored: OnScored) -> OnScored:
        """Return a listener that calls another one and then sends the events of the scores."""
        history = self._history
        if history is None:
            return on_scored

        def send(scored: Sequence[Scored], restated: AbstractSet[Key]) -> None:
            on_scored(scored, restated)
            truth = self._evaluating.current_truth or self._evaluating.truth()
            history.send((row.conversation, row.score, evaluator_of(row, truth, self._settings)) for row in scored)

        return send


@contextmanager
def events_of(engine: Engine, request: BackfillRequest, evaluating: EvaluationRunner) -> Iterator[ScoreEvents]:
    """Yield the sender of a backfill's events: over OTLP, unless the settings turn events off."""
    emit = engine.emit
    if request.emit != "otlp" or emit.events == "none":
        yield ScoreEvents(evaluating, engine.settings.scoring, None)
        return
    run_id, _ = identity_of(engine, request)
    with closing(EventHistory(emit, endpoint_of(request, emit), run_id=run_id)) as history:
        yield ScoreEvents(evaluating, engine.settings.scoring, history)
