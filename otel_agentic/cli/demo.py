"""`otel-agentic demo`: the main job, live, on an embedded default."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

import click


@click.command(short_help="Watch it work: agents, spans, scores, in a minute.")
@click.option("--keep", type=click.Path(path_type=Path, file_okay=False), help="Keep the DuckDB file in this folder.")
@click.pass_context
def demo(ctx: click.Context, keep: Path | None) -> None:
    """Run real agents against a live collector on this machine and print what it tells of them. Takes under a minute."""
    from otel_agentic.demo.run import run_demo  # noqa: PLC0415 — the demo's frameworks are an extra

    ctx.exit(run_demo(keep=keep, program=_program()))


def _program() -> str:
    """Return what starts this command line again from the same shell."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return shlex.join([sys.executable, "-m", "otel_agentic.cli"])
    found = shutil.which(called.name)
    return called.name if found is not None and Path(found).samefile(called) else shlex.quote(sys.argv[0])
