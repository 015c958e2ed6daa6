"""The report: rates with intervals, coverage, tiers, metrics and comparisons, for groups of conversations.

A comparison shows two groups: `report --compare version=1.0.0,1.1.0`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast, get_args

from otel_agentic.conversations.slices import ATTRIBUTES
from otel_agentic.errors import UsageError
from otel_agentic.evaluators.registry import resolved
from otel_agentic.reports.conversations import id_reuse_of, iso, wrong_clocks_of
from otel_agentic.reports.criteria import outcomes_by, parts_of_criterion, rule, scores_read_by
from otel_agentic.reports.judge_report import JudgeReport
from otel_agentic.reports.label_report import TrafficNumbers
from otel_agentic.reports.metric_summary import summaries_of
from otel_agentic.reports.objectives import objectives_report
from otel_agentic.results import reports as results
from otel_agentic.results.reports import GroupRates, MetricSummary, Rate, RatesAtK, Report, ReportGroup, Sides
from otel_agentic.scoring.criteria import CORRECT, fingerprint
from otel_agentic.scoring.model import BANDS, band_of
from otel_agentic.scoring.scope import DIMENSIONS
from otel_agentic.stats import (
    Estimates,
    Estimator,
    HierarchicalEstimator,
    PerCaseEstimator,
    headline_estimator,
    pooled_estimator,
    shown_estimators,
    validate_k,
)
from otel_agentic.stats.cluster import INTERVAL_METHOD as BOOTSTRAP
from otel_agentic.stats.cluster import collapsed, with_bootstrap
from otel_agentic.stats.compare import Difference, compare
from otel_agentic.store.annotations import has_labels
from otel_agentic.store.connection import DEFAULT
from otel_agentic.store.criteria import scored_otherwise
from otel_agentic.store.queries.scored_conversations import Kinds, KindTable, newest_trusted_end, scored_conversations
from otel_agentic.store.queries.scores import KindGroups
from otel_agentic.store.table import Selection
from otel_agentic.store.truth import matched_by_text
from otel_agentic.store.windows import removed_attempts
from otel_agentic.windows import (
    GROUP_BYS,
    ClaimBasis,
    GroupKey,
    GroupSummary,
    ScoredConversation,
    attempts_of,
    claim_basis,
    group_by,
    parse_window,
    summarise_all,
)

if TYPE_CHECKING:
    from otel_agentic.config import StatsSettings
    from otel_agentic.engine.engine import Engine
    from otel_agentic.stats.hierarchical import TargetEstimate
    from otel_agentic.store.queries.scores import MemberGroups

ComparedBy = Literal["agent", "version", "environment", "service", "tag"]
COMPARED_BY: Final[tuple[ComparedBy, ...]] = get_args(ComparedBy)
_EXAMPLE: Final = "give a key and two values, such as version=1.0.0,1.1.0"
#: Why a criterion has no tier: an agent without visible failures, for example, may still give wrong answers.
_NO_TIER: Final = "a tier is about `correct`, not about another criterion"
#: Existing values listed in an error message.
_MAX_VALUES: Final = 10

#: The method of intervals: that of each estimator, or resampling of cases.
IntervalKind = Literal["default", "bootstrap"]
Groups = dict[GroupKey, list["ScoredConversation"]]
G = TypeVar("G", bound=GroupRates)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRequest(Selection):
    """The conversations of a report, their groups and their rates; the arguments of the commands on reports.

    Attributes:
        k: the k of pass@k and pass^k; None for those of the settings.
        by: the keys to group by, in addition to the agent: those of `GROUP_BYS`, and names of slices.
        window: a width such as "24h": only conversations of that period up to the end of the window (see `within`); or a
            number such as "n200": only the newest of each group.
        estimator: the name of the headline estimator; None for the configured one, with every installed one in the result.
        interval: the method of the intervals of the displayed estimators.
        compare: a comparison of two groups, such as "version=1.0.0,1.1.0"; the report is then about these two.
        criterion: what counts as a success: `correct`, a criterion such as "tools" or "agentest.helpfulness >= 4", several
            joined by " and ", or a profile of the settings; or a list of these, separated by commas.
    """

    k: list[int] | None = None
    by: list[str] | None = None
    window: str | None = None
    estimator: str | None = None
    interval: IntervalKind = "default"
    compare: str | None = None
    criterion: str = CORRECT

    @property
    def criteria(self) -> list[str]:
        """The criteria; charts, tables of conversations and gates are about the first one."""
        return [name.strip() for name in self.criterion.split(",")]

    @property
    def slices(self) -> tuple[str, ...]:
        """The names among `by` that are no other key: those of slices."""
        return tuple(name for name in self.by or () if name not in GROUP_BYS)

    @property
    def compared(self) -> Compared | None:
        """The compared sides.

        Raises:
            UsageError: the comparison is invalid.
        """
        return None if self.compare is None else Compared.parse(self.compare)

    def stats(self, engine: Engine) -> StatsSettings:
        """Return the settings of rates, with the requested estimator and a valid k.

        Raises:
            UsageError: a k is invalid.
        """
        stats = engine.settings.stats
        changes = {"k": validate_k(stats.k if self.k is None else self.k), "estimator": self.estimator}
        return stats.model_copy(update={name: value for name, value in changes.items() if value is not None})

    def groups(self, engine: Engine, table: KindTable | None = None) -> Mapping[GroupKey, Sequence[ScoredConversation]]:
        """Return the conversations of each group, sorted by end.

        Args:
            engine: the opened store.
            table: the conversations of this request by kind, see `counted`; None reads each conversation.

        Raises:
            UsageError: a group or a comparison is invalid, or one side of a comparison has no conversations.
        """
        parsed = None if self.window is None else parse_window(self.window)
        if table is not None:
            scored = table.conversations
        else:
            selection = self.within_window(engine)
            with engine.store.read() as con:
                scored = scored_conversations(con, selection, self.slices)
        scored = outcomes_by(engine, scored, self.criteria[0])
        by, compared = ("agent", *(self.by or ())), self.compared
        slices = (*ATTRIBUTES, *engine.settings.conversations.slices)
        if compared is None:
            groups = group_by(scored, tuple(dict.fromkeys(by)), slices)
        else:
            groups = compared.groups(group_by(compared.among(scored), tuple(dict.fromkeys((*by, compared.by))), slices))
        if parsed is None or parsed.newest is None:
            return groups
        return {key: members[-parsed.newest :] for key, members in groups.items()}

    def counts_by_kind(self, engine: Engine) -> bool:
        """Return whether counts of equal conversations are enough, so that no single conversation need be read."""
        window = None if self.window is None else parse_window(self.window)
        if (
            self.interval != "default"
            or (window is not None and window.newest is not None)
            or (self.compared is not None and self.compared.by == "tag")
        ):
            return False
        with engine.store.read() as con:
            return not has_labels(con)

    def kinds(self, engine: Engine) -> Kinds | None:
        """Return how to count the conversations by kind, or None if each must be read.

        Raises:
            UsageError: a criterion is malformed, or its metric is unknown.
        """
        if not self.counts_by_kind(engine):
            return None
        names = scores_read_by(engine, self.criteria)
        return Kinds(
            selection=self.within_window(engine),
            from_ns=engine.settings.slo.since_ns,
            names=names,
            slices=self.slices,
        )

    @contextmanager
    def counted(self, engine: Engine) -> Iterator[KindTable | None]:
        """Provide the conversations by kind, or None if each must be read.

        Raises:
            UsageError: a criterion is malformed, or its metric is unknown.
        """
        kinds = self.kinds(engine)
        if kinds is None:
            yield None
            return
        with engine.store.read() as con:
            yield KindTable(con, kinds)

    def within_window(self, engine: Engine) -> Selection:
        """Return the selection of the conversations of a window in time; see `within`."""
        width_ns = None if self.window is None else parse_window(self.window).width_ns
        if width_ns is None:
            return self
        if self.until_ns is not None:
            end_ns: int | None = self.until_ns
        elif engine.collecting:
            end_ns = engine.clock()
        else:
            with engine.store.read() as con:
                end_ns = newest_trusted_end(con, self)
        if end_ns is None:
            return self
        first_ns, beyond_ns = end_ns - width_ns + 1, end_ns + 1
        return replace(
            self,
            since_ns=first_ns if self.since_ns is None else max(first_ns, self.since_ns),
            until_ns=beyond_ns if self.until_ns is None else self.until_ns,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The compared sides: conversations with the value `b` of a key, and those with the value `a`."""

    by: ComparedBy
    a: str
    b: str

    @classmethod
    def parse(cls, text: str) -> Compared:
        """Return the sides of a text such as `version=1.0.0,1.1.0`.

        Raises:
            UsageError: the text is not a key with two different values.

        >>> Compared.parse("version=1.0.0, 1.1.0")
        Compared(by='version', a='1.0.0', b='1.1.0')
        """
        by, _, sides = text.partition("=")
        values = [value.strip() for value in sides.split(",")]
        if by.strip() not in COMPARED_BY:
            raise UsageError(f"--compare {text!r}: {_EXAMPLE}; keys: {', '.join(COMPARED_BY)}")
        if len(values) != 2 or "" in values or values[0] == values[1]:  # noqa: PLR2004 — two sides
            raise UsageError(f"--compare {text!r}: {_EXAMPLE}; exactly two different values")
        return cls(by=cast("ComparedBy", by.strip()), a=values[0], b=values[1])

    @property
    def field(self) -> str:
        """The name of the key in a group's key."""
        return "agent_version" if self.by == "version" else self.by

    def among(self, scored: Sequence[ScoredConversation]) -> list[ScoredConversation]:
        """Return the conversations on either side; with tags, a conversation may be on both.

        Raises:
            UsageError: no conversation has one of the two values; the message lists the existing ones.
        """
        values = [self._values_of(conversation) for conversation in scored]
        existing = sorted({value for conversation_values in values for value in conversation_values})
        for value in (self.a, self.b):
            if scored and value not in existing:
                raise UsageError(self._missing(value, existing))
        return [
            conversation
            for conversation, conversation_values in zip(scored, values, strict=True)
            if self.a in conversation_values or self.b in conversation_values
        ]

    def groups(self, grouped: Groups) -> Groups:
        """Return the groups of the two sides, without the groups of other tags that their conversations have."""
        return {key: members for key, members in grouped.items() if getattr(key, self.field) in {self.a, self.b}}

    def _values_of(self, conversation: ScoredConversation) -> tuple[str, ...]:
        if self.by == "tag":
            return conversation.tags
        value = getattr(conversation, self.field)
        return (value,) if value else ()

    def _missing(self, value: str, existing: Sequence[str]) -> str:
        more = f" and {len(existing) - _MAX_VALUES:,} more" if len(existing) > _MAX_VALUES else ""
        known = ", ".join(map(repr, existing[:_MAX_VALUES])) + more
        return (
            f"--compare: no closed conversation of this selection has {self.by} {value!r}; existing: {known or 'none'}"
        )


def comparison_of(
    compared: Compared,
    grouped: Mapping[GroupKey, Sequence[ScoredConversation]],
    k: Sequence[int],
    settings: StatsSettings,
) -> results.Comparison:
    """Return the comparison of the two sides of each group.

    Args:
        compared: the compared sides.
        grouped: the conversations of both sides, grouped by the compared key and possibly others.
        k: the k of pass@k and pass^k.
        settings: level and prior.
    """
    groups: list[results.ComparedGroup] = []
    missing: list[results.UncomparedGroup] = []
    on_both = 0
    for key in sorted({replace(key, **{compared.field: None}) for key in grouped}, key=GroupKey.sort_key):
        a, b = (grouped.get(replace(key, **{compared.field: value}), ()) for value in (compared.a, compared.b))
        common = _keys(a) & _keys(b)
        on_both += len(common)
        before, after = (attempts_of(member for member in side if _key(member) not in common) for side in (a, b))
        if not (before.n and after.n):
            without = [compared.a] * (not before.n) + [compared.b] * (not after.n)
            missing.append(results.UncomparedGroup(**_fields_of(key), without=without))
            continue
        comparison = compare(before, after, k, level=settings.level, prior=settings.prior)
        left_out = (comparison.only_a, comparison.only_b) if comparison.method == "paired" else (0, 0)
        groups.append(
            results.ComparedGroup(
                **_fields_of(key),
                n=Sides(a=before.n, b=after.n),
                c=Sides(a=before.c, b=after.c),
                method=comparison.method,
                cases=comparison.shared,
                cases_left_out=Sides(a=left_out[0], b=left_out[1]),
                probability_worse=comparison.worse,
                differences={
                    str(count): results.Differences(
                        **_difference(comparison.pooled[count]),
                        pooled=results.Difference(**_difference(comparison.pooled[count])),
                        per_case=results.Difference(**_difference(comparison.per_case[count]))
                        if count in comparison.per_case
                        else None,
                    )
                    for count in k
                },
            )
        )
    return results.Comparison(
        by=compared.by,
        a=compared.a,
        b=compared.b,
        level=settings.level,
        groups=groups,
        not_compared=missing,
        on_both=on_both,
    )


def _difference(difference: Difference) -> dict[str, Any]:
    """Return the fields of a difference."""
    rates = {"pass_at_k": Rate.of(difference.pass_at_k), "pass_pow_k": Rate.of(difference.pass_pow_k)}
    return {"method": difference.method, "cases": difference.cases, **rates}


def _key(conversation: ScoredConversation) -> tuple[str, str]:
    return conversation.environment, conversation.conversation_id


def _keys(members: Iterable[ScoredConversation]) -> set[tuple[str, str]]:
    return set(map(_key, members))


def tier_bases(
    engine: Engine, groups: Mapping[GroupKey, Sequence[ScoredConversation]], selection: Selection
) -> dict[GroupKey, ClaimBasis]:
    """Return the basis of each group's tier.

    A tier claim includes all conversations since the first one of an agent version: a chosen or rolling period is no
    valid basis.

    Args:
        engine: the opened store.
        groups: the conversations of each group, from the beginning.
        selection: the selection of these conversations.
    """
    removed = []
    if engine.store.evaluation == DEFAULT:  # removed attempts are counted only for the default evaluation
        with engine.store.read() as con:
            removed = removed_attempts(con, fingerprint(CORRECT, engine.settings.scoring))
        if selection.until_ns is not None:
            removed = [attempts for attempts in removed if attempts.last_ns < selection.until_ns]
    since_ns = engine.settings.slo.since_ns
    return {key: claim_basis(key, members, removed=removed, since_ns=since_ns) for key, members in groups.items()}


def _fields_of(key: GroupKey) -> dict[str, str | None]:
    """Return the fields of a key in a result; the report itself names the criterion."""
    return {name: value for name, value in asdict(key).items() if name not in {"criterion", "criteria"}}


def rates_of(
    kind: type[G],
    summary: GroupSummary,
    window: str | None,
    estimators: Collection[str] | None = None,
    **further: Any,
) -> G:
    """Return the rates of a group as a result of type `kind`, with the other fields in `further`.

    Args:
        kind: the type of the result.
        summary: the summary of the group.
        window: the window of the conversations.
        estimators: the names of the estimators to include; None for all.
        **further: the fields of the type that are not rates.
    """
    return kind(
        **_fields_of(summary.key),
        window=window,
        n=summary.n,
        c=summary.c,
        coverage=summary.coverage,
        bounds=list(summary.bounds) if summary.bounds else None,
        not_evaluated=dict(summary.not_evaluated),
        known_failures=summary.known_failures,
        default_estimator=summary.default_estimator,
        effective_n=summary.effective_n,
        targets=_targets(summary),
        estimates={
            name: results.Estimates(**_estimates(estimates))
            for name, estimates in summary.estimates.items()
            if estimators is None or name in estimators
        },
        tool_dimensions={
            name: results.Mean(mean=dimension.mean, n=dimension.n)
            for name, dimension in summary.tool_dimensions.items()
        },
        tier=summary.tier,
        leaning=summary.leaning,
        needed=summary.needed,
        tier_evidence=_tier_evidence(summary),
        **further,
    )


def _tier_evidence(summary: GroupSummary) -> results.TierEvidence | None:
    evidence, basis = summary.tier_evidence, summary.tier_basis
    if evidence is None or basis is None:
        return None
    return results.TierEvidence(
        **asdict(evidence),
        since=None if basis.since_ns is None else iso(basis.since_ns),
        agent_version=basis.agent_version,
        versions=basis.versions,
        withheld=basis.withheld,
    )


def _targets(summary: GroupSummary) -> results.Targets | None:
    """Return both targets with their estimates by k, see `otel_agentic.stats.hierarchical`."""

    def by_k(target: Mapping[int, TargetEstimate]) -> dict[str, RatesAtK]:
        return {
            str(k): RatesAtK(
                estimator=estimate.estimator,
                pass_at_k=Rate.of(estimate.pass_at_k),
                pass_pow_k=Rate.of(estimate.pass_pow_k),
            )
            for k, estimate in target.items()
        }

    targets = summary.targets
    if targets is None:
        return None
    return results.Targets(
        cases=targets.cases,
        fewest_attempts=targets.fewest,
        most_attempts=targets.most,
        this_traffic=by_k(targets.this_traffic),
        new_case=by_k(targets.new_case),
    )


def cases_left_out(summaries: Iterable[GroupSummary]) -> dict[str, dict[str, int]]:
    """Return, by estimator and k, the number of cases in all groups with too few attempts."""
    counts: dict[str, Counter[str]] = {}
    for summary in summaries:
        for name, estimates in summary.estimates.items():
            for k, skipped in estimates.cases_left_out.items():
                counts.setdefault(name, Counter())[str(k)] += skipped
    return {name: dict(by_k) for name, by_k in counts.items()}


def _sampling(members: Iterable[ScoredConversation]) -> results.SampleShares | None:
    """Return the lowest and highest share of conversations that were evaluated, or None if all were.

    `weighted` is True if the shares differ, so that rates weight each conversation by 1 / share.
    """
    ratios = {1.0 / member.weight for member in members}
    if not ratios or ratios == {1.0}:
        return None
    lowest, highest = min(ratios), max(ratios)
    return results.SampleShares(lowest_ratio=lowest, highest_ratio=highest, weighted=lowest < highest)


def _estimates(estimates: Estimates) -> dict[str, Any]:
    """Return the fields of the estimates of one estimator."""
    return {
        "interval_method": estimates.interval_method,
        "level": estimates.level,
        "pass_at_k": {str(k): Rate.of(rate) for k, rate in sorted(estimates.pass_at_k.items())},
        "pass_pow_k": {str(k): Rate.of(rate) for k, rate in sorted(estimates.pass_pow_k.items())},
        "collapsed": collapsed(estimates) if estimates.interval_method == BOOTSTRAP else None,
    }


def _metrics(
    engine: Engine,
    groups: Mapping[GroupKey, Sequence[ScoredConversation]],
    names: Sequence[str] | None,
    table: KindTable | None,
) -> dict[GroupKey, list[MetricSummary] | None]:
    """Return the metric summaries of each group of conversations, or None if no metrics are requested.

    `table` contains the conversations by kind, None if each was read.
    """
    if names is not None and not names:
        return dict.fromkeys(groups)
    members: MemberGroups = [_keys(group) for group in groups.values()]
    if table is not None:
        by_kind = [{member.kind for member in group if member.kind is not None} for group in groups.values()]
        members = KindGroups(groups=by_kind, table=table)
    by_group = summaries_of(engine, members, names=names)
    return {key: [item.summary for item in metrics] for key, metrics in zip(groups, by_group, strict=True)}


def _tool_bands(members: Sequence[ScoredConversation]) -> dict[str, dict[str, int]]:
    """Return for each applicable tool dimension the number of perfect, good, moderate and poor conversations."""
    bands: dict[str, dict[str, int]] = {}
    for name in DIMENSIONS:
        counts = dict.fromkeys(map(str, BANDS), 0)
        for member in members:
            if (value := member.dimensions.get(name)) is not None:
                counts[band_of(value)] += member.count
        if any(counts.values()):
            bands[name] = counts
    return bands


def report(
    engine: Engine,
    request: ReportRequest,
    metrics: Sequence[str] | None = None,
    *,
    only_displayed: bool = False,
    e_values: bool = True,
) -> Report:
    """Return the reliability of each group.

    Args:
        engine: the opened store.
        request: the conversations, groups and rates.
        metrics: names of metrics beyond the outcome; None for all with a score or an abstention.
        only_displayed: include only the displayed estimators instead of all: others take long for many groups.
        e_values: include the e-values of tiers; see `claim_tiers`.

    Raises:
        UsageError: a k, a group, a metric or a comparison is invalid, or one side of a comparison has no conversations.
        PluginError: the estimator is unknown.
    """
    stats = request.stats(engine)
    names = None if metrics is None else list(resolved(metrics, engine.runner.installed))
    criteria, compared = request.criteria, request.compared
    installed = engine.estimators(request.estimator)
    requested = shown_estimators(stats) if only_displayed else [plugin.name for plugin in installed]
    with request.counted(engine) as table:
        rates = {
            name: _summaries(engine, replace(request, criterion=name), stats, requested, table, e_values=e_values)
            for name in criteria
        }
        groups, summaries = rates[criteria[0]]
        traffic = TrafficNumbers.of(engine, request) if table is None else TrafficNumbers.by_kind(engine, table)
        measured = _metrics(engine, groups, names, table)
        judges = JudgeReport.of(engine, request, table)
    failed = engine.rebuilder.not_rebuilt
    traces = sum(isinstance(item, str) for item in failed)
    with engine.store.read() as con:
        by_text, suggested = matched_by_text(con, request)
    has_objectives = engine.settings.slo.objectives and engine.store.evaluation == DEFAULT
    return Report(
        evaluation=engine.store.evaluation,
        criteria=[_criterion(engine, name, request, _distinct(rates[name][0])) for name in criteria],
        groups=[
            _group(
                summary,
                members[summary.key],
                judges if name == CORRECT else None,
                traffic,
                k=stats.k,
                criterion=name,
                pooled=pooled_estimator(stats),
                window=request.window,
                estimators=requested,
                gauge_estimator=headline_estimator(engine.settings.stats),
                metrics=measured[summary.key] if name == criteria[0] else None,
            )
            for name, (members, by_group) in rates.items()
            for summary in by_group
        ],
        cases_left_out=cases_left_out(summaries),
        wrong_clocks=wrong_clocks_of(engine.store),
        id_reuse=id_reuse_of(engine.store),
        metrics_chosen=names,
        comparison=None if compared is None else comparison_of(compared, groups, stats.k, engine.settings.stats),
        not_rebuilt=results.NotRebuilt(traces=traces, conversations=len(failed) - traces) if failed else None,
        matched_by_text=results.TextMatches(matched=by_text, suggested=suggested) if by_text or suggested else None,
        objectives=objectives_report(engine, request.agent) if has_objectives else None,
    )


def _criterion(
    engine: Engine, name: str, request: ReportRequest, scored: Sequence[ScoredConversation]
) -> results.CriterionRule:
    otherwise = 0
    if name == CORRECT and engine.store.evaluation == DEFAULT:
        with engine.store.read() as con:
            otherwise = scored_otherwise(con, request, fingerprint(CORRECT, engine.settings.scoring))
    return results.CriterionRule(
        name=name,
        rule=rule(engine, name),
        parts=parts_of_criterion(engine, scored, name),
        scored_otherwise=otherwise or None,
    )


def _distinct(groups: Mapping[GroupKey, Sequence[ScoredConversation]]) -> list[ScoredConversation]:
    """Return each conversation of some groups once: by tag or tool, a conversation is in several."""
    return list({_key(member): member for members in groups.values() for member in members}.values())


def _summaries(
    engine: Engine,
    request: ReportRequest,
    stats: StatsSettings,
    requested: Sequence[str],
    table: KindTable | None,
    *,
    e_values: bool,
) -> tuple[Mapping[GroupKey, Sequence[ScoredConversation]], list[GroupSummary]]:
    """Return the conversations of each group, and the summary of each, with the requested estimators."""
    groups = request.groups(engine, table)
    displayed = shown_estimators(stats)
    estimators = [engine.estimators(name)[0] for name in dict.fromkeys((*requested, *displayed))]
    (hierarchical,) = engine.estimators(HierarchicalEstimator.name)
    since_start = replace(request, since_ns=None, window=None)
    all_groups = groups
    if since_start != request:
        with since_start.counted(engine) as all_kinds:
            all_groups = since_start.groups(engine, all_kinds)
    basis = tier_bases(engine, {key: all_groups.get(key, ()) for key in groups}, since_start)
    if request.criteria[0] != CORRECT:
        basis = {key: replace(value, withheld=_NO_TIER) for key, value in basis.items()}
    summaries = summarise_all(
        groups,
        estimators=estimators,
        settings=stats,
        k=stats.k,
        basis=basis,
        of_new_cases=None if hierarchical in estimators else hierarchical,
        e_values=e_values,
    )
    if request.interval == "bootstrap":
        summaries = [_bootstrapped(summary, groups[summary.key], estimators, displayed) for summary in summaries]
    return groups, summaries


def _group(
    summary: GroupSummary,
    members: Sequence[ScoredConversation],
    judges: JudgeReport | None,
    traffic: TrafficNumbers,
    *,
    k: Sequence[int],
    pooled: str,
    **further: Any,
) -> ReportGroup:
    """Return a group; `judges` is None if its outcomes are not those of the evaluation, which people's verdicts correct."""
    corrected, not_corrected = (None, None) if judges is None else judges.corrections.of(members)
    by_labels, not_by_labels = traffic.correction(members, k) if judges is None else (None, None)
    return rates_of(
        ReportGroup,
        summary,
        pooled=_named(summary, pooled),
        per_case=_named(summary, PerCaseEstimator.name),
        partial_fails=0 if judges is None else judges.partial_fails(members),
        judge=None if judges is None else judges.judge_of(members),
        corrected=corrected,
        not_corrected=not_corrected,
        label_correction=by_labels,
        not_label_corrected=not_by_labels,
        first_success=traffic.first_success(members),
        sampling=_sampling(members),
        cases_left_out=cases_left_out([summary]),
        tool_bands=_tool_bands(members),
        **further,
    )


def _named(summary: GroupSummary, estimator: str) -> results.NamedEstimates:
    return results.NamedEstimates(estimator=estimator, **_estimates(summary.estimates[estimator]))


def within(
    engine: Engine, scored: Sequence[ScoredConversation], width_ns: int, until_ns: int | None
) -> list[ScoredConversation]:
    """Return the conversations of the last `width_ns` before the end of the selection.

    If the selection has no end, the window ends now in a running collector; otherwise at the end of the newest conversation
    whose sender's clock was right, so that a sender with a wrong clock cannot empty the window.
    """
    if not scored:
        return []
    if until_ns is not None:
        end_ns = until_ns
    elif engine.collecting:
        end_ns = engine.clock()
    else:
        trusted_ends = [conversation.ended_ns for conversation in scored if not conversation.clock_ahead]
        end_ns = max(trusted_ends or [conversation.ended_ns for conversation in scored])
    return [conversation for conversation in scored if end_ns - width_ns < conversation.ended_ns <= end_ns]


def _bootstrapped(
    summary: GroupSummary, members: Sequence[ScoredConversation], estimators: Sequence[Estimator], names: Sequence[str]
) -> GroupSummary:
    """Return a summary with bootstrap intervals for the named estimators; resampling for all of them would take too long."""
    resampled = {
        estimator.name: with_bootstrap(
            estimator, attempts_of(members), tuple(summary.estimates[estimator.name].pass_at_k)
        )
        for estimator in estimators
        if estimator.name in names
    }
    return replace(summary, estimates={**summary.estimates, **resampled})
