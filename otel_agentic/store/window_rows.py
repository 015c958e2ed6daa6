"""A window table as rows of `windows`: one for each point, estimator and k."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson

from otel_agentic.windows.kinds import unique_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from otel_agentic.stats import GroupedEstimates
    from otel_agentic.windows.columns import Tallies, WindowTable

    FloatArray = npt.NDArray[np.float64]
    Columns = dict[str, np.ndarray[Any, Any]]

_GROUP: Final = ("agent", "agent_version", "environment", "service", "tag")
_ENDS_OF: Final = ("", "_lower", "_upper")


def rows_of(table: WindowTable) -> Columns:
    """Return the rows as columns, by point, then estimator, then k; texts are objects, NaN stands for null."""
    points, estimates = table.tallies.size, list(table.estimates.values())
    each = len(estimates) * len(table.k)
    by_point = {name: np.repeat(values, each) for name, values in _by_point(table).items()}
    return {
        **by_point,
        "k": np.tile(np.array(table.k, dtype=np.int64), points * len(estimates)),
        "estimator": np.tile(np.repeat(_objects(list(table.estimates)), len(table.k)), points),
        "level": np.tile(np.repeat(np.array([found.level for found in estimates]), len(table.k)), points),
        "interval_method": np.repeat(
            _interleaved([_objects(found.interval_methods) for found in estimates]), len(table.k)
        ),
        **_numbers(estimates, "pass_at_k"),
        **_numbers(estimates, "pass_pow_k"),
    }


def _by_point(table: WindowTable) -> Columns:
    tallies = table.tallies
    missing = tallies.not_evaluated.sum(axis=1)
    everything = tallies.n + missing  # never 0: an empty window has no point
    return {
        **{name: _objects([getattr(key, name) for key in tallies.groups])[tallies.group] for name in _GROUP},
        "window": _objects(tallies.windows)[tallies.window],
        "end": tallies.end_ns,
        "n": tallies.n,
        "c": tallies.c,
        "effective_n": table.effective_n,
        "not_evaluated": _reasons(tallies),
        "coverage": tallies.n / everything,
        "lower_bound": tallies.c / everything,
        "upper_bound": (tallies.c + missing) / everything,
        "tier": _objects(table.tier),
        "leaning": _objects(table.leaning),
    }


def _reasons(tallies: Tallies) -> np.ndarray[Any, Any]:
    """Return the not evaluated of each point as JSON, made once for each combination."""
    if not tallies.reasons:
        return _objects(["{}"] * tallies.size)
    first, which = unique_rows(list(tallies.not_evaluated.T))
    texts = [
        orjson.dumps({name: count for name, count in zip(tallies.reasons, counts, strict=True) if count}).decode()
        for counts in tallies.not_evaluated[first].tolist()
    ]
    return _objects(texts)[which]


def _numbers(estimates: Sequence[GroupedEstimates], name: str) -> Columns:
    """Return value, lower and upper bound of one rate, in the order of the rows."""
    stacked = np.stack([getattr(found, name) for found in estimates], axis=1)
    return {f"{name}{end}": stacked[..., place].reshape(-1) for place, end in enumerate(_ENDS_OF)}


def _interleaved(columns: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    return np.stack(columns, axis=1).reshape(-1)


def _objects(values: Sequence[Any]) -> np.ndarray[Any, Any]:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array
