"""A collector that receives every secret in every field, and everything that it then stores, sends, asks and logs."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb
import httpx

from otel_agentic.judges import Question, Verdict
from otel_agentic.testing import AgentRunScript, batch, scripted_call, span, speak_genai
from tests.judges.parts import PlainJudge
from tests.live.otlp_export import export, just_now
from tests.spans.positions import POSITIONS
from tests.spans.secrets_made_up import BODY, FIELDS, PERSONAL, PLACED, SHAPED

if TYPE_CHECKING:
    from otel_agentic.live.collector import LiveCollector
    from otel_agentic.net.server_file import LiveServer
    from otel_agentic.spans import Span

TEXTS: Final = [*SHAPED.values(), *(text for text, _ in PLACED.values()), *FIELDS, *PERSONAL.values()]
KEY: Final = SHAPED["openai_key"]
#: Texts that must not appear: secrets, or the part that nearly all of them share.
NEEDLES: Final = (
    *(BODY, BODY[:20], SHAPED["aws_key"], SHAPED["twilio_key"], "Ym9iOmh1bnRlcjI=", "hunter22"),
    *("py dict", "cut he", "Tr0ub4dor", "abcdef123", "session=abc", "ab+/c==", "wJalrXUtnFEMI", "abcdefgh12345678"),
    *("geheim", "opensesame", "4111 1111", "4111111111111111", "Bob.O+x", "901820", "0532 0130", "person@example.com"),
)
TURN: Final[dict[str, Any]] = {
    "query": f"Log in with {KEY}, I am person@example.com",
    "answer": f"Logged in with {KEY} and card 4111 1111 1111 1111.",
    "tools": {"calls": [{"tool_name": "login", "parameters": {"password": "hunter22", "card": 4111111111111111}}]},
}
CASE: Final = {"case_id": "login", "turns": [TURN]}


@dataclass(slots=True)
class RecordedQuestions:
    """What a judge was asked."""

    questions: list[Question] = field(default_factory=list)

    def judge(self) -> PlainJudge:
        """Return a judge that repeats the texts of its prompt."""
        return PlainJudge(say=self._say, name="hearing")

    def _say(self, question: Question) -> Verdict:
        self.questions.append(question)
        right = question.expected == question.answer
        return Verdict(score=float(right), reasoning=f"{question.answer} against {question.expected}", model="m")


def login(conversation_id: str) -> AgentRunScript:
    """Return a conversation that the case fits, its id an e-mail address."""
    script = AgentRunScript(conversation_id=conversation_id).ask(TURN["query"])
    result = {"session": "ok", "token": SHAPED["jwt"], "note": json.dumps({"api_key": KEY})}
    call = scripted_call("login", {"password": "hunter22", "card": 4111111111111111}, result=result)
    return script.calls(call).answers(TURN["answer"])


def tell(live: LiveCollector, addresses: LiveServer) -> str:
    """Send every secret every way; return the responses to unreadable requests."""
    for way, name in (("http", "person@example.com/1"), ("grpc", "person@example.com/2")):
        spans = speak_genai(login(name), start_ns=just_now()).spans
        export(addresses, [*spans, span("end", parent=spans[0], attributes={"agentic.conversation.end": True})], way)
    export(addresses, _spans("otlp"))
    texts = itertools.cycle(TEXTS)
    live.accept(batch(*(index(next(texts)) for index in POSITIONS.values() for _ in range(7))))
    for path, document in (("traces", _json_traces()), ("logs", _json_logs())):
        answer = httpx.post(f"{addresses.http}/v1/{path}", json=document)
        assert 200 == answer.status_code, answer.text
    return "".join(map(str, _refused(addresses)))


def _refused(addresses: LiveServer) -> Iterator[object]:
    """Yield the answers to secrets that are not OTLP, and to secrets in places where they cannot stand."""
    bodies = (
        f'{{"resourceSpans": "{KEY}"}}',
        f'{{"resourceSpans": [{{"scopeSpans": [{{"spans": [{{"traceId": "{KEY}", "startTimeUnixNano": "{KEY}"}}]}}]}}]}}',
        f'{{"resourceSpans": [ {KEY} ',
    )
    for body, kind in ((body, kind) for body in bodies for kind in ("json", "x-protobuf")):
        answer = httpx.post(
            f"{addresses.http}/v1/traces", content=body, headers={"content-type": f"application/{kind}"}
        )
        yield from (answer.status_code, answer.content)
    yield httpx.get(f"{addresses.http}/v1/nowhere?password=hunter22&key={KEY}").content


def _spans(name: str) -> list[Span]:
    return [
        span(f"{name}-{index}", attributes={"a": text, "list": [text], "json": json.dumps([{"x": text}]), text: "key"})
        for index, text in enumerate(TEXTS)
    ]


def _json_traces() -> dict[str, Any]:
    spans = [
        {
            "traceId": f"{index + 1:032x}",
            "spanId": f"{index + 1:016x}",
            "name": text,
            "startTimeUnixNano": "1700000000000000000",
            "endTimeUnixNano": "1700000001000000000",
            "status": {"message": text},
            "attributes": [
                {"key": "map", "value": {"kvlistValue": {"values": [{"key": "x", "value": {"stringValue": text}}]}}},
                {"key": "list", "value": {"arrayValue": {"values": [{"stringValue": text}]}}},
                {"key": "card", "value": {"intValue": "4111111111111111"}},
                {"key": "nested", "value": {"stringValue": json.dumps({"a": json.dumps({"b": text})})}},
            ],
            "events": [{"name": text, "attributes": [{"key": "e", "value": {"stringValue": text}}]}],
        }
        for index, text in enumerate(TEXTS)
    ]
    return {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"spans": spans}]}]}


def _json_logs() -> dict[str, Any]:
    records = [
        {
            "traceId": f"{index + 1:032x}",
            "spanId": f"{index + 1:016x}",
            "timeUnixNano": "1700000000000000000",
            "eventName": "gen_ai.user.message",
            "body": {"kvlistValue": {"values": [{"key": "content", "value": {"stringValue": text}}]}},
            "attributes": [{"key": "a", "value": {"stringValue": text}}],
        }
        for index, text in enumerate(TEXTS)
    ]
    return {"resourceLogs": [{"resource": {"attributes": []}, "scopeLogs": [{"logRecords": records}]}]}


def files_under(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield name and content of every file: its bytes as they are, and the unpacked content of a database or Parquet file."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".key"):
        yield str(path.relative_to(folder)), path.read_bytes().decode("latin-1")
        if path.suffix == ".duckdb":
            with duckdb.connect(str(path), read_only=True) as con:
                for (table,) in con.execute("SELECT table_name FROM duckdb_tables()").fetchall():
                    yield f"{path.name}: {table}", _text(con, f'"{table}"')
        elif path.suffix == ".parquet":
            with duckdb.connect() as con:
                yield f"{path.name}, unpacked", _text(con, f"'{path}'")


def _text(con: duckdb.DuckDBPyConnection, source: str) -> str:
    rows = con.execute(f"SELECT t::VARCHAR FROM {source} t").fetchall()  # noqa: S608 — names of our own
    return "\n".join(text for (text,) in rows)


def secrets_shown(reply: dict[str, str]) -> dict[str, list[str]]:
    """Return the secrets that are shown, by what shows them."""
    result = {name: [needle for needle in NEEDLES if needle in text] for name, text in reply.items()}
    return {name: needles for name, needles in result.items() if needles}
