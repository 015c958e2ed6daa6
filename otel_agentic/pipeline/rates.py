"""Rates of scored conversations in memory: of all together, and of groups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from operator import index
from typing import TYPE_CHECKING, Any, SupportsIndex

from otel_agentic import plugins
from otel_agentic.stats import PerCaseEstimator, pooled_estimator, shown_estimators, validate_k
from otel_agentic.windows import GroupKey, group_by, summarise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.config import StatsSettings
    from otel_agentic.stats import Estimates, Estimator
    from otel_agentic.windows import GroupBy, GroupSummary, ScoredConversation


@dataclass(frozen=True, kw_only=True)
class Rates:
    """The rates of some conversations under one set of settings."""

    scored: Sequence[ScoredConversation]
    settings: StatsSettings

    @cached_property
    def whole(self) -> GroupSummary:
        """The summary of all of them, with every installed estimator."""
        return self._summary(GroupKey(), self.scored, None, None)

    def of_all(self, k: int | Sequence[int] | None, estimator: str | None) -> GroupSummary:
        """Return the summary of all of them.

        Args:
            k: None takes the settings' one.
            estimator: one estimator by name; None takes every installed one.

        Raises:
            UsageError: a k is not allowed.
            PluginError: there is no estimator of that name.
        """
        if k is None and estimator is None:
            return self.whole
        return self._summary(GroupKey(), self.scored, k, estimator)

    def of_groups(
        self, by: GroupBy | Sequence[GroupBy], k: int | Sequence[int] | None, estimator: str | None
    ) -> list[GroupSummary]:
        """Return the summary of each group, sorted by key. See `of_all`.

        Raises:
            UsageError: a k or a group is not allowed.
            PluginError: there is no estimator of that name.
        """
        names: tuple[Any, ...] = (by,) if isinstance(by, str) else tuple(by)
        groups = group_by(self.scored, names)
        return [self._summary(key, members, k, estimator) for key, members in groups.items()]

    def _summary(
        self, key: GroupKey, members: Sequence[ScoredConversation], k: int | Sequence[int] | None, estimator: str | None
    ) -> GroupSummary:
        settings = self.settings
        if estimator is not None:
            settings = settings.model_copy(update={"estimator": estimator})
        chosen = settings.k if k is None else chosen_k(k)
        return summarise(key, members, estimators=self._estimators(estimator), settings=settings, k=chosen)

    def _estimators(self, name: str | None) -> list[Estimator]:
        found = [plugins.get("estimators", name)] if name else list(plugins.find("estimators").values())
        return [plugin.load().from_settings(self.settings) for plugin in found]


def chosen_k(k: object) -> tuple[int, ...]:
    """Return the k that are meant by one, or by any number of them; whole numbers of numpy are whole numbers.

    Raises:
        UsageError: one is not a whole number of at least 1; names it.

    >>> chosen_k(3), chosen_k([5, 1])
    ((3,), (1, 5))
    """
    given = k if isinstance(k, Iterable) and not isinstance(k, str) else (k,)
    return validate_k(
        index(one) if isinstance(one, SupportsIndex) and not isinstance(one, bool) else one for one in given
    )


def shown(summary: GroupSummary) -> Estimates:
    """Return the estimates of the headline estimator."""
    return summary.estimates[summary.default_estimator]


def by_role(summary: GroupSummary, settings: StatsSettings) -> dict[str, Estimates]:
    """Return the estimates that are shown of a group: pooled, per case, and of the headline estimator where it is a third."""
    pooled = pooled_estimator(settings)
    roles = {pooled: "pooled", PerCaseEstimator.name: "per case"}
    return {roles.get(name, name): summary.estimates[name] for name in shown_estimators(settings)}
