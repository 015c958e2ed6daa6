"""Which backfills are equal: one of them goes on where another was stopped."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from otel_agentic.pipeline.backfill.plan import run_id_of
from otel_agentic.pipeline.backfill.sinks import endpoint_of
from otel_agentic.pipeline.estimators import stored_estimator_names
from otel_agentic.telemetry.sinks import shown

if TYPE_CHECKING:
    from otel_agentic.pipeline.backfill.plan import Asked
    from otel_agentic.pipeline.engine import Engine


def identity_of(engine: Engine, asked: Asked) -> tuple[str, str]:
    """Return the id of a backfill on a store and what it is made of, as JSON: everything that decides its rows."""
    settings = engine.settings
    target = endpoint_of(asked, settings.emit) if asked.emit == "otlp" else ""
    # A backend has one id, however it was named; so has a last end, however far behind it until lies: an age moves on.
    same = replace(asked, endpoint=shown(target) if target else None, until_ns=asked.last_wanted_ns)
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
