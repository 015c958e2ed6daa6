"""RAGAS's topic adherence: of the topics that were answered, how many may be talked about?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from otel_agentic.errors import BadInputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

#: Added to every denominator, so that nothing is divided by 0, and nothing is ever 1.
_EPSILON: Final = 1e-10
_YES: Final = frozenset({"true", "1", "yes"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicAdherence:
    """Precision, recall and F1, each a little below what it would be without the added 1e-10."""

    precision: float
    recall: float
    f1: float


def topic_adherence(refused: Sequence[Any], classifications: Sequence[Any]) -> TopicAdherence:
    """Return the topic adherence of a conversation.

    Args:
        refused: for each topic found, whether the agent refused to talk about it.
        classifications: for each topic, whether it is one of the reference topics, as the judge says it: truth values,
            numbers or texts, of which true, 1 and yes count. A single one stands for all topics, as numpy has it.

    Raises:
        BadInputError: neither one classification nor as many as topics.

    >>> topic_adherence([False, True], [True, True]).recall
    0.499999999975
    """
    try:
        answered, allowed = np.array([not one for one in refused], dtype=bool), _truth_values(classifications)
        right, wrong, kept = (
            int(np.sum(both)) for both in (answered & allowed, answered & ~allowed, ~answered & allowed)
        )
    except ValueError as error:
        raise BadInputError(
            f"{len(classifications)} classifications for {len(refused)} topics ({error}); give one for each topic"
        ) from error
    precision, recall = right / (right + wrong + _EPSILON), right / (right + kept + _EPSILON)
    return TopicAdherence(
        precision=precision, recall=recall, f1=2 * (precision * recall) / (precision + recall + _EPSILON)
    )


def _truth_values(classifications: Sequence[Any]) -> npt.NDArray[np.bool_]:
    values = np.array(classifications)
    # Of a list of texts and others numpy makes texts: True becomes "True", 1 becomes "1".
    if values.dtype.kind in "USO":
        return np.array([_truth_value(value) for value in values], dtype=bool)
    return values.astype(bool)


def _truth_value(value: Any) -> bool:
    return value.lower() in _YES if isinstance(value, str) else bool(value)
