"""`otel-agentic demo`: real agents and a live collector on this machine."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

import click


@click.command()
@click.option("--keep", type=click.Path(path_type=Path, file_okay=False), help="Keep the DuckDB file in this folder.")
@click.pass_context
def demo(ctx: click.Context, keep: Path | None) -> None:
    """Run real agents against a live collector on this machine and print its report. Takes under a minute."""
    from otel_agentic.demo.run import run_demo  # noqa: PLC0415 — the demo's frameworks are an extra

    ctx.exit(run_demo(keep=keep, program=_program()))


def _program() -> str:
    """Return the command that starts this command line from the same shell."""
    program_path = Path(sys.argv[0])
    if program_path.name == "__main__.py":
        return shlex.join([sys.executable, "-m", "otel_agentic.cli"])
    executable = shutil.which(program_path.name)
    return (
        program_path.name
        if executable is not None and Path(executable).samefile(program_path)
        else shlex.quote(sys.argv[0])
    )
