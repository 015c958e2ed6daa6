"""The result of a call, from its span or as reported to the model, and whether it is an error."""

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


#: The error of a call that never ran if the error text was not captured.
_REFUSED: Final = "the call never ran"


def with_result(
    call: ToolCall,
    event: events.ToolCall | None,
    reported: events.CallResult | None,
    error_patterns: Sequence[OwnPattern],
    *,
    never_ran: bool = False,
) -> ToolCall:
    """Return the call with its result and error.

    Args:
        call: the call.
        event: the event of its tool span, None without a span.
        reported: the result in the input of a later model call, None if there is no such result.
        error_patterns: patterns of results that are errors although they are not marked as such.
        never_ran: the framework refused to run it: the reported result is the reason.
    """
    result, captured = _result(event, reported)
    return replace(
        call,
        result=result,
        result_captured=captured,
        error=_marked_error(event, reported, result)
        or (error_in(result, error_patterns) if captured else None)
        or (_REFUSED if never_ran and not captured else text_of(result) if never_ran else None),
    )


def _result(event: events.ToolCall | None, reported: events.CallResult | None) -> tuple[Any, bool]:
    if event is not None and event.result_captured:
        return event.result, True
    if reported is not None and reported.captured:
        return reported.result, True
    return None, False


def _marked_error(event: events.ToolCall | None, reported: events.CallResult | None, result: Any) -> str | None:
    if event is not None and event.is_error:
        return event.header.error or text_of(result) or "error"
    if reported is not None and reported.is_error:
        return text_of(reported.result) or "error"
    return None


def error_in(result: Any, patterns: Sequence[OwnPattern]) -> str | None:
    """Return the error text of a result that is an error although it is not marked as one; None if it is not an error."""
    if isinstance(result, Mapping):
        error = result.get("error")
        failed = result.get("status") == "error" or result.get("is_error") is True or result.get("isError") is True
        return text_of(error) if error else (text_of(result) if failed else None)
    if isinstance(result, str) and any(pattern.search(result[:500]) for pattern in patterns):
        return result
    return None
