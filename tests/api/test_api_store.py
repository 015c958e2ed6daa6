"""`evaluate` without a store returns the results of `evaluate`, `report` and `tools failing` with one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import otel_agentic
from otel_agentic import Commands
from otel_agentic.api.frames import TABLES
from otel_agentic.conversations.slices import ATTRIBUTES
from otel_agentic.reports.conversations import conversation_json
from otel_agentic.reports.report import rates_of
from otel_agentic.results import to_json
from otel_agentic.results.reports import GroupRates
from otel_agentic.store.queries.scored_conversations import scored_conversations
from otel_agentic.store.table import Selection
from otel_agentic.testing import NOON_NS, SECOND_NS, AgentRunScript, batch, scripted_call, speak_genai
from tests.builders import CASE, ask_hotel, feed, stored_conversations

if TYPE_CHECKING:
    from otel_agentic import Engine, Evaluation
    from otel_agentic.spans import SpanBatch
    from tests.stores import CopyOf

#: Columns of `tools failing` that need no history of versions.
_FAULT_COLUMNS = (
    "agent", "agent_version", "environment", "tool", "dimension", "fault", "parameter", "faults", "conversations", "failed",
    "tried", "share", "calls", "rate", "example_conversation", "example", "expected", "actual", "trace_id", "span_id",
)  # fmt: skip


def attempt(name: str, answer: str, *calls: Any, day: int = 0) -> SpanBatch:
    """Return an attempt at the case `hotel`."""
    script = AgentRunScript(conversation_id=name).ask("Which hotel?")
    return speak_genai(
        (script.calls(*calls) if calls else script).answers(answer), start_ns=NOON_NS + day * 86_400 * SECOND_NS
    )


def several() -> SpanBatch:
    """Return attempts that pass, and that fail in several ways; one belongs to no case."""
    right = scripted_call("search", {"q": "hotels"}, result=["Ritz"])
    return batch(
        attempt("right", "The Ritz.", right),
        attempt("wrong-answer", "The Hilton.", right, day=1),
        attempt("wrong-parameter", "The Ritz.", scripted_call("search", {"q": "inns"}, result=["Ritz"]), day=2),
        attempt("wrong-parameter-too", "The Ritz.", scripted_call("search", {"q": "motels"}, result=["Ritz"]), day=3),
        attempt("no-call", "The Ritz.", day=4),
        attempt("too-many", "The Ritz.", right, scripted_call("book", {"hotel": "Ritz"}, result="done"), day=5),
        speak_genai(AgentRunScript(conversation_id="other").ask("Who are you?").answers("A clerk.")),
    )


def of_store(engine: Engine, **truth: Any) -> dict[str, Any]:
    """Return the results of the commands after an evaluation."""
    commands = Commands(engine)
    commands.evaluate(**truth)
    with engine.store.read() as con:
        scored = scored_conversations(con, Selection(), tuple(ATTRIBUTES))
    return {"report": commands.report(k=[1, 2, 3]), "failing": commands.tools_failing(), "scored": scored}


def same(evaluation: Evaluation, reported: dict[str, Any]) -> None:
    """Compare an evaluation with the results of the commands."""
    key = "conversation_id"
    by_id = {item.conversation_id: item for item in reported["scored"]}
    assert by_id == {item.conversation_id: item for item in evaluation.scored}
    (own,), (group,) = (
        [to_json(rates_of(GroupRates, item, None)) for item in evaluation.groups(k=[1, 2, 3])],
        reported["report"]["groups"],
    )
    assert {name: group[name] for name in own} == own
    failing = [{name: getattr(row, name) for name in _FAULT_COLUMNS} for row in evaluation.failing_tools()]
    assert [{name: row[name] for name in _FAULT_COLUMNS} for row in reported["failing"]] == failing
    assert {row[key] for row in evaluation.table()} == set(by_id)


@pytest.mark.parametrize("criterion", ["annotated", "answer"])
def test_a_small_set_gives_the_same_numbers_and_faults(engine: Engine, criterion: str) -> None:
    feed(engine, several())
    reported = of_store(engine, cases=[("cases.jsonl", CASE)]) if criterion == "annotated" else None
    cases = [{**json.loads(CASE), "dataset": "cases"}]

    evaluation = otel_agentic.evaluate(several(), cases, k=[1, 2, 3], criteria=(criterion,))

    if reported is not None:
        same(evaluation, reported)
    assert {
        "pass": 5 if criterion == "answer" else 1,
        "fail": 1 if criterion == "answer" else 5,
        "not_evaluated": 1,
    } == (evaluation.outcomes)


@pytest.mark.slow
def test_tau_airline_gives_the_same_scores_numbers_and_faults(
    copy_of: CopyOf, tau_file: Path, tau: Path, tau_truth: dict[str, Any]
) -> None:
    reported = of_store(copy_of(tau_file), **tau_truth)

    evaluation = otel_agentic.evaluate(
        tau / "spans.jsonl.gz", tau / "cases.jsonl", labels=tau / "labels.csv", k=[1, 2, 3]
    )

    same(evaluation, reported)
    assert [0.420, 0.273, 0.220] == pytest.approx(
        [item.value for item in evaluation.estimates(estimator="per_case").pass_pow_k.values()], abs=0.0005
    )


def test_exported_lines_are_read_back_and_scored_alike(engine: Engine, tmp_path: Path) -> None:
    silent = speak_genai(AgentRunScript(conversation_id="no-answer").ask("Which hotel?"))
    feed(engine, several(), silent)
    lines = tmp_path / "exported.jsonl"
    lines.write_text("".join(f"{json.dumps(line)}\n" for line in Commands(engine).conversations_export()), "utf-8")

    result = otel_agentic.evaluate(lines, json.loads(CASE))
    spans = otel_agentic.evaluate(stored_conversations(engine).values(), json.loads(CASE))

    assert 8 == len(result)
    for table in (name for name in TABLES if name != "metrics"):  # a line does not contain the models that were asked
        assert sorted(map(repr, spans.table(table))) == sorted(map(repr, result.table(table)))


def test_what_is_rebuilt_in_memory_is_what_the_store_holds(engine: Engine) -> None:
    feed(engine, several(), speak_genai(ask_hotel(None)))

    result = otel_agentic.evaluate(batch(several(), speak_genai(ask_hotel(None))), json.loads(CASE))

    stored = {key: conversation_json(item) for key, item in stored_conversations(engine).items()}
    assert stored == {item.conversation.key: conversation_json(item.conversation) for item in result.attempts}
