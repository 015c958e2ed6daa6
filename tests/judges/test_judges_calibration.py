"""Calibration: judged items are compared, others counted separately, and uncertain figures marked."""

from __future__ import annotations

from dataclasses import replace

from inline_snapshot import snapshot

from otel_agentic.judges.calibration import Calibration, Labelled, calibrate

FIRST = Labelled(
    environment="",
    conversation_id="c1",
    revision=1,
    turn_index=0,
    dataset=None,
    case_id=None,
    human=True,
    outcome="pass",
    reason=None,
    score=0.9,
    ended_ns=0,
)


def labelled(*stated: tuple[bool, float | None], threshold: float = 0.7) -> list[Labelled]:
    """Return turns of conversations of their own: the person's verdict and the judge's score (None: it failed)."""
    return [
        replace(
            FIRST,
            conversation_id=f"c{index}",
            human=human,
            score=score,
            outcome="not_evaluated" if score is None else "pass" if score >= threshold else "fail",
            reason="judge_error" if score is None else None,
            ended_ns=index,
        )
        for index, (human, score) in enumerate(stated)
    ]


def calibrated(*stated: tuple[bool, float | None], examples: int = 10) -> Calibration:
    return calibrate("turn", labelled(*stated), threshold=0.7, level=0.95, examples=examples)


def test_what_the_judge_failed_on_is_in_no_number() -> None:
    without = calibrated((True, 0.9), (False, 0.1))
    result = calibrated((True, 0.9), (True, None), (False, 0.1), (False, None))

    assert {"judge_error": 2} == result.not_judged
    assert (without.agreement, without.curve, without.best) == (result.agreement, result.curve, result.best)


def test_a_threshold_that_agrees_better_is_found() -> None:
    result = calibrated((True, 0.9), (True, 0.6), (False, 0.5), (False, 0.1))

    assert result.best is not None
    assert (0.75, 0.6, 1.0) == (result.agreement.agreement.value, result.best.threshold, result.best.agreement)
    assert [0.1, 0.5, 0.6, 0.9] == [point.threshold for point in result.curve]


def test_what_something_else_decided_counts_but_has_no_place_on_the_curve() -> None:
    decided = replace(FIRST, outcome="fail", reason="tool_fault", score=None, human=False)
    result = calibrate("conversation", [*labelled((True, 0.9)), decided], threshold=0.7, level=0.95)

    assert (2, 1, 1.0) == (result.agreement.confusion.n, result.curve_n, result.agreement.agreement.value)


def test_examples_are_disagreements_the_surest_first_then_the_newest() -> None:
    stated = [(False, 0.8), (False, 1.0), (False, 0.8), (True, 0.6), (True, 0.0), (True, 0.9)]
    result = calibrated(*stated)

    assert ["c1", "c2", "c0", "c4", "c3"] == [item.conversation_id for item in result.examples]
    assert ["c1", "c4"] == [item.conversation_id for item in calibrated(*stated, examples=1).examples]


def test_verdicts_of_one_class_are_warned_of_and_give_no_rate_of_the_other() -> None:
    result = calibrated((True, 0.9), (True, 0.2))

    assert (None, None) == (result.agreement.specificity.value, result.best)
    assert result.warnings == snapshot(
        (
            "only 2 passing turns among the labels: sensitivity is uncertain, see its interval",
            "people labelled no failing turn: specificity, the best threshold and kappa cannot be determined",
        )
    )


def test_enough_labels_of_both_classes_need_no_warning() -> None:
    assert () == calibrated(*[(True, 0.9)] * 30, *[(False, 0.1)] * 30).warnings


def test_attempts_of_one_case_are_one_cluster() -> None:
    of_one_case = [replace(item, dataset="d", case_id="same") for item in labelled(*[(True, 0.9), (True, 0.1)] * 5)]
    result = calibrate("turn", of_one_case, threshold=0.7, level=0.95)
    assert ("wilson_one_case", "wilson") == (
        result.agreement.interval_method,
        calibrated(*[(True, 0.9), (True, 0.1)] * 5).agreement.interval_method,
    )
