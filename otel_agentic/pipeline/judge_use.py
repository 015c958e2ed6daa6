"""The judge calls of an evaluation, as a JSON object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_agentic.judges.provider import same_models
from otel_agentic.store.judge_calls import models_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.judges import Judge
    from otel_agentic.pipeline.means import EvaluationResources
    from otel_agentic.pipeline.tally import Tally
    from otel_agentic.store.table import Key


def judge_json(evaluating: EvaluationResources, tally: Tally, keys: Sequence[Key]) -> dict[str, Any]:
    """Return the judge's name, calls, cost and models, and which budget limit is exhausted.

    Args:
        evaluating: the judge, its budget and its store.
        tally: the counts of the run.
        keys: the conversations about which the judge was asked.
    """
    judge = evaluating.judge
    models = judge_models(judge, tally)
    with evaluating.store.read() as con:
        agents = models_of(con, keys) if models else set()
    return {
        "name": judge.name,
        "version": judge.version,
        "models": models,
        "same_as_agent": same_models(models, agents),
        "calls": tally.calls,
        "judged": tally.verdicts,
        "cached": tally.cached,
        "failed": tally.failed,
        "failure": tally.failure,
        "refused": tally.refused,
        "input_tokens": tally.input_tokens,
        "output_tokens": tally.output_tokens,
        "cost_usd": tally.cost_usd,
        "canaries": tally.canaries,
        "canaries_passed": tally.fooled,
        "used_up": evaluating.budget.used_up if tally.refused else None,
    }


def judge_models(judge: Judge, tally: Tally) -> list[str]:
    """Return the models that answered, or else the one that the judge is configured to ask; `[]` if it asks none."""
    own = getattr(judge, "model", None)
    return sorted(tally.models) or ([own] if isinstance(own, str) else [])
