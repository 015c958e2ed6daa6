"""How often intervals hold the truth: prints the tables of docs/statistics.md, exact sums over every possible sample.

`--quick` leaves out the bootstrap, which takes most of the time.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.stats import binom

from benchmarks.coverage import (
    DESIGNS,
    ESTIMATORS,
    KAPPA,
    KAPPAS,
    MEANS,
    RATES,
    ROUNDING,
    SIZES,
    Design,
    K,
    averaged,
    cell,
    coverage,
    estimated,
    headline,
    naive,
    probabilities,
    rate_bounds,
    resampled,
    truth,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.stats import Estimator

_NAMES: Final = [estimator.name for estimator in ESTIMATORS]


def main() -> None:
    """Print every table, as the page has it."""
    tables = [independent_table(), success_table(), pass_pow_table(), kappa_table()]
    if "--quick" not in sys.argv:
        tables.append(bootstrap_table())
    print("\n\n".join("\n".join(table) for table in tables))


def independent_table() -> list[str]:
    """Return the coverage of intervals of a rate, n attempts of a case of their own each."""
    rows = [
        [
            str(n),
            f"{p:g}",
            *(f"{coverage(bounds, binom.pmf(np.arange(n + 1), n, p), p):.3f}" for bounds in rate_bounds(n)),
        ]
        for n in SIZES
        for p in RATES
    ]
    averages = [[str(n), "averaged", *(f"{averaged(bounds):.3f}" for bounds in rate_bounds(n))] for n in SIZES]
    return _table(["n", "p", "Wilson", "Clopper-Pearson", "bayesian", "hierarchical"], [*rows, *averages])


def success_table() -> list[str]:
    """Return the coverage of the mean rate under Beta cases of kappa 2: each estimator, and what ignores clusters."""
    rows = []
    for design in DESIGNS:
        for mean in MEANS:
            chance = probabilities(design, mean, KAPPA)
            found = [cell(estimator, design, mean, KAPPA, 1) for estimator in ESTIMATORS]
            ignoring = [coverage(naive(estimator, design), chance, mean) for estimator in ESTIMATORS[:2]]
            rows.append([str(design), f"{mean:g}", headline(), *map(_number, [*found, *ignoring])])
    return _table(["cases x attempts", "mean", "default", *_NAMES, "bayesian, naive", "plugin, naive"], rows)


def pass_pow_table() -> list[str]:
    """Return the coverage of pass^3 and pass@3 under Beta cases of kappa 2, and of pass^3 of a new case by a pooled one."""
    rows = []
    for design in DESIGNS:
        for mean in MEANS:
            power, at = ([_defined(each, design, mean, at=at) for each in ESTIMATORS] for at in (False, True))
            bounds = estimated(0, design)[1][:, K.index(3)]
            new = coverage(bounds, probabilities(design, mean, KAPPA), truth("hierarchical", mean, KAPPA, 3, at=False))
            cells = [f"{_number(one)}, {_number(other)}" if one else "" for one, other in zip(power, at, strict=True)]
            rows.append([str(design), f"{mean:g}", *cells, _number(new)])
    return _table(["cases x attempts", "mean", *_NAMES, "pass^3 of a new case by bayesian"], rows)


def kappa_table() -> list[str]:
    """Return the lowest coverage of pass^1, pass@3 and pass^3 over the three means, by how alike cases are."""
    rows = []
    for design in DESIGNS:
        for kappa in KAPPAS:
            lowest = [
                min(
                    cell(estimator, design, mean, kappa, k, at=at)
                    for mean in MEANS
                    for k, at in ((1, False), (3, False), (3, True))
                    if k <= design.attempts or estimator.name != "per_case"
                )
                for estimator in ESTIMATORS
            ]
            rows.append([str(design), f"{kappa:g}", *map(_number, lowest)])
    return _table(["cases x attempts", "kappa", *_NAMES], rows)


def bootstrap_table() -> list[str]:
    """Return the coverage of pass^1 by the cluster bootstrap, and how often it collapses, beside the default."""
    rows = []
    for design in DESIGNS:
        bounds = resampled(design)
        collapsed = bounds[:, 1] - bounds[:, 0] < ROUNDING
        default = next(estimator for estimator in ESTIMATORS if estimator.name == headline())
        for mean in MEANS:
            chance = probabilities(design, mean, KAPPA)
            found = [
                coverage(bounds, chance, mean),
                float(chance[collapsed].sum()),
                cell(default, design, mean, KAPPA, 1),
            ]
            rows.append([str(design), f"{mean:g}", *map(_number, found)])
    return _table(["cases x attempts", "mean", "bootstrap", "of no width", "default"], rows)


def _defined(estimator: Estimator, design: Design, mean: float, *, at: bool) -> float | None:
    """Return the coverage of pass^3 or pass@3; None where a case has too few attempts for `per_case`."""
    if estimator.name == "per_case" and design.attempts < max(K):
        return None
    return cell(estimator, design, mean, KAPPA, max(K), at=at)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    line = ["---", *["---:"] * (len(head) - 1)]
    return ["| " + " | ".join(cells) + " |" for cells in (head, line, *rows)]


if __name__ == "__main__":
    main()
