"""Labels that stand on every series of a file for Prometheus, such as the job and instance of the live ones. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from otel_agentic.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
#: Prometheus keeps `__` to itself; the others are ours.
_TAKEN: Final = ("__", "agentic_", "gen_ai_", "deployment_", "error_")


def checked_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return labels as they are, sorted by name.

    Raises:
        UsageError: a name is not allowed, or its value is empty.

    >>> checked_labels({"job": "otel-agentic", "instance": "collector:9464"})
    {'instance': 'collector:9464', 'job': 'otel-agentic'}
    """
    for name, value in labels.items():
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"--label {name}={value}: a name begins with a letter or _, and holds letters, digits and _, such as job"
            )
        if name.startswith(_TAKEN):
            raise UsageError(f"--label {name}={value}: names that begin with {', '.join(_TAKEN)} are taken")
        if not value:
            raise UsageError(f"--label {name}=: give a value; to Prometheus an empty one is none")
    return dict(sorted(labels.items()))
