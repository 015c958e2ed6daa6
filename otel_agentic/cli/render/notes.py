"""Notes that several commands print: what the judge was asked and cost, and what to do about missing scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_agentic.cli.render.text import percent, plural, short

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from otel_agentic.results.evaluation import EvaluationRun, JudgeUse, MetricCounts
    from otel_agentic.results.reports import MetricSummary

#: Fails decided on partial evidence are worth a warning above this share of the evaluated.
_PARTIAL: Final = 0.05
_FAILURE: Final = 200


def judge_notes(judge: JudgeUse) -> Iterator[str]:
    """Yield what was asked of the judge; nothing for one that asks no model.

    >>> from types import SimpleNamespace as Judge
    >>> use = {"calls": 12, "cached": 30, "judged": 10, "failed": 0, "refused": 0, "input_tokens": 4000, "used_up": None}
    >>> cost = {"output_tokens": 500, "cost_usd": 0.02, "models": ["m"], "name": "langchain", "canaries": None}
    >>> list(judge_notes(Judge(**use, **cost)))
    ['judge langchain (m): 12 calls for 10 verdicts, 30 verdicts from the cache; 4,500 tokens, $0.0200']
    """
    if not any((judge.calls, judge.cached, judge.failed, judge.refused)):
        return
    model = f" ({', '.join(judge.models)})" if judge.models else ""
    told = f"judge {judge.name}{model}: {plural(judge.calls, 'call')} for {plural(judge.judged, 'verdict')}"
    if judge.cached:
        told += f", {plural(judge.cached, 'verdict')} from the cache"
    yield told + _cost(judge)
    if judge.failed:
        yield f"the judge failed on {plural(judge.failed, 'question')}, lastly: {short(judge.failure, _FAILURE)}"
    if judge.refused:
        why = f": {judge.used_up}" if judge.used_up else ""
        yield f"{plural(judge.refused, 'question')} not asked{why}"
    if judge.canaries:
        passed = judge.canaries_passed or 0
        yield f"the judge passed {passed:,} of {judge.canaries:,} canaries (answers that are wrong on purpose)"


def score_warnings(done: EvaluationRun) -> Iterator[str]:
    """Yield what to be wary of in the scores of an evaluation."""
    models = done.judge.same_as_agent
    if models:
        yield (
            f"the judge's model is the judged agent's own ({', '.join(models)}): models favour what they write themselves; "
            "let another model judge"
        )
    if is_partial(done.partial_fails, done.n):
        yield partial_warning(done.partial_fails, done.n)
    if done.disagreements:
        yield (
            f"{done.disagreements:,} of {plural(done.compared, 'given verdict')} differ from the computed outcome; "
            "the given one counts, `otel-agentic conversations show ID` tells both"
        )
    drafts = done.reasons.get("unreviewed", 0)
    if drafts:
        yield f"{plural(drafts, 'conversation')} left out: the case is a draft that has not been reviewed"


def is_partial(fails: int, n: int) -> bool:
    """Return whether so many fails on partial evidence, among n evaluated, are worth a warning."""
    return n > 0 and fails > _PARTIAL * n


def partial_warning(fails: int, n: int) -> str:
    """Return the warning of fails that were decided while other needed parts were not evaluated.

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
_ADVICE: Final = {
    "content_not_captured": (
        "the instrumentation does not record the texts or arguments that the score needs; `otel-agentic doctor FILE` names "
        "the setting of your framework, mostly OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY"
    ),
    "not_scored": "closed, but not scored yet; `otel-agentic evaluate --cases FILE` scores them",
    "unmatched": (
        "no case belongs to them; `otel-agentic truth matches --only suggested` lists the cases that their texts suggest, "
        "`--clusters` shows what to annotate next, `truth promote` drafts the cases, and `otel-agentic evaluate --cases FILE` "
        "scores with them"
    ),
    "ambiguous": (
        "several cases fit equally; `otel-agentic truth matches --only ambiguous` lists them, and a case id on the spans "
        "(agentic.case.id) or a labels file settles it"
    ),
    "unreviewed": (
        "their case is a draft, promoted from production and read by nobody yet; correct it, take out `reviewed: false`, and "
        "import its file again"
    ),
    "judge_error": "the judge failed after its retries; `otel-agentic evaluate` asks it again",
    "judge_unsure": (
        "the judge's score of an answer lies between failing and passing, so it does not decide; label these conversations "
        "(`--labels FILE`), or let a model judge: `--judge langchain:openai:gpt-5-mini`"
    ),
    "incomplete": (
        "an expected turn is missing and nothing proves that the conversation ended, or its spans contradict each other; an "
        "end mark (agentic.conversation.end: true) on the last span proves it, and `scoring.strict_turns` does without"
    ),
    "no_conversation_id": (
        "an expected turn is missing, and no span carries a conversation id: the turns of one conversation may be stored as "
        "several; record `gen_ai.conversation.id` or `session.id`, or name your own attribute in "
        "conversations.conversation_id_attributes"
    ),
    "sampled_out": (
        "sampling left them out (`sampling.ratio`), which biases no rate; after raising the ratio, `otel-agentic evaluate` scores "
        "the rest"
    ),
    _BUDGET: (
        "the judge was not asked because its budget is exhausted (`otel-agentic judge cache` shows what is spent); raise "
        "judge.max_calls, judge.max_tokens or judge.max_cost_usd, or wait for the next judge.budget_window, then "
        "`otel-agentic evaluate` asks the rest"
    ),
    "tokens_not_recorded": (
        "the spans of model calls carry no token usage (gen_ai.usage.input_tokens, gen_ai.usage.output_tokens); recording content "
        "does not add it: update the instrumentation, or let the client request usage (for streams, stream_options.include_usage)"
    ),
    "model_calls_not_recorded": (
        "no span of a model call arrived; instrument the model client, too, and let its spans reach this collector"
    ),
    "price_not_set": "a model that was called has no price; set it in [evaluators.prices], by name or glob",
    "tool_definitions_not_recorded": (
        "no span records which tools the agent was given (gen_ai.tool.definitions); `otel-agentic doctor FILE` shows what each "
        "framework records"
    ),
    "state_not_recorded": (
        "no span records the final state and no result of a writing tool tells it; set agentic.final_state on a span of the "
        "conversation"
    ),
    "times_not_recorded": "the turns come from data without times of their own, so they have no latency",
    "empty": "conversations without a turn; `otel-agentic doctor FILE` shows how their spans are read",
    "no_data": (
        "their cases say nothing that could be scored: neither answers nor tools nor outputs (with --compat, nothing that the "
        "other system looks at)"
    ),
}


def advice(reasons: Iterable[str]) -> list[str]:
    """Return a line for each reason that something can be said about, in the order of this file.

    >>> advice(["judge_error", "verdict"])
    ['judge_error: the judge failed after its retries; `otel-agentic evaluate` asks it again']
    """
    given = set(reasons)
    return [f"{reason}: {told}" for reason, told in _ADVICE.items() if reason in given]


#: Reasons that only metrics have: something beyond the content was not recorded, or is not set.
_OF_METRICS: Final = tuple(name for name in _ADVICE if name.endswith("_not_recorded") or name == "price_not_set")


def metric_advice(metrics: Iterable[MetricSummary | MetricCounts]) -> list[str]:
    """Return a line for each thing that is missing where a metric has no score at all, and for a budget that is exhausted.

    >>> from types import SimpleNamespace as Metric
    >>> without = Metric(n=0, not_evaluated={"price_not_set": 3, "no_data": 1})
    >>> some = Metric(n=40, not_evaluated={"tokens_not_recorded": 1, "budget_exhausted": 80})
    >>> [line.partition(":")[0] for line in metric_advice([without, some])]
    ['budget_exhausted', 'price_not_set']
    """
    told = list(metrics)
    found = {reason for metric in told if not metric.n for reason in metric.not_evaluated if reason in _OF_METRICS}
    return advice(found.union(reason for metric in told for reason in metric.not_evaluated if reason == _BUDGET))
