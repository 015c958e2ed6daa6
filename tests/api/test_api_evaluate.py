"""`otel_agentic.evaluate`: its inputs, its results, and the inputs that it refuses."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
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
    from otel_agentic import Evaluation
    from otel_agentic.conversations.model import Turn

CASE = {"case_id": "sum", "turns": [{"query": "2 + 2?", "answer": "4"}]}
PASSING = {"conversation_id": "right", "turns": [{"query": "2 + 2?", "answer": "It is 4."}]}
FAILING = {"conversation_id": "wrong", "turns": [{"query": "2 + 2?", "answer": "It is 5."}]}
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
    return {str(attempt.conversation.conversation_id): attempt.score.outcome for attempt in evaluation.attempts}


def lines(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return path


def finished_spans() -> list[Any]:
    """Return the spans of an agent in this process, as its tracer finished them."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    reply = {
        side: json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])
        for side, role, text in (("input", "user", "2 + 2?"), ("output", "assistant", "It is 4."))
    }
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "calculator",
        "gen_ai.conversation.id": "right",
        **{f"gen_ai.{side}.messages": text for side, text in reply.items()},
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


# Inputs


def test_records_and_a_case_give_scores_and_rates() -> None:
    result = evaluate([PASSING, FAILING, OTHER], CASE, k=[1, 2])

    assert {"right": "pass", "wrong": "fail", "other": "not_evaluated"} == outcomes(result)
    assert {"pass": 1, "fail": 1, "not_evaluated": 1} == result.outcomes
    assert {"wrong_answer": 1, "unmatched": 1} == result.reasons
    assert (2, 1, 2 / 3, (1 / 3, 2 / 3)) == (result.n, result.c, result.coverage, result.bounds)
    assert [1, 2] == list(result.pass_at_k) == list(result.pass_pow_k)
    assert result.estimates().pass_pow_k == result.pass_pow_k


@pytest.mark.parametrize(
    "given",
    [
        PASSING,
        [PASSING],
        (record for record in [PASSING]),
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
    exported = lines(tmp_path / "exported.jsonl", PASSING, FAILING)
    listed = tmp_path / "listed.json"
    listed.write_text(json.dumps([PASSING, FAILING], indent=1), encoding="utf-8")
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
    result = evaluate([FAIR_FORGE])
    assert ({"s-1": "pass"}, ["s-1"]) == (outcomes(result), [case.case_id for case in result.cases])


@pytest.mark.parametrize("form", ["object", "record", "list", "file"])
def test_cases_come_in_many_forms(form: str, tmp_path: Path) -> None:
    forms: dict[str, Any] = {
        "object": Case.model_validate_json(json.dumps(CASE)),
        "record": CASE,
        "list": [CASE],
        "file": lines(tmp_path / "cases.jsonl", CASE),
    }
    assert {"right": "pass", "wrong": "fail"} == outcomes(evaluate([PASSING, FAILING], forms[form]))


@pytest.mark.parametrize(
    "verdict", [False, "fail", "FAIL", 0.0, {"verdict": "fail"}, {"reward": 0.5}, {"verdict": False}]
)
def test_a_label_stands_above_what_was_computed(verdict: Any) -> None:
    result = evaluate(PASSING, CASE, labels={"right": verdict})
    assert ("fail", "labels", "pass") == (
        result.scores[0].outcome, result.scores[0].outcome_source, result.scores[0].computed_outcome,
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
    assert "pass" == outcomes(evaluate(PASSING, CASE, judge="exact"))["right"]
    assert "pass" == outcomes(evaluate(PASSING, CASE, judge=ExactJudge()))["right"]
    assert "fail" == outcomes(evaluate(PASSING, CASE, judge=strict))["right"]
    assert "fail" == outcomes(evaluate(PASSING, CASE, judge=partial(strict)))["right"]
    assert "pass" == outcomes(evaluate(PASSING, CASE, judge=lambda _: Verdict(score=0.7, reasoning="so")))["right"]


def test_the_judge_of_the_settings_is_asked_unless_another_one_is_given() -> None:
    settings = load_settings(scoring={"judge": "no-such-judge"})
    with pytest.raises(PluginError, match="no-such-judge"):
        evaluate(PASSING, CASE, settings=settings)
    assert "exact" == evaluate(PASSING, CASE, settings=settings, judge="exact").judge_name


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
        result = evaluate(PASSING, CASE, judge=judge)
        assert ("not_evaluated", "judge_error") == (result.scores[0].outcome, result.scores[0].reason)
        assert (0, 0.0) == (result.n, result.coverage)
        assert 1 == result.judge_use.failed


def test_each_question_is_asked_once_and_a_cache_spares_the_second_evaluation() -> None:
    requested: list[str] = []

    def counting(question: Question) -> float:
        requested.append(question.answer)
        return 1.0

    cache = MemoryCache()
    twice = [PASSING, {**PASSING, "conversation_id": "again"}]
    for _ in range(2):
        assert {"right": "pass", "again": "pass"} == outcomes(evaluate(twice, CASE, judge=counting, cache=cache))
    assert (["It is 4."], 1) == (requested, len(cache))


def test_a_budget_of_the_settings_holds_for_one_evaluation() -> None:
    settings = load_settings(judge={"max_calls": 1, "cache": False})
    result = evaluate([PASSING, FAILING], CASE, judge=strict, settings=settings)
    assert ["fail", "not_evaluated"] == sorted(outcomes(result).values())
    assert {"wrong_answer": 1, "budget_exhausted": 1} == result.reasons
    assert "judge.max_calls 1" in next(
        score.explanation for score in result.scores if score.reason == "budget_exhausted"
    )


def test_it_works_where_an_event_loop_is_running() -> None:
    async def cell() -> Evaluation:
        return evaluate([PASSING, FAILING], CASE, judge=strict)

    assert {"right": "fail", "wrong": "fail"} == outcomes(asyncio.run(cell()))


def test_a_chat_model_is_asked_where_an_event_loop_is_running() -> None:
    model = FakeListChatModel(responses=['```json\n{"reasoning": "the same", "score": 0.9}\n```'])

    async def cell() -> Evaluation:
        return evaluate([PASSING, FAILING], CASE, judge=model)

    result = asyncio.run(cell())

    assert {"right": "pass", "wrong": "pass"} == outcomes(result)
    assert ("langchain", 2, {"FakeListChatModel"}) == (
        result.judge_name, result.judge_use.verdicts, result.judge_use.models,
    )  # fmt: skip
    assert passage(result.summary()) == snapshot("judge langchain: 2 questions; 2 calls, 0 tokens")


def test_progress_is_reported() -> None:
    reported: list[tuple[int, int]] = []
    evaluate([PASSING, FAILING], CASE, judge=strict, progress=lambda done, of: reported.append((done, of)))
    assert [(1, 2), (2, 2)] == reported


# Settings


def test_arguments_win_over_settings() -> None:
    settings = load_settings(scoring={"answer_threshold": 1.0}, stats={"k": [7]})
    half = partial(evaluate, PASSING, CASE, judge=lambda _: 0.5)
    assert "fail" == outcomes(half(settings=settings))["right"]
    assert "pass" == outcomes(half(settings=settings, answer_threshold=0.5))["right"]
    assert [7] == list(half(settings=settings).pass_at_k)
    assert [2] == list(half(settings=settings, k=2).pass_at_k)


def test_the_criteria_and_the_tool_threshold_decide() -> None:
    case = {**CASE, "turns": [{**CASE["turns"][0], "tools": {"calls": [{"tool_name": "add"}, {"tool_name": "show"}]}}]}  # type: ignore[dict-item]
    half = conversation(turn("2 + 2?", "It is 4.", tool_call("add", {})), conversation_id="half")
    assert "pass" == outcomes(evaluate(half, case, criteria=["answer"]))["half"]
    assert "fail" == outcomes(evaluate(half, case))["half"]
    assert "pass" == outcomes(evaluate(half, case, tool_threshold=0.3))["half"]


def test_another_systems_arithmetic_is_an_argument() -> None:
    result = evaluate(FAIR_FORGE, compat="fair-forge", judge=lambda _: 0.9)
    assert {"s-1": "pass"} == outcomes(result)


# Results


def two_agents() -> Evaluation:
    case = {**CASE, "agent": "a*", "tags": ["smoke"]}
    records = [{**PASSING, "agent_name": "adder"}, {**FAILING, "agent_name": "abacus"}]
    return evaluate(records, case)


def test_groups_and_estimates_of_groups() -> None:
    result = two_agents()
    by_agent = result.estimates(k=1, estimator="plugin", by="agent")
    assert [GroupKey(agent="abacus"), GroupKey(agent="adder")] == list(by_agent)
    assert [0.0, 1.0] == [estimates.pass_at_k[1].value for estimates in by_agent.values()]
    assert ["smoke"] == [group.key.tag for group in result.groups("tag")]
    assert {None} == {item.value for item in evaluate(OTHER, CASE).pass_pow_k.values()}


def test_the_summary_tells_agents_reasons_and_faults_in_lines() -> None:
    reported = two_agents().summary()
    assert [line for line in reported.splitlines() if not line.startswith("  ") and ":" in line][:3] == snapshot(
        [
            "2 conversations, 1 case: 1 passed, 1 failed, 0 not evaluated",
            "abacus: 0 of 1 correct",
            "adder: 1 of 1 correct",
        ]
    )
    assert "reasons: 1 wrong_answer" in reported
    assert reported == str(two_agents())


def test_an_empty_result_is_stated_plainly_and_is_never_zero() -> None:
    result = evaluate([], CASE)
    assert (0, None, None) == (len(result), result.coverage, result.bounds)
    assert "pass@1 no data" in result.summary()
    assert ([], [], []) == (result.failing_tools(), result.turns, result.faults)
    assert all(0 == len(result.to_pandas(table)) == result.to_arrow(table).num_rows for table in TABLES)


def test_the_html_escapes_untrusted_input() -> None:
    hostile = [{**PASSING, "agent_name": "<script>"}, {**FAILING, "agent_name": "b"}]
    reported = evaluate(hostile, CASE)._repr_html_()
    assert ("<script>" in reported, "&lt;script&gt;" in reported) == (False, True)


def test_the_representation_is_one_line() -> None:
    assert repr(evaluate(PASSING, CASE)) == snapshot(
        "<Evaluation of 1 conversation: 1 pass, 0 fail, 0 not evaluated, insufficient_evidence>"
    )


def answer_length(turn: Turn) -> float:
    """Return the length of the answers, at most 100 characters."""
    return min(1.0, len(turn.answer or "") / 100)


@pytest.mark.parametrize("table", TABLES)
def test_a_table_has_the_same_columns_in_every_form_and_its_values_their_types(table: Any) -> None:
    case = {**CASE, "turns": [{**CASE["turns"][0], "tools": {"calls": [{"tool_name": "add", "parameters": {"a": 1}}]}}]}  # type: ignore[dict-item]
    dialogue = conversation(turn("2 + 2?", "It is 4.", tool_call("add", {"a": [2]})))
    result = evaluate(dialogue, case, metrics="none", evaluators=answer_length)

    frame, arrow = result.to_pandas(table), result.to_arrow(table)

    assert list(COLUMNS[table]) == list(frame.columns) == arrow.column_names
    assert 1 == len(frame) == arrow.num_rows == len(result.table(table))
    for name, kind in COLUMNS[table].items():
        types = {"text": "string", "int": "Int64", "float": "Float64", "time": "datetime64[ns, UTC]", "json": "object"}
        assert types[kind] == str(frame[name].dtype), name
    if table == "faults":
        assert ([2], "[2]") == (frame["actual"][0], arrow["actual"][0].as_py())


def test_without_pandas_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pandas", "pyarrow"):
        monkeypatch.setitem(sys.modules, name, None)
    result = evaluate(PASSING, CASE)

    with pytest.raises(UsageError) as pandas:
        result.to_pandas()
    with pytest.raises(UsageError) as arrow:
        result.to_arrow()

    extra = "pip install 'otel-agentic[notebook]'"
    assert [f"to_pandas needs pandas: {extra}", f"to_arrow needs pyarrow: {extra}"] == [
        str(missing.value) for missing in (pandas, arrow)
    ]


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
    assert {"right": "pass", "wrong": "fail"} == outcomes(evaluate([PASSING, FAILING], CASE, judge=judge))


def test_a_whole_number_of_numpy_is_a_k() -> None:
    item: Any = np.int64(1)
    assert [1] == list(evaluate([PASSING, FAILING], CASE, k=item).pass_at_k)
    assert [1] == list(evaluate([PASSING, FAILING], CASE, k=2).estimates(item).pass_at_k)


def test_labels_without_a_conversation_are_reported() -> None:
    result = evaluate(PASSING, CASE, labels={"right": True, "rihgt": False})
    assert result.warnings == snapshot(["1 label not used: no conversation has the id 'rihgt'"])
    assert passage(result.summary()) == snapshot("warning: 1 label not used")
    assert [] == evaluate(PASSING, CASE, labels={"right": True}).warnings


def test_the_summary_says_why_a_judge_failed() -> None:
    reported = evaluate(PASSING, CASE, judge=lambda _: 1 / 0).summary()
    assert passage(reported) == snapshot(
        "judge <lambda>: last failure: judge <lambda> raised ZeroDivisionError: division by zero"
    )


def test_faults_of_several_versions_are_distinguished() -> None:
    tools = {"calls": [{"tool_name": "add", "parameters": {"a": 1}}]}
    case = {"case_id": "sum", "turns": [{"query": "2 + 2?", "answer": "4", "tools": tools}]}
    built = [
        {**PASSING, "conversation_id": version, "agent_name": "adder", "agent_version": version} for version in "12"
    ]
    faults = [line for line in evaluate(built, case).summary().splitlines() if line.startswith("fault:")]
    assert [f"fault: adder {version}, add, missing: 1 in 1 conversation" for version in "12"] == faults
    assert passage(evaluate(built[:1], case).summary()) == snapshot("fault: add, missing: 1 in 1 conversation")


# What it refuses


@pytest.mark.parametrize(
    ("conversations", "arguments", "error", "reported"),
    [
        (5, {}, UsageError, "conversations: found a value of type int; allowed: a Conversation"),
        ([PASSING, 5], {}, UsageError, "conversations[1]: found a value of type int; allowed: a Conversation"),
        ("missing.jsonl", {}, UsageError, "conversations file missing.jsonl: No such file"),
        ([{"conversation_id": "1", "turn": []}], {}, BadInputError, "conversations[0]: turns: missing"),
        ({**PASSING, "turns": [{"tool_calls": []}]}, {}, BadInputError, "turns.0.tool_calls: unknown field, found []"),
        ({**PASSING, "ended_at": "today"}, {}, BadInputError, "ended_at: found 'today'; allowed: an ISO 8601 time"),
        ({"user": "2 + 2?"}, {}, CaseError, "conversations"),
        ([PASSING, {**FAILING, "conversation_id": "right"}], {}, BadInputError, "'right' occurs twice"),
        (PASSING, {"cases": 5}, UsageError, "cases[0]: a int; allowed: a Case"),
        (PASSING, {"cases": {"case_id": 5}}, CaseError, "cases:1: case_id: found 5"),
        (PASSING, {"cases": "missing.jsonl"}, UsageError, "missing.jsonl"),
        (PASSING, {"cases": None}, UsageError, "pass cases, or labels"),
        (PASSING, {"labels": {"right": "maybe"}}, UsageError, "labels['right']: found 'maybe'; allowed: True"),
        (PASSING, {"labels": {"right": {"verdikt": True}}}, UsageError, "labels['right']"),
        (PASSING, {"labels": {"right": float("nan")}}, UsageError, "labels['right']"),
        (PASSING, {"labels": [True]}, UsageError, "labels: a list; allowed: a mapping"),
        (PASSING, {"judge": "best"}, PluginError, "best"),
        (PASSING, {"judge": 5}, UsageError, "judge: a int without name"),
        (PASSING, {"answer_threshold": 2.0}, UsageError, "answer_threshold: found 2.0"),
        (PASSING, {"criteria": []}, UsageError, "criteria: found ()"),
        (PASSING, {"criteria": ["answer >= 1"]}, UsageError, "answer passes or fails by itself"),
        (PASSING, {"criteria": ["operations.loops >= many"]}, UsageError, "'many' is not a number"),
        (PASSING, {"criteria": ["no.such.metric"]}, UsageError, "criterion 'no.such.metric': not one of annotated"),
        (PASSING, {"criteria": ["operations.input_tokens"]}, UsageError, "has no threshold; write one"),
        (PASSING, {"criteria": ["agentest.helpfulness >= 4"]}, UsageError, "an LLM judge is needed"),
        (PASSING, {"k": 0}, UsageError, "k=0: each k must be a whole number of attempts, 1 or more"),
        (PASSING, {"k": "3"}, UsageError, "k='3': each k must be a whole number"),
        (PASSING, {"k": True}, UsageError, "k=True: each k must be a whole number"),
        (PASSING, {"estimator": "best"}, PluginError, "no estimators plug-in 'best'; installed: bayesian"),
    ],
)
def test_what_is_not_allowed_is_refused_by_name(
    conversations: Any, arguments: dict[str, Any], error: type[Exception], reported: str
) -> None:
    with pytest.raises(error) as raised:
        evaluate(conversations, **{"cases": CASE, **arguments})
    assert reported in str(raised.value)


def test_a_bad_line_of_a_file_is_named(tmp_path: Path) -> None:
    file = lines(tmp_path / "exported.jsonl", PASSING, {**FAILING, "turns": 5})
    with raises(BadInputError, snapshot("exported.jsonl:2: turns: found 5; allowed: a list")):
        evaluate(file, CASE)


def test_an_async_function_is_no_judge() -> None:
    async def later(question: Question) -> float:
        return float(question.threshold)

    with raises(UsageError, snapshot("an async function; give an ordinary one")):
        evaluate(PASSING, CASE, judge=later)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("method", "reported"),
    [
        (lambda result: result.table("runs"), "unknown table 'runs'; allowed: conversations, turns, tools, faults"),
        (lambda result: result.groups("colour"), "cannot group by 'colour'"),
        (lambda result: result.estimates(k=[0]), "k=0"),
    ],
)
def test_questions_that_are_none_are_refused(method: Any, reported: str) -> None:
    with pytest.raises(UsageError) as raised:
        method(evaluate(PASSING, CASE))
    assert reported in str(raised.value)


def test_anything_but_spans_in_a_file_of_spans_is_a_problem_and_loses_nothing_else(tmp_path: Path) -> None:
    file = lines(tmp_path / "spans.jsonl", otlp_document())
    file.write_text(file.read_text("utf-8") + "nonsense\n", encoding="utf-8")

    result = evaluate(file, CASE)

    assert {"right": "pass"} == outcomes(result)
    (problem,) = result.problems
    assert "spans.jsonl:2" in problem
    assert f"problem: {problem}" in result.summary()


def test_an_absent_answer_is_unknown_unless_it_is_null() -> None:
    silent = {"conversation_id": "silent", "turns": [{"query": "2 + 2?"}]}
    reported = {"conversation_id": "told", "turns": [{"query": "2 + 2?", "answer": None, "answer_captured": True}]}
    result = evaluate([silent, reported], CASE)
    assert [("not_evaluated", "content_not_captured"), ("fail", "wrong_answer")] == [
        (score.outcome, score.reason) for score in result.scores
    ]


def test_the_same_conversation_twice_counts_once() -> None:
    dialogue = conversation(turn("2 + 2?", "It is 4."))
    assert 1 == len(evaluate([dialogue, replace(dialogue)], CASE))


def test_this_traffic_and_a_new_case_are_named_where_there_are_cases() -> None:
    who = {"case_id": "who", "turns": [{"query": "Who are you?", "answer": "A clerk."}]}
    result = evaluate([PASSING, FAILING, {**FAILING, "conversation_id": "wrong again"}, OTHER], [CASE, who])

    assert result.targets is not None
    assert (result.targets.cases, result.targets.fewest, result.targets.most) == (2, 1, 3)
    assert result.targets.this_traffic[1].pass_pow_k.value == pytest.approx(2 / 4)
    assert result.targets.new_case[1].pass_pow_k.value == pytest.approx((1 / 3 + 1) / 2)
    assert {k: item.estimator for k, item in result.targets.new_case.items()} == {
        1: "per_case",
        3: "hierarchical",
        5: "hierarchical",
    }
    assert evaluate([PASSING, FAILING], [CASE]).targets is None
