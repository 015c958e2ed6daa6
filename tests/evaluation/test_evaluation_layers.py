"""The layers over tau-airline: which layer broke first in 200 real runs, and what the failing ones changed wrongly."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from otel_agentic.commands import Commands
from otel_agentic.testing import NOON_NS, SECOND_NS, span
from tests.builders import feed, rows

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from tests.stores import CopyOf

#: Of the runs that failed by their labels, by what they changed.
FAILING: Final = {"missing": 49, "extra": 35, "wrong_arguments": 24, "missing_and_extra": 4, "other": 4}
_LABELS: Final = """
SELECT c.outcome, s.label FROM scores s
JOIN conversation_scores c USING (environment, conversation_id, revision)
WHERE s.name = $name AND NOT s.superseded AND NOT c.superseded
"""


def test_the_layers_of_tau_airline(copy_of: CopyOf, labelled_file: Path) -> None:
    engine = copy_of(labelled_file)

    verdicts = Counter(rows(engine, _LABELS, {"name": "agentic.layers.verdict"}))
    assert {("pass", "none"): 84, ("fail", "action"): 112, ("fail", "outcome"): 4} == verdicts
    changes = Counter(rows(engine, _LABELS, {"name": "agentic.layers.state_changes"}))
    assert FAILING == {label: n for (outcome, label), n in changes.items() if outcome == "fail"}
    assert 84 == sum(n for (outcome, _), n in changes.items() if outcome == "pass")


@pytest.mark.slow
def test_the_stored_faults_of_tau_airline_grouped_by_conversation_are_the_same_classes(
    copy_of: CopyOf, labelled_file: Path
) -> None:
    engine = copy_of(labelled_file)

    grouped = rows(engine, "SELECT state_changes, count(*) FROM v_state_changes WHERE outcome = 'fail' GROUP BY ALL")
    assert FAILING == dict(grouped)
    assert 200 == sum(n for (n,) in rows(engine, "SELECT count(*) FROM v_state_changes"))


CASE: Final = {
    "case_id": "trip",
    "turns": [{"query": "Cancel trip A"}],
    "plan": ["get_trip", "cancel_trip"],
    "tools": {"calls": [{"tool_name": "cancel_trip", "parameters": {"id": "A"}}], "extra_calls": {"read": "allow"}},
    "effects": {"get_*": "read"},
    "expected_state": {"trips": {"A": "cancelled"}},
    "minimum_steps": 2,
    "verdict": "fail",
}
TOOLS: Final = [
    {"type": "function", "name": name, "parameters": {"properties": {"id": {"type": "string"}}, "required": ["id"]}}
    for name in ("get_trip", "cancel_trip")
]


def message(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def trip() -> list[Any]:
    """Return a run of GenAI spans that plans, calls three tools, and leaves a state behind."""
    root = span(
        "invoke_agent travel",
        end_ns=NOON_NS + 20 * SECOND_NS,
        scope="opentelemetry.instrumentation.genai",
        attributes={
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "travel",
            "gen_ai.conversation.id": "c1",
            "gen_ai.input.messages": message("user", "Cancel trip A"),
            "gen_ai.output.messages": message("assistant", "Done."),
            "gen_ai.tool.definitions": json.dumps(TOOLS),
            "agentic.final_state": json.dumps({"trips": {"A": "open", "B": "open"}}),
        },
    )
    plan = {
        "gen_ai.operation.name": "plan",
        "gen_ai.output.messages": message("assistant", "1. cancel_trip\n2. refund"),
    }
    built = [("get_trip", {"trip": "A"}), ("cancel_trip", {"id": "B"}), ("refund", {"id": "B"})]
    calls = [
        span(
            f"execute_tool {name}",
            parent=root,
            start_ns=NOON_NS + (index + 2) * SECOND_NS,
            scope="opentelemetry.instrumentation.genai",
            attributes={
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": name,
                "gen_ai.tool.call.arguments": json.dumps(arguments),
                "gen_ai.tool.call.result": "ok",
            },
        )
        for index, (name, arguments) in enumerate(built)
    ]
    return [root, span("plan", parent=root, start_ns=NOON_NS + SECOND_NS, attributes=plan), *calls]


def test_spans_with_a_plan_definitions_and_a_state_have_every_score_of_the_layers(engine: Engine) -> None:
    feed(engine, *trip())
    Commands(engine).evaluate(cases=[("c.jsonl", json.dumps(CASE))])

    stored = rows(
        engine,
        "SELECT name, coalesce(label, round(value, 3)::VARCHAR, reason), tool_name, parameter FROM scores "
        "WHERE name LIKE 'agentic.layers.%' AND NOT superseded ORDER BY name, turn_index, position",
    )
    assert [
        ("call_validity", "invalid", "get_trip", "id"),
        ("call_validity", "valid", "cancel_trip", None),
        ("hallucinated_tools", "0.0", None, None),  # refund is not defined, but it worked
        ("parameter_semantics", "0.0", "cancel_trip", "id"),
        ("parameter_validity", "0.5", None, None),
        ("plan_adherence", "1.0", None, None),
        ("plan_quality", "0.5", None, None),
        ("state_changes", "extra", "refund", None),
        ("step_efficiency", "0.667", None, None),
        ("task_completion", "0.0", None, "trips.A"),
        ("tool_f1", "0.667", None, None),
        ("tool_precision", "0.5", None, None),
        ("tool_recall", "1.0", None, None),
        ("tool_routing_accuracy", "0.5", None, None),
        ("verdict", "reasoning", "get_trip", None),
    ] == [(name.removeprefix("agentic.layers."), *rest) for name, *rest in stored]
