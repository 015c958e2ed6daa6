"""Rates of scored conversations in memory: of all conversations, and of groups."""

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
    """Rates of conversations under one set of settings."""

    scored: Sequence[ScoredConversation]
    settings: StatsSettings

    @cached_property
    def overall(self) -> GroupSummary:
        """The summary of all conversations, with every installed estimator."""
        return self._summary(GroupKey(), self.scored, None, None)

    def of_all(self, k: int | Sequence[int] | None, estimator: str | None) -> GroupSummary:
        """Return the summary of all conversations.

        Args:
            k: the k of pass@k and pass^k; None for those of the settings.
            estimator: the name of an estimator; None for every installed one.

        Raises:
            UsageError: a k is invalid.
            PluginError: the estimator is unknown.
        """
        if k is None and estimator is None:
            return self.overall
        return self._summary(GroupKey(), self.scored, k, estimator)

    def of_groups(
        self, by: GroupBy | Sequence[GroupBy], k: int | Sequence[int] | None, estimator: str | None
    ) -> list[GroupSummary]:
        """Return the summary of each group, sorted by key. See `of_all`.

        Raises:
            UsageError: a k or a group is invalid.
            PluginError: the estimator is unknown.
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
        ks = settings.k if k is None else chosen_k(k)
        return summarise(key, members, estimators=self._estimators(estimator), settings=settings, k=ks)

    def _estimators(self, name: str | None) -> list[Estimator]:
        chosen = [plugins.get("estimators", name)] if name else list(plugins.find("estimators").values())
        return [plugin.load().from_settings(self.settings) for plugin in chosen]


def chosen_k(k: object) -> tuple[int, ...]:
    """Return a k, or any number of them, as sorted integers; numpy integers are accepted.

    Raises:
        UsageError: a k is not an integer of at least 1; the message contains it.

    >>> chosen_k(3), chosen_k([5, 1])
    ((3,), (1, 5))
    """
    values = k if isinstance(k, Iterable) and not isinstance(k, str) else (k,)
    return validate_k(
        index(value) if isinstance(value, SupportsIndex) and not isinstance(value, bool) else value for value in values
    )


def headline_estimates(summary: GroupSummary) -> Estimates:
    """Return the estimates of the headline estimator."""
    return summary.estimates[summary.default_estimator]


def by_role(summary: GroupSummary, settings: StatsSettings) -> dict[str, Estimates]:
    """Return the displayed estimates of a group: pooled, per case, and the headline estimator's if it is a third one."""
    pooled = pooled_estimator(settings)
    roles = {pooled: "pooled", PerCaseEstimator.name: "per case"}
    return {roles.get(name, name): summary.estimates[name] for name in shown_estimators(settings)}
