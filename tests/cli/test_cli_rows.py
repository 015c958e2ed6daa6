"""`evaluate --rows`: a RAGAS or NeMo Evaluator dataset from the command line, with a model that replies by a script."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from inline_snapshot import snapshot

from tests.cli.running import done, on_terminal, run
from tests.judges.models import fields_of
from tests.judges.openai_server import OpenAIServer, ServerReply, completed, error
from tests.snapshots import passage

JUDGE = ("--judge", "langchain:openai:scripted")
#: NeMo's form of messages, OpenAI's form, single questions, a row without an agent.
ROWS: list[dict[str, Any]] = [
    {
        "user_input": [
            {"type": "human", "content": "Book a table at the best Chinese restaurant for 8pm"},
            {
                "type": "ai",
                "content": "Let me look.",
                "tool_calls": [{"name": "restaurant_search", "args": {"cuisine": "Chinese", "time": "20:00"}}],
            },
            {"type": "tool", "content": '[{"name": "Golden Dragon"}]'},
            {
                "type": "ai",
                "content": "",
                "tool_calls": [{"name": "restaurant_book", "args": {"name": "Golden Dragon", "time": "20:00"}}],
            },
            {"type": "tool", "content": "Table booked."},
            {"type": "ai", "content": "Your table at Golden Dragon is booked for 8pm."},
        ],
        "reference": "A table is booked at any Chinese restaurant for 8pm.",
        "reference_tool_calls": [
            {"name": "restaurant_search", "args": {"cuisine": "Chinese", "time": "20:00"}},
            {"name": "restaurant_book", "args": {"name": "Golden Dragon", "time": "20:00"}},
        ],
        "reference_topics": ["restaurants"],
    },
    {
        "user_input": [
            {"role": "user", "content": "Weather in Rome?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "weather", "arguments": '{"city": "Rome", "unit": "F"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
            {"role": "assistant", "content": "Sunny."},
        ],
        "reference": "The weather in Rome was reported.",
        "reference_tool_calls": [{"name": "weather", "args": {"city": "Rome"}}],
    },
    {"user_input": "Capital of France?", "response": "Lyon", "reference": "Paris", "retrieved_contexts": ["France …"]},
    {"user_input": "Capital of Spain?", "reference": "Madrid"},
]


def write(path: Path, *rows: Any) -> Path:
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return write(tmp_path / "set.jsonl", *ROWS)


def reply_of(data: dict[str, Any]) -> str:
    """Return the reply of a good judge: the wrong capital disagrees, all goals are reached, all topics are answered."""
    if "reference" in data or "second" in data:
        agrees = (data.get("answer") or data["first"]) == (data.get("reference") or data.get("second"))
        return json.dumps({"reasoning": "Lyon is not Paris.", "label": "agrees" if agrees else "disagrees"})
    if "reference_topics" in data:
        return json.dumps({"reasoning": "It is one.", "label": "within"})
    if "topic" in data:
        return json.dumps({"reasoning": "It was taken up.", "label": "answered"})
    if "goal" in data:
        return json.dumps({"reasoning": "It is so.", "label": "achieved"})
    return json.dumps({"reasoning": "Found.", "texts": ["a table"]})


def answered(request: dict[str, Any], text: str) -> ServerReply:
    """Return a text in the way that was asked for."""
    if "response_format" in request or "tools" not in request:
        return completed(text)
    call = {"id": "call-1", "type": "function", "function": {"name": "verdict", "arguments": text}}
    return completed(tool_calls=[call], finish_reason="tool_calls")


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., OpenAIServer]]:
    """Start a model's server that replies by a script, and point the judge at it."""
    servers: list[OpenAIServer] = []

    def start(reply: Callable[[dict[str, Any]], str | ServerReply] = reply_of) -> OpenAIServer:
        def play(request: dict[str, Any], _: int) -> ServerReply:
            output = reply(fields_of(request["messages"][-1]["content"]))
            if isinstance(output, ServerReply):
                return output
            fields = request["response_format"]["json_schema"]["schema"]["properties"]
            if "reasoning" not in fields:  # a panel
                reasoning, verdict = json.loads(output).values()
                output = json.dumps({name: reasoning if name.endswith("_why") else verdict for name in fields})
            return answered(request, output)

        server = OpenAIServer(play)
        servers.append(server)
        options = {"base_url": server.base_url, "api_key": "none"}
        monkeypatch.setenv("OTEL_AGENTIC_JUDGE__MODEL_OPTIONS", json.dumps(options))
        monkeypatch.setenv("OTEL_AGENTIC_JUDGE__TRIES", "1")
        monkeypatch.setenv("OTEL_AGENTIC_JUDGE__SANITY_CHECK", "false")
        return server

    yield start
    for server in servers:
        server.__exit__()


def by_row(output: dict[str, Any], metric: str) -> list[tuple[str, float | None, str | None]]:
    return [
        (row["row"], score["value"], score["reason"])
        for row in output["rows"]
        for score in row["scores"]
        if score["name"] == f"agentic.ragas.{metric}"
    ]


def test_rows_need_neither_a_store_nor_a_model(dataset: Path, tmp_path: Path) -> None:
    result = done("evaluate", "--rows", dataset, "--format", "json").json

    # Row 2: one of two keys agrees. Rows 3 and 4 expect nothing of tools.
    assert [
        ("row-1", 1.0, None),
        ("row-2", 0.5, None),
        ("row-3", None, "no_data"),
        ("row-4", None, "no_data"),
    ] == by_row(result, "tool_call_accuracy")
    assert [1.0, 0.0, None, None] == [value for _, value, _ in by_row(result, "tool_call_f1")]
    assert [(str(dataset), line) for line in (1, 2, 3, 4)] == [(row["file"], row["line"]) for row in result["rows"]]
    accuracy = next(metric for metric in result["metrics"] if metric["name"] == "agentic.ragas.tool_call_accuracy")
    assert (2, 0.75, {"no_data": 2}) == (accuracy["n"], accuracy["mean"], accuracy["not_evaluated"])
    assert {"retrieved_contexts": 1} == result["left_out"]
    assert "agentic.ragas.goal_accuracy" in result["metrics_left_out"]
    assert [dataset] == list(tmp_path.iterdir())


def test_a_table_of_means_says_why_rows_have_no_score_and_what_was_left_out(dataset: Path) -> None:
    lines = on_terminal(140, "evaluate", "--rows", dataset)
    output = " ".join(" ".join(lines).split())

    assert lines[0].startswith("4 rows of ")
    row = next(line for line in lines if line.startswith("ragas.tool_call_accuracy "))
    assert ["2", "0.75", "2", "no_data"] == row.split()[1:]
    assert "as in" in output
    assert passage(output) == snapshot("set.jsonl:3: case 'row-3' does not annotate the expected tool calls")
    assert passage(output) == snapshot("retrieved_contexts in 1 row is not used by any of these metrics")
    assert passage(output) == snapshot("skipped (needs an LLM judge): ragas.answer_accuracy")


def test_a_model_judges_the_rest_of_the_family(dataset: Path, serve: Callable[..., OpenAIServer]) -> None:
    server = serve()
    result = done("evaluate", "--rows", dataset, *JUDGE, "--format", "json").json

    assert [("row-1", 1.0, None), ("row-2", 1.0, None)] == by_row(result, "goal_accuracy")[:2]
    assert ["no_data", "no_data"] == [reason for _, _, reason in by_row(result, "goal_accuracy")[2:]]
    assert [("row-3", 0.0, None), ("row-4", None, "no_data")] == by_row(result, "answer_accuracy")[2:]
    assert [1.0, None, None, None] == [value for _, value, _ in by_row(result, "topic_adherence_f1")]
    assert [1.0, 1.0, 1.0, None] == [value for _, value, _ in by_row(result, "goal_accuracy_without_reference")]
    assert [] == result["metrics_left_out"]
    # Goals 2; goal and end state of 3 rows in a call each, one with the topics; one comparison, since all are equal; answers 2;
    # one topic, answered and allowed, 2. Without panels 4 more.
    assert (10, 10) == (result["judge"]["calls"], len(server.requests))
    assert ["scripted"] == result["judge"]["models"]


def test_one_metric_asks_no_more_than_it_needs(dataset: Path, serve: Callable[..., OpenAIServer]) -> None:
    server = serve()
    result = done("evaluate", "--rows", dataset, *JUDGE, "--metrics", "goal_accuracy", "--format", "json").json
    assert {"agentic.ragas.goal_accuracy"} == {score["name"] for row in result["rows"] for score in row["scores"]}
    assert 2 == len(server.requests)


def test_a_judge_that_fails_gives_no_score_and_is_reported(dataset: Path, serve: Callable[..., OpenAIServer]) -> None:
    serve(lambda data: error(400, "no such model") if "second" in data or "goal" in data else reply_of(data))
    result = done("evaluate", "--rows", dataset, *JUDGE, "--format", "json").json
    lines = " ".join(done("evaluate", "--rows", dataset, *JUDGE).out.split())

    assert ("row-3", None, "judge_error") in by_row(result, "answer_accuracy")
    assert {None} == {value for _, value, _ in by_row(result, "goal_accuracy")}
    assert "judge_error" in lines
    assert passage(lines) == snapshot("the judge failed on")


def test_a_metric_that_needs_a_model_is_refused_where_the_judge_asks_none(dataset: Path) -> None:
    ran = run("evaluate", "--rows", dataset, "--metrics", "goal_accuracy")
    assert 2 == ran.code
    assert passage(ran.err) == snapshot("--judge langchain:openai:gpt-5-mini")


def test_bad_rows_are_reported_with_file_and_line_and_nothing_is_evaluated(tmp_path: Path, dataset: Path) -> None:
    bad = write(tmp_path / "bad.jsonl", ROWS[0], "{nope", {"user_input": [{"role": "robot", "content": "x"}]})
    ran = run("evaluate", "--rows", dataset, "--rows", bad)

    assert (3, "") == (ran.code, ran.out)
    assert passage(ran.err) == snapshot("bad.jsonl:2: not JSON")
    assert passage(ran.err) == snapshot("bad.jsonl:3: user_input.0: found type or role 'robot'")


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (("--cases", "x.jsonl"), 2, "--rows with --cases: rows contain their own references"),
        (("--no-fuzzy",), 2, "--rows with --fuzzy"),
        (("--force", "--agent", "a*"), 2, "--rows with --agent, --force"),
        (("--metrics", "unknown"), 2, "no metric 'unknown'"),
    ],
)
def test_what_means_nothing_for_rows_is_refused(dataset: Path, more: tuple[str, ...], code: int, message: str) -> None:
    ran = run("evaluate", "--rows", dataset, *more)
    assert code == ran.code
    assert message in ran.err


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    ran = run("evaluate", "--rows", tmp_path / "none.jsonl")
    assert 2 == ran.code
    assert passage(ran.err) == snapshot("none.jsonl: No such file or directory")


def test_with_a_store_rows_are_kept_as_conversations_and_evaluated_there(dataset: Path, tmp_path: Path) -> None:
    db = tmp_path / "t.duckdb"
    first = done("evaluate", "--rows", dataset, "--db", db)
    again = done("evaluate", "--rows", dataset, "--db", db)
    changed = [*ROWS[:2], {**ROWS[2], "response": "Paris"}]
    write(dataset, *changed)
    third = done("evaluate", "--rows", dataset, "--db", db)

    assert passage(first.out) == snapshot(
        "3 rows stored as conversations, 3 of them new or changed; 1 row without agent data skipped"
    )
    assert passage(again.out) == snapshot("3 rows stored as conversations, 0 of them new or changed")
    assert "nothing to score" in again.out
    assert passage(third.out) == snapshot("3 rows stored as conversations, 1 of them new or changed")
    ran = done(
        "query", "SELECT conversation_id, case_id FROM v_conversations ORDER BY ALL", "--db", db, "--format", "json"
    )
    assert [{"conversation_id": f"set/row-{n}", "case_id": f"set/row-{n}"} for n in (1, 2, 3)] == ran.json
    scores = done(
        "query",
        "SELECT conversation_id, value FROM scores WHERE name = 'agentic.ragas.tool_call_accuracy' "
        "AND reason IS NULL AND NOT superseded ORDER BY ALL",
        "--db",
        db,
        "--format",
        "json",
    ).json
    assert [("set/row-1", 1.0), ("set/row-2", 0.5)] == [(row["conversation_id"], row["value"]) for row in scores]


def test_rows_of_the_same_name_in_two_files_are_two_conversations(dataset: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "other.jsonl", {**ROWS[2], "reference": "Lyon"})
    db = tmp_path / "t.duckdb"
    done("evaluate", "--rows", dataset, "--rows", other, "--db", db)
    ran = done(
        "query", "SELECT conversation_id, outcome FROM v_conversations ORDER BY ALL", "--db", db, "--format", "json"
    )
    assert {"set/row-3": "fail", "other/row-1": "pass"}.items() <= {
        row["conversation_id"]: row["outcome"] for row in ran.json
    }.items()


def test_rows_of_two_files_that_would_be_one_conversation_are_refused(dataset: Path, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    other = write(tmp_path / "b" / "set.jsonl", {**ROWS[2], "reference": "Lyon"})
    db = tmp_path / "t.duckdb"
    ran = run("evaluate", "--rows", dataset, "--rows", other, "--db", db)
    assert 3 == ran.code
    assert passage(ran.err, other=other, dataset=dataset) == snapshot(
        "<other>:1: row 'set/row-1' already exists at <dataset>:1; rename one of the files"
    )


def test_datasets_and_ids_with_slashes_make_no_two_rows_one(tmp_path: Path) -> None:
    rows = [{**ROWS[2], "dataset": "a", "id": "b/c"}, {**ROWS[2], "dataset": "a/b", "id": "c"}]
    ran = run("evaluate", "--rows", write(tmp_path / "set.jsonl", *rows), "--db", tmp_path / "t.duckdb")
    assert passage(ran.err) == snapshot("set.jsonl:2: row 'a/b/c' already exists at")


def test_every_row_is_kept_with_any_id(tmp_path: Path) -> None:
    rows = [{**ROWS[2], "id": name} for name in ("a", "a", "a#2")]
    db = tmp_path / "t.duckdb"
    done("evaluate", "--rows", write(tmp_path / "set.jsonl", *rows), "--db", db)
    result = done("query", "SELECT count(*) AS kept FROM v_conversations", "--db", db, "--format", "json").json
    assert [{"kept": 3}] == result


def test_conversations_that_could_not_be_evaluated_are_not_reported_as_free_of_failures(tmp_path: Path) -> None:
    db = tmp_path / "t.duckdb"
    done("evaluate", "--rows", write(tmp_path / "set.jsonl", {"user_input": "Hi", "response": "Hello"}), "--db", db)
    assert done("failures", "--db", db).out == snapshot("no failures in 1 scored conversation (1 not evaluated)\n")


def test_tables_as_ragas_writes_them_are_read_too(tmp_path: Path) -> None:
    """A list in a cell is in Python's spelling in CSV; in Parquet, cells are typed."""
    table = tmp_path / "set.csv"
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["user_input", "reference_tool_calls"])
        writer.writeheader()
        for row in ROWS[:2]:
            writer.writerow({name: repr(row[name]) for name in writer.fieldnames})
    columns = tmp_path / "set.parquet"
    source = tmp_path / "source.jsonl"
    write(source, *({name: row[name] for name in ("user_input", "reference_tool_calls")} for row in ROWS[:1]))
    duckdb.sql(f"COPY (SELECT * FROM read_json('{source}')) TO '{columns}' (FORMAT parquet)")  # noqa: S608 — our own paths

    result = done("evaluate", "--rows", table, "--rows", columns, "--format", "json").json
    assert [1.0, 0.5, 1.0] == [value for _, value, _ in by_row(result, "tool_call_accuracy")]
    assert [(str(table), 2), (str(table), 3), (str(columns), 1)] == [
        (row["file"], row["line"]) for row in result["rows"]
    ]


def test_evaluators_of_ones_own_run_on_rows(dataset: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text(_OWN, encoding="utf-8")
    both = done("evaluate", "--rows", dataset, "--evaluator", f"{own}:Length", "--format", "json").json
    alone = done(
        "evaluate", "--rows", dataset, "--metrics", "none", "--evaluator", f"{own}:Length", "--format", "json"
    ).json

    names = {score["name"] for row in both["rows"] for score in row["scores"]}
    assert {"house.length", "agentic.ragas.tool_call_f1"} <= names
    # "Your table at Golden Dragon is booked for 8pm.", "Sunny.", "Lyon", and a row without an agent.
    assert [46.0, 6.0, 4.0, None] == [row["scores"][0]["value"] for row in alone["rows"]]


_OWN = """
from otel_agentic.evaluators import Metric, MetricScore


class Length:
    name = "house.length"
    version = "1"
    metrics = (
        Metric(name="house.length", title="length", definition="Characters.", source="us", target="conversation", high=None),
    )
    needs = frozenset({"turns"})
    default = False

    @classmethod
    def from_settings(cls, settings):
        return cls()

    def evaluate(self, subject):
        value = sum(len(turn.answer or "") for turn in subject.conversation.turns)
        return [MetricScore(name="house.length", value=float(value), explanation="counted")]
"""


def test_what_a_row_says_steers_no_terminal(tmp_path: Path) -> None:
    row = {**ROWS[2], "id": "\x1b[31mred\u202e", "\x1b[2Jodd": "x"}
    lines = on_terminal(120, "evaluate", "--rows", write(tmp_path / "set.jsonl", row))
    output = done("evaluate", "--rows", tmp_path / "set.jsonl", "--format", "json").out
    assert not {"\x1b", "\u202e"} & set("".join(lines))
    assert not {"\x1b", "\u202e"} & set(output)


def test_a_secret_in_a_row_is_shown_to_no_judge(tmp_path: Path, serve: Callable[..., OpenAIServer]) -> None:
    secret = "sk-proj-" + "a1B2" * 12
    row = {"user_input": f"My key is {secret}", "response": f"Keep {secret} safe", "reference": "Keep it safe"}
    server = serve()
    ran = done("evaluate", "--rows", write(tmp_path / "set.jsonl", row), *JUDGE, "--format", "json")

    assert server.requests
    assert secret not in json.dumps(server.requests)
    assert secret not in ran.out


def session(number: int, *answers: str, expected: tuple[str, ...] = ("Paris", "Madrid")) -> dict[str, Any]:
    """Return a Fair Forge session with a turn per answer."""
    call = {"tool_name": "atlas", "parameters": {}, "step": 1}
    turns = [
        {
            "qa_id": f"q{index}",
            "query": f"Question {index}?",
            "assistant": answer,
            "ground_truth_assistant": right,
            "agentic": {"tools_used": [call]},
            "ground_truth_agentic": {"expected_tools": [call]},
        }
        for index, (answer, right) in enumerate(zip(answers, expected, strict=True))
    ]
    return {"session_id": f"s{number}", "assistant_id": "guide", "context": "", "conversation": turns}


def test_sessions_of_fair_forge_are_rows(tmp_path: Path) -> None:
    other = session(3, "Rome", "Oslo", expected=("Rome", "Oslo"))
    path = tmp_path / "paper.json"
    sessions = [session(1, "Paris", "Madrid"), session(2, "Lyon", "Madrid"), other]
    path.write_text(json.dumps(sessions), encoding="utf-8")
    result = done("evaluate", "--rows", path, "--format", "json").json
    assert by_row(result, "tool_call_f1") == [("s1", 1.0, None), ("s2", 1.0, None), ("s3", 1.0, None)]

    store = tmp_path / "new.duckdb"
    stored = done("evaluate", "--rows", path, "--db", store, "--metrics", "none", "--format", "json").json
    assert (stored["outcomes"], stored["cases"]) == (
        {"pass": 2, "fail": 1},
        2,
    )  # two attempts at one case, one at another


def test_files_without_agent_output_are_refused_with_the_option_that_takes_them(tmp_path: Path) -> None:
    cases = write(tmp_path / "cases.jsonl", {"case_id": "c1", "turns": [{"query": "Capital?", "answer": "Paris"}]})
    others = write(tmp_path / "others.jsonl", {"question": "Capital?", "answer": "Paris"})
    for path, start in (
        (cases, "contains cases (native) without the agent's output; pass it with --cases"),
        (others, "rows are RAGAS or NeMo Evaluator rows (with `user_input`), or Fair Forge sessions"),
    ):
        refused = run("evaluate", "--rows", path)
        assert refused.code == 3
        assert f"{path}: {start}" in refused.err


def test_a_judge_that_cannot_judge_stops_the_run_before_the_first_row(
    dataset: Path, tmp_path: Path, serve: Callable[..., OpenAIServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(lambda _: error(404, "no such model"))
    monkeypatch.setenv("OTEL_AGENTIC_JUDGE__SANITY_CHECK", "true")
    in_store = ("--db", tmp_path / "t.duckdb")
    for number, options in enumerate(((), in_store), start=1):
        refused = run("evaluate", "--rows", dataset, *JUDGE, *options)
        assert (refused.code, len(server.requests)) == (5, number)
        assert "no verdict on a test question, so nothing was evaluated" in refused.err
    assert run("evaluate", "--rows", dataset, "--metrics", "tool_call_f1", *JUDGE).code == 0  # asks no model


def test_a_task_of_nemo_without_a_judge_is_named_and_its_configuration_is_not_for_a_store(
    dataset: Path, tmp_path: Path
) -> None:
    config = tmp_path / "nemo.json"
    config.write_text(json.dumps({"type": "agentic", "tasks": {"first": {"type": "answer_accuracy"}}}))
    ran = run("evaluate", "--rows", dataset, "--config", config)
    assert 2 == ran.code
    assert passage(ran.err) == snapshot("tasks.first: an LLM judge is needed for")

    stored = run("evaluate", "--rows", dataset, "--config", config, "--db", tmp_path / "t.duckdb")
    assert 2 == stored.code
    assert passage(stored.err) == snapshot("JSON of NeMo Evaluator is for `evaluate --rows` without --db")
