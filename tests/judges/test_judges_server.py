"""The judge over a real client, ChatOpenAI, and a server on this machine that misbehaves on purpose."""

from __future__ import annotations

import asyncio
import gzip
import json
import resource
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from otel_agentic.config import JudgeSettings
from otel_agentic.judges import JudgeFailure, Verdict
from otel_agentic.judges.asking_judge import AskingJudge
from otel_agentic.judges.base import ReplyForm, Rubric, rubric_question
from otel_agentic.judges.chat_models import MAX_REPLY_BYTES
from otel_agentic.judges.llm import LangChainJudge
from otel_agentic.judges.registry import judge_named
from tests.judges.models import fields_of, verdict
from tests.judges.openai_server import OpenAIServer, ServerReply, completed, completion, error, obliging, serving
from tests.judges.parts import Answer, CallBudget, MemoryCache, question, questions
from tests.snapshots import opening, passage

if TYPE_CHECKING:
    from otel_agentic.judges.messages import Way

WAYS = pytest.mark.parametrize("way", ["structured", "tool", "text"])


async def _no_sleep(_: float) -> None:
    await asyncio.sleep(0)


@contextmanager
def judge_over(
    server: OpenAIServer, sleep: Callable[[float], Awaitable[None]] = _no_sleep, **settings: Any
) -> Iterator[LangChainJudge]:
    """Make a judge of the server's model that does not wait between tries, and close it."""
    chosen = JudgeSettings(**{"tries": 3, "timeout_s": 20, **settings})
    judge = LangChainJudge(server.model(), chosen, rng=Random(7), sleep=sleep)  # noqa: S311 — jitter
    try:
        yield judge
    finally:
        judge.close()


def item(judge: LangChainJudge) -> Answer:
    (answer,) = judge.judge([question()])
    return answer


@WAYS
def test_each_way_gives_a_verdict_with_one_request(way: Way) -> None:
    with serving(obliging) as server, judge_over(server, method=way) as judge:
        received = item(judge)
    assert isinstance(received, Verdict)
    assert (1.0, "scripted", 1, 100, 10) == (
        received.score,
        received.model,
        received.tries,
        received.input_tokens,
        received.output_tokens,
    )
    (request,) = server.requests
    asked_by = {"structured": "response_format", "tool": "tools", "text": None}[way]
    assert ({asked_by} if asked_by else set()) == {"response_format", "tools"} & set(request)


FORMS: Any = {
    "score": (ReplyForm(kind="score", low=1, high=5), 4),
    "label": (ReplyForm(kind="label", labels=("calm", "angry")), "angry"),
    "texts": (ReplyForm(kind="texts", most=3), ["a claim"]),
}


@WAYS
@pytest.mark.parametrize("kind", FORMS)
def test_each_form_of_a_rubric_is_asked_for_with_its_schema_and_read_each_way(kind: str, way: Way) -> None:
    form, value = FORMS[kind]
    rubric = Rubric(name="house.mood", version="1", instructions="Describe how `answer` sounds.", form=form)
    reply = json.dumps({"reasoning": "So it is.", kind: value})
    call = {"id": "call-1", "type": "function", "function": {"name": "verdict", "arguments": reply}}
    answer = completed(tool_calls=[call], finish_reason="tool_calls") if way == "tool" else completed(reply)
    with serving(answer) as server, judge_over(server, method=way) as judge:
        (received,) = judge.judge([rubric_question(rubric, answer="Hi!")])
    assert isinstance(received, Verdict)
    assert value == (received.score, received.label, list(received.texts))[list(FORMS).index(kind)]
    (request,) = server.requests
    tools = [item["function"]["parameters"] for item in request.get("tools", ())]
    schemas = [request["response_format"]["json_schema"]["schema"]] if way == "structured" else tools
    assert (0 if way == "text" else 1) == len(schemas)
    for schema in schemas:
        assert ["reasoning", kind] == list(schema["properties"]) == schema["required"]
        assert list(form.labels) == schema["properties"][kind].get("enum", [])
        stated = {name: schema["properties"][kind].get(name) for name in ("minimum", "maximum", "maxItems")}
        assert {"score": (1, 5, None), "label": (None,) * 3, "texts": (None, None, 3)}[kind] == tuple(stated.values())


def test_the_model_is_asked_by_structured_output_first() -> None:
    with serving(obliging) as server, judge_over(server) as judge:
        judge.judge(questions(5))
    assert [True] * 5 == ["response_format" in request for request in server.requests]


BROKEN: dict[str, ServerReply] = {
    "429": error(429, "slow down"),
    "500": error(500, "boom"),
    "529": error(529, "overloaded"),
    "broken body": ServerReply(body=b'{"id": 3, "choices": ['),
    "broken reply": completed('{"reasoning": "x", "score": 0.'),
    "out of range": completed(verdict(1e9)),
    "below range": completed(verdict(-0.5)),
    "not a number": completed('{"reasoning": "x", "score": NaN}'),
    "truth for a number": completed(verdict(score=True)),
    "another schema": completed('{"rating": 10}'),
    "words": completed("I quite like it."),
    "two verdicts": completed(f"{verdict(0.0)} or {verdict(1.0)}"),
    "empty": completed(""),
    "nothing": completed(None),
    "refusal": completed(None, refusal="I cannot judge this."),
    "refusal together with a verdict": completed(verdict(1.0), refusal="I cannot judge this."),
    "content filter": completed(verdict(1.0), finish_reason="content_filter"),
    "truncated": completed(verdict(1.0), finish_reason="length"),
    "a page": ServerReply(body=b"<html><p>score: 1.0</p></html>", content_type="text/html"),
    "a page declared as JSON": ServerReply(body=b"<html>"),
    "no choices": ServerReply(body=b'{"id": "x"}'),
    "null choices": ServerReply(body=b'{"id": "x", "choices": null}'),
    "empty choices": ServerReply(body=b'{"id": "x", "choices": []}'),
    "an error with status 200": ServerReply(body=b'{"error": {"message": "overloaded"}}'),
    "reset": ServerReply(resets=True),
    "half a stream": replace(completed(verdict(1.0)), claims=100_000),
    "a redirect": ServerReply(status=307, headers={"location": "/elsewhere"}),
    "a larger reply than it may be": ServerReply(body=b" " * (MAX_REPLY_BYTES + 1)),
}


def asked_of(request: dict[str, Any]) -> str:
    """Return the answer that a request wants judged."""
    answer: str = fields_of(request["messages"][-1]["content"])["answer"]
    return answer


@WAYS
def test_a_server_that_fails_in_any_way_never_gives_a_score(way: Way) -> None:
    requested = [question(broken) for broken in BROKEN]
    with serving(lambda request: BROKEN[asked_of(request)]) as server, judge_over(server, method=way) as judge:
        answers = judge.judge(requested)
    received = {item.answer: (type(answer), answer.tries) for item, answer in zip(requested, answers, strict=True)}
    assert dict.fromkeys(BROKEN, (JudgeFailure, 3)) == received
    assert dict.fromkeys(BROKEN, 3) == Counter(asked_of(request) for request in server.requests)
    assert {"judge_error"} == {answer.reason for answer in answers if isinstance(answer, JudgeFailure)}


@WAYS
def test_a_failure_that_passes_ends_in_the_verdict(way: Way) -> None:
    requested, recorded = [question(broken) for broken in BROKEN], set[str]()

    def script(request: dict[str, Any]) -> ServerReply:
        broken = asked_of(request)
        again = broken in recorded
        recorded.add(broken)
        return obliging(request) if again else BROKEN[broken]

    with serving(script) as server, judge_over(server, method=way) as judge:
        answers = judge.judge(requested)
    received = {item.answer: (type(answer), answer.tries) for item, answer in zip(requested, answers, strict=True)}
    assert dict.fromkeys(BROKEN, (Verdict, 2)) == received
    assert 2 * len(BROKEN) == len(server.requests)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "context_length_exceeded: too long"),
        (404, "The model `scripted` does not exist"),
        (401, "Incorrect API key provided"),
        (403, "not yours"),
        (429, "insufficient_quota"),
    ],
)
def test_a_permanent_failure_is_asked_once_and_reported(status: int, message: str) -> None:
    with serving(error(status, message)) as server, judge_over(server) as judge:
        received = item(judge)
    assert isinstance(received, JudgeFailure)
    assert (1, 1) == (received.tries, len(server.requests))
    assert passage(received.message, status=status) == snapshot(
        "scripted gave no verdict in one try: Error code: <status> - "
    )
    assert message in received.message


def test_a_hanging_server_is_given_up_and_the_rest_is_judged() -> None:
    def script(request: dict[str, Any]) -> ServerReply:
        return ServerReply(hangs=True) if "answer 1" == asked_of(request) else obliging(request)

    with serving(script) as server, judge_over(server, timeout_s=0.75, tries=2) as judge:
        answers = judge.judge(questions(3))
    assert [Verdict, JudgeFailure, Verdict] == [type(item) for item in answers]
    assert isinstance(answers[1], JudgeFailure)
    assert answers[1].message == snapshot("scripted gave no verdict in 2 tries: no reply within 0.75 s")


def test_after_three_refused_credentials_nothing_more_is_asked() -> None:
    with serving(error(401, "Incorrect API key provided")) as server, judge_over(server, concurrency=1) as judge:
        answers = judge.judge(questions(50))
        later = item(judge)
    assert 3 == len(server.requests)
    assert {"judge_error"} == {item.reason for item in answers if isinstance(item, JudgeFailure)}
    assert isinstance(later, JudgeFailure)
    assert opening(later.message) == snapshot(
        "scripted is not called any more, it refused 3 calls in a row: Error code: 401"
    )
    assert 0 == later.tries


def test_a_refused_credential_between_others_stops_nothing() -> None:
    steps: list[ServerReply | Callable[[dict[str, Any]], ServerReply]] = [
        error(401, "no"),
        error(401, "no"),
        obliging,
    ] * 3
    with serving(*steps) as server, judge_over(server, concurrency=1) as judge:
        answers = judge.judge(questions(9))
    assert 9 == len(server.requests)
    assert 3 == sum(isinstance(item, Verdict) for item in answers)


@pytest.mark.parametrize(
    ("retry_after", "least_s", "most_s"),
    [
        ("2", 2.0, 2.2),
        ("3600", 30.0, 30.0),  # no longer than the longest wait
        (format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True), 30.0, 30.0),
        ("soon", 0.5, 1.0),
    ],
    ids=["seconds", "too long", "a date", "nonsense"],  # the date must not be in the name of the test
)
def test_the_wait_that_the_server_asks_for_is_kept(retry_after: str, least_s: float, most_s: float) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await asyncio.sleep(0)

    with (
        serving(error(429, "slow down", retry_after=retry_after), obliging) as server,
        judge_over(server, sleep) as judge,
    ):
        assert isinstance(item(judge), Verdict)
    (wait,) = waits
    assert least_s <= wait <= most_s


def test_a_server_without_response_formats_is_asked_for_a_tool_from_then_on() -> None:
    def script(request: dict[str, Any]) -> ServerReply:
        message = "'response_format' of type 'json_schema' is not supported with this model."
        return error(400, message) if "response_format" in request else obliging(request)

    with serving(script) as server, judge_over(server, tries=1) as judge:
        first, second = item(judge), item(judge)
    assert [2, 1] == [item.tries for item in (first, second)]
    assert [False, True, True] == ["tools" in request for request in server.requests]


def test_a_server_that_knows_text_alone_is_asked_for_text_from_then_on() -> None:
    def script(request: dict[str, Any]) -> ServerReply:
        if "response_format" in request:
            return error(422, "Extra inputs are not permitted: response_format")
        return error(400, "scripted does not support tools") if "tools" in request else obliging(request)

    with serving(script) as server, judge_over(server) as judge:
        answers = [item(judge), item(judge)]
    assert [3, 1] == [item.tries for item in answers]
    assert {Verdict} == {type(item) for item in answers}
    assert 4 == len(server.requests)


@WAYS
def test_a_server_that_ignores_what_it_is_asked_for_is_understood(way: Way) -> None:
    with serving(completed(f"```json\n{verdict(0.3)}\n```")) as server, judge_over(server, method=way) as judge:
        received = item(judge)
    assert isinstance(received, Verdict)
    assert (0.3, 1) == (received.score, len(server.requests))


def test_a_damaged_call_of_the_tool_is_tried_again() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "verdict", "arguments": '{"score": 1.0, "reas'}}
    damaged = completed(tool_calls=[call], finish_reason="tool_calls")
    with serving(damaged, obliging) as server, judge_over(server, method="tool") as judge:
        received = item(judge)
    assert isinstance(received, Verdict)
    assert 2 == len(server.requests)


def test_a_reply_without_usage_has_no_price() -> None:
    with (
        serving(completed(verdict(), usage=False)) as server,
        judge_over(server, input_price_usd=1, output_price_usd=1) as judge,
    ):
        received = item(judge)
    assert (0, 0, None) == (received.input_tokens, received.output_tokens, received.cost_usd)


def test_each_answer_is_judged_once_however_often_a_run_is_killed() -> None:
    cache, recorded = MemoryCache(), Counter[str]()

    def script(request: dict[str, Any]) -> ServerReply:
        recorded[asked_of(request)] += 1
        return obliging(request)

    with serving(script) as server:
        for killed_after in (3, 5, 10**6):
            with judge_over(server, concurrency=1) as inner:
                verdicts = AskingJudge(inner, cache=cache).verdicts(questions(20))
                for number, _ in enumerate(verdicts):
                    if number == killed_after:
                        break
                verdicts.close()
    assert {f"answer {number}" for number in range(20)} == set(recorded)
    # one call may be in progress, its verdict unread, each time a run is killed
    assert 20 <= len(server.requests) <= 22


def test_a_server_that_fails_keeps_the_budget_and_gives_no_score() -> None:
    allowance, cache = CallBudget(max_calls=10), MemoryCache()
    with serving(error(500, "boom")) as server, judge_over(server, concurrency=4) as inner:
        answers = AskingJudge(inner, budget=allowance, cache=cache).judge(questions(30))
    assert {JudgeFailure} == {type(item) for item in answers}
    assert 10 == allowance.calls == len(server.requests)
    assert {} == cache.stored


def test_the_judge_by_name_is_that_of_the_provider_with_its_options() -> None:
    with serving(obliging) as server:
        options = {"base_url": server.base_url, "api_key": "none", "temperature": 0}
        settings = JudgeSettings(model_options=options, tries=2, backoff_s=0)
        judge = judge_named("langchain:openai:small-model", settings)
        assert isinstance(judge, LangChainJudge)
        (received,) = judge.judge([question()])
        judge.close()
    assert isinstance(received, Verdict)
    assert "small-model" == received.model
    assert ("small-model", 0) == (server.requests[0]["model"], server.requests[0]["temperature"])


def test_the_client_does_not_try_again_by_itself() -> None:
    with serving(error(500, "boom")) as server:
        options = {"base_url": server.base_url, "api_key": "none"}
        settings = JudgeSettings(model_options=options, tries=2, backoff_s=0)
        judge = LangChainJudge.from_settings(settings, "openai:small-model")
        judge.judge([question()])
        judge.close()
    assert 2 == len(server.requests)


def test_an_agent_that_shares_the_model_on_another_loop_is_not_disturbed() -> None:
    with serving(lambda request: obliging(request) if len(request["messages"]) > 1 else completed("hello")) as server:
        model = server.model()

        async def notebook() -> list[Answer]:
            await asyncio.gather(*(model.ainvoke("hi") for _ in range(3)))
            judge = LangChainJudge(model, JudgeSettings(tries=1))
            answers = judge.judge(questions(5))
            judge.close()
            await asyncio.gather(*(model.ainvoke("hi") for _ in range(5)))
            await model.root_async_client.close()
            return answers

        answers = asyncio.run(notebook())
    assert 5 == sum(isinstance(item, Verdict) for item in answers)


def test_a_key_is_never_repeated() -> None:
    with serving(lambda _: error(401, "unknown key sk-very-secret")) as server:
        options = {"base_url": server.base_url, "api_key": "sk-very-secret"}
        judge = LangChainJudge.from_settings(JudgeSettings(model_options=options), "openai:m")
        (received,) = judge.judge([question()])
        judge.close()
    assert isinstance(received, JudgeFailure)
    assert "unknown key ***" in received.message


def test_half_a_character_in_an_answer_breaks_no_request() -> None:
    with serving(obliging) as server, judge_over(server) as judge:
        (received,) = judge.judge([question("broken \ud800 character \x00")])
    assert isinstance(received, Verdict)
    assert "broken \ud800 character \x00" == asked_of(server.requests[0])


def test_a_reply_without_end_is_left_and_takes_no_memory() -> None:
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with serving(ServerReply(body=b" " * 1_000_000, endless=True)) as server, judge_over(server, tries=2) as judge:
        received = item(judge)
        grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb
        assert isinstance(received, JudgeFailure)
        assert passage(received.message) == snapshot("the reply has more than 16,777,216 bytes")
        assert grown_kb < 200_000
        assert server.sent_bytes < 200_000_000


def test_a_compressed_reply_of_many_megabytes_is_not_unpacked() -> None:
    packed = gzip.compress(b" " * 40_000_000, compresslevel=1)  # 170 kB
    with serving(ServerReply(body=packed, headers={"content-encoding": "gzip"})) as server, judge_over(server) as judge:
        received = item(judge)
    assert isinstance(received, JudgeFailure)
    assert passage(received.message) == snapshot("the reply has more than 65,536 bytes")


def test_texts_that_are_judged_follow_no_redirect() -> None:
    with serving(obliging) as other:
        moved = ServerReply(status=308, headers={"location": f"{other.base_url}/chat/completions"})
        with serving(moved) as server, judge_over(server) as judge:
            received = item(judge)
    assert isinstance(received, JudgeFailure)
    assert [] == other.requests


def test_the_script_of_the_server_speaks_as_openai_does() -> None:
    assert {"id", "object", "created", "model", "choices", "usage"} == set(completion("x"))
