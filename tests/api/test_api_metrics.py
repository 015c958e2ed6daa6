"""Evaluators in `otel_agentic.evaluate`: metrics by name, objects and functions of one's own, and real scripted models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from otel_agentic import MemoryCache, evaluate
from otel_agentic.config import Settings
from otel_agentic.errors import PluginError, UsageError
from otel_agentic.testing import conversation, turn
from tests.evaluators.own import Asker, Plain, metric
from tests.judges.models import Bare, fields_of

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Turn
    from otel_agentic.evaluators.base import MetricScore

CASE = {"case_id": "sum", "turns": [{"query": "2 + 2?", "answer": "4"}]}
RECORD = [
    conversation(turn("2 + 2?", "It is 4."), conversation_id="a"),
    conversation(turn("2 + 2?", "It is 5, you fool."), conversation_id="b"),
]


def test_custom_evaluators_run_alongside_scoring() -> None:
    result = evaluate(RECORD, CASE, metrics="none", evaluators=Plain())

    assert [
        ("a", "length", "length.characters", "turn", 0, 8.0, None),
        ("a", "length", "length.kind", "conversation", None, None, "short"),
        ("b", "length", "length.characters", "turn", 0, 18.0, None),
        ("b", "length", "length.kind", "conversation", None, None, "short"),
    ] == [
        tuple(
            row[name] for name in ("conversation_id", "evaluator", "metric", "target", "turn_index", "value", "label")
        )
        for row in result.metrics
    ]
    assert result.metrics == result.table("metrics")
    assert [8.0, None] == [score.value for score in result.attempts[0].metrics]
    assert ["pass", "fail"] == [score.outcome for score in result.scores]


def exclaims(turn: Turn) -> bool:
    """Return whether the answer has an exclamation mark."""
    return "!" in (turn.answer or "")


def test_a_function_is_an_evaluator() -> None:
    result = evaluate(RECORD, CASE, metrics="none", evaluators=[exclaims])

    assert [("exclaims", 0.0), ("exclaims", 0.0)] == [(row["metric"], row["value"]) for row in result.metrics]


def test_a_file_names_an_evaluator(tmp_path: Path) -> None:
    file = tmp_path / "checks.py"
    file.write_text(
        "from otel_agentic.conversations.model import Turn\nfrom otel_agentic.evaluators.custom import evaluator\n\n"
        "@evaluator(name='house.short')\ndef short(turn: Turn) -> bool:\n    return len(turn.answer or '') < 10\n"
    )

    result = evaluate(RECORD, CASE, metrics="none", evaluators=f"{file}:short")

    assert [("house.short", 1.0), ("house.short", 0.0)] == [(row["metric"], row["value"]) for row in result.metrics]


def test_those_of_the_settings_run_unless_others_are_chosen() -> None:
    settings = Settings.model_validate({"evaluators": {"metrics": ["none"]}})

    assert [] == evaluate(RECORD, CASE, settings=settings).metrics
    assert evaluate(RECORD, CASE).metrics
    assert [] == evaluate(RECORD, CASE, metrics=[]).metrics


@pytest.mark.parametrize(
    ("arguments", "error", "reported"),
    [
        ({"metrics": "no_such_metric"}, UsageError, "no metric 'no_such_metric'; allowed: default, all, none"),
        ({"metrics": "none", "evaluators": Asker()}, UsageError, "an LLM judge is needed for manners.polite"),
        ({"metrics": "none", "evaluators": Plain}, PluginError, "is a class, not an object"),
        ({"metrics": "none", "evaluators": [Plain(), Plain()]}, PluginError, "evaluator 'length' is passed twice"),
        (
            {"metrics": "none", "evaluators": Plain(metrics=(metric("agentic.answer"),))},
            PluginError,
            "choose another name",
        ),
        ({"metrics": "none", "evaluators": "nowhere.py:name"}, UsageError, "nowhere.py"),
    ],
)
def test_metrics_that_cannot_run_are_reported_before_anything_is_scored(
    arguments: dict[str, Any], error: type, reported: str
) -> None:
    with pytest.raises(error, match=reported):
        evaluate(RECORD, CASE, **arguments)


def test_a_chat_model_is_asked_and_its_verdicts_are_remembered() -> None:
    requested: list[str] = []

    def say(human: str, _: str) -> str:
        answer = fields_of(human)["answer"]
        requested.append(answer)
        if len(fields_of(human)) > 1:
            return json.dumps({"reasoning": "It is so.", "score": 1.0})
        return json.dumps({"reasoning": "So it is.", "label": "no" if "fool" in answer else "yes"})

    cache = MemoryCache()

    first = evaluate(RECORD, CASE, judge=Bare(say=say), metrics="none", evaluators=Asker(), cache=cache)
    again = evaluate(RECORD, CASE, judge=Bare(say=say), metrics="none", evaluators=Asker(), cache=cache)

    assert ["yes", "no"] == [row["label"] for row in first.metrics] == [row["label"] for row in again.metrics]
    assert (4, 4, 0, 4) == (len(requested), first.judge_use.calls, again.judge_use.calls, again.judge_use.cached)


def test_an_invalid_score_of_an_evaluator_is_reported_and_dropped() -> None:
    def broken(_: Any) -> list[MetricScore]:
        raise ValueError("no")

    result = evaluate(RECORD, CASE, metrics="none", evaluators=Plain(say=broken))

    assert {"no_data"} == {row["reason"] for row in result.metrics}
    assert result.problems == snapshot(("evaluator length failed: ValueError (conversations: 2)",))
