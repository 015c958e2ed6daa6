"""`otel_agentic.evaluate`: what it takes, what it gives, and what it refuses."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from inline_snapshot import snapshot
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_agentic import Case, MemoryCache, evaluate, load_settings
from otel_agentic.api.frames import COLUMNS, TABLES
from otel_agentic.errors import BadInputError, CaseError, PluginError, UsageError
from otel_agentic.judges import ExactJudge, JudgeFailure, Question, Verdict
from otel_agentic.testing import conversation, tool_call, turn
from otel_agentic.windows import GroupKey
from tests.snapshots import passage, raises

if TYPE_CHECKING:
    from pathlib import Path

    from otel_agentic import Evaluation
    from otel_agentic.conversations.model import Turn

CASE = {"case_id": "sum", "turns": [{"query": "2 + 2?", "answer": "4"}]}
RIGHT = {"conversation_id": "right", "turns": [{"query": "2 + 2?", "answer": "It is 4."}]}
WRONG = {"conversation_id": "wrong", "turns": [{"query": "2 + 2?", "answer": "It is 5."}]}
OTHER = {"conversation_id": "other", "turns": [{"query": "Who are you?", "answer": "A clerk."}]}
FAIR_FORGE = {
    "session_id": "s-1",
    "assistant_id": "calculator",
    "language": "english",
    "context": "",
    "conversation": [
        {"qa_id": "q-1", "query": "2 + 2?", "assistant": "It is 4.", "ground_truth_assistant": "4"},
    ],
}


def outcomes(evaluation: Evaluation) -> dict[str, str]:
    return {str(one.conversation.conversation_id): one.score.outcome for one in evaluation.attempts}


def lines(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return path


def finished_spans() -> list[Any]:
    """Return the spans of an agent in this process, as its tracer finished them."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    said = {
        side: json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])
        for side, role, text in (("input", "user", "2 + 2?"), ("output", "assistant", "It is 4."))
    }
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "calculator",
        "gen_ai.conversation.id": "right",
        **{f"gen_ai.{side}.messages": text for side, text in said.items()},
    }
    with provider.get_tracer("agent").start_as_current_span("invoke_agent", attributes=attributes):
        pass
    provider.shutdown()
    return list(exporter.get_finished_spans())


def otlp_document() -> dict[str, Any]:
    """Return the same as an OTLP document."""
    attributes = [
        {"key": key, "value": {"stringValue": value}} for key, value in finished_spans()[0].attributes.items()
    ]
    span = {
        "traceId": "1" * 32, "spanId": "2" * 16, "name": "invoke_agent", "attributes": attributes,
        "startTimeUnixNano": "1760000000000000000", "endTimeUnixNano": "1760000001000000000",
    }  # fmt: skip
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": "agent"}, "spans": [span]}]}]}


# What it takes


def test_records_and_a_case_give_scores_and_rates() -> None:
    found = evaluate([RIGHT, WRONG, OTHER], CASE, k=[1, 2])

    assert {"right": "pass", "wrong": "fail", "other": "not_evaluated"} == outcomes(found)
    assert {"pass": 1, "fail": 1, "not_evaluated": 1} == found.outcomes
    assert {"wrong_answer": 1, "unmatched": 1} == found.reasons
    assert (2, 1, 2 / 3, (1 / 3, 2 / 3)) == (found.n, found.c, found.coverage, found.bounds)
    assert [1, 2] == list(found.pass_at_k) == list(found.pass_pow_k)
    assert found.estimates().pass_pow_k == found.pass_pow_k


@pytest.mark.parametrize(
    "given",
    [
        RIGHT,
        [RIGHT],
        (record for record in [RIGHT]),
        conversation(turn("2 + 2?", "It is 4."), conversation_id="right"),
        otlp_document(),
        finished_spans(),
        finished_spans()[0],
    ],
    ids=["record", "records", "generator", "object", "OTLP", "spans of the SDK", "span of the SDK"],
)
def test_conversations_come_in_many_forms(given: Any) -> None:
    assert {"right": "pass"} == outcomes(evaluate(given, CASE))


@pytest.mark.parametrize("text", [str, None])
def test_a_file_is_recognised_by_what_it_holds(tmp_path: Path, text: Any) -> None:
    path = text or (lambda file: file)
    exported = lines(tmp_path / "exported.jsonl", RIGHT, WRONG)
    listed = tmp_path / "listed.json"
    listed.write_text(json.dumps([RIGHT, WRONG], indent=1), encoding="utf-8")
    otlp = lines(tmp_path / "spans.jsonl", otlp_document())
    foreign = lines(tmp_path / "forge.json", FAIR_FORGE)

    assert {"right": "pass", "wrong": "fail"} == outcomes(evaluate(path(exported), CASE))
    assert {"right": "pass", "wrong": "fail"} == outcomes(evaluate(path(listed), CASE))
    assert {"right": "pass"} == outcomes(evaluate([path(otlp)], CASE))
    assert {"s-1": "pass"} == outcomes(evaluate(path(foreign)))


def test_a_folder_is_read_as_spans(tmp_path: Path) -> None:
    lines(tmp_path / "spans.jsonl", otlp_document())
    assert {"right": "pass"} == outcomes(evaluate(tmp_path, CASE))


def test_records_of_another_tool_bring_their_cases() -> None:
    found = evaluate([FAIR_FORGE])
    assert ({"s-1": "pass"}, ["s-1"]) == (outcomes(found), [case.case_id for case in found.cases])


@pytest.mark.parametrize("form", ["object", "record", "list", "file"])
def test_cases_come_in_many_forms(form: str, tmp_path: Path) -> None:
    forms: dict[str, Any] = {
        "object": Case.model_validate_json(json.dumps(CASE)),
        "record": CASE,
        "list": [CASE],
        "file": lines(tmp_path / "cases.jsonl", CASE),
    }
    assert {"right": "pass", "wrong": "fail"} == outcomes(evaluate([RIGHT, WRONG], forms[form]))


@pytest.mark.parametrize(
    "verdict", [False, "fail", "FAIL", 0.0, {"verdict": "fail"}, {"reward": 0.5}, {"verdict": False}]
)
def test_a_label_stands_above_what_was_computed(verdict: Any) -> None:
    found = evaluate(RIGHT, CASE, labels={"right": verdict})
    assert ("fail", "labels", "pass") == (
        found.scores[0].outcome, found.scores[0].outcome_source, found.scores[0].computed_outcome,
    )  # fmt: skip


def test_a_label_may_name_the_case_alone_and_labels_do_without_cases(tmp_path: Path) -> None:
    case = {"case_id": "sum", "turns": [{"answer": "4"}]}
    file = tmp_path / "labels.csv"
    file.write_text("conversation_id,reward\nother,1.0\n", encoding="utf-8")

    assert {"other": "fail"} == outcomes(evaluate(OTHER, case, labels={"other": {"case_id": "sum"}}))
    assert {"other": "pass"} == outcomes(evaluate(OTHER, labels=file))
    assert {"other": "not_evaluated"} == outcomes(evaluate(OTHER, CASE, labels={"other": None}))


# Judges


def strict(question: Question) -> bool:
    return question.answer == question.expected


def test_a_judge_is_a_name_an_object_or_a_function() -> None:
    assert "pass" == outcomes(evaluate(RIGHT, CASE, judge="exact"))["right"]
    assert "pass" == outcomes(evaluate(RIGHT, CASE, judge=ExactJudge()))["right"]
    assert "fail" == outcomes(evaluate(RIGHT, CASE, judge=strict))["right"]
    assert "fail" == outcomes(evaluate(RIGHT, CASE, judge=partial(strict)))["right"]
    assert "pass" == outcomes(evaluate(RIGHT, CASE, judge=lambda _: Verdict(score=0.7, reasoning="so")))["right"]


def test_the_judge_of_the_settings_is_asked_unless_another_one_is_given() -> None:
    settings = load_settings(scoring={"judge": "no-such-judge"})
    with pytest.raises(PluginError, match="no-such-judge"):
        evaluate(RIGHT, CASE, settings=settings)
    assert "exact" == evaluate(RIGHT, CASE, settings=settings, judge="exact").judge_name


def test_a_failing_judge_is_never_a_failing_agent() -> None:
    def broken(question: Question) -> float:
        raise RuntimeError(f"no answer to {question.query}")

    judges: list[Any] = [
        broken,
        lambda _: 1.5,
        lambda _: "pass",
        lambda _: JudgeFailure(reason="judge_error", message=""),
    ]
    for judge in judges:
        found = evaluate(RIGHT, CASE, judge=judge)
        assert ("not_evaluated", "judge_error") == (found.scores[0].outcome, found.scores[0].reason)
        assert (0, 0.0) == (found.n, found.coverage)
        assert 1 == found.judge_use.failed


def test_each_question_is_asked_once_and_a_cache_spares_the_second_evaluation() -> None:
    asked: list[str] = []

    def counting(question: Question) -> float:
        asked.append(question.answer)
        return 1.0

    cache = MemoryCache()
    twice = [RIGHT, {**RIGHT, "conversation_id": "again"}]
    for _ in range(2):
        assert {"right": "pass", "again": "pass"} == outcomes(evaluate(twice, CASE, judge=counting, cache=cache))
    assert (["It is 4."], 1) == (asked, len(cache))


def test_a_budget_of_the_settings_holds_for_one_evaluation() -> None:
    settings = load_settings(judge={"max_calls": 1, "cache": False})
    found = evaluate([RIGHT, WRONG], CASE, judge=strict, settings=settings)
    assert ["fail", "not_evaluated"] == sorted(outcomes(found).values())
    assert {"wrong_answer": 1, "budget_exhausted": 1} == found.reasons
    assert "judge.max_calls 1" in next(one.explanation for one in found.scores if one.reason == "budget_exhausted")


def test_it_works_where_an_event_loop_is_running() -> None:
    async def cell() -> Evaluation:
        return evaluate([RIGHT, WRONG], CASE, judge=strict)

    assert {"right": "fail", "wrong": "fail"} == outcomes(asyncio.run(cell()))


def test_a_chat_model_is_asked_where_an_event_loop_is_running() -> None:
    model = FakeListChatModel(responses=['```json\n{"reasoning": "the same", "score": 0.9}\n```'])

    async def cell() -> Evaluation:
        return evaluate([RIGHT, WRONG], CASE, judge=model)

    found = asyncio.run(cell())

    assert {"right": "pass", "wrong": "pass"} == outcomes(found)
    assert ("langchain", 2, {"FakeListChatModel"}) == (
        found.judge_name, found.judge_use.verdicts, found.judge_use.models,
    )  # fmt: skip
    assert passage(found.summary()) == snapshot("judge langchain: 2 questions; 2 calls, 0 tokens")


def test_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    evaluate([RIGHT, WRONG], CASE, judge=strict, progress=lambda done, of: told.append((done, of)))
    assert [(1, 2), (2, 2)] == told


# Settings


def test_arguments_win_over_settings() -> None:
    settings = load_settings(scoring={"answer_threshold": 1.0}, stats={"k": [7]})
    half = partial(evaluate, RIGHT, CASE, judge=lambda _: 0.5)
    assert "fail" == outcomes(half(settings=settings))["right"]
    assert "pass" == outcomes(half(settings=settings, answer_threshold=0.5))["right"]
    assert [7] == list(half(settings=settings).pass_at_k)
    assert [2] == list(half(settings=settings, k=2).pass_at_k)


def test_the_turn_rule_and_the_tool_threshold_decide() -> None:
    case = {**CASE, "turns": [{**CASE["turns"][0], "tools": {"calls": [{"tool_name": "add"}, {"tool_name": "show"}]}}]}  # type: ignore[dict-item]
    half = conversation(turn("2 + 2?", "It is 4.", tool_call("add", {})), conversation_id="half")
    assert "pass" == outcomes(evaluate(half, case))["half"]
    assert "fail" == outcomes(evaluate(half, case, turn_rule="both"))["half"]
    assert "pass" == outcomes(evaluate(half, case, turn_rule="both", tool_threshold=0.3))["half"]


def test_another_systems_arithmetic_is_an_argument() -> None:
    found = evaluate(FAIR_FORGE, compat="fair-forge", judge=lambda _: 0.9)
    assert {"s-1": "pass"} == outcomes(found)


# What it gives


def two_agents() -> Evaluation:
    case = {**CASE, "agent": "a*", "tags": ["smoke"]}
    records = [{**RIGHT, "agent_name": "adder"}, {**WRONG, "agent_name": "abacus"}]
    return evaluate(records, case)


def test_groups_and_estimates_of_groups() -> None:
    found = two_agents()
    by_agent = found.estimates(k=1, estimator="plugin", by="agent")
    assert [GroupKey(agent="abacus"), GroupKey(agent="adder")] == list(by_agent)
    assert [0.0, 1.0] == [estimates.pass_at_k[1].value for estimates in by_agent.values()]
    assert ["smoke"] == [group.key.tag for group in found.groups("tag")]
    assert {None} == {one.value for one in evaluate(OTHER, CASE).pass_pow_k.values()}


def test_the_summary_tells_agents_reasons_and_faults_in_lines() -> None:
    told = two_agents().summary()
    assert [line for line in told.splitlines() if not line.startswith("  ") and ":" in line][:3] == snapshot(
        [
            "2 conversations, 1 case: 1 passed, 1 failed, 0 not evaluated",
            "abacus: 0 of 1 correct",
            "adder: 1 of 1 correct",
        ]
    )
    assert "reasons: 1 wrong_answer" in told
    assert told == str(two_agents())


def test_nothing_is_said_plainly_and_is_never_zero() -> None:
    found = evaluate([], CASE)
    assert (0, None, None) == (len(found), found.coverage, found.bounds)
    assert "pass@1 no data" in found.summary()
    assert ([], [], []) == (found.failing_tools(), found.turns, found.faults)
    assert all(0 == len(found.to_pandas(table)) == found.to_arrow(table).num_rows for table in TABLES)


def test_the_html_escapes_what_strangers_wrote() -> None:
    hostile = [{**RIGHT, "agent_name": "<script>"}, {**WRONG, "agent_name": "b"}]
    told = evaluate(hostile, CASE)._repr_html_()
    assert ("<script>" in told, "&lt;script&gt;" in told) == (False, True)


def test_the_representation_is_one_line() -> None:
    assert repr(evaluate(RIGHT, CASE)) == snapshot(
        "<Evaluation of 1 conversation: 1 pass, 0 fail, 0 not evaluated, insufficient_evidence>"
    )


def said_much(turn: Turn) -> float:
    """Return how much was said, of at most 100 characters."""
    return min(1.0, len(turn.answer or "") / 100)


@pytest.mark.parametrize("table", TABLES)
def test_a_table_has_the_same_columns_in_every_form_and_its_values_their_types(table: Any) -> None:
    case = {**CASE, "turns": [{**CASE["turns"][0], "tools": {"calls": [{"tool_name": "add", "parameters": {"a": 1}}]}}]}  # type: ignore[dict-item]
    told = conversation(turn("2 + 2?", "It is 4.", tool_call("add", {"a": [2]})))
    found = evaluate(told, case, metrics="none", evaluators=said_much)

    frame, arrow = found.to_pandas(table), found.to_arrow(table)

    assert list(COLUMNS[table]) == list(frame.columns) == arrow.column_names
    assert 1 == len(frame) == arrow.num_rows == len(found.table(table))
    for name, kind in COLUMNS[table].items():
        types = {"text": "string", "int": "Int64", "float": "Float64", "time": "datetime64[ns, UTC]", "json": "object"}
        assert types[kind] == str(frame[name].dtype), name
    if table == "faults":
        assert ([2], "[2]") == (frame["actual"][0], arrow["actual"][0].as_py())


def test_without_pandas_the_extra_is_named() -> None:
    program = (
        "import sys; sys.modules['pandas'] = sys.modules['pyarrow'] = None\n"
        "from otel_agentic import UsageError, evaluate\n"
    ).replace("UsageError, ", "") + (
        "from otel_agentic.errors import UsageError\n"
        f"found = evaluate({RIGHT!r}, {CASE!r})\n"
        "for method in (found.to_pandas, found.to_arrow):\n"
        "    try:\n"
        "        method()\n"
        "    except UsageError as error:\n"
        "        print(error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    extra = "pip install 'otel-agentic[notebook]'"
    assert [f"to_pandas needs pandas: {extra}", f"to_arrow needs pyarrow: {extra}"] == ran.stdout.splitlines()


# What people hand over that is nearly right


class Counting:
    """A judge's function with a memory, as an object that is called."""

    def __call__(self, question: Question) -> float:
        """Return how sure it is."""
        return 0.9 if question.expected in question.answer else 0.1


@pytest.mark.parametrize(
    "judge",
    [
        Counting(),
        lambda question: np.float32(question.expected in question.answer),
        lambda question: np.bool_(question.expected in question.answer),
    ],
)
def test_an_object_that_is_called_judges_and_numbers_of_numpy_are_scores(judge: Any) -> None:
    assert {"right": "pass", "wrong": "fail"} == outcomes(evaluate([RIGHT, WRONG], CASE, judge=judge))


def test_a_whole_number_of_numpy_is_a_k() -> None:
    one: Any = np.int64(1)
    assert [1] == list(evaluate([RIGHT, WRONG], CASE, k=one).pass_at_k)
    assert [1] == list(evaluate([RIGHT, WRONG], CASE, k=2).estimates(one).pass_at_k)


def test_labels_that_belong_to_no_conversation_are_told() -> None:
    found = evaluate(RIGHT, CASE, labels={"right": True, "rihgt": False})
    assert found.warnings == snapshot(["1 label not used: no conversation has the id 'rihgt'"])
    assert passage(found.summary()) == snapshot("warning: 1 label not used")
    assert [] == evaluate(RIGHT, CASE, labels={"right": True}).warnings


def test_the_summary_says_why_a_judge_failed() -> None:
    told = evaluate(RIGHT, CASE, judge=lambda _: 1 / 0).summary()
    assert passage(told) == snapshot(
        "judge <lambda>: last failure: judge <lambda> raised ZeroDivisionError: division by zero"
    )


def test_faults_of_several_versions_are_told_apart() -> None:
    tools = {"calls": [{"tool_name": "add", "parameters": {"a": 1}}]}
    case = {"case_id": "sum", "turns": [{"query": "2 + 2?", "answer": "4", "tools": tools}]}
    made = [{**RIGHT, "conversation_id": version, "agent_name": "adder", "agent_version": version} for version in "12"]
    faults = [line for line in evaluate(made, case).summary().splitlines() if line.startswith("fault:")]
    assert [f"fault: adder {version}, add, missing: 1 in 1 conversation" for version in "12"] == faults
    assert passage(evaluate(made[:1], case).summary()) == snapshot("fault: add, missing: 1 in 1 conversation")


# What it refuses


@pytest.mark.parametrize(
    ("conversations", "arguments", "error", "told"),
    [
        (5, {}, UsageError, "conversations: found a value of type int; allowed: a Conversation"),
        ([RIGHT, 5], {}, UsageError, "conversations[1]: found a value of type int; allowed: a Conversation"),
        ("missing.jsonl", {}, UsageError, "conversations file missing.jsonl: No such file"),
        ([{"conversation_id": "1", "turn": []}], {}, BadInputError, "conversations[0]: turns: missing"),
        ({**RIGHT, "turns": [{"tool_calls": []}]}, {}, BadInputError, "turns.0.tool_calls: unknown field, found []"),
        ({**RIGHT, "ended_at": "today"}, {}, BadInputError, "ended_at: found 'today'; allowed: an ISO 8601 time"),
        ({"user": "2 + 2?"}, {}, CaseError, "conversations"),
        ([RIGHT, {**WRONG, "conversation_id": "right"}], {}, BadInputError, "'right' occurs twice"),
        (RIGHT, {"cases": 5}, UsageError, "cases[0]: a int; allowed: a Case"),
        (RIGHT, {"cases": {"case_id": 5}}, CaseError, "cases:1: case_id: found 5"),
        (RIGHT, {"cases": "missing.jsonl"}, UsageError, "missing.jsonl"),
        (RIGHT, {"cases": None}, UsageError, "pass cases, or labels"),
        (RIGHT, {"labels": {"right": "maybe"}}, UsageError, "labels['right']: found 'maybe'; allowed: True"),
        (RIGHT, {"labels": {"right": {"verdikt": True}}}, UsageError, "labels['right']"),
        (RIGHT, {"labels": {"right": float("nan")}}, UsageError, "labels['right']"),
        (RIGHT, {"labels": [True]}, UsageError, "labels: a list; allowed: a mapping"),
        (RIGHT, {"judge": "best"}, PluginError, "best"),
        (RIGHT, {"judge": 5}, UsageError, "judge: a int without name"),
        (RIGHT, {"answer_threshold": 2.0}, UsageError, "answer_threshold: found 2.0"),
        (RIGHT, {"turn_rule": "all"}, UsageError, "turn_rule: found 'all'"),
        (RIGHT, {"k": 0}, UsageError, "k=0: each k must be a whole number of attempts, 1 or more"),
        (RIGHT, {"k": "3"}, UsageError, "k='3': each k must be a whole number"),
        (RIGHT, {"k": True}, UsageError, "k=True: each k must be a whole number"),
        (RIGHT, {"estimator": "best"}, PluginError, "no estimators plug-in 'best'; installed: bayesian"),
    ],
)
def test_what_is_not_allowed_is_refused_by_name(
    conversations: Any, arguments: dict[str, Any], error: type[Exception], told: str
) -> None:
    with pytest.raises(error) as raised:
        evaluate(conversations, **{"cases": CASE, **arguments})
    assert told in str(raised.value)


def test_a_bad_line_of_a_file_is_named(tmp_path: Path) -> None:
    file = lines(tmp_path / "exported.jsonl", RIGHT, {**WRONG, "turns": 5})
    with raises(BadInputError, snapshot("exported.jsonl:2: turns: found 5; allowed: a list")):
        evaluate(file, CASE)


def test_an_async_function_is_no_judge() -> None:
    async def later(question: Question) -> float:
        return float(question.threshold)

    with raises(UsageError, snapshot("an async function; give an ordinary one")):
        evaluate(RIGHT, CASE, judge=later)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("method", "told"),
    [
        (lambda found: found.table("runs"), "unknown table 'runs'; allowed: conversations, turns, tools, faults"),
        (lambda found: found.groups("colour"), "cannot group by 'colour'"),
        (lambda found: found.estimates(k=[0]), "k=0"),
    ],
)
def test_questions_that_are_none_are_refused(method: Any, told: str) -> None:
    with pytest.raises(UsageError) as raised:
        method(evaluate(RIGHT, CASE))
    assert told in str(raised.value)


def test_what_a_file_of_spans_holds_beside_spans_is_a_problem_and_loses_nothing_else(tmp_path: Path) -> None:
    file = lines(tmp_path / "spans.jsonl", otlp_document())
    file.write_text(file.read_text("utf-8") + "nonsense\n", encoding="utf-8")

    found = evaluate(file, CASE)

    assert {"right": "pass"} == outcomes(found)
    (problem,) = found.problems
    assert "spans.jsonl:2" in problem
    assert f"problem: {problem}" in found.summary()


def test_an_answer_that_is_absent_is_unknown_unless_it_is_said_to_be_none() -> None:
    silent = {"conversation_id": "silent", "turns": [{"query": "2 + 2?"}]}
    told = {"conversation_id": "told", "turns": [{"query": "2 + 2?", "answer": None, "answer_captured": True}]}
    found = evaluate([silent, told], CASE)
    assert [("not_evaluated", "content_not_captured"), ("fail", "wrong_answer")] == [
        (one.outcome, one.reason) for one in found.scores
    ]


def test_the_same_conversation_twice_counts_once() -> None:
    one = conversation(turn("2 + 2?", "It is 4."))
    assert 1 == len(evaluate([one, replace(one)], CASE))


def test_this_traffic_and_a_new_case_are_named_where_there_are_cases() -> None:
    who = {"case_id": "who", "turns": [{"query": "Who are you?", "answer": "A clerk."}]}
    found = evaluate([RIGHT, WRONG, {**WRONG, "conversation_id": "wrong again"}, OTHER], [CASE, who])

    assert found.targets is not None
    assert (found.targets.cases, found.targets.fewest, found.targets.most) == (2, 1, 3)
    assert found.targets.this_traffic[1].pass_pow_k.value == pytest.approx(2 / 4)
    assert found.targets.new_case[1].pass_pow_k.value == pytest.approx((1 / 3 + 1) / 2)
    assert {k: each.estimator for k, each in found.targets.new_case.items()} == {
        1: "per_case",
        3: "hierarchical",
        5: "hierarchical",
    }
    assert evaluate([RIGHT, WRONG], [CASE]).targets is None
