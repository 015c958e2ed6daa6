"""Calls that repeat an earlier one and bring nothing new, and calls that are tried again after an error."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from otel_agentic.conversations.duplicates import comparable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.conversations.model import ToolCall, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Repeats in a row: how many, in which turn (0-based), the first of them at which position, of which tool."""

    length: int
    turn_index: int
    position: int
    tool_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """What was not recorded of a call, so that nobody can tell whether it repeats another."""

    what: str
    turn_index: int
    tool_name: str


def runs_of(turn: Turn) -> list[Run] | Unknown:
    """Return the runs of repeats in a turn, in order.

    A call repeats an earlier one of the turn when tool and arguments are the same, it came to the same, and no call from the
    one to the other brought anything new. Something new is the first call of a tool with some arguments, or one that comes to
    something else than the last time. The first retry of a failed call is no repeat, nor is a call that comes to something
    else later in the turn: a status that is polled. Transfers to other agents are no calls here. Unknown where it matters
    what a call came to of which that was not recorded.
    """
    calls = [call for call in turn.calls if call.kind != "transfer"]
    times = Counter(call.name for call in calls)
    again = [call for call in calls if times[call.name] > 1]
    if not again:  # nearly always: what calls came to need not be looked at
        return []
    lacking = next((call for call in again if call.arguments is None), None)
    if lacking is not None:
        return Unknown(what="arguments", turn_index=turn.index, tool_name=lacking.name)
    fewest = _runs(calls, turn.index, same_unless_told=False)
    silent = next((call for call in again if call.error is None and not call.result_captured), None)
    if silent is not None and fewest != _runs(calls, turn.index, same_unless_told=True):
        return Unknown(what="results", turn_index=turn.index, tool_name=silent.name)
    return fewest


def _runs(calls: Sequence[ToolCall], turn_index: int, *, same_unless_told: bool) -> list[Run]:
    runs: list[Run] = []
    seen: dict[tuple[str, str], tuple[ToolCall, int]] = {}  # the last of its kind, and how much was new until then
    keys = [(call.name, comparable(call.arguments)) for call in calls]
    changing = _changing(keys, calls, same_unless_told=same_unless_told)
    retried: set[tuple[str, str]] = set()
    news, in_a_row = 0, False
    for place, (key, call) in enumerate(zip(keys, calls, strict=True)):
        before, at = seen.get(key, (None, news))
        is_same = before is not None and _came_to_the_same(before, call, same_unless_told=same_unless_told)
        if is_same and call.error is not None and key not in retried:
            retried.add(key)
        elif is_same and at == news and place >= changing.get(key, 0):
            runs = _with_repeat(runs, call, turn_index, goes_on=in_a_row)
            in_a_row = True
        else:
            news, in_a_row = news + (not is_same), False
        seen[key] = (call, news)
    return runs


def _changing(
    keys: Sequence[tuple[str, str]], calls: Sequence[ToolCall], *, same_unless_told: bool
) -> dict[tuple[str, str], int]:
    """Return the index of the last call that came to something else than the one before of the same name and arguments."""
    last: dict[tuple[str, str], ToolCall] = {}
    found: dict[tuple[str, str], int] = {}
    for place, (key, call) in enumerate(zip(keys, calls, strict=True)):
        before = last.get(key)
        if before is not None and not _came_to_the_same(before, call, same_unless_told=same_unless_told):
            found[key] = place
        last[key] = call
    return found


def _came_to_the_same(one: ToolCall, other: ToolCall, *, same_unless_told: bool) -> bool:
    """Return whether two calls came to the same; where that was not recorded, what to take it for."""
    if one.error is not None or other.error is not None:
        return one.error == other.error
    if not (one.result_captured and other.result_captured):
        return same_unless_told
    return comparable(one.result) == comparable(other.result)


def _with_repeat(runs: list[Run], call: ToolCall, turn_index: int, *, goes_on: bool) -> list[Run]:
    if not goes_on:
        return [*runs, Run(length=1, turn_index=turn_index, position=call.position, tool_name=call.name)]
    return [*runs[:-1], replace(runs[-1], length=runs[-1].length + 1, tool_name=call.name)]


def retries_of(turn: Turn) -> list[ToolCall]:
    """Return the calls of a turn before which the same tool was last called, in an earlier step, with an error."""
    tools = [call for call in turn.calls if call.kind == "tool"]
    failed: dict[str, bool] = {}  # by tool: whether a call failed in the last step that called it
    found: list[ToolCall] = []
    for _, step in groupby(sorted(tools, key=lambda call: (call.step, call.position)), key=lambda call: call.step):
        calls = list(step)
        found += [call for call in calls if failed.get(call.name)]
        worst: dict[str, bool] = {}
        for call in calls:
            worst[call.name] = worst.get(call.name, False) or call.error is not None
        failed |= worst
    return found


def unknown_before_retry(turn: Turn) -> ToolCall | None:
    """Return a call of a turn of which nobody knows whether it failed, and which another of its tool follows; None for none."""
    tools = [call for call in turn.calls if call.kind == "tool"]
    last = {call.name: max(other.step for other in tools if other.name == call.name) for call in tools}
    unknown = (call for call in tools if call.error is None and not call.result_captured)
    return next((call for call in unknown if call.step < last[call.name]), None)
