"""Configurations of NeMo Evaluator on rows, with a model that replies by a script."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from otel_agentic.api.nemo import evaluate_tasks, nemo_json, read_nemo_config
from otel_agentic.errors import ConfigError, UsageError
from tests.cli.running import done, run
from tests.judges.openai_server import OpenAIServer, ServerReply, completed, obliging

ROW = {
    "user_input": [
        {"type": "human", "content": "Weather in Rome?"},
        {"type": "ai", "content": "", "tool_calls": [{"name": "weather", "args": {"city": "Rome"}}]},
        {"type": "tool", "content": "sunny"},
        {"type": "ai", "content": "Sunny."},
    ],
    "reference": "The weather in Rome was reported.",
    "reference_tool_calls": [{"name": "weather", "args": {"city": "Rome"}}],
    "reference_topics": ["weather"],
}


def config(path: Path, **tasks: Any) -> Path:
    content = {"type": "agentic", "name": "c", "namespace": "n", "tasks": tasks}
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(ROW) + "\n", encoding="utf-8")
    return path


def conforming(request: dict[str, Any], _: int) -> ServerReply:
    """Return the best score or the first label that the schema of the request allows."""
    properties = request["response_format"]["json_schema"]["schema"]["properties"]
    (field,) = set(properties) - {"reasoning"}
    if field == "score":
        return obliging(request)
    value = properties[field]["enum"][0] if field == "label" else ["the weather"]
    return completed(json.dumps({"reasoning": "So it is.", field: value}))


def judge_of(url: str, **parameters: Any) -> dict[str, Any]:
    return {"model": {"url": url, "model_id": "small", "api_key": "none"}, **parameters}


@pytest.mark.parametrize(
    ("task", "name", "metric"),
    [
        ({"type": "topic_adherence"}, "topic_adherence(mode=f1)", "ragas.topic_adherence_f1"),
        (
            {"type": "topic_adherence", "params": {"metric_mode": "recall"}},
            "topic_adherence(mode=recall)",
            "ragas.topic_adherence_recall",
        ),
        ({"type": "agent-goal-accuracy"}, "agent_goal_accuracy", "ragas.goal_accuracy"),
        (
            {"type": "agent_goal_accuracy", "params": {"use_reference": False}},
            "agent_goal_accuracy",
            "ragas.goal_accuracy_without_reference",
        ),
        ({"type": "tool_call_accuracy"}, "tool_call_accuracy", "ragas.tool_call_accuracy"),
    ],
)
def test_the_type_of_a_task_is_a_metric(tmp_path: Path, task: dict[str, Any], name: str, metric: str) -> None:
    (read,) = read_nemo_config(config(tmp_path / "nemo.json", task1=task)).tasks
    assert (read.name, read.metric_name, read.metric) == ("task1", name, metric)


ENDPOINT = {"url": "http://nim:8000/v1/chat/completions", "model_id": "meta/llama"}


@pytest.mark.parametrize(
    "params",
    [
        {"judge": {"model": ENDPOINT}},
        {"judge": {"model": {"url": ENDPOINT["url"], "name": "meta/llama"}}},
        {"judge": {"model": {"api_endpoint": ENDPOINT, "format": "nim"}}},
    ],
)
def test_a_judge_is_a_model_behind_an_address(tmp_path: Path, params: dict[str, Any]) -> None:
    path = config(tmp_path / "nemo.json", task1={"type": "topic_adherence", "params": params})
    (task,) = read_nemo_config(path).tasks
    assert task.settings.scoring.judge == "langchain:openai:meta/llama"
    assert task.settings.judge.model_options["base_url"] == "http://nim:8000/v1"


@pytest.mark.parametrize("level", ["judge", "params", "extra"])
def test_parameters_of_the_judge_are_settings(tmp_path: Path, level: str) -> None:
    calls = {"temperature": 0.1, "max_tokens": 1024, "max_retries": 2, "request_timeout": 10}
    run_parameters = {"judge_sanity_check": False, "max_workers": 4}
    params: dict[str, Any] = {"judge": {"model": ENDPOINT, "inference_params": calls}}
    if level == "judge":
        params["judge"] |= run_parameters
    else:
        params |= run_parameters if level == "params" else {"extra": run_parameters}
    (task,) = read_nemo_config(config(tmp_path / "n.json", t={"type": "topic_adherence", "params": params})).tasks
    judge = task.settings.judge
    assert (judge.tries, judge.timeout_s, judge.concurrency, judge.sanity_check) == (3, 10.0, 4, False)
    assert {"temperature": 0.1, "max_tokens": 1024}.items() <= judge.model_options.items()


def test_a_key_may_be_named_by_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = {"model": {**ENDPOINT, "api_key_name": "JUDGE_KEY"}}
    path = config(tmp_path / "n.json", t={"type": "topic_adherence", "params": {"judge": judge}})
    with pytest.raises(UsageError, match="the environment variable JUDGE_KEY with its key is not set"):
        read_nemo_config(path)
    monkeypatch.setenv("JUDGE_KEY", "secret")
    assert read_nemo_config(path).tasks[0].settings.judge.model_options["api_key"] == "secret"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not a NeMo Evaluator configuration: Expecting"),
        ('{"a": 1}', "tasks: Field required; a configuration has `tasks`"),
        (
            '{"tasks": {"t": {"type": "topic_adherence", "params": {"metric_mode": "f2"}}}}',
            "tasks.t.params.metric_mode",
        ),
        (
            '{"tasks": {"t": {"type": "trajectory_evaluation"}}}',
            "tasks.t.type: 'trajectory_evaluation' is not available",
        ),
    ],
)
def test_an_invalid_configuration_is_refused_with_its_field(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "nemo.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises((ConfigError, UsageError)) as refused:
        read_nemo_config(path)
    assert message in str(refused.value)


def test_a_single_task_needs_no_list_of_tasks(tmp_path: Path) -> None:
    path = tmp_path / "nemo.json"
    path.write_text(json.dumps({"type": "tool_call_accuracy"}), encoding="utf-8")
    assert [task.name for task in read_nemo_config(path).tasks] == ["task1"]


def test_tasks_are_evaluated_and_reported_in_the_shape_of_nemo(tmp_path: Path, rows: Path) -> None:
    with OpenAIServer(conforming) as server:
        judge = judge_of(server.base_url)
        path = config(
            tmp_path / "nemo.json",
            topics={"type": "topic_adherence", "params": {"judge": judge}},
            goals={"type": "agent_goal_accuracy_with_reference", "params": {"judge": judge}},
            tools={"type": "tool_call_accuracy"},
        )
        read = read_nemo_config(path)
        results = evaluate_tasks(read, [rows])
        questions = [request["messages"][-1]["content"] for request in server.requests]
    output = nemo_json([(task.name, task.metric_name, results[task.name]) for task in read.tasks])["tasks"]
    assert [
        output[task]["metrics"][metric]["scores"][metric]["value"]
        for task, metric in (
            ("topics", "topic_adherence(mode=f1)"),
            ("goals", "agent_goal_accuracy_with_reference"),
            ("tools", "tool_call_accuracy"),
        )
    ] == [1.0, 1.0, 1.0]
    assert sum("capital of France" in question for question in questions) == 1  # one test question for one model


def test_the_command_line_takes_a_configuration_for_rows(tmp_path: Path, rows: Path) -> None:
    path = config(tmp_path / "nemo.json", tools={"type": "tool_call_accuracy", "unknown": 1})
    printed = done("evaluate", "--rows", rows, "--config", path).out
    assert "tools (tool_call_accuracy), judge exact" in printed
    assert "tasks.tools.unknown is not used" in " ".join(printed.split())
    assert done("evaluate", "--rows", rows, "--config", path, "--format", "nemo").json == {
        "tasks": {
            "tools": {
                "metrics": {
                    "tool_call_accuracy": {
                        "scores": {"tool_call_accuracy": {"value": 1.0, "stats": {"count": 1, "mean": 1.0}}}
                    }
                }
            }
        }
    }
    assert list(done("evaluate", "--rows", rows, "--config", path, "--format", "json").json["tasks"]) == ["tools"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--rows", "ROWS", "--config", "CONFIG", "--metrics", "ragas"), "the tasks of a NeMo Evaluator configuration"),
        (("--db", "x.duckdb", "--format", "nemo"), "--format nemo: only for --rows without --db"),
        (("--rows", "ROWS", "--db", "x.duckdb", "--format", "nemo"), "--format nemo: only for --rows without --db"),
    ],
)
def test_what_a_configuration_excludes_is_refused(
    tmp_path: Path, rows: Path, options: tuple[str, ...], message: str
) -> None:
    paths = {"ROWS": rows, "CONFIG": config(tmp_path / "nemo.json", t={"type": "tool_call_accuracy"})}
    refused = run("evaluate", *(paths.get(option, option) for option in options))
    assert refused.code == 2
    assert message in refused.err
