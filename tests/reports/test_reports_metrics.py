"""Metrics and failures in a report are about the conversations of its groups, and no others."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from otel_agentic.commands import Commands
from otel_agentic.engine.engine import Engine
from otel_agentic.errors import UsageError
from tests.stores import settings_for


@pytest.fixture(scope="module")
def labelled(labelled_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """Commands on tau-airline with its labels; these tests only read."""
    db = tmp_path_factory.mktemp("read") / "tau.duckdb"
    shutil.copy(labelled_file, db)
    with Engine(settings_for(db)) as engine:
        yield Commands(engine)


def by_name(group: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {metric["name"]: metric for metric in group["metrics"]}


def test_bands_of_tool_scores_add_up_to_the_conversations_with_a_score(labelled: Commands) -> None:
    (group,) = labelled.report()["groups"]
    counts = {name: sum(result.values()) for name, result in group["tool_bands"].items()}
    assert {name: mean["n"] for name, mean in group["tool_dimensions"].items()} == counts


def test_metrics_are_those_of_the_conversations_in_the_group(labelled: Commands) -> None:
    (complete,) = labelled.report(metrics=["layers.verdict"])["groups"]
    (newest,) = labelled.report(metrics=["layers.verdict"], window="n20")["groups"]
    assert (200, 20) == (
        by_name(complete)["agentic.layers.verdict"]["n"],
        by_name(newest)["agentic.layers.verdict"]["n"],
    )
    groups = labelled.report(metrics=["layers.verdict"], by=["case"])["groups"]
    assert 200 == sum(by_name(group)["agentic.layers.verdict"]["n"] for group in groups)


def test_the_layers_of_conversations_that_failed_are_those_that_failed(labelled: Commands) -> None:
    (group,) = labelled.report(metrics=["layers.verdict"])["groups"]
    labels = by_name(group)["agentic.layers.verdict"]["labels"]
    assert group["c"] == labels["none"]
    assert group["n"] - group["c"] == sum(count for label, count in labels.items() if label != "none")


def test_metrics_by_family_are_all_of_it_and_none_is_none(labelled: Commands) -> None:
    (group,) = labelled.report(metrics=["operations"])["groups"]
    assert {"operations"} == {name.split(".")[1] for name in by_name(group)}
    (group,) = labelled.report(metrics=["none"])["groups"]
    assert group["metrics"] is None
    with pytest.raises(UsageError, match="no metric 'politeness'"):
        labelled.report(metrics=["politeness"])


def test_failures_of_a_page_are_those_of_its_conversations(labelled: Commands) -> None:
    failures = labelled.report_pictures()["failures"]
    newest = labelled.report_pictures(window="n20")["failures"]
    without_agent = labelled.report_pictures(agent="nobody")["failures"]
    assert {"rows": [], "left_out": 0} == without_agent
    assert len(failures["rows"]) + failures["left_out"] > len(newest["rows"]) > 0
    assert max(row["conversations"] for row in newest["rows"]) <= 20
    ranks = [("low", "medium", "high", "critical").index(row["severity"]) for row in failures["rows"]]
    assert sorted(ranks, reverse=True) == ranks
