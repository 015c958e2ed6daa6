"""Real exports of agent frameworks against the truth written for them by hand, with the shared comparison."""

from __future__ import annotations

import importlib.util
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pytest

from otel_agentic import plugins
from otel_agentic.config import Settings
from otel_agentic.pipeline.export import conversation_json
from tests.conversations.rebuilding import conversations
from tests.shared import SHARED, why_absent

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from otel_agentic.spans.model import SpanBatch

pytestmark = pytest.mark.skipif(
    why_absent(SHARED / "captures") is not None, reason=str(why_absent(SHARED / "captures"))
)

#: What was promised first: 95 % of the turns of each.
PROMISED: Final = (
    "genai-langchain-event",
    "genai-langchain-span",
    "genai-util-agent-tool-event",
    "genai-util-agent-tool-span",
    "openinference-langchain-session",
    "pydantic-ai-2-v5",
    "pydantic-ai-2-v6-stream",
)
#: What is right in full and must stay so.
RIGHT: Final = (
    *PROMISED,
    "adk-2-schema2-span",
    "autogen-openaiv2-span",
    "genai-langchain-span-stream-noid",
    "genai-openai-agents-responses",
    "genai-openai-event-wrapped",
    "genai-openai-responses-conversation",
    "maf-latest-service",
    "maf-v136-service",
    "openai-v2-latest-span-bare",
    "openai-v2-legacy-logs-wrapped",
    "openinference-crewai-llm",
    "openinference-decorators-openai",
    "openinference-decorators-openai-redacted",
    "openinference-langchain-hitl",
    "openinference-langchain-onetrace",
    "openinference-pydantic-ai",
    "openllmetry-decorators-new",
    "openllmetry-langchain-new",
    "openllmetry-openai-agents-responses",
    "pydantic-ai-2-v5-nocontent",
    "pydantic-ai-2-v5-truncated",
    "strands-latest",
    "strands-legacy",
    "vercel-ai-v7-generate",
)


@cache
def comparison() -> ModuleType:
    """Return the shared tool, reading in this process what it would have the command line read."""
    spec = importlib.util.spec_from_file_location("compare_captures", SHARED / "tools" / "compare_captures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.__dict__["run"] = exported
    return module


def exported(_: object, folder: Path) -> list[dict[str, Any]]:
    return [conversation_json(found) for found in conversations(*batches(folder))]


def batches(folder: Path) -> list[SpanBatch]:
    reader = plugins.get("collectors", "files").load().from_settings(Settings())
    paths = [folder / name for name in ("traces.jsonl", "logs.jsonl") if (folder / name).exists()]
    return [chunk.batch for chunk in reader.read(paths)]


def compared(name: str) -> dict[str, Any]:
    found: dict[str, Any] = comparison().compare([], SHARED / "captures" / name, 5)
    return found


@pytest.mark.parametrize("name", PROMISED)
def test_a_promised_capture_has_at_least_95_percent_of_its_turns_right(name: str) -> None:
    found = compared(name)

    assert found["right"] / found["turns"] >= 0.95, found["notes"]
    assert found["extra"] == 0


@pytest.mark.parametrize("name", RIGHT)
def test_a_capture_that_is_right_in_full_stays_so(name: str) -> None:
    found = compared(name)

    assert ([], found["turns"], 0) == (found["notes"], found["right"], found["extra"])


def test_every_capture_is_read_to_its_end() -> None:
    folders = sorted(path.parent for path in (SHARED / "captures").glob("*/expected.json"))

    assert 59 == len(folders)
    for folder in folders:
        conversations(*batches(folder))
