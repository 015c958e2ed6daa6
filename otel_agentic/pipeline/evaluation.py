"""What `otel_agentic.evaluate` returns: scores, rates with intervals, faults, and tables of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, overload

from otel_agentic.pipeline import frames
from otel_agentic.pipeline.faults import failing_tools
from otel_agentic.pipeline.rates import Rates, by_role, shown
from otel_agentic.pipeline.shown import as_html, as_text, plural, unused_labels
from otel_agentic.pipeline.tables import COLUMNS, rows_of
from otel_agentic.pipeline.tally import Tally
from otel_agentic.windows import scored_conversation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs

    from otel_agentic.config import Settings
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.evaluators.base import MetricScore
    from otel_agentic.pipeline.faults import FailingTool
    from otel_agentic.pipeline.tables import Row, TableName
    from otel_agentic.scoring import ConversationScore
    from otel_agentic.scoring.model import Outcome
    from otel_agentic.stats import Estimate, Estimates, Targets, Tier
    from otel_agentic.truth import Case
    from otel_agentic.truth.match import Match
    from otel_agentic.windows import GroupBy, GroupKey, GroupSummary, ScoredConversation


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredAttempt:
    """A conversation with the match that was found for it and its score; `said` is what evaluators say, by their names."""

    conversation: Conversation
    match: Match
    score: ConversationScore
    said: Mapping[str, tuple[MetricScore, ...]] = field(default_factory=dict)

    @property
    def metrics(self) -> tuple[MetricScore, ...]:
        """What evaluators say of it, abstentions included."""
        return tuple(score for scores in self.said.values() for score in scores)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Evaluation:
    """Scored conversations, in the order in which they were given, and what can be said of them.

    In a notebook it shows itself as a table; `print` shows the same as text.

    Attributes:
        attempts: each conversation with its match and its score.
        cases: the cases that the conversations were held against.
        settings: everything that decided the scores and the rates.
        judge_name: the judge that was asked.
        judge_version: its version; another version may judge otherwise.
        judge_use: what was asked of a judge that is paid: calls, tokens, cost, failures.
        unused_labels: conversation ids of labels that are of no conversation here.
        problems: what could not be read, one sentence each.
    """

    attempts: tuple[ScoredAttempt, ...]
    cases: tuple[Case, ...]
    settings: Settings
    judge_name: str
    judge_version: str
    judge_use: Tally = field(default_factory=Tally)
    unused_labels: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def scores(self) -> list[ConversationScore]:
        """The scores of all conversations."""
        return [one.score for one in self.attempts]

    @property
    def outcomes(self) -> dict[Outcome, int]:
        """How many conversations passed, failed, and were not evaluated."""
        found = Counter(one.score.outcome for one in self.attempts)
        return {outcome: found[outcome] for outcome in ("pass", "fail", "not_evaluated")}

    @property
    def reasons(self) -> dict[str, int]:
        """Why conversations failed or were not evaluated, the most frequent reason first."""
        found = Counter(one.score.reason for one in self.attempts if one.score.reason is not None)
        return dict(found.most_common())

    @property
    def warnings(self) -> list[str]:
        """What looks wrong with the ground truth, each sentence once."""
        found = dict.fromkeys(one.match.warning for one in self.attempts if one.match.warning is not None)
        return [*found, *unused_labels(self.unused_labels)]

    @property
    def n(self) -> int:
        """Conversations that were evaluated."""
        return self.whole.n

    @property
    def c(self) -> int:
        """Conversations that passed."""
        return self.whole.c

    @property
    def coverage(self) -> float | None:
        """Evaluated / all; None where there is none."""
        return self.whole.coverage

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The pass rate if all that were not evaluated had failed, and had passed; None where there is none."""
        return self.whole.bounds

    @property
    def targets(self) -> Targets | None:
        """How this traffic goes on and how a new case does; None with fewer than two cases."""
        return self.whole.targets

    @property
    def tier(self) -> Tier:
        """The deployment tier that the intervals support; `whole` has what it leans to and what would settle it."""
        return self.whole.tier

    @property
    def pass_at_k(self) -> Mapping[int, Estimate]:
        """The chance that at least one of k attempts is right, by k, with its interval."""
        return self.estimates().pass_at_k

    @property
    def pass_pow_k(self) -> Mapping[int, Estimate]:
        """The chance that all of k attempts are right, by k, with its interval."""
        return self.estimates().pass_pow_k

    @property
    def pooled(self) -> Estimates:
        """pass@k and pass^k of the traffic as it is: any two conversations count alike."""
        return by_role(self.whole, self.settings.stats)["pooled"]

    @property
    def per_case(self) -> Estimates:
        """pass@k and pass^k of one case, averaged over the cases; undefined for more attempts than any case has."""
        return by_role(self.whole, self.settings.stats)["per case"]

    @property
    def whole(self) -> GroupSummary:
        """Everything that is said of all conversations together, with every installed estimator."""
        return self.rates.whole

    @cached_property
    def scored(self) -> list[ScoredConversation]:
        """The rows that groups are made of, in order."""
        return [scored_conversation(one.conversation, one.match.case, one.score) for one in self.attempts]

    @cached_property
    def rates(self) -> Rates:
        """What the rates are made from."""
        return Rates(scored=self.scored, settings=self.settings.stats)

    @overload
    def estimates(self, k: int | Sequence[int] | None = None, estimator: str | None = None) -> Estimates: ...

    @overload
    def estimates(
        self, k: int | Sequence[int] | None = None, estimator: str | None = None, *, by: GroupBy | Sequence[GroupBy]
    ) -> dict[GroupKey, Estimates]: ...

    def estimates(
        self,
        k: int | Sequence[int] | None = None,
        estimator: str | None = None,
        *,
        by: GroupBy | Sequence[GroupBy] | None = None,
    ) -> Estimates | dict[GroupKey, Estimates]:
        """Return pass@k and pass^k with intervals, of all conversations together or of each group.

        A rate that is undefined (nothing evaluated, fewer attempts than k) is None, never 0.

        Args:
            k: None takes the settings' one.
            estimator: plugin, unbiased, per_case, bayesian or a plug-in's. None takes the settings', else the mode's pooled one.
            by: agent, version, environment, tag, case or tool, or several of them.

        Raises:
            UsageError: a k or a group is not allowed.
            PluginError: there is no estimator of that name.
        """
        if by is not None:
            return {group.key: shown(group) for group in self.groups(by, k=k, estimator=estimator)}
        return shown(self.rates.of_all(k, estimator))

    def groups(
        self,
        by: GroupBy | Sequence[GroupBy] = ("agent",),
        *,
        k: int | Sequence[int] | None = None,
        estimator: str | None = None,
    ) -> list[GroupSummary]:
        """Return everything that is said of each group: counts, coverage, estimates, tool dimensions, tier.

        The arguments are those of `estimates`, but no estimator means every installed one.

        Raises:
            UsageError: a k or a group is not allowed.
            PluginError: there is no estimator of that name.
        """
        return self.rates.of_groups(by, k, estimator)

    def failing_tools(self) -> list[FailingTool]:
        """Return what is wrong with which tool, with one to look at: first what most conversations failed by."""
        return failing_tools(self.attempts)

    def table(self, table: TableName = "conversations") -> list[Row]:
        """Return the rows of a table as plain values: conversations, turns, tools (scores), faults or metrics.

        Raises:
            UsageError: there is no such table.
        """
        return rows_of(table, self.attempts)

    @property
    def turns(self) -> list[Row]:
        """The turns with their queries, answers and scores."""
        return self.table("turns")

    @property
    def metrics(self) -> list[Row]:
        """What evaluators say, a row a score; where there is none, `reason` says why."""
        return self.table("metrics")

    @property
    def faults(self) -> list[Row]:
        """What is wrong with single tool calls."""
        return self.table("faults")

    def to_pandas(self, table: TableName = "conversations") -> pd.DataFrame:
        """Return a table as a data frame of pandas. See `table`.

        Raises:
            UsageError: there is no such table, or pandas is not installed.
        """
        rows = self.table(table)
        return frames.to_pandas(COLUMNS[table], rows)

    def to_arrow(self, table: TableName = "conversations") -> pa.Table:
        """Return a table as an Arrow table; JSON values are texts. See `table`.

        Raises:
            UsageError: there is no such table, or pyarrow is not installed.
        """
        rows = self.table(table)
        return frames.to_arrow(COLUMNS[table], rows)

    def summary(self) -> str:
        """Return the most important of it as a few lines of text."""
        return as_text(self)

    def __len__(self) -> int:
        return len(self.attempts)

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        counts = self.outcomes
        return (
            f"<Evaluation of {plural(len(self), 'conversation')}: {counts['pass']} pass, {counts['fail']} fail, "
            f"{counts['not_evaluated']} not evaluated, {self.tier}>"
        )

    def _repr_html_(self) -> str:
        return as_html(self)
