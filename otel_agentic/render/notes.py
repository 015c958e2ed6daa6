"""Notes that several commands print: the use and cost of the judge, and advice on missing scores."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from otel_agentic.render.text import percent, plural, short

if TYPE_CHECKING:
    from otel_agentic.results.evaluation import EvaluationRun, JudgeUse, MetricCounts
    from otel_agentic.results.reports import MetricSummary

#: The share of evaluated conversations that failed on partial evidence above which a warning is printed.
_PARTIAL: Final = 0.05
_FAILURE: Final = 200


def judge_notes(judge: JudgeUse) -> Iterator[str]:
    """Yield a line about the use of a judge; nothing for a judge that calls no model.

    >>> from types import SimpleNamespace as Judge
    >>> use = {"calls": 12, "cached": 30, "judged": 10, "failed": 0, "refused": 0, "input_tokens": 4000, "used_up": None}
    >>> cost = {"output_tokens": 500, "cost_usd": 0.02, "models": ["m"], "name": "langchain", "canaries": None}
    >>> list(judge_notes(Judge(**use, **cost)))
    ['judge langchain (m): 12 calls for 10 verdicts, 30 verdicts from the cache; 4,500 tokens, $0.0200']
    """
    if not any((judge.calls, judge.cached, judge.failed, judge.refused)):
        return
    model = f" ({', '.join(judge.models)})" if judge.models else ""
    sentence = f"judge {judge.name}{model}: {plural(judge.calls, 'call')} for {plural(judge.judged, 'verdict')}"
    if judge.cached:
        sentence += f", {plural(judge.cached, 'verdict')} from the cache"
    yield sentence + _cost(judge)
    if judge.failed:
        yield f"the judge failed on {plural(judge.failed, 'question')}, lastly: {short(judge.failure, _FAILURE)}"
    if judge.refused:
        why = f": {judge.used_up}" if judge.used_up else ""
        yield f"{plural(judge.refused, 'question')} not asked{why}"
    if judge.canaries:
        passed = judge.canaries_passed or 0
        yield f"the judge passed {passed:,} of {judge.canaries:,} canaries (answers that are wrong on purpose)"


def score_warnings(done: EvaluationRun) -> Iterator[str]:
    """Yield warnings about the scores of an evaluation."""
    models = done.judge.same_as_agent
    if models:
        yield (
            f"the judge's model is the judged agent's own ({', '.join(models)}): models favour their own output; "
            "let another model judge"
        )
    if is_partial(done.partial_fails, done.n):
        yield partial_warning(done.partial_fails, done.n)
    if done.disagreements:
        yield (
            f"the computed outcome differs from {done.disagreements:,} of {plural(done.compared, 'recorded verdict')}; "
            "the recorded one counts, `otel-agentic conversations show ID` shows both"
        )
    drafts = done.reasons.get("unreviewed", 0)
    if drafts:
        yield f"{plural(drafts, 'conversation')} left out: the case is a draft that has not been reviewed"


def is_partial(fails: int, n: int) -> bool:
    """Return whether this many failures on partial evidence, among n evaluated conversations, justify a warning."""
    return n > 0 and fails > _PARTIAL * n


def partial_warning(fails: int, n: int) -> str:
    """Return the warning about failures that were decided although other required parts were not evaluated.

    >>> partial_warning(6, 60)
    '6 of 60 evaluated conversations (10%) failed on partial evidence: other needed parts were not evaluated; a pass needs every part, so missing data lower the pass rate'
    """
    return (
        f"{fails:,} of {plural(n, 'evaluated conversation')} ({percent(fails / n)}) failed on partial evidence: other needed "
        "parts were not evaluated; a pass needs every part, so missing data lower the pass rate"
    )


def _cost(judge: JudgeUse) -> str:
    tokens = judge.input_tokens + judge.output_tokens
    if not judge.calls or not tokens:
        return ""
    cost = "" if judge.cost_usd is None else f", ${judge.cost_usd:,.4f}"
    return f"; {plural(tokens, 'token')}{cost}"


_BUDGET: Final = "budget_exhausted"
#: The advice on each reason for a missing score.
_ADVICE: Final[Mapping[str, str]] = tomllib.loads(files(__package__).joinpath("advice.toml").read_text("utf-8"))


def advice(reasons: Iterable[str]) -> list[str]:
    """Return one line per reason for which there is advice, in the order of `advice.toml`.

    >>> advice(["judge_error", "verdict"])
    ['judge_error: the judge failed after its retries; `otel-agentic evaluate` asks it again']
    """
    present = set(reasons)
    return [f"{reason}: {sentence}" for reason, sentence in _ADVICE.items() if reason in present]


#: Reasons that only metrics have: data other than content was not recorded, or a setting is missing.
_OF_METRICS: Final = tuple(name for name in _ADVICE if name.endswith("_not_recorded") or name == "price_not_set")


def metric_advice(metrics: Iterable[MetricSummary | MetricCounts]) -> list[str]:
    """Return advice on everything that is missing for a metric without any score, and on an exhausted budget.

    >>> from types import SimpleNamespace as Metric
    >>> without = Metric(n=0, not_evaluated={"price_not_set": 3, "no_data": 1})
    >>> some = Metric(n=40, not_evaluated={"tokens_not_recorded": 1, "budget_exhausted": 80})
    >>> [line.partition(":")[0] for line in metric_advice([without, some])]
    ['budget_exhausted', 'price_not_set']
    """
    summaries = list(metrics)
    reasons = {
        reason for metric in summaries if not metric.n for reason in metric.not_evaluated if reason in _OF_METRICS
    }
    return advice(reasons.union(reason for metric in summaries for reason in metric.not_evaluated if reason == _BUDGET))
