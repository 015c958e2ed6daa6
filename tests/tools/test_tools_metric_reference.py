"""The page of metrics describes every built-in evaluator, from its declaration."""

from __future__ import annotations

import re
import tomllib
from typing import Any, get_args

import pytest
from inline_snapshot import snapshot

from otel_agentic.config import EvaluatorSettings, Settings
from otel_agentic.evaluators.base import AnyEvaluator, Metric, Need, Target
from otel_agentic.evaluators.registry import resolved
from otel_agentic.evaluators.run import FailureRules
from otel_agentic.scoring.scope import NotEvaluatedReason
from tests.snapshots import passage
from tools.metric_reference import NEEDS, TARGETS, evaluators, reference


class Described:
    """An evaluator with a declaration only."""

    version = "3"
    default = True
    needs: frozenset[Need] = frozenset({"expected_tools", "calls"})

    def __init__(self, name: str, *metrics: Metric, **changes: Any) -> None:
        self.name = name
        self.metrics = metrics
        for attribute, value in changes.items():
            setattr(self, attribute, value)


def page(*described: object) -> str:
    return reference(described)  # type: ignore[arg-type]  # only the declaration is read


def metric(**changes: Any) -> Metric:
    values: dict[str, Any] = {
        "name": "agentic.layers.routing",
        "title": "tool routing",
        "definition": "Share of calls that went to the right tool.",
        "source": "Author 2025",
        "limits": "A tool | with a bar.",
        "target": "conversation",
    }
    return Metric(**{**values, **changes})


def built_in() -> list[tuple[AnyEvaluator, Metric]]:
    return [(evaluator, entry) for evaluator in evaluators() for entry in evaluator.metrics]


def test_the_page_shows_every_field_of_a_metric() -> None:
    labels = metric(
        name="agentic.layers.verdict",
        labels=("none", "action"),
        failing=frozenset({"action"}),
        severities={"action": "high"},
        low=None,
        high=None,
        higher_is_better=None,
    )

    text = page(Described("layers.routing", metric(threshold=0.8), labels))

    assert passage(text) == snapshot(
        "| [`layers.routing`](#agenticlayersrouting) | tool routing | 0 to 1 | one a conversation | default |"
    )
    section = text[text.index("### `agentic.layers.routing`") : text.index("### `agentic.layers.verdict`")]
    assert passage(section) == snapshot("\nShare of calls that went to the right tool.\n")
    for row in (
        "| range | 0 to 1 |",
        "| better | higher |",
        "| threshold | at least 0.8 |",
        "| severity of a value that is not good | medium |",
        "| needs | at least one tool call; expected calls in the case |",
        "| computed | by rule, without a model; by default |",
        "| evaluator | `layers.routing`, version 3 |",
        "| source | Author 2025 |",
        "| known limits | A tool \\| with a bar. |",
    ):
        assert row in section
    assert passage(text) == snapshot("| labels | `none`, **`action`** (high) (failing in bold, with severity) |")
    assert passage(text) == snapshot("| range | a label |\n| better | neither |")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"unit": "s", "high": None}, "| range | 0 or more, `s` |"),
        ({"low": None, "high": None}, "| range | any number |"),
        ({"low": None}, "| range | 1 or less |"),
        ({"low": 1.0, "high": 5.0}, "| range | 1 to 5 |"),
        ({"threshold": 2.0, "high": None, "higher_is_better": False}, "| threshold | at most 2 |"),
        ({}, "| threshold | none: no value is a failure by itself |"),
    ],
)
def test_ranges_and_thresholds_are_written_out(changes: dict[str, Any], expected: str) -> None:
    assert expected in page(Described("layers.routing", metric(**changes)))


def test_the_page_marks_evaluators_that_ask_a_judge_or_read_other_scores() -> None:
    with_judge = Described(
        "agentest.help", metric(name="agentic.agentest.help"), default=False, ask=None, needs={"judge"}
    )
    reads = Described(
        "operations.per_success", metric(name="agentic.operations.per"), reads=("agentic.operations.cost",)
    )

    text = page(reads, with_judge)

    assert passage(text) == snapshot("| needs | scores of `agentic.operations.cost` |")
    assert passage(text) == snapshot("| computed | a judge is asked; when chosen by name |")
    assert passage(text) == snapshot("| needs | a judge that is a model |")


def test_a_need_of_one_metric_is_shown_for_that_metric_only() -> None:
    both = metric(needs=frozenset({"arguments"})), metric(name="agentic.layers.other")
    group = metric(name="agentic.operations.per", target="group", needs=frozenset({"score", "prices"}))

    text = page(
        Described("layers.routing", *both),
        Described("operations.per", group, reads=("agentic.operations.cost",), needs=()),
    )

    calls = "at least one tool call; {}expected calls in the case"
    assert 1 == text.count(f"| needs | {calls.format('arguments of the calls recorded; ')} |")
    assert 1 == text.count(f"| needs | {calls.format('')} |")
    assert passage(text) == snapshot(
        "| needs | a price for the model (`evaluators.prices`); the outcome of the conversation |"
    )


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("task_completion", ("`expected_state` in the case", "the final state")),
        ("step_efficiency", ("`minimum_steps` in the case",)),
        ("plan_adherence", ("a plan: a plan span",)),
        ("parameter_validity", ("arguments of the calls recorded",)),
        ("cost_per_success", ("token usage on the spans", "a price for the model")),
        ("latency_p50", ("at least one turn",)),
    ],
)
def test_an_entry_lists_all_needs_of_its_metric(name: str, needs: tuple[str, ...]) -> None:
    (row,) = re.findall(rf"### `agentic\.\w+\.{name}`\n.*?\| needs \| (.*?) \|", reference(evaluators()), re.DOTALL)
    assert [] == [need for need in needs if need not in row]


def test_a_metric_that_has_only_labels_has_no_range() -> None:
    alone = ("layers.verdict", "layers.state_changes", "agentest.agent_behavior_failure", "tool_call_behavior_failure")
    ranges = {entry.name: (entry.low, entry.high) for _, entry in built_in() if entry.name.endswith(alone)}
    assert [(None, None)] * len(alone) == list(ranges.values())


def test_an_unknown_family_has_its_name_as_title() -> None:
    assert "## manners\n" in page(Described("manners.polite", metric(name="agentic.manners.polite")))


def test_there_are_words_for_every_need_and_every_target() -> None:
    assert set(get_args(Need)) == set(NEEDS)
    assert set(get_args(Target)) == set(TARGETS)


def test_the_page_explains_every_reason_for_a_missing_score() -> None:
    text = reference(())
    assert [] == [reason for reason in get_args(NotEvaluatedReason) if f"`{reason}`" not in text]


def test_every_built_in_metric_has_a_definition_source_and_limits() -> None:
    lacking = [
        f"{entry.name}: {field}"
        for _, entry in built_in()
        for field in ("title", "definition", "source", "limits")
        if not getattr(entry, field).strip()
    ]
    assert [] == lacking


def test_every_built_in_metric_is_on_the_page_once_with_its_evaluator() -> None:
    text = reference(evaluators())
    assert [] == [entry.name for _, entry in built_in() if text.count(f"\n### `{entry.name}`\n") != 1]
    assert [] == [
        evaluator.name
        for evaluator, _ in built_in()
        if f"| evaluator | `{evaluator.name}`, version {evaluator.version} |" not in text
    ]


def test_the_settings_and_names_on_the_page_are_accepted() -> None:
    text, built = reference(evaluators()), evaluators()
    blocks = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        settings: EvaluatorSettings = Settings.model_validate(tomllib.loads(block)).evaluators
        FailureRules([entry for _, entry in built_in()], settings)  # raises where a name is unknown
        assert resolved(settings.metrics, built)
    for names in re.findall(r"--metrics? (\S+)", text):
        assert resolved(names.split(","), built)
