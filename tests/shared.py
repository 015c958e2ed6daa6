"""Where the data lies that is shared between checkouts: captures, published benchmarks, parity files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

VARIABLE: Final = "OTEL_AGENTIC_SHARED"

#: The shared folder, present or not: `OTEL_AGENTIC_SHARED`, else `shared` next to the checkout.
SHARED: Final = Path(os.environ.get(VARIABLE) or Path(__file__).parents[2] / "shared")


def why_absent(folder: Path) -> str | None:
    """Return the reason to skip a test that reads `folder`, or None if it exists."""
    return None if folder.is_dir() else f"no folder {folder}; {VARIABLE} names the folder of shared data"
