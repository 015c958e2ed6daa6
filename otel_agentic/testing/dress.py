"""What the conventions share when a script is written down as spans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from otel_agentic.spans.model import StatusCode
from otel_agentic.testing.builders import event, span

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_agentic.spans.model import Span, SpanEvent
    from otel_agentic.testing.walk import Act


def json_text(value: Any) -> str:
    """Return a value as JSON text."""
    return orjson.dumps(value).decode()


def value_text(value: Any) -> str:
    """Return a value as tools write it: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json_text(value)


def spans_of(
    turns: list[list[Act]],
    *,
    name: Callable[[Act], str],
    attributes: Callable[[Act], Mapping[str, Any]],
    events: Callable[[Act], tuple[SpanEvent, ...]] = lambda _: (),
    scope: str | Callable[[Act], str],
    error: Callable[[Act], str | None] = lambda act: act.error,
) -> list[tuple[Act, Span]]:
    """Return the acts of a script with their spans, one trace a turn.

    `error` says with which status message an act failed, None that it did not.
    """
    written: list[tuple[Act, Span]] = []
    for acts in turns:
        spans: list[Span] = []
        for index, act in enumerate(acts):
            trace = repr((acts[0].script.conversation_id, acts[0].script.agent_name, acts[0].start_ns))
            failure = error(act)
            found = span(
                name(act),
                parent=None if act.parent is None else spans[act.parent],
                trace=trace,
                span_id=f"{trace} {index}",
                start_ns=act.start_ns,
                end_ns=act.end_ns,
                status=StatusCode.UNSET if failure is None else StatusCode.ERROR,
                status_message=failure or "",
                attributes=attributes(act),
                events=events(act),
                service=act.script.service,
                environment=act.script.environment,
                scope=scope if isinstance(scope, str) else scope(act),
            )
            spans.append(found)
            written.append((act, found))
    return written


def bare_error(act: Act) -> str | None:
    """Return why an act failed without the error's type, None when it did not."""
    return act.error and (act.error.partition(": ")[2] or act.error)


def exception_events(act: Act) -> tuple[SpanEvent, ...]:
    """Return the exception event of an act that failed."""
    if act.error is None:
        return ()
    kind, _, message = act.error.partition(": ")
    fields = {"exception.type": kind, "exception.message": message or act.error}
    return (event("exception", fields, time_ns=act.end_ns),)
