"""Failures that are found without a case and without a judge: unhandled errors of tools, how turns end, repeated calls."""

from __future__ import annotations

from time import process_time
from typing import Any, Final

import pytest
from inline_snapshot import snapshot

from otel_agentic.config import EvaluatorSettings
from otel_agentic.conversations.model import ModelUse
from otel_agentic.evaluators.base import MetricScore
from otel_agentic.evaluators.failures import distinct, failures_of, group_failures
from otel_agentic.evaluators.operations import Calls
from otel_agentic.evaluators.recovery import Recovery, is_raw_output
from otel_agentic.evaluators.root_causes import TOOL
from otel_agentic.evaluators.run import FailureRules, Location
from otel_agentic.testing import conversation, tool_call, turn
from tests.evaluators.ragas_subjects import subject

NO_SEATS: Final = "not enough seats on flight HAT290"
TRACE: Final = """Traceback (most recent call last):
  File "/app/run.py", line 7, in main
    rows = load(path)
  File "/app/load.py", line 3, in load
    return open(path)
FileNotFoundError: [Errno 2] No such file or directory: 'x.csv'"""
NODE_TRACE: Final = """TypeError: Cannot read properties of undefined
    at book (/srv/app/book.js:12:9)
    at async run (/srv/app/run.js:30:3)"""


def fails(name: str = "book", error: str = NO_SEATS, **more: Any) -> Any:
    return tool_call(name, {"id": 1}, error=error, result=None, **more)


def works(name: str = "book", **more: Any) -> Any:
    return tool_call(name, {"id": 1}, **{"result": "ok", **more})


def model(calls: int, failed: int) -> ModelUse:
    return ModelUse(model="m", calls=calls, failed=failed)


def labels(evaluator: Any, about: Any, metric: str) -> list[str | None]:
    results = evaluator.evaluate(subject(about, None))
    return [score.label or score.reason for score in results if score.name == f"agentic.operations.{metric}"]


@pytest.mark.parametrize(
    ("turns", "label"),
    [
        ([turn("Book it", "Done.", works())], None),
        ([turn("Book it", "Done.", fails(), works())], "recovered"),
        ([turn("Book it", "One moment.", fails()), turn("And?", "Done.", works())], "recovered"),
        # An answer mentions the error in words for trouble of several languages, or in those of the error itself.
        ([turn("Book it", "I couldn't book this flight.", fails())], "reported"),
        ([turn("Book it", "This flight isn't available.", fails())], "reported"),
        ([turn("Buch", "Leider ist der Flug voll.", fails())], "reported"),
        ([turn("Book it", "HAT290 has seats in business on that flight.", fails())], "reported"),
        ([turn("Book it", None, fails()), turn("And?", "I was unable to book it.")], "reported"),
        ([turn("Find it", "It is in Bern.", fails("visit", "404"), works("search"))], "worked_around"),
        # A call of the same response was not made in place of the one that failed.
        ([turn("Find it", "It is in Bern.", fails("visit", "404", step=1), works("search", step=1))], "unhandled"),
        ([turn("Find it", "It is in Bern.", works("search"), fails("visit", "404"))], "unhandled"),
        ([turn("Book it", "Your flight is booked.", fails())], "unhandled"),
        ([turn("Book it", "I'll issue your ticket, no problem. Don't hesitate to ask.", fails())], "unhandled"),
        ([turn("Book it", None, fails(), fails(), works("think"))], "unhandled"),
        ([turn("Book it", None, fails(), error=NO_SEATS)], "passed_on"),
        ([turn("Book it", "Done.", works("agent", kind="agent", span_id="a1"), fails(parent_span_id="a1"))], "worked_around"),
        ([turn("Book it", None, fails("helper", kind="agent", span_id="a1"))], "unhandled"),
        ([turn("Book it", None, fails(), answer_captured=False)], "content_not_captured"),
    ],
)  # fmt: skip
def test_what_became_of_a_tool_that_failed(turns: list[Any], label: str | None) -> None:
    assert [label] * (label is not None) == labels(Recovery(), conversation(*turns), "tool_failure")


def test_the_failure_of_an_agent_is_not_that_of_the_tool_inside_too() -> None:
    agent = fails("booking_agent", kind="agent", span_id="a1")
    about = conversation(turn("Book it", "Done.", agent, fails(parent_span_id="a1")))

    assert ["passed_on", "unhandled"] == sorted(map(str, labels(Recovery(), about, "tool_failure")))


@pytest.mark.parametrize(
    ("query", "answer", "more", "label"),
    [
        ("Go", "The sum is 4.", {}, "answered"),
        ("Go", "The sum is 4.", {"error": "ValueError: late"}, "answered"),
        ("Go", None, {}, "no_answer"),
        ("Go", None, {"answer_captured": False}, "content_not_captured"),
        ("Go", None, {"error": "KeyError: 'Atlantis'"}, "error"),
        ("Go", None, {"error": "RateLimitError", "answer_captured": False}, "error"),
        ("Go", None, {"models": (model(3, 3),), "answer_captured": False}, "error"),
        ("Go", None, {"models": (model(3, 2),), "answer_captured": False}, "content_not_captured"),
        # Without any content it is unknown whether there was an answer.
        (None, None, {"error": "x", "answer_captured": False, "query_captured": False}, "content_not_captured"),
        ("Go", "Execution logs:\n4\nLast output from code snippet:\nNone", {}, "raw_output"),
        ("Go", "Last output from code snippet:\n4", {}, "raw_output"),
        ("Go", "stdout:\nhello", {}, "raw_output"),
        ("Go", "Call id: call_2\nObservation:\nExecution logs:\n4", {}, "raw_output"),
        ("Go", "Error:\nCode execution failed at line 'import os'", {}, "raw_output"),
        ("Go", "Observation: the sky is blue.", {}, "answered"),
        ("Go", "exitcode: 1 (execution failed)\nCode output: no such file", {}, "raw_output"),
        ("Go", TRACE, {}, "raw_output"),
        ("Go", NODE_TRACE, {}, "raw_output"),
        ("Go", "It failed with:\n" + TRACE, {}, "raw_output"),
        ("Go", "KeyError: 'Atlantis'", {"error": "KeyError: 'Atlantis'"}, "raw_output"),
        # Quoted in a code block, asked for, or explained: an answer.
        ("Go", f"The file is missing:\n```\n{TRACE}\n```\nCreate it first.", {}, "answered"),
        ("Show me the traceback", TRACE, {}, "answered"),
        ("What is in the logs?", "Execution logs:\n4", {}, "answered"),
        ("What does 1/0 raise?", "ZeroDivisionError: division by zero", {}, "answered"),
        ("Why?", 'The line File "a.py", line 3 is wrong.\nUse b.\nThen call c.\nThat is all.', {}, "answered"),
        ("Where?", "Exit code: see the manual.", {}, "answered"),
    ],
)
def test_how_a_turn_ends(query: str | None, answer: str | None, more: dict[str, Any], label: str) -> None:
    assert [label] == labels(Recovery(), conversation(turn(query, answer, **more)), "turn_end")


@pytest.mark.parametrize("line", ["  at " + "(1" * 10_000, "~^" * 10_000 + "x", 'File "' * 4_000, "A.a:" * 5_000])
def test_a_long_line_takes_no_time(line: str) -> None:
    began = process_time()
    is_raw_output(turn("Go", f"x\n{line}"))
    assert process_time() - began < 0.5


def test_an_unhandled_failure_is_not_listed_as_a_fault_of_the_tool_too() -> None:
    about = conversation(turn("Book it", "Your flight is booked.", fails("book"), fails("pay")))
    position = Location.of(about)
    rules = FailureRules(Recovery.metrics, EvaluatorSettings())
    faults = [MetricScore(name=TOOL, label=kind, tool_name="book") for kind in ("errored", "missing")]

    results = distinct(rules.failures(position, [*faults, *Recovery().evaluate(subject(about, None))]))

    assert [("missing", "book"), ("unhandled", "book"), ("unhandled", "pay")] == [
        (failure.label, failure.tool_name) for failure in results
    ]
    assert ["errored", "missing"] == [failure.label for failure in distinct(rules.failures(position, faults))]


def test_failures_are_listed_without_a_case_and_without_a_judge() -> None:
    about = conversation(
        turn("Book it", "Your flight is booked.", fails()),
        turn("Sum it", "Execution logs:\n4"),
        turn("And?", None, fails("look_up", "KeyError: 'x'"), error="KeyError: 'x'"),
        turn("Again", "The same.", works("poll"), works("poll"), works("poll")),
    )
    evaluators = (Recovery(), Calls())
    scores = [score for evaluator in evaluators for score in evaluator.evaluate(subject(about, None))]
    rules = FailureRules([metric for evaluator in evaluators for metric in evaluator.metrics], EvaluatorSettings())

    (group,) = group_failures(failures_of(subject(about, None), scores, rules), rules.metrics)

    assert (group.severity, group.title) == snapshot(("high", "book failed, and was neither recovered nor reported"))
    assert sorted(symptom.title for symptom in group.symptoms) == snapshot(
        [
            "a turn ended in an error, without an answer (look_up)",
            "poll was called again with the same arguments and the same result",
            "the answer is the raw output of an interpreter, or a stack trace",
        ]
    )
