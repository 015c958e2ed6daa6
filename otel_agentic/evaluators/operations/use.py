"""What models were asked for in a whole conversation, and of which calls no tokens are told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation, ModelUse
    from otel_agentic.scoring.model import NotEvaluatedReason

#: Why there is no score, and a sentence.
Lacking: TypeAlias = "tuple[NotEvaluatedReason, str]"

NO_MODEL: Final = "no call of a model was recorded; let the instrumentation of the model client export its spans, too"


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
        return "content_not_captured", NO_MODEL
    lacking = [total for total in totals if total.missing]
    if not lacking:
        return None
    told = ", ".join(f"{total.missing} of {total.calls} calls of {named(total.model)}" for total in lacking)
    return "content_not_captured", f"no tokens are told of {told}"


def named(model: str | None) -> str:
    """Return a model as messages name it."""
    return "a model without a name" if model is None else repr(model)
