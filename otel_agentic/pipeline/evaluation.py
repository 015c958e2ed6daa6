"""The result of `otel_agentic.evaluate`: scores, rates with intervals, faults, and tables of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, overload

from otel_agentic.pipeline import frames
from otel_agentic.pipeline.faults import failing_tools
from otel_agentic.pipeline.rates import Rates, by_role, headline_estimates
from otel_agentic.pipeline.shown import as_html, as_text, plural, unused_labels
from otel_agentic.pipeline.tables import COLUMNS, rows_of
from otel_agentic.pipeline.tally import Tally
from otel_agentic.windows import scored_conversation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs

    from otel_agentic.config import Settings
    from otel_agentic.pipeline.faults import FailingTool, ScoredAttempt
    from otel_agentic.pipeline.tables import Row, TableName
    from otel_agentic.scoring import ConversationScore
    from otel_agentic.scoring.model import Outcome
    from otel_agentic.stats import Estimate, Estimates, Targets, Tier
    from otel_agentic.truth import Case
    from otel_agentic.windows import GroupBy, GroupKey, GroupSummary, ScoredConversation


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Evaluation:
    """Scored conversations, in the order of the input, with their rates, faults and tables.

    A notebook displays it as a table; `print` displays the same content as text.

    Attributes:
        attempts: each conversation with its match and its score.
        cases: the cases that the conversations were compared with.
        settings: everything that determined the scores and the rates.
        judge_name: the judge of the answers.
        judge_version: its version; another version may return other verdicts.
        judge_use: calls, tokens, cost and failures of a judge that calls a model.
        unused_labels: conversation ids of labels that match no conversation.
        problems: input that could not be read, one sentence each.
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
        return [attempt.score for attempt in self.attempts]

    @property
    def outcomes(self) -> dict[Outcome, int]:
        """The number of conversations that passed, failed, and were not evaluated."""
        counts = Counter(attempt.score.outcome for attempt in self.attempts)
        return {outcome: counts[outcome] for outcome in ("pass", "fail", "not_evaluated")}

    @property
    def reasons(self) -> dict[str, int]:
        """The reasons why conversations failed or were not evaluated, with counts, the most frequent first."""
        reasons = (attempt.score.reason for attempt in self.attempts)
        return dict(Counter(reason for reason in reasons if reason is not None).most_common())

    @property
    def warnings(self) -> list[str]:
        """Suspected errors of the ground truth, each sentence once."""
        warnings = dict.fromkeys(
            attempt.match.warning for attempt in self.attempts if attempt.match.warning is not None
        )
        return [*warnings, *unused_labels(self.unused_labels)]

    @property
    def n(self) -> int:
        """The number of evaluated conversations."""
        return self.overall.n

    @property
    def c(self) -> int:
        """The number of conversations that passed."""
        return self.overall.c

    @property
    def coverage(self) -> float | None:
        """Evaluated conversations divided by all; None without conversations."""
        return self.overall.coverage

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The pass rate if every conversation that was not evaluated had failed, and had passed; None without conversations."""
        return self.overall.bounds

    @property
    def targets(self) -> Targets | None:
        """The expected rates of further traffic like this and of a new case; None with fewer than two cases."""
        return self.overall.targets

    @property
    def tier(self) -> Tier:
        """The deployment tier that the intervals support; `overall` has the tier it leans to and the evidence still needed."""
        return self.overall.tier

    @property
    def pass_at_k(self) -> Mapping[int, Estimate]:
        """The probability that at least one of k attempts is correct, by k, with its interval."""
        return self.estimates().pass_at_k

    @property
    def pass_pow_k(self) -> Mapping[int, Estimate]:
        """The probability that all of k attempts are correct, by k, with its interval."""
        return self.estimates().pass_pow_k

    @property
    def pooled(self) -> Estimates:
        """pass@k and pass^k of the traffic: every conversation has the same weight."""
        return by_role(self.overall, self.settings.stats)["pooled"]

    @property
    def per_case(self) -> Estimates:
        """pass@k and pass^k of one case, averaged over the cases; undefined if no case has k attempts."""
        return by_role(self.overall, self.settings.stats)["per case"]

    @property
    def overall(self) -> GroupSummary:
        """The summary of all conversations, with every installed estimator."""
        return self.rates.overall

    @cached_property
    def scored(self) -> list[ScoredConversation]:
        """The scored conversations that groups consist of, in order."""
        return [
            scored_conversation(attempt.conversation, attempt.match.case, attempt.score) for attempt in self.attempts
        ]

    @cached_property
    def rates(self) -> Rates:
        """The rates of all conversations and of groups."""
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
        """Return pass@k and pass^k with intervals, of all conversations or of each group.

        An undefined rate (no evaluated conversation, fewer attempts than k) is None, never 0.

        Args:
            k: the k of pass@k and pass^k; None for those of the settings.
            estimator: plugin, unbiased, per_case, bayesian or the name of a plug-in. None for that of the settings, else the
                pooled estimator of the mode.
            by: agent, version, environment, tag, case or tool, or several of them.

        Raises:
            UsageError: a k or a group is invalid.
            PluginError: the estimator is unknown.
        """
        if by is not None:
            return {group.key: headline_estimates(group) for group in self.groups(by, k=k, estimator=estimator)}
        return headline_estimates(self.rates.of_all(k, estimator))

    def groups(
        self,
        by: GroupBy | Sequence[GroupBy] = ("agent",),
        *,
        k: int | Sequence[int] | None = None,
        estimator: str | None = None,
    ) -> list[GroupSummary]:
        """Return the summary of each group: counts, coverage, estimates, tool dimensions, tier.

        The arguments are those of `estimates`, except that None as estimator means every installed one.

        Raises:
            UsageError: a k or a group is invalid.
            PluginError: the estimator is unknown.
        """
        return self.rates.of_groups(by, k, estimator)

    def failing_tools(self) -> list[FailingTool]:
        """Return the kinds of faults of each tool with an example, those that failed most conversations first."""
        return failing_tools(self.attempts)

    def table(self, table: TableName = "conversations") -> list[Row]:
        """Return the rows of a table as plain values: conversations, turns, tools (scores), faults or metrics.

        Raises:
            UsageError: the table is unknown.
        """
        return rows_of(table, self.attempts)

    @property
    def turns(self) -> list[Row]:
        """The turns with their queries, answers and scores."""
        return self.table("turns")

    @property
    def metrics(self) -> list[Row]:
        """One row per metric score; if it has no value, `reason` is set."""
        return self.table("metrics")

    @property
    def faults(self) -> list[Row]:
        """The faults of single tool calls."""
        return self.table("faults")

    def to_pandas(self, table: TableName = "conversations") -> pd.DataFrame:
        """Return a table as a pandas data frame. See `table`.

        Raises:
            UsageError: the table is unknown, or pandas is not installed.
        """
        rows = self.table(table)
        return frames.to_pandas(COLUMNS[table], rows)

    def to_arrow(self, table: TableName = "conversations") -> pa.Table:
        """Return a table as an Arrow table; JSON values are JSON text. See `table`.

        Raises:
            UsageError: the table is unknown, or pyarrow is not installed.
        """
        rows = self.table(table)
        return frames.to_arrow(COLUMNS[table], rows)

    def summary(self) -> str:
        """Return the most important results as a few lines of text."""
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
