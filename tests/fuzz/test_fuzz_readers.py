"""Every reader of untrusted input under mutations of sound input: for a moment always, for longer in the slow suite."""

from __future__ import annotations

import importlib.util
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.fuzz.readers import READERS
from tests.fuzz.seeds import SEEDS

ROOT: Final = Path(__file__).parents[2]
#: Seconds for each reader in the slow suite.
SECONDS: Final = int(os.environ.get("OTEL_AGENTIC_FUZZ_SECONDS", "60"))
ROUNDS: Final = 100
#: Inputs that once were findings.
FINDINGS: Final = (
    ("config", b"[receive]\nh\xe9\xe9 = 1\n"),
    ("config", b"a = " + b"[" * 5_000),
    ("config", b"a = " + b"9" * 5_000),
    ("file", bytes(10_000_000)),
    ("file", b"\x0a\x04\x12\x02" + b"\x12\x00" * 5_000),
    ("file", b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + b"{}," * 5_000 + b"{}]}]}]}\n"),
)


def mutated(dice: random.Random, seeds: Sequence[bytes]) -> bytes:
    data = bytearray(dice.choice(seeds))
    for _ in range(dice.randint(1, 6)):
        at = dice.randrange(len(data) + 1)
        match dice.randrange(4):
            case 0 if data:
                data[at % len(data)] = dice.randrange(256)
            case 1:
                data[at:at] = dice.randbytes(dice.randint(1, 4))
            case 2:
                del data[at : at + dice.randint(1, 8)]
            case _:
                other = dice.choice(seeds)
                start = dice.randrange(len(other))
                data[at:at] = other[start : start + dice.randint(1, 40)]
    return bytes(data)


@pytest.mark.parametrize("name", READERS)
def test_seeds_and_some_mutations_of_them_are_read_or_refused(name: str) -> None:
    dice = random.Random(name)  # noqa: S311 — dice, not secrets
    with READERS[name]() as item:
        for seed in SEEDS[name]:
            item(seed)
        for _ in range(ROUNDS // 5 if name == "query" else ROUNDS):  # each starts a watch of its own
            item(mutated(dice, SEEDS[name]))


@pytest.mark.parametrize(("name", "data"), FINDINGS, ids=range(len(FINDINGS)))
def test_what_was_found_once_is_read_or_refused(name: str, data: bytes) -> None:
    with READERS[name]() as item:
        item(data)


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_no_mutation_is_a_finding(name: str, tmp_path: Path) -> None:
    if importlib.util.find_spec("atheris") is None:
        _mutate_for(name, SECONDS)
        return
    bounds = (f"-max_total_time={SECONDS}", "-timeout=60", "-len_control=0", "-max_len=4096")
    command = [sys.executable, "-m", "tests.fuzz.fuzz_readers", name, *bounds, f"-artifact_prefix={tmp_path}/"]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=10 * SECONDS + 600, check=False)

    assert (0, []) == (done.returncode, sorted(tmp_path.iterdir())), done.stderr[-5000:]


def _mutate_for(name: str, seconds: float) -> None:
    dice = random.Random()  # noqa: S311 — dice, not secrets
    until = time.monotonic() + seconds
    with READERS[name]() as item:
        while time.monotonic() < until:
            item(mutated(dice, SEEDS[name]))
