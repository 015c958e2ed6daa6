"""Which faults the tools failed by, and which were made good: what a person should look at first."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_agentic.scoring.model import ToolFault, ToolScore


class Impact(NamedTuple):
    """What a fault meant for its score.

    `failed`: the tools failed, and this was not made good. An error is made good where a later call of the tool answered
    without one and no expected call of it is missing. `tried`: of a missing call, how often the tool answered with
    an error in the same scope; None for other faults.
    """

    failed: bool
    tried: int | None


def impacts_of(score: ToolScore) -> Iterator[Impact]:
    """Yield the impact of each fault of a score, in their order."""
    missing = {fault.tool_name for fault in score.faults if fault.kind == "missing"}
    errors = Counter(fault.tool_name for fault in score.faults if fault.kind == "errored")
    made = () if score.calls is None else score.calls.made
    # They are in order: of each name the last one stays.
    worked = {one.call.name: one.place for one in made if one.call.error is None}
    for fault in score.faults:
        name = fault.tool_name
        made_good = fault.kind == "errored" and name not in missing and _place(fault) < worked.get(name, (-1, 0, 0))
        yield Impact(
            failed=score.outcome == "fail" and not made_good, tried=errors[name] if fault.kind == "missing" else None
        )


def _place(fault: ToolFault) -> tuple[int, int, int]:
    return (fault.turn_index or 0, fault.step or 0, fault.made_position or 0)
