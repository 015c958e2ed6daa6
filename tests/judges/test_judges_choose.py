"""A judge by name, as an object, as a chat model; and a chat model by the name of its provider."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot
from langchain_openai import ChatOpenAI

from otel_agentic import judges
from otel_agentic.config import JudgeSettings
from otel_agentic.errors import PluginError, UsageError
from otel_agentic.judges import ExactJudge, LangChainJudge, Verdict, as_judge, judge_named
from otel_agentic.judges.chat_models import identity_of, make_model, name_of
from tests.judges.models import Bare, Tools
from tests.judges.parts import PlainJudge, question
from tests.snapshots import passage, raises

KEY = {"api_key": "none"}


def test_a_judge_is_itself() -> None:
    judge = PlainJudge()
    assert judge is as_judge(judge)


def test_a_name_is_the_judge_of_that_name() -> None:
    assert isinstance(as_judge("exact"), ExactJudge)


def test_a_chat_model_is_a_judge_with_the_settings() -> None:
    judge = as_judge(Bare(), JudgeSettings(votes=3))
    assert isinstance(judge, LangChainJudge)
    assert LangChainJudge(Bare(), JudgeSettings(votes=3)).version == judge.version


def test_any_object_that_judges_is_a_judge() -> None:
    class Mine:
        name = "mine"
        version = "1"

        def judge(self, questions: Any) -> list[Verdict]:
            return [Verdict(score=1.0, reasoning="") for _ in questions]

    assert [1.0] == [item.score for item in as_judge(Mine()).judge([question()])]  # type: ignore[arg-type,union-attr]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (7, "a int without name, version, judge"),
        (PlainJudge, "<class 'tests.judges.parts.PlainJudge'>"),
        (print, "a builtin_function_or_method without name, version, judge"),
    ],
)
def test_what_is_no_judge_is_refused_with_what_is_allowed(given: Any, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        as_judge(given)
    assert passage(caught, message=message) == snapshot("judge: <message>; allowed: a name such as 'exact'")


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with raises(PluginError, snapshot("no judges plug-in 'oracle'; installed: exact")):
        judge_named("oracle:deep", JudgeSettings())


@pytest.mark.parametrize("argument", [None, "", "openai", "openai:", ":gpt", "openai: "])
def test_a_model_is_named_by_provider_and_model(argument: str | None) -> None:
    with raises(UsageError, snapshot("the model is missing: langchain:PROVIDER:MODEL, as in langchain:openai:")):
        make_model(argument, {})


def test_the_name_of_a_model_may_have_colons() -> None:
    model = make_model("openai:llama3.1:8b", KEY)
    assert "llama3.1:8b" == name_of(model)


def test_the_client_of_a_model_does_not_retry_unless_configured() -> None:
    assert [0, 5] == [
        model.max_retries
        for model in (make_model("openai:m", KEY), make_model("openai:m", {**KEY, "max_retries": 5}))
        if isinstance(model, ChatOpenAI)
    ]


def test_a_missing_package_is_named_with_how_to_install_it() -> None:
    with raises(UsageError, snapshot("pip install langchain-anthropic")):
        make_model("anthropic:claude", KEY)


def test_without_langchain_the_extra_is_named() -> None:
    program = (
        "import sys\n"
        "sys.modules['langchain'] = None\n"
        "from otel_agentic.errors import UsageError\n"
        "from otel_agentic.judges.chat_models import make_model\n"
        "try:\n    make_model('openai:m', {})\nexcept UsageError as error:\n    print(error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == snapshot(
        "judge langchain:openai:m: needs the package langchain: pip install 'otel-agentic[judges]'\n"
    )


def test_an_unknown_provider_is_refused_with_those_there_are() -> None:
    with raises(
        UsageError,
        snapshot("judge langchain:nope:m: langchain does not know the provider 'nope'; allowed: anthropic, "),
    ):
        make_model("nope:m", {})


def test_a_missing_key_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(UsageError) as caught:
        make_model("openai:m", {})
    assert passage(caught) == snapshot("judge langchain:openai:m: the model cannot be created: ")
    assert "OPENAI_API_KEY" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_misspelt_option_is_refused() -> None:
    with raises(
        UsageError,
        snapshot(
            "judge.model_options: base_ur: ChatOpenAI has no such option; options of the provider's own interface belong in model_kwargs"
        ),
    ):
        make_model("openai:m", {**KEY, "base_ur": "http://127.0.0.1:1/v1"})
    make_model("openai:m", {**KEY, "model_kwargs": {"sharpness": 7}})


def test_the_model_is_not_named_twice() -> None:
    with raises(UsageError, snapshot("judge.model_options: model: the model is named by --judge")):
        make_model("openai:m", {**KEY, "model": "other"})


def test_an_identity_is_that_of_what_may_change_a_reply() -> None:
    same: list[dict[str, Any]] = [
        {},
        {"api_key": "another"},
        {"timeout": 3},
        {"max_retries": 4},
        {"default_headers": {"x-api-key": "s"}},
    ]
    others: list[dict[str, Any]] = [
        {"temperature": 0.5},
        {"base_url": "http://127.0.0.1:1/v1"},
        {"model_kwargs": {"sharpness": 1}},
    ]
    identities = [identity_of(make_model("openai:m", {**KEY, **options})) for options in [*same, *others]]
    assert 1 == len(set(identities[: len(same)]))
    assert 1 + len(others) == len(set(identities))
    assert not any("none" in identity or "another" in identity for identity in identities)


def test_models_of_different_classes_have_different_identities() -> None:
    assert identity_of(Bare()) == identity_of(Bare()) != identity_of(Tools())


def test_every_public_name_of_the_room_is_there() -> None:
    assert sorted(judges.__all__) == judges.__all__
    assert all(hasattr(judges, name) for name in judges.__all__)
    with raises(AttributeError, snapshot("has no attribute 'Oracle'")):
        judges.Oracle  # noqa: B018 — it raises


def test_importing_the_room_loads_no_langchain(tmp_path: Path) -> None:
    program = "import sys, otel_agentic.judges.llm; print('langchain_core' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert "False\n" == ran.stdout
