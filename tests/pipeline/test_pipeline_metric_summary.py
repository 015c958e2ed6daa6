"""What the newest scores of evaluators say, by group: counts, means, labels, failures, and metrics of groups."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from otel_agentic.config import Threshold
from otel_agentic.errors import ConfigError
from otel_agentic.evaluators.base import MetricScore
from otel_agentic.reports.metric_summary import metric_summaries, metric_values, summaries_of
from otel_agentic.store.selection import Selection
from otel_agentic.testing import NOON_NS, SECOND_NS, AgentRunScript, speak_genai
from tests.builders import feed
from tests.evaluators.own import OfGroup, Plain, metric
from tests.pipeline.test_pipeline_metrics import CASES, with_own

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from otel_agentic.evaluators.base import Subject
    from otel_agentic.spans.model import Span
    from tests.pipeline.conftest import OpenEngine

ALL = Selection()
#: Answers of 9, 19, 200 and 0 characters; the last one was never given.
TOLD = (("a", "1", "The Ritz."), ("a", "1", "The Savoy, perhaps."), ("a", "2", "x" * 200), ("b", "1", None))


@pytest.fixture
def told(engine: Engine) -> Engine:
    """An engine with four conversations, evaluated."""
    spans: list[Span] = []
    for number, (agent, version, answer) in enumerate(TOLD):
        script = AgentRunScript(conversation_id=f"c{number}", agent_name=agent).ask("Which hotel?")
        told = speak_genai(script if answer is None else script.answers(answer), start_ns=NOON_NS + number * SECOND_NS)
        spans += (replace(one, attributes={**one.attributes, "gen_ai.agent.version": version}) for one in told.spans)
    feed(engine, *spans)
    with_own(engine, Plain(), OfGroup()).evaluate(cases=CASES)
    return engine


def by_name(engine: Engine, **arguments: Any) -> dict[tuple[str | None, str | None, str], Any]:
    found = metric_summaries(engine, arguments.pop("selection", ALL), **arguments)
    return {(one.agent, one.agent_version, one.name): one for one in found}


def test_values_have_mean_least_middle_and_greatest(told: Engine) -> None:
    found = by_name(told, by=())[None, None, "length.characters"]

    assert (3, 3, 76.0, 9.0, 19.0, 200.0) == (
        found.n,
        found.conversations,
        found.mean,
        found.low,
        found.median,
        found.high,
    )
    assert ({"content_not_captured": 1}, 0.75, {}, 0, None) == (
        found.not_evaluated,
        found.coverage,
        found.labels,
        found.failures,
        found.threshold,
    )
    assert ("length", "1", "{character}") == (found.evaluator, found.evaluator_version, found.metric.unit)


def test_labels_are_counted_and_failing_ones_are_failures(told: Engine) -> None:
    found = by_name(told, by=())[None, None, "length.kind"]

    assert (3, {"short": 2, "long": 1}, 1, None) == (found.n, found.labels, found.failures, found.mean)


def test_groups_are_of_agents_versions_and_environments(told: Engine) -> None:
    assert {
        ("a", None, "length.characters"): (3, 3),
        ("b", None, "length.characters"): (0, 0),
    } == {key: (one.n, one.conversations) for key, one in by_name(told).items() if key[2] == "length.characters"}
    assert {("a", "1"): 2, ("a", "2"): 1, ("b", "1"): 0} == {
        key[:2]: one.n for key, one in by_name(told, by=("agent", "version")).items() if key[2] == "length.kind"
    }
    environments = {one.environment for one in metric_summaries(told, ALL, by=("environment",))}
    assert 1 == len(environments)


def test_a_group_without_a_score_has_no_mean_and_no_failure(told: Engine) -> None:
    found = by_name(told)["b", None, "length.characters"]

    assert (0, None, None, {"content_not_captured": 1}, 0.0) == (
        found.n, found.mean, found.median, found.not_evaluated, found.coverage,
    )  # fmt: skip


def test_only_chosen_metrics_and_conversations_are_told(told: Engine) -> None:
    keys = {("production", "c0")} | {
        (one.environment, one.conversation_id) for one in metric_values(told, "length.characters", ALL)[:1]
    }

    found = by_name(told, by=(), names=["length.characters"], keys=keys)

    assert [(None, None, "length.characters")] == list(found)
    assert (1, 9.0) == (found[None, None, "length.characters"].n, found[None, None, "length.characters"].mean)
    assert {"a"} == {one.agent for one in metric_summaries(told, Selection(agent="a"))}
    assert [] == metric_summaries(told, Selection(until_ns=NOON_NS))


def test_a_conversation_may_be_in_several_groups(told: Engine) -> None:
    values = {
        one.conversation_id: (one.environment, one.conversation_id)
        for one in metric_values(told, "length.characters", ALL)
    }

    found = summaries_of(told, [{values["c0"], values["c1"]}, {values["c1"]}, set()], names=["length.characters"])

    assert [[14.0], [19.0], []] == [[one.mean for one in some] for some in found]


def test_values_by_conversation_are_means_over_its_turns(engine: Engine) -> None:
    script = AgentRunScript(conversation_id="c").ask("Which hotel?").answers("1234").ask("Sure?").answers("12")
    feed(engine, *speak_genai(script, start_ns=NOON_NS).spans)
    with_own(engine, Plain()).evaluate(cases=CASES)

    assert [("c", 3.0)] == [(one.conversation_id, one.value) for one in metric_values(engine, "length.characters", ALL)]
    assert [] == metric_values(engine, "length.kind", ALL)


def of_value(value: float) -> Plain:
    return Plain(
        name="ratio",
        metrics=(metric("ratio.value", threshold=0.5, labels=("bad",), failing=frozenset({"bad"})),),
        say=lambda _: [
            MetricScore(name="ratio.value", value=value, label="bad"),
            MetricScore(name="ratio.value", value=value),
            MetricScore(name="ratio.value", value=0.9),
        ],
    )


@pytest.mark.parametrize(("value", "failures"), [(0.2, 2), (0.5, 1), (0.5 - 1e-12, 1), (0.7, 1)])
def test_a_value_that_does_not_meet_its_threshold_is_a_failure_and_counts_once(
    engine: Engine, value: float, failures: int
) -> None:
    feed(
        engine,
        *speak_genai(AgentRunScript(conversation_id="c").ask("Which hotel?").answers("1"), start_ns=NOON_NS).spans,
    )
    with_own(engine, of_value(value)).evaluate(cases=CASES)

    (found,) = metric_summaries(engine, ALL)

    assert (failures, Threshold(min=0.5)) == (found.failures, found.threshold)


def test_the_threshold_of_the_settings_goes_before_the_metrics_own(open_engine: OpenEngine) -> None:
    engine = open_engine(evaluators={"thresholds": {"value": {"max": 0.8}}})
    feed(
        engine,
        *speak_genai(AgentRunScript(conversation_id="c").ask("Which hotel?").answers("1"), start_ns=NOON_NS).spans,
    )
    with_own(engine, of_value(0.7)).evaluate(cases=CASES)

    (found,) = metric_summaries(engine, ALL)

    assert (2, Threshold(max=0.8)) == (found.failures, found.threshold)


def test_a_threshold_of_no_metric_is_refused(open_engine: OpenEngine) -> None:
    engine = open_engine(evaluators={"thresholds": {"lenght": {"max": 0.8}}})
    with_own(engine, Plain())

    with pytest.raises(ConfigError, match="lenght"):
        metric_summaries(engine, ALL)


def test_superseded_scores_count_for_nothing(told: Engine) -> None:
    def shorter(subject: Subject) -> list[MetricScore]:
        return [
            MetricScore(name="length.characters", value=1.0, turn_index=turn.index)
            for turn in subject.conversation.turns
        ]

    with_own(told, Plain(version="2", say=shorter)).evaluate()

    found = by_name(told, by=())
    assert [(None, None, "length.characters"), (None, None, "length.kind")] == list(found)
    assert (3, 1.0, "2") == (
        found[None, None, "length.characters"].n,
        found[None, None, "length.characters"].mean,
        found[None, None, "length.characters"].evaluator_version,
    )
    assert (0, {"content_not_captured": 1}) == (
        found[None, None, "length.kind"].n,
        found[None, None, "length.kind"].not_evaluated,
    )


def test_an_evaluator_that_is_gone_leaves_its_scores_and_no_metric(told: Engine) -> None:
    with_own(told)

    found = by_name(told, by=())[None, None, "length.kind"]

    assert (None, 3, {"short": 2, "long": 1}, 0) == (found.metric, found.n, found.labels, found.failures)


def test_a_metric_of_groups_is_made_of_the_scores_that_it_reads(told: Engine) -> None:
    found = by_name(told)

    # Agent a: one of its conversations passed (The Ritz.), and its answers have 9 + 19 + 200 characters.
    passed = found["a", None, "length.per_success"]
    assert (1, 228.0, 228.0, "1 passed", "length.total", {}) == (
        passed.n,
        passed.mean,
        passed.median,
        passed.explanation,
        passed.evaluator,
        passed.not_evaluated,
    )
    none = found["b", None, "length.per_success"]
    assert (0, None, {"no_data": 1}, 0) == (none.n, none.mean, none.not_evaluated, none.failures)


def test_a_metric_of_groups_is_told_where_it_is_asked_for_alone(told: Engine) -> None:
    assert [("length.per_success", 228.0)] == [
        (one.name, one.mean) for one in metric_summaries(told, Selection(agent="a"), names=["length.per_success"])
    ]


class Broken(OfGroup):
    """Has a fault."""

    def evaluate_group(self, members: Any) -> Any:
        raise ValueError(len(members))


def test_an_evaluator_of_groups_that_raises_has_abstained(told: Engine) -> None:
    with_own(told, Plain(), Broken())

    found = by_name(told, by=())

    assert (
        found[None, None, "length.per_success"].n,
        found[None, None, "length.per_success"].not_evaluated,
        found[None, None, "length.per_success"].explanation,
    ) == snapshot((0, {"no_data": 1}, "evaluator length.total failed: ValueError: 4"))
    assert 3 == found[None, None, "length.kind"].n
