"""Which made call answers which expected call: an optimal one-to-one pairing, by name.

In this order: as many required calls as possible, the greatest agreement of their arguments, the fewest parameters that
only a judge could compare, the most optional calls that agree in full, ranks among the calls of the name as close as
possible, the earlier call. Calls of one step share a rank. So nothing depends on the order of a list or on a hash seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from otel_agentic.scoring.compiled import CompiledCall

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np

    from otel_agentic.scoring.compiled import CompiledName
    from otel_agentic.scoring.made import MadeCall
    from otel_agentic.scoring.opinions import Opinions

#: The place of a made call, the expected call that it answers, how far they agree (see `Parameters.compare`), what is wrong.
Pair: TypeAlias = tuple[int, CompiledCall, float, Sequence[str]]

Values: TypeAlias = "np.ndarray[tuple[int, int], np.dtype[np.float64]]"

#: Agreements are fractions: over this number, those of calls of up to 16 parameters are whole.
_DENOMINATOR: Final = math.lcm(*range(1, 17))
#: Sums of them that are closer than this are equal.
_ROUNDING: Final = 1e-9
#: Cells of a table that is worth keeping for the next calls of such ranks.
_KEPT_SIZE: Final = 100


def pair_calls(
    expected: CompiledName, made: Sequence[MadeCall], places: Sequence[int], opinions: Opinions
) -> list[Pair]:
    """Return the optimal pairing of the calls of one name, in no order; an optional call is paired only in full.

    Args:
        expected: the expected calls of the name.
        made: all made calls, in order of their place.
        places: which of them have the name.
        opinions: of a judge, on parameters.
    """
    those = [made[place] for place in places]
    known: dict[int, list[float]] = {}
    if not expected.judged and len(expected.calls) <= len(places):
        pairs = _in_turn(expected.calls, those, places, known)
        if pairs is not None:
            return pairs
    return _optimal(expected, those, places, opinions, known)


def _in_turn(
    expected: Sequence[CompiledCall], made: Sequence[MadeCall], places: Sequence[int], known: dict[int, list[float]]
) -> list[Pair] | None:
    """Return the calls paired one after the other where that is plainly optimal, else None.

    It is where none of the expected calls agrees better with another made one, so that no sum can be greater, and where no
    ranks could be closer: an expected call that has a rank meets a made one of it. Scores that had to be found are left in
    `known`, by expected call.
    """
    pairs: list[Pair] = []
    step = None
    for rank, one in enumerate(expected):
        other, parameters = made[rank], one.parameters
        if one.rank and (one.rank != rank or (other.turn_index, other.call.step) == step):
            return None
        step = other.turn_index, other.call.step
        if other.call.arguments == parameters.alike:
            pairs.append((places[rank], one, 1.0, ()))
            continue
        score, wrong = parameters.compare(other)
        if score < 1.0:
            known[rank] = parameters.scores(made)
            if not one.required or max(known[rank]) > score:
                return None
        pairs.append((places[rank], one, score, wrong))
    return pairs


def _optimal(
    expected: CompiledName,
    made: Sequence[MadeCall],
    places: Sequence[int],
    opinions: Opinions,
    known: Mapping[int, list[float]],
) -> list[Pair]:
    calls = expected.calls
    scores = [known.get(row) or one.parameters.scores(made, opinions) for row, one in enumerate(calls)]
    undecided = None
    if expected.judged:
        undecided = [[one.parameters.undecided(other, opinions) for other in made] for one in calls]
    ranks = _ranks(made) if calls[-1].rank else range(len(made))
    pairs: list[Pair] = []
    for row, column in _best(expected, scores, undecided, ranks):
        one, other = calls[row], made[column]
        if scores[row][column] == 1.0:
            pairs.append((places[column], one, 1.0, ()))
        elif one.required:
            # Not an optional call: a solver without a better use pairs one that does not agree all the same.
            pairs.append((places[column], one, *one.parameters.compare(other, opinions)))
    return pairs


def _ranks(made: Sequence[MadeCall]) -> tuple[int, ...]:
    """Return the rank of each made call: its place, that of the first where several share a step."""
    steps = [(one.turn_index, one.call.step) for one in made]
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
    """Return what each pair is worth: the goals as digits of one number, the most important first.

    float64 holds such numbers well enough up to 2^53, for some 15 calls of one name; past that only the last digits, the
    ties, blur.
    """
    import numpy as np  # noqa: PLC0415 — with the solver

    n, given = len(scores), np.array(scores)
    most = 0 if undecided is None else max(map(max, undecided))
    digits = (_kept_digits if given.size <= _KEPT_SIZE else _digits)(expected.ranks, ranks, most)
    values = digits.made + digits.agreeing * given
    if undecided is not None:
        values -= digits.decided * np.array(undecided)
    if expected.times < n:
        excused = digits.excused if undecided is None else digits.excused - digits.doubt * np.array(undecided)
        optional = [not call.required for call in expected.calls]
        values[optional] = np.where(given == 1.0, excused, 0.0)[optional]
    return values


@cache
def _solver() -> Callable[..., Any]:
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 — slow to import, and few names repeat

    solver: Callable[..., Any] = linear_sum_assignment
    return solver


class _Digits(NamedTuple):
    """What counts how much.

    That a pair is `made` at all, or an optional call `excused`, both less how far apart their ranks are; agreement in full;
    a parameter that only a judge could compare, of a required call (`decided`) or of an optional one (`doubt`).
    """

    made: Values
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
    made = decided * (n * undecided + 1)
    return _Digits(made - ties, excused - ties, made * _DENOMINATOR, decided, doubt)


_kept_digits = lru_cache(maxsize=256)(_digits)
