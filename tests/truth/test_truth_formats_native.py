"""Cases in JSON, YAML and CSV: valid records are read, invalid ones reported."""

from __future__ import annotations

import textwrap

import pytest
from inline_snapshot import snapshot

from otel_agentic.errors import UsageError
from otel_agentic.truth.formats import FORMATS, Document, read_document, read_rows, write_document
from otel_agentic.truth.formats.base import record_of
from otel_agentic.truth.formats.table import CASE_COLUMNS, COLUMNS, TURN_COLUMNS
from otel_agentic.truth.model import Case, CaseTurn
from tests.snapshots import ending, opening, raises


def read(name: str, text: str, format_name: str | None = None) -> Document:
    return read_document(name, textwrap.dedent(text).strip("\n") + "\n", format_name)


def ids(document: Document) -> list[str]:
    return [case.case_id for case in document.cases]


def test_a_json_document_is_a_list_an_object_around_one_or_one_case() -> None:
    case = '{"case_id": "a"}'
    for text in (f"[{case}]", f'{{"cases": [{case}]}}', case):
        assert ["a"] == ids(read("cases.json", text))


def test_the_dataset_stands_around_the_cases_or_follows_from_the_file() -> None:
    assert "travel" == read("x.json", '{"cases": [{"case_id": "a"}], "dataset": "travel"}').cases[0].dataset
    assert "own" == read("x.yaml", "{dataset: travel, cases: [{case_id: a, dataset: own}]}").cases[0].dataset
    assert "x" == read("dir/x.v2.yaml", "case_id: a").cases[0].dataset


def test_the_look_decides_between_json_lines_and_a_document() -> None:
    lines, document = '{"case_id": "a"}\n{"case_id": "b"}', '[\n {"case_id": "a"},\n {"case_id": "b"}\n]'
    for name in ("cases.jsonl", "cases.json", "cases"):
        assert ["a", "b"] == ids(read_document(name, lines))
        assert ["a", "b"] == ids(read_document(name, document))


def test_problems_of_a_json_document_have_the_line_of_the_field() -> None:
    result = read(
        "c.json",
        """
        {
          "cases": [
            {"case_id": "a",
             "tools": {
               "calls": [
                 {"tool_name": "book",
                  "required": "no"}
               ]}},
            {"case_id": "b", "goal": 1,
             "goal": "x"},
            {"case_id": "ok"},
            {"case_id": "c", "outputs": [NaN]},
            {"case_id": "d",}
          ],
          "dataset": "x"
        }
        """,
    )
    assert ["ok"] == ids(result)
    assert result.problems == snapshot(
        (
            'c.json:7: tools.calls.0.required: found "no"; allowed: true or false',
            "c.json:10: goal: duplicate key 'goal'; keep one",
            "c.json:12: outputs.0: NaN is not JSON; leave the field out or give a number",
            "c.json:13: not JSON: Expecting property name enclosed in double quotes at column 21; nothing after it was read",
        )
    )


def test_fields_next_to_the_cases_are_checked_too() -> None:
    assert read("c.json", '{"cases": [{"case_id": "a"}],\n "colour": 1,\n "dataset": 3}').problems == snapshot(
        (
            "c.json:2: colour: unknown field next to the cases; allowed: cases, dataset, $schema",
            "c.json:3: dataset: found 3; allowed: a text that is not empty",
        )
    )
    assert read("c.yaml", "cases: [{case_id: a}]\ncolour: 1").problems == snapshot(
        ("c.yaml:2: colour: unknown field next to the cases; allowed: cases, dataset, $schema",)
    )


def test_a_duplicate_key_on_a_line_is_reported() -> None:
    assert read("c.jsonl", '{"case_id": "a", "tags": [], "tags": ["x"]}\n{"case_id": "b"}').problems == snapshot(
        ("c.jsonl:1: tags: duplicate key 'tags'; keep one",)
    )


def test_yaml_documents_hold_lists_objects_and_single_cases() -> None:
    result = read(
        "c.yaml",
        """
        - case_id: a
        - {case_id: b}
        ---
        case_id: c
        ---
        cases: [{case_id: d}]
        dataset: other
        ---
        """,
    )
    assert ["a", "b", "c", "d"] == ids(result)
    assert "other" == result.cases[-1].dataset


def test_a_plain_word_of_yaml_is_a_text_unless_json_knows_it() -> None:
    parameters = "{a: no, b: 007, c: 12:30, d: 2024-05-20, e: 1_000, f: 0x1f, g: .5, h: yes, i: +1, j: 'true'}"
    (case,) = read("c.yaml", f"case_id: 0123\nexpected_state: {parameters}").require()
    assert "0123" == case.case_id
    assert case.expected_state == {
        "a": "no",
        "b": "007",
        "c": "12:30",
        "d": "2024-05-20",
        "e": "1_000",
        "f": "0x1f",
        "g": ".5",
        "h": "yes",
        "i": "+1",
        "j": "true",
    }
    (case,) = read("c.yaml", "case_id: a\nexpected_state: {a: true, b: null, c: ~, d: 7, e: -1.5e3, f: }").require()
    assert {"a": True, "b": None, "c": None, "d": 7, "e": -1500.0, "f": None} == case.expected_state


def test_yaml_that_other_readers_take_otherwise_is_written_with_quotes() -> None:
    case = Case(case_id="007", dataset="no", goal="1e5", notes="two\nlines\n")
    text = write_document([case], "yaml").text
    assert text == snapshot("- case_id: '007'\n  dataset: 'no'\n  goal: '1e5'\n  notes: |\n    two\n    lines\n")


def test_problems_of_yaml_have_the_line_of_the_field() -> None:
    result = read(
        "c.yaml",
        """
        - case_id: a
          turns:
            - query: Hi
              anwser: Hello
        - case_id: b
          goal: x
          goal: y
        - case_id: c
          reviewed: no
        - just text
        - case_id: ok
        - case_id: d
          tags: !local [x]
          notes: !!int five
        """,
    )
    assert ["ok"] == ids(result)
    assert result.problems == snapshot(
        (
            'c.yaml:4: turns.0.anwser: unknown field, found "Hello"; allowed: answer, not_answer, query, reference_topics, tools',
            "c.yaml:7: goal: duplicate key 'goal'; keep one",
            'c.yaml:9: reviewed: found "no"; allowed: true or false',
            'c.yaml:10: a case is a JSON object, found "just text"',
            "c.yaml:13: tags: unknown tag !local; write plain YAML",
            "c.yaml:14: notes: 'five' does not have the type of its tag tag:yaml.org,2002:int",
        )
    )


def test_past_an_error_of_yaml_nothing_is_read_and_what_stands_before_is_kept() -> None:
    result = read("c.yaml", "- case_id: a\n- case_id: [b\n- case_id: c")
    assert ["a"] == ids(result)
    assert 1 == len(result.problems)
    assert result.problems[0].startswith("c.yaml:3: not YAML: ")
    assert ending(result.problems[0]) == snapshot("; nothing after it was read")


def test_an_alias_repeats_what_its_anchor_holds() -> None:
    result = read("c.yaml", "- {case_id: a, effects: &all {'*': read}}\n- {case_id: b, effects: *all}")
    assert [{"*": "read"}, {"*": "read"}] == [case.effects for case in result.require()]


def test_a_row_of_csv_is_a_turn_and_an_empty_cell_says_nothing() -> None:
    result = read(
        "c.csv",
        """
        case_id,turn,query,answer,turn_tools,tags,reviewed,minimum_steps,verdict,goal
        a,2,Bye,,,,,,,
        007,,"Hi, you","two
        lines","{""calls"": [{""tool_name"": ""x""}]}",one,FALSE,2.0,0.5,007
        a,1,Hi,Hello,,"[""x"", ""y""]",,,PASS,
        b,,,,,,,,,
        """,
    )
    assert [record_of(case) for case in result.require()] == [
        {
            "case_id": "a",
            "dataset": "c",
            "tags": ["x", "y"],
            "turns": [{"query": "Hi", "answer": "Hello"}, {"query": "Bye"}],
            "verdict": "pass",
        },
        {
            "case_id": "007",
            "dataset": "c",
            "tags": ["one"],
            "turns": [{"query": "Hi, you", "answer": "two\nlines", "tools": {"calls": [{"tool_name": "x"}]}}],
            "goal": "007",
            "minimum_steps": 2,
            "verdict": 0.5,
            "reviewed": False,
        },
        {"case_id": "b", "dataset": "c"},
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "case_id,turn_tools\na,{nope",
            "2: turn_tools: not JSON: Expecting property name enclosed in double quotes at column 2; found '{nope'",
        ),
        ('case_id,query,tags\na,x,\na,y,"[1]"', "3: tags.0: found 1; allowed: a text"),
        ("case_id,goal\na,x\na,y", "3: goal: differs from line 2; set it on one row of the case"),
        (
            "case_id,turn,query\na,1,x\na,1,y",
            "2: turn: found 1, 1; allowed: 1 to 2, each once, or no number on any row of the case",
        ),
        (
            "case_id,turn,query\na,1,x\na,,y",
            "2: turn: found 1, nothing; allowed: 1 to 2, each once, or no number on any row of the case",
        ),
        ("case_id,query\n,x", "2: case_id: empty; every row needs the case that it belongs to"),
        ("case_id,query\na,x,y", "2: 3 cells, but 2 columns in the header; quote a cell that contains a separator"),
        ("case_id,query,query\na,x,y", "1: query: duplicate column; keep one"),
        (
            'case_id,query\na,"x"y',
            "2: not readable as CSV: ',' expected after '\"'; quote cells according to RFC 4180; nothing after it was read",
        ),
        ("case_id,minimum_steps\na,1.5", "2: minimum_steps: found 1.5; allowed: a whole number"),
        ("case_id,reviewed\na,yes", '2: reviewed: found "yes"; allowed: true or false'),
        ('case_id,answer_threshold\na,"0,5"', '2: answer_threshold: found "0,5"; allowed: a number'),
        ('case_id,query,turn_tools\na,x,\na,y,"{""calls"": 1}"', "3: turn_tools.calls: found 1; allowed: a list"),
    ],
)
def test_an_invalid_csv_is_reported_with_line_and_column(text: str, problem: str) -> None:
    assert (f"c.csv:{problem}",) == read_document("c.csv", text).problems


def test_a_csv_without_case_ids_is_reported_with_the_missing_column() -> None:
    (problem,) = read_document("c.csv", "query,answer\nx,y\n", "csv").problems
    assert opening(problem) == snapshot(
        "c.csv:1: case_id: column missing, found query, answer; allowed: case_id, dataset, turn"
    )
    assert read_document("c.csv", "conversation_id,verdict\nx,pass\n", "csv").problems == snapshot(
        ("c.csv:1: these are labels of conversations, not cases; give the file as --labels",)
    )


def test_an_unknown_column_is_the_only_reported_problem() -> None:
    (problem,) = read_document("c.csv", "case_id,colour\na,red\n").problems
    assert opening(problem) == snapshot("c.csv:1: colour: unknown column; allowed: case_id, dataset, ")


def test_spreadsheets_that_separate_by_semicolon_or_tab_are_read() -> None:
    for separator in ";\t":
        assert ["a"] == ids(read_document("c.csv", f"\ufeffcase_id{separator}query\r\na{separator}x\r\n"))


def test_a_text_that_a_spreadsheet_takes_for_a_formula_is_hidden_and_comes_back() -> None:
    case = Case(case_id="=cmd", dataset="d", goal="'@x", notes="plain")
    text = write_document([case], "csv").text
    assert "case_id,dataset,goal,notes\n'=cmd,d,''@x,plain\n" == text
    assert (case,) == read_document("", text).cases


def test_typed_cells_of_a_table_are_taken_as_they_are() -> None:
    row = {"case_id": "a", "tags": ["x"], "minimum_steps": 3.0, "answer_threshold": float("nan"), "reviewed": False}
    nested = {"tools": {"calls": [{"tool_name": "t", "parameters": {"q": 1, "absent": None}, "step": None}]}}
    (case,) = read_rows("c.parquet", COLUMNS, [(1, {**row, **nested})]).require()
    assert record_of(case) == {
        "case_id": "a",
        "dataset": "c",
        "tags": ["x"],
        "tools": {"calls": [{"tool_name": "t", "parameters": {"q": 1}}]},
        "minimum_steps": 3,
        "reviewed": False,
    }


def test_problems_of_a_table_name_the_row() -> None:
    result = read_rows("c.parquet", COLUMNS, [(1, {"case_id": 7}), (2, {"case_id": "a", "goal": b"x"})])
    assert result.problems == snapshot(
        (
            "c.parquet:row 1: case_id: found 7; allowed: a text",
            "c.parquet:row 2: goal: found a value of type bytes; allowed: text, number, true or false, list, object",
        )
    )


def test_the_flat_layout_has_a_column_for_every_field() -> None:
    assert set(Case.model_fields) - {"turns"} == set(CASE_COLUMNS)
    assert set(CaseTurn.model_fields) == {field for field, _ in TURN_COLUMNS.values()}


def test_a_case_id_that_stands_twice_names_the_first_place() -> None:
    assert read("c.yaml", "- case_id: a\n- case_id: b\n- case_id: a").problems == snapshot(
        ("c.yaml:3: case_id: 'a' of dataset 'c' is already used on line 1; a case_id is unique within a dataset",)
    )


def test_a_shape_that_two_formats_have_is_asked_about() -> None:
    text = '{"case_id": "a", "user_input": "Hi"}'
    assert read("c.jsonl", text).problems == snapshot(
        ("c.jsonl: the records look like native and ragas; choose one with --file-format NAME",)
    )
    assert "ragas" == read("c.jsonl", text, "ragas").format


def test_a_format_that_does_not_exist_is_refused() -> None:
    with raises(UsageError, snapshot("unknown case format 'xml'; allowed: native, yaml, csv, parquet, fair-forge")):
        read("c.jsonl", "", "xml")
    with raises(UsageError, snapshot("c.jsonl: Parquet is not text; give the file itself, or its rows")):
        read("c.jsonl", "", "parquet")
    assert ["native", "yaml", "csv", "parquet", "fair-forge", "ragas", "outcome", "adk", "tau-bench"] == list(FORMATS)
