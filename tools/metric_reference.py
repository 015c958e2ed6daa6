"""Writes docs/metrics.md: every metric of the built-in evaluators, from their own records.

Run it as `python -m tools.metric_reference [--check]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_agentic import plugins
from otel_agentic.config import EvaluatorSettings
from otel_agentic.evaluators.failures import threshold_of
from otel_agentic.evaluators.registry import family_of, require_evaluator
from tools.generated import ROOT, run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_agentic.config import Threshold
    from otel_agentic.evaluators.base import AnyEvaluator, Metric, Need, Target

PAGE: Final = ROOT / "docs" / "metrics.md"

_OWN: Final = "otel-agentic"
_PREFIX: Final = "agentic."
#: Families in the order in which a reader meets them, with what they are about. Others follow by name.
FAMILIES: Final[Mapping[str, tuple[str, str]]] = {
    "layers": (
        "Three layers: reasoning, action, outcome",
        "Where a run broke first: in the plan, in the calls, or in what came of them.",
    ),
    "trajectory": (
        "Trajectory",
        "The calls that were made, held against the expected ones as sequences and as sets.",
    ),
    "operations": (
        "Operations",
        "What a run took, and how it went along: time, tokens, money, retries, loops, recovery.",
    ),
    "ragas": (
        "RAGAS and NeMo",
        "The agent metrics of that library. [Compatible modes](compat.md) reproduce its own arithmetic.",
    ),
    "agentest": (
        "Agentest",
        "Quality of answers from 1 to 5, whether the goal was reached, and what kind of failure it was if not.",
    ),
}
#: What an evaluator may need, as a reader understands it.
NEEDS: Final[Mapping[Need, str]] = {
    "turns": "at least one turn",
    "queries": "the users' queries recorded",
    "answers": "the answers recorded",
    "calls": "at least one tool call",
    "arguments": "arguments of the calls recorded",
    "results": "results of the calls recorded",
    "definitions": "tool definitions on the spans (`gen_ai.tool.definitions`)",
    "plan": "a plan: a plan span, a plan-shaped call, or one that is given",
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
    "group": "one a group of conversations, made when it is asked for",
}

_INTRODUCTION: Final = """\
# Metrics

Written by `make docs` from the evaluators themselves. Beyond the outcome (was the conversation right?), evaluators say how
it went: each gives scores of its metrics, or says why it cannot.

## Choosing

Metrics marked *default* are computed with every evaluation: they need no model and cost nothing. The others are chosen by
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

A name is that of a metric (whole, or its last parts: `helpfulness`, `agentest.helpfulness`), of an evaluator, or of a family;
`default`, `all` and `none` are names, too. Where the judge asks no model, what needs one is left out of a family or `all`, and
named; a metric that was named itself is an error then. An evaluator runs as a whole: all of its metrics are stored. One of your own is a
function or a class: [plug-ins](plugins.md).

## No score

Where something is missing there is no score, and never 0. The reason is stored, and an explanation says what is missing.

| reason | when |
|---|---|
| `unmatched`, `ambiguous` | no case belongs to the conversation, or two fit equally |
| `not_scored` | it is closed, and has no score yet |
| `unreviewed` | its case is a draft |
| `incomplete` | an expected turn is missing, and no end mark proves that the conversation ended |
| `no_conversation_id` | the same, and no span carries a conversation id: the turn may be stored as another conversation |
| `empty` | it has no turn |
| `no_data` | nothing applies, or the case does not annotate it |
| `content_not_captured` | the instrumentation did not record texts, arguments or results; recording content adds them |
| `model_calls_not_recorded` | no span of a model call arrived |
| `tokens_not_recorded` | spans of model calls carry no token usage |
| `price_not_set` | a model has no price in `[evaluators.prices]` |
| `tool_definitions_not_recorded` | no span records which tools the agent was given, or their schemas |
| `state_not_recorded` | no span records the final state, and no result of a tool that writes tells it |
| `times_not_recorded` | the turn comes from data without times |
| `judge_error` | the judge failed after its retries; that is never a failure of the agent |
| `judge_unsure` | the judge does not decide on an answer: its score lies between failing and passing |
| `sampled_out` | sampling left the conversation out |
| `budget_exhausted` | the judge was not asked because its budget is exhausted |

## Failures, thresholds, severities

A score is a failure where its label is a failing one, or its value does not meet the threshold: that of the settings, else
the metric's own. Thresholds and severities count when they are read, so a change needs no new evaluation. Of a severity, what
the settings say of `metric=label` comes first, then of the metric, then the metric itself.

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

Cost is computed from the tokens that the spans report, with your prices: US dollars a million tokens, by name of the model
or glob, the most specific one. Without a price there is no cost.

```toml
# otel-agentic.toml
[evaluators.prices]
"small-*" = { input_usd = 0.25, output_usd = 2.0 }
```

## Where scores go

Into the table `scores`, with [questions in SQL](sql.md#questions-about-metrics); into the report in all its formats; for a
running collector into [histograms and events](telemetry.md#scores-of-metrics); and `otel-agentic gate` holds them against
thresholds. Tool scores, values from 0 to 1 of what an agent did with its tools, are also shown in bands: perfect 1.0, good
from .75, moderate from .50, poor below.
"""


def evaluators() -> list[AnyEvaluator]:
    """Return the built-in evaluators, by family and name."""
    found = [
        require_evaluator(plugin.load().from_settings(EvaluatorSettings()), plugin.name, plugin.name)
        for plugin in plugins.find("evaluators").values()
        if plugin.distribution == _OWN
    ]
    ranks = {family: rank for rank, family in enumerate(FAMILIES)}
    return sorted(found, key=lambda one: (ranks.get(_family(one), len(ranks)), _family(one), one.name))


def reference(built_in: Sequence[AnyEvaluator]) -> str:
    """Return the page: an introduction, a table of all metrics, then each with all there is to know of it."""
    families = dict.fromkeys(map(_family, built_in))
    parts = [_section(family, [one for one in built_in if _family(one) == family]) for family in families]
    return "\n".join([_INTRODUCTION, *_overview(built_in), *parts])


def _family(one: AnyEvaluator) -> str:
    return family_of(one.name) or "others"


def _overview(built_in: Sequence[AnyEvaluator]) -> Iterator[str]:
    yield "## All metrics\n"
    yield "| metric | what it says | range | a score | |"
    yield "|---|---|---|---|---|"
    for one in built_in:
        for metric in one.metrics:
            chosen = ["default"] if one.default else []
            marks = ", ".join([*chosen, *(["judged"] if _judged(one) else [])])
            cells = [f"[`{_short(metric)}`](#{_anchor(metric)})", metric.title, _range(metric), TARGETS[metric.target]]
            yield f"| {' | '.join(map(_cell, [*cells, marks]))} |"
    yield ""


def _section(family: str, members: Sequence[AnyEvaluator]) -> str:
    title, about = FAMILIES.get(family, (family, ""))
    told = [f"## {title}\n", *([f"{about}\n"] if about else [])]
    return "\n".join([*told, *(_metric(one, metric) for one in members for metric in one.metrics)])


def _metric(one: AnyEvaluator, metric: Metric) -> str:
    rows = [
        ("title", metric.title),
        ("range", _range(metric)),
        ("better", {True: "higher", False: "lower", None: "neither"}[metric.higher_is_better]),
        ("a score", TARGETS[metric.target]),
        ("labels", _labels(metric)),
        ("threshold", _threshold(threshold_of(metric))),
        ("severity of a value that is not good", _severity(metric)),
        ("needs", _needs(one, metric)),
        ("computed", _computed(one)),
        ("evaluator", f"`{one.name}`, version {one.version}"),
        ("source", metric.source),
        ("known limits", metric.limits),
    ]
    lines = [f"| {name} | {_cell(text)} |" for name, text in rows if text]
    return "\n".join([f"### `{metric.name}`\n", f"{metric.definition}\n", "| | |", "|---|---|", *lines, ""])


def _range(metric: Metric) -> str:
    """Return the values that a metric may have.

    >>> from otel_agentic.evaluators.base import Metric
    >>> told = {"title": "", "definition": "", "source": "", "target": "turn"}
    >>> _range(Metric(name="a", low=1.0, high=5.0, **told)), _range(Metric(name="b", unit="s", high=None, **told))
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
    told = []
    for label in metric.labels:
        severity = metric.severities.get(label, metric.severity)
        told.append(f"**`{label}`** ({severity})" if label in metric.failing else f"`{label}`")
    return ", ".join(told) + (" (failing in bold, with severity)" if metric.failing else "")


def _threshold(threshold: Threshold | None) -> str:
    if threshold is None:
        return "none: no value is a failure by itself"
    return f"at least {threshold.min:g}" if threshold.min is not None else f"at most {threshold.max:g}"


def _severity(metric: Metric) -> str:
    return "" if _range(metric) == "a label" else metric.severity


def _needs(one: AnyEvaluator, metric: Metric) -> str:
    reads: Sequence[str] = getattr(one, "reads", ())
    if reads and not metric.needs:
        return "scores of " + ", ".join(f"`{name}`" for name in reads)
    needs = metric.needs.union(getattr(one, "needs", ()))
    return "; ".join(words for need, words in NEEDS.items() if need in needs) or "nothing beyond a conversation"


def _computed(one: AnyEvaluator) -> str:
    how = "a judge is asked" if _judged(one) else "by rule, without a model"
    return f"{how}; {'by default' if one.default else 'when chosen by name'}"


def _judged(one: AnyEvaluator) -> bool:
    return hasattr(one, "ask")


def _short(metric: Metric) -> str:
    return metric.name.removeprefix(_PREFIX)


def _anchor(metric: Metric) -> str:
    return metric.name.replace(".", "").lower()


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    run(PAGE, lambda: reference(evaluators()))
