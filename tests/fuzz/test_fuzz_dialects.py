"""The fuzzer itself: its changes of spans run with any source of numbers, and for a minute under atheris."""

from __future__ import annotations

import importlib.util
import random
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.fuzz.attack import attack

ROOT: Final = Path(__file__).parents[2]
ROUNDS: Final = 200
SECONDS: Final = 60


class Dice:
    """Random values in the manner of atheris' `FuzzedDataProvider`."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 — dice, not secrets

    def ConsumeIntInRange(self, low: int, high: int) -> int:  # noqa: N802 — the name is atheris'
        return self._random.randint(low, high)

    def ConsumeUnicode(self, count: int) -> str:  # noqa: N802 — same
        return "".join(chr(self._random.randrange(sys.maxunicode)) for _ in range(self._random.randint(0, count)))

    def ConsumeBytes(self, count: int) -> bytes:  # noqa: N802 — same
        return self._random.randbytes(self._random.randint(0, count))

    def ConsumeFloat(self) -> float:  # noqa: N802 — same
        return self._random.choice((0.0, -1.5, 1e308, float("nan"), float("inf")))


def test_no_throw_of_the_dice_raises() -> None:
    for seed in range(ROUNDS):
        attack(Dice(seed))


@pytest.mark.slow
def test_atheris_finds_nothing_in_a_minute(tmp_path: Path) -> None:
    if importlib.util.find_spec("atheris") is None:
        pytest.skip("atheris is not installed: python -m pip install atheris")
    bounds = (f"-max_total_time={SECONDS}", "-timeout=10", "-len_control=0", "-max_len=4096")
    command = [sys.executable, "-m", "tests.fuzz.fuzz_dialects", *bounds, f"-artifact_prefix={tmp_path}/"]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=4 * SECONDS, check=False)

    assert (0, []) == (done.returncode, sorted(tmp_path.iterdir())), done.stderr[-5000:]
