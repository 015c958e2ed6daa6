"""The active prompts: shown verbatim as they are sent, found by any name, and replaced by a user's own."""

from __future__ import annotations

from pathlib import Path
from typing import Final, get_args

import pytest
from inline_snapshot import snapshot

from otel_agentic.config import EvaluatorSettings, JudgeSettings
from otel_agentic.errors import UsageError
from otel_agentic.evaluators.base import asks
from otel_agentic.evaluators.custom import evaluator_of
from otel_agentic.evaluators.prompts import (
    MATERIAL,
    NONCE,
    SYSTEM_MESSAGE,
    Prompted,
    built_in_prompts,
    merge_prompt,
    prompts_named,
    prompts_of,
)
from otel_agentic.evaluators.registry import all_evaluators
from otel_agentic.judges import LangChainJudge, Question, prompt_texts
from otel_agentic.judges.base import rubric_question
from otel_agentic.judges.messages import Way, messages
from otel_agentic.judges.prompts import KINDS
from tests.judges.models import Bare, verdict
from tests.snapshots import raises

EVALUATORS: Final = all_evaluators(EvaluatorSettings())
OWN: Final = prompt_texts()
RUBRICS: Final = {rubric.name: rubric for evaluator in EVALUATORS if asks(evaluator) for rubric in evaluator.rubrics}


@pytest.mark.parametrize("way", get_args(Way))
def test_what_is_shown_is_what_is_sent_but_for_material_and_marks(way: Way) -> None:
    questions = {name: rubric_question(rubric, text="{}") for name, rubric in RUBRICS.items()}
    questions |= {kind: Question(query="", expected="", answer="", threshold=0.0, kind=kind) for kind in KINDS}
    every = {item.name: item for item in (*built_in_prompts(OWN), *prompts_of(EVALUATORS, OWN))}
    assert set(questions) == set(every)
    for name, question in questions.items():
        instructions = every[name].text
        (_, system), (_, human) = messages(question, instructions, way, max_characters=9, nonce=lambda: NONCE)
        _, block, rest = human.split("\n", 2)
        assert (SYSTEM_MESSAGE, every[name].human(way)) == (system, human.replace(block, MATERIAL, 1))
        assert rest.startswith(f"</data {NONCE}>\n\n{instructions}")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("answer", ["answer"]),
        ("failures.merge", ["failures.merge"]),
        ("agentest.missing_tool_call", ["agentest.missing_tool_call"]),
        ("agentic.agentest.helpfulness", ["agentest.helpfulness"]),
        ("helpfulness", ["agentest.helpfulness"]),
        ("tool_call_behavior_failure", ["agentest.missing_tool_call", "agentest.tool_call"]),
        ("topic_adherence_recall", ["ragas.topic_allowed", "ragas.topic_answered", "ragas.topics"]),
        ("ragas.topic_adherence", ["ragas.topic_allowed", "ragas.topic_answered", "ragas.topics"]),
    ],
)
def test_prompts_are_found_by_the_names_of_what_asks_with_them(name: str, expected: list[str]) -> None:
    assert expected == [item.name for item in prompts_named(name, EVALUATORS, OWN)]


def test_a_family_means_all_of_its_prompts_and_a_prompt_tells_its_metrics() -> None:
    results = prompts_named("ragas", EVALUATORS, OWN)
    assert {name for name in RUBRICS if name.startswith("ragas.")} == {result.name for result in results}
    topics = next(result for result in results if result.name == "ragas.topics")
    assert {f"agentic.ragas.topic_adherence_{mode}" for mode in ("precision", "recall", "f1")} == set(topics.metrics)
    assert "built-in" == topics.source
    assert () == merge_prompt(OWN).metrics


def test_computed_metrics_and_unknown_names_are_refused_with_the_allowed_names() -> None:
    with raises(UsageError, snapshot("tool_call_f1 asks no judge, so it has no prompt; those that do: agentic.")):
        prompts_named("tool_call_f1", EVALUATORS, OWN)
    with raises(
        UsageError,
        snapshot("no prompt and no metric 'mood'; allowed: a prompt (`otel-agentic prompts show`"),
    ):
        prompts_named("mood", EVALUATORS, OWN)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.md"
    path.write_text("---\nname: agentest.helpfulness\nversion: ours-2\n---\nGrade by mood.\n", encoding="utf-8")
    return path


def test_a_users_file_replaces_the_instructions_of_one_rubric_and_says_so(own: Path) -> None:
    visible = {prompt.name: prompt for prompt in prompts_of(EVALUATORS, prompt_texts(own))}
    replaced, retained = visible["agentest.helpfulness"], visible["agentest.coherence"]
    assert ("ours-2", "Grade by mood.", str(own)) == (replaced.version, replaced.text, replaced.source)
    assert RUBRICS["agentest.coherence"].instructions == retained.text
    assert RUBRICS["agentest.helpfulness"].form == replaced.form


def test_a_user_prompt_is_sent_verbatim_and_only_its_rubric_is_judged_again(own: Path) -> None:
    model, plain = Bare(say=lambda _, __: verdict(2)), Bare()
    judge, usual = LangChainJudge(model, JudgeSettings(prompt=own)), LangChainJudge(plain)
    helpfulness, coherence = RUBRICS["agentest.helpfulness"], RUBRICS["agentest.coherence"]

    judge.judge([rubric_question(helpfulness, turn="Hi"), rubric_question(coherence, turn="Hi")])

    explanation = [str(actual[-1].content) for actual in model.requests]
    assert [True, False] == ["\n\nGrade by mood.\n\n" in text for text in explanation]
    assert [False, True] == [
        f"\n\n{rubric.instructions}\n\n" in text
        for rubric, text in zip((helpfulness, coherence), explanation, strict=True)
    ]
    assert judge.version == usual.version
    assert judge.version_for(coherence) == usual.version_for(coherence) != judge.version
    assert judge.version_for(helpfulness) != usual.version_for(helpfulness)


def test_a_prompt_of_a_file_names_that_file(tmp_path: Path) -> None:
    path = tmp_path / "moods.py"
    path.write_text(
        "from otel_agentic import Turn, evaluator\n"
        "from otel_agentic.judges import ReplyForm, Rubric\n"
        "MOOD = Rubric(name='house.mood', version='1', instructions='Reply.', form=ReplyForm())\n"
        "@evaluator(name='house.mood', rubrics=[MOOD])\n"
        "def mood(turn: Turn):\n"
        "    yield []\n",
        encoding="utf-8",
    )
    (visible,) = prompts_of([evaluator_of(f"{path}:mood", EvaluatorSettings())], OWN)
    assert str(path.resolve()) == visible.source


def test_the_prompt_that_joins_failures_may_be_replaced_as_it_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "own.md"
    path.write_text("---\nname: failures.merge\nversion: ours-1\n---\nJoin similar ones.\n", encoding="utf-8")
    assert _described(merge_prompt(prompt_texts(path))) == snapshot(("failures.merge", "ours-1", "Join similar ones."))


def _described(prompt: Prompted) -> tuple[str, str, str]:
    return prompt.name, prompt.version, prompt.text
