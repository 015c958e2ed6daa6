"""Write docs/metrics.md: every metric of the built-in evaluators, generated from their descriptions.

Run it as `python -m tools.metric_reference [--check]`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from otel_agentic import plugins
from otel_agentic.config import EvaluatorSettings, Threshold
from otel_agentic.evaluators.registry import family_of, require_evaluator
from otel_agentic.evaluators.run import threshold_of
from tools.generated import ROOT, run

if TYPE_CHECKING:
    from otel_agentic.evaluators.base import AnyEvaluator, Metric, Need, Target

PAGE: Final = ROOT / "docs" / "metrics.md"

_OWN: Final = "otel-agentic"
_PREFIX: Final = "agentic."
#: Families in the order of the page, with their subject. Others follow by name.
FAMILIES: Final[Mapping[str, tuple[str, str]]] = {
    "layers": (
        "Three layers: reasoning, action, outcome",
        "Where a run failed first: in the plan, in the calls, or in the outcome.",
    ),
    "trajectory": (
        "Trajectory",
        "The actual calls, compared with the expected calls as sequences and as sets.",
    ),
    "handoffs": (
        "Hand-offs",
        "Whether control passed to the right agent, in time and with the values that it needs, and which agent caused a fault.",
    ),
    "operations": (
        "Operations",
        "The cost and the course of a run: time, tokens, money, retries, loops, recovery.",
    ),
    "user": (
        "Signals of users",
        "What users' messages and the end of a conversation reveal. They run only if they are chosen by name.",
    ),
    "ragas": (
        "RAGAS and NeMo",
        "The agent metrics of RAGAS and NeMo Evaluator. [Compatible modes](compat.md) reproduce the arithmetic of RAGAS.",
    ),
    "agentest": (
        "Agentest",
        "Quality of answers from 1 to 5, whether the goal was reached, and the kind of failure if it was not.",
    ),
}
#: What an evaluator may need, in words.
NEEDS: Final[Mapping[Need, str]] = {
    "turns": "at least one turn",
    "queries": "the users' queries recorded",
    "answers": "the answers recorded",
    "calls": "at least one tool call",
    "arguments": "arguments of the calls recorded",
    "results": "results of the calls recorded",
    "definitions": "tool definitions on the spans (`gen_ai.tool.definitions`)",
    "plan": "a plan: a plan span, a plan-shaped call, or a plan in the input",
    "usage": "token usage on the spans",
    "prices": "a price for the model (`evaluators.prices`)",
    "state": "the final state: an attribute, or results of calls",
    "case": "a reviewed case",
    "expected_tools": "expected calls in the case",
    "expected_answer": "an expected answer in the case",
    "expected_state": "`expected_state` in the case",
    "expected_plan": "`plan` in the case",
    "goal": "`goal` in the case",
    "minimum_steps": "`minimum_steps` in the case",
    "reference_topics": "`reference_topics` in the case",
    "score": "the outcome of the conversation",
    "judge": "a judge that is a model",
}
TARGETS: Final[Mapping[Target, str]] = {
    "conversation": "one a conversation",
    "turn": "one a turn",
    "call": "one a tool call",
    "group": "one a group of conversations, computed on request",
}

_INTRODUCTION: Final = """\
# Metrics

Written by `make docs` from the evaluators themselves. In addition to the outcome (was the conversation right?), evaluators
measure the course of a conversation: each returns scores of its metrics, or a reason why there is no score.

## Choosing

Metrics marked *default* are computed with every evaluation: they need no model and cost nothing. Select the others by
name, on the command line or in the settings.

```console
$ otel-agentic evaluate --db agents.duckdb --metrics default,helpfulness
$ otel-agentic report --db agents.duckdb --metrics layers,helpfulness
$ otel-agentic prompts show --metric helpfulness
```

```toml
# otel-agentic.toml
[evaluators]
metrics = ["default", "agentest.helpfulness", "ragas"]
```

A name identifies a metric or an evaluator (in full, or by its last parts: `helpfulness`, `agentest.helpfulness`), or a family;
`default`, `all` and `none` are also valid, and so are the names of RAGAS and NeMo Evaluator: `topic_adherence`,
`agent_goal_accuracy_with_reference`, `agent_goal_accuracy_without_reference`. If the judge uses no model, a family or `all` skips the metrics that need a model and
reports their names; selecting such a metric by its own name is an error. An evaluator always runs completely: all of its metrics
are stored. Your own evaluator is a function or a class: see [plug-ins](plugins.md). Judged metrics of the same turn or conversation
share [one model call](judges.md#several-metrics-in-one-call).

## No score

If required data is missing, there is no score; a missing score is never stored as 0. The reason is stored, and the explanation names the missing data.
[Where metrics are available](metric-availability.md) counts them in recordings of real frameworks.

| reason | when |
|---|---|
| `unmatched`, `ambiguous` | no case matches the conversation, or two cases match equally well |
| `not_scored` | the conversation is closed and has no score yet |
| `unreviewed` | the case is a draft |
| `incomplete` | an expected turn is missing, and no end mark proves that the conversation ended |
| `no_conversation_id` | the same, and no span has a conversation id: the missing turn may be stored as another conversation |
| `empty` | the conversation has no turn |
| `no_data` | the metric does not apply, or the case has no annotation for it |
| `content_not_captured` | the instrumentation did not record texts, arguments or results; recording content adds them |
| `model_calls_not_recorded` | no span of a model call arrived |
| `tokens_not_recorded` | spans of model calls have no token usage |
| `price_not_set` | a model has no price in `[evaluators.prices]` |
| `tool_definitions_not_recorded` | no span records the tools available to the agent, or their schemas |
| `state_not_recorded` | no span records the final state, and no result of a tool that writes contains it |
| `times_not_recorded` | the turn comes from data without times |
| `judge_error` | the judge failed after its retries; this never counts as a failure of the agent |
| `judge_unsure` | the judge does not decide on an answer: its score is between failing and passing |
| `sampled_out` | the conversation was not sampled |
| `budget_exhausted` | the judge was not called because its budget is exhausted |

## Failures, thresholds, severities

A score is a failure if its label is a failing label, or if its value does not meet the threshold: the threshold in the settings,
else that of the metric. Thresholds and severities are applied when scores are read, so a change needs no new evaluation. For a
severity, the setting for `metric=label` takes precedence, then the setting for the metric, then the severity of the metric itself.

```toml
# otel-agentic.toml
[evaluators.thresholds]
"agentest.helpfulness" = { min = 4 }
"operations.latency" = { max = 30 }

[evaluators.severities]
"agent_behavior_failure=false_information" = "critical"
"operations.latency" = "low"
```

## Prices

Cost is computed from the tokens that the spans report, with your prices in US dollars per million tokens. A price applies to a
model name or a glob; the most specific match applies. Without a price there is no cost.

```toml
# otel-agentic.toml
[evaluators.prices]
"small-*" = { input_usd = 0.25, output_usd = 2.0 }
```

## Where scores go

Scores are stored in the table `scores` (see [questions in SQL](sql.md#questions-about-metrics)) and are included in every report
format. A running collector also exports them as [histograms and events](telemetry.md#scores-of-metrics), and `otel-agentic gate`
compares them with thresholds. Tool scores are values from 0 to 1 that rate an agent's use of its tools. They are also shown in
bands: perfect 1.0, good from .75, moderate from .50, poor below.
"""


def evaluators() -> list[AnyEvaluator]:
    """Return the built-in evaluators, by family and name."""
    built_in = [
        require_evaluator(plugin.load().from_settings(EvaluatorSettings()), plugin.name, plugin.name)
        for plugin in plugins.find("evaluators").values()
        if plugin.distribution == _OWN
    ]
    ranks = {family: rank for rank, family in enumerate(FAMILIES)}
    return sorted(built_in, key=lambda item: (ranks.get(_family(item), len(ranks)), _family(item), item.name))


def reference(built_in: Sequence[AnyEvaluator]) -> str:
    """Return the page: an introduction, a table of all metrics, then a section for each metric."""
    families = dict.fromkeys(map(_family, built_in))
    parts = [_section(family, [item for item in built_in if _family(item) == family]) for family in families]
    return "\n".join([_INTRODUCTION, *_overview(built_in), *parts])


def _family(item: AnyEvaluator) -> str:
    return family_of(item.name) or "others"


def _overview(built_in: Sequence[AnyEvaluator]) -> Iterator[str]:
    yield "## All metrics\n"
    yield "| metric | description | range | scores | |"
    yield "|---|---|---|---|---|"
    for item in built_in:
        for metric in item.metrics:
            chosen = ["default"] if item.default else []
            marks = ", ".join([*chosen, *(["judged"] if _needs_judge(item) else [])])
            cells = [f"[`{_short(metric)}`](#{_anchor(metric)})", metric.title, _range(metric), TARGETS[metric.target]]
            yield f"| {' | '.join(map(_cell, [*cells, marks]))} |"
    yield ""


def _section(family: str, members: Sequence[AnyEvaluator]) -> str:
    title, about = FAMILIES.get(family, (family, ""))
    heading = [f"## {title}\n", *([f"{about}\n"] if about else [])]
    return "\n".join([*heading, *(_metric(item, metric) for item in members for metric in item.metrics)])


def _metric(item: AnyEvaluator, metric: Metric) -> str:
    rows = [
        ("title", metric.title),
        ("range", _range(metric)),
        ("better", {True: "higher", False: "lower", None: "neither"}[metric.higher_is_better]),
        ("scores", TARGETS[metric.target]),
        ("labels", _labels(metric)),
        ("threshold", _threshold(threshold_of(metric))),
        ("severity of a value that is not good", _severity(metric)),
        ("needs", _needs(item, metric)),
        ("computed", _computed(item)),
        ("evaluator", f"`{item.name}`, version {item.version}"),
        ("source", metric.source),
        ("known limits", metric.limits),
    ]
    lines = [f"| {name} | {_cell(text)} |" for name, text in rows if text]
    return "\n".join([f"### `{metric.name}`\n", f"{metric.definition}\n", "| | |", "|---|---|", *lines, ""])


def _range(metric: Metric) -> str:
    """Return the values that a metric may have.

    >>> from otel_agentic.evaluators.base import Metric
    >>> texts = {"title": "", "definition": "", "source": "", "target": "turn"}
    >>> _range(Metric(name="a", low=1.0, high=5.0, **texts)), _range(Metric(name="b", unit="s", high=None, **texts))
    ('1 to 5', '0 or more, `s`')
    """
    unit = "" if metric.unit == "1" else f", `{metric.unit}`"
    match metric.low, metric.high:
        case None, None if metric.labels:
            return "a label"
        case None, None:
            return f"any number{unit}"
        case low, None:
            return f"{low:g} or more{unit}"
        case None, high:
            return f"{high:g} or less{unit}"
        case low, high:
            return f"{low:g} to {high:g}{unit}"


def _labels(metric: Metric) -> str:
    """Return the labels, each failing one with its severity."""
    descriptions = []
    for label in metric.labels:
        severity = metric.severities.get(label, metric.severity)
        descriptions.append(f"**`{label}`** ({severity})" if label in metric.failing else f"`{label}`")
    return ", ".join(descriptions) + (" (failing in bold, with severity)" if metric.failing else "")


def _threshold(threshold: Threshold | None) -> str:
    if threshold is None:
        return "none: no value is a failure by itself"
    return f"at least {threshold.min:g}" if threshold.min is not None else f"at most {threshold.max:g}"


def _severity(metric: Metric) -> str:
    return "" if _range(metric) == "a label" else metric.severity


def _needs(item: AnyEvaluator, metric: Metric) -> str:
    reads: Sequence[str] = getattr(item, "reads", ())
    if reads and not metric.needs:
        return "scores of " + ", ".join(f"`{name}`" for name in reads)
    needs = metric.needs.union(getattr(item, "needs", ()))
    return "; ".join(words for need, words in NEEDS.items() if need in needs) or "nothing beyond a conversation"


def _computed(item: AnyEvaluator) -> str:
    how = "a judge is asked" if _needs_judge(item) else "by rule, without a model"
    return f"{how}; {'by default' if item.default else 'when chosen by name'}"


def _needs_judge(item: AnyEvaluator) -> bool:
    return hasattr(item, "ask")


def _short(metric: Metric) -> str:
    return metric.name.removeprefix(_PREFIX)


def _anchor(metric: Metric) -> str:
    return metric.name.replace(".", "").lower()


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    run(PAGE, lambda: reference(evaluators()))
