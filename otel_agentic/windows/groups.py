"""Groups of scored conversations and their summaries."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fnmatch import fnmatchcase
from math import isnan
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from otel_agentic.conversations.slices import ATTRIBUTES, USER, is_in
from otel_agentic.errors import UsageError
from otel_agentic.scoring.scope import DIMENSIONS
from otel_agentic.stats.cluster import pooled_samples
from otel_agentic.stats.estimators import headline_among, validate_k
from otel_agentic.stats.hierarchical import TrafficEstimator, targets_of
from otel_agentic.stats.model import Attempts, GroupedAttempts, estimate_groups
from otel_agentic.stats.tiers import claim_tiers
from otel_agentic.windows.columns import Results
from otel_agentic.windows.model import (
    ClaimBasis,
    DimensionMean,
    GroupKey,
    GroupSummary,
    ScoredConversation,
    claim_basis,
    mean_dimensions,
    pass_rate_bounds,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from otel_agentic.config import StatsSettings
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.scoring.model import ConversationScore
    from otel_agentic.scoring.scope import Dimension, Outcome
    from otel_agentic.stats.model import Estimates, Estimator
    from otel_agentic.stats.tiers import TierClaim
    from otel_agentic.truth.model import Case
    from otel_agentic.windows.columns import IntArray


def scored_conversation(conversation: Conversation, case: Case | None, score: ConversationScore) -> ScoredConversation:
    """Return the row of a scored conversation, as the store would return it.

    Args:
        conversation: the conversation.
        case: its case, or None.
        score: its score.
    """
    tool_names = {*_expected_tools(case), *(fault.tool_name for tools in score.tools for fault in tools.faults)}
    return ScoredConversation(
        environment=conversation.environment,
        conversation_id=str(conversation.conversation_id),
        revision=conversation.revision,
        agent=conversation.agent_name,
        agent_version=conversation.agent_version,
        service=conversation.service,
        ended_ns=conversation.ended_ns,
        dataset=score.dataset,
        case_id=score.case_id,
        tags=() if case is None else case.tags,
        slices=conversation.slices,
        outcome=score.outcome,
        reason=score.reason,
        dimensions=mean_dimensions(score.tools),
        tools=tuple(sorted(tool_names)),
        known_failure=score.known_failure,
        pass_probability=score.pass_probability,
    )


def _expected_tools(case: Case | None) -> Iterator[str]:
    if case is not None:
        for tools in (case.tools, *(turn.tools for turn in case.turns)):
            yield from () if tools is None else (call.tool_name for call in tools.calls)


#: The keys to group by; further ones are the names of slices.
GROUP_BYS: Final = ("agent", "version", "environment", "service", "tag", "case", "tool")


def group_by(
    scored: Iterable[ScoredConversation], by: Sequence[str] = ("agent",), slices: Iterable[str] = ATTRIBUTES
) -> dict[GroupKey, list[ScoredConversation]]:
    """Return the conversations of each group; groups are sorted by key, conversations are in the order passed.

    The key contains the values to group by, and None elsewhere; the default is one group per agent. When grouped by tag
    (or tool), a conversation counts once for each of its tags, and in no group if it has none; so does it when grouped by
    one of `slices`, with `name=value` as the tag. A conversation without an agent, version or case is in the group with None, so that unmatched conversations stay visible.

    Raises:
        UsageError: a key is unknown; the message lists the allowed keys.
    """
    allowed = (*GROUP_BYS, *slices)
    for name in by:
        if name not in allowed:
            raise UsageError(f"cannot group by {name!r}; allowed: {', '.join(allowed)}")
    groups: dict[GroupKey, list[ScoredConversation]] = {}
    for conversation in scored:
        for key in _keys(conversation, by):
            groups.setdefault(key, []).append(conversation)
    return {key: groups[key] for key in sorted(groups, key=GroupKey.sort_key)}


def group_by_subject(scored: Iterable[ScoredConversation]) -> dict[GroupKey, list[ScoredConversation]]:
    """Return the conversations by full subject key (agent, version, environment, service), as in windows."""
    groups: dict[GroupKey, list[ScoredConversation]] = {}
    for conversation in scored:
        groups.setdefault(subject_key(conversation), []).append(conversation)
    return {key: groups[key] for key in sorted(groups, key=GroupKey.sort_key)}


def subject_key(conversation: ScoredConversation) -> GroupKey:
    """Return the key under which a conversation is counted in windows and metrics."""
    return GroupKey(
        agent=conversation.agent,
        agent_version=conversation.agent_version,
        environment=conversation.environment,
        service=conversation.service,
        criterion=conversation.criterion,
        criteria=conversation.criteria,
    )


def is_tagged(by: Iterable[str]) -> bool:
    """Return whether groups by these keys have tags: those of cases, or slices.

    >>> is_tagged(["version", "case"]), is_tagged(["tag"]), is_tagged(["model"])
    (False, True, True)
    """
    return not set(by) <= {*GROUP_BYS} - {"tag"}


def _keys(conversation: ScoredConversation, by: Sequence[str]) -> Iterator[GroupKey]:
    tags = _distinct(_tags(conversation, by)) if is_tagged(by) else (None,)
    tools = _distinct(conversation.tools) if "tool" in by else (None,)
    for tag in tags:
        for tool in tools:
            yield GroupKey(
                agent=conversation.agent if "agent" in by else None,
                agent_version=conversation.agent_version if "version" in by else None,
                environment=conversation.environment if "environment" in by else None,
                service=conversation.service if "service" in by else None,
                dataset=conversation.dataset if "case" in by else None,
                case=conversation.case_id if "case" in by else None,
                tag=tag,
                tool=tool,
            )


def _tags(conversation: ScoredConversation, by: Sequence[str]) -> Iterator[str]:
    if "tag" in by:
        yield from conversation.tags
    yield from (name for name in conversation.slices if is_in(name, by))


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def summarise(
    key: GroupKey,
    scored: Sequence[ScoredConversation],
    *,
    estimators: Sequence[Estimator],
    settings: StatsSettings,
    k: Sequence[int],
) -> GroupSummary:
    """Return the summary of one group.

    Conversations that were not evaluated do not count in n and lower the coverage; they never count as fails. The tier
    is based on the headline estimator: the configured one; if it is not among `estimators`, the pooled one of the mode;
    else the first.

    Args:
        key: the subject of the group; copied into the summary.
        scored: the conversations of the group, each once.
        estimators: the estimators, each name once.
        settings: mode, prior, level, tier rule and default estimator.
        k: the k of pass@k and pass^k, each 1 or more.

    Raises:
        UsageError: a k is not allowed; the message names it.
    """
    return summarise_all({key: scored}, estimators=estimators, settings=settings, k=k)[0]


def summarise_all(
    groups: Mapping[GroupKey, Sequence[ScoredConversation]],
    *,
    estimators: Sequence[Estimator],
    settings: StatsSettings,
    k: Sequence[int],
    basis: Mapping[GroupKey, ClaimBasis] | None = None,
    of_new_cases: Estimator | None = None,
    e_values: bool = True,
) -> list[GroupSummary]:
    """Return the summary of each group, in order; all groups are estimated at once. See `summarise`.

    Args:
        groups: the conversations of each group.
        estimators: see `summarise`.
        settings: see `summarise`.
        k: see `summarise`.
        basis: the evidence for the tier of each group, needed if `groups` does not contain all conversations since the
            first of the agent version; None: the conversations in `groups`.
        of_new_cases: a further estimator, of which only `targets` is read: it is computed only for groups that need it.
        e_values: see `claim_tiers`.

    Raises:
        UsageError: a k is not allowed; the message names it.
    """
    chosen_k = validate_k(k)
    if not groups:
        return []
    attempts = [attempts_of(scored) for scored in groups.values()]
    grouped = GroupedAttempts.of(attempts)
    estimates = {estimator.name: estimate_groups(estimator, grouped, chosen_k) for estimator in estimators}
    if of_new_cases is not None:
        fewest = np.full(grouped.size, np.iinfo(np.int64).max)
        np.minimum.at(fewest, grouped.group, grouped.n)
        is_needed = (fewest < max(chosen_k)) & (grouped.total(np.ones(len(grouped.n))) > 1)
        needing = grouped.where(is_needed[grouped.group])
        estimates[of_new_cases.name] = estimate_groups(of_new_cases, needing, chosen_k)
    headline, headline_estimator = headline_among(estimators, settings)
    bases = [basis[key] if basis else claim_basis(key, scored) for key, scored in groups.items()]
    claims = claim_tiers(
        GroupedAttempts.of([evidence.attempts for evidence in bases]) if settings.tier_rule == "interval" else grouped,
        settings,
        needed=True,
        e_values=e_values,
        estimator=headline_estimator,
        withheld=[evidence.withheld for evidence in bases],
    )
    effective_sizes = pooled_samples(grouped).n
    traffic = TrafficEstimator(level=settings.level).estimate_groups(grouped, chosen_k)
    return [
        _summary(
            (key, scored, attempts[index], traffic.of(index)),
            {name: estimate.of(index) for name, estimate in estimates.items()},
            (claims[index], bases[index]),
            headline,
            None if isnan(effective_sizes[index]) else float(effective_sizes[index]),
        )
        for index, (key, scored) in enumerate(groups.items())
    ]


def _summary(
    group: tuple[GroupKey, Sequence[ScoredConversation], Attempts, Estimates],
    estimates: Mapping[str, Estimates],
    claim_and_basis: tuple[TierClaim, ClaimBasis],
    default: str,
    effective_n: float | None,
) -> GroupSummary:
    key, scored, attempts, this_traffic = group
    claim, basis = claim_and_basis
    has_targets = len(attempts.cases) > 1 and any(row.case_id is not None for row in scored)
    n, c = attempts.n, attempts.c
    total = sum(row.count for row in scored)
    known_failures = sum(
        row.count for row in scored if row.outcome == "not_evaluated" and row.known_failure is not None
    )
    return GroupSummary(
        key=key,
        n=n,
        c=c,
        not_evaluated=_not_evaluated(scored),
        coverage=n / total if total else None,
        bounds=pass_rate_bounds(n, c, total - n, known_failures),
        estimates=estimates,
        default_estimator=default,
        effective_n=effective_n,
        targets=targets_of(attempts, this_traffic, estimates) if has_targets else None,
        tool_dimensions=_dimension_means(scored),
        tier=claim.tier,
        leaning=claim.leaning,
        needed=claim.needed,
        tier_evidence=claim.evidence,
        known_failures=known_failures,
        tier_basis=basis,
    )


def attempts_of(scored: Iterable[ScoredConversation]) -> Attempts:
    """Return the evaluated conversations as attempts of their cases, see `ScoredConversation.case_key`.

    Weights are omitted if they are all equal, because they then carry no information.
    """
    evaluated = [conversation for conversation in scored if conversation.outcome != "not_evaluated"]
    unequal = len({conversation.weight for conversation in evaluated}) > 1
    return Attempts.of(
        (case, conversation.outcome == "pass", conversation.weight if unequal else 1.0, n)
        for conversation in evaluated
        for case, n in conversation.cases()
    )


def _not_evaluated(scored: Iterable[ScoredConversation]) -> dict[str, int]:
    reasons: Counter[str] = Counter()
    for conversation in scored:
        if conversation.outcome == "not_evaluated":
            reasons[conversation.reason or "no_data"] += conversation.count
    return dict(sorted(reasons.items()))


def _dimension_means(scored: Sequence[ScoredConversation]) -> dict[Dimension, DimensionMean]:
    means: dict[Dimension, DimensionMean] = {}
    for dimension in DIMENSIONS:
        members = [conversation for conversation in scored if dimension in conversation.dimensions]
        if members:
            total = sum(row.count * row.weight * row.dimensions[dimension] for row in members)
            mean = total / sum(row.count * row.weight for row in members)
            count = sum(row.count for row in members)
            means[dimension] = DimensionMean(mean=min(1.0, max(0.0, mean)), n=count)
    return means


#: The code of each outcome in columns.
OUTCOME_CODES: Final[dict[Outcome, int]] = {"pass": 1, "fail": 0, "not_evaluated": -1}


def results_of(
    scored: Iterable[ScoredConversation], tags: Sequence[str] = (), times: Mapping[int, IntArray] | None = None
) -> Results:
    """Return the columns of scored conversations, in event order, groups sorted by key.

    Args:
        scored: the conversations, in any order, each once.
        tags: case tags (names or globs) that form separate groups in addition to the total.
        times: when each conversation of a kind ended, ns, by kind; a row of several conversations is repeated at these.
    """
    ordered = sorted(scored, key=lambda row: (row.ended_ns, row.environment, row.conversation_id))
    rows = [(key, row) for row in ordered for key in _keys_with_tags(row, tags)]
    groups = sorted({key for key, _ in rows}, key=GroupKey.sort_key)
    cases = sorted({row.case_key for row in ordered if row.case_id is not None})
    reasons = sorted({_reason(row) for row in ordered if row.outcome == "not_evaluated"})
    group_codes = {key: code for code, key in enumerate(groups)}
    case_codes = {key: code for code, key in enumerate(cases)}
    reason_codes = {reason: code for code, reason in enumerate(reasons)}
    ended = [np.array([row.ended_ns]) if times is None or row.kind is None else times[row.kind] for _, row in rows]
    repeats = [len(row_times) for row_times in ended]
    order = np.argsort(np.concatenate([*ended, np.empty(0, dtype=np.int64)]), kind="stable")
    conversation = np.repeat(np.arange(len(rows)), repeats)[order]

    def column(values: Iterable[float], dtype: type) -> npt.NDArray[Any]:
        return np.array(list(values), dtype=dtype)[conversation]

    return Results(
        groups=groups,
        group=column((group_codes[key] for key, _ in rows), np.int64),
        case=column((-1 if row.case_id is None else case_codes[row.case_key] for _, row in rows), np.int64),
        ended_ns=np.concatenate([*ended, np.empty(0, dtype=np.int64)])[order],
        outcome=column((OUTCOME_CODES[row.outcome] for _, row in rows), np.int64),
        reasons=reasons,
        reason=column(
            (reason_codes[_reason(row)] if row.outcome == "not_evaluated" else -1 for _, row in rows), np.int64
        ),
        dimensions=np.array(
            [[row.dimensions.get(name, np.nan) for name in DIMENSIONS] for _, row in rows], dtype=np.float64
        ).reshape(-1, len(DIMENSIONS))[conversation],
        weight=column((row.weight for _, row in rows), np.float64),
    )


def _keys_with_tags(scored: ScoredConversation, tags: Sequence[str]) -> Iterator[GroupKey]:
    total = subject_key(scored)
    yield total
    for tag in dict.fromkeys(scored.tags):
        if any(fnmatchcase(tag, glob) for glob in tags):
            yield replace(total, tag=tag)
    for name in scored.slices:
        if not is_in(name, {USER}) and any("=" in glob and fnmatchcase(name, glob) for glob in tags):
            yield replace(total, tag=name)


def _reason(scored: ScoredConversation) -> str:
    return scored.reason or "no_data"
