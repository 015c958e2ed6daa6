"""`prompts show`: every prompt, by any name, word for word, and as JSON."""

from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot

from tests.cli.running import done, run
from tests.snapshots import opening, passage


def test_every_prompt_is_shown_with_version_digest_metrics_and_reply_and_what_stands_around_it() -> None:
    output = done("prompts", "show").out
    assert output.startswith("answer, version ")
    assert passage(output) == snapshot(
        "metrics: agentic.agentest.agent_behavior_failure\nreply: one of the labels no_failure, repetition, "
    )
    assert passage(output) == snapshot("reply: a score from 1 to 5")
    assert "failures.merge, version " in output
    assert passage(output) == snapshot("You are a strict and fair grader.")
    assert passage(output) == snapshot('human:\n<data NONCE>\n{"NAME": "TEXT", ...}\n</data NONCE>\n\n[the prompt]')


def test_a_metric_is_shown_with_each_message_and_schema_word_for_word() -> None:
    output = done("prompts", "show", "--metric", "helpfulness", "--full").out
    assert 3 == output.count('<data NONCE>\n{"NAME": "TEXT", ...}\n</data NONCE>\n\nGrade how far')
    assert 2 == output.count('"description": "From 1 to 5."')
    assert passage(output) == snapshot("schema, judge.method tool:")
    assert "schema, judge.method text:" not in output
    assert passage(output) == snapshot("Reply by calling the tool `verdict` once, with `reasoning` and `score`")


def test_the_same_as_json() -> None:
    (short,) = done("prompts", "show", "--metric", "goal_completion", "--format", "json").json
    (full,) = done("prompts", "show", "--metric", "goal_completion", "--full", "--format", "json").json
    assert ["metric", "metrics", "version", "digest", "source", "text", "reply"] == list(short)
    assert ("agentest.goal_completion", ["agentic.agentest.goal_completion"], "built-in") == (
        short["metric"],
        short["metrics"],
        short["source"],
    )
    assert {"kind": "label", "labels": ["completed", "not_completed"]} == short["reply"]
    assert short == {name: full[name] for name in short}
    assert ["structured", "tool", "text"] == list(full["ways"])
    assert all(full["text"] in way["human"] for way in full["ways"].values())
    assert full["ways"]["text"]["schema"] is None
    assert ["completed", "not_completed"] == full["ways"]["tool"]["schema"]["properties"]["label"]["enum"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mood", "no prompt and no metric 'mood'; allowed: a prompt (`otel-agentic prompts show` "),
        ("coherense", "no prompt and no metric 'coherense'; did you mean agentest.coherence? allowed: a prompt"),
        ("tool_call_f1", "tool_call_f1 asks no judge, so it has no prompt; those that do: "),
    ],
)
def test_a_name_that_has_no_prompt_ends_with_2_and_what_is_allowed(name: str, message: str) -> None:
    ran = run("prompts", "show", "--metric", name)
    assert (2, "") == (ran.code, ran.out)
    assert message in ran.err


def test_an_evaluator_of_ones_own_shows_its_prompts_and_a_users_file_stands_in_their_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = tmp_path / "checks.py"
    checks.write_text(
        "from otel_agentic import Turn, evaluator\n"
        "from otel_agentic.judges.base import ReplyForm, Rubric\n"
        "MOOD = Rubric(name='house.mood', version='4', instructions='Describe how `answer` sounds.',\n"
        "    form=ReplyForm(kind='label', labels=('calm', 'angry')))\n"
        "@evaluator(name='house.mood', rubrics=(MOOD,), labels=('calm', 'angry'))\n"
        "def mood(turn: Turn):\n    yield []\n",
        encoding="utf-8",
    )
    own = tmp_path / "own.md"
    own.write_text("---\nname: ragas.topics\nversion: 9\n---\nList the topics discussed.\n", encoding="utf-8")
    monkeypatch.setenv("OTEL_AGENTIC_JUDGE__PROMPT", str(own))

    mine = done("prompts", "show", "--evaluator", f"{checks}:mood", "--metric", "house.mood").out
    topics = done("prompts", "show", "--metric", "ragas.topics").out

    assert opening(mine) == snapshot("house.mood, version 4, digest ")
    assert passage(mine) == snapshot("Describe how `answer` sounds.")
    assert f", {own}\n" in topics.splitlines(keepends=True)[0]
    assert passage(topics) == snapshot("List the topics discussed.")


def test_a_users_file_for_a_prompt_that_is_not_there_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own.md"
    own.write_text("---\nname: agentest.helpfullness\n---\nBe kind.\n", encoding="utf-8")
    monkeypatch.setenv("OTEL_AGENTIC_JUDGE__PROMPT", str(own))
    ran = run("prompts", "show")
    assert 2 == ran.code
    assert passage(ran.err) == snapshot(
        "name: 'agentest.helpfullness'; allowed: answer, parameter, utilization, agentest."
    )
    assert ", agentest.helpfulness, " in ran.err
