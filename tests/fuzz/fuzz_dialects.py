"""Fuzzes the dialects and the rebuilding of conversations, led by the coverage of both.

It needs atheris (https://github.com/google/atheris), which the project does not depend on. In the root of the checkout:

    python -m pip install atheris
    python -m tests.fuzz.fuzz_dialects -max_total_time=120 -timeout=10 -len_control=0 -max_len=4096

A crash or an input that takes longer than `-timeout` seconds is written to a file `crash-…` or `timeout-…`; give its name
as the only argument to see it again. Other options are those of libFuzzer; a directory as argument keeps the inputs that
reached something new.
"""

from __future__ import annotations

import importlib
import sys


def main() -> None:
    """Fuzz until an option of libFuzzer ends it."""
    atheris = importlib.import_module("atheris")  # the project does not depend on it, so that no type checker knows it

    with atheris.instrument_imports(include=["otel_agentic.dialects", "otel_agentic.conversations"]):
        from tests.fuzz.attack import attack  # noqa: PLC0415 — must be imported under instrumentation

    def one_input(data: bytes) -> None:
        attack(atheris.FuzzedDataProvider(data))

    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
