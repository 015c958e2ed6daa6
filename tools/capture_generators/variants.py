"""One framework, several captures: each in a process of its own, for OpenTelemetry is set up once in a process."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable


def each_alone(module: str, names: Iterable[str], record: Callable[[str], None]) -> None:
    """Record the capture named on the command line, or all of them one after the other."""
    selected = sys.argv[1:]
    if selected:
        warnings.simplefilter("ignore")
        record(selected[0])
        return
    for name in names:
        subprocess.run([sys.executable, "-m", module, name], check=True)
