"""Genkit, a JavaScript framework that the dialects do not name: sessions, and flows without an id."""
# needs node 22 or newer, and here: opentelemetry-proto==1.44.0

from __future__ import annotations

import sys
from typing import Any, Final

from tools.capture_generators.vercel_node import record_node

#: Capture -> how the driver plays, notes for expected.json.
_VARIANTS: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "generic-genkit-chat": ({"method": "chat"}, {}),
    "generic-genkit-flow-noid": ({"method": "flow"}, {"id_in_telemetry": False}),
}


def main() -> None:
    """Record the captures that are named on the command line, all of them when none is."""
    for name in sys.argv[1:] or _VARIANTS:
        variant, notes = _VARIANTS[name]
        record_node(name, project="genkit", driver="genkit", variant=variant, **notes)


if __name__ == "__main__":
    main()
