"""Which estimators the `windows` table and the telemetry of windows hold: live and backfilled ones hold the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.stats import headline_estimator, shown_estimators

if TYPE_CHECKING:
    from otel_agentic.config import Settings
    from otel_agentic.pipeline.engine import Engine
    from otel_agentic.stats import Estimator


def stored_estimator_names(settings: Settings) -> tuple[str, ...]:
    """Return the names of the estimators of windows, each once: the headline first, pooled, per case, and what is emitted.

    >>> from otel_agentic.config import Settings
    >>> stored_estimator_names(Settings())
    ('bayesian', 'per_case')
    """
    stats = settings.stats
    return tuple(dict.fromkeys((headline_estimator(stats), *shown_estimators(stats), *settings.emit.estimators)))


def stored_estimators(engine: Engine) -> list[Estimator]:
    """Return the estimators of windows.

    Raises:
        PluginError: there is none of a name in the settings, or one does not load.
    """
    return [engine.estimators(name)[0] for name in stored_estimator_names(engine.settings)]
