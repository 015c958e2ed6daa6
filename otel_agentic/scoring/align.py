"""Optimal one-to-one pairing of actual with expected calls of the same name, and the order of the paired calls.

Among all pairings of calls with the same name, the best one is chosen by these criteria, in order of priority: the most
required calls, the greatest agreement of their arguments, the fewest parameters that only a judge could compare, the
most optional calls that agree in full, the closest ranks among the calls of the name, and the earlier call. Calls of
one step share a rank. Therefore the result depends neither on the order of a list nor on a hash seed.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from otel_agentic.scoring.compile import NO_VERDICTS, CompiledCall, CompiledExpectation, CompiledName, ToolVerdicts
from otel_agentic.scoring.scope import ActualCall, SameObject

if TYPE_CHECKING:
    import numpy as np

    from otel_agentic.conversations.model import ToolCall
    from otel_agentic.truth.model import ExtraRule, Order

#: Index of the actual call, the expected call, their agreement in [0, 1] (see `Parameters.compare`), the differing
#: keys.
Pair: TypeAlias = tuple[int, CompiledCall, float, Sequence[str]]

Values: TypeAlias = "np.ndarray[tuple[int, int], np.dtype[np.float64]]"

#: A common denominator: multiplied by it, the agreement of calls with up to 16 parameters is an integer.
_DENOMINATOR: Final = math.lcm(*range(1, 17))
#: Sums of agreements are floating-point: sums this close are equal.
_ROUNDING: Final = 1e-9
#: Number of scopes whose sorted calls are cached.
_CACHED_SCOPES: Final = 64
#: Maximum number of cells of a weight table that is cached for later calls with the same ranks.
_CACHED_SIZE: Final = 100


def pair_calls(
    expected: CompiledName, actual: Sequence[ActualCall], indices: Sequence[int], verdicts: ToolVerdicts
) -> list[Pair]:
    """Return the optimal pairing of the calls of one name, in any order.

    An optional call is paired only if it agrees in full.

    Args:
        expected: the expected calls of the name.
        actual: all actual calls, in order.
        indices: the indices of the actual calls with the name.
        verdicts: a judge's verdicts on parameters.
    """
    group = [actual[index] for index in indices]
    known_scores: dict[int, list[float]] = {}
    if not expected.may_ask_judge and len(expected.calls) <= len(indices):
        pairs = _pairs_in_order(expected.calls, group, indices, known_scores)
        if pairs is not None:
            return pairs
    return _optimal(expected, group, indices, verdicts, known_scores)


def _pairs_in_order(
    expected: Sequence[CompiledCall],
    actual: Sequence[ActualCall],
    indices: Sequence[int],
    known_scores: dict[int, list[float]],
) -> list[Pair] | None:
    """Return the pairing of the calls in list order if it is certainly optimal, else None.

    It is optimal if no expected call agrees better with a different actual call, so that no sum can be greater, and if
    no ranks could be closer: each expected call with a rank is paired with an actual call of that rank. Scores that
    were computed on the way are stored in `known_scores`, by the index of the expected call.
    """
    pairs: list[Pair] = []
    step = None
    for rank, expected_call in enumerate(expected):
        actual_call, parameters = actual[rank], expected_call.parameters
        if expected_call.rank and (
            expected_call.rank != rank or (actual_call.turn_index, actual_call.call.step) == step
        ):
            return None
        step = actual_call.turn_index, actual_call.call.step
        if actual_call.call.arguments == parameters.equal_arguments:
            pairs.append((indices[rank], expected_call, 1.0, ()))
            continue
        score, invalid = parameters.compare(actual_call)
        if score < 1.0:
            known_scores[rank] = parameters.scores(actual)
            if not expected_call.required or max(known_scores[rank]) > score:
                return None
        pairs.append((indices[rank], expected_call, score, invalid))
    return pairs


def _optimal(
    expected: CompiledName,
    actual: Sequence[ActualCall],
    indices: Sequence[int],
    verdicts: ToolVerdicts,
    known_scores: Mapping[int, list[float]],
) -> list[Pair]:
    calls = expected.calls
    scores = [known_scores.get(row) or call.parameters.scores(actual, verdicts) for row, call in enumerate(calls)]
    undecided = None
    if expected.may_ask_judge:
        undecided = [[call.parameters.undecided(actual_call, verdicts) for actual_call in actual] for call in calls]
    ranks = _ranks(actual) if calls[-1].rank else range(len(actual))
    pairs: list[Pair] = []
    for row, column in _best(expected, scores, undecided, ranks):
        expected_call, actual_call = calls[row], actual[column]
        if scores[row][column] == 1.0:
            pairs.append((indices[column], expected_call, 1.0, ()))
        elif expected_call.required:
            # An optional call that does not agree is dropped: the solver pairs it only for lack of a better use.
            pairs.append((indices[column], expected_call, *expected_call.parameters.compare(actual_call, verdicts)))
    return pairs


def _ranks(actual: Sequence[ActualCall]) -> tuple[int, ...]:
    """Return the rank of each actual call: the index of the first call of its step."""
    steps = [(actual_call.turn_index, actual_call.call.step) for actual_call in actual]
    return tuple([steps.index(step) for step in steps])


def _best(
    expected: CompiledName,
    scores: Sequence[Sequence[float]],
    undecided: Sequence[Sequence[int]] | None,
    ranks: Sequence[int],
) -> Sequence[tuple[int, int]]:
    """Return the row and column of each pair."""
    if undecided is None and expected.times == len(scores):
        pairs = _best_of_few(scores)
        if pairs is not None:
            return pairs
    solve, values = _solver(), _values(expected, scores, undecided, ranks)
    rows, columns = solve(values, maximize=True)
    return list(zip(rows.tolist(), columns.tolist(), strict=True))


def _best_of_few(scores: Sequence[Sequence[float]]) -> Sequence[tuple[int, int]] | None:
    """Return the row and column of each pair if so few calls need no solver, else None; rows are sorted by rank."""
    n, m = len(scores), len(scores[0])
    if n == 1:
        return [(0, scores[0].index(max(scores[0])))]  # among equals the first, which is the earliest call
    if m == 1:
        column = [row[0] for row in scores]
        return [(column.index(max(column)), 0)]
    if n == m == 2:  # noqa: PLR2004 — two pairings of two calls with two calls
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
    """Return the weight of each pair: a number whose digits are the criteria, the most important first.

    float64 represents such numbers exactly up to 2^53, which suffices for about 15 calls of one name. Beyond that only
    the last digits, which break ties, lose precision.
    """
    import numpy as np  # noqa: PLC0415 — imported with the solver

    n, agreement = len(scores), np.array(scores)
    most_undecided = 0 if undecided is None else max(map(max, undecided))
    digits = (_cached_digits if agreement.size <= _CACHED_SIZE else _digits)(expected.ranks, ranks, most_undecided)
    values = digits.actual + digits.agreeing * agreement
    if undecided is not None:
        values -= digits.decided * np.array(undecided)
    if expected.times < n:
        excused = digits.excused if undecided is None else digits.excused - digits.doubt * np.array(undecided)
        optional = [not call.required for call in expected.calls]
        values[optional] = np.where(agreement == 1.0, excused, 0.0)[optional]
    return values


@cache
def _solver() -> Callable[..., Any]:
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 — slow to import, and rarely needed

    solver: Callable[..., Any] = linear_sum_assignment
    return solver


class _Digits(NamedTuple):
    """The weight of each criterion of a pair.

    `actual` is the weight of pairing a required call at all, `excused` that of pairing an optional call; both are
    reduced by the distance of their ranks. `agreeing` is the weight of full agreement. A parameter that only a judge
    could compare costs `decided` in a required call and `doubt` in an optional one.
    """

    actual: Values
    excused: Values
    agreeing: float
    decided: float
    doubt: float


def _digits(rows: Sequence[int], columns: Sequence[int], undecided: int) -> _Digits:
    """Return the weights for calls of these ranks: each outweighs the sum of all lower ones over all pairs."""
    import numpy as np  # noqa: PLC0415 — imported with the solver

    n, m = len(rows), len(columns)
    rank_weight = n * (3 * m * m + m) + 1
    distance = np.arange(m) - np.arange(n)[:, None]
    # Squares avoid crossed pairs, to which a sum of distances is indifferent; at equal distance the earlier call wins.
    ties = rank_weight * (np.array(rows)[:, None] - np.array(columns)) ** 2.0 + 3 * distance**2 + distance
    doubt = float(rank_weight * (n * max(n, m) ** 2 + 1))
    excused = doubt * (n * undecided + 1)
    decided = excused * (n + 1)
    actual = decided * (n * undecided + 1)
    return _Digits(actual - ties, excused - ties, actual * _DENOMINATOR, decided, doubt)


_cached_digits = lru_cache(maxsize=256)(_digits)


#: The expectation; the actual calls that count, in order; their pairs with required and optional expected calls, in
#: order of the actual calls; the indices of the unpaired calls, and of the calls whose arguments or results were not
#: recorded; the calls that returned an error. A plain tuple, because one is created for every turn. `SortedCalls` names
#: the items.
RawCalls: TypeAlias = tuple[
    CompiledExpectation, Sequence[ActualCall], list[Pair], Sequence[int], Sequence[int], Sequence[ActualCall]
]


class Agreement(NamedTuple):
    """The agreement of the parameters of an actual call, in [0, 1], and the differing parameters."""

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
        """Return a `Pair` with named fields."""
        index, expected, score, invalid = pair
        return cls(actual_index=index, expected=expected, agreement=Agreement(score, tuple(invalid)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedCalls:
    """The calls of a scope, classified under one expectation.

    `actual` are the calls that count, in order; `errored` the calls that returned an error. `pairs` are the pairs of
    required calls, `excused` the pairs of optional ones, in order of the actual calls. `extra` are the indices in
    `actual` of the unpaired calls, each with the rule for extra calls of its tool. `forbidden` are the indices of the
    calls that are forbidden by name.
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
        """Return `RawCalls` with named fields."""
        expectation, actual, pairs, extra, _, errored = raw
        return cls(
            expectation=expectation,
            actual=actual,
            errored=errored,
            pairs=[PairedCall.of(pair) for pair in pairs if pair[1].required],
            excused=[PairedCall.of(pair) for pair in pairs if not pair[1].required],
            extra=[(index, expectation.extra_rule(actual[index].call.name)) for index in extra],
            forbidden=[index for index, entry in enumerate(actual) if expectation.forbids(entry.call.name)],
        )


def sorted_calls(expectation: CompiledExpectation, calls: Sequence[ActualCall]) -> SortedCalls:
    """Return the result of `sort_calls` without verdicts, with named fields; cached, because several evaluators use it."""
    return _sorted_calls(SameObject(expectation), SameObject(calls))


@lru_cache(maxsize=_CACHED_SCOPES)
def _sorted_calls(expectation: SameObject[CompiledExpectation], calls: SameObject[Sequence[ActualCall]]) -> SortedCalls:
    return SortedCalls.of(sort_calls(expectation.item, calls.item))


def sort_calls(  # noqa: C901 — runs for every turn: each further function would add a tenth to its time
    expectation: CompiledExpectation, calls: Sequence[ActualCall], verdicts: ToolVerdicts = NO_VERDICTS
) -> RawCalls:
    """Return the calls of a scope, which are in order of location, classified under an expectation.

    Calls of kind `tool` count at any depth; a transfer, or an agent used as a tool, counts only if the expectation
    names it. A call that returned an error counts only if the rules count errors.
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
            # Most turns have no such call, so a single pass suffices for them.
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
    """Return the calls that count, the calls that returned an error, and the indices of incompletely recorded calls."""
    counted = [call for call in calls if call.call.kind == "tool" or _is_named(expectation, call.call.name)]
    errored = [entry for entry in counted if entry.call.error is not None]
    actual = counted if expectation.rules.count_errors else [entry for entry in counted if entry.call.error is None]
    return actual, errored, [index for index, entry in enumerate(actual) if not _is_recorded(entry.call)]


def _indices(expected_names: Container[str], actual: Sequence[ActualCall]) -> tuple[dict[str, list[int]], list[int]]:
    """Return the indices of the calls of each expected name, and those of all other calls."""
    indices: dict[str, list[int]] = {}
    for position, entry in enumerate(actual):
        if entry.call.name in expected_names:
            indices.setdefault(entry.call.name, []).append(position)
    return indices, [position for position, entry in enumerate(actual) if entry.call.name not in expected_names]


def _is_named(expectation: CompiledExpectation, tool_name: str) -> bool:
    return tool_name in expectation.named or expectation.forbids(tool_name)


def _is_recorded(call: ToolCall) -> bool:
    return call.arguments is not None and (call.result_captured or call.error is not None)


class Misplaced(NamedTuple):
    """An actual call, by index, that is out of order: `belongs` is its expected position, `position` its actual one.

    In order `exact` both are group numbers, starting at 1. In order `relative`, `belongs` is "after" or "before"
    followed by the name of a call in the right position, and `position` is None.
    """

    actual_index: int
    expected: CompiledCall
    belongs: str | int
    position: int | None


def misplaced(actual: Sequence[ActualCall], pairs: Sequence[Pair], order: Order) -> list[Misplaced]:
    """Return the pairs of required calls that are out of order, in actual order.

    In order `relative` these are the pairs outside a longest subsequence of actual calls whose expected groups never
    decrease. In order `exact` these are the pairs whose rank among the paired calls differs from their group. Calls of
    one actual step count as being in the expected order.

    Args:
        actual: the actual calls, in order.
        pairs: the pairs of required calls, in order of the actual calls.
        order: the order that the expectation requires.
    """
    if order == "any" or not pairs:
        return []
    return _out_of_rank(actual, pairs) if order == "exact" else _outside_longest_subsequence(actual, pairs)


def _out_of_rank(actual: Sequence[ActualCall], pairs: Sequence[Pair]) -> list[Misplaced]:
    results: list[Misplaced] = []
    rank, turn_index, step = 0, -1, -1
    for index, expected, _, _ in pairs:
        entry = actual[index]
        if entry.call.step != step or entry.turn_index != turn_index:
            rank, turn_index, step = rank + 1, entry.turn_index, entry.call.step
        if rank != expected.group:
            results.append(Misplaced(index, expected, expected.group, rank))
    return results


def _outside_longest_subsequence(actual: Sequence[ActualCall], pairs: Sequence[Pair]) -> list[Misplaced]:
    calls: list[tuple[int, int, int, int, CompiledCall]] = []
    for position, expected, _, _ in pairs:
        entry = actual[position]
        calls.append((entry.turn_index, entry.call.step, expected.group, position, expected))
    calls.sort()
    retained = longest_non_decreasing([call[2] for call in calls])
    retained_indices = set(retained)
    expected_calls = [call[4] for call in calls]
    results = [
        Misplaced(call[3], call[4], _belongs(expected_calls, retained, index), None)
        for index, call in enumerate(calls)
        if index not in retained_indices
    ]
    return sorted(results)


def _belongs(calls: Sequence[CompiledCall], retained: Sequence[int], index: int) -> str:
    """Return "before" or "after" and the name of a call of the subsequence, where the call at `index` belongs.

    Such a call exists, because otherwise the subsequence would be longer. Among several the nearest is named.
    """
    group = calls[index].group
    before = [calls[other].name for other in retained if other < index and calls[other].group > group]
    after = [calls[other].name for other in retained if other > index and calls[other].group < group]
    return f"before {before[0]}" if before else f"after {after[-1]}"


def longest_non_decreasing(values: Sequence[int]) -> list[int]:
    """Return the indices of a longest non-decreasing subsequence.

    Ref: C. Schensted (1961), Longest increasing and decreasing subsequences; here with ties allowed.

    >>> longest_non_decreasing([3, 1, 2, 2, 1])
    [1, 2, 3]
    """
    tails: list[int] = []
    tail_indices: list[int] = []
    predecessors: list[int] = []
    for index, value in enumerate(values):
        length = bisect_right(tails, value)
        predecessors.append(tail_indices[length - 1] if length else -1)
        if length == len(tails):
            tails.append(value)
            tail_indices.append(index)
        else:
            tails[length], tail_indices[length] = value, index
    retained: list[int] = []
    index = tail_indices[-1] if tail_indices else -1
    while index >= 0:
        retained.append(index)
        index = predecessors[index]
    return retained[::-1]
