"""Judge 1,000 turns with a model that takes 200 ms per call, 64 calls in flight, and compare with the ideal of 16 rounds.

The ratio compares elapsed time, because the benchmark measures waiting; CPU time is printed alongside.

One run measures four variants: the judge package alone and scoring with it, both with a model that uses no CPU time; then the
judge over ChatOpenAI with a server on this machine, and the same number of calls of ChatOpenAI alone, which shows the CPU time of
the client. The promised ratio of 1.25 applies to the first two. `BENCH_TURNS` sets the number of turns.
"""

from __future__ import annotations

import asyncio
import json
import math
import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_openai import ChatOpenAI

from benchmarks.cpu_time import timed as measured
from otel_agentic.config import JudgeSettings, ScoringSettings
from otel_agentic.judges import LangChainJudge, Question, Verdict
from otel_agentic.scoring import MatchedConversation, score_conversations
from otel_agentic.testing import conversation, turn
from otel_agentic.truth import Case, CaseIndex
from otel_agentic.truth.model import CaseTurn

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

TURNS: Final = int(os.environ.get("BENCH_TURNS", "1000"))
IN_FLIGHT: Final = 64
JUDGE_S: Final = 0.2
IDEAL_S: Final = math.ceil(TURNS / IN_FLIGHT) * JUDGE_S
PROMISED_RATIO: Final = 1.25
ROUNDS: Final = 3
VERDICT: Final = json.dumps({"reasoning": "The answer agrees.", "score": 1.0})
SETTINGS: Final = JudgeSettings(concurrency=IN_FLIGHT)


class Waiting(BaseChatModel):
    """A model that waits without using CPU time."""

    @property
    def _llm_type(self) -> str:
        return "waiting"

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(self, *_: Any, **__: Any) -> ChatResult:
        await asyncio.sleep(JUDGE_S)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(VERDICT))])


def main() -> None:
    """Time the variants in alternation and print the best round of each, which excludes the load of other processes."""
    promised = {"the judge alone": judge_work(Waiting()), "scoring with it": scored(Waiting())}
    print(f"{TURNS:,} turns, {JUDGE_S:g} s a call, {IN_FLIGHT} in flight: ideal {IDEAL_S:.2f} s")
    slow = [way for way, taken_s in timed(promised).items() if taken_s > PROMISED_RATIO * IDEAL_S]
    with server() as base_url:
        model = ChatOpenAI(model="waiting", base_url=base_url, api_key="none", max_retries=0)
        timed(
            {
                "ChatOpenAI alone": called(model),
                "the judge over ChatOpenAI": judge_work(model),
                "the judge, method text": judge_work(model, SETTINGS.model_copy(update={"method": "text"})),
            }
        )
    print(f"promised: {PROMISED_RATIO} for the judge alone and for scoring with it")
    if slow:
        print(f"slower than promised: {', '.join(slow)}")


def timed(ways: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Return the minimum seconds of each variant, and print them with the CPU time."""
    spent: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for _ in range(ROUNDS):
        for way, work in ways.items():
            with measured() as timer:
                work()
            spent[way].append((timer.elapsed_s, timer.cpu_s))
    for way, rounds in spent.items():
        best_s, cpu_s = min(rounds)
        print(f"{way:<26} {best_s:6.2f} s elapsed   ratio {best_s / IDEAL_S:5.2f}   {cpu_s:5.2f} s CPU")
    return {way: min(rounds)[0] for way, rounds in spent.items()}


def judge_work(model: BaseChatModel, settings: JudgeSettings = SETTINGS) -> Callable[[], None]:
    """Return work that sends every turn to a judge."""
    judge = LangChainJudge(model, settings)
    questions = [
        Question(query=f"query {number}", expected="yes", answer=f"answer {number}", threshold=0.7)
        for number in range(TURNS)
    ]

    def work() -> None:
        answers = judge.judge(questions)
        assert {Verdict} == {type(answer) for answer in answers}

    judge.judge(questions[:1])  # one-time loading is not part of the measurement
    return work


def scored(model: BaseChatModel) -> Callable[[], None]:
    """Return work that scores the same number of one-turn conversations."""
    judge = LangChainJudge(model, SETTINGS)
    cases = [
        Case(case_id=f"case {number}", turns=(CaseTurn(query=f"query {number}", answer="yes"),))
        for number in range(TURNS)
    ]
    index = CaseIndex(cases)
    chats = [
        conversation(turn(f"query {number}", f"answer {number}"), conversation_id=f"chat {number}")
        for number in range(TURNS)
    ]
    matched = [MatchedConversation(conversation=chat, match=index.match(chat)) for chat in chats]
    settings = ScoringSettings()

    def work() -> None:
        scores = score_conversations(matched, judge=judge, settings=settings)
        assert {"pass"} == {score.outcome for score in scores}

    score_conversations(matched[:1], judge=judge, settings=settings)
    return work


def called(model: ChatOpenAI) -> Callable[[], None]:
    """Return work that calls a model with the same count and concurrency, without a judge."""
    text = "A prompt about as long as that of a judge. " * 70

    async def calls() -> None:
        slots = asyncio.Semaphore(IN_FLIGHT)

        async def call() -> None:
            async with slots:
                await model.ainvoke(text)

        await asyncio.gather(*(call() for _ in range(TURNS)))

    loop = asyncio.new_event_loop()  # one model for all rounds, since the client keeps its connections
    loop.run_until_complete(model.ainvoke(text))
    return lambda: loop.run_until_complete(calls())


@contextmanager
def server() -> Iterator[str]:
    """Run a server of the OpenAI protocol in its own process; yield its base URL."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(there,), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{here.recv()}/v1"
    finally:
        process.terminate()
        process.join()


def serve(connection: Connection) -> None:
    """Print the port, then answer every request with a verdict after a delay."""
    message = {"role": "assistant", "content": VERDICT}
    body = {
        "id": "reply",
        "object": "chat.completion",
        "created": 1,
        "model": "waiting",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": 900, "completion_tokens": 20, "total_tokens": 920},
    }
    asyncio.run(_serve(connection, json.dumps(body).encode()))


async def _serve(connection: Connection, body: bytes) -> None:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                request = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(request.split(b"content-length:")[1].split(b"\r\n")[0])
                await reader.readexactly(length)
                await asyncio.sleep(JUDGE_S)
                writer.write(head + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    listening = await asyncio.start_server(handle, "127.0.0.1", 0, backlog=1024)
    connection.send(listening.sockets[0].getsockname()[1])
    await listening.serve_forever()


if __name__ == "__main__":
    main()
