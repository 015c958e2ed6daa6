"""What to do about conversations and metrics that could not be evaluated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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


def metric_advice(metrics: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a line for each thing that is missing where a metric has no score at all, and for a budget that is exhausted.

    >>> without = {"n": 0, "not_evaluated": {"price_not_set": 3, "no_data": 1}}
    >>> some = {"n": 40, "not_evaluated": {"tokens_not_recorded": 1, "budget_exhausted": 80}}
    >>> [line.partition(":")[0] for line in metric_advice([without, some])]
    ['budget_exhausted', 'price_not_set']
    """
    told = list(metrics)
    found = {
        reason for metric in told if not metric["n"] for reason in metric["not_evaluated"] if reason in _OF_METRICS
    }
    return advice(found.union(reason for metric in told for reason in metric["not_evaluated"] if reason == _BUDGET))
