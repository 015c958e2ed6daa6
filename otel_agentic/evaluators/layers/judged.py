"""What a judge says of plans and arguments in free words."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.evaluators.base import Metric, MetricScore, WithoutSettings
from otel_agentic.evaluators.catalog import metrics_of
from otel_agentic.evaluators.layers.abstaining import none_of
from otel_agentic.evaluators.layers.plans import written_plan
from otel_agentic.evaluators.layers.reasoning import NO_PLAN
from otel_agentic.evaluators.transcript import transcript
from otel_agentic.judges.base import JudgeFailure, ReplyForm, rubric_question
from otel_agentic.judges.rubrics import load_rubric

if TYPE_CHECKING:
    from otel_agentic.evaluators.base import Asking, Need, Subject
    from otel_agentic.evaluators.layers.plans import WrittenPlan
    from otel_agentic.judges.base import Rubric, Verdict

QUALITY_JUDGED: Final = "agentic.layers.plan_quality_judged"
ADHERENCE_JUDGED: Final = "agentic.layers.plan_adherence_judged"
#: Characters of one part of a plan, of all parts, and tools that are named.
_PART: Final = 4_000
_PLAN: Final = 12_000
_TOOLS: Final = 200


def rubric(file: str) -> Rubric:
    """Return a rubric of this family; its score is in [0, 1]."""
    return load_rubric("otel_agentic.evaluators", f"prompts/layers/{file}.md", ReplyForm(kind="score"))


class PlanQualityJudged(WithoutSettings):
    """Whether the plan is a good one, as a judge sees it."""

    name: str = "layers.plan_quality_judged"
    version: str = "1"
    metrics: tuple[Metric, ...] = metrics_of("layers.plan_quality_judged")
    needs: frozenset[Need] = frozenset({"turns", "judge"})
    default: bool = False
    rubrics: tuple[Rubric, ...] = (rubric("plan_quality_judged"),)

    def ask(self, subject: Subject) -> Asking:
        """Ask about the plan, and return the score."""
        plan = written_plan(subject)
        if plan is None:
            return [none_of(QUALITY_JUDGED, "no_data", NO_PLAN)]
        replies = yield [rubric_question(self.rubrics[0], plan=shown_plan(plan), **_wanted(subject))]
        return [judged(QUALITY_JUDGED, replies[0])]


class PlanAdherenceJudged(WithoutSettings):
    """Whether the plan was kept, as a judge sees it."""

    name: str = "layers.plan_adherence_judged"
    version: str = "1"
    metrics: tuple[Metric, ...] = metrics_of("layers.plan_adherence_judged")
    needs: frozenset[Need] = frozenset({"turns", "judge"})
    default: bool = False
    rubrics: tuple[Rubric, ...] = (rubric("plan_adherence_judged"),)

    def ask(self, subject: Subject) -> Asking:
        """Ask about the plan and what became of it, and return the score."""
        plan = written_plan(subject)
        if plan is None:
            return [none_of(ADHERENCE_JUDGED, "no_data", NO_PLAN)]
        told = transcript(subject.conversation.turns)
        replies = yield [rubric_question(self.rubrics[0], plan=shown_plan(plan), conversation=told.text)]
        return [judged(ADHERENCE_JUDGED, replies[0], told.note)]


def judged(name: str, reply: Verdict | JudgeFailure, note: str = "") -> MetricScore:
    """Return what a judge said as a score; a judge that failed says nothing of the agent."""
    if isinstance(reply, JudgeFailure):
        return none_of(name, reply.reason, f"was not judged: {reply.message}")
    return MetricScore(name=name, value=reply.score, explanation=f"{reply.reasoning.strip()}{note}")


def shown_plan(plan: WrittenPlan) -> str:
    """Return a plan as lines of JSON, a turn each; long ones are cut, and that is said."""
    lines: list[str] = []
    left = _PLAN
    for turn_index, part in plan.parts:
        text = part if isinstance(part, str) else _json(part)
        most = min(_PART, left)
        if most <= 0:
            lines.append(_json({"left_out": f"the plans of {len(plan.parts) - len(lines)} later turns"}))
            break
        line: dict[str, Any] = {"turn": turn_index + 1, "plan": text[:most]}
        lines.append(_json(line if len(text) <= most else {**line, "characters_left_out": len(text) - most}))
        left -= len(text[:most])
    return "\n".join(lines)


def _wanted(subject: Subject) -> dict[str, str]:
    """Return what the plan is for: queries, goal, tools, the expected plan, as far as they are known."""
    asked = [
        _json({"turn": turn.index + 1, "user": turn.query[:_PART]})
        for turn in subject.conversation.turns
        if turn.query is not None
    ]
    found = {"asked": "\n".join(asked)[:_PLAN]} if asked else {}
    if subject.conversation.tool_definitions:
        found["tools"] = _json(sorted(subject.conversation.tool_definitions)[:_TOOLS])
    case = subject.case
    if case is not None and case.goal is not None:
        found["goal"] = case.goal
    if case is not None and case.plan is not None:
        found["expected_plan"] = _json(list(case.plan))
    return found


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return json.dumps("a value that JSON cannot tell")
