"""`python -m collectors.conformance URL`."""

from __future__ import annotations

from collectors.conformance._run import command

if __name__ == "__main__":
    command(prog_name="python -m collectors.conformance")
