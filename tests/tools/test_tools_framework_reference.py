"""The pages of the frameworks agree with their tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from inline_snapshot import snapshot

from otel_agentic.dialects.frameworks import framework_of, frameworks
from tests.snapshots import passage
from tools import framework_reference
from tools.framework_reference import FOLDER, index, page, pages, problems

if TYPE_CHECKING:
    import pytest


def test_there_is_a_page_for_each_framework_and_an_index_of_all() -> None:
    assert {"index.md", *(f"{framework.name}.md" for framework in frameworks())} == {path.name for path in pages()}
    assert [] == [
        framework.name for framework in frameworks() if f"[{framework.title}]({framework.name}.md)" not in index()
    ]


def test_a_page_contains_settings_attributes_kinds_and_limits() -> None:
    text = page(framework_of("gcp.vertex.agent", "adk"))

    assert "# Google ADK\n" in text
    assert passage(text) == snapshot(
        "- To record content, set `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY`"
    )
    assert passage(text) == snapshot(
        '- To name conversations, pass the session to `runner.run_async(..., session_id="...")`.\n'
    )
    assert passage(text) == snapshot("| span `execute_tool (merged)` | a summary of parallel calls, ignored |\n")
    assert passage(text) == snapshot("| tool name | `gen_ai.tool.name` |\n")
    assert passage(text) == snapshot("| `execute_tool` | tool call |\n")
    assert "| `embeddings` | ignored: embeddings |\n" in text
    assert text.index("## Known limits\n") < text.index("- In 1.x an error")


def test_a_stale_page_and_one_without_a_framework_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framework_reference, "ROOT", tmp_path)
    monkeypatch.setattr(framework_reference, "FOLDER", tmp_path)
    (tmp_path / "left.md").write_text("of a framework that went away", encoding="utf-8")

    reported = problems({})

    assert reported == snapshot(["left.md belongs to no framework; run `make docs`"])
    current = {path: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    assert problems(current) == snapshot(["left.md belongs to no framework; run `make docs`"])
    stale = problems({path: text + "more\n" for path, text in list(current.items())[:1]})
    assert passage(stale[0]) == snapshot("is not current; run `make docs`")
