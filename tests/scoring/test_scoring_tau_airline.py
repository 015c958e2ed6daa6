"""Two hundred real conversations with a published table, scored from spans and cases alone."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from math import comb
from pathlib import Path
from typing import Any

import pytest

from otel_agentic.config import ScoringSettings
from otel_agentic.conversations.model import Conversation, ConversationId, ToolCall, Turn
from otel_agentic.judges import ExactJudge
from otel_agentic.scoring import ConversationScore, MatchedConversation, score_conversations
from otel_agentic.truth import Case, CaseIndex, ExpectedCall, Label, ToolExpectation, read_cases, read_labels
from otel_agentic.truth.promote import draft_case

Spans = list[dict[str, Any]]


def spans_by_trace(path: Path) -> Iterator[Spans]:
    """Yield the spans of each trace, their attributes (all of them texts or lists) as a plain dict."""
    traces: dict[str, Spans] = defaultdict(list)
    with gzip.open(path, "rt") as lines:
        for line in lines:
            for block in json.loads(line)["resourceSpans"]:
                for span in (span for scope in block["scopeSpans"] for span in scope["spans"]):
                    plain = {item["key"]: item["value"].get("stringValue") for item in span["attributes"]}
                    traces[span["traceId"]].append({**span, "plain": plain})
    yield from traces.values()


def text_of(messages: str | None, role: str) -> str | None:
    parts = [part for message in json.loads(messages or "[]") if message["role"] == role for part in message["parts"]]
    return next((part["content"] for part in reversed(parts) if part["type"] == "text"), None)


def call_of(span: dict[str, Any], position: int) -> ToolCall:
    arguments, result = (span["plain"].get(f"gen_ai.tool.call.{key}") for key in ("arguments", "result"))
    return ToolCall(
        name=span["plain"]["gen_ai.tool.name"],
        kind="tool",
        step=position + 1,
        position=position,
        arguments=None if arguments is None else json.loads(arguments),
        result=result,
        result_captured=result is not None,
        error=result if re.match(r"\s*error\b", result or "", re.IGNORECASE) else None,
        call_id=None,
        trace_id=span["traceId"],
        span_id=span["spanId"],
        parent_span_id=None,
        agent_name=None,
        source="span",
    )


def turn_of(spans: Spans) -> tuple[str, str | None, Turn]:
    root = next(span for span in spans if not span.get("parentSpanId"))
    tools = [span for span in spans if span["plain"]["gen_ai.operation.name"] == "execute_tool"]
    tools.sort(key=lambda span: int(span["startTimeUnixNano"]))
    query, answer = (root["plain"].get(f"gen_ai.{side}.messages") for side in ("input", "output"))
    turn = Turn(
        index=0,
        query=text_of(query, "user"),
        query_captured=query is not None,
        answer=text_of(answer, "assistant"),
        # A turn that ends without an answer has no output message; the query shows that content is recorded at all.
        answer_captured=query is not None,
        error=None,
        calls=tuple(call_of(span, position) for position, span in enumerate(tools)),
        trace_id=root["traceId"],
        span_id=root["spanId"],
        started_ns=int(root["startTimeUnixNano"]),
        ended_ns=int(root["endTimeUnixNano"]),
    )
    return root["plain"]["gen_ai.conversation.id"], root["plain"].get("agentic.case.id"), turn


def conversations(path: Path) -> list[Conversation]:
    turns: dict[str, list[Turn]] = defaultdict(list)
    cases: dict[str, str | None] = {}
    for spans in spans_by_trace(path):
        conversation_id, case_id, turn = turn_of(spans)
        turns[conversation_id].append(turn)
        cases[conversation_id] = cases.get(conversation_id) or case_id
    return [
        conversation_of(name, cases[name], sorted(result, key=lambda turn: turn.started_ns))
        for name, result in turns.items()
    ]


def conversation_of(name: str, case_id: str | None, turns: list[Turn]) -> Conversation:
    numbered = (
        Turn(**{**{key: getattr(turn, key) for key in Turn.__slots__}, "index": i}) for i, turn in enumerate(turns)
    )
    return Conversation(
        environment="production",
        conversation_id=ConversationId(name),
        revision=1,
        agent_name="airline-support-agent",
        agent_version=None,
        service=None,
        started_ns=turns[0].started_ns,
        ended_ns=turns[-1].ended_ns,
        closed_by="end_of_input",
        link_method="explicit",
        case_id=case_id,
        verdict=None,
        turns=tuple(numbered),
    )


@pytest.fixture(scope="module")
def folder(shared_dir: Path) -> Path:
    return shared_dir / "data" / "tau-airline"


@pytest.fixture(scope="module")
def labels(folder: Path) -> Mapping[str, Label]:
    return read_labels(folder / "labels.csv").require()


def scores_of(folder: Path, file: str) -> list[ConversationScore]:
    index = CaseIndex(read_cases(folder / "cases.jsonl").require())
    actual = conversations(folder / file)
    matched = [MatchedConversation(conversation=item, match=index.match(item)) for item in actual]
    return score_conversations(matched, judge=ExactJudge(), settings=ScoringSettings())


@pytest.fixture(scope="module")
def scores(folder: Path) -> list[ConversationScore]:
    return scores_of(folder, "spans.jsonl.gz")


def test_spans_and_cases_alone_give_the_expected_number_of_correct_conversations(
    folder: Path, scores: list[ConversationScore], labels: Mapping[str, Label]
) -> None:
    expected = json.loads((folder / "expected.json").read_text())["from_spans_and_cases"]
    assert sum(item.outcome == "pass" for item in scores) == expected["correct"]
    agrees = sum((item.outcome == "pass") == labels[item.conversation_id].verdict for item in scores)
    assert agrees == expected["agrees_with_label"]
    assert {item.outcome for item in scores} == {"pass", "fail"}


def test_pass_pow_k_over_cases_is_the_expected_row(folder: Path, scores: list[ConversationScore]) -> None:
    expected = json.loads((folder / "expected.json").read_text())["from_spans_and_cases"]["per_case_pass_pow_k"]
    by_case: dict[str | None, list[bool]] = defaultdict(list)
    for item in scores:
        by_case[item.case_id].append(item.outcome == "pass")
    for k, value in expected.items():
        shares = [comb(sum(passes), int(k)) / comb(len(passes), int(k)) for passes in by_case.values()]
        assert sum(shares) / len(shares) == pytest.approx(value)


def test_no_right_case_is_called_wrong_ground_truth(scores: list[ConversationScore]) -> None:
    assert [item.warning for item in scores if item.warning] == []


def test_without_content_nothing_is_scored_and_the_reason_is_stated(folder: Path) -> None:
    assert {(item.outcome, item.reason) for item in scores_of(folder, "variant-nocontent.jsonl.gz")} == {
        ("not_evaluated", "content_not_captured")
    }


def promoted_whole(source: Conversation, original: Case, *, exact: bool) -> Case:
    """Return the case promoted from a run, as the original: its calls are expected in any turn, and may have extra reads."""
    assert original.tools is not None
    draft = draft_case(source, dataset="production", promoted_from=[source.conversation_id], why="It passed.")
    calls = (call for turn in draft.turns if turn.tools is not None for call in turn.tools.calls)
    expected = ToolExpectation(
        calls=tuple(
            ExpectedCall(tool_name=call.tool_name, parameters=call.parameters, match={} if exact else call.match)
            for call in calls
        ),
        extra_calls=original.tools.extra_calls,
    )
    return Case(case_id=original.case_id, effects=original.effects, tools=expected)


def accepted(source: Conversation, others: list[Conversation], original: Case, *, exact: bool) -> int:
    index = CaseIndex([promoted_whole(source, original, exact=exact)])
    matched = [MatchedConversation(conversation=item, match=index.match(item)) for item in others]
    scores = score_conversations(matched, judge=ExactJudge(), settings=ScoringSettings())
    return sum(item.outcome == "pass" for item in scores)


@pytest.mark.slow
def test_a_promoted_run_accepts_most_other_successful_runs_of_its_task(
    folder: Path, labels: Mapping[str, Label]
) -> None:
    runs: dict[tuple[str | None, bool], list[Conversation]] = defaultdict(list)
    for item in conversations(folder / "spans.jsonl.gz"):
        runs[item.case_id, bool(labels[item.conversation_id].verdict)].append(item)
    numbers: Counter[str] = Counter()
    for original in read_cases(folder / "cases.jsonl").require():
        successful, failed = runs[original.case_id, True], runs[original.case_id, False]
        for source in successful if len(successful) > 1 else ():
            others = [item for item in successful if item is not source]
            numbers["others"] += len(others)
            numbers["exact"] += accepted(source, others, original, exact=True)
            numbers["proposed"] += accepted(source, others, original, exact=False)
            numbers["failed"] += len(failed)
            numbers["failed, exact"] += accepted(source, failed, original, exact=True)
            numbers["failed, proposed"] += accepted(source, failed, original, exact=False)
    assert numbers == {
        "others": 164, "exact": 38, "proposed": 100, "failed": 52, "failed, exact": 1, "failed, proposed": 1,
    }  # fmt: skip
