"""Write docs/metric-availability.md: for each metric, how many recorded conversations of each framework have a value.

Run it as `python -m tools.metric_availability [--check]`. It scores recordings of real frameworks with cases made from their
`expected.json`: those of the shared folder (`OTEL_AGENTIC_SHARED`), the tau-airline benchmark there, and the golden captures.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from otel_agentic import evaluate
from otel_agentic.config import EvaluatorSettings, JudgeSettings, Settings
from otel_agentic.dialects.frameworks import framework_of, frameworks
from otel_agentic.evaluators.base import Member, Metric, MetricScore, asks, is_of_groups
from otel_agentic.evaluators.registry import all_evaluators
from tools.generated import ROOT, run

if TYPE_CHECKING:
    from otel_agentic.api.evaluation import Evaluation
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.judges.base import Rubric
    from otel_agentic.scoring.scope import Outcome

PAGE: Final = ROOT / "docs" / "metric-availability.md"
SHARED: Final = Path(os.environ.get("OTEL_AGENTIC_SHARED") or ROOT.parent / "shared")
GOLDEN: Final = ROOT / "tests" / "golden" / "captures"
TAU_AIRLINE: Final = "tau-airline benchmark"
_PREFIX: Final = "agentic."
_NONE: Final = "-"

#: The tools of the recordings that only record a plan.
_PLANNING: Final = frozenset({"write_todos"})
_PLANS: Final = (
    "agents that write plans down, such as LangChain's `TodoListMiddleware` and the `planning_interval` of smolagents:"
    " [where plans are read from](frameworks/index.md#plans)"
)
_JUDGED_PLANS: Final = f"the same, and agents whose model states its next steps before it acts: {_PLANS.split(': ')[1]}"
_DEFINITIONS: Final = (
    "instrumentations that record `gen_ai.tool.definitions` or a counterpart, see `available tools` of a framework"
)
_HANDOFFS: Final = "any framework whose spans record hand-offs, with a case that expects the hand-off as a call"
_TOKENS: Final = "instrumentations that record the token usage of model calls"
#: What provides a metric that few recordings have; one that none has needs an entry.
PROVIDED_BY: Final[Mapping[str, str]] = {
    "agentic.layers.plan_quality": _PLANS,
    "agentic.layers.plan_adherence": _PLANS,
    "agentic.layers.plan_quality_judged": _JUDGED_PLANS,
    "agentic.layers.plan_adherence_judged": _JUDGED_PLANS,
    "agentic.layers.task_completion": (
        "any framework: set `agentic.final_state` on a span; else tools that write and return an object"
    ),
    "agentic.layers.parameter_validity": _DEFINITIONS,
    "agentic.layers.call_validity": _DEFINITIONS,
    "agentic.layers.hallucinated_tools": _DEFINITIONS,
    "agentic.handoffs.precision": _HANDOFFS,
    "agentic.handoffs.recall": _HANDOFFS,
    "agentic.handoffs.in_time": _HANDOFFS,
    "agentic.handoffs.handoff": _HANDOFFS,
    "agentic.operations.cost": _TOKENS,
    "agentic.operations.input_tokens": _TOKENS,
    "agentic.operations.output_tokens": _TOKENS,
    "agentic.operations.steps_to_recovery": "conversations with a failed call",
    "agentic.operations.recovered": "conversations with a failed call",
    "agentic.operations.tool_failure": "conversations with a failed call",
}

_EVALUATORS: Final = all_evaluators(EvaluatorSettings())
_METRICS: Final = tuple(metric for evaluator in _EVALUATORS for metric in evaluator.metrics)
_RUBRICS: Final = tuple(rubric for evaluator in _EVALUATORS if asks(evaluator) for rubric in evaluator.rubrics)
#: The sentences in which an agent announces an action.
_ANNOUNCED: Final = re.compile(
    r"[^.!?\n]*\b(?:I'll|I will|I need to|let me|let's|first|then|next)\b[^.!?\n]*", re.IGNORECASE
)


@dataclass(slots=True, kw_only=True)
class Availability:
    """The number of conversations by framework, and those with a value by metric and framework."""

    conversations: Counter[str] = field(default_factory=Counter)
    with_value: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, framework: str, evaluation: Evaluation) -> None:
        """Count the conversations of an evaluation; those of a group metric if the group has a value."""
        for attempt in evaluation.attempts:
            title = framework or _framework(attempt.conversation)
            self.conversations[title] += 1
            for name in {score.name for score in attempt.metrics if not score.abstained}:
                self.with_value[name][title] += 1
            for name in _group_values(attempt.score.outcome, attempt.metrics):
                self.with_value[name][title] += 1


class ScriptedModel(BaseChatModel):
    """A chat model that replies in the requested form, with the best score or the first label.

    Plans are the exception, since the texts decide whether there is one: their steps are the sentences that announce an action.
    """

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        text = str(messages[-1].content)
        rubric = next((rubric for rubric in _RUBRICS if rubric.instructions in text), None)
        reply = json.dumps({"reasoning": "Scripted.", **_reply(rubric, text)})
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        return ChatResult(generations=[ChatGeneration(message=AIMessage(reply, usage_metadata=usage))])


def _reply(rubric: Rubric | None, text: str) -> dict[str, Any]:
    form = None if rubric is None else rubric.form
    if rubric is None or form is None or form.kind == "score":
        return {"score": 1.0 if form is None else form.high}
    if form.kind == "label":
        return {"label": form.labels[0]}
    if rubric.name != "layers.plan_steps":
        return {"texts": ["weather"]}
    written = text.partition(rubric.instructions)[0]
    sentences = (sentence.strip() for sentence in _ANNOUNCED.findall(written))
    return {"texts": list(dict.fromkeys(sentences))[: form.most]}


def availability() -> Availability:
    """Return the availability in all recordings."""
    result = Availability()
    tau_airline = SHARED / "data" / "tau-airline"
    folders = [path.parent for root in (SHARED / "captures", GOLDEN) for path in sorted(root.glob("*/expected.json"))]
    for folder in folders:
        result.add("", evaluated_recording(folder))
    labels = tau_airline / "labels.csv"
    result.add(TAU_AIRLINE, _evaluated([tau_airline / "spans.jsonl.gz"], [tau_airline / "cases.jsonl"], labels))
    return result


def cases_of(name: str, truth: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a case for each conversation of an `expected.json`, with every annotation that it allows.

    The goal is that all queries are answered. The plan, the smallest number of steps and the expected state are those of the
    calls that succeeded; the topics are their names.
    """
    return [
        case
        for index, conversation in enumerate(truth["conversations"])
        if (case := _case(f"{name}-{index + 1}", conversation["turns"]))["turns"]
    ]


def _case(case_id: str, turns: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    calls = [call for turn in turns for call in _calls(turn) if call["name"] not in _PLANNING]
    case: dict[str, Any] = {
        "case_id": case_id,
        "turns": [_case_turn(turn) for turn in turns if turn["query"]],
        "goal": " ".join(turn["query"] for turn in turns if turn["query"]) or None,
    }
    if calls:
        case |= {"minimum_steps": len(calls), "plan": [call["name"] for call in calls]}
        case["expected_state"] = {calls[-1]["name"]: calls[-1]["result"]}
    return case


def _case_turn(turn: Mapping[str, Any]) -> dict[str, Any]:
    calls = _calls(turn)
    handoffs = [call for call in turn["tools"] if call.get("kind") == "handoff" and call["error"] is None]
    tools = [
        {"tool_name": call["name"], "parameters": call["arguments"] or {}, "required": call["name"] not in _PLANNING}
        for call in (*calls, *handoffs)
    ]
    topics = sorted({call["name"].replace("_", " ") for call in calls})
    return {"query": turn["query"], "answer": turn["answer"], "tools": {"calls": tools}, "reference_topics": topics}


def _calls(turn: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the calls of the agent itself that succeeded, without hand-offs."""
    special = ("nested_in", "handoff", "delegation")
    return [
        call
        for call in turn["tools"]
        if call["error"] is None and "kind" not in call and not any(call.get(key) for key in special)
    ]


def evaluated_recording(folder: Path) -> Evaluation:
    """Return the scores of all metrics for a folder with traces, logs and an `expected.json`."""
    recordings = sorted(path for signal in ("traces", "logs") for path in folder.glob(f"{signal}.jsonl*"))
    truth = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    return _evaluated(recordings, cases_of(folder.name, truth))


def _evaluated(recordings: Sequence[Path], cases: Sequence[Any], labels: Path | None = None) -> Evaluation:
    prices = {"*": {"input_usd": 1.0, "output_usd": 1.0}}
    settings = Settings(
        evaluators=EvaluatorSettings.model_validate({"prices": prices}),
        judge=JudgeSettings(method="text", backoff_s=0.0),
    )
    return evaluate(recordings, cases, labels=labels, judge=ScriptedModel(), metrics="all", settings=settings)


def _framework(conversation: Conversation) -> str:
    scope, dialect = next(((turn.scope, turn.dialect) for turn in conversation.turns), (None, None))
    return framework_of(scope, dialect).title


def _group_values(outcome: Outcome, scores: Iterable[MetricScore]) -> Iterator[str]:
    """Yield the group metrics that a group of this conversation alone would have."""
    by_name: dict[str, list[MetricScore]] = defaultdict(list)
    for score in scores:
        by_name[score.name].append(score)
    for evaluator in _EVALUATORS:
        if is_of_groups(evaluator):
            yield from (
                score.name
                for score in evaluator.evaluate_group([Member(outcome=outcome, scores=by_name)])
                if not score.abstained
            )


_INTRODUCTION: Final = """\
# Where metrics are available

Written by `python -m tools.metric_availability`, which scores {conversations:,} recorded conversations of {frameworks} frameworks
and instrumentation libraries. A number is how many of them have a value of the metric. The others have none for a reason that is
stored with the score: see [no score](metrics.md#no-score). To get more, [record content](frameworks/index.md).

- The recordings are exports of real frameworks whose model is scripted, some with content capture off, without conversation ids,
  or redacted, and the {tau_airline}: 200 conversations of a real model, with the cases that belong to it.
- The cases of the recordings contain everything that their scenario allows: answers, calls, plan, goal, topics, smallest number
  of steps, and as the expected state the result of the last call. The cases of the benchmark have calls and outputs only: neither
  answers, nor goals, topics, states or numbers of steps.
- The judge is a scripted model with the best score or the first label. It shows that a metric can be judged, not that its value
  is right. As steps of a plan it extracts the sentences that announce an action.
- Every model has a price. A group metric counts each conversation as a group of its own.
"""
_BY_METRIC: Final = """\
## By metric

| metric | conversations | frameworks | provided by |
|---|---|---|---|
"""
_BY_FRAMEWORK: Final = """\
## By framework

Metrics that are available in the same conversations share a column. The row of a framework links to its page, which names the
setting that records content and where plans are read from.
"""


def page(result: Availability) -> str:
    """Return the page: one row for each metric, followed by a table of each family with one row for each framework."""
    introduction = _INTRODUCTION.format(
        conversations=result.conversations.total(), frameworks=len(result.conversations) - 1, tau_airline=TAU_AIRLINE
    )
    families: dict[str, list[Metric]] = defaultdict(list)
    for metric in _METRICS:
        families[_short(metric).partition(".")[0]].append(metric)
    return (
        "\n".join(
            [
                introduction,
                _BY_METRIC + "\n".join(_metric_row(metric, result) for metric in _METRICS) + "\n",
                _BY_FRAMEWORK,
                *(f"### {family}\n\n{_family_table(metrics, result)}\n" for family, metrics in families.items()),
            ]
        ).rstrip("\n")
        + "\n"
    )


def _metric_row(metric: Metric, result: Availability) -> str:
    counts = result.with_value[metric.name]
    source = PROVIDED_BY.get(metric.name, "" if counts else "unknown")
    link = f"[`{_short(metric)}`](metrics.md#{metric.name.replace('.', '').lower()})"
    return f"| {link} | {counts.total():,} | {len(counts)} | {source} |"


def _family_table(metrics: Sequence[Metric], result: Availability) -> str:
    titles = _titles(result)
    columns: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for metric in metrics:
        cells = tuple(result.with_value[metric.name][title] for title in titles)
        columns[cells].append(f"`{_short(metric).partition('.')[2]}`")
    head = ["framework", "conversations", *(", ".join(names) for names in columns.values())]
    rows = [
        [
            _linked(title),
            f"{result.conversations[title]:,}",
            *(f"{cells[index]:,}" if cells[index] else _NONE for cells in columns),
        ]
        for index, title in enumerate(titles)
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def _titles(result: Availability) -> list[str]:
    """Return the frameworks with recordings, in the order of their pages, the benchmark last."""
    order = [entry.title for entry in frameworks()]
    return sorted(
        result.conversations, key=lambda title: (title == TAU_AIRLINE, order.index(title) if title in order else 0)
    )


def _linked(title: str) -> str:
    name = next((entry.name for entry in frameworks() if entry.title == title), None)
    return title if name is None else f"[{title}](frameworks/{name}.md)"


def _short(metric: Metric) -> str:
    return metric.name.removeprefix(_PREFIX)


def main() -> None:
    """Publish the page; without the shared data, print a message and change nothing."""
    if not SHARED.is_dir():
        print(f"skipped: no folder {SHARED}; OTEL_AGENTIC_SHARED names the folder of shared data")
        sys.exit(0)
    run(PAGE, lambda: page(availability()))


if __name__ == "__main__":
    main()
