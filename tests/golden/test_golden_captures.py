"""What real frameworks export when a scripted model plays the story of `tools/capture_generators`, against that story."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Final

import pytest

from tests.golden.comparing import batches, compared, exported
from tests.shared import SHARED, why_absent
from tools.capture_generators.story import STORY, TRANSFER, delegation, expected

CAPTURES: Final = Path(__file__).parent / "captures"
FOLDERS: Final = sorted(path.parent for path in CAPTURES.glob("*/expected.json"))
MAX_BYTES: Final = 60 * 1024

COMPARISON_ABSENT: Final = why_absent(SHARED / "tools")

#: Captures that are not rebuilt in full: the least number of correct turns, and the reason.
KNOWN_SHORT: Final[dict[str, tuple[int, str]]] = {
    "openinference-dspy-bare": (4, "without an id its turns cannot be linked: the history rephrases each query"),
    "openllmetry-llamaindex-handoff-stream": (10, "nothing in the spans marks a failed call as one"),
}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_capture_is_rebuilt_as_in_the_story(folder: Path) -> None:
    """Compare all at once, so that a failure shows every difference of the capture."""
    resources = {key for batch in batches(folder) for span in batch.spans for key in span.resource.attributes}
    packed = [path.read_bytes() for path in folder.glob("*.gz")]
    truth = json.loads((folder / "expected.json").read_text(encoding="utf-8"))

    assert {
        "hosts and processes named": set(),
        "sizes above the limit": [],
        "times in a gzip header": [],
        "framework": True,
        "queries of no story": set(),
        "turns": True,
        "rebuilt": [],
    } == {
        "hosts and processes named": {
            key for key in resources if key.startswith(("host.", "process.", "os.", "container."))
        },
        "sizes above the limit": [len(data) for data in packed if len(data) > MAX_BYTES],
        "times in a gzip header": [data[4:8] for data in packed if data[4:8] != bytes(4)],
        "framework": bool(truth["framework"]),
        "queries of no story": _queries(truth) - _queries(expected((*STORY, TRANSFER, delegation()))),
        "turns": any(conversation["turns"] for conversation in exported(folder)),
        "rebuilt": _differences(folder) if COMPARISON_ABSENT is None else [],
    }


def _differences(folder: Path) -> list[str]:
    """Return where the conversations of a capture are not those of the story; of one called short, where it is not that."""
    result = compared(folder)
    right, turns, extra = result["right"], result["turns"], result["extra"]
    if folder.name not in KNOWN_SHORT:
        return [
            *result["notes"],
            *([f"{right} of {turns} turns are right"] if right < turns else []),
            *["extra"] * extra,
        ]
    if right == turns and not extra:
        return ["right by now: take it out of KNOWN_SHORT"]
    return [] if right >= KNOWN_SHORT[folder.name][0] else [*result["notes"], f"only {right} turns are right"]


@pytest.mark.skipif(COMPARISON_ABSENT is not None, reason=str(COMPARISON_ABSENT))
def test_the_gaps_of_a_broken_capture_are_reported(tmp_path: Path) -> None:
    """Hold the comparison itself to a capture whose truth is another one's."""
    first, second = (CAPTURES / name for name in ("native-adk-1-handed", "native-strands-attributes"))
    for path in (*first.glob("*.jsonl.gz"), second / "expected.json"):
        shutil.copy(path, tmp_path)

    assert [] == _differences(first)
    assert [] != _differences(tmp_path)


def test_every_name_that_is_called_short_is_a_capture() -> None:
    assert set() == set(KNOWN_SHORT) - {folder.name for folder in FOLDERS}


def _queries(truth: dict[str, Any]) -> set[str]:
    return {turn["query"] for conversation in truth["conversations"] for turn in conversation["turns"]}
