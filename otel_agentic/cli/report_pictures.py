"""`report --format html` and `report --plot`: what they ask for, need and write."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.cli.output import print_text
from otel_agentic.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from otel_agentic.commands import Client

#: The arguments that `report` and `report_pictures` share.
_SHARED: Final = (
    "k",
    "by",
    "window",
    "since_ns",
    "until_ns",
    "agent",
    "estimator",
    "interval",
    "compare",
    "evaluation",
)
_KIB: Final = 1024


def check_output(output: str, out: Path | None, *, plot: bool) -> None:
    """Check, before anything is computed, that what is asked for can be drawn here, and has a place to go to.

    Raises:
        UsageError: the library that draws it is not installed, or the options do not go together.
    """
    if output == "html":
        _need("matplotlib", "--format html")
        if out is None and sys.stdout.isatty():
            raise UsageError("--format html is a page for a browser: give -o report.html, or > report.html")
    elif out is not None:
        raise UsageError(f"-o {out} goes with --format html; other formats go to standard output: > {out}")
    if plot:
        if output != "table":
            raise UsageError(f"--plot draws in the terminal, beside the table; it does not go with --format {output}")
        _need("plotext", "--plot")


def pictures_for(client: Client, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the pictures of a report are drawn from.

    Args:
        client: the store.
        arguments: those of the report.
    """
    found: dict[str, Any] = client.call(
        "report_pictures", **{name: arguments[name] for name in _SHARED if name in arguments}
    )
    return found


def write_page(found: Mapping[str, Any], drawn: Mapping[str, Any], about: str, out: Path | None) -> None:
    """Write a report as a page to a file, or to standard output.

    Raises:
        UsageError: the file cannot be written.
    """
    from otel_agentic.cli.html import page  # noqa: PLC0415 — only a page pays for what draws it

    text = page(found, drawn, about)
    if out is None:
        print_text(text)
        return
    try:
        size = out.write_text(text, encoding="ascii")
    except OSError as error:
        raise UsageError(f"-o {out}: {error.strerror}; give a file that can be written") from error
    print_text(f"{out}: {-(-size // _KIB):,} KiB\n", err=True)


def print_curves(drawn: Mapping[str, Any]) -> None:
    """Print pass@k and pass^k over k of the groups in the terminal."""
    from otel_agentic.cli.report_plot import plot  # noqa: PLC0415 — only a plot pays for what draws it

    plot(drawn["curves"])


def _need(module: str, option: str) -> None:
    try:
        import_module(module)
    except ImportError as error:
        raise UsageError(f"{option} needs {module}: pip install 'otel-agentic[plots]'") from error
