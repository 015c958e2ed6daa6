"""Answer accuracy compared with RAGAS, by a scripted judge: its score, and the number of questions."""

from __future__ import annotations

from typing import Any

import pytest

from otel_agentic.compat.ragas import answer_accuracy

PARITY_SCHEMA = "otel_agentic.parity.ragas_judge/1"
PARITY_LIST = "answer_accuracy"


def test_answer_accuracy_equals_ragas(parity_case: Any) -> None:
    replies = iter(parity_case.case["judge_outputs"])

    def ask(prompt: str) -> str:
        reply: str = next(replies)
        if reply == "!raise":
            raise RuntimeError("no reply")
        return reply

    message = answer_accuracy("q", "a", "a", ask=ask)
    expected = parity_case.case["score"]
    if expected is None:
        assert message.score is None
    else:
        assert message.score == pytest.approx(expected, abs=parity_case.document["absolute_tolerance"], rel=0)
    assert message.calls == parity_case.case.get("judge_calls", message.calls)
