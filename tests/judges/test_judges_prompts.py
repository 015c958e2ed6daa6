"""The prompts of a model: the built-in ones, and one of a user."""

from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot

from otel_agentic.errors import ConfigError
from otel_agentic.judges import QuestionKind, prompt_texts
from otel_agentic.judges.prompts import KINDS, parse_prompt
from tests.snapshots import passage, raises


def test_each_kind_of_question_has_a_prompt_with_a_version() -> None:
    prompts = prompt_texts()
    assert tuple(prompts) == KINDS
    for kind, prompt in prompts.items():
        assert (kind, "built-in") == (prompt.kind, prompt.source)
        assert prompt.version
        assert not prompt.text.startswith("---")
    assert 3 == len({prompt.digest for prompt in prompts.values()})


def test_the_rubric_is_strict_on_spelling_and_completeness_and_a_wrong_fact_scores_below_a_third() -> None:
    text = prompt_texts()["answer"].text
    assert passage(text) == snapshot("Be strict on spelling and on completeness.")
    assert passage(text) == snapshot("| 0.0 to 0.2 | a fact is wrong")


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_replaces_the_prompt_of_its_kind(kind: QuestionKind, tmp_path: Path) -> None:
    own = tmp_path / "own.md"
    own.write_bytes(f"---\r\nname: {kind}\r\nversion: 2026-05\r\n---\r\n\r\nGrade by mood.\r\n".encode())
    prompts, built_in = prompt_texts(own), prompt_texts()
    assert ("2026-05", "Grade by mood.", str(own)) == (prompts[kind].version, prompts[kind].text, prompts[kind].source)
    assert {other: built_in[other] for other in prompts if other != kind} == {
        other: prompts[other] for other in prompts if other != kind
    }


def test_a_file_without_front_matter_is_for_answers() -> None:
    prompt = parse_prompt("Grade by mood.\n", "own.md")
    assert ("answer", "own", "Grade by mood.") == (prompt.kind, prompt.version, prompt.text)


def test_another_text_is_another_prompt_even_with_the_same_version() -> None:
    first, other = (parse_prompt(f"---\nversion: 1\n---\n{text}", "own.md") for text in ("Grade.", "Grade!"))
    assert first.version == other.version
    assert first.digest != other.digest


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "judge.prompt: own.md: the instructions are missing"),
        ("---\nname: answer\n---\n", "judge.prompt: own.md: the instructions are missing"),
        ("---\nname: mood\n---\nGrade.", "judge.prompt: own.md: name: 'mood'; allowed: answer, parameter, utilization"),
        (
            "---\nmodel: x\n---\nGrade.",
            "judge.prompt: own.md: 'model: x'; allowed between --- and ---: name and version, once each",
        ),
        ("---\nname: answer\nname: answer\n---\nGrade.", "'name: answer'; allowed between"),
        (
            "Is {{ answer }} right?",
            "judge.prompt: own.md: {{ answer }} is not supported; the judged texts precede",
        ),
        ("Compare {expected} with it.", "{expected} is not supported"),
        ("x" * 50_001, "50001 characters of instructions; allowed: 50000"),
    ],
)
def test_a_file_that_is_no_prompt_is_refused_with_what_is_allowed(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_prompt(text, "own.md")
    assert message in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken.md"
    broken.write_bytes(b"\xff\xfe")
    for path in (tmp_path / "absent.md", broken, tmp_path):
        with raises(ConfigError, snapshot("judge.prompt: <path>: cannot be read as UTF-8 text"), path=path):
            prompt_texts(path)
