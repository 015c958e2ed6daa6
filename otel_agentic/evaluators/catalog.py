"""The metrics of the built-in evaluators, declared in `metrics/*.yaml`."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import yaml

from otel_agentic.evaluators.base import Metric

if TYPE_CHECKING:
    from collections.abc import Mapping

_PACKAGE: Final = "otel_agentic.evaluators"
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C loader is optional, and eight times as fast


def metrics_of(evaluator: str) -> tuple[Metric, ...]:
    """Return the metrics of a built-in evaluator, such as `ragas.tool_calls`, in the order of their file."""
    return _metrics_of_family(evaluator.partition(".")[0])[evaluator]


@cache
def _metrics_of_family(family: str) -> Mapping[str, tuple[Metric, ...]]:
    text = files(_PACKAGE).joinpath(f"metrics/{family}.yaml").read_text(encoding="utf-8")
    document = yaml.load(text, Loader=_LOADER)  # noqa: S506 — a safe loader
    defaults = document["defaults"]
    return {
        evaluator: tuple(_metric({**defaults, **fields}) for fields in entries)
        for evaluator, entries in document["evaluators"].items()
    }


def _metric(fields: dict[str, Any]) -> Metric:
    limits = fields.get("limits", "")
    fields["limits"] = limits if isinstance(limits, str) else " ".join(limits)
    for name, kind in (("labels", tuple), ("failing", frozenset), ("needs", frozenset)):
        fields[name] = kind(fields.get(name, ()))
    return Metric(**fields)
