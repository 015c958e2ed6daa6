"""otel-agentic: how reliable production AI agents are, from their OpenTelemetry spans.

`import otel_agentic` loads nothing heavy: each public name is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otel_agentic.api.evaluate import evaluate
    from otel_agentic.api.evaluation import Evaluation
    from otel_agentic.commands.registry import Commands
    from otel_agentic.config import Settings, load_settings
    from otel_agentic.conversations.model import Conversation, ToolCall, Turn
    from otel_agentic.engine.engine import Engine
    from otel_agentic.errors import OtelAgenticError
    from otel_agentic.evaluation.judge_runs import MemoryCache
    from otel_agentic.evaluators.base import Metric, MetricScore, Subject
    from otel_agentic.evaluators.custom import evaluator
    from otel_agentic.live.collector import LiveCollector
    from otel_agentic.store.store import Store
    from otel_agentic.truth.model import Case

__all__ = [
    "Case",
    "Commands",
    "Conversation",
    "Engine",
    "Evaluation",
    "LiveCollector",
    "MemoryCache",
    "Metric",
    "MetricScore",
    "OtelAgenticError",
    "Settings",
    "Store",
    "Subject",
    "ToolCall",
    "Turn",
    "evaluate",
    "evaluator",
    "load_settings",
]

_HOMES = {
    "Case": "truth.model",
    "Commands": "commands.registry",
    "Conversation": "conversations.model",
    "Engine": "engine.engine",
    "Evaluation": "api.evaluation",
    "LiveCollector": "live.collector",
    "MemoryCache": "evaluation.judge_runs",
    "Metric": "evaluators.base",
    "MetricScore": "evaluators.base",
    "OtelAgenticError": "errors",
    "Settings": "config",
    "Store": "store.store",
    "Subject": "evaluators.base",
    "ToolCall": "conversations.model",
    "Turn": "conversations.model",
    "evaluate": "api.evaluate",
    "evaluator": "evaluators.custom",
    "load_settings": "config",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
