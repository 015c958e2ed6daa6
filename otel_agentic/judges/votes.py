"""The majority of several verdicts on one answer."""

from __future__ import annotations

from statistics import median_low
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.judges.replies import Reply

#: Scores are compared in decimals: .85 is within .15 of .7, in spite of the error of binary fractions.
_TOLERANCE = 1e-9


def is_close(score: float, threshold: float, band: float) -> bool:
    """Return whether a score is so close to the threshold, on either side, that the question is asked again.

    Asking again on one side only would bias the pass rate towards the other side.

    >>> is_close(0.85, 0.7, 0.15), is_close(0.55, 0.7, 0.15), is_close(0.9, 0.7, 0.15)
    (True, True, False)
    """
    return abs(score - threshold) <= band + _TOLERANCE


def passes(score: float, threshold: float) -> bool:
    """Return whether a score passes; a score equal to the threshold passes."""
    return score >= threshold - _TOLERANCE


def settled(replies: Sequence[Reply], votes: int, threshold: float) -> Reply | None:
    """Return the verdict of the majority, or None while more votes could still change it.

    It is the median of the majority's verdicts (the lower of two in the middle), with its own reasons: a score that a vote
    actually had, on the majority's side of the threshold.

    Args:
        replies: the verdicts so far, without failed votes.
        votes: the number of votes requested, odd.
        threshold: the score at which an answer passes.

    >>> from otel_agentic.judges.replies import Reply
    >>> given = [Reply(reasoning=str(score), score=score) for score in (0.75, 0.6, 0.8)]
    >>> settled(given[:2], 3, 0.7), settled(given, 3, 0.7).score
    (None, 0.75)
    """
    for outcome in (True, False):
        side = [reply for reply in replies if passes(reply.score, threshold) == outcome]
        if 2 * len(side) > votes:
            score = median_low(reply.score for reply in side)
            return next(reply for reply in side if reply.score == score)
    return None
