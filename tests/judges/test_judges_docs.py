"""What docs/judges.md shows is true."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
from inline_snapshot import snapshot

from otel_agentic.config import JudgeSettings, ScoringSettings
from otel_agentic.judges import JudgeFailure, LangChainJudge, Question, Verdict, as_judge
from otel_agentic.judges.prompts import parse_prompt
from tests.snapshots import passage

PAGE: Final = (Path(__file__).parents[2] / "docs" / "judges.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def run(block: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(block, "docs/judges.md", "exec"), names)  # noqa: S102 — our own page
    return names


@pytest.mark.parametrize("block", blocks("toml"))
def test_the_settings_that_are_shown_are_settings(block: str) -> None:
    sections = tomllib.loads(block)
    assert {"judge", "scoring"} >= set(sections)
    JudgeSettings(**sections.get("judge", {}))
    ScoringSettings(**sections.get("scoring", {}))


@pytest.mark.parametrize("block", blocks("markdown"))
def test_the_prompt_that_is_shown_is_one(block: str) -> None:
    assert "answer" == parse_prompt(block, "refunds.md").kind


def test_the_model_in_python_becomes_a_judge() -> None:
    names = run(blocks("python")[0])
    assert isinstance(names["judge"], LangChainJudge)
    assert isinstance(names["question"], Question)


def test_the_judge_of_ones_own_judges() -> None:
    judge = as_judge(run(blocks("python")[1])["SameNumber"]())
    message = [
        Question(query="", expected="12 apples", answer=stated, threshold=0.7) for stated in ("12 in all", "13", "none")
    ]
    answers = judge.judge([*message, Question(query="", expected="apples", answer="12", threshold=0.7)])
    assert [1.0, 0.0, 0.0] == [item.score for item in answers if isinstance(item, Verdict)]
    assert isinstance(answers[3], JudgeFailure)


def test_the_numbers_of_the_corpus_are_those_of_the_file() -> None:
    lines = (Path(__file__).parent / "attacks.jsonl").read_text(encoding="utf-8").splitlines()
    kinds = {json.loads(line)["kind"] for line in lines}
    assert passage(PAGE, lines=len(lines), kinds=len(kinds)) == snapshot(
        "The tests try <lines> attacks of <kinds> kinds"
    )


def test_every_setting_that_is_named_exists() -> None:
    named = re.findall(r"`judge\.(\w+)`", PAGE)
    assert named
    assert set(named) <= {*JudgeSettings.model_fields, "canaries"}
