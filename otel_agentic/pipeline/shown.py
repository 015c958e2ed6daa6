"""An evaluation as people see it: some lines of text, or a small table of HTML."""

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

#: Ways to fail that are listed; `failing_tools` and `faults` have all.
_SHOWN: Final = 5
#: Characters of a message that are shown.
_LONGEST: Final = 300


def as_text(evaluation: Evaluation) -> str:
    """Return an evaluation as lines of text."""
    return "\n".join([*_headline(evaluation), *_rates(evaluation), *_details(evaluation)])


def as_html(evaluation: Evaluation) -> str:
    """Return an evaluation as HTML for a notebook; texts of strangers are escaped."""
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
    whole = f"{plural(len(evaluation), 'conversation')}, {plural(len(evaluation.cases), 'case')}"
    told = f"{counts['pass']:,} passed, {counts['fail']:,} failed, {counts['not_evaluated']:,} not evaluated"
    return [f"{whole}: {told}"]


def _rates(evaluation: Evaluation) -> Iterator[str]:
    groups = _groups(evaluation)
    for group in groups:
        if len(groups) > 1:
            yield f"{group.key.agent or 'no agent'}: {group.c:,} of {group.n:,} correct"
        for role, estimates in by_role(group, evaluation.settings.stats).items():
            yield f"  {role}: {estimates.estimator}, {estimates.level:.0%} intervals ({estimates.interval_method})"
            for k, at in estimates.pass_at_k.items():
                yield f"    pass@{k} {_told(at)}   pass^{k} {_told(estimates.pass_pow_k[k])}"
        yield f"  tier {_tier(group)}"


def _groups(evaluation: Evaluation) -> Sequence[GroupSummary]:
    """Return a summary for each agent, or the one of all where there is one agent."""
    agents = {one.conversation.agent_name for one in evaluation.attempts}
    return evaluation.groups() if len(agents) > 1 else [evaluation.whole]


def _details(evaluation: Evaluation) -> Iterator[str]:
    if evaluation.reasons:
        yield "reasons: " + ", ".join(f"{count:,} {reason}" for reason, count in evaluation.reasons.items())
    if evaluation.bounds is not None and evaluation.outcomes["not_evaluated"]:
        low, high = evaluation.bounds
        yield f"with those not evaluated, the pass rate lies in [{low:.3f}, {high:.3f}]"
    failing = evaluation.failing_tools()
    several = len({(row.agent, row.agent_version, row.environment) for row in failing}) > 1
    yield from (f"fault: {_whose(row) if several else ''}{_fault(row)}" for row in failing[:_SHOWN])
    if len(failing) > _SHOWN:
        yield f"fault: {len(failing) - _SHOWN:,} more kinds, see failing_tools()"
    yield from _judge(evaluation)
    yield from (f"warning: {warning}" for warning in evaluation.warnings[:_SHOWN])
    yield from (f"problem: {problem}" for problem in evaluation.problems[:_SHOWN])
    more = len(evaluation.warnings[_SHOWN:]) + len(evaluation.problems[_SHOWN:])
    if more:
        yield f"{more:,} more, see warnings and problems"


def _fault(row: FailingTool) -> str:
    parameter = f", parameter {row.parameter}" if row.parameter else ""
    return f"{row.tool}, {row.fault}{parameter}: {row.faults:,} in {plural(row.conversations, 'conversation')}"


def _whose(row: FailingTool) -> str:
    """Return agent, version and environment, which tell apart two rows of one tool and fault."""
    named = " ".join(part for part in (row.agent or "no agent", row.agent_version, row.environment) if part)
    return f"{named}, "


def unused_labels(names: Sequence[str]) -> Iterator[str]:
    """Yield a sentence about labels that are of no conversation, with the first of them."""
    if names:
        more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
        told = ", ".join(repr(name) for name in names[:_SHOWN])
        yield f"{plural(len(names), 'label')} used for nothing: no conversation given has the id {told}{more}"


def _judge(evaluation: Evaluation) -> Iterator[str]:
    """Yield what a judge that is asked was asked, and how often it failed."""
    use = evaluation.judge_use
    asked = use.verdicts + use.failed + use.refused + use.cached
    if not asked:
        return
    known = f", {use.cached:,} of them known before" if use.cached else ""
    spent = f"; {plural(use.calls, 'call')}, {plural(use.input_tokens + use.output_tokens, 'token')}"
    cost = "" if use.cost_usd is None else f", ${use.cost_usd:,.4f}"
    yield f"judge {evaluation.judge_name}: {plural(asked, 'question')}{known}{spent}{cost}"
    if use.failed and use.failure is not None:
        yield f"judge {evaluation.judge_name}: the last failure: {_cut(use.failure)}"
    if use.failed or use.refused:
        yield f"judge {evaluation.judge_name}: {use.failed:,} failed, {use.refused:,} not asked; none of these is the agent's"


def _cut(text: str) -> str:
    """Return a text of strangers as one line that is not too long."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def plural(count: int, what: str) -> str:
    """Return a count with its noun.

    >>> plural(1, "case"), plural(1200, "case")
    ('1 case', '1,200 cases')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _told(estimate: Estimate) -> str:
    if estimate.value is None or estimate.lower is None or estimate.upper is None:
        return "no data"
    return f"{estimate.value:.3f} [{estimate.lower:.3f}, {estimate.upper:.3f}]"


def _tier(group: GroupSummary) -> str:
    leaning = f", leaning {group.leaning}" if group.leaning else ""
    more = plural(group.needed or 0, "more conversation")
    needed = f"; about {more} at this rate would settle it" if group.needed else ""
    evidence = group.tier_evidence
    rates = {} if evidence is None else evidence.rates
    told = ", ".join(
        f"{rate_name(name)} {'no data' if rate is None else f'{rate:.3f}'}" for name, rate in rates.items()
    )
    if evidence is not None and evidence.e_value is not None:
        told += f"; {evidence.statement}: e-value {evidence.e_value:.3g} of {evidence.e_value_needed:.3g}"
    return f"{group.tier}{leaning}{needed}{f' (by {told})' if told else ''}"


def _html_rows(group: GroupSummary, shown: Mapping[str, Estimates], *, named: bool) -> Iterator[list[str]]:
    coverage = "no data" if group.coverage is None else f"{group.coverage:.0%}"
    first = [group.key.agent or "no agent"] * named + [f"{group.c:,}/{group.n:,}", coverage, group.tier]
    for place, k in enumerate(shown["pooled"].pass_at_k):
        start = first if place == 0 else [""] * len(first)
        rates = (rate for each in shown.values() for rate in (each.pass_at_k[k], each.pass_pow_k[k]))
        yield [*start, str(k), *map(_told, rates)]


def _cells(cells: Sequence[str], tag: str = "td") -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
