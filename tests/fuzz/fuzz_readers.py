"""Fuzzes one reader of untrusted input, led by the coverage of its code.

It needs atheris (https://github.com/google/atheris), which the project does not depend on. In the root of the checkout:

    python -m pip install atheris
    python -m tests.fuzz.fuzz_readers json -max_total_time=600 -timeout=10 -len_control=0 -max_len=4096

The first argument names the reader: one of `tests.fuzz.readers.READERS`. Other options are those of libFuzzer, as in
`fuzz_dialects`.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path


def main() -> None:
    """Fuzz until an option of libFuzzer ends it."""
    atheris = importlib.import_module("atheris")  # the project does not depend on it, so that no type checker knows it
    name = sys.argv.pop(1)

    ours = ["collectors", "otel_agentic.spans", "otel_agentic.truth", "otel_agentic.config", "otel_agentic.store"]
    with atheris.instrument_imports(include=ours):
        from tests.fuzz.readers import READERS  # noqa: PLC0415 — must be imported under instrumentation
        from tests.fuzz.seeds import SEEDS  # noqa: PLC0415 — same

    with READERS[name]() as item, tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate(SEEDS[name]):
            Path(corpus, str(number)).write_bytes(seed)
        atheris.Setup([*sys.argv, corpus], item)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
