"""The code of docs/python.md runs, and prints the output that the page shows."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pytest

GUIDE: Final = Path(__file__).parents[2] / "docs" / "python.md"
_BLOCK: Final = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<printed>.*?)^```)?", re.MULTILINE | re.DOTALL
)
_NEEDS: Final = "# needs "


def blocks() -> list[tuple[str, str | None]]:
    """Return the blocks of code of the page, each with its output, or None."""
    return [(result["code"], result["printed"]) for result in _BLOCK.finditer(GUIDE.read_text(encoding="utf-8"))]


def test_the_page_runs_from_top_to_bottom_and_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "guide"}
    ran = 0
    for code, printed in blocks():
        program = compile(code, str(GUIDE), "exec")
        if code.startswith(_NEEDS):
            continue
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(program, names)  # noqa: S102 — our own page
        assert (printed or "") == out.getvalue()
        ran += 1
    assert 6 <= ran
    assert [] == list(tmp_path.iterdir())
