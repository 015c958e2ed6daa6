"""What the default evaluator says of the cases that RAGAS was run on: the same, but where RAGAS's arithmetic has a fault.

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
from tests.evaluators.judged import scores_of, subject

PARITY_SCHEMA = "otel_agentic.parity.ragas_tool_call/1"

_METRICS = {"strict": "tool_call_accuracy", "unordered": "tool_call_accuracy_unordered", "f1": "tool_call_f1"}


def test_the_default_agrees_with_ragas_but_for_its_faults(parity_case: Any) -> None:
    found, theirs = default_scores(parity_case.case), parity_case.case["expected"]
    for name, why in faults(parity_case.case).items():
        ours = found[_METRICS[name]].value
        assert ours is not None
        assert 0.0 <= ours <= 1.0
        if not why:
            # F1 is rounded to four places there.
            assert theirs[name] == pytest.approx(ours, abs=5e-5 if name == "f1" else 1e-9, rel=0), name


def default_scores(case: dict[str, Any]) -> dict[str, Any]:
    """Return what the default says of the same calls, read as a row of RAGAS."""
    messages = [{"type": "ai", "content": "", "tool_calls": calls} for calls in case["predicted"]]
    row = {
        "user_input": [{"type": "human", "content": "go"}, *messages, {"type": "ai", "content": "Done."}],
        "reference_tool_calls": case["reference"],
    }
    (read,) = read_attempts("rows.jsonl", json.dumps(row))
    assert read.conversation is not None
    return scores_of(ToolCalls(), subject(read.conversation, read.case))


def faults(case: dict[str, Any]) -> dict[str, list[str]]:
    """Return why RAGAS's numbers are others than ours; nothing where they have to be the same."""
    made, wanted = [call for message in case["predicted"] for call in message], case["reference"]
    names, wanted_names = [call["name"] for call in made], [call["name"] for call in wanted]
    repeated = len(set(names)) < len(names) or len(set(wanted_names)) < len(wanted_names)
    pairs = [(one, other) for one in made for other in wanted if one["name"] == other["name"]]
    arguments = [
        *["values compared as text" for one, other in pairs if _text_differs(one, other)],
        *["arguments beyond the reference are free" for one, other in pairs if set(one["args"]) - set(other["args"])],
        *["all or nothing without reference arguments" for one, other in pairs if one["args"] and not other["args"]],
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
            *(["sets"] if len(set(map(_key, made))) < len(made) or len(set(map(_key, wanted))) < len(wanted) else []),
            *(["nothing of nothing is 0"] if not made and not wanted else []),
            *(["true is 1"] if any(_truth_is_number(one, other) for one, other in pairs) else []),
        ],
    }


def _text_differs(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return any(
        (str(one["args"][key]) == str(value)) != (canonical(one["args"][key]) == canonical(value))
        for key, value in other["args"].items()
        if key in one["args"]
    )


def _truth_is_number(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return any(
        (one["args"][key] == value) != (canonical(one["args"][key]) == canonical(value))
        for key, value in other["args"].items()
        if key in one["args"]
    )


def _key(call: dict[str, Any]) -> Any:
    return (call["name"], canonical(call["args"]))


def test_both_agreement_and_faults_are_among_the_cases(parity_document: dict[str, Any]) -> None:
    found = [faults(case) for case in parity_document["cases"]]
    if len(found) < 20:
        pytest.skip("too few cases to hold both")
    for name in _METRICS:
        assert 0 < sum(not one[name] for one in found) < len(found)
