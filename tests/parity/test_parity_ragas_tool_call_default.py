"""The default evaluator on the cases that RAGAS was run on: the same, except where RAGAS's arithmetic has a fault.

Each difference has a reason that can be read from the case itself.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from otel_agentic.evaluators.ragas import ToolCalls
from otel_agentic.truth.formats.files import read_attempts
from otel_agentic.truth.values import canonical
from tests.evaluators.ragas_subjects import scores_of, subject

PARITY_SCHEMA = "otel_agentic.parity.ragas_tool_call/1"

_METRICS = {"strict": "tool_call_accuracy", "unordered": "tool_call_accuracy_unordered", "f1": "tool_call_f1"}


def test_the_default_agrees_with_ragas_but_for_its_faults(parity_case: Any) -> None:
    result, theirs = default_scores(parity_case.case), parity_case.case["expected"]
    for name, why in faults(parity_case.case).items():
        ours = result[_METRICS[name]].value
        assert ours is not None
        assert 0.0 <= ours <= 1.0
        if not why:
            # F1 is rounded to four places there.
            assert theirs[name] == pytest.approx(ours, abs=5e-5 if name == "f1" else 1e-9, rel=0), name


def default_scores(case: dict[str, Any]) -> dict[str, Any]:
    """Return the scores of the default evaluator for the same calls, read as a row of RAGAS."""
    messages = [{"type": "ai", "content": "", "tool_calls": calls} for calls in case["predicted"]]
    row = {
        "user_input": [{"type": "human", "content": "go"}, *messages, {"type": "ai", "content": "Done."}],
        "reference_tool_calls": case["reference"],
    }
    (read,) = read_attempts("rows.jsonl", json.dumps(row))
    assert read.conversation is not None
    return scores_of(ToolCalls(), subject(read.conversation, read.case))


def faults(case: dict[str, Any]) -> dict[str, list[str]]:
    """Return the reason for a difference from RAGAS, None if the numbers must be equal."""
    actual, expected = [call for message in case["predicted"] for call in message], case["reference"]
    names, wanted_names = [call["name"] for call in actual], [call["name"] for call in expected]
    repeated = len(set(names)) < len(names) or len(set(wanted_names)) < len(wanted_names)
    pairs = [(first, other) for first in actual for other in expected if first["name"] == other["name"]]
    arguments = [
        *["values compared as text" for first, other in pairs if _text_differs(first, other)],
        *[
            "arguments beyond the reference are free"
            for first, other in pairs
            if set(first["args"]) - set(other["args"])
        ],
        *[
            "all or nothing without reference arguments"
            for first, other in pairs
            if first["args"] and not other["args"]
        ],
    ]
    return {
        "strict": [
            *arguments,
            *(["0 unless all names are the same, one by one"] if names != wanted_names else []),
            *(["calls of one message are ordered"] if any(len(message) > 1 for message in case["predicted"]) else []),
            *(["equal names are paired by place"] if repeated else []),
        ],
        "unordered": [
            *arguments,
            *(["0 unless all names are the same"] if Counter(names) != Counter(wanted_names) else []),
            *(["equal names are paired by their sorted arguments"] if repeated else []),
        ],
        "f1": [
            *(["lists and objects cannot be counted"] if isinstance(case["expected"]["f1"], dict) else []),
            *(
                ["sets"]
                if len(set(map(_key, actual))) < len(actual) or len(set(map(_key, expected))) < len(expected)
                else []
            ),
            *(["nothing of nothing is 0"] if not actual and not expected else []),
            *(["true is 1"] if any(_truth_is_number(first, other) for first, other in pairs) else []),
        ],
    }


def _text_differs(first: dict[str, Any], other: dict[str, Any]) -> bool:
    return any(
        (str(first["args"][key]) == str(value)) != (canonical(first["args"][key]) == canonical(value))
        for key, value in other["args"].items()
        if key in first["args"]
    )


def _truth_is_number(first: dict[str, Any], other: dict[str, Any]) -> bool:
    return any(
        (first["args"][key] == value) != (canonical(first["args"][key]) == canonical(value))
        for key, value in other["args"].items()
        if key in first["args"]
    )


def _key(call: dict[str, Any]) -> Any:
    return (call["name"], canonical(call["args"]))


def test_both_agreement_and_faults_are_among_the_cases(parity_document: dict[str, Any]) -> None:
    result = [faults(case) for case in parity_document["cases"]]
    if len(result) < 20:
        pytest.skip("too few cases to hold both")
    for name in _METRICS:
        assert 0 < sum(not item[name] for item in result) < len(result)
