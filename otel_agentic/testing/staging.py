"""Acts in the trees that frameworks make of them: in a workflow, in steps, with the calls below the model that asked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from otel_agentic.testing.walk import Act

#: How much longer a frame takes than what it holds.
_MARGIN_NS: Final = 1000


def in_workflow(acts: list[Act]) -> list[Act]:
    """Return the acts of a turn below a frame that sees what the run sees."""
    root = acts[0]
    frame = replace(root, does="frame", start_ns=root.start_ns - _MARGIN_NS, end_ns=root.end_ns + _MARGIN_NS)
    return [frame, *(replace(act, parent=0 if act.parent is None else act.parent + 1) for act in acts)]


def in_steps(acts: list[Act]) -> list[Act]:
    """Return the acts of a turn with a numbered frame around each model call and the tool calls that it asked for."""
    found: list[Act] = []
    places: list[int] = []
    steps: dict[int | None, int] = {}  # by run: where its latest step is
    for act in acts:
        parent = None if act.parent is None else places[act.parent]
        if act.does == "model":
            number = found[steps[act.parent]].number + 1 if act.parent in steps else 1
            steps[act.parent] = len(found)
            found.append(replace(act, does="frame", parent=parent, number=number, error=None))
        if act.does != "run":
            parent = steps[act.parent]
            found[parent].end_ns = act.end_ns
        places.append(len(found))
        found.append(replace(act, parent=parent))
    return found


def below_the_model(acts: list[Act]) -> list[Act]:
    """Return the acts of a turn with each tool call below the model call that asked for it, which lasts as long."""
    found: list[Act] = []
    asking: dict[int | None, int] = {}  # by run: where its latest model call is
    for index, act in enumerate(acts):
        if act.does == "model":
            asking[act.parent] = index
        parent = act.parent
        if act.does == "tool":
            parent = asking[act.parent]
            found[parent].end_ns = act.end_ns
        found.append(replace(act, parent=parent))
    return found


def on_a_coarse_clock(acts: list[Act], *, speed: int, tick_ns: int) -> list[Act]:
    """Return the acts of a turn played faster, by a clock that starts spans on its ticks: many start at one time.

    As in OpenTelemetry for JavaScript, a span ends as long after its tick as it took, so that ends tell no order either.
    """
    began_ns = acts[0].start_ns
    found = []
    for act in acts:
        start_ns = began_ns + (act.start_ns - began_ns) // speed
        on_tick_ns = start_ns - start_ns % tick_ns
        found.append(replace(act, start_ns=on_tick_ns, end_ns=on_tick_ns + (act.end_ns - act.start_ns) // speed))
    return found
