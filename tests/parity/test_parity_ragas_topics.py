"""Topic adherence compared with RAGAS, by scripted verdicts on the topics."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from otel_agentic.compat.ragas import topic_adherence
from otel_agentic.errors import BadInputError

PARITY_SCHEMA = "otel_agentic.parity.ragas_judge/1"
PARITY_LIST = "topic_adherence"
NUMBERS = ("precision", "recall", "f1")


def test_topic_adherence_equals_ragas(parity_case: Any) -> None:
    case = parity_case.case
    if not all(isinstance(case.get(name), int | float) for name in NUMBERS):
        with pytest.raises(BadInputError):
            topic_adherence(case["refused"], case["classifications"])
        return
    message = asdict(topic_adherence(case["refused"], case["classifications"]))
    expected = {name: case[name] for name in NUMBERS}
    assert message == pytest.approx(expected, abs=parity_case.document["absolute_tolerance"], rel=0)
