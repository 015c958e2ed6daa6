"""The default arithmetic of topic adherence compared with RAGAS's: the same, except that an undefined value is no score instead of 0."""

from __future__ import annotations

from typing import Any

import pytest

from otel_agentic.evaluators.ragas import ANSWERED, OUTSIDE, REFUSED, WITHIN, Adherence

PARITY_SCHEMA = "otel_agentic.parity.ragas_judge/1"
PARITY_LIST = "topic_adherence"

_NUMBERS = ("precision", "recall", "f1")


def test_topic_adherence_agrees_with_ragas_where_it_is_defined(parity_case: Any) -> None:
    case = parity_case.case
    if len(case["classifications"]) != len(case["refused"]) or not all(
        isinstance(item, bool) for item in case["classifications"]
    ):
        return  # one classification for all, or one as a text: our judges cannot express it
    message = Adherence.of(
        [
            (REFUSED if refused else ANSWERED, WITHIN if allowed else OUTSIDE)
            for refused, allowed in zip(case["refused"], case["classifications"], strict=True)
        ]
    )
    for name in _NUMBERS:
        ours = getattr(message, name)
        assert case[name] == pytest.approx(0.0 if ours is None else ours, abs=2e-9, rel=0), name
        # Where it has 0 and we no score, nothing could be right or wrong.
        assert (ours is None) == (_nothing_to_share(message, name)), name


def _nothing_to_share(message: Adherence, name: str) -> bool:
    denominators = {
        "precision": message.right + message.strayed,
        "recall": message.right + message.withheld,
        "f1": message.right + message.strayed + message.withheld,
    }
    return denominators[name] == 0
