"""A judge that takes 200 ms, asked 1,000 turns with 64 calls in flight: how far from the ideal of 16 rounds is it?

The ratio is of elapsed time, since waiting is what is measured; CPU time is printed alongside.

Four ways in one run: the judge room alone and scoring with it, over a model that costs no processor time; then over
ChatOpenAI and a server on this machine, beside the same number of calls of ChatOpenAI alone, which is what its client takes
of the same processors. The promise, a ratio of 1.25, is for the first two. `BENCH_TURNS` sets how many turns there are.
"""

from __future__ import annotations

import asyncio
import json
import math
import multiprocessing
import os
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
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection

TURNS: Final = int(os.environ.get("BENCH_TURNS", "1000"))
IN_FLIGHT: Final = 64
JUDGE_S: Final = 0.2
IDEAL_S: Final = math.ceil(TURNS / IN_FLIGHT) * JUDGE_S
PROMISED_RATIO: Final = 1.25
ROUNDS: Final = 3
VERDICT: Final = json.dumps({"reasoning": "The answer says so.", "score": 1.0})
SETTINGS: Final = JudgeSettings(concurrency=IN_FLIGHT)


class Waiting(BaseChatModel):
    """A model that takes its time and no processor."""

    @property
    def _llm_type(self) -> str:
        return "waiting"

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(self, *_: Any, **__: Any) -> ChatResult:
        await asyncio.sleep(JUDGE_S)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(VERDICT))])


def main() -> None:
    """Time the ways in turns, and print the best of some rounds each: what others do on the machine is no finding."""
    promised = {"the judge room": judged(Waiting()), "scoring with it": scored(Waiting())}
    print(f"{TURNS:,} turns, {JUDGE_S:g} s a call, {IN_FLIGHT} in flight: ideal {IDEAL_S:.2f} s")
    slow = [way for way, taken_s in timed(promised).items() if taken_s > PROMISED_RATIO * IDEAL_S]
    with server() as base_url:
        model = ChatOpenAI(model="waiting", base_url=base_url, api_key="none", max_retries=0)
        timed(
            {
                "ChatOpenAI alone": called(model),
                "the judge over ChatOpenAI": judged(model),
                "the same, asked for text": judged(model, SETTINGS.model_copy(update={"method": "text"})),
            }
        )
    print(f"promised: {PROMISED_RATIO} for the judge room and for scoring with it")
    if slow:
        print(f"slower than promised: {', '.join(slow)}")


def timed(ways: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Return the least seconds of each way, and print them with what they took of the processor."""
    taken: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for _ in range(ROUNDS):
        for way, work in ways.items():
            with measured() as found:
                work()
            taken[way].append((found.elapsed_s, found.cpu_s))
    for way, rounds in taken.items():
        best_s, cpu_s = min(rounds)
        print(f"{way:<26} {best_s:6.2f} s elapsed   ratio {best_s / IDEAL_S:5.2f}   {cpu_s:5.2f} s CPU")
    return {way: min(rounds)[0] for way, rounds in taken.items()}


def judged(model: BaseChatModel, settings: JudgeSettings = SETTINGS) -> Callable[[], None]:
    """Return work that asks a judge about every turn."""
    judge = LangChainJudge(model, settings)
    questions = [
        Question(query=f"query {number}", expected="yes", answer=f"answer {number}", threshold=0.7)
        for number in range(TURNS)
    ]

    def work() -> None:
        answers = judge.judge(questions)
        assert {Verdict} == {type(answer) for answer in answers}

    judge.judge(questions[:1])  # what is loaded once is not what is measured
    return work


def scored(model: BaseChatModel) -> Callable[[], None]:
    """Return work that scores as many conversations of one turn."""
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
    """Return work that calls a model as often, and as many times at once, without a judge."""
    text = "A prompt about as long as that of a judge. " * 70

    async def calls() -> None:
        slots = asyncio.Semaphore(IN_FLIGHT)

        async def one() -> None:
            async with slots:
                await model.ainvoke(text)

        await asyncio.gather(*(one() for _ in range(TURNS)))

    loop = asyncio.new_event_loop()  # one for all rounds: the client keeps its connections
    loop.run_until_complete(model.ainvoke(text))
    return lambda: loop.run_until_complete(calls())


@contextmanager
def server() -> Iterator[str]:
    """Run a server of the OpenAI protocol in a process of its own; yield its base URL."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(there,), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{here.recv()}/v1"
    finally:
        process.terminate()
        process.join()


def serve(told: Connection) -> None:
    """Answer every request with a verdict after a while; tells its port first."""
    message = {"role": "assistant", "content": VERDICT}
    body = {
        "id": "reply",
        "object": "chat.completion",
        "created": 1,
        "model": "waiting",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": 900, "completion_tokens": 20, "total_tokens": 920},
    }
    asyncio.run(_serve(told, json.dumps(body).encode()))


async def _serve(told: Connection, body: bytes) -> None:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                asked = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(asked.split(b"content-length:")[1].split(b"\r\n")[0])
                await reader.readexactly(length)
                await asyncio.sleep(JUDGE_S)
                writer.write(head + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    listening = await asyncio.start_server(handle, "127.0.0.1", 0, backlog=1024)
    told.send(listening.sockets[0].getsockname()[1])
    await listening.serve_forever()


if __name__ == "__main__":
    main()
