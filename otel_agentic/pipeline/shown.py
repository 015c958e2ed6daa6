"""An evaluation for display: lines of text, or a small HTML table."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from otel_agentic.pipeline.rates import by_role
from otel_agentic.stats import rate_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_agentic.pipeline.evaluation import Evaluation
    from otel_agentic.pipeline.faults import FailingTool
    from otel_agentic.stats import Estimate, Estimates
    from otel_agentic.windows import GroupSummary

#: The number of kinds of faults, warnings and problems that are listed; `failing_tools` and `faults` have all.
_LISTED: Final = 5
#: The characters of a message that are printed.
_MAX_CHARACTERS: Final = 300


def as_text(evaluation: Evaluation) -> str:
    """Return an evaluation as lines of text."""
    return "\n".join([*_headline(evaluation), *_rates(evaluation), *_details(evaluation)])


def as_html(evaluation: Evaluation) -> str:
    """Return an evaluation as HTML for a notebook; untrusted text is escaped."""
    groups = _groups(evaluation)
    named = len(groups) > 1
    rates = [
        f"{rate}, {role}" for role in by_role(groups[0], evaluation.settings.stats) for rate in ("pass@k", "pass^k")
    ]
    head = ["agent"] * named + ["correct", "coverage", "tier", "k", *rates]
    body = [
        _cells(row)
        for group in groups
        for row in _html_rows(group, by_role(group, evaluation.settings.stats), named=named)
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
            for k, at in estimates.pass_at_k.items():
                yield f"    pass@{k} {_interval(at)}   pass^{k} {_interval(estimates.pass_pow_k[k])}"
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
    """Yield a warning about labels that match no conversation, with the first of them."""
    if names:
        more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
        ids = ", ".join(repr(name) for name in names[:_LISTED])
        yield f"{plural(len(names), 'label')} not used: no conversation has the id {ids}{more}"


def _judge(evaluation: Evaluation) -> Iterator[str]:
    """Yield the calls and cost of a judge that calls a model, and its failures."""
    use = evaluation.judge_use
    questions = use.verdicts + use.failed + use.refused + use.cached
    if not questions:
        return
    cached = f", {use.cached:,} of them from the cache" if use.cached else ""
    spent = f"; {plural(use.calls, 'call')}, {plural(use.input_tokens + use.output_tokens, 'token')}"
    cost = "" if use.cost_usd is None else f", ${use.cost_usd:,.4f}"
    yield f"judge {evaluation.judge_name}: {plural(questions, 'question')}{cached}{spent}{cost}"
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


def _html_rows(group: GroupSummary, estimates: Mapping[str, Estimates], *, named: bool) -> Iterator[list[str]]:
    coverage = "no data" if group.coverage is None else f"{group.coverage:.0%}"
    first = [group.key.agent or "no agent"] * named + [f"{group.c:,}/{group.n:,}", coverage, group.tier]
    for number, k in enumerate(estimates["pooled"].pass_at_k):
        start = first if number == 0 else [""] * len(first)
        rates = (rate for role in estimates.values() for rate in (role.pass_at_k[k], role.pass_pow_k[k]))
        yield [*start, str(k), *map(_interval, rates)]


def _cells(cells: Sequence[str], tag: str = "td") -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
