"""Measure the text matcher on tau-airline without ids; each model is fitted on some users and measured on others.

The cases of a measurement contain the queries of one attempt each. The conversations are the other attempts, in other words.
This script fits the logistic model of `truth.text_index`: `--fit` prints its coefficients. Precision and recall are those of
models that were fitted without the users they are measured on.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from benchmarks.matching_data import (
    ATTEMPTS,
    DATA,
    Queries,
    case_of,
    each_negated,
    every_digit_changed,
    first_half,
    first_only,
    groups,
    misspelt,
    one_digit_changed,
    one_negated,
    reworded,
    same,
    texts,
)
from otel_agentic.config import MatchingSettings
from otel_agentic.truth.sentences import Spoken
from otel_agentic.truth.text_index import COEFFICIENTS, Features, TextIndex, probability
from tests.shared import why_absent

if TYPE_CHECKING:
    Change = Callable[[Sequence[str], random.Random], Queries | None]

THRESHOLD: Final = MatchingSettings().text_threshold
#: Collection sizes for fitting the model, each with its number of draws.
_SIZES: Final = {50: 1, 25: 1, 10: 1, 3: 3, 1: 6}
_FOLDS: Final = 10
#: Weight of conversations without a case in the fit, relative to conversations with a case; their number in production is unknown.
_ABSENT_WEIGHT: Final = 0.2
_PENALTY: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A comparison: how cases and conversations are cut or changed, and whether both belong to the same attempt."""

    name: str
    of_case: Change
    of_conversation: Change
    same_attempt: bool = False


OTHER_WORDS: Final = (
    Setting(name="another attempt, all turns", of_case=same, of_conversation=same),
    Setting(name="another attempt, first half of the turns", of_case=same, of_conversation=first_half),
    Setting(
        name="cases of one turn: the first query of another attempt", of_case=first_only, of_conversation=first_only
    ),
)
CHANGED: Final = (
    Setting(name="other contractions and politeness", of_case=same, of_conversation=reworded, same_attempt=True),
    Setting(name="one misspelling in eight words", of_case=same, of_conversation=misspelt, same_attempt=True),
    Setting(name="one digit changed", of_case=same, of_conversation=one_digit_changed, same_attempt=True),
    Setting(name="every digit changed", of_case=same, of_conversation=every_digit_changed, same_attempt=True),
    Setting(name='a "not" in one query', of_case=same, of_conversation=one_negated, same_attempt=True),
    Setting(name='a "not" in each query', of_case=same, of_conversation=each_negated, same_attempt=True),
    Setting(name="another attempt, every digit changed", of_case=same, of_conversation=every_digit_changed),
    Setting(name='another attempt, a "not" in each query', of_case=same, of_conversation=each_negated),
)


class Sample(NamedTuple):
    """The best case for a conversation: whether it is right, whether it is eligible as a match, and its features."""

    setting: int
    size: int
    present: bool
    right: bool
    same_user: bool
    excluded: bool
    user: str
    features: Features


def samples(number: int, setting: Setting, size: int, rng: random.Random, *, absent: bool) -> Iterator[Sample]:
    """Yield the best case in the index for every conversation of a setting.

    Args:
        number: the number of the setting.
        setting: the comparison.
        size: number of cases, drawn at random.
        rng: draws cases and changes.
        absent: leave out the case of each conversation.
    """
    queries_of, user_of = texts(), groups()
    for attempt in range(ATTEMPTS):
        chosen = sorted(queries_of) if size >= len(queries_of) else rng.sample(sorted(queries_of), size)
        cases = [case_of(case_id, setting.of_case(queries_of[case_id][attempt], rng) or ()) for case_id in chosen]
        index = TextIndex(cases)
        for case_id in queries_of:
            left_out = TextIndex([case for case in cases if case.case_id != case_id]) if absent else index
            positions = [position for position, case in enumerate(cases) if not (absent and case.case_id == case_id)]
            for other in range(ATTEMPTS):
                queries = (
                    setting.of_conversation(queries_of[case_id][other], rng)
                    if (other == attempt) == setting.same_attempt
                    else None
                )
                if queries is None or (size < len(queries_of) and case_id not in chosen and rng.random() > 1 / 4):
                    continue
                known = Spoken.of(queries)
                nearest = left_out.best(known, None)
                features = Features(0.0, 0.0, 0.0) if nearest is None else nearest[1]
                position = None if nearest is None else positions[nearest[0]]
                best = None if position is None else cases[position].case_id
                yield Sample(
                    number,
                    size,
                    case_id in chosen and not absent,
                    best == case_id,
                    best is not None and user_of[best] == user_of[case_id],
                    nearest is not None and left_out.excludes(known, nearest[0]),
                    user_of[case_id],
                    features,
                )


def fit(inputs: np.ndarray, right: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return intercept and coefficients of a logistic regression with a ridge penalty, by Newton's method."""
    mean, spread = inputs.mean(0), inputs.std(0) + 1e-12
    x = np.column_stack([np.ones(len(inputs)), (inputs - mean) / spread])
    ridge = _PENALTY * np.diag([1e-6, *[1.0] * inputs.shape[1]])
    coefficients = np.zeros(x.shape[1])
    for _ in range(50):
        p = 1.0 / (1.0 + np.exp(-x @ coefficients))
        gradient = x.T @ (weights * (p - right)) + ridge @ coefficients
        coefficients -= np.linalg.solve((x * (weights * p * (1.0 - p))[:, None]).T @ x + ridge, gradient)
    slopes = coefficients[1:] / spread
    return np.array([coefficients[0] - slopes @ mean, *slopes])


def cross_validated(measured: Sequence[Sample], rng: random.Random) -> np.ndarray:
    """Return the probability of each sample under a model that was fitted without its user; 0 if the case is excluded."""
    users = sorted({sample.user for sample in measured})
    rng.shuffle(users)
    fold = {user: position % _FOLDS for position, user in enumerate(users)}
    inputs, right, weights = _arrays(measured)
    folds = np.array([fold[sample.user] for sample in measured])
    allowed = np.array([not sample.excluded for sample in measured])
    values = np.zeros(len(measured))
    for number in range(_FOLDS):
        rest = (folds != number) & allowed
        model = fit(inputs[rest], right[rest], weights[rest])
        values[folds == number] = model[0] + inputs[folds == number] @ model[1:]
    return np.where(allowed, 1.0 / (1.0 + np.exp(-values)), 0.0)


def _arrays(measured: Sequence[Sample]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return inputs, outcomes and weights; each setting and collection size has the same weight."""
    kinds = [(sample.setting, sample.size, sample.present) for sample in measured]
    counts = {kind: kinds.count(kind) for kind in set(kinds)}
    weights = [600 / counts[kind] * (1.0 if kind[2] else _ABSENT_WEIGHT) for kind in kinds]
    return (
        np.array([sample.features.values for sample in measured]),
        np.array([float(sample.right and sample.present) for sample in measured]),
        np.array(weights),
    )


def fitting_samples(rng: random.Random) -> list[Sample]:
    """Return the training settings: other words, and the same words with other polite phrases or misspellings."""
    collected: list[Sample] = []
    for number, setting in enumerate((*OTHER_WORDS, *CHANGED[:2])):
        for size, draws in _SIZES.items():
            for _ in range(draws):
                collected += samples(number, setting, size, rng, absent=False)
        collected += samples(number, setting, max(_SIZES), rng, absent=True)
    return collected


def _print_measured(measured: Sequence[Sample], probabilities: np.ndarray) -> None:
    print(f"{'conversations':55} {'':>5} precision recall   without their case: matched, by cases of other users")
    for number, setting in enumerate((*OTHER_WORDS, *CHANGED[:2])):
        for size in (max(_SIZES), 3):
            of_kind = [
                (sample, p) for sample, p in zip(measured, probabilities, strict=True) if sample[:2] == (number, size)
            ]
            present = [(sample.right, p >= THRESHOLD) for sample, p in of_kind if sample.present]
            absent = [(sample.same_user, p >= THRESHOLD) for sample, p in of_kind if not sample.present]
            matched = [right for right, accepted in present if accepted]
            print(
                f"{setting.name:55} {size:>3} c. {_share(matched)}     {_share(r and t for r, t in present)}     "
                f"{_share(t for _, t in absent)} {_share(t and not user for user, t in absent)}"
            )


def _print_changed(rng: random.Random) -> None:
    print("\nas shipped, 50 cases, the same words changed: matched to the right case, to another one")
    for number, setting in enumerate(CHANGED):
        changed = list(samples(number, setting, max(_SIZES), rng, absent=False))
        accepted = [
            (probability(sample.features) >= THRESHOLD and not sample.excluded, sample.right) for sample in changed
        ]
        print(
            f"{setting.name:55} {len(changed):>4} conversations: {_share(t and r for t, r in accepted)} "
            f"{_share(t and not r for t, r in accepted)}"
        )


def _share(values: Iterable[object]) -> str:
    flags = [bool(value) for value in values]
    return f"{sum(flags) / len(flags):.3f}" if flags else "  -  "


def main() -> None:
    """Print precision and recall on held-out users, the effect of changed requests, and with `--fit` the coefficients."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fit", action="store_true", help="print the coefficients for truth/text_index.py")
    options = parser.parse_args()
    why = why_absent(DATA)
    if why is not None:
        print(why)
        return
    rng = random.Random(16)  # noqa: S311 — draws of a benchmark
    measured = fitting_samples(rng)
    print(f"threshold {THRESHOLD}; {len(measured):,} samples, fitted and measured on different users")
    _print_measured(measured, cross_validated(measured, rng))
    if options.fit:
        inputs, right, weights = _arrays(measured)
        allowed = np.array([not sample.excluded for sample in measured])
        model = fit(inputs[allowed], right[allowed], weights[allowed])
        print("\nCOEFFICIENTS: Final =", tuple(round(float(value), 2) for value in model), "current:", COEFFICIENTS)
    _print_changed(rng)


if __name__ == "__main__":
    main()
