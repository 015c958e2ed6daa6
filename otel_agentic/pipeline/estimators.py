"""The estimators stored in the table `windows` and emitted as telemetry, the same for live and backfilled windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.stats import headline_estimator, shown_estimators

if TYPE_CHECKING:
    from otel_agentic.config import Settings
    from otel_agentic.pipeline.engine import Engine
    from otel_agentic.stats import Estimator


def stored_estimator_names(settings: Settings) -> tuple[str, ...]:
    """Return the names of the window estimators, each once: the headline first, then pooled, per case, and emitted ones.

    >>> from otel_agentic.config import Settings
    >>> stored_estimator_names(Settings())
    ('bayesian', 'per_case')
    """
    stats = settings.stats
    return tuple(dict.fromkeys((headline_estimator(stats), *shown_estimators(stats), *settings.emit.estimators)))


def stored_estimators(engine: Engine) -> list[Estimator]:
    """Return the window estimators.

    Raises:
        PluginError: an estimator in the settings is not installed, or one does not load.
    """
    return [engine.estimators(name)[0] for name in stored_estimator_names(engine.settings)]
