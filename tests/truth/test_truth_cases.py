from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from otel_agentic import truth
from otel_agentic.errors import CaseError
from otel_agentic.truth import Case, parse_cases, read_cases
from tests.snapshots import raises


def problems_of(*cases: Any) -> list[str]:
    return list(parse_cases("cases.jsonl", "\n".join(json.dumps(case) for case in cases)).problems)


def tools(**fields: Any) -> dict[str, Any]:
    return {"case_id": "a", "tools": {"calls": [], **fields}}


def call(**fields: Any) -> dict[str, Any]:
    return tools(calls=[{"tool_name": "book", **fields}])


MODES = "exact, unordered, casefold, number, regex, contains, one_of, any, ignore, json_schema, judge"
MATCH = f'for each parameter one of {MODES}, or {{"mode": "number", "tolerance": 0.01}}'
EXTRA = (
    'allow, penalize, forbid, or one of these for each of read and write, such as {"read": "allow", "write": "forbid"}'
)
EXPECTATION = "alternatives, calls, extra_calls, forbidden, order"


@pytest.mark.parametrize(
    ("case", "problem"),
    [
        ({}, "case_id: missing; it is required here"),
        ({"case_id": ""}, 'case_id: found ""; allowed: a text that is not empty'),
        ({"case_id": 7}, "case_id: found 7; allowed: a text"),
        ([1], "a case is a JSON object, found [1]"),
        ({"case_id": "a", "turns": {}}, "turns: found {}; allowed: a list"),
        (
            {"case_id": "a", "turns": [{"qery": "x"}]},
            'turns.0.qery: unknown field, found "x"; allowed: answer, not_answer, query, reference_topics, tools',
        ),
        ({"case_id": "a", "answer_threshold": 2}, "answer_threshold: found 2; allowed: a number of at most 1"),
        ({"case_id": "a", "tool_threshold": -1}, "tool_threshold: found -1; allowed: a number of at least 0"),
        ({"case_id": "a", "tool_weights": {"selection": 0}}, "tool_weights: at least one weight must be above 0"),
        (
            {"case_id": "a", "tool_weights": {"colour": 1}},
            'tool_weights.colour: found "colour"; allowed: selection, parameters, sequence, utilization',
        ),
        ({"case_id": "a", "effects": {"x": "drop"}}, 'effects.x: found "drop"; allowed: read, write'),
        (
            {"case_id": "a", "outputs": [True]},
            "outputs.0: found true; allowed: a list of texts (not empty) and numbers",
        ),
        (
            {"case_id": "a", "verdict": "maybe"},
            'verdict: found "maybe"; allowed: "pass", "fail", or a reward (a number)',
        ),
        ({"case_id": "a", "tools": {}}, "tools.calls: missing; it is required here"),
        (tools(order="rel"), 'tools.order: found "rel"; allowed: any, relative, exact'),
        (tools(extra_calls="no"), f'tools.extra_calls: found "no"; allowed: {EXTRA}'),
        (tools(extra_calls={"red": "allow"}), f'tools.extra_calls: found {{"red": "allow"}}; allowed: {EXTRA}'),
        (tools(colour=1), f"tools.colour: unknown field, found 1; allowed: {EXPECTATION}"),
        (
            tools(alternatives=[{"calls": [], "alternatives": [{"calls": []}]}]),
            "tools: alternatives.0 has alternatives of its own; list them all at one level",
        ),
        (
            tools(calls=[{"tool_name": "book"}], forbidden=["b*"]),
            "tools: call 'book' is expected, and forbidden by 'b*'; remove one",
        ),
        (call(required="no"), 'tools.calls.0.required: found "no"; allowed: true or false'),
        (call(parameters={"a": 1}, match={"a": "fuzzy"}), f'tools.calls.0.match.a: found "fuzzy"; allowed: {MATCH}'),
        (
            call(match={"a": "casefold"}),
            "tools.calls.0: match names parameter 'a' that `parameters` lacks; give it a value there, or use any or ignore",
        ),
        (
            call(parameters={"a": "("}, match={"a": "regex"}),
            (
                "tools.calls.0: parameter 'a', match regex: '(' cannot be used: missing ): (; RE2 syntax is as in Python, "
                "without look-around, backreferences and more than 1,000 repetitions"
            ),
        ),
        (
            call(parameters={"a": "x"}, match={"a": "number"}),
            "tools.calls.0: parameter 'a', match number: expects a number, found 'x'",
        ),
        (
            call(parameters={"a": 1}, match={"a": "one_of"}),
            "tools.calls.0: parameter 'a', match one_of: expects a list of allowed values, found 1",
        ),
        (
            call(parameters={"a": {"type": "strng"}}, match={"a": "json_schema"}),
            (
                "tools.calls.0: parameter 'a', match json_schema: not a JSON Schema, at type: "
                "\"strng\" is not valid under any of the schemas listed in the 'anyOf' keyword"
            ),
        ),
    ],
)
def test_an_invalid_case_is_reported_with_file_line_field_and_allowed_values(case: Any, problem: str) -> None:
    assert problems_of(case) == [f"cases.jsonl:1: {problem}"]


def test_a_parameter_called_like_a_field_is_no_field() -> None:
    assert problems_of(call(parameters={"match": {"outputs": [True]}, "verdict": {"extra_calls": 1}})) == []


def test_a_line_that_is_not_json_says_where() -> None:
    result = parse_cases("cases.jsonl", "{nope")
    assert result.problems == snapshot(
        (
            (
                "cases.jsonl:1: not JSON: Expecting property name enclosed in double quotes at column 2; "
                "a line holds one case as a JSON object"
            ),
        )
    )


def test_all_problems_of_a_file_are_collected_and_the_good_cases_kept() -> None:
    result = parse_cases("c.jsonl", '{"case_id": 1, "agent": 2}\n\n{"case_id": "good"}\n{"case": "x"}\n')
    assert [case.case_id for case in result.cases] == ["good"]
    assert [problem.split(" ")[0] for problem in result.problems] == [
        "c.jsonl:1:",
        "c.jsonl:1:",
        "c.jsonl:4:",
        "c.jsonl:4:",
    ]
    with pytest.raises(CaseError, match=r"c\.jsonl:1: case_id"):
        result.require()


def test_a_case_id_that_stands_twice_in_a_dataset_names_both_lines() -> None:
    assert problems_of({"case_id": "a"}, {"case_id": "b"}, {"case_id": "a"}) == snapshot(
        [
            "cases.jsonl:3: case_id: 'a' of dataset 'cases' is already used on line 1; a case_id is unique within a dataset"
        ]
    )
    assert problems_of({"case_id": "a", "dataset": "x"}, {"case_id": "a", "dataset": "y"}) == []


def test_a_case_without_a_dataset_belongs_to_the_one_called_like_the_file() -> None:
    assert parse_cases("dir/airline.v2.jsonl", '{"case_id": "a"}').cases[0].dataset == "airline"


def test_a_line_separator_inside_a_text_does_not_end_the_line() -> None:
    result = parse_cases("c.jsonl", '\ufeff{"case_id": "a", "goal": "one\u2028two"}')
    assert result.require()[0].goal == "one\u2028two"


def test_files_that_cannot_be_read_are_case_errors(tmp_path: Path) -> None:
    with raises(CaseError, snapshot("give a readable file")):
        read_cases(tmp_path / "absent.jsonl")
    (tmp_path / "latin.jsonl").write_bytes(b'{"case_id": "\xe9"}')
    with raises(CaseError, snapshot("byte 13 is not UTF-8")):
        read_cases(tmp_path / "latin.jsonl")


def version(**fields: Any) -> str:
    return Case.model_validate_json(json.dumps({"case_id": "a", **fields})).version


def test_the_version_depends_on_the_content_in_any_notation() -> None:
    assert version(tags=[], effects={"a": "read", "b": "write"}) == version(effects={"b": "write", "a": "read"})
    assert version() != version(goal="x")
    assert version(tools={"calls": [{"tool_name": "x", "parameters": {"big": 10**30}}]}) != version()


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [(None, None), ("pass", True), ("fail", False), (1, True), (0.9999999, True), (0.99, False)],
)
def test_a_reward_passes_at_the_threshold(verdict: Any, expected: object) -> None:
    case = Case.model_validate_json(json.dumps({"case_id": "a", "verdict": verdict}))
    assert case.given_verdict(1.0 - 1e-6) is expected


def test_the_public_names_are_sorted_and_there() -> None:
    assert truth.__all__ == sorted(truth.__all__)
    assert all(hasattr(truth, name) for name in truth.__all__)


def test_a_case_is_made_from_python_lists_as_from_json() -> None:
    record = {"case_id": "a", "tags": ["x"], "turns": [{"query": "q", "tools": {"calls": [{"tool_name": "t"}]}}]}
    assert Case.model_validate_json(json.dumps(record)) == Case.model_validate(record)
