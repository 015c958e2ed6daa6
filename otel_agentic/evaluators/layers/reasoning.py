"""Was the plan good, and was it kept: plan quality and plan adherence."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from otel_agentic.evaluators.base import Metric, MetricScore
from otel_agentic.evaluators.layers.abstaining import none_of, none_of_all
from otel_agentic.evaluators.layers.plans import executed, expected_plan, written_plan
from otel_agentic.evaluators.layers.scopes import expected_calls
from otel_agentic.evaluators.layers.sources import AGENT_SURFACE
from otel_agentic.evaluators.layers.subsequence import MAX_LENGTH, common, in_order
from otel_agentic.evaluators.layers.wording import listed
from otel_agentic.evaluators.needs import first_missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_agentic.config import EvaluatorSettings
    from otel_agentic.evaluators.base import Need, Subject
    from otel_agentic.evaluators.layers.plans import WrittenPlan

QUALITY: Final = "agentic.layers.plan_quality"
ADHERENCE: Final = "agentic.layers.plan_adherence"

_PLAN_LIMITS: Final = (
    "The plan is what plan spans and plan-shaped calls (write_todos, update_plan, planner …) hold; of several in a turn the "
    "last, unless it only drops steps that are not cancelled; a step that a later turn takes up again is the same one. Tools are found in it by their names, words parted by any mark, as far as they are "
    "defined, called or expected; a tool that is called by a plain word (`search`) is found wherever the word stands, and one "
    "that the plan only describes is not found: see the judged metric."
)
_METRICS: Final = (
    Metric(
        name=QUALITY,
        title="plan quality",
        definition="Longest common subsequence of the planned tools and the expected ones / expected ones. Expected is the "
        "case's `plan`, else its required calls in their order; calls that may come in any order may be planned in any.",
        source=AGENT_SURFACE,
        target="conversation",
        needs=frozenset({"case", "plan"}),
        limits=f"{_PLAN_LIMITS} Steps beyond the expected ones cost nothing. The page's function lets a tool that is missing "
        "from the plan use up the rest of it, and gives 1 where nothing is expected; here that is no data.",
    ),
    Metric(
        name=ADHERENCE,
        title="plan adherence",
        definition="Longest common subsequence of the planned tools and the executed ones / planned ones. Calls of one step "
        "have no order among themselves, and a call that failed was executed.",
        source=f"{AGENT_SURFACE}, which names it and gives no function: ours",
        target="conversation",
        needs=frozenset({"plan"}),
        limits=f"{_PLAN_LIMITS} Calls beyond the plan cost nothing. A plan that is bad may be kept, and a good agent leaves a "
        "plan that turns out wrong without writing a new one.",
    ),
)


class Reasoning:
    """The two metrics of plans."""

    name: str = "layers.reasoning"
    version: str = "1"
    metrics: tuple[Metric, ...] = _METRICS
    needs: frozenset[Need] = frozenset({"turns"})
    default: bool = True

    @classmethod
    def from_settings(cls, settings: EvaluatorSettings) -> Reasoning:
        """Return the evaluator; nothing of it can be set."""
        del settings
        return cls()

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return both scores of a conversation."""
        expected = expected_plan(subject, expected_calls(subject))
        wanted = [name for group in expected for name in group]
        plan = written_plan(subject, wanted)
        if plan is None:
            return none_of_all(self.metrics, "no_data", NO_PLAN)
        return [_quality(subject, plan, expected, wanted), _adherence(subject, plan)]


NO_PLAN: Final = (
    "no plan was recorded: neither a plan span, nor a call that writes steps down (write_todos, update_plan …)"
)
_NO_TOOL: Final = "the plan names no tool that is defined, called or expected; `{name}_judged` reads it as people do"


def _quality(
    subject: Subject, plan: WrittenPlan, expected: Sequence[Sequence[str]], wanted: Sequence[str]
) -> MetricScore:
    if not wanted:
        lacks = first_missing(subject, ("case",))
        told = "the case expects no plan and requires no call; annotate `plan` or `tools`"
        return none_of(QUALITY, *(lacks or ("no_data", told)))
    if not plan.tools:
        return none_of(QUALITY, "no_data", _NO_TOOL.format(name="plan_quality"))
    found = in_order(plan.tools, expected)
    missing = Counter(wanted) - Counter(plan.tools)
    order = "" if found == common(plan.tools, wanted) else "; not in the expected order"
    lacking = f"; not planned: {listed(missing)}" if missing else ""
    return MetricScore(
        name=QUALITY,
        value=found / min(len(wanted), MAX_LENGTH),
        explanation=f"{found} of {len(wanted)} expected steps are planned in their order{lacking}{order}",
        details={"planned": list(plan.tools), "expected": list(wanted)},
    )


def _adherence(subject: Subject, plan: WrittenPlan) -> MetricScore:
    if not plan.tools:
        return none_of(ADHERENCE, "no_data", _NO_TOOL.format(name="plan_adherence"))
    planned = set(plan.tools)
    steps = [kept for step in executed(subject) if (kept := tuple(name for name in step if name in planned))]
    made = [name for step in steps for name in step]
    found = in_order(plan.tools, steps)
    skipped = Counter(plan.tools) - Counter(made)
    order = "" if found == common(plan.tools, made) else "; not in the planned order"
    left = f"; planned and not called: {listed(skipped)}" if skipped else ""
    return MetricScore(
        name=ADHERENCE,
        value=found / min(len(plan.tools), MAX_LENGTH),
        explanation=f"{found} of {len(plan.tools)} planned steps were executed in their order{left}{order}",
        details={"planned": list(plan.tools), "executed": made},
    )
