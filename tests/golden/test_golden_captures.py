"""What real frameworks export when a scripted model plays the story of `generate/`, against that story."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.golden.comparing import batches, compared, exported
from tests.golden.generate.story import STORY, TRANSFER, delegation, expected
from tests.shared import SHARED, why_absent

CAPTURES: Final = Path(__file__).parent / "captures"
FOLDERS: Final = sorted(path.parent for path in CAPTURES.glob("*/expected.json"))
MAX_BYTES: Final = 60 * 1024

#: What is not right in full yet: how many turns are at least, and why not all.
KNOWN_SHORT: Final[dict[str, tuple[int, str]]] = {
    "openinference-dspy-bare": (4, "without an id its turns cannot be linked: the history words each query anew"),
    "openllmetry-llamaindex-handoff-stream": (10, "nothing in the spans marks a failed call as one"),
}

needs_comparison = pytest.mark.skipif(
    why_absent(SHARED / "tools") is not None, reason=str(why_absent(SHARED / "tools"))
)
each_capture = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)


@needs_comparison
@each_capture
def test_a_capture_is_rebuilt_as_the_story_tells_it(folder: Path) -> None:
    found = compared(folder)

    if folder.name in KNOWN_SHORT:
        assert KNOWN_SHORT[folder.name][0] <= found["right"], found["notes"]
    else:
        assert ([], found["turns"], 0) == (found["notes"], found["right"], found["extra"])


@needs_comparison
@pytest.mark.parametrize("name", KNOWN_SHORT)
def test_a_capture_that_has_become_right_is_no_longer_called_short(name: str) -> None:
    found = compared(CAPTURES / name)

    assert found["right"] < found["turns"] or found["extra"] > 0, "take it out of KNOWN_SHORT"


def test_every_name_that_is_called_short_is_a_capture() -> None:
    assert set() == set(KNOWN_SHORT) - {folder.name for folder in FOLDERS}


@each_capture
def test_a_capture_is_read_to_its_end_and_holds_turns(folder: Path) -> None:
    found = exported(None, folder)

    assert KNOWN_SHORT.get(folder.name, (1, ""))[0] == 0 or any(conversation["turns"] for conversation in found)


@each_capture
def test_a_capture_names_neither_a_host_nor_a_process(folder: Path) -> None:
    named = {key for batch in batches(folder) for span in batch.spans for key in span.resource.attributes}

    assert set() == {key for key in named if key.startswith(("host.", "process.", "os.", "container."))}


@each_capture
def test_a_capture_is_small_and_the_same_lines_make_the_same_bytes(folder: Path) -> None:
    for path in folder.glob("*.gz"):
        data = path.read_bytes()
        assert len(data) <= MAX_BYTES
        assert bytes(4) == data[4:8], "the time in the header"


@each_capture
def test_the_truth_of_a_capture_is_told_by_the_story_alone(folder: Path) -> None:
    truth = json.loads((folder / "expected.json").read_text(encoding="utf-8"))

    assert truth["framework"]
    assert _queries(truth) <= _queries(expected((*STORY, TRANSFER, delegation())))


def _queries(truth: dict[str, Any]) -> set[str]:
    return {turn["query"] for conversation in truth["conversations"] for turn in conversation["turns"]}
