"""What a call came to: its result, by its span or by what the model was told, and whether that is an error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.dialects.values import text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.config.own_patterns import OwnPattern
    from otel_agentic.conversations.model import ToolCall
    from otel_agentic.dialects import events


#: The error of a call that never ran, where the model's own words for it were not captured.
_REFUSED: Final = "the call never ran"


def with_result(
    made: ToolCall,
    event: events.ToolCall | None,
    told: events.CallResult | None,
    error_patterns: Sequence[OwnPattern],
    *,
    never_ran: bool = False,
) -> ToolCall:
    """Return the call with its result and error.

    Args:
        made: the call.
        event: its tool span, None when it has none.
        told: what a later model call was told of it, None when nothing.
        error_patterns: patterns of results that are errors although nothing says so.
        never_ran: the framework refused to run it: what the model was told is why.
    """
    result, captured = _result(event, told)
    return replace(
        made,
        result=result,
        result_captured=captured,
        error=_marked_error(event, told, result)
        or (error_in(result, error_patterns) if captured else None)
        or (_REFUSED if never_ran and not captured else text_of(result) if never_ran else None),
    )


def _result(event: events.ToolCall | None, told: events.CallResult | None) -> tuple[Any, bool]:
    if event is not None and event.result_captured:
        return event.result, True
    if told is not None and told.captured:
        return told.result, True
    return None, False


def _marked_error(event: events.ToolCall | None, told: events.CallResult | None, result: Any) -> str | None:
    if event is not None and event.is_error:
        return event.header.error or text_of(result) or "error"
    if told is not None and told.is_error:
        return text_of(told.result) or "error"
    return None


def error_in(result: Any, patterns: Sequence[OwnPattern]) -> str | None:
    """Return the error that a result is, although nothing marked it as one; None when it is none."""
    if isinstance(result, Mapping):
        error = result.get("error")
        failed = result.get("status") == "error" or result.get("is_error") is True or result.get("isError") is True
        return text_of(error) if error else (text_of(result) if failed else None)
    if isinstance(result, str) and any(pattern.search(result[:500]) for pattern in patterns):
        return result
    return None
