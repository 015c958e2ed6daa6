"""The default arithmetic of topic adherence beside RAGAS's: the same, but what is undefined is no score instead of 0."""

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
        isinstance(one, bool) for one in case["classifications"]
    ):
        return  # one classification for all, or one as a text: nothing that our judges can say
    told = Adherence.of(
        [
            (REFUSED if refused else ANSWERED, WITHIN if allowed else OUTSIDE)
            for refused, allowed in zip(case["refused"], case["classifications"], strict=True)
        ]
    )
    for name in _NUMBERS:
        ours = getattr(told, name)
        assert case[name] == pytest.approx(0.0 if ours is None else ours, abs=2e-9, rel=0), name
        # Its 0 is none of ours only where nothing could be right or wrong.
        assert (ours is None) == (_nothing_to_share(told, name)), name


def _nothing_to_share(told: Adherence, name: str) -> bool:
    denominators = {
        "precision": told.right + told.strayed,
        "recall": told.right + told.withheld,
        "f1": told.right + told.strayed + told.withheld,
    }
    return denominators[name] == 0
