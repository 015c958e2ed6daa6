"""Given verdicts: where one stands above what was computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from otel_agentic.scoring.parts import Part, failed

if TYPE_CHECKING:
    from otel_agentic.scoring.plan import Plan

VerdictSource = Literal["labels", "case", "event"]


def given_verdict(plan: Plan) -> tuple[VerdictSource, bool] | None:
    """Return the verdict that stands above what was computed, and where it comes from; first wins."""
    label, conversation, settings = plan.matched.label, plan.matched.conversation, plan.settings
    if label is not None and label.verdict is not None:
        return "labels", label.verdict
    of_case = None if plan.case is None else plan.case.given_verdict(settings.reward_threshold)
    if of_case is not None:
        return "case", of_case
    if settings.trust_verdict_events and conversation.verdict is not None:
        return "event", conversation.verdict
    return None


def under_verdict(computed: Part, given: tuple[VerdictSource, bool] | None) -> Part:
    """Return the outcome with a given verdict standing above the computed one; both are told."""
    if given is None:
        return computed
    source, passes = given
    told = f"verdict of {source}: {'pass' if passes else 'fail'}; computed: {computed.outcome}"
    if computed.explanation:
        told += f" ({computed.explanation})"
    return Part(outcome="pass", explanation=told) if passes else failed("verdict", told)
