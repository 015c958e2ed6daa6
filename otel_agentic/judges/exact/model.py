"""The logistic model: coefficients and thresholds from `model.json`, which `tools/train_exact_judge.py` writes."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final, Self

from otel_agentic.judges.exact.features import FEATURES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_agentic.judges.exact.features import Weight

#: The coefficients, next to this module.
FILE: Final = "model.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Weights of the features and the thresholds of the probability.

    Below `fails` an answer is judged wrong, from `passes` on right. An objection caps the probability: below `fails` for a
    wrong statement, below `passes` for a doubt. `agreed` is the probability of an answer that states the expected yes, no or facts.
    """

    version: int
    intercept: float
    weights: tuple[float, ...]
    fails: float
    passes: float
    agreed: float

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Self:
        """Return the model from the content of its file.

        Raises:
            ValueError: its features are not those of this version.
        """
        weights = data["weights"]
        thresholds = data["thresholds"]
        if not isinstance(weights, dict) or not isinstance(thresholds, dict) or list(weights) != list(FEATURES):
            raise ValueError("model.json: weights must name the features of exact/features.py in their order")
        return cls(
            version=int(str(data["version"])),
            intercept=float(str(data["intercept"])),
            weights=tuple(map(float, weights.values())),
            fails=thresholds["fails"],
            passes=thresholds["passes"],
            agreed=float(str(data["agreed"])),
        )

    def probability(self, values: Sequence[float]) -> float:
        """Return the probability for the values of the features."""
        logit = self.intercept + sum(map(float.__mul__, self.weights, values))
        return 1.0 / (1.0 + math.exp(-logit)) if logit >= 0 else math.exp(logit) / (1.0 + math.exp(logit))

    def cap(self, weight: Weight) -> float:
        """Return the maximum probability of an answer with an objection."""
        return self.fails / 2 if weight == "wrong" else (self.fails + self.passes) / 2


@cache
def shipped_model() -> Model:
    """Return the model of this version; read at the first judged answer."""
    return Model.from_dict(json.loads(files(__package__).joinpath(FILE).read_text(encoding="utf-8")))
