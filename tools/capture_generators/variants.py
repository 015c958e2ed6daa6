"""One framework, several captures: each in a process of its own, for OpenTelemetry is set up once in a process."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def each_alone(module: str, names: Iterable[str], record: Callable[[str], None]) -> None:
    """Record the capture named on the command line, or all of them one after the other."""
    asked = sys.argv[1:]
    if asked:
        warnings.simplefilter("ignore")
        record(asked[0])
        return
    for name in names:
        subprocess.run([sys.executable, "-m", module, name], check=True)
