"""The newest scores of evaluators by group: counts, means, labels, failures, and metrics of groups."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from otel_agentic.errors import ConfigError
from otel_agentic.evaluators.base import MetricScore, Subject
from otel_agentic.reports.metric_summary import metric_summaries, summaries_of
from otel_agentic.results.reports import MetricSummary, Threshold
from otel_agentic.store.queries.scores import conversations_of
from otel_agentic.store.table import Selection
from otel_agentic.testing import NOON_NS, SECOND_NS, AgentRunScript, speak_genai
from tests.builders import feed
from tests.evaluation.test_evaluation_metrics import CASES, with_own
from tests.evaluators.own import OfGroup, Plain, metric

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from otel_agentic.spans.model import Span
    from otel_agentic.store.table import Key
    from tests.stores import CopyOf, OpenEngine, PreparedStore

ALL = Selection()
#: Answers of 9, 19, 200 and 0 characters; the last one was never given.
ANSWERS = (("a", "1", "The Ritz."), ("a", "1", "The Savoy, perhaps."), ("a", "2", "x" * 200), ("b", "1", None))


def _evaluated_answers(engine: Engine) -> None:
    spans: list[Span] = []
    for number, (agent, version, answer) in enumerate(ANSWERS):
        script = AgentRunScript(conversation_id=f"c{number}", agent_name=agent).ask("Which hotel?")
        reported = speak_genai(
            script if answer is None else script.answers(answer), start_ns=NOON_NS + number * SECOND_NS
        )
        spans += (
            replace(span, attributes={**span.attributes, "gen_ai.agent.version": version}) for span in reported.spans
        )
    feed(engine, *spans)
    with_own(engine, Plain(), OfGroup()).evaluate(cases=CASES)


@pytest.fixture
def measured(copy_of: CopyOf, prepared_store: PreparedStore) -> Engine:
    """An engine with four conversations, evaluated."""
    engine = copy_of(prepared_store(_evaluated_answers))
    with_own(engine, Plain(), OfGroup())
    return engine


def by_name(engine: Engine, **arguments: Any) -> dict[tuple[str | None, str], MetricSummary]:
    """Return the summaries by agent and name of the metric."""
    metrics = metric_summaries(engine, arguments.pop("selection", ALL), **arguments)
    return {(metric.agent, metric.summary.name): metric.summary for metric in metrics}


def keys_of(engine: Engine) -> dict[str, Key]:
    """Return the key of each conversation by its id."""
    with engine.store.read() as con:
        return {key[1]: key for key, *_ in conversations_of(con, ALL)}


def all_together(engine: Engine, **arguments: Any) -> dict[str, MetricSummary]:
    """Return the summaries of all conversations by name of the metric."""
    (metrics,) = summaries_of(engine, [set(keys_of(engine).values())], **arguments)
    return {metric.summary.name: metric.summary for metric in metrics}


def test_values_have_mean_least_middle_and_greatest(measured: Engine) -> None:
    result = all_together(measured)["length.characters"]

    assert (3, 3, 76.0, 9.0, 19.0, 200.0) == (
        result.n,
        result.conversations,
        result.mean,
        result.low,
        result.median,
        result.high,
    )
    assert ({"content_not_captured": 1}, 0.75, {}, 0, None) == (
        result.not_evaluated,
        result.coverage,
        result.labels,
        result.failures,
        result.threshold,
    )
    assert ("length", "1", "{character}") == (result.evaluator, result.evaluator_version, result.unit)


def test_labels_are_counted_and_failing_ones_are_failures(measured: Engine) -> None:
    result = all_together(measured)["length.kind"]

    assert (3, {"short": 2, "long": 1}, 1, None) == (result.n, result.labels, result.failures, result.mean)


def test_the_groups_are_the_agents(measured: Engine) -> None:
    assert {("a", "length.characters"): (3, 3), ("b", "length.characters"): (0, 0)} == {
        key: (summary.n, summary.conversations)
        for key, summary in by_name(measured, names=["length.characters"]).items()
    }


def test_a_group_without_a_score_has_no_mean_and_no_failure(measured: Engine) -> None:
    summary = by_name(measured)["b", "length.characters"]

    assert (0, None, None, {"content_not_captured": 1}, 0.0) == (
        summary.n, summary.mean, summary.median, summary.not_evaluated, summary.coverage,
    )  # fmt: skip


def test_only_chosen_metrics_and_conversations_are_summarised(measured: Engine) -> None:
    summary = by_name(measured, names=["length.characters"], keys={keys_of(measured)["c0"], keys_of(measured)["c3"]})

    assert [("a", "length.characters"), ("b", "length.characters")] == list(summary)
    assert (1, 9.0) == (summary["a", "length.characters"].n, summary["a", "length.characters"].mean)
    assert {"a"} == {metric.agent for metric in metric_summaries(measured, Selection(agent="a"))}
    assert [] == metric_summaries(measured, Selection(until_ns=NOON_NS))


def test_a_conversation_may_be_in_several_groups(measured: Engine) -> None:
    first, second = keys_of(measured)["c0"], keys_of(measured)["c1"]

    result = summaries_of(measured, [{first, second}, {second}, set()], names=["length.characters"])

    assert [[14.0], [19.0], []] == [[metric.summary.mean for metric in metrics] for metrics in result]


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

    (result,) = all_together(engine).values()

    assert (failures, Threshold(min=0.5, max=None)) == (result.failures, result.threshold)


def test_the_threshold_of_the_settings_goes_before_the_metrics_own(open_engine: OpenEngine) -> None:
    engine = open_engine(evaluators={"thresholds": {"value": {"max": 0.8}}})
    feed(
        engine,
        *speak_genai(AgentRunScript(conversation_id="c").ask("Which hotel?").answers("1"), start_ns=NOON_NS).spans,
    )
    with_own(engine, of_value(0.7)).evaluate(cases=CASES)

    (result,) = all_together(engine).values()

    assert (2, Threshold(min=None, max=0.8)) == (result.failures, result.threshold)


def test_a_threshold_of_no_metric_is_refused(open_engine: OpenEngine) -> None:
    engine = open_engine(evaluators={"thresholds": {"lenght": {"max": 0.8}}})
    with_own(engine, Plain())

    with pytest.raises(ConfigError, match="lenght"):
        metric_summaries(engine, ALL)


def test_superseded_scores_count_for_nothing(measured: Engine) -> None:
    def shorter(subject: Subject) -> list[MetricScore]:
        return [
            MetricScore(name="length.characters", value=1.0, turn_index=turn.index)
            for turn in subject.conversation.turns
        ]

    with_own(measured, Plain(version="2", say=shorter)).evaluate()

    result = all_together(measured)
    assert ["length.characters", "length.kind"] == list(result)
    assert (3, 1.0, "2") == (
        result["length.characters"].n,
        result["length.characters"].mean,
        result["length.characters"].evaluator_version,
    )
    assert (0, {"content_not_captured": 1}) == (
        result["length.kind"].n,
        result["length.kind"].not_evaluated,
    )


def test_an_evaluator_that_is_gone_leaves_its_scores_and_no_metric(measured: Engine) -> None:
    with_own(measured)

    result = all_together(measured)["length.kind"]

    assert (None, 3, {"short": 2, "long": 1}, 0) == (result.title, result.n, result.labels, result.failures)


def test_a_metric_of_groups_is_made_of_the_scores_that_it_reads(measured: Engine) -> None:
    summary = by_name(measured)

    # Agent a: one of its conversations passed (The Ritz.), and its answers have 9 + 19 + 200 characters.
    passed = summary["a", "length.per_success"]
    assert (1, 228.0, 228.0, "1 passed", "length.total", {}) == (
        passed.n,
        passed.mean,
        passed.median,
        passed.explanation,
        passed.evaluator,
        passed.not_evaluated,
    )
    none = summary["b", "length.per_success"]
    assert (0, None, {"no_data": 1}, 0) == (none.n, none.mean, none.not_evaluated, none.failures)


def test_a_metric_of_groups_can_be_requested_alone(measured: Engine) -> None:
    assert [("length.per_success", 228.0)] == [
        (metric.summary.name, metric.summary.mean)
        for metric in metric_summaries(measured, Selection(agent="a"), names=["length.per_success"])
    ]


class Broken(OfGroup):
    """Has a fault."""

    def evaluate_group(self, members: Any) -> Any:
        raise ValueError(len(members))


def test_an_evaluator_of_groups_that_raises_has_abstained(measured: Engine) -> None:
    with_own(measured, Plain(), Broken())

    result = all_together(measured)

    assert (
        result["length.per_success"].n,
        result["length.per_success"].not_evaluated,
        result["length.per_success"].explanation,
    ) == snapshot((0, {"no_data": 1}, "evaluator length.total failed: ValueError: 4"))
    assert 3 == result["length.kind"].n
