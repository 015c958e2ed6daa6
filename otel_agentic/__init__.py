"""otel-agentic: how reliable production AI agents are, from their OpenTelemetry spans.

- `open` returns the results of a store: reports, conversations, failing tools, rows of a query.
- `evaluate` scores conversations in memory, without a store.

`import otel_agentic` loads nothing heavy: each public name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from otel_agentic.api.evaluate import evaluate as evaluate
    from otel_agentic.api.evaluation import Evaluation as Evaluation
    from otel_agentic.api.stores import OpenStore as OpenStore
    from otel_agentic.api.stores import open as open  # noqa: A004 — `otel_agentic.open`
    from otel_agentic.commands.registry import Commands as Commands
    from otel_agentic.config import Settings as Settings
    from otel_agentic.config import load_settings as load_settings
    from otel_agentic.conversations.model import Conversation as Conversation
    from otel_agentic.conversations.model import ToolCall as ToolCall
    from otel_agentic.conversations.model import Turn as Turn
    from otel_agentic.engine.engine import Engine as Engine
    from otel_agentic.errors import OtelAgenticError as OtelAgenticError
    from otel_agentic.evaluation.judge_runs import MemoryCache as MemoryCache
    from otel_agentic.evaluators.base import Metric as Metric
    from otel_agentic.evaluators.base import MetricScore as MetricScore
    from otel_agentic.evaluators.base import Subject as Subject
    from otel_agentic.evaluators.custom import evaluator as evaluator
    from otel_agentic.live.collector import LiveCollector as LiveCollector
    from otel_agentic.store.store import Store as Store
    from otel_agentic.truth.model import Case as Case

__all__, __getattr__ = lazy_imports(
    __name__,
    {
        "api.evaluate": "evaluate",
        "api.evaluation": "Evaluation",
        "api.stores": "OpenStore open",
        "commands.registry": "Commands",
        "config": "Settings load_settings",
        "conversations.model": "Conversation ToolCall Turn",
        "engine.engine": "Engine",
        "errors": "OtelAgenticError",
        "evaluation.judge_runs": "MemoryCache",
        "evaluators.base": "Metric MetricScore Subject",
        "evaluators.custom": "evaluator",
        "live.collector": "LiveCollector",
        "store.store": "Store",
        "truth.model": "Case",
    },
)


def __dir__() -> list[str]:
    """Return the public names, for completion and `help`."""
    return __all__
