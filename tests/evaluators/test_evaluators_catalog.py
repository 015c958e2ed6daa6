"""The metric files of the built-in evaluators: complete, well-formed, and consistent with the code that uses them."""

from __future__ import annotations

from importlib.resources import files
from typing import get_args

import pytest
import yaml

from otel_agentic import plugins
from otel_agentic.config import Severity
from otel_agentic.evaluators.base import Need, Target, metrics_of
from otel_agentic.scoring.model import FaultKind

FAMILIES = ("agentest", "core", "handoffs", "layers", "operations", "ragas", "trajectory", "user")
BUILT_IN = [name for name, plugin in plugins.find("evaluators").items() if plugin.distribution == "otel-agentic"]


@pytest.mark.parametrize("family", FAMILIES)
def test_each_field_of_a_metric_file_is_known_and_of_its_type(family: str) -> None:
    document = yaml.safe_load(files("otel_agentic.evaluators").joinpath(f"metrics/{family}.yaml").read_text("utf-8"))
    assert set(document) <= {"defaults", "shared", "evaluators"}
    for evaluator in document["evaluators"]:
        for metric in metrics_of(evaluator):
            assert metric.target in get_args(Target)
            assert metric.needs <= set(get_args(Need))
            assert {metric.severity, *metric.severities.values()} <= set(get_args(Severity))
            assert all(isinstance(bound, float | None) for bound in (metric.low, metric.high, metric.threshold))
            assert isinstance(metric.higher_is_better, bool | None)
            assert metric.name.startswith("agentic.")
            assert not metric.limits.startswith(" ")
            assert "  " not in metric.definition + metric.limits
            assert metric.title
            assert metric.definition
            assert metric.source
            assert metric.failing <= set(metric.labels)
            assert set(metric.severities) <= metric.failing


def test_the_files_hold_exactly_the_built_in_evaluators() -> None:
    names = {
        name
        for family in FAMILIES
        for name in yaml.safe_load(
            files("otel_agentic.evaluators").joinpath(f"metrics/{family}.yaml").read_text("utf-8")
        )["evaluators"]
    }
    assert names == {*BUILT_IN, "core"}


def test_the_labels_of_tool_correctness_are_the_kinds_of_faults() -> None:
    assert metrics_of("core")[0].labels == get_args(FaultKind)
