"""Recorded texts: compared in a plain run, replaced only by a run with the flag."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from tests.snapshots import ending, exactly, item, opening, passage, raises

_ROOT = Path(__file__).parent.parent
_OUTPUT = """\
reading runs/one.jsonl
warning: 2 labels are skipped (no such
    conversation in the store): c9, c10
done in 3 s"""
_TEST = """\
import pytest
from inline_snapshot import snapshot

from tests.snapshots import ending, item, opening, passage, raises, exactly

OUTPUT = {output!r}


@pytest.mark.parametrize(("path", "expected"), [("runs/one.jsonl", snapshot("now reading <path>"))])
def test_output(path, expected):
    assert opening(OUTPUT, path=path) == expected
    assert passage(OUTPUT) == snapshot("warning: 2 labels are skipped, because no such conversation is in the store: c9")
    assert ending(OUTPUT) == snapshot("done after 3 s")
    assert [exactly(line) for line in OUTPUT.splitlines()[-1:]] == snapshot(["done"])
    assert item(OUTPUT.splitlines()) == snapshot("done after 4 s")
    with raises(ValueError, snapshot("invalid literal for int() with base ten: 'x'")):
        int("x")
"""


def run(path: Path, *options: str) -> tuple[str, str]:
    """Run pytest on a file with the settings of the project; return the output and the new content of the file."""
    shutil.copy(_ROOT / "pyproject.toml", path.parent)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", *options, str(path)],
        cwd=path.parent,
        env=environment | {"PYTHONPATH": str(_ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.stdout, path.read_text()


def test_a_wrong_text_fails_a_plain_run_and_is_replaced_by_a_run_with_the_flag(tmp_path: Path) -> None:
    path = tmp_path / "test_output.py"
    path.write_text(_TEST.format(output=_OUTPUT))
    printed, source = run(path)
    assert "1 failed" in printed
    assert _TEST.format(output=_OUTPUT) == source
    _, source = run(path, "--inline-snapshot=fix")
    assert """[("runs/one.jsonl", snapshot('reading <path>'))]""" in source
    assert "snapshot('warning: 2 labels are skipped (no such conversation in the store): c9')" in source
    assert "snapshot('done in 3 s')" in source
    assert "snapshot(['done in 3 s'])" in source
    assert "assert item(OUTPUT.splitlines()) == snapshot('done in 3 s')" in source
    assert "snapshot(\"invalid literal for int() with base 10: 'x'\")" in source
    printed, _ = run(path)
    assert "1 passed" in printed


def test_a_passage_ignores_white_space_and_an_opening_and_ending_have_their_position() -> None:
    assert passage(_OUTPUT) == snapshot("no such conversation in the store")
    assert passage(_OUTPUT) != "no such conversation in this store"
    assert passage(_OUTPUT) == snapshot("(no such\n    conversation in the store)")
    assert passage(_OUTPUT) != "no such\nconversation in the store"
    assert passage(_OUTPUT) != ""
    assert opening(_OUTPUT, path="runs/one.jsonl") == snapshot("reading <path> warning:")
    assert opening(_OUTPUT) != "warning: 2 labels"
    assert ending(_OUTPUT) == snapshot("c10 done in 3 s")
    assert ending(_OUTPUT) != "warning: 2 labels"
    assert exactly("done\n") != "done"
    assert item(["a b", "c"]) == "a b"
    assert item(["a b", "c"]) != "a"
    with pytest.raises(TypeError):
        passage(["a"])  # type: ignore[arg-type]  # what occurs in a list is not what occurs in its items


def test_the_text_of_an_exception_is_its_message() -> None:
    with raises(KeyError, snapshot("'<name>'"), name="x") as refused:
        {"a": 1}["x"]
    assert exactly(refused) == exactly(refused.value) == snapshot("'x'")
    with pytest.raises(AssertionError), raises(KeyError, "another"):
        {"a": 1}["x"]


def test_a_failure_shows_the_closest_passage_or_all_if_nothing_is_similar() -> None:
    recorded = passage(_OUTPUT)
    assert recorded != "finished in 4 s"
    assert repr(recorded) == snapshot("'done in 3 s'")
    recorded = passage("nothing")
    assert recorded != "finished in 4 s"
    assert repr(recorded) == snapshot("'nothing'")
