"""Which k, and which estimators: what the settings ask for, whatever the data are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_agentic.errors import UsageError
from otel_agentic.stats.bayesian import BayesianEstimator
from otel_agentic.stats.frequentist import PerCaseEstimator, PluginEstimator, UnbiasedEstimator

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from otel_agentic.config import StatsSettings
    from otel_agentic.stats.model import Estimator

#: The pooled estimator of each statistical mode. The frequentist one is `plugin`, not `unbiased`: it is the paper's,
#: and it is defined for every k.
POOLED: Final = {"bayesian": BayesianEstimator.name, "frequentist": PluginEstimator.name}
#: Those that take any two conversations of a group for alike.
_POOLED_NAMES: Final = frozenset({PluginEstimator.name, UnbiasedEstimator.name, BayesianEstimator.name})


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


def headline_estimator(settings: StatsSettings) -> str:
    """Return the name of the estimator of gauges, comparisons and gates: the configured one, else the mode's pooled one.

    It never depends on the data: a series or a comparison must not change its meaning by itself.

    >>> from otel_agentic.config import StatsSettings
    >>> headline_estimator(StatsSettings()), headline_estimator(StatsSettings(estimator="per_case"))
    ('bayesian', 'per_case')
    """
    return settings.estimator or POOLED[settings.mode]


def pooled_estimator(settings: StatsSettings) -> str:
    """Return the name of the estimator that answers for the traffic as a whole: the configured one where it does.

    >>> from otel_agentic.config import StatsSettings
    >>> pooled_estimator(StatsSettings(estimator="unbiased")), pooled_estimator(StatsSettings(estimator="per_case"))
    ('unbiased', 'bayesian')
    """
    return settings.estimator if settings.estimator in _POOLED_NAMES else POOLED[settings.mode]


def shown_estimators(settings: StatsSettings) -> tuple[str, ...]:
    """Return the names of the estimators that a report shows of every group: pooled, per case, and a configured third.

    >>> from otel_agentic.config import StatsSettings
    >>> shown_estimators(StatsSettings()), shown_estimators(StatsSettings(estimator="hierarchical"))
    (('bayesian', 'per_case'), ('bayesian', 'per_case', 'hierarchical'))
    """
    return tuple(dict.fromkeys((pooled_estimator(settings), PerCaseEstimator.name, headline_estimator(settings))))


def headline_among(estimators: Sequence[Estimator], settings: StatsSettings) -> tuple[str, Estimator | None]:
    """Return the name of the headline estimator, or what stands in for it among some, and that estimator if it is there.

    >>> from otel_agentic.config import StatsSettings
    >>> headline_among([PluginEstimator(level=0.9)], StatsSettings())
    ('plugin', PluginEstimator(level=0.9))
    """
    name = default_among([each.name for each in estimators], headline_estimator(settings), settings)
    return name, next((each for each in estimators if each.name == name), None)


def default_among(names: Collection[str], wanted: str, settings: StatsSettings) -> str:
    """Return the wanted estimator if it is among the given ones, else the pooled one of the mode, else the first given.

    With none given it stays the wanted one.

    >>> from otel_agentic.config import StatsSettings
    >>> default_among(["plugin", "bayesian"], "per_case", StatsSettings())
    'bayesian'
    """
    for name in (wanted, POOLED[settings.mode]):
        if name in names:
            return name
    return next(iter(names), wanted)
