"""How large a statement is to DuckDB: planning is not interrupted, and takes longer than any limit where much is joined."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_agentic.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Tables that a statement reads, each time that it names one, with what its WITH clauses stand for put in place.
#: Measured on an idle core: a join of 200 is planned in 3 s, of 400 in 18 s.
MOST_TABLES: Final = 200
#: Parts of a name such as a.b.c; one of 6,000 takes 20 s.
_MOST_PARTS: Final = 50
#: A NATURAL JOIN compares the columns of all tables before it: one of 100 tables took 110 s to plan. It counts as so many.
_NATURAL: Final = 10
#: What is joined.
_TABLES: Final = frozenset({"BASE_TABLE", "TABLE_FUNCTION", "SUBQUERY", "EXPRESSION_LIST"})


def require_plannable(parsed: Any) -> None:
    """Return if a parsed statement is planned in seconds.

    Raises:
        QueryError: it is not; says what is too much.
    """
    for node in nodes(parsed):
        names = node.get("column_names")
        if isinstance(names, list) and len(names) > _MOST_PARTS:
            raise QueryError(f"a name of {len(names):,} parts; allowed: {_MOST_PARTS}")
    try:
        count = _Counts(parsed).count(parsed)
    except RecursionError as error:
        raise QueryError("the statement has too many WITH clauses on top of each other") from error
    if count > MOST_TABLES:
        told = f"{count:,}" if count < 10 * MOST_TABLES else f"more than {10 * MOST_TABLES:,}"
        raise QueryError(f"the statement reads {told} tables, its WITH clauses put in place; allowed: {MOST_TABLES}")


def ctes_of(parsed: Any) -> Iterator[tuple[str, Any]]:
    """Yield (name, query) of the WITH clauses in a parsed statement."""
    for node in nodes(parsed):
        for entry in (node.get("cte_map") or {}).get("map") or ():
            yield str(entry.get("key")), entry.get("value")


def nodes(parsed: Any, *, skip: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield every object of a parsed statement; a loop, for a statement may be nested deeper than calls can be.

    Args:
        parsed: the statement, or a part of it.
        skip: a key whose value is left out.
    """
    waiting = [parsed]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting.extend(each for key, each in value.items() if key != skip)
        elif isinstance(value, list):
            waiting.extend(value)


def kind_of(node: Mapping[str, Any]) -> str:
    """Return what a part of a statement is, as the parser calls it; that of a constant is none of ours."""
    kind = node.get("type")
    return kind if isinstance(kind, str) else ""


class _Counts:
    """Counts tables. Where two WITH clauses have one name, the larger counts."""

    def __init__(self, parsed: Any) -> None:
        self._queries: dict[str, list[Any]] = {}
        for name, query in ctes_of(parsed):
            self._queries.setdefault(name.lower(), []).append(query)
        self._counts: dict[str, int] = {}

    def count(self, parsed: Any) -> int:
        """Return how many tables a part of the statement reads."""
        found = 0
        for node in nodes(parsed, skip="cte_map"):
            if kind_of(node) in _TABLES:
                found += self._of(str(node.get("table_name") or "").lower())
            elif node.get("ref_type") == "NATURAL":
                found += _NATURAL
        return found

    def _of(self, name: str) -> int:
        if name not in self._counts:
            self._counts[name] = 1  # a recursive one names itself
            found = [self.count(query) for query in self._queries.get(name, ())]
            self._counts[name] = min(max([1, *found]), 100 * MOST_TABLES)
        return self._counts[name]
