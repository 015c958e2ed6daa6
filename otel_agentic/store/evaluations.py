"""Evaluations by name: several coexist, and a connection shows one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_agentic.errors import UsageError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: The evaluation that commands show by default, and the only one that windows, monitors and events follow.
DEFAULT: Final = "default"
#: Whether a row of scores, `s`, belongs to the evaluation that a connection shows: `s.{IN_EVALUATION}`, as in the views.
IN_EVALUATION: Final = f"evaluation = coalesce(getvariable('evaluation'), '{DEFAULT}')"
_SHOW: Final = "SET VARIABLE evaluation = $name"
_NAMES: Final = "SELECT DISTINCT evaluation FROM evaluations ORDER BY evaluation"


def show(con: DuckDBPyConnection, name: str) -> None:
    """Make the queries and views of a connection show the scores of one evaluation."""
    con.execute(_SHOW, {"name": name})


def evaluation_names(con: DuckDBPyConnection) -> list[str]:
    """Return the names of the evaluations in the store."""
    return [str(name) for (name,) in con.execute(_NAMES).fetchall()]


def require_evaluation(con: DuckDBPyConnection, name: str) -> None:
    """Check that the store has an evaluation with this name; `default` always exists.

    Raises:
        UsageError: it does not exist; lists those that do.
    """
    known = {DEFAULT, *evaluation_names(con)}
    if name not in known:
        raise UsageError(
            f"unknown evaluation {name!r}; this store has {', '.join(sorted(known))} "
            f"(`otel-agentic evaluate --evaluation {name}` adds it)"
        )
