"""Was the plan good, and was it kept: plan quality and plan adherence."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from otel_agentic.evaluators.base import Metric, MetricScore, WithoutSettings
from otel_agentic.evaluators.catalog import metrics_of
from otel_agentic.evaluators.layers.abstaining import none_of, none_of_all
from otel_agentic.evaluators.layers.plans import executed, expected_plan, written_plan
from otel_agentic.evaluators.layers.scopes import expected_calls
from otel_agentic.evaluators.layers.subsequence import MAX_LENGTH, common, in_order
from otel_agentic.evaluators.layers.wording import listed
from otel_agentic.evaluators.needs import first_missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_agentic.evaluators.base import Need, Subject
    from otel_agentic.evaluators.layers.plans import WrittenPlan

QUALITY: Final = "agentic.layers.plan_quality"
ADHERENCE: Final = "agentic.layers.plan_adherence"


class Reasoning(WithoutSettings):
    """The two metrics of plans."""

    name: str = "layers.reasoning"
    version: str = "1"
    metrics: tuple[Metric, ...] = metrics_of("layers.reasoning")
    needs: frozenset[Need] = frozenset({"turns"})
    default: bool = True

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
