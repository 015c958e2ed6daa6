"""Train the logistic model of the judge `exact` on answers that people judged, and write its coefficients.

    python -m tools.train_exact_judge [PAIRS] [--check]

PAIRS is a JSONL file with question, golds, answer and human (true or false), by default the shared `evouna-tq.jsonl`. `--check`
writes nothing and fails if the result differs from the shipped coefficients.

An answer is judged by the accepted answer that fits it best. The model is trained in the same way: each round selects the best
accepted answer of each pair under the current coefficients, and refits the coefficients to these. Each pair is used twice: with
all accepted answers, and with a single one, because most cases have one. A coefficient may only have the sign that its feature
declares. Nothing is random, so the same pairs result in the same coefficients.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.optimize import Bounds, minimize

from otel_agentic.judges.exact import fixed_score
from otel_agentic.judges.exact.features import FEATURES, FILE, Model, measure, wording
from otel_agentic.judges.exact.judge import Candidate, Query, Sides, expected_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROOT: Final = Path(__file__).parents[1]
SHARED: Final = Path(os.environ.get("OTEL_AGENTIC_SHARED") or ROOT.parent / "shared")
PAIRS: Final = SHARED / "data" / "answer-pairs" / "evouna-tq.jsonl"
SHIPPED: Final = ROOT / "otel_agentic" / "judges" / "exact" / FILE

VERSION: Final = 3
SOURCE: Final = "EVOUNA, TriviaQA half (Wang et al. 2023, Evaluating Open-QA Evaluation; wangcunxiang/QA-Eval)"
LICENCE: Final = "Apache-2.0"
#: Chosen on cross-validated probabilities, see docs/exact-judge.md: decided verdicts are right, and as many pairs of right answers
#: as of wrong ones are decided, so that conversations without unsure turns pass as often as all do.
FAILS: Final = 0.25
PASSES: Final = 0.75
#: The probability for an answer that contains the expected yes or no, or all expected facts. Of 335 such pairs 331 are right
#: (`python -m benchmarks.answer_pairs`); too few of them are yes or no answers to estimate these separately.
AGREED: Final = 0.99
#: Weight of a pair with a single accepted answer.
ONE_ACCEPTED_WEIGHT: Final = 0.5
REGULARISATION: Final = 20.0
_ROUNDS: Final = 8
_DIGITS: Final = 5
#: Features that select the accepted answer in the first round.
_FIRST_CHOICE: Final = ("contained", "recall", "f1")


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanPair:
    """A question with its accepted answers, and an answer that people judged. `group` is the question, `system` is the author of the answer."""

    group: str
    system: str
    question: str
    accepted: tuple[str, ...]
    answer: str
    right: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The features of pairs: one row for each pair and accepted answer; the rows of a pair are adjacent.

    `caps` contains the highest probabilities that objections allow, `fixed` the scores that rules set (-1 if no rule applies), and
    `single` marks the accepted answer that represents all others when only one is used.
    """

    values: NDArray[np.float64]
    pair: NDArray[np.int64]
    caps: NDArray[np.float64]
    fixed: NDArray[np.float64]
    single: NDArray[np.bool_]
    right: NDArray[np.bool_]

    def of(self, chosen: NDArray[np.bool_]) -> Measured:
        """Return the rows of the pairs selected by a mask over pairs; the pairs keep their numbers."""
        return self._rows(chosen[self.pair])

    def one_accepted(self) -> Measured:
        """Return the rows of the single accepted answers."""
        return self._rows(self.single)

    def _rows(self, rows: NDArray[np.bool_]) -> Measured:
        return Measured(
            values=self.values[rows],
            pair=self.pair[rows],
            caps=self.caps[rows],
            fixed=self.fixed[rows],
            single=self.single[rows],
            right=self.right,
        )


def read_pairs(path: Path) -> list[HumanPair]:
    """Return the pairs of a file."""
    pairs = []
    for line in path.read_text(encoding="utf-8").strip().split("\n"):
        row = json.loads(line)
        group, _, system = row["id"].rpartition("-")
        pairs.append(
            HumanPair(
                group=group,
                system=system,
                question=row["question"],
                accepted=tuple(dict.fromkeys(row["golds"])),
                answer=row["answer"],
                right=row["human"],
            )
        )
    return pairs


def measured(pairs: Sequence[HumanPair], model: Model) -> Measured:
    """Return the features of pairs; `model` provides only the caps of objections, its weights are not used."""
    single = single_accepted(pairs)
    rows = [row for index, pair in enumerate(pairs) for row in _rows(index, pair, model, single[pair.group])]
    values, pair_of, caps, fixed, alone = zip(*rows, strict=True)
    return Measured(
        values=np.array(values, dtype=float),
        pair=np.array(pair_of),
        caps=np.array(caps),
        fixed=np.array(fixed),
        single=np.array(alone),
        right=np.array([pair.right for pair in pairs]),
    )


def _rows(index: int, pair: HumanPair, model: Model, single: str) -> list[tuple[Any, ...]]:
    candidate = Candidate.of(pair.answer, Query.of(pair.question))
    rows = []
    for accepted in pair.accepted:
        sides = Sides(expected=expected_text(accepted), candidate=candidate)
        fixed = fixed_score(sides, model)
        objection = sides.objection()
        values = measure(wording(sides.expected.raw), candidate.wording, sides.held_facts)
        cap = 1.0 if objection is None else model.cap(objection.weight)
        rows.append((values, index, cap, -1.0 if fixed is None else fixed.score, accepted == single))
    return rows


def single_accepted(pairs: Sequence[HumanPair]) -> dict[str, str]:
    """Return the representative accepted answer of each question: the one that most answers contain, the longest if several do.

    Lists of accepted answers contain many rare spellings; a person who annotates a case writes the usual one.
    """
    answers = defaultdict(list)
    accepted = {}
    for pair in pairs:
        answers[pair.group].append(wording(pair.answer).joined)
        accepted[pair.group] = pair.accepted

    def rank(group: str, text: str) -> tuple[int, int, int]:
        plain = wording(text)
        hits = sum(bool(plain.words) and plain.joined in answer for answer in answers[group])
        return hits, len(plain.compact) if hits else -len(plain.compact), -len(text)

    return {group: max(texts, key=lambda text: rank(group, text)) for group, texts in accepted.items()}


def fit(data: Measured, regularisation: float = REGULARISATION) -> tuple[NDArray[np.float64], float]:
    """Return weights of the features and intercept."""
    parts = [(data, 1.0), (data.one_accepted(), ONE_ACCEPTED_WEIGHT)]
    raw = np.vstack([part.values for part, _ in parts])
    mean, spread = raw.mean(axis=0), raw.std(axis=0) + 1e-9
    values = (raw - mean) / spread
    pair = np.concatenate([part.pair + number * (len(data.right) + 1) for number, (part, _) in enumerate(parts)])
    right = np.concatenate([data.right[part.pair] for part, _ in parts]).astype(float)
    weight = np.concatenate([np.full(len(part.pair), weight) for part, weight in parts])
    caps = np.concatenate([part.caps for part, _ in parts])
    undecided = np.maximum.reduceat(np.concatenate([part.fixed for part, _ in parts]), _starts(pair)) < 0
    limits = np.log(caps) - np.log1p(-np.minimum(caps, 1 - 1e-12))
    logits = raw[:, [list(FEATURES).index(name) for name in _FIRST_CHOICE]].sum(axis=1)
    coefficients = np.zeros(len(FEATURES) + 1)
    previous: NDArray[np.int64] | None = None
    for _ in range(_ROUNDS):
        best = _best_rows(np.minimum(logits, limits), pair)[undecided]
        if previous is not None and np.array_equal(best, previous):
            break
        previous = best
        coefficients = _minimum(values[best], right[best], weight[best], regularisation, coefficients)
        logits = values @ coefficients[:-1] + coefficients[-1]
    weights = coefficients[:-1] / spread
    return weights, float(coefficients[-1] - (weights * mean).sum())


def _minimum(
    values: NDArray[np.float64],
    right: NDArray[np.float64],
    weight: NDArray[np.float64],
    regularisation: float,
    start: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return weights and intercept that minimise the penalised log loss; each weight has the sign that its feature declares."""

    def loss(vector: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        logit = values @ vector[:-1] + vector[-1]
        error = weight * (1 / (1 + np.exp(-logit)) - right)
        value = float((weight * (np.logaddexp(0, logit) - right * logit)).sum())
        penalty = float(regularisation * (vector[:-1] ** 2).sum() / 2)
        return value + penalty, np.append(values.T @ error + regularisation * vector[:-1], error.sum())

    lower = [0.0 if sign > 0 else -np.inf for sign in FEATURES.values()]
    upper = [0.0 if sign < 0 else np.inf for sign in FEATURES.values()]
    bounds = Bounds([*lower, -np.inf], [*upper, np.inf])
    options: Any = {"maxiter": 1000, "ftol": 1e-13, "gtol": 1e-7}
    return np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x)


def _starts(pair: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.flatnonzero(np.diff(pair)) + 1])


def _best_rows(score: NDArray[np.float64], pair: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the first row of each pair that has its highest score."""
    starts = _starts(pair)
    length = np.diff(np.append(starts, len(pair)))
    at_best = np.flatnonzero(score == np.repeat(np.maximum.reduceat(score, starts), length))
    _, first = np.unique(pair[at_best], return_index=True)
    return at_best[first]


def probabilities(data: Measured, weights: NDArray[np.float64], intercept: float) -> NDArray[np.float64]:
    """Return the score of each pair in the rows, in the order of the pair numbers."""
    score = np.minimum(1 / (1 + np.exp(-(data.values @ weights + intercept))), data.caps)
    best: NDArray[np.float64] = np.maximum.reduceat(np.where(data.fixed >= 0, data.fixed, score), _starts(data.pair))
    return best


def blank_model() -> Model:
    """Return the model that provides the caps: thresholds without weights."""
    return Model(version=VERSION, intercept=0.0, weights=(), fails=FAILS, passes=PASSES, agreed=AGREED)


def trained(path: Path) -> dict[str, Any]:
    """Return the content of `model.json`."""
    weights, intercept = fit(measured(read_pairs(path), blank_model()))
    return {
        "version": VERSION,
        "source": SOURCE,
        "licence": LICENCE,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "thresholds": {"fails": FAILS, "passes": PASSES},
        "agreed": AGREED,
        "intercept": round(intercept, _DIGITS),
        "weights": {name: round(float(weight), _DIGITS) for name, weight in zip(FEATURES, weights, strict=True)},
    }


def same(left: dict[str, Any], right: dict[str, Any], tolerance: float = 0.02) -> bool:
    """Return whether two models are equal, except for rounding on different processors."""
    numbers, others = ([model["intercept"], *model["weights"].values()] for model in (left, right))
    plain = [
        {key: value for key, value in model.items() if key not in {"intercept", "weights"}} for model in (left, right)
    ]
    return plain[0] == plain[1] and bool(np.allclose(numbers, others, atol=tolerance))


def main() -> int:
    """Write the coefficients, or compare them with the shipped ones."""
    parser = argparse.ArgumentParser(prog="python -m tools.train_exact_judge", description=__doc__.partition("\n")[0])
    parser.add_argument("pairs", nargs="?", type=Path, default=PAIRS)
    parser.add_argument("--check", action="store_true", help="compare with the shipped coefficients, write nothing")
    arguments = parser.parse_args()
    if not arguments.pairs.is_file():
        parser.error(f"no file {arguments.pairs}; pass the pairs, or set OTEL_AGENTIC_SHARED to the shared folder")
    model = trained(arguments.pairs)
    if arguments.check:
        if same(model, json.loads(SHIPPED.read_text(encoding="utf-8"))):
            return 0
        print(f"{SHIPPED} differs from the result for {arguments.pairs}; run python -m tools.train_exact_judge")
        return 1
    SHIPPED.write_text(json.dumps(model, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
