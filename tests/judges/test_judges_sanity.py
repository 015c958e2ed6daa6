"""One question with a known answer before a run: a judge that cannot judge is reported before it is asked thousands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from otel_agentic.config import JudgeSettings
from otel_agentic.errors import BackendError, OtelAgenticError, UsageError
from otel_agentic.evaluation.judge_runs import RunBudget
from otel_agentic.judges import ExactJudge, judge_named
from otel_agentic.judges.sanity import check_judge
from tests.judges.openai_server import OpenAIServer, ServerReply, completed, error, obliging

Script = Callable[[dict[str, Any], int], ServerReply]


def settings_of(server: OpenAIServer, **options: Any) -> JudgeSettings:
    model = {"base_url": server.base_url, "api_key": "none"}
    return JudgeSettings(model_options=model, tries=2, backoff_s=0, timeout_s=5, **options)


@pytest.mark.parametrize(
    ("script", "raised", "message"),
    [
        (lambda *_: error(401, "bad key"), BackendError, "no verdict on a test question, so nothing was evaluated: "),
        (lambda *_: error(404, "no such model"), BackendError, "check the model's name, key and address"),
        (lambda *_: error(503, "down"), BackendError, "judge.sanity_check = false skips this check"),
        (lambda *_: completed("I would rather not."), BackendError, "judge langchain, model small: no verdict"),
        (
            lambda request, _: obliging(request, 0.2),
            UsageError,
            "scores the answer 'Paris' to .* 0.2, at least 0.7 is right",
        ),
    ],
    ids=["credentials", "model", "outage", "unreadable", "wrong"],
)
def test_a_judge_without_the_right_verdict_is_refused(
    script: Script, raised: type[OtelAgenticError], message: str
) -> None:
    with OpenAIServer(script) as server, pytest.raises(raised, match=message):
        check_judge(judge_named("langchain:openai:small", settings_of(server)), settings_of(server))


def test_a_good_judge_is_asked_once_within_the_budget() -> None:
    with OpenAIServer(lambda request, _: obliging(request)) as server:
        settings = settings_of(server, max_calls=1)
        judge, budget = judge_named("langchain:openai:small", settings), RunBudget(settings)
        check_judge(judge, settings, budget)
        assert (len(server.requests), budget.allows(calls=1, tokens=0)) == (1, False)
        check_judge(judge, settings, budget)  # no call is left for it
        assert len(server.requests) == 1


def test_nothing_is_asked_where_the_check_is_off_or_the_judge_calls_no_model() -> None:
    with OpenAIServer(lambda *_: error(500, "never asked")) as server:
        settings = settings_of(server, sanity_check=False)
        check_judge(judge_named("langchain:openai:small", settings), settings)
        assert not server.requests
    check_judge(ExactJudge(), JudgeSettings())


def test_a_run_that_waits_for_its_judge_begins_during_an_outage() -> None:
    with OpenAIServer(lambda *_: error(503, "down")) as server:
        check_judge(judge_named("langchain:openai:small", settings_of(server)), settings_of(server), waits=True)
        assert len(server.requests) == 2
