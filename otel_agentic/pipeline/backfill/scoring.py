"""Scores the conversations of a backfill that have no score, some at a time: others may score between."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.pipeline.judge_use import judge_json
from otel_agentic.pipeline.tally import Tally
from otel_agentic.store.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from contextlib import AbstractContextManager

    from otel_agentic.pipeline.backfill.plan import Plan
    from otel_agentic.pipeline.engine import Engine, Progress
    from otel_agentic.pipeline.evaluate import EvaluationRequest, EvaluationRunner, OnScored, Truth
    from otel_agentic.pipeline.tally import EvaluationSummary
    from otel_agentic.store.selection import Scored
    from otel_agentic.store.table import Key

#: Conversations scored before others may: a running collector scores what closes meanwhile in between. As many as go to
#: a judge together.
_PORTION: Final = 2000


@dataclass(slots=True, kw_only=True)
class Scoring:
    """What the scoring of a backfill did; see `EvaluationSummary`. `wanted` conversations had no score, or one left open."""

    wanted: int = 0
    scored: int = 0
    unchanged: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    warnings: set[str] = field(default_factory=set)
    tally: Tally = field(default_factory=Tally)

    def add(self, part: EvaluationSummary) -> None:
        """Count a part."""
        self.scored += part.scored
        self.unchanged += part.unchanged
        self.outcomes.update(part.outcomes)
        self.reasons.update(part.reasons)
        self.warnings.update(part.warnings)
        self.tally = total(self.tally, part.tally)


def selection_of(plan: Plan) -> Selection:
    """Return which conversations are in some window of a plan."""
    since_ns = None if plan.reach_ns is None else plan.reach_ns + 1
    return Selection(since_ns=since_ns, until_ns=plan.last_ns + 1)


def wanted_of(evaluating: EvaluationRunner, truth: Truth, plan: Plan, *, live: bool) -> EvaluationRequest:
    """Return the conversations of a plan that have no score under the truth in force, or one that the judge left open.

    In a running collector, those that just closed are left to it: it counts them, emits their events, and restates windows.
    """
    wanted = evaluating.select(truth, selection_of(plan))
    if not live:
        return wanted
    own = set(evaluating.never_scored().keys)
    return replace(wanted, keys=[key for key in wanted.keys if key not in own])


def score_missing(
    engine: Engine,
    evaluating: EvaluationRunner,
    plan: Plan,
    *,
    live: bool,
    lock: AbstractContextManager[Any],
    on_scored: OnScored,
    progress: Progress,
    stop: Callable[[], bool],
) -> tuple[Scoring, Mapping[str, Any]]:
    """Match and score what has no score under the truth in force; return what that did, and what the judge was asked.

    Args:
        engine: the opened store.
        evaluating: scores; that of the engine, or one over processes.
        plan: which conversations.
        live: in a running collector; see `wanted_of`.
        lock: held while a portion is scored.
        on_scored: told of scores once they are stored.
        progress: told how far it is.
        stop: once it says so, nothing new is begun.
    """
    truth = evaluating.truth()
    wanted = wanted_of(evaluating, truth, plan, live=live)
    wanted = replace(wanted, keys=evaluating.in_order(wanted.keys, wanted.chosen))
    done = Scoring(wanted=len(wanted.keys))
    counted = 0

    def step(scored: Sequence[Scored], restated: AbstractSet[Key]) -> None:
        nonlocal counted
        counted += len(scored)
        progress("scoring", counted, len(wanted.keys))
        on_scored(scored, restated)

    for start in range(0, len(wanted.keys), _PORTION):
        if stop():
            break
        with lock:
            part = replace(wanted, keys=wanted.keys[start : start + _PORTION])
            done.add(evaluating.evaluate(truth, part, step, stop))
        progress("scoring", min(start + _PORTION, len(wanted.keys)), len(wanted.keys))
    return done, judge_json(engine.evaluating, done.tally, wanted.keys)


def total(first: Tally, second: Tally) -> Tally:
    """Return what two runs asked of a judge together.

    >>> total(Tally(calls=2, cost_usd=0.5), Tally(calls=1, failure="timeout")).calls
    3
    """
    own: dict[str, Any] = {each.name: getattr(first, each.name) for each in fields(Tally)}
    for name, value in own.items():
        other = getattr(second, name)
        if isinstance(value, int):
            own[name] = value + other
    return Tally(
        **{
            **own,
            "models": first.models | second.models,
            "failure": second.failure or first.failure,
            "cost_usd": _sum(first.cost_usd, second.cost_usd),
        }
    )


def _sum(first: float | None, second: float | None) -> float | None:
    return second if first is None else first + (second or 0.0)
