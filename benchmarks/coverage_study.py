"""Print how often intervals contain the true value: the tables of benchmarks/results/coverage.md.

Without an argument: exact sums over every possible sample; `--quick` skips the bootstrap, which takes most of the time.
`unequal`: simulation with unequal numbers of attempts per case. `new-case`: the same for pass^3 of a new case.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.stats import binom

from benchmarks import coverage_unequal
from benchmarks.coverage import (
    DESIGNS,
    ESTIMATORS,
    KAPPA,
    KAPPAS,
    MEAN_RATES,
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
    from benchmarks.coverage_unequal import Cell, Covered
    from otel_agentic.stats import Estimator

#: Width ratios above which a cell is counted: to the former rule if attempts are equal, to the narrowest interval otherwise.
_TO_FORMER: Final = 1.1
_TO_BEST: Final = 1.25
_NAMES: Final = [estimator.name for estimator in ESTIMATORS]


def main() -> None:
    """Print every table in the form of the page."""
    if "unequal" in sys.argv or "new-case" in sys.argv:
        tables = [new_case_table()] if "new-case" in sys.argv else [unequal_table(), width_table(), unequal_summary()]
        print("\n\n".join("\n".join(table) for table in tables))
        return
    tables = [independent_table(), success_table(), pass_pow_table(), kappa_table()]
    if "--quick" not in sys.argv:
        tables.append(bootstrap_table())
    print("\n\n".join("\n".join(table) for table in tables))


def independent_table() -> list[str]:
    """Return the coverage of intervals of a rate, for n attempts with one case each."""
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
    """Return the coverage of the mean rate under Beta cases with kappa 2: each estimator, and intervals that ignore clusters."""
    rows = []
    for design in DESIGNS:
        for mean in MEAN_RATES:
            chance = probabilities(design, mean, KAPPA)
            results = [cell(estimator, design, mean, KAPPA, 1) for estimator in ESTIMATORS]
            ignoring = [coverage(naive(estimator, design), chance, mean) for estimator in ESTIMATORS[:2]]
            rows.append([str(design), f"{mean:g}", headline(), *map(_number, [*results, *ignoring])])
    return _table(["cases x attempts", "mean", "default", *_NAMES, "bayesian, naive", "plugin, naive"], rows)


def pass_pow_table() -> list[str]:
    """Return the coverage of pass^3 and pass@3 under Beta cases with kappa 2, and of pass^3 of a new case by a pooled estimator."""
    rows = []
    for design in DESIGNS:
        for mean in MEAN_RATES:
            power, at = ([_defined(estimator, design, mean, at=at) for estimator in ESTIMATORS] for at in (False, True))
            bounds = estimated(0, design)[1][:, K.index(3)]
            new = coverage(bounds, probabilities(design, mean, KAPPA), truth("hierarchical", mean, KAPPA, 3, at=False))
            cells = [
                f"{_number(first)}, {_number(other)}" if first else "" for first, other in zip(power, at, strict=True)
            ]
            rows.append([str(design), f"{mean:g}", *cells, _number(new)])
    return _table(["cases x attempts", "mean", *_NAMES, "pass^3 of a new case by bayesian"], rows)


def kappa_table() -> list[str]:
    """Return the lowest coverage of pass^1, pass@3 and pass^3 over the three means, by similarity of the cases."""
    rows = []
    for design in DESIGNS:
        for kappa in KAPPAS:
            lowest = [
                min(
                    cell(estimator, design, mean, kappa, k, at=at)
                    for mean in MEAN_RATES
                    for k, at in ((1, False), (3, False), (3, True))
                    if k <= design.attempts or estimator.name != "per_case"
                )
                for estimator in ESTIMATORS
            ]
            rows.append([str(design), f"{kappa:g}", *map(_number, lowest)])
    return _table(["cases x attempts", "kappa", *_NAMES], rows)


def bootstrap_table() -> list[str]:
    """Return the coverage of pass^1 by the cluster bootstrap, how often it collapses, and the coverage of the default."""
    rows = []
    for design in DESIGNS:
        bounds = resampled(design)
        collapsed = bounds[:, 1] - bounds[:, 0] < ROUNDING
        default = next(estimator for estimator in ESTIMATORS if estimator.name == headline())
        for mean in MEAN_RATES:
            chance = probabilities(design, mean, KAPPA)
            results = [
                coverage(bounds, chance, mean),
                float(chance[collapsed].sum()),
                cell(default, design, mean, KAPPA, 1),
            ]
            rows.append([str(design), f"{mean:g}", *map(_number, results)])
    return _table(["cases x attempts", "mean", "bootstrap", "of no width", "default"], rows)


def unequal_table() -> list[str]:
    """Return the simulated coverage: of a new case by `bayesian` for each mean, and the lowest coverage of the others."""
    rows = []
    for cases, sizes, kappa, row in _simulated(coverage_unequal.study, tuple(coverage_unequal.SIZES)):
        own = [result["bayesian"].coverage for result in row]
        lowest = [min(result[name].coverage for result in row) for name in ("plugin", "per_case", "former bayesian")]
        traffic = min(result["this_traffic"].coverage for result in row)
        rows.append([cases, sizes, kappa, *map(_number, [*own, *lowest, traffic])])
    columns = [f"bayesian, mean {mean:g}" for mean in coverage_unequal.MEAN_RATES]
    heads = ["cases", "attempts", "kappa", *columns, "plugin", "per_case", "bayesian until now", "this traffic"]
    return _table(heads, rows)


def width_table() -> list[str]:
    """Return mean widths over the four means, and the largest ratios of `bayesian` in a cell."""
    rows = []
    for cases, sizes, kappa, row in _simulated(coverage_unequal.study, tuple(coverage_unequal.SIZES)[1:]):
        names = ("bayesian", "plugin", "per_case", "former bayesian", "pooled CR2", "this_traffic", "naive")
        widths = [float(np.mean([result[name].width for result in row])) for name in names]
        former = max(result["bayesian"].width / result["former bayesian"].width for result in row)
        best = np.nanmax([result["bayesian"].width / coverage_unequal.narrowest(result) for result in row])
        rows.append([cases, sizes, kappa, *map(_number, widths), f"{former:.2f}", f"{best:.2f}"])
    heads = ["bayesian", "plugin", "per_case", "bayesian until now", "pooled CR2", "this traffic", "naive"]
    return _table(["cases", "attempts", "kappa", *heads, "to until now", "to narrowest"], rows)


def unequal_summary() -> list[str]:
    """Return sentences on the whole grid: lowest coverage, widths, and the error of the simulation."""
    groups, target = coverage_unequal.GROUPS, coverage_unequal.TARGET
    error = coverage_unequal.monte_carlo_error(target, groups)
    lines = [f"{groups:,} groups a cell; the standard error of a coverage of {target} is {error:.4f}."]
    for words, sizes in (("equal", coverage_unequal.EQUAL), ("unequal", ("Zipf", "1/rank"))):
        results = [coverage_unequal.study(cell) for cell in coverage_unequal.cells(sizes)]
        for name in (
            "bayesian",
            "plugin",
            "per_case",
            "this_traffic",
            "former bayesian",
            "former per_case",
            "pooled CR2",
        ):
            covered = [result[name].coverage for result in results]
            below = sum(coverage < target for coverage in covered)
            lines.append(
                f"{words}: {name}: at least {min(covered):.3f}, {below} of {len(covered)} cells below {target}"
            )
        former = np.array([result["bayesian"].width / result["former bayesian"].width for result in results])
        best = np.array([result["bayesian"].width / coverage_unequal.narrowest(result) for result in results])
        lines.append(f"{words}: width of bayesian to until now: mean {former.mean():.3f}, at most {former.max():.2f}")
        lines.append(f"{words}: above {_TO_FORMER} in {(former > _TO_FORMER).sum()} of {len(former)} cells")
        lines.append(
            f"{words}: width of bayesian to the narrowest that covers in the cell: mean {np.nanmean(best):.3f}"
        )
        lines.append(f"{words}: at most {np.nanmax(best):.2f}, above {_TO_BEST} in {(best > _TO_BEST).sum()} cells")
    return lines


def new_case_table() -> list[str]:
    """Return the coverage of pass^3 of a new case by `hierarchical`, and by a pooled estimate read as if it were that."""
    rows = []
    for cases, sizes, kappa, row in _simulated(coverage_unequal.pass_pow_3, ("1 each", "4 each", "Zipf", "1/rank")):
        own = [result["hierarchical"].coverage for result in row]
        pooled = min(result["bayesian"].coverage for result in row)
        width = float(np.mean([result["hierarchical"].width for result in row]))
        rows.append([cases, sizes, kappa, *map(_number, [*own, pooled, width])])
    columns = [f"mean {mean:g}" for mean in coverage_unequal.MEAN_RATES]
    return _table(["cases", "attempts", "kappa", *columns, "read off bayesian", "width"], rows)


def _simulated(
    study: Callable[[Cell], dict[str, Covered]], sizes: Sequence[str]
) -> Iterator[tuple[str, str, str, list[dict[str, Covered]]]]:
    """Yield cases, sizes and kappa with the results for each mean."""
    rows: dict[tuple[int, str, float], list[dict[str, Covered]]] = {}
    for design in coverage_unequal.cells(sizes):
        rows.setdefault((design.cases, design.sizes, design.kappa), []).append(study(design))
    for (cases, size, kappa), row in rows.items():
        yield str(cases), size, f"{kappa:g}", row


def _defined(estimator: Estimator, design: Design, mean: float, *, at: bool) -> float | None:
    """Return the coverage of pass^3 or pass@3, or None if a case has too few attempts for `per_case`."""
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
