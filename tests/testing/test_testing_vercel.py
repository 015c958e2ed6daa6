"""What `speak_vercel` writes is what the Vercel AI SDK writes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from otel_agentic.testing import speak_vercel
from tests.testing.likeness import RUN, nesting, recorded, statuses, strange_keys

if TYPE_CHECKING:
    from otel_agentic.spans import Span

MILLISECOND_NS: Final = 1_000_000
LIKENESSES: Final[dict[str, dict[str, Any]]] = {
    "vercel-ai-v4-generate": {"version": 4},
    "vercel-ai-stream": {"version": 6, "stream": True},
    "vercel-ai-v7-generate": {"version": 7},
    "vercel-ai-v7-generate-legacy": {"version": "7-legacy"},
}


def kind_of(span: Span) -> str:
    return span.name.split(" ")[0]


@pytest.mark.parametrize("capture", LIKENESSES)
def test_the_spans_are_like_those_of_the_sdk(capture: str, shared_dir: Path) -> None:
    spoken = speak_vercel(RUN, **LIKENESSES[capture]).spans
    real = recorded(shared_dir, capture)

    assert set() == strange_keys(spoken, real, kind_of)
    assert nesting(spoken, kind_of) == nesting(real, kind_of)
    assert {result.scope.name for result in real} == {result.scope.name for result in spoken}
    message = {(name, status, "exception" in events) for name, status, events in statuses(real, kind_of)}
    assert message == {(name, status, "exception" in events) for name, status, events in statuses(spoken, kind_of)}


@pytest.mark.parametrize("options", LIKENESSES.values(), ids=str)
def test_spans_start_on_whole_milliseconds_and_many_at_the_same(options: dict[str, Any]) -> None:
    starts = Counter((span.trace_id, span.start_ns) for span in speak_vercel(RUN, **options).spans)

    assert all(start_ns % MILLISECOND_NS == 0 for _, start_ns in starts)
    assert sum(count for count in starts.values() if count > 1) > sum(starts.values()) / 2


def test_version_7_names_the_conversation_only_on_request() -> None:
    plain = speak_vercel(RUN, 7).spans
    named = speak_vercel(RUN, 7, runtime_context=True).spans

    assert "conversation-1" not in repr(plain)
    assert {"invoke_agent", "step"} == {
        kind_of(result) for result in named if "conversation-1" in result.attributes.values()
    }
