"""The pages of the frameworks say what the tables say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.dialects.frameworks import FRAMEWORKS, framework_of
from tools import framework_reference
from tools.framework_reference import FOLDER, index, page, pages, problems

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_there_is_a_page_for_each_framework_and_an_index_of_all() -> None:
    assert {"index.md", *(f"{framework.name}.md" for framework in FRAMEWORKS)} == {path.name for path in pages()}
    assert [] == [each.name for each in FRAMEWORKS if f"[{each.title}]({each.name}.md)" not in index()]


def test_a_page_tells_settings_places_attributes_kinds_and_limits() -> None:
    told = page(framework_of("gcp.vertex.agent", "adk"))

    assert "# Google ADK\n" in told
    assert "- To have content recorded, set `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY`" in told
    assert '- To name conversations, give `runner.run_async(..., session_id="...")` the session.\n' in told
    assert "| span `execute_tool (merged)` | a summary of parallel calls, ignored |\n" in told
    assert "| tool name | `gen_ai.tool.name` |\n" in told
    assert "| `execute_tool` | tool call |\n" in told
    assert "| `embeddings` | ignored: embeddings |\n" in told
    assert told.index("## Known limits\n") < told.index("- In 1.x an error")


def test_a_page_that_differs_is_named_and_so_is_one_of_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framework_reference, "ROOT", tmp_path)
    monkeypatch.setattr(framework_reference, "FOLDER", tmp_path)
    (tmp_path / "left.md").write_text("of a framework that went away", encoding="utf-8")

    found = problems({})

    assert ["left.md is of no framework; run `make docs`"] == found
    current = {path: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    assert ["left.md is of no framework; run `make docs`"] == problems(current)
    stale = problems({path: text + "more\n" for path, text in list(current.items())[:1]})
    assert "is not current; run `make docs`" in stale[0]
