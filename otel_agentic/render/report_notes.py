"""The notes under a report: groups, estimators, assumptions of the intervals, the judge, and objectives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from otel_agentic.render.notes import advice, is_partial, partial_warning
from otel_agentic.render.terminal import Column, differing_and_shared, text
from otel_agentic.render.text import interval, moment, plural, ratio, short
from otel_agentic.results.reports import (
    Estimates,
    FirstSuccess,
    GroupJudge,
    GroupKeys,
    GroupRates,
    JudgeAgreement,
    JudgeCalibration,
    NamedEstimates,
    ObjectiveStatus,
    Rate,
    RatesAtK,
    Report,
    ReportGroup,
    SampleShares,
    Targets,
    TierEvidence,
)

_KEYS: Final = ("agent", "agent_version", "environment", "service")
#: The units that count as one observation of an objective.
_BLOCKS: Final = {
    "auto": "runs of a user or session, else hours",
    "user": "runs of a user, else hours",
    "session": "runs of a session, else hours",
    "hour": "hours",
}
#: The largest e-value that is printed as a number.
_LARGEST: Final = 1e300


def objective_notes(objectives: Sequence[ObjectiveStatus]) -> list[str]:
    """Return one line per objective of a report, and another one if its pass rate fell.

    Args:
        objectives: the objectives of the report; empty if none is configured.
    """
    names, _ = differing_and_shared(objectives, _KEYS)
    lines = []
    for status in objectives:
        group = " ".join(str(value) for name in names if (value := getattr(status, name)))
        label = f"{group}: {status.objective}" if group else status.objective
        lines += [f"{label}: {sentence}" for sentence in _sentences(status)]
    return [*lines, *_not_proven(objectives)]


def _not_proven(objectives: Sequence[ObjectiveStatus]) -> list[str]:
    if all(status.alarm or not status.n for status in objectives):
        return []
    return ["no alarm does not prove that an objective is kept; a lower bound of pass^k at or above the target does"]


def _sentences(status: ObjectiveStatus) -> Iterator[str]:
    newer = f"; {plural(status.pending, 'newer one')} not final yet" if status.pending else ""
    if not status.n:
        yield f"no evidence yet, because no conversation is final{newer.replace('newer one', 'conversation')}"
        return
    by_case = " by case" if status.method == "per_case" else ""
    conversations = plural(status.n, "conversation")
    if status.block != "none":
        conversations += f", counted as {plural(status.blocks, 'block')} ({_BLOCKS[status.block]})"
    evidence = f"e-value{by_case} {_number(status.e_value)} after {conversations}"
    yield f"{_verdict_on(status, evidence)}{newer}"
    if status.changed_at is not None:
        yield _changed(status)


def _verdict_on(status: ObjectiveStatus, evidence: str) -> str:
    alarm = f"{1 / status.alpha:.4g}"
    if status.alarm:
        trust = f"an alarm at {alarm} is false in at most {100 * status.alpha:.3g} % of agents, ever"
        since = f"; reached {_time(status.alarmed_at)}"
        if status.e_value * status.alpha >= 1:
            return f"broken, with {evidence} ({trust}{since})"
        return f"was found broken ({trust}{since}); {evidence}"
    if status.e_value > 1:
        return f"no alarm, with {evidence} (the alarm is at {alarm}; above 1 speaks against it)"
    return f"no evidence against it, with {evidence} (the alarm is at {alarm})"


def _changed(status: ObjectiveStatus) -> str:
    ordinal_note = f", the last of {status.changes:,}" if status.changes > 1 else ""
    return (
        f"the pass rate seems to have fallen below {ratio(status.p0)}: change alarm {_time(status.changed_at)}{ordinal_note} "
        f"(where it did not fall, such alarms are {status.target_run_length:,.6g} {'conversations' if status.block == 'none' else 'blocks'} apart or more, on average)"
    )


def _number(e_value: float) -> str:
    return "above 1e300" if e_value >= _LARGEST else f"{e_value:.3g}"


def _time(iso: str | None) -> str:
    """Return an ISO 8601 time without fractions of a second."""
    return f"{(iso or '')[:19]}Z"


def group_judge_notes(groups: Sequence[ReportGroup]) -> list[str]:
    """Return one line per judge of the groups, and one more if the groups mix scores of several judges."""
    judges = [judge for group in groups if (judge := group.judge) is not None]
    lines = dict.fromkeys(line for judge in judges for line in _notes_of_judge(judge))
    return list(lines)


def _notes_of_judge(judge: GroupJudge) -> Iterator[str]:
    model = f" ({judge.model})" if judge.model else ""
    name = f"answers judged by {judge.name}{model}"
    calibration = judge.calibration
    if calibration is None:
        yield f"{name}, not compared with people yet: `otel-agentic judge calibrate --labels CSV` measures how far it agrees with them"
    else:
        yield f"{name}: {_agreement(calibration)}"
        if not calibration.same_evaluation:
            yield (
                f"warning: {judge.name} was compared with people under another evaluator version; cases, labels or "
                "settings changed since"
            )
    if judge.others:
        yield (
            f"warning: other scores come from {', '.join(judge.others)}; `otel-agentic evaluate` over all of them makes "
            "them comparable"
        )


def _agreement(calibration: JudgeCalibration) -> str:
    targets = (("turn", calibration.turn), ("conversation", calibration.conversation))
    parts = [
        f"{interval(result.agreement)} on {plural(result.n, target)}{_beyond_chance(result)}{_without(result)}"
        for target, result in targets
        if result is not None and result.n
    ]
    if not parts:
        return "compared with people, but it gave no verdict on what they labelled"
    sample = "" if calibration.random_sample else "; the labels are no random sample"
    return f"agreement with people {', '.join(parts)}{sample}"


def _without(agreement: JudgeAgreement) -> str:
    """Return a note on labelled items that tool calls, outputs or missing turns decided, not the judge."""
    without = agreement.n - agreement.judged
    return f", {without:,} of them decided without a judge" if without else ""


def _beyond_chance(agreement: JudgeAgreement) -> str:
    return "" if agreement.kappa.value is None else f" (kappa {interval(agreement.kappa)})"


Group = ReportGroup
G = TypeVar("G", bound=GroupKeys)

KEYS: Final = ("agent", "agent_version", "environment", "service", "tag", "dataset", "case", "tool", "criterion")
#: The criterion that tiers are about: the stored outcome.
_CORRECT: Final = "correct"
_POOLED: Final = "pooled over conversations"
#: The largest number of characters of a name in a note.
_NAME: Final = 80
_KINDS: Final = {
    "per_case": "mean over cases",
    "plugin": _POOLED,
    "unbiased": _POOLED,
    "bayesian": _POOLED,
    "hierarchical": "a new case, learnt from all",
}
_ONE_CASE: Final = "_one_case"
#: Probabilities of two targets that differ by less than this are printed as equal.
_APART: Final = 0.01
#: The k of the pass^k that tiers are based on.
_TIER_K: Final = 3
#: The assumptions of interval methods by the end of the method's name; the first match counts.
_ASSUMED: Final = (
    (_ONE_CASE, "the attempts of one case count as independent; the interval is about that case alone"),
    ("cluster_bootstrap", "cases count as independent; made by resampling cases, too narrow where there are few"),
    (
        "profile_likelihood",
        "cases count as independent draws from one population of cases, their rates Beta-distributed",
    ),
    (
        "_effective_n",
        "about new cases like these; cases count as independent; attempts of one case may be correlated, so they weigh less (effective n)",
    ),
    ("", "conversations count as independent"),
)
#: E-values between these bounds are printed in full.
_HUNDRED: Final = 100.0
_TEN_MILLION: Final = 1e7


def period(
    window: str | None,
    since: str | None,
    until: str | None,
    agent_version: str | None = None,
    environment: str | None = None,
) -> str:
    """Return the time range of a report, and the version and the environment to which it is restricted.

    >>> period(None, None, None), period("24h", None, None), period(None, "7d", None, "1.1.0")
    ('all time', 'window 24h', 'since 7d, version 1.1.0')
    """
    bounds = [f"since {since}" if since else "", f"until {until}" if until else ""]
    sentence = " ".join(bound for bound in bounds if bound)
    if window is None:
        time = sentence or "all time"
    else:
        time = f"window {window}" + (f" up to {until}" if until else "") + (f", since {since}" if since else "")
    subset = [f"version {agent_version}" if agent_version else "", f"environment {environment}" if environment else ""]
    return ", ".join(part for part in (time, *subset) if part)


def title(groups: Sequence[Group]) -> str:
    """Return the values that all groups share, as a title."""
    agent = differing_and_shared(groups, KEYS)[1].get("agent")
    return ", ".join([f"Reliability of {agent}" if agent else "Reliability", *shared_values(groups)])


def shared_values(groups: Sequence[Group]) -> list[str]:
    """Return the values that all groups share, other than the agent, each with its name."""
    _, shared = differing_and_shared(groups, KEYS)
    hidden = {"agent", *({"criterion"} if shared.get("criterion") == "correct" else ())}
    return [f"{name.replace('agent_', '')} {value}" for name, value in shared.items() if name not in hidden]


def criterion_notes(report: Report) -> list[str]:
    """Return which criteria decide, one line per criterion of the report, and how many outcomes are by other criteria."""
    rules = [f"{item.name} means: {item.rule}" for item in report.criteria if item.rule != item.name]
    otherwise = [
        f"warning: {plural(item.scored_otherwise, 'conversation')} of these {'was' if item.scored_otherwise == 1 else 'were'} "
        "scored by other criteria; run `otel-agentic evaluate` to score by the current ones"
        for item in report.criteria
        if item.scored_otherwise
    ]
    return [*rules, *otherwise]


def name_of(group: GroupKeys, groups: Sequence[GroupKeys]) -> str:
    """Return the name of a group: the values that distinguish it, or its agent if it is the only group."""
    differing, _ = differing_and_shared(groups, KEYS)
    values = [short(getattr(group, name), _NAME) for name in differing if getattr(group, name)]
    return " ".join(values) or short(group.agent or "all", _NAME)


def key_columns(groups: Sequence[GroupKeys]) -> list[Column]:
    """Return a column for each key that distinguishes the groups."""
    return text(*(name.replace("agent_", "") for name in differing_and_shared(groups, KEYS)[0]))


def keyed_rows(groups: Sequence[G], cells_of: Callable[[G], Iterable[Sequence[Any]]]) -> list[list[Any]]:
    """Return the rows of each group; only the first row of a group contains the keys that distinguish it."""
    names, _ = differing_and_shared(groups, KEYS)
    return [
        [*(getattr(group, name) if index == 0 else "" for name in names), *cells]
        for group in groups
        for index, cells in enumerate(cells_of(group))
    ]


def shown_estimates(group: GroupRates) -> Estimates:
    """Return the estimates of the headline estimator."""
    return group.estimates[group.default_estimator]


def rates_by_k(estimates: Estimates | NamedEstimates, kind: str) -> dict[str, Rate]:
    """Return pass@k (`pass_at_k`) or pass^k (`pass_pow_k`) by k."""
    return estimates.pass_at_k if kind == "pass_at_k" else estimates.pass_pow_k


def estimator_kind(estimator: str) -> str:
    """Return the name of an estimator; a built-in one is followed by the quantity that it estimates.

    >>> estimator_kind("per_case"), estimator_kind("my_own")
    ('per_case (mean over cases)', 'my_own')
    """
    return f"{estimator} ({_KINDS[estimator]})" if estimator in _KINDS else estimator


def estimates_by_role(group: Group) -> dict[str, NamedEstimates]:
    """Return the displayed estimates of a group: pooled, per case, and of the headline estimator if it is neither."""
    by_role = {"pooled": group.pooled, "per case": group.per_case}
    headline = group.default_estimator
    if headline not in {estimates.estimator for estimates in by_role.values()}:
        third = shown_estimates(group)
        by_role[headline] = NamedEstimates(
            estimator=headline,
            interval_method=third.interval_method,
            level=third.level,
            pass_at_k=third.pass_at_k,
            pass_pow_k=third.pass_pow_k,
            collapsed=third.collapsed,
        )
    return by_role


def group_notes(groups: Sequence[Group]) -> list[str]:
    """Return the notes on single groups, with advice."""
    sentence = [
        *target_notes(groups),
        *(f"{name_of(group, groups)}: {note}" for group in groups for note in _notes(group)),
    ]
    missing = [reason for group in groups for reason in group.not_evaluated]
    return [*sentence, *_one_case_note(groups), *group_judge_notes(groups), *advice(missing)]


def warning_notes(groups: Sequence[Group]) -> list[str]:
    """Return the notes on single groups without which their rates would be misread."""
    notes = [f"{name_of(group, groups)}: {note}" for group in groups if group.n for note in _warnings(group)]
    noteworthy = [
        group for group in groups if (judge := group.judge) and (judge.model or judge.others or judge.calibration)
    ]
    return [*notes, *_one_case_note(groups), *group_judge_notes(noteworthy)]


def _warnings(group: Group) -> list[str]:
    """Return the notes on parts that the judge left undecided, on intervals without width, and on sampling."""
    notes = _unsure(group)
    if is_partial(group.partial_fails, group.n):
        notes.append(f"warning: {partial_warning(group.partial_fails, group.n)}")
    notes += [
        f"warning: {_collapsed(estimates.estimator)}"
        for estimates in estimates_by_role(group).values()
        if estimates.collapsed
    ]
    return [*notes, *_sampled(group.sampling)]


def not_rebuilt_notes(report: Report) -> list[str]:
    """Return a note on traces and conversations that are missing from a report because they could not be rebuilt."""
    counts = report.not_rebuilt
    if counts is None:
        return []
    numbers = ((counts.traces, "trace"), (counts.conversations, "conversation"))
    counts_text = [plural(number, noun) for number, noun in numbers if number]
    if not counts_text:
        return []
    return [
        (
            f"warning: {' and '.join(counts_text)} could not be rebuilt and are missing here; "
            '`otel-agentic query "FROM not_rebuilt"` shows why'
        )
    ]


def text_match_notes(report: Report) -> list[str]:
    """Return a note on conversations that were matched to their case only by text, or that have a suggested case."""
    counts = report.matched_by_text
    notes: list[str] = []
    if counts is None:
        return notes
    if counts.matched:
        were = "was" if counts.matched == 1 else "were"
        notes.append(
            f'{plural(counts.matched, "conversation")} {were} matched to a case by text (matching.text = "auto"): '
            "`otel-agentic truth matches --only text` lists them"
        )
    if counts.suggested:
        have = "has" if counts.suggested == 1 else "have"
        notes.append(
            f"{plural(counts.suggested, 'conversation')} {have} a suggested case, which counts in nothing until it is "
            "confirmed: `otel-agentic truth matches --only suggested` lists them"
        )
    return notes


def method_notes(groups: Sequence[Group]) -> list[str]:
    """Return one line per estimator and interval method in use, with the assumptions of its intervals."""
    evaluated_groups = [group for group in groups if group.n]
    methods = Counter(
        (role, estimates.estimator, estimates.interval_method, estimates.level)
        for group in evaluated_groups
        for role, estimates in estimates_by_role(group).items()
    )
    lines = []
    for (role, estimator, method, level), count in methods.items():
        groups_note = f" of {plural(count, 'group')}" if count < len(evaluated_groups) else ""
        assumption = f": {_assumption(method)}" if estimator in _KINDS else ""
        lines.append(f"{role}{groups_note}: {estimator_kind(estimator)}; {level:.0%} intervals {method}{assumption}")
    return [*lines, *_gauges(groups), *_left_out(groups)]


def _notes(group: Group) -> list[str]:
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in group.not_evaluated.items())
    if group.n == 0:
        sentence = f"no conversation was evaluated, so there is no number to give: {reasons or 'the group is empty'}"
        return [sentence, *_unsure(group)]
    notes = []
    if reasons and group.bounds is not None:
        low, high = group.bounds
        notes.append(f"not evaluated: {reasons}; with them the pass rate lies in [{ratio(low)}, {ratio(high)}]")
    if group.tier == "insufficient_evidence" and group.criterion == _CORRECT:
        notes.append(_undecided(group))
    return [*notes, *_warnings(group)]


def _unsure(group: Group) -> list[str]:
    """Return a note on conversations about which the judge is unsure, and on those of them that fail nevertheless."""
    count = group.not_evaluated.get("judge_unsure", 0)
    if not count:
        return []
    judge = group.judge
    judge_name = f"judge {judge.name}" if judge else "judge"
    sentence = f"the {judge_name} is unsure about an answer of {plural(count, 'conversation')}"
    known_failures = group.known_failures
    if known_failures:
        sentence += f"; {known_failures:,} of them fail{'s' if known_failures == 1 else ''} by something else, which `otel-agentic failures` lists"
    return [sentence]


def _collapsed(estimator: str) -> str:
    return (
        f"a bootstrap interval of {estimator} has no width (its cases all gave the same result): that is no certainty; leave "
        "out --interval bootstrap"
    )


def _sampled(sampling: SampleShares | None) -> list[str]:
    """Return a note on the evaluated share of a group's conversations, and on whether rates are weighted by it."""
    if sampling is None:
        return []
    lowest, highest = ratio(sampling.lowest_ratio), ratio(sampling.highest_ratio)
    if not sampling.weighted:
        return [
            f"a random share of {lowest} of its conversations is evaluated: what sampling leaves out biases no rate"
        ]
    sentence = (
        f"random shares of {lowest} to {highest} of its conversations are evaluated: rates count each conversation 1 / share "
        "times, so they differ from correct / evaluated; what sampling leaves out biases no rate"
    )
    return [sentence]


def target_notes(groups: Sequence[Group]) -> list[str]:
    """Return the estimates for this traffic and for a new case, for each group in which they differ."""
    several = len(groups) > 1
    return [
        f"{name_of(group, groups)}: {note}" if several else note
        for group in groups
        if group.targets and _targets_differ(group.targets)
        for note in _targets(group.targets)
    ]


def _targets_differ(targets: Targets) -> bool:
    """Return whether the cases have different numbers of attempts, or the two targets differ visibly for some k."""
    estimate_pairs = [(estimates, targets.new_case.get(k)) for k, estimates in targets.this_traffic.items()]
    is_different = (
        abs(traffic.pass_pow_k.value - new_case.pass_pow_k.value) >= _APART
        for traffic, new_case in estimate_pairs
        if new_case and traffic.pass_pow_k.value is not None and new_case.pass_pow_k.value is not None
    )
    return targets.fewest_attempts < targets.most_attempts or any(is_different)


def _targets(targets: Targets) -> list[str]:
    """Return one sentence per target: the success rate, and pass^k for the k nearest to that of the tiers."""
    fewest, most = targets.fewest_attempts, targets.most_attempts
    attempts = plural(most, "attempt") + " each" if fewest == most else f"{fewest:,} to {plural(most, 'attempt')} each"
    traffic, new_case = targets.this_traffic, targets.new_case
    k = min((key for key in traffic if key != "1"), key=lambda key: abs(int(key) - _TIER_K), default="1")
    return [
        f"this traffic, if these {plural(targets.cases, 'case')} ({attempts}) continue in these shares: "
        + _rates(traffic, k, f"{k} conversations drawn from it all succeed"),
        "a new case like these: " + _rates(new_case, k, f"the same new case succeeds {k} times in a row", by=True),
    ]


def _rates(target: dict[str, RatesAtK], k: str, all_pass: str, *, by: bool = False) -> str:
    """Return the success rate and pass^k of a target as text, with the names of their estimators if `by` is set."""
    captions = {"1": "success rate"} | ({} if k == "1" else {k: all_pass})
    captioned_rates = [(text, target[key]) for key, text in captions.items() if key in target]
    return "; ".join(
        f"{text} {interval(estimates.pass_pow_k)}" + (f" ({estimates.estimator})" if by else "")
        for text, estimates in captioned_rates
    )


def tier_notes(groups: Sequence[Group]) -> list[str]:
    """Return one line per group with its tier and the numbers that the tier is based on."""
    of_correct = [group for group in groups if group.n and group.criterion == _CORRECT]
    others = dict.fromkeys(group.criterion for group in groups if group.n and group.criterion != _CORRECT)
    return [
        *(f"{name_of(group, groups)}: {_tier(group)}" for group in of_correct),
        *(f"no tier is claimed by {name}: a tier is about {_CORRECT}" for name in others),
    ]


def _tier(group: Group) -> str:
    evidence = group.tier_evidence
    if evidence is None:
        return f"tier {group.tier}"
    rates = [
        f"{name.replace('_at_', '@').replace('_pow_', '^')} {ratio(value)}" for name, value in evidence.rates.items()
    ]
    sentence = f"tier {group.tier} by {', '.join(rates)} ({evidence.estimator})"
    if group.tier == "no_row":
        return f"{sentence}; the table of tier_rule = {evidence.rule!r} has no row for them"
    if evidence.rule != "interval":
        return sentence
    if evidence.withheld:
        return f"{sentence}; no tier is claimed: {evidence.withheld}"
    if evidence.e_value is not None:
        sentence += (
            f"; {evidence.statement}: e-value {_e_value(evidence.e_value)}, claimed from {evidence.e_value_needed:g} on"
        )
    return f"{sentence}; {_evidence_base(evidence)}"


def first_success_notes(groups: Sequence[Group]) -> list[str]:
    """Return one line per group with the expected effort until the first success, if failed attempts are repeated."""
    return [
        f"{name_of(group, groups)}: {_first_success(group.first_success)}{_if_cases_repeat(group)}"
        for group in groups
        if group.first_success is not None
    ]


def _first_success(effort: FirstSuccess) -> str:
    attempts = "1 attempt" if effort.attempts == 1.0 else f"{effort.attempts:.3g} attempts"
    sums = [
        text
        for value, text in (
            (effort.cost_usd, f"${_rounded(effort.cost_usd or 0.0)}"),
            (effort.seconds, f"{_rounded(effort.seconds or 0.0)} s"),
        )
        if value is not None
    ]
    effort_text = f", {', '.join(sums)}" if sums else ""
    return f"until the first success, if a failed attempt is repeated: {attempts}{effort_text} on average"


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if value >= _HUNDRED else f"{value:.3g}"


def _if_cases_repeat(group: Group) -> str:
    """Return the limit of the estimate, which is pooled, where cases were attempted several times."""
    repeated = group.targets is not None and group.targets.most_attempts > 1
    return " (pooled; more where cases differ in difficulty)" if repeated else ""


def _e_value(value: float) -> str:
    return f"{value:,.0f}" if _HUNDRED <= value < _TEN_MILLION else f"{value:.3g}"


def _evidence_base(evidence: TierEvidence) -> str:
    """Return a note on the conversations that a tier is based on."""
    version = f" of version {short(evidence.agent_version or 'unknown', _NAME)}" if evidence.versions > 1 else ""
    conversations = f"{plural(evidence.n, 'conversation')} of {plural(evidence.cases, 'case')}"
    return f"{conversations}{version} since {moment(evidence.since)}"


def _undecided(group: Group) -> str:
    leaning = f", leaning {group.leaning}" if group.leaning else ""
    evidence = group.tier_evidence
    if evidence is not None and evidence.withheld:
        return f"insufficient_evidence{leaning}; no tier is claimed: {evidence.withheld}"
    if not group.needed:
        return f"insufficient_evidence{leaning}; at this rate no number of conversations within reach would settle it"
    more = plural(group.needed, "more conversation")
    cases = ", of further such cases," if evidence is not None and evidence.cases < evidence.n else ""
    return f"insufficient_evidence{leaning}; about {more} at this rate{cases} would settle it"


def _one_case_note(groups: Sequence[Group]) -> list[str]:
    """Return a warning about intervals that are based on a single case, unless a single case was requested."""
    single_case_groups = [
        name_of(group, groups)
        for group in groups
        if group.case is None and group.n and group.pooled.interval_method.endswith(_ONE_CASE)
    ]
    if not single_case_groups:
        return []
    return [
        f"warning: all conversations of {', '.join(single_case_groups)} are of one case: intervals are about that case alone, and no tier is claimed"
    ]


def _assumption(method: str) -> str:
    return next(sentence for suffix, sentence in _ASSUMED if method.endswith(suffix))


def _gauges(groups: Sequence[Group]) -> list[str]:
    """Return a note on the estimator of gates and comparisons if `--estimator` requested another one."""
    other_estimators = {group.gauge_estimator for group in groups if group.gauge_estimator != group.default_estimator}
    return [f"the configured estimator of gates is {name}" for name in sorted(other_estimators)]


def _left_out(groups: Sequence[Group]) -> list[str]:
    """Return a note on the cases that each displayed estimator leaves out."""
    counts: dict[str, Counter[str]] = {}
    for group in groups:
        for estimates in estimates_by_role(group).values():
            left_out = group.cases_left_out.get(estimates.estimator)
            if left_out is not None and group.n:
                counts.setdefault(estimates.estimator, Counter()).update(left_out)
    return [_left_out_line(estimator, by_k) for estimator, by_k in counts.items()]


def _left_out_line(estimator: str, by_k: Counter[str]) -> str:
    sentence = ", ".join(f"{plural(count, 'case')} at k={k}" for k, count in by_k.items() if count)
    return f"{estimator} leaves out cases with fewer than k attempts: {sentence or 'none here'}"
