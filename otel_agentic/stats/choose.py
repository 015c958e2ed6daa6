"""Which k, which estimator: what the settings leave to the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from otel_agentic.errors import UsageError
from otel_agentic.stats.bayesian import BayesianEstimator
from otel_agentic.stats.frequentist import PerCaseEstimator, PluginEstimator
from otel_agentic.stats.grouped import GroupedAttempts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    import numpy.typing as npt

    from otel_agentic.config import StatsSettings
    from otel_agentic.stats.model import Attempts

#: The pooled estimator of each statistical mode. The frequentist one is `plugin`, not `unbiased`: it is the paper's,
#: and it is defined for every k.
POOLED: Final = {"bayesian": BayesianEstimator.name, "frequentist": PluginEstimator.name}


def validate_k(k: Iterable[object]) -> tuple[int, ...]:
    """Return the k to estimate, ascending and without repeats.

    Raises:
        UsageError: there is none, or one is not a whole number of at least 1; names it.

    >>> validate_k([5, 1, 3, 3])
    (1, 3, 5)
    """
    chosen: set[int] = set()
    for each in k:
        if not isinstance(each, int) or isinstance(each, bool) or each < 1:
            raise UsageError(f"k={each!r}: each k must be a whole number of attempts, 1 or more, e.g. 1,3,5")
        chosen.add(each)
    if not chosen:
        raise UsageError("k is empty: give at least one whole number of attempts, e.g. 1,3,5")
    return tuple(sorted(chosen))


def mode_estimator(settings: StatsSettings, *, level: float | None = None) -> BayesianEstimator | PluginEstimator:
    """Return the pooled estimator of the statistical mode, at its own level where one is given.

    >>> from otel_agentic.config import StatsSettings
    >>> mode_estimator(StatsSettings(mode="frequentist"), level=0.9)
    PluginEstimator(level=0.9)
    """
    chosen_level = settings.level if level is None else level
    if settings.mode == "bayesian":
        return BayesianEstimator(level=chosen_level, prior=settings.prior)
    return PluginEstimator(level=chosen_level)


def default_estimator(attempts: Attempts, k: Sequence[int], settings: StatsSettings) -> str:
    """Return the name of the estimator to show first.

    The one of the settings, else `per_case` where the median case has max(k) attempts or more, else the pooled one of
    the mode.

    >>> from otel_agentic.config import StatsSettings
    >>> from otel_agentic.stats.model import Attempts
    >>> default_estimator(Attempts.of([("a", True)] * 5), [1, 3, 5], StatsSettings())
    'per_case'
    >>> default_estimator(Attempts.of([("a", True)] * 4), [1, 3, 5], StatsSettings())
    'bayesian'
    """
    return default_estimators(GroupedAttempts.of([attempts]), k, settings)[0]


def default_estimators(grouped: GroupedAttempts, k: Sequence[int], settings: StatsSettings) -> list[str]:
    """Return the name of the estimator to show first of every group, by the rule of `default_estimator`.

    >>> from otel_agentic.config import StatsSettings
    >>> from otel_agentic.stats.model import Attempts
    >>> grouped = GroupedAttempts.of([Attempts(), Attempts.of([("a", True)] * 5)])
    >>> default_estimators(grouped, [1, 3, 5], StatsSettings())
    ['bayesian', 'per_case']
    """
    if settings.estimator is not None:
        return [settings.estimator] * grouped.size
    often = median_attempts(grouped) >= max(k)
    return [PerCaseEstimator.name if each else POOLED[settings.mode] for each in often.tolist()]


def median_attempts(grouped: GroupedAttempts) -> npt.NDArray[np.float64]:
    """Return the median over the cases of each group of how many attempts a case has; NaN without cases.

    >>> from otel_agentic.stats.model import Attempts
    >>> median_attempts(GroupedAttempts.of([Attempts.of([("a", True), ("a", True), ("b", True)]), Attempts()])).tolist()
    [1.5, nan]
    """
    order = np.lexsort((grouped.n, grouped.group))
    last = np.cumsum(grouped.cases[order])  # row r holds the cases up to last[r], all groups in one line
    cases = grouped.total(np.ones_like(grouped.n)).astype(np.int64)
    first = np.cumsum(cases) - cases
    known = cases > 0
    middles = [np.searchsorted(last, (first + place)[known], side="right") for place in ((cases - 1) // 2, cases // 2)]
    median = np.full(grouped.size, np.nan)
    median[known] = np.mean([grouped.n[order][rows] for rows in middles], axis=0)
    return median


def default_among(names: Collection[str], wanted: str, settings: StatsSettings) -> str:
    """Return the wanted estimator if it is among the given ones, else the nearest that is.

    The nearest is the pooled one of the mode, else the first given; with none given it stays the wanted one.

    >>> from otel_agentic.config import StatsSettings
    >>> default_among(["plugin", "bayesian"], "per_case", StatsSettings())
    'bayesian'
    """
    for name in (wanted, POOLED[settings.mode]):
        if name in names:
            return name
    return next(iter(names), wanted)
