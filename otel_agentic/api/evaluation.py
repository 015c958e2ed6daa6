"""The result of `otel_agentic.evaluate`: scores, rates with intervals, faults and tables; text and HTML for notebooks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from operator import index
from typing import TYPE_CHECKING, Any, Final, SupportsIndex, overload

from otel_agentic import plugins
from otel_agentic.api import frames
from otel_agentic.api.frames import COLUMNS, FailingTool, Row, ScoredAttempt, TableName, failing_tools, rows_of
from otel_agentic.evaluation.batch import Tally
from otel_agentic.stats import (
    Estimate,
    Estimates,
    Estimator,
    PerCaseEstimator,
    Targets,
    Tier,
    pooled_estimator,
    rate_name,
    shown_estimators,
    validate_k,
)
from otel_agentic.windows import (
    GroupKey,
    GroupSummary,
    ScoredConversation,
    group_by,
    scored_conversation,
    summarise,
)

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs

    from otel_agentic.config import Settings, StatsSettings
    from otel_agentic.scoring import ConversationScore
    from otel_agentic.scoring.scope import Outcome
    from otel_agentic.truth import Case


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
        self, by: str | Sequence[str], k: int | Sequence[int] | None, estimator: str | None
    ) -> list[GroupSummary]:
        """Return the summary of each group, sorted by key; see `of_all`.

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
        estimators = [plugins.get("estimators", name)] if name else list(plugins.find("estimators").values())
        return [plugin.load().from_settings(self.settings) for plugin in estimators]


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
    """Return the displayed estimates of a group: pooled, per case, and the headline estimator if it is neither."""
    pooled_name = pooled_estimator(settings)
    roles = {pooled_name: "pooled", PerCaseEstimator.name: "per case"}
    return {roles.get(name, name): summary.estimates[name] for name in shown_estimators(settings)}


#: The number of kinds of faults, warnings and problems that are listed; `failing_tools` and `faults` return all.
_LISTED: Final = 5
#: The largest number of characters printed of a message.
_MAX_CHARACTERS: Final = 300


def as_text(evaluation: Evaluation) -> str:
    """Return an evaluation as lines of text."""
    return "\n".join([*_headline(evaluation), *_rates(evaluation), *_details(evaluation)])


def as_html(evaluation: Evaluation) -> str:
    """Return an evaluation as HTML for a notebook; untrusted text is escaped."""
    groups = _groups(evaluation)
    with_names = len(groups) > 1
    rates = [
        f"{rate}, {role}" for role in by_role(groups[0], evaluation.settings.stats) for rate in ("pass@k", "pass^k")
    ]
    head = ["agent"] * with_names + ["correct", "coverage", "tier", "k", *rates]
    body = [
        _cells(row)
        for group in groups
        for row in _html_rows(group, by_role(group, evaluation.settings.stats), with_names=with_names)
    ]
    lines = [*_headline(evaluation), *_details(evaluation)]
    table = f"<table><thead>{_cells(head, 'th')}</thead><tbody>{''.join(body)}</tbody></table>"
    return f"<div>{table}{''.join(f'<div>{escape(line)}</div>' for line in lines)}</div>"


def _headline(evaluation: Evaluation) -> list[str]:
    counts = evaluation.outcomes
    total = f"{plural(len(evaluation), 'conversation')}, {plural(len(evaluation.cases), 'case')}"
    outcomes = f"{counts['pass']:,} passed, {counts['fail']:,} failed, {counts['not_evaluated']:,} not evaluated"
    return [f"{total}: {outcomes}"]


def _rates(evaluation: Evaluation) -> Iterator[str]:
    groups = _groups(evaluation)
    for group in groups:
        if len(groups) > 1:
            yield f"{group.key.agent or 'no agent'}: {group.c:,} of {group.n:,} correct"
        for role, estimates in by_role(group, evaluation.settings.stats).items():
            yield f"  {role}: {estimates.estimator}, {estimates.level:.0%} intervals ({estimates.interval_method})"
            for k, estimate in estimates.pass_at_k.items():
                yield f"    pass@{k} {_interval(estimate)}   pass^{k} {_interval(estimates.pass_pow_k[k])}"
        yield f"  tier {_tier(group)}"


def _groups(evaluation: Evaluation) -> Sequence[GroupSummary]:
    """Return a summary for each agent, or the overall one if there is only one agent."""
    agents = {attempt.conversation.agent_name for attempt in evaluation.attempts}
    return evaluation.groups() if len(agents) > 1 else [evaluation.overall]


def _details(evaluation: Evaluation) -> Iterator[str]:
    if evaluation.reasons:
        yield "reasons: " + ", ".join(f"{count:,} {reason}" for reason, count in evaluation.reasons.items())
    if evaluation.bounds is not None and evaluation.outcomes["not_evaluated"]:
        low, high = evaluation.bounds
        yield f"including conversations that were not evaluated, the pass rate is in [{low:.3f}, {high:.3f}]"
    failing = evaluation.failing_tools()
    several = len({(row.agent, row.agent_version, row.environment) for row in failing}) > 1
    yield from (f"fault: {_subject(row) if several else ''}{_fault(row)}" for row in failing[:_LISTED])
    if len(failing) > _LISTED:
        yield f"fault: {len(failing) - _LISTED:,} more kinds, see failing_tools()"
    yield from _judge(evaluation)
    yield from (f"warning: {warning}" for warning in evaluation.warnings[:_LISTED])
    yield from (f"problem: {problem}" for problem in evaluation.problems[:_LISTED])
    more = len(evaluation.warnings[_LISTED:]) + len(evaluation.problems[_LISTED:])
    if more:
        yield f"{more:,} more, see warnings and problems"


def _fault(row: FailingTool) -> str:
    parameter = f", parameter {row.parameter}" if row.parameter else ""
    return f"{row.tool}, {row.fault}{parameter}: {row.faults:,} in {plural(row.conversations, 'conversation')}"


def _subject(row: FailingTool) -> str:
    """Return agent, version and environment, which distinguish rows of the same tool and fault."""
    parts = " ".join(part for part in (row.agent or "no agent", row.agent_version, row.environment) if part)
    return f"{parts}, "


def unused_labels(names: Sequence[str]) -> Iterator[str]:
    """Yield a warning about labels that match no conversation, with the first few of them."""
    if names:
        more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
        ids = ", ".join(repr(name) for name in names[:_LISTED])
        yield f"{plural(len(names), 'label')} not used: no conversation has the id {ids}{more}"


def _judge(evaluation: Evaluation) -> Iterator[str]:
    """Yield the calls, cost and failures of a judge that calls a model."""
    use = evaluation.judge_use
    questions = use.verdicts + use.failed + use.refused + use.cached
    if not questions:
        return
    cache_note = f", {use.cached:,} of them from the cache" if use.cached else ""
    spent = f"; {plural(use.calls, 'call')}, {plural(use.input_tokens + use.output_tokens, 'token')}"
    cost = "" if use.cost_usd is None else f", ${use.cost_usd:,.4f}"
    yield f"judge {evaluation.judge_name}: {plural(questions, 'question')}{cache_note}{spent}{cost}"
    if use.failed and use.failure is not None:
        yield f"judge {evaluation.judge_name}: last failure: {_cut(use.failure)}"
    if use.failed or use.refused:
        yield (
            f"judge {evaluation.judge_name}: {use.failed:,} failed, {use.refused:,} not sent; "
            "none of these counts as a failure of the agent"
        )


def _cut(text: str) -> str:
    """Return untrusted text as one line of limited length."""
    line = " ".join(text.split())
    return line if len(line) <= _MAX_CHARACTERS else f"{line[: _MAX_CHARACTERS - 1]}…"


def plural(count: int, noun: str) -> str:
    """Return a count with its noun.

    >>> plural(1, "case"), plural(1200, "case")
    ('1 case', '1,200 cases')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _interval(estimate: Estimate) -> str:
    if estimate.value is None or estimate.lower is None or estimate.upper is None:
        return "no data"
    return f"{estimate.value:.3f} [{estimate.lower:.3f}, {estimate.upper:.3f}]"


def _tier(group: GroupSummary) -> str:
    leaning = f", leaning {group.leaning}" if group.leaning else ""
    more = plural(group.needed or 0, "more conversation")
    needed = f"; about {more} at this rate would settle it" if group.needed else ""
    evidence = group.tier_evidence
    rates = {} if evidence is None else evidence.rates
    basis = ", ".join(
        f"{rate_name(name)} {'no data' if rate is None else f'{rate:.3f}'}" for name, rate in rates.items()
    )
    if evidence is not None and evidence.e_value is not None:
        basis += f"; {evidence.statement}: e-value {evidence.e_value:.3g} of {evidence.e_value_needed:.3g}"
    return f"{group.tier}{leaning}{needed}{f' (by {basis})' if basis else ''}"


def _html_rows(group: GroupSummary, estimates: Mapping[str, Estimates], *, with_names: bool) -> Iterator[list[str]]:
    coverage = "no data" if group.coverage is None else f"{group.coverage:.0%}"
    first = [group.key.agent or "no agent"] * with_names + [f"{group.c:,}/{group.n:,}", coverage, group.tier]
    for number, k in enumerate(estimates["pooled"].pass_at_k):
        start = first if number == 0 else [""] * len(first)
        rates = (rate for role in estimates.values() for rate in (role.pass_at_k[k], role.pass_pow_k[k]))
        yield [*start, str(k), *map(_interval, rates)]


def _cells(cells: Sequence[str], tag: str = "td") -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Evaluation:
    """Scored conversations, in the order of the input, with their rates, faults and tables.

    A notebook displays it as a table; `print` displays the same content as text.

    Attributes:
        attempts: each conversation with its match and its score.
        cases: the cases that the conversations were compared with.
        settings: everything that determined the scores and the rates.
        judge_name: the judge of the answers.
        judge_version: the version of the judge; another version may return other verdicts.
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
        """The pass rates if all conversations that were not evaluated had failed, or passed.

        None without conversations.
        """
        return self.overall.bounds

    @property
    def targets(self) -> Targets | None:
        """The expected rates for more traffic of the same kind and for a new case; None with fewer than two cases."""
        return self.overall.targets

    @property
    def tier(self) -> Tier:
        """The deployment tier that the intervals support.

        `overall` contains the leaning and the evidence still needed.
        """
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
        self, k: int | Sequence[int] | None = None, estimator: str | None = None, *, by: str | Sequence[str]
    ) -> dict[GroupKey, Estimates]: ...

    def estimates(
        self,
        k: int | Sequence[int] | None = None,
        estimator: str | None = None,
        *,
        by: str | Sequence[str] | None = None,
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
        by: str | Sequence[str] = ("agent",),
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
        """Return the kinds of faults of each tool with an example; those that failed most conversations come first."""
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
