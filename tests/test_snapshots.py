"""Recorded texts: compared in a plain run, replaced by a run that is told to, and never otherwise."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from tests.snapshots import ending, item, opening, passage, raises, whole

_ROOT = Path(__file__).parent.parent
_OUTPUT = """\
reading runs/one.jsonl
warning: 2 labels are skipped (no such
    conversation in the store): c9, c10
done in 3 s"""
_TEST = """\
import pytest
from inline_snapshot import snapshot

from tests.snapshots import ending, item, opening, passage, raises, whole

OUTPUT = {output!r}


@pytest.mark.parametrize(("path", "expected"), [("runs/one.jsonl", snapshot("now reading <path>"))])
def test_output(path, expected):
    assert opening(OUTPUT, path=path) == expected
    assert passage(OUTPUT) == snapshot("warning: 2 labels are left out, for no such conversation is in the store: c9")
    assert ending(OUTPUT) == snapshot("done after 3 s")
    assert [whole(line) for line in OUTPUT.splitlines()[-1:]] == snapshot(["done"])
    assert item(OUTPUT.splitlines()) == snapshot("done after 4 s")
    with raises(ValueError, snapshot("invalid literal for int() with base ten: 'x'")):
        int("x")
"""


def run(path: Path, *options: str) -> tuple[str, str]:
    """Return what pytest prints on a file under the settings of the project, and what the file holds then."""
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


def test_a_passage_occurs_whatever_its_white_space_and_an_opening_and_ending_have_their_position() -> None:
    assert passage(_OUTPUT) == snapshot("no such conversation in the store")
    assert passage(_OUTPUT) != "no such conversation in this store"
    assert passage(_OUTPUT) == snapshot("(no such\n    conversation in the store)")
    assert passage(_OUTPUT) != "no such\nconversation in the store"
    assert passage(_OUTPUT) != ""
    assert opening(_OUTPUT, path="runs/one.jsonl") == snapshot("reading <path> warning:")
    assert opening(_OUTPUT) != "warning: 2 labels"
    assert ending(_OUTPUT) == snapshot("c10 done in 3 s")
    assert ending(_OUTPUT) != "warning: 2 labels"
    assert whole("done\n") != "done"
    assert item(["a b", "c"]) == "a b"
    assert item(["a b", "c"]) != "a"
    with pytest.raises(TypeError):
        passage(["a"])  # type: ignore[arg-type]  # what occurs in a list is not what occurs in its items


def test_what_an_exception_says_is_its_text() -> None:
    with raises(KeyError, snapshot("'<name>'"), name="x") as refused:
        {"a": 1}["x"]
    assert whole(refused) == whole(refused.value) == snapshot("'x'")
    with pytest.raises(AssertionError), raises(KeyError, "another"):
        {"a": 1}["x"]


def test_a_failure_shows_the_closest_passage_or_all_where_nothing_is_alike() -> None:
    shown = passage(_OUTPUT)
    assert shown != "finished in 4 s"
    assert repr(shown) == snapshot("'done in 3 s'")
    shown = passage("nothing")
    assert shown != "finished in 4 s"
    assert repr(shown) == snapshot("'nothing'")
