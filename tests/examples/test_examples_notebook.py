"""The notebook runs from its first cell to its last, and displays what it describes."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "reliability.ipynb"


def displayed(source: str, names: dict[str, Any]) -> Any:
    """Run a cell and return the value of its last expression, as a notebook displays it; None without one."""
    *statements, last = ast.parse(source).body
    exec(compile(ast.Module(statements, []), str(NOTEBOOK), "exec"), names)  # noqa: S102 — our own notebook
    if isinstance(last, ast.Expr):
        return eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)  # noqa: S307 — same
    exec(compile(ast.Module([last], []), str(NOTEBOOK), "exec"), names)  # noqa: S102 — same
    return None


def test_the_notebook_runs() -> None:
    pytest.importorskip("pandas")
    notebook = json.loads(NOTEBOOK.read_text())
    names: dict[str, Any] = {}

    values = [displayed("".join(cell["source"]), names) for cell in notebook["cells"] if cell["cell_type"] == "code"]

    result, faults, views, pass_pow_3 = values
    assert "<table" in result._repr_html_()
    assert faults.to_dict("records") == [
        {
            "conversation_id": "attempt-2",
            "tool": "track",
            "parameter": "carrier",
            "expected": "UPS",
            "actual": "DHL",
        }
    ]
    assert len(views) == 5
    assert 0 < pass_pow_3 < 0.5
    assert all(not cell.get("outputs") for cell in notebook["cells"])
