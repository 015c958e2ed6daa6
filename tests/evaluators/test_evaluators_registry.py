"""Which evaluators there are, which metrics a name means, and the checks of loading an evaluator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from inline_snapshot import snapshot

from otel_agentic import plugins
from otel_agentic.config import EvaluatorSettings
from otel_agentic.errors import PluginError, UsageError
from otel_agentic.evaluators import registry
from otel_agentic.evaluators.base import AnyEvaluator, asks, is_of_groups
from otel_agentic.evaluators.registry import (
    all_evaluators,
    check_all,
    chosen,
    chosen_of,
    did_you_mean,
    family_of,
    metric_named,
    metrics_by_name,
    require_evaluator,
    resolved,
)
from tests.evaluators.own import POLITE, Asker, OfGroup, Plain, metric
from tests.snapshots import exactly, opening, raises

ALL: tuple[AnyEvaluator, ...] = (
    Plain(name="layers.action", metrics=(metric("agentic.layers.precision"), metric("agentic.layers.recall"))),
    Plain(
        name="ragas.topics", default=False, metrics=(metric("agentic.ragas.topics"), metric("agentic.ragas.precision"))
    ),
    Asker(name="agentest.helpfulness", metrics=(metric("agentic.agentest.helpfulness"),)),
    Plain(name="politeness", metrics=(metric("politeness"),)),
    OfGroup(name="operations.cost", metrics=(metric("agentic.operations.cost"),), reads=("agentic.layers.recall",)),
)
DEFAULT = ["agentic.layers.precision", "agentic.layers.recall", "politeness", "agentic.operations.cost"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("agentic.agentest.helpfulness", ["agentic.agentest.helpfulness"]),
        ("agentest.helpfulness", ["agentic.agentest.helpfulness"]),
        ("helpfulness", ["agentic.agentest.helpfulness"]),
        (" helpfulness ", ["agentic.agentest.helpfulness"]),
        ("layers.precision", ["agentic.layers.precision"]),
        ("ragas.topics", ["agentic.ragas.topics", "agentic.ragas.precision"]),  # the evaluator
        ("agentic.ragas.topics", ["agentic.ragas.topics"]),  # the metric alone
        ("topics", ["agentic.ragas.topics"]),
        ("layers", ["agentic.layers.precision", "agentic.layers.recall"]),
        ("operations", ["agentic.operations.cost"]),
        ("politeness", ["politeness"]),
        ("default", DEFAULT),
        ("all", list(metrics_by_name(ALL))),
        ("none", []),
    ],
)
def test_a_name_means_a_metric_by_its_last_parts_an_evaluator_a_family_or_a_set(name: str, meant: list[str]) -> None:
    assert meant == list(resolved([name], ALL))


def test_names_add_up_and_each_metric_counts_once() -> None:
    assert ["politeness", "agentic.layers.precision", "agentic.layers.recall"] == list(
        resolved(["none", "politeness", "layers", "recall"], ALL)
    )


def test_a_name_that_may_be_two_metrics_is_refused_with_both() -> None:
    with pytest.raises(UsageError) as refused:
        resolved(["precision"], ALL)

    assert str(refused.value) == snapshot(
        "metric 'precision' may be agentic.layers.precision or agentic.ragas.precision; give more of its name"
    )


@pytest.mark.parametrize("name", ["mood", "", "Layers", "agentic", "x.y"])
def test_an_unknown_name_is_refused_with_the_allowed_kinds(name: str) -> None:
    with pytest.raises(UsageError) as refused:
        resolved([name], ALL)

    assert exactly(refused, name=repr(name)) == snapshot(
        "no metric <name>; allowed: default, all, none, a family (layers, ragas, agentest, operations), an evaluator (`otel-agentic plugins` lists them), or a metric, such as layers.precision"
    )


INSTALLED = all_evaluators(EvaluatorSettings())


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("topic_adherence", ["topic_adherence_precision", "topic_adherence_recall", "topic_adherence_f1"]),
        ("ragas.topic_adherence", ["topic_adherence_precision", "topic_adherence_recall", "topic_adherence_f1"]),
        ("topic_adherence(mode=recall)", ["topic_adherence_recall"]),
        ("agent_goal_accuracy_with_reference", ["goal_accuracy"]),
        ("ragas.goal_accuracy_with_reference", ["goal_accuracy"]),
        ("agent_goal_accuracy_without_reference", ["goal_accuracy_without_reference"]),
        ("answer_accuracy", ["answer_accuracy"]),
    ],
)
def test_names_of_ragas_and_nemo_are_accepted(name: str, meant: list[str]) -> None:
    assert list(resolved([name], INSTALLED)) == [f"agentic.ragas.{metric}" for metric in meant]


def test_a_single_metric_of_topic_adherence_is_its_f1() -> None:
    assert metric_named("topic_adherence", INSTALLED).name == "agentic.ragas.topic_adherence_f1"


@pytest.mark.parametrize(
    ("name", "suggestions"),
    [
        ("agent_goal_acuracy_with_reference", "ragas.goal_accuracy"),
        ("goal_acuracy_without_reference", "ragas.goal_accuracy_without_reference"),
        ("tool_call_accuracy_ordered", "ragas.tool_call_accuracy"),
    ],
)
def test_the_opposite_of_a_name_is_never_suggested(name: str, suggestions: str) -> None:
    with pytest.raises(UsageError) as refused:
        resolved([name], INSTALLED)
    assert f"did you mean {suggestions}? allowed" in str(refused.value)


def test_at_most_five_names_are_suggested() -> None:
    metrics = [f"agentic.layers.recall_{number}" for number in range(9)]
    assert did_you_mean("recall_x", metrics).count("layers.recall_") == 5


@pytest.mark.parametrize("name", ["helpfulnes", "agentest.helpfulnes", "layers.helpfulness"])
def test_a_name_that_is_nearly_right_is_refused_with_the_right_one(name: str) -> None:
    with raises(
        UsageError, snapshot("no metric '<name>'; did you mean agentest.helpfulness? allowed: default"), name=name
    ):
        resolved([name], ALL)


def test_a_single_metric_is_found_by_its_last_parts_and_by_nothing_else() -> None:
    assert "agentic.layers.recall" == metric_named("recall", ALL).name
    for name in ("layers", "precision", "default"):
        with pytest.raises(UsageError, match=f"metric '{name}'"):
            metric_named(name, ALL)


def test_a_family_is_the_first_of_several_parts() -> None:
    assert ["layers", "layers", "acme", None] == list(
        map(family_of, ["agentic.layers.recall", "layers.action", "acme.tone", "tone"])
    )


def test_an_evaluator_is_chosen_by_any_of_its_metrics() -> None:
    results = chosen_of(ALL, ["agentic.layers.recall", "agentic.agentest.helpfulness"])

    assert ["layers.action", "agentest.helpfulness"] == [evaluator.name for evaluator in results.evaluators]
    assert ["agentest.helpfulness"] == [evaluator.name for evaluator in results.judge_evaluators]
    assert ((), frozenset({"agentic.layers.recall", "agentic.agentest.helpfulness"})) == (
        results.groups,
        results.metrics,
    )


def test_a_metric_of_groups_that_is_chosen_by_name_brings_what_it_looks_at() -> None:
    cost = OfGroup(name="x.cost", metrics=(metric("x.cost"),), reads=("agentic.layers.recall", "gone"), default=False)

    results = chosen_of((*ALL, cost), ["x.cost"])

    assert (["layers.action"], ["x.cost"]) == (
        [item.name for item in results.evaluators],
        [item.name for item in results.groups],
    )


def test_metrics_selected_by_a_family_or_all_are_distinguished_from_named_ones() -> None:
    requests = Asker(name="layers.tone", metrics=(metric("agentic.layers.tone"),))
    every, none = (*ALL, requests), EvaluatorSettings()

    assert {"agentic.layers.tone"} <= chosen(none, ["layers"], among=every).broad
    assert frozenset() == chosen(none, ["layers.tone", "helpfulness"], among=every).broad
    assert "agentic.layers.tone" not in chosen(none, ["all", "tone"], among=every).broad
    assert "agentic.agentest.helpfulness" in chosen(none, ["all", "tone"], among=every).broad


def test_the_settings_choose_unless_names_are_given_and_given_evaluators_are_always_run() -> None:
    settings, own = EvaluatorSettings(metrics=("layers",)), Plain()

    assert {"agentic.layers.precision", "agentic.layers.recall"} == chosen(settings, among=ALL).metrics
    assert {"politeness"} == chosen(settings, ["politeness"], among=ALL).metrics
    assert {"length.characters", "length.kind"} == chosen(settings, ["none"], [own], among=ALL).metrics
    assert {"length.kind"} == chosen(settings, ["kind"], among=(*ALL, own)).metrics


def test_an_evaluator_of_a_file_is_run_by_the_settings_and_chosen_by_its_file() -> None:
    settings = EvaluatorSettings(metrics=("politeness",), files=("checks.py:length",))
    among = (*ALL, Plain())  # the last ones are those of the files

    assert {"politeness", "length.characters", "length.kind"} == chosen(settings, among=among).metrics
    assert {"politeness"} == chosen(settings, ["politeness"], among=among).metrics
    assert {"length.characters", "length.kind"} == chosen(settings, ["checks.py:length"], among=among).metrics


def test_the_kind_of_an_evaluator_follows_from_its_methods() -> None:
    assert [False, True, False] == [asks(item) for item in (Plain(), Asker(), OfGroup())]
    assert [False, False, True] == [is_of_groups(item) for item in (Plain(), Asker(), OfGroup())]


def test_every_installed_evaluator_keeps_the_contract() -> None:
    settings = EvaluatorSettings()
    results = all_evaluators(settings)

    assert sorted(plugins.find("evaluators")) == [result.name for result in results]
    assert not chosen(settings).judge_evaluators
    assert chosen(settings, ["all"]).metrics == metrics_by_name(results).keys()


class Nothing:
    """Has what every evaluator has, and does nothing."""

    name, version, metrics, default, needs = "nothing", "1", (metric("nothing"),), True, frozenset[Any]()


@pytest.mark.parametrize(
    ("results", "explanation"),
    [
        (Plain, "is a class, not an object"),
        (object(), "it lacks name, version, metrics, default"),
        (Nothing(), "it has neither of evaluate, ask, evaluate_group"),
        (Plain(name="Länge"), "must be letters, digits"),
        (Plain(name="a..b"), "must be letters, digits"),
        (Plain(name="default"), "is reserved"),
        (Plain(name="core"), "is reserved"),
        (Plain(metrics=()), "it has no metrics"),
        (Plain(metrics=("length",)), "is no Metric"),  # type: ignore[arg-type]
        (Plain(metrics=(metric("all"),)), "is reserved"),
        (Plain(metrics=(metric("agentic.answer"),)), "is a score of every evaluation"),
        (Plain(metrics=(metric("agentic.tool.selection"),)), "is a score of every evaluation"),
        (Plain(metrics=(metric("m", failing=frozenset({"bad"})),)), "'bad' in failing or severities"),
        (
            Plain(metrics=(metric("m", labels=("good",), severities={"bad": "low"}),)),
            "'bad' in failing or severities",
        ),
        (
            Plain(metrics=(metric("m", needs=frozenset({"money"})),)),
            "metric 'm' needs 'money'; allowed: case, expected_tools",
        ),
        (Plain(metrics=(metric("m", threshold=2.0),)), "low, threshold and high must be finite, and in this order"),
        (Plain(metrics=(metric("m", low=float("nan")),)), "low, threshold and high must be finite"),
        (Plain(metrics=(metric("m", severity="awful"),)), "metric 'm' has severity awful; allowed: low, medium"),
        (
            Plain(metrics=(metric("m", labels=("a",), severities={"a": "awful"}),)),
            "metric 'm' has severity awful; allowed: low, medium",
        ),
        (Plain(metrics=(metric("m", target="world"),)), "metric 'm' has the target 'world'; allowed: conversation"),
        (Plain(metrics=(metric("m", labels="good"),)), "metric 'm' has the labels 'good'; texts are wanted"),
        (Plain(metrics=(metric("m", labels=("a",), failing=["a"]),)), "has the wrong type: unsupported operand"),
        (Plain(name=5), "has the wrong type: expected string"),  # type: ignore[arg-type]
        (Plain(needs=[["turns"]]), "has the wrong type: unhashable"),  # type: ignore[arg-type]
        (Plain(needs=frozenset({"money"})), "needs 'money'; allowed: case, expected_tools"),  # type: ignore[arg-type]
        (Plain(needs=frozenset({"judge"})), "`judge` belongs to the needs of an evaluator that asks"),
        (Asker(needs=frozenset()), "`judge` belongs to the needs of an evaluator that asks"),
        (Asker(default=True), "`default` must be False"),
        (Asker(rubrics=("polite",)), "'polite' among its rubrics is no Rubric"),  # type: ignore[arg-type]
        (
            Asker(rubrics=(replace(POLITE, name="answer"),)),
            "the name of a rubric, 'answer', is that of a built-in prompt",
        ),
        (
            Asker(rubrics=(replace(POLITE, name="two words"),)),
            "the name of a rubric, 'two words', must be letters, digits",
        ),
    ],
)
def test_what_breaks_the_contract_is_refused_when_it_is_loaded(results: object, explanation: str) -> None:
    with pytest.raises(PluginError) as refused:
        require_evaluator(results, "plug-in x of acme 1.0")

    assert opening(refused) == snapshot("plug-in x of acme 1.0: ")
    assert explanation in str(refused.value)


def test_an_entry_point_and_its_evaluator_have_one_name() -> None:
    with raises(PluginError, snapshot("it is named 'length'; the entry point")):
        require_evaluator(Plain(), "plug-in", "size")


def test_a_plugin_that_cannot_be_made_is_named() -> None:
    class Broken:
        @classmethod
        def from_settings(cls, _: EvaluatorSettings) -> None:
            raise KeyError("token")

    with raises(PluginError, snapshot("plug-in x of acme 1.0: it cannot be made: KeyError: 'token'")):
        registry._constructed(Broken, "plug-in x of acme 1.0", EvaluatorSettings())


def test_two_rubrics_of_one_name_are_refused_unless_they_are_the_same() -> None:
    same = Asker(name="other", metrics=(metric("other"),))
    check_all([Asker(), same])
    other = replace(same, rubrics=(replace(POLITE, instructions="Is it rude?"),))
    with raises(
        PluginError, snapshot("'manners.polite' and 'other' ask by different rubrics of one name, 'test.polite'")
    ):
        check_all([Asker(), other])


def test_two_owners_of_a_metric_are_both_named() -> None:
    with raises(PluginError, snapshot("metric 'length.kind' belongs to evaluator 'length' and to 'other'")):
        check_all([Plain(), Plain(name="other", metrics=(replace(Plain.metrics[1]),))])
    with raises(
        PluginError,
        snapshot(
            "two evaluators are named 'length': tests.evaluators.own.Plain and tests.evaluators.own.Asker; rename one"
        ),
    ):
        check_all([Plain(), Asker(name="length")])


def test_a_repeated_evaluator_is_refused_with_the_likely_source_of_the_second() -> None:
    with raises(
        PluginError,
        snapshot(
            "evaluator 'length' is passed twice; pass it once: --evaluator adds to `evaluators.files` of the settings, and both extend the installed ones"
        ),
    ):
        check_all([Plain(), Plain()])
