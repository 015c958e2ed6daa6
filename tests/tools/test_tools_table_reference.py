"""Pages contain the current tables of the data that they list."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import table_reference
from tools.generated import ROOT, stale
from tools.table_reference import TABLES, page


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_each_page_is_current(path: Path) -> None:
    assert stale(path, page(path)) is None


def test_a_page_without_markers_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = ROOT / "README.md"
    monkeypatch.setattr(table_reference, "TABLES", {path: {"absent": lambda: (("a",), [])}})
    with pytest.raises(ValueError, match="no markers of the table absent"):
        page(path)
