"""The page of metrics says what the evaluators say of themselves, and leaves none out."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any, get_args

import pytest
from inline_snapshot import snapshot

from otel_agentic.config import EvaluatorSettings, Settings
from otel_agentic.evaluators.base import Metric, Need, Target
from otel_agentic.evaluators.failures import FailureRules
from otel_agentic.evaluators.registry import resolved
from otel_agentic.scoring.model import NotEvaluatedReason
from tests.snapshots import passage
from tools.metric_reference import NEEDS, TARGETS, evaluators, reference

if TYPE_CHECKING:
    from otel_agentic.evaluators.base import AnyEvaluator


class Told:
    """An evaluator of which only what it says of itself matters."""

    version = "3"
    default = True
    needs: frozenset[Need] = frozenset({"expected_tools", "calls"})

    def __init__(self, name: str, *metrics: Metric, **changes: Any) -> None:
        self.name = name
        self.metrics = metrics
        for attribute, value in changes.items():
            setattr(self, attribute, value)


def page(*told: object) -> str:
    return reference(told)  # type: ignore[arg-type]  # only what they say of themselves is read


def metric(**changes: Any) -> Metric:
    values: dict[str, Any] = {
        "name": "agentic.layers.routing",
        "title": "tool routing",
        "definition": "Share of calls that went to the right tool.",
        "source": "Somebody 2025",
        "limits": "A tool | with a bar.",
        "target": "conversation",
    }
    return Metric(**{**values, **changes})


def built_in() -> list[tuple[AnyEvaluator, Metric]]:
    return [(one, each) for one in evaluators() for each in one.metrics]


def test_a_metric_is_told_with_all_that_is_known_of_it() -> None:
    labels = metric(
        name="agentic.layers.verdict",
        labels=("none", "action"),
        failing=frozenset({"action"}),
        severities={"action": "high"},
        low=None,
        high=None,
        higher_is_better=None,
    )

    told = page(Told("layers.routing", metric(threshold=0.8), labels))

    assert passage(told) == snapshot(
        "| [`layers.routing`](#agenticlayersrouting) | tool routing | 0 to 1 | one a conversation | default |"
    )
    section = told[told.index("### `agentic.layers.routing`") : told.index("### `agentic.layers.verdict`")]
    assert passage(section) == snapshot("\nShare of calls that went to the right tool.\n")
    for row in (
        "| range | 0 to 1 |",
        "| better | higher |",
        "| threshold | at least 0.8 |",
        "| severity of a value that is not good | medium |",
        "| needs | at least one tool call; expected calls in the case |",
        "| computed | by rule, without a model; by default |",
        "| evaluator | `layers.routing`, version 3 |",
        "| source | Somebody 2025 |",
        "| known limits | A tool \\| with a bar. |",
    ):
        assert row in section
    assert passage(told) == snapshot("| labels | `none`, **`action`** (high) (failing in bold, with severity) |")
    assert passage(told) == snapshot("| range | a label |\n| better | neither |")


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
def test_ranges_and_thresholds_are_told_in_words(changes: dict[str, Any], expected: str) -> None:
    assert expected in page(Told("layers.routing", metric(**changes)))


def test_what_asks_a_judge_and_what_reads_others_is_told_so() -> None:
    judged = Told("agentest.help", metric(name="agentic.agentest.help"), default=False, ask=None, needs={"judge"})
    reads = Told("operations.per_success", metric(name="agentic.operations.per"), reads=("agentic.operations.cost",))

    told = page(reads, judged)

    assert passage(told) == snapshot("| needs | scores of `agentic.operations.cost` |")
    assert passage(told) == snapshot("| computed | a judge is asked; when chosen by name |")
    assert passage(told) == snapshot("| needs | a judge that is a model |")


def test_what_one_metric_needs_beyond_its_evaluator_is_told_of_that_one_alone() -> None:
    both = metric(needs=frozenset({"arguments"})), metric(name="agentic.layers.other")
    group = metric(name="agentic.operations.per", target="group", needs=frozenset({"score", "prices"}))

    told = page(
        Told("layers.routing", *both), Told("operations.per", group, reads=("agentic.operations.cost",), needs=())
    )

    calls = "at least one tool call; {}expected calls in the case"
    assert 1 == told.count(f"| needs | {calls.format('arguments of the calls recorded; ')} |")
    assert 1 == told.count(f"| needs | {calls.format('')} |")
    assert passage(told) == snapshot(
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
def test_a_reader_of_one_entry_knows_what_it_takes(name: str, needs: tuple[str, ...]) -> None:
    (row,) = re.findall(rf"### `agentic\.\w+\.{name}`\n.*?\| needs \| (.*?) \|", reference(evaluators()), re.DOTALL)
    assert [] == [need for need in needs if need not in row]


def test_a_metric_that_gives_labels_alone_has_no_range() -> None:
    alone = ("layers.verdict", "layers.state_changes", "agentest.agent_behavior_failure", "tool_call_behavior_failure")
    ranges = {each.name: (each.low, each.high) for _, each in built_in() if each.name.endswith(alone)}
    assert [(None, None)] * len(alone) == list(ranges.values())


def test_a_family_of_nobody_comes_with_its_own_name() -> None:
    assert "## manners\n" in page(Told("manners.polite", metric(name="agentic.manners.polite")))


def test_there_are_words_for_every_need_and_every_target() -> None:
    assert set(get_args(Need)) == set(NEEDS)
    assert set(get_args(Target)) == set(TARGETS)


def test_every_reason_why_there_is_no_score_is_told() -> None:
    told = reference(())
    assert [] == [reason for reason in get_args(NotEvaluatedReason) if f"`{reason}`" not in told]


def test_every_built_in_metric_says_what_it_is_where_it_comes_from_and_what_it_cannot() -> None:
    lacking = [
        f"{each.name}: {field}"
        for _, each in built_in()
        for field in ("title", "definition", "source", "limits")
        if not getattr(each, field).strip()
    ]
    assert [] == lacking


def test_every_built_in_metric_stands_on_the_page_once_with_its_evaluator() -> None:
    told = reference(evaluators())
    assert [] == [each.name for _, each in built_in() if told.count(f"\n### `{each.name}`\n") != 1]
    assert [] == [
        one.name for one, _ in built_in() if f"| evaluator | `{one.name}`, version {one.version} |" not in told
    ]


def test_the_settings_and_names_that_the_page_shows_are_taken() -> None:
    told, built = reference(evaluators()), evaluators()
    blocks = re.findall(r"```toml\n(.*?)```", told, re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        settings: EvaluatorSettings = Settings.model_validate(tomllib.loads(block)).evaluators
        FailureRules([each for _, each in built_in()], settings)  # raises where a name is unknown
        assert resolved(settings.metrics, built)
    for names in re.findall(r"--metrics? (\S+)", told):
        assert resolved(names.split(","), built)
