"""Files that are broken, or built to break: a clear sentence, bounded work, and nothing else lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.errors import CaseError, TooLargeError
from otel_agentic.truth import load, parse_labels, read_cases
from otel_agentic.truth.formats import FORMATS, Document, read_document, read_rows
from tests.snapshots import raises

#: Fields by which formats are known, and others.
KEYS = (
    *("case_id", "turns", "query", "tools", "session_id", "conversation", "user_input", "expected_outcome", "eval_id"),
    *("eval_cases", "name", "data", "instruction", "actions", "evaluation_criteria", "x"),
)


def names(document: Document) -> list[str]:
    return [case.case_id for case in document.cases]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("d.json", "[" * 1_000_000, "d.json:1: not JSON: nested too deep to be read; no case needs that"),
        ("d.json", '{"a":' * 1_000_000, "d.json:1: not JSON: nested too deep to be read; no case needs that"),
        ("d.yaml", "- " * 100_000, "d.yaml:1: nested deeper than 128 levels; no case needs that"),
        ("d.yaml", "{a: " * 100_000, "d.yaml:1: nested deeper than 128 levels; no case needs that"),
        ("d.yaml", "[" * 100_000, "d.yaml:1: nested deeper than 128 levels; no case needs that"),
        ("d.yaml", "? [x]\n: 1", "d.yaml:1: a key is a text; found a list or an object, nothing after it was read"),
        ("d.yaml", "a: *b", "d.yaml:1: alias *b names no anchor; nothing after it was read"),
        ("d.yaml", "case_id: &a [*a]", "d.yaml:1: case_id.0: alias *a contains itself; write the value out"),
        ("d.yaml", "<<: {case_id: a}", "d.yaml:1: <<: merging (<<) is not supported; write the fields out"),
        ("d.csv", 'case_id,tools\na,"' + "[" * 100_000 + '"', None),
        ("d.csv", "case_id,goal\na," + "x" * 200_000, None),
    ],
)
def test_a_text_that_is_built_to_break_the_reader_is_reported(name: str, text: str, problem: str | None) -> None:
    (result,) = read_document(name, text).problems
    assert result.startswith(problem or f"{name}:2: ")
    assert len(result) < 300


def test_aliases_of_aliases_are_given_up_early() -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
    assert read_document("b.yaml", bomb).problems == snapshot(
        ("b.yaml:7: more than 1,000,000 values, including those repeated by aliases; split it",)
    )


def test_a_deep_value_costs_its_own_case_only() -> None:
    deep = '{"case_id": "a", "expected_state": ' + '{"a":' * 200 + "1" + "}" * 200 + "}"
    result = read_document("c.jsonl", f'{deep}\n{{"case_id": "b"}}\n{{"case_id": "c", "goal": {"[" * 100_000}\n')
    assert ["b"] == names(result)
    assert result.problems == snapshot(
        (
            "c.jsonl:1: expected_state.a.a: nested deeper than 128 levels; no case needs that",
            "c.jsonl:3: not JSON: nested too deep to be read; no case needs that; a line holds one case as a JSON object",
        )
    )


def test_numbers_out_of_range_are_reported_not_rounded() -> None:
    text = f'{{"case_id": "a", "outputs": [{"9" * 5000}]}}\n{{"case_id": "b", "outputs": [1e999]}}'
    assert read_document("c.jsonl", text).problems == snapshot(
        (
            "c.jsonl:1: outputs.0: a number of 5,000 digits; write it as a text",
            "c.jsonl:2: outputs.0: 1e999 is beyond what a number can hold",
        )
    )


def test_invalid_numbers_of_a_table_are_reported_too() -> None:
    row = {"user_input": "x", "reference_tool_calls": [{"name": "a", "args": {"x": float("nan")}}]}
    assert read_rows("r.parquet", list(row), [(1, row)]).problems == snapshot(
        ("r.parquet:row 1: reference_tool_calls.0.args.x: nan is not JSON; leave the field out or give a number",)
    )
    text = """user_input,reference_tool_calls\nx,"[{'name': 'a', 'args': {'x': -1e999}}]"\n"""
    assert read_document("r.csv", text).problems == snapshot(
        ("r.csv:2: reference_tool_calls.0.args.x: -inf is not JSON; leave the field out or give a number",)
    )


def test_half_of_a_surrogate_pair_is_reported_and_a_complete_one_is_read() -> None:
    text = '{"case_id": "a", "goal": "\\ud800"}\n{"case_id": "b", "goal": "\\ud83d\\ude00"}'
    result = read_document("c.jsonl", text)
    assert ["\U0001f600"] == [case.goal for case in result.cases]
    assert result.problems == snapshot(("c.jsonl:1: goal: half of a surrogate pair in the text; it is no character",))


def test_a_nul_character_is_a_damaged_file_and_its_escape_is_a_text() -> None:
    assert read_document("c.yaml", "- case_id: a\n- case_id: b\x00").problems == snapshot(
        ("c.yaml:2: a NUL character: the file is damaged, or not text",)
    )
    assert ["a\x00"] == names(read_document("c.jsonl", '{"case_id": "a\\u0000"}'))


@pytest.mark.parametrize("name", ["c.jsonl", "c.json", "c.yaml", "c.csv"])
def test_a_byte_order_mark_and_line_ends_of_windows_are_no_content(name: str) -> None:
    text = "case_id,goal\r\na,x\r\n" if name == "c.csv" else '[\r\n{"case_id": "a", "goal": "x"}\r\n]\r\n'
    (case,) = read_document(name, f"\ufeff{text}").require()
    assert ("a", "x") == (case.case_id, case.goal)


@pytest.mark.parametrize("name", ["c.jsonl", "c.json", "c.yaml", "c.csv", "c.txt"])
def test_an_empty_file_holds_no_cases(name: str) -> None:
    assert ((), ()) == (read_document(name, "\n").cases, read_document(name, "\n").problems)


def test_bytes_that_are_not_utf_8_are_reported(tmp_path: Path) -> None:
    (tmp_path / "wide.jsonl").write_bytes('{"case_id": "a"}'.encode("utf-16"))
    with raises(CaseError, snapshot("wide.jsonl: byte 0 is not UTF-8; save it as UTF-8")):
        read_cases(tmp_path / "wide.jsonl")


def test_a_file_that_no_person_wrote_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "MAX_FILE_BYTES", 1024 * 1024)
    (tmp_path / "big.jsonl").write_bytes(b" " * (1024 * 1024 + 1))
    with raises(TooLargeError, snapshot("big.jsonl: larger than 1 MiB; split it into several files")):
        read_cases(tmp_path / "big.jsonl")


def test_of_very_many_problems_the_first_are_reported() -> None:
    with pytest.raises(CaseError) as raised:
        read_document("c.jsonl", '{"case_id": 1}\n' * 1500).require()
    message = str(raised.value).split("\n")
    assert (len(message), message[-1]) == snapshot((1001, "… and 500 more problems"))


@given(
    text=st.text(max_size=60)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=4),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(KEYS),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    ).map(json.dumps),
    name=st.sampled_from(["c.jsonl", "c.json", "c.yaml", "c.csv", "c"]),
    form=st.none() | st.sampled_from(sorted(FORMATS.keys() - {"parquet"})),
)
def test_no_text_raises(text: str, name: str, form: str | None) -> None:
    result = read_document(name, text, form)
    assert all(problem.startswith(name) for problem in result.problems)
    assert all(case.case_id for case in result.cases)


@settings(max_examples=60)
@given(text=st.text(alphabet='ab,;"\n\r\t=01', max_size=40))
def test_no_table_raises(text: str) -> None:
    for body in (text, f"case_id,query,turn\n{text}", f"conversation_id,reward\n{text}"):
        read_document("c.csv", body)
        parse_labels("l.csv", body)
