"""The arithmetic of other systems, faults included, for people who compare or migrate.

`fair_forge`, `ragas`, `agent_surface` and `agentest` contain their functions under our names; `scorer` scores stored
conversations with one of them. `docs/compat.md` lists the reproduced parts, and the default arithmetic next to them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otel_agentic.compat.scorers import Scorer

__all__ = ["scorer"]


def scorer(name: str) -> Scorer:
    """Return the scorer of a system, which replaces `otel_agentic.scoring.outcome.scoring`.

    Args:
        name: fair-forge, ragas, agent-surface or agentest.

    Raises:
        UsageError: there is no such system.
    """
    from otel_agentic.compat import scorers  # noqa: PLC0415 — users of the functions alone need no scoring

    return scorers.scorer(name)
