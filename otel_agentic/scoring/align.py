"""Pairing of actual with expected calls: optimal, one to one, by name; then their order.

Among all pairings of calls with the same name, the one is chosen that has, in this order of priority: as many required
calls as possible, the greatest agreement of their arguments, the fewest parameters that only a judge could compare, the
most optional calls that agree in full, ranks among the calls of the name as close as possible, the earlier call. Calls
of one step share a rank. So the result depends neither on the order of a list nor on a hash seed.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from otel_agentic.scoring.compile import NO_VERDICTS, CompiledCall, CompiledExpectation, CompiledName, ToolVerdicts
from otel_agentic.scoring.scope import ActualCall

if TYPE_CHECKING:
    import numpy as np

    from otel_agentic.conversations.model import ToolCall
    from otel_agentic.truth.model import ExtraRule, Order

#: Index of an actual call, its expected call, how far they agree (see `Parameters.compare`), the keys that differ.
Pair: TypeAlias = tuple[int, CompiledCall, float, Sequence[str]]

Values: TypeAlias = "np.ndarray[tuple[int, int], np.dtype[np.float64]]"

#: Agreements are fractions: over this number, those of calls of up to 16 parameters are whole.
_DENOMINATOR: Final = math.lcm(*range(1, 17))
#: Sums of them that are closer than this are equal.
_ROUNDING: Final = 1e-9
#: Cells of a table that is worth keeping for the next calls of such ranks.
_KEPT_SIZE: Final = 100


def pair_calls(
    expected: CompiledName, actual: Sequence[ActualCall], indices: Sequence[int], verdicts: ToolVerdicts
) -> list[Pair]:
    """Return the optimal pairing of the calls of one name, in no order; an optional call is paired only in full.

    Args:
        expected: the expected calls of the name.
        actual: all actual calls, in order.
        indices: those with the name.
        verdicts: of a judge, on parameters.
    """
    group = [actual[other_place] for other_place in indices]
    known: dict[int, list[float]] = {}
    if not expected.may_ask_judge and len(expected.calls) <= len(indices):
        pairs = _in_turn(expected.calls, group, indices, known)
        if pairs is not None:
            return pairs
    return _optimal(expected, group, indices, verdicts, known)


def _in_turn(
    expected: Sequence[CompiledCall],
    actual: Sequence[ActualCall],
    indices: Sequence[int],
    known: dict[int, list[float]],
) -> list[Pair] | None:
    """Return the calls paired one after the other where that is plainly optimal, else None.

    It is where none of the expected calls agrees better with another made one, so that no sum can be greater, and where no
    ranks could be closer: an expected call that has a rank meets a made one of it. Scores that had to be found are left in
    `known`, by expected call.
    """
    pairs: list[Pair] = []
    step = None
    for rank, expected_call in enumerate(expected):
        other, parameters = actual[rank], expected_call.parameters
        if expected_call.rank and (expected_call.rank != rank or (other.turn_index, other.call.step) == step):
            return None
        step = other.turn_index, other.call.step
        if other.call.arguments == parameters.equal_arguments:
            pairs.append((indices[rank], expected_call, 1.0, ()))
            continue
        score, invalid = parameters.compare(other)
        if score < 1.0:
            known[rank] = parameters.scores(actual)
            if not expected_call.required or max(known[rank]) > score:
                return None
        pairs.append((indices[rank], expected_call, score, invalid))
    return pairs


def _optimal(
    expected: CompiledName,
    actual: Sequence[ActualCall],
    indices: Sequence[int],
    verdicts: ToolVerdicts,
    known: Mapping[int, list[float]],
) -> list[Pair]:
    calls = expected.calls
    scores = [known.get(row) or call.parameters.scores(actual, verdicts) for row, call in enumerate(calls)]
    undecided = None
    if expected.may_ask_judge:
        undecided = [[call.parameters.undecided(other, verdicts) for other in actual] for call in calls]
    ranks = _ranks(actual) if calls[-1].rank else range(len(actual))
    pairs: list[Pair] = []
    for row, column in _best(expected, scores, undecided, ranks):
        item, other = calls[row], actual[column]
        if scores[row][column] == 1.0:
            pairs.append((indices[column], item, 1.0, ()))
        elif item.required:
            # Not an optional call: a solver without a better use pairs one that does not agree all the same.
            pairs.append((indices[column], item, *item.parameters.compare(other, verdicts)))
    return pairs


def _ranks(actual: Sequence[ActualCall]) -> tuple[int, ...]:
    """Return the rank of each actual call: its index, or that of the first call of its step."""
    steps = [(item.turn_index, item.call.step) for item in actual]
    return tuple([steps.index(step) for step in steps])


def _best(
    expected: CompiledName,
    scores: Sequence[Sequence[float]],
    undecided: Sequence[Sequence[int]] | None,
    ranks: Sequence[int],
) -> Sequence[tuple[int, int]]:
    """Return the row and column of each pair."""
    if undecided is None and expected.times == len(scores):
        plain = _plainly_best(scores)
        if plain is not None:
            return plain
    solve, values = _solver(), _values(expected, scores, undecided, ranks)
    rows, columns = solve(values, maximize=True)
    return list(zip(rows.tolist(), columns.tolist(), strict=True))


def _plainly_best(scores: Sequence[Sequence[float]]) -> Sequence[tuple[int, int]] | None:
    """Return the row and column of each pair where a look at the scores will do, else None; rows are in order of rank."""
    n, m = len(scores), len(scores[0])
    if n == 1:
        return [(0, scores[0].index(max(scores[0])))]  # of several the first, which is the earliest call
    if m == 1:
        column = [row[0] for row in scores]
        return [(column.index(max(column)), 0)]
    if n == m == 2:  # noqa: PLR2004 — of two and two calls there are two pairings
        gain = scores[0][0] + scores[1][1] - scores[0][1] - scores[1][0]
        if abs(gain) > _ROUNDING:
            return [(0, 0), (1, 1)] if gain > 0 else [(0, 1), (1, 0)]
    return None


def _values(
    expected: CompiledName,
    scores: Sequence[Sequence[float]],
    undecided: Sequence[Sequence[int]] | None,
    ranks: Sequence[int],
) -> Values:
    """Return the weight of each pair: the criteria as digits of one number, the most important first.

    float64 holds such numbers well enough up to 2^53, for some 15 calls of one name; past that only the last digits, the
    ties, blur.
    """
    import numpy as np  # noqa: PLC0415 — with the solver

    n, provided = len(scores), np.array(scores)
    most = 0 if undecided is None else max(map(max, undecided))
    digits = (_kept_digits if provided.size <= _KEPT_SIZE else _digits)(expected.ranks, ranks, most)
    values = digits.actual + digits.agreeing * provided
    if undecided is not None:
        values -= digits.decided * np.array(undecided)
    if expected.times < n:
        excused = digits.excused if undecided is None else digits.excused - digits.doubt * np.array(undecided)
        optional = [not call.required for call in expected.calls]
        values[optional] = np.where(provided == 1.0, excused, 0.0)[optional]
    return values


@cache
def _solver() -> Callable[..., Any]:
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 — slow to import, and few names repeat

    solver: Callable[..., Any] = linear_sum_assignment
    return solver


class _Digits(NamedTuple):
    """What counts how much.

    That a pair is `actual` at all, or an optional call `excused`, both less how far apart their ranks are; agreement in full;
    a parameter that only a judge could compare, of a required call (`decided`) or of an optional one (`doubt`).
    """

    actual: Values
    excused: Values
    agreeing: float
    decided: float
    doubt: float


def _digits(rows: Sequence[int], columns: Sequence[int], undecided: int) -> _Digits:
    """Return the digits for calls of those ranks: each is worth more than all below it can be over all pairs."""
    import numpy as np  # noqa: PLC0415 — with the solver

    n, m = len(rows), len(columns)
    closer = n * (3 * m * m + m) + 1
    apart = np.arange(m) - np.arange(n)[:, None]
    # Squares keep pairs from crossing where a sum of distances would not care; of two as far, the earlier call.
    ties = closer * (np.array(rows)[:, None] - np.array(columns)) ** 2.0 + 3 * apart**2 + apart
    doubt = float(closer * (n * max(n, m) ** 2 + 1))
    excused = doubt * (n * undecided + 1)
    decided = excused * (n + 1)
    actual = decided * (n * undecided + 1)
    return _Digits(actual - ties, excused - ties, actual * _DENOMINATOR, decided, doubt)


_kept_digits = lru_cache(maxsize=256)(_digits)


#: The calls that count, in order; the pairs of expected calls, including optional ones, in order of the actual ones;
#: the indices of the remaining calls, and of those whose arguments or results were not recorded; the calls that
#: returned an error. A plain tuple, because one is created for every turn. `SortedCalls` is the same with names.
RawCalls: TypeAlias = tuple[
    CompiledExpectation, Sequence[ActualCall], list[Pair], Sequence[int], Sequence[int], Sequence[ActualCall]
]


class Agreement(NamedTuple):
    """How far the parameters of an actual call agree, in [0, 1], and which do not."""

    score: float
    differing: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedCall:
    """An expected call and the index of its actual call."""

    actual_index: int
    expected: CompiledCall
    agreement: Agreement

    @classmethod
    def of(cls, pair: Pair) -> PairedCall:
        """Return a pair with names."""
        index, expected, score, invalid = pair
        return cls(actual_index=index, expected=expected, agreement=Agreement(score, tuple(invalid)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedCalls:
    """The calls of a scope, sorted under one expectation.

    `actual` are the calls that count, in order; `errored` those that returned an error. `pairs` are those of required
    calls, `excused` those of optional ones, in order of the actual calls. `extra` are the indices in `actual` of the
    remaining calls, each with the rule for extra calls of its tool, `forbidden` those of calls that are forbidden by
    name.
    """

    expectation: CompiledExpectation
    actual: Sequence[ActualCall]
    errored: Sequence[ActualCall]
    pairs: Sequence[PairedCall]
    excused: Sequence[PairedCall]
    extra: Sequence[tuple[int, ExtraRule]]
    forbidden: Sequence[int]

    @classmethod
    def of(cls, raw: RawCalls) -> SortedCalls:
        """Return sorted calls with names."""
        expectation, actual, pairs, extra, _, errored = raw
        return cls(
            expectation=expectation,
            actual=actual,
            errored=errored,
            pairs=[PairedCall.of(pair) for pair in pairs if pair[1].required],
            excused=[PairedCall.of(pair) for pair in pairs if not pair[1].required],
            extra=[(index, expectation.extra_rule(actual[index].call.name)) for index in extra],
            forbidden=[index for index, item in enumerate(actual) if expectation.forbids(item.call.name)],
        )


def sort_calls(  # noqa: C901 — one pass for every turn: each function more is a tenth of its time
    expectation: CompiledExpectation, calls: Sequence[ActualCall], verdicts: ToolVerdicts = NO_VERDICTS
) -> RawCalls:
    """Return the calls of a scope, in order of their place, sorted out under an expectation.

    Calls of kind `tool` count at any depth; a transfer or an agent used as a tool only where the expectation names it. A
    call that answered with an error was not made, unless the rules count it.
    """
    named = expectation.named
    actual = calls
    errored: Sequence[ActualCall] = ()
    unrecorded: Sequence[int] = ()
    indices: dict[str, list[int]] = {}
    extra: list[int] = []
    for position, item in enumerate(calls):
        call = item.call
        if call.error is not None or call.kind != "tool" or call.arguments is None or not call.result_captured:
            # Most turns have no such call, and are read in this one pass.
            actual, errored, unrecorded = _counted(expectation, calls)
            indices, extra = _indices(named, actual)
            break
        name = call.name
        if name in indices:
            indices[name].append(position)
        elif name in named:
            indices[name] = [position]
        else:
            extra.append(position)
    pairs: list[Pair] = []
    repeated = False
    for name, group in indices.items():
        expected = named[name]
        only = expected.only
        if only is None or len(group) > 1:
            pairs += pair_calls(expected, actual, group, verdicts)
            repeated = True
            continue
        position, parameters = group[0], only.parameters
        if actual[position].call.arguments == parameters.equal_arguments:
            pairs.append((position, only, 1.0, ()))
            continue
        score, invalid = parameters.compare(actual[position], verdicts)
        if score == 1.0 or only.required:
            pairs.append((position, only, score, invalid))
    if len(pairs) + len(extra) < len(actual):
        paired = {pair[0] for pair in pairs}
        extra = [index for index in range(len(actual)) if index not in paired]
    if repeated:
        pairs.sort()
    return expectation, actual, pairs, extra, unrecorded, errored


def _counted(
    expectation: CompiledExpectation, calls: Sequence[ActualCall]
) -> tuple[Sequence[ActualCall], Sequence[ActualCall], Sequence[int]]:
    """Return the calls that were made, those that answered with an error, and places of those not wholly recorded."""
    counted = [call for call in calls if call.call.kind == "tool" or _names(expectation, call.call.name)]
    errored = [item for item in counted if item.call.error is not None]
    actual = counted if expectation.rules.count_errors else [item for item in counted if item.call.error is None]
    return actual, errored, [index for index, item in enumerate(actual) if not _is_recorded(item.call)]


def _indices(named: Container[str], actual: Sequence[ActualCall]) -> tuple[dict[str, list[int]], list[int]]:
    """Return where the calls of each expected name are, and where the others."""
    indices: dict[str, list[int]] = {}
    for position, entry in enumerate(actual):
        if entry.call.name in named:
            indices.setdefault(entry.call.name, []).append(position)
    return indices, [index for index, item in enumerate(actual) if item.call.name not in named]


def _names(expectation: CompiledExpectation, tool_name: str) -> bool:
    return tool_name in expectation.named or expectation.forbids(tool_name)


def _is_recorded(call: ToolCall) -> bool:
    return call.arguments is not None and (call.result_captured or call.error is not None)


class Misplaced(NamedTuple):
    """An actual call, by index, that is out of order: `belongs` is where it should be, `position` where it is.

    In order `exact` both are numbers, counted in groups from 1. In `relative`, `belongs` is "after" or "before" and the
    name of a call in the right position, `position` is None.
    """

    actual_index: int
    expected: CompiledCall
    belongs: str | int
    position: int | None


def misplaced(actual: Sequence[ActualCall], pairs: Sequence[Pair], order: Order) -> list[Misplaced]:
    """Return the pairs of required calls that are out of order, in actual order.

    In order `relative`: those outside a longest run of actual calls whose expected groups never decrease. In `exact`:
    those whose rank among the paired calls is not their group. Calls of one actual step count as in the expected order.

    Args:
        actual: the actual calls, in order.
        pairs: of required calls, in order of the actual ones.
        order: that of the expectation.
    """
    if order == "any" or not pairs:
        return []
    return _out_of_rank(actual, pairs) if order == "exact" else _outside_longest_run(actual, pairs)


def _out_of_rank(actual: Sequence[ActualCall], pairs: Sequence[Pair]) -> list[Misplaced]:
    results: list[Misplaced] = []
    rank, turn_index, step = 0, -1, -1
    for index, expected, _, _ in pairs:
        item = actual[index]
        if item.call.step != step or item.turn_index != turn_index:
            rank, turn_index, step = rank + 1, item.turn_index, item.call.step
        if rank != expected.group:
            results.append(Misplaced(index, expected, expected.group, rank))
    return results


def _outside_longest_run(actual: Sequence[ActualCall], pairs: Sequence[Pair]) -> list[Misplaced]:
    walk: list[tuple[int, int, int, int, CompiledCall]] = []
    for position, expected, _, _ in pairs:
        entry = actual[position]
        walk.append((entry.turn_index, entry.call.step, expected.group, position, expected))
    walk.sort()
    retained = longest_non_decreasing([item[2] for item in walk])
    there = set(retained)
    around = [item[4] for item in walk]
    results = [
        Misplaced(item[3], item[4], _belongs(around, retained, index), None)
        for index, item in enumerate(walk)
        if index not in there
    ]
    return sorted(results)


def _belongs(walk: Sequence[CompiledCall], retained: Sequence[int], index: int) -> str:
    """Return the neighbour in the run that a call on its wrong side belongs to.

    It exists, or the run would be longer; of several it is the nearest.
    """
    group = walk[index].group
    before = [walk[other].name for other in retained if other < index and walk[other].group > group]
    after = [walk[other].name for other in retained if other > index and walk[other].group < group]
    return f"before {before[0]}" if before else f"after {after[-1]}"


def longest_non_decreasing(values: Sequence[int]) -> list[int]:
    """Return the places of a longest non-decreasing subsequence.

    Ref: C. Schensted (1961), Longest increasing and decreasing subsequences, with ties allowed.

    >>> longest_non_decreasing([3, 1, 2, 2, 1])
    [1, 2, 3]
    """
    tails: list[int] = []
    tail_places: list[int] = []
    before: list[int] = []
    for index, value in enumerate(values):
        length = bisect_right(tails, value)
        before.append(tail_places[length - 1] if length else -1)
        if length == len(tails):
            tails.append(value)
            tail_places.append(index)
        else:
            tails[length], tail_places[length] = value, index
    retained: list[int] = []
    index = tail_places[-1] if tail_places else -1
    while index >= 0:
        retained.append(index)
        index = before[index]
    return retained[::-1]
