"""What an evaluation asked of its judge, as the JSON object of the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_agentic.judges.provider import same_models
from otel_agentic.store.judge_calls import models_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.judges import Judge
    from otel_agentic.pipeline.engine import Engine
    from otel_agentic.pipeline.rebuild import Key
    from otel_agentic.pipeline.tally import Tally


def judge_json(engine: Engine, tally: Tally, keys: Sequence[Key]) -> dict[str, Any]:
    """Return what was asked of the judge, what it cost, and what is left of the budget.

    Args:
        engine: the opened store.
        tally: what was asked.
        keys: the conversations that it was asked about.
    """
    judge = engine.evaluating.judge
    models = judge_models(judge, tally)
    with engine.store.read() as con:
        agents = models_of(con, keys) if models else set()
    return {
        "name": judge.name,
        "version": judge.version,
        "models": models,
        "same_as_agent": same_models(models, agents),
        "calls": tally.calls,
        "judged": tally.judged,
        "cached": tally.cached,
        "failed": tally.failed,
        "failure": tally.failure,
        "refused": tally.refused,
        "input_tokens": tally.input_tokens,
        "output_tokens": tally.output_tokens,
        "cost_usd": tally.cost_usd,
        "canaries": tally.canaries,
        "canaries_passed": tally.fooled,
        "used_up": engine.evaluating.budget.used_up if tally.refused else None,
    }


def judge_models(judge: Judge, tally: Tally) -> list[str]:
    """Return the models that judge: those that answered, else the one that the judge says it asks; none: `[]`."""
    own = getattr(judge, "model", None)
    return sorted(tally.models) or ([own] if isinstance(own, str) else [])
