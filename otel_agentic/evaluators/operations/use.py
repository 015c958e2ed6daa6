"""What models were asked for in a whole conversation, and what of it was not recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from otel_agentic.evaluators.needs import CAPTURE, RECORD_MODEL_CALLS, RECORD_TOKENS

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation, ModelUse
    from otel_agentic.scoring.model import NotEvaluatedReason

#: Why there is no score, and a sentence.
Lacking: TypeAlias = "tuple[NotEvaluatedReason, str]"

NO_MODEL: Final = f"no model call was recorded; {RECORD_MODEL_CALLS}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTotal:
    """The calls of one model in a conversation, `missing` of which tell no tokens although they may have taken some."""

    model: str | None
    calls: int
    failed: int
    missing: int
    input_tokens: int
    output_tokens: int


def totals_of(conversation: Conversation) -> list[ModelTotal]:
    """Return what each model was asked for, by name, the nameless one first."""
    by_model: dict[str | None, list[ModelUse]] = {}
    for turn in conversation.turns:
        for use in turn.models:
            by_model.setdefault(use.model, []).append(use)
    return [_total(model, by_model[model]) for model in sorted(by_model, key=lambda name: name or "")]


def _total(model: str | None, uses: list[ModelUse]) -> ModelTotal:
    return ModelTotal(
        model=model,
        calls=sum(use.calls for use in uses),
        failed=sum(use.failed for use in uses),
        missing=sum(use.calls - use.priced_calls for use in uses),
        input_tokens=sum(use.input_tokens or 0 for use in uses),
        output_tokens=sum(use.output_tokens or 0 for use in uses),
    )


def tokens_lacking(totals: list[ModelTotal]) -> Lacking | None:
    """Return why no sum of tokens can be told; None where it can. A part of the sum is not the sum."""
    if not totals:
        return "model_calls_not_recorded", NO_MODEL
    lacking = [total for total in totals if total.missing]
    if not lacking:
        return None
    told = ", ".join(f"{total.missing} of {total.calls} calls to {named(total.model)}" for total in lacking)
    return "tokens_not_recorded", f"token usage is missing for {told}; {RECORD_TOKENS}"


def calls_lacking(conversation: Conversation) -> Lacking | None:
    """Return why nobody knows how many tools were called; None where it is known."""
    called = any(call.kind == "tool" for turn in conversation.turns for call in turn.calls)
    if called or conversation.content_captured != "none":
        return None
    return "content_not_captured", f"no content was recorded, so tool calls may be missing; {CAPTURE}"


def errors_lacking(conversation: Conversation) -> Lacking | None:
    """Return why nobody knows which tool calls failed; None where it is known.

    Many errors are texts in a result while the span status is unset: without its result, a call that reports no error may
    have failed.
    """
    lacking = calls_lacking(conversation)
    if lacking is not None:
        return lacking
    tools = [call for turn in conversation.turns for call in turn.calls if call.kind == "tool"]
    unknown = sum(call.error is None and not call.result_captured for call in tools)
    if not unknown:
        return None
    told = f"the results of {unknown} of {len(tools)} tool calls were not recorded, so these may have failed"
    return "content_not_captured", f"{told}; {CAPTURE}"


def named(model: str | None) -> str:
    """Return a model as messages name it."""
    return "a model without a name" if model is None else repr(model)
