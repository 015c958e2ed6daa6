"""Functions that make much of little, bounded for SQL of people.

DuckDB counts the memory of tables and sorts against its limit, not that of a value under way, and an interrupt waits for the
end of a call: `range(1000000000)` as one value takes 20 GB. Each such function gets a macro of its name before it, on the
connection of the query alone, that refuses what is too long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: Characters of a text, or elements of a list, that one call may make; 2,048 of them are under way at once.
MOST: Final = 10_000
#: Product of the lengths of two texts that one call may compare.
MOST_COMPARED: Final = 1_000_000
_SERIES: Final = ("range", "generate_series")
_COMPARISONS: Final = ("levenshtein", "editdist3", "damerau_levenshtein", "jaro_similarity", "jaro_winkler_similarity")
_RESIZED: Final = ("list_resize", "array_resize")
_PADDED: Final = ("lpad", "rpad")


def bound_functions(con: DuckDBPyConnection) -> None:
    """Put the bounded functions before DuckDB's own, for this connection; it must be in no transaction."""
    con.execute(_MACROS)


def _at_most(size: str, most: int, argument: str, told: str) -> str:
    """Return an argument that is an error where a size is too much.

    It stands inside the call: the optimizer may make a call ahead, whatever stands around it.
    """
    return f"CASE WHEN coalesce({size}, 0) <= {most} THEN {argument} ELSE error('{told}') END"


def _macro(name: str, *overloads: tuple[str, str]) -> str:
    bodies = ", ".join(f"({parameters}) AS system.main.{name}({made})" for parameters, made in overloads)
    return f"CREATE OR REPLACE TEMP MACRO {name}{bodies};"


def _series(name: str) -> str:
    told = f"{name}: more than {MOST} elements in one list; FROM {name}(...) makes rows instead"
    apart = [_number("b"), _number("a"), _number("c")]
    between = f"{apart[0]} - {apart[1]}"
    moments = "epoch(try_cast(b::VARCHAR AS TIMESTAMP)) - epoch(try_cast(a::VARCHAR AS TIMESTAMP))"
    step = "epoch(try_cast(c::VARCHAR AS INTERVAL))"
    unknown = "CASE WHEN a IS NULL OR b IS NULL OR c IS NULL THEN 0 ELSE 1e9 END"
    stepped = f"coalesce(abs(({between}) / nullif({apart[2]}, 0)), abs(({moments}) / nullif({step}, 0)), {unknown})"
    return _macro(
        name,
        ("a", _at_most("a", MOST, "a", told)),
        ("a, b", f"a, {_at_most('b - a', MOST, 'b', told)}"),
        ("a, b, c", f"a, b, {_at_most(stepped, MOST, 'c', told)}"),
    )


def _number(name: str) -> str:
    return f"try_cast({name}::VARCHAR AS DOUBLE)"


def _repeat() -> str:
    told = f"repeat: more than {MOST} characters or elements"
    size = "length(s)::DOUBLE * n"
    return _macro("repeat", ("s, n", f"s, {_at_most(size, MOST, 'n', told)}"))


def _padded(name: str) -> str:
    return _macro(name, ("s, n, p", f"s, {_at_most('n', MOST, 'n', f'{name}: more than {MOST} characters')}, p"))


def _resized(name: str) -> str:
    made = _at_most("n", MOST, "n", f"{name}: more than {MOST} elements")
    return _macro(name, ("l, n", f"l, {made}"), ("l, n, d", f"l, {made}, d"))


def _compared(name: str) -> str:
    told = f"{name}: texts too long to compare; take left(text, 1000)"
    made = _at_most("length(a)::DOUBLE * length(b)", MOST_COMPARED, "b", told)
    overloads = [("a, b", f"a, {made}")]
    if name.startswith("jaro"):
        overloads.append(("a, b, c", f"a, {made}, c"))
    return _macro(name, *overloads)


_MACROS: Final = "\n".join(
    (
        *map(_series, _SERIES),
        _repeat(),
        *map(_padded, _PADDED),
        *map(_resized, _RESIZED),
        *map(_compared, _COMPARISONS),
    )
)
