"""Measure the text matcher on tau-airline without ids; each model is fitted on some users and measured on others.

The cases of a measurement contain the queries of one attempt each. The conversations are the other attempts, in other words.
This script fits the logistic model of `truth.text_index`: `--fit` prints its coefficients. Precision and recall are those of
models that were fitted without the users they are measured on.
"""

from __future__ import annotations

import argparse
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from benchmarks.matching_data import (
    ATTEMPTS,
    DATA,
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
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from benchmarks.matching_data import Queries

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
    said, user_of = texts(), groups()
    for attempt in range(ATTEMPTS):
        chosen = sorted(said) if size >= len(said) else rng.sample(sorted(said), size)
        cases = [case_of(case_id, setting.of_case(said[case_id][attempt], rng) or ()) for case_id in chosen]
        index = TextIndex(cases)
        for case_id in said:
            left_out = TextIndex([case for case in cases if case.case_id != case_id]) if absent else index
            places = [place for place, case in enumerate(cases) if not (absent and case.case_id == case_id)]
            for other in range(ATTEMPTS):
                queries = (
                    setting.of_conversation(said[case_id][other], rng)
                    if (other == attempt) == setting.same_attempt
                    else None
                )
                if queries is None or (size < len(said) and case_id not in chosen and rng.random() > 1 / 4):
                    continue
                known = Spoken.of(queries)
                found = left_out.best(known, None)
                features = Features(0.0, 0.0, 0.0) if found is None else found[1]
                place = None if found is None else places[found[0]]
                best = None if place is None else cases[place].case_id
                yield Sample(
                    number,
                    size,
                    case_id in chosen and not absent,
                    best == case_id,
                    best is not None and user_of[best] == user_of[case_id],
                    found is not None and left_out.excludes(known, found[0]),
                    user_of[case_id],
                    features,
                )


def fit(inputs: np.ndarray, right: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return intercept and coefficients of a logistic regression with a ridge penalty, by Newton's method."""
    mean, spread = inputs.mean(0), inputs.std(0) + 1e-12
    x = np.column_stack([np.ones(len(inputs)), (inputs - mean) / spread])
    ridge = _PENALTY * np.diag([1e-6, *[1.0] * inputs.shape[1]])
    found = np.zeros(x.shape[1])
    for _ in range(50):
        p = 1.0 / (1.0 + np.exp(-x @ found))
        gradient = x.T @ (weights * (p - right)) + ridge @ found
        found -= np.linalg.solve((x * (weights * p * (1.0 - p))[:, None]).T @ x + ridge, gradient)
    slopes = found[1:] / spread
    return np.array([found[0] - slopes @ mean, *slopes])


def cross_validated(found: Sequence[Sample], rng: random.Random) -> np.ndarray:
    """Return the probability of each sample under a model that was fitted without its user; 0 if the case is excluded."""
    users = sorted({one.user for one in found})
    rng.shuffle(users)
    fold = {user: place % _FOLDS for place, user in enumerate(users)}
    inputs, right, weights = _arrays(found)
    folds = np.array([fold[one.user] for one in found])
    allowed = np.array([not one.excluded for one in found])
    values = np.zeros(len(found))
    for number in range(_FOLDS):
        rest = (folds != number) & allowed
        model = fit(inputs[rest], right[rest], weights[rest])
        values[folds == number] = model[0] + inputs[folds == number] @ model[1:]
    return np.where(allowed, 1.0 / (1.0 + np.exp(-values)), 0.0)


def _arrays(found: Sequence[Sample]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return inputs, outcomes and weights; each setting and collection size has the same weight."""
    kinds = [(one.setting, one.size, one.present) for one in found]
    counts = {kind: kinds.count(kind) for kind in set(kinds)}
    weights = [600 / counts[kind] * (1.0 if kind[2] else _ABSENT_WEIGHT) for kind in kinds]
    return (
        np.array([one.features.values for one in found]),
        np.array([float(one.right and one.present) for one in found]),
        np.array(weights),
    )


def fitting_samples(rng: random.Random) -> list[Sample]:
    """Return the training settings: other words, and the same words with other polite phrases or misspellings."""
    found: list[Sample] = []
    for number, setting in enumerate((*OTHER_WORDS, *CHANGED[:2])):
        for size, draws in _SIZES.items():
            for _ in range(draws):
                found += samples(number, setting, size, rng, absent=False)
        found += samples(number, setting, max(_SIZES), rng, absent=True)
    return found


def _print_measured(found: Sequence[Sample], probabilities: np.ndarray) -> None:
    print(f"{'conversations':55} {'':>5} precision recall   without their case: matched, by cases of other users")
    for number, setting in enumerate((*OTHER_WORDS, *CHANGED[:2])):
        for size in (max(_SIZES), 3):
            of_kind = [(one, p) for one, p in zip(found, probabilities, strict=True) if one[:2] == (number, size)]
            present = [(one.right, p >= THRESHOLD) for one, p in of_kind if one.present]
            absent = [(one.same_user, p >= THRESHOLD) for one, p in of_kind if not one.present]
            matched = [right for right, taken in present if taken]
            print(
                f"{setting.name:55} {size:>3} c. {_share(matched)}     {_share(r and t for r, t in present)}     "
                f"{_share(t for _, t in absent)} {_share(t and not user for user, t in absent)}"
            )


def _print_changed(rng: random.Random) -> None:
    print("\nas shipped, 50 cases, the same words changed: matched to the right case, to another one")
    for number, setting in enumerate(CHANGED):
        found = list(samples(number, setting, max(_SIZES), rng, absent=False))
        taken = [(probability(one.features) >= THRESHOLD and not one.excluded, one.right) for one in found]
        print(
            f"{setting.name:55} {len(found):>4} conversations: {_share(t and r for t, r in taken)} "
            f"{_share(t and not r for t, r in taken)}"
        )


def _share(values: Iterable[object]) -> str:
    found = [bool(value) for value in values]
    return f"{sum(found) / len(found):.3f}" if found else "  -  "


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
    found = fitting_samples(rng)
    print(f"threshold {THRESHOLD}; {len(found):,} samples, fitted and measured on different users")
    _print_measured(found, cross_validated(found, rng))
    if options.fit:
        inputs, right, weights = _arrays(found)
        allowed = np.array([not one.excluded for one in found])
        model = fit(inputs[allowed], right[allowed], weights[allowed])
        print("\nCOEFFICIENTS: Final =", tuple(round(float(value), 2) for value in model), "current:", COEFFICIENTS)
    _print_changed(rng)


if __name__ == "__main__":
    main()
