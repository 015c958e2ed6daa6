"""User SQL: the check of a statement, and the process that runs it under limits.

The process opens a snapshot read-only and can be killed at any moment. It imports as little as possible, because it is
started for every query. Two more layers protect the store: the check of the parsed statement, and a hardened DuckDB in
a read-only transaction.
"""

from __future__ import annotations

import difflib
import os
import posixpath
import re
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, NoReturn

import duckdb
import orjson

from otel_agentic.errors import OtelAgenticError, QueryError
from otel_agentic.store.connection import DEFAULT, open_database, require_evaluation, show, to_json_value
from otel_agentic.store.maintenance.migrations import require_current
from otel_agentic.store.queries.user_queries import OUT_OF_MEMORY, REFUSED, QueryLimits, Request

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# Only these operators and functions are allowed: functions that a newer DuckDB adds are refused until they are listed.
# A test compares the lists with the installed DuckDB and fails for a function that is not yet classified.
_OPERATORS: Final = (
    "!= !__postfix !~~ !~~* % & && * ** + - ->> -> / // < <-> << <= <=> <@ = > >= >> @ @> ^ ^@ | || ~ ~~ ~~* ~~~"
)
#: These functions compute from their arguments, a clock or randomness; they read no file, setting or other session.
_VALUES: Final = """
    unnest abs acos acosh add age aggregate ago any_value apply approx_count_distinct approx_quantile approx_top_k
    arbitrary arg_max arg_max_null arg_max_nulls_last arg_min arg_min_null arg_min_nulls_last argmax argmin
    array_agg array_aggr array_aggregate array_append array_apply array_cat array_concat array_contains
    array_cosine_distance array_cosine_similarity array_cross_product array_distance array_distinct
    array_dot_product array_extract array_filter array_grade_up array_has array_has_all array_has_any array_indexof
    array_inner_product array_intersect array_length array_negative_dot_product array_negative_inner_product
    array_pop_back array_pop_front array_position array_prepend array_push_back array_push_front array_reduce
    array_resize array_reverse array_reverse_sort array_select array_slice array_sort array_to_json array_to_string
    array_to_string_comma_default array_transform array_unique array_value array_where array_zip ascii asin asinh
    atan atan2 atanh avg bar base64 bin binom bit_and bit_count bit_length bit_or bit_position bit_xor bool_and
    bool_or cardinality cbrt ceil ceiling century char_length character_length chr col_description concat concat_ws
    contains corr cos cosh cot count count_if count_star countif covar_pop covar_samp cume_dist current_catalog
    current_database current_date current_localtime current_localtimestamp current_schema damerau_levenshtein
    date_add date_diff date_part date_sub date_trunc datediff datepart datesub datetrunc day dayname dayofmonth
    dayofweek dayofyear days_in_month decade decimal_average decimal_division decode degrees dense_rank divide
    editdist3 element_at encode ends_with entropy enum_code enum_first enum_last enum_range enum_range_boundary
    epoch epoch_ms epoch_ns epoch_us equi_width_bins era even exp factorial favg fdiv fill filter first first_value
    flatten floor fmod format_bytes format_type formatreadabledecimalsize formatreadablesize from_base64 from_binary
    from_hex from_json from_json_strict fsum gamma gcd gen_random_uuid generate_series generate_subscripts geomean
    geometric_mean get_bit get_current_time get_current_timestamp grade_up greatest greatest_common_divisor
    group_concat hamming hash hex histogram histogram_exact hive_partition_component hour if ilike_escape instr
    isfinite isinf isnan isodow isoyear jaccard jaro_similarity jaro_winkler_similarity json json_array
    json_array_length json_contains json_deep_merge json_exists json_extract json_extract_path
    json_extract_path_text json_extract_string json_group_array json_group_object json_group_structure json_insert
    json_keys json_merge_patch json_merge_patch_diff json_normalize json_object json_quote json_remove
    json_replace json_set json_strip_nulls json_structure json_transform json_transform_strict json_type json_valid
    json_value julian kahan_sum kurtosis kurtosis_pop lag last last_day last_value lcase lcm lead least
    least_common_multiple left left_grapheme len length length_grapheme levenshtein lgamma like_escape list
    list_aggr list_aggregate list_any_value list_append list_apply list_approx_count_distinct list_avg list_bit_and
    list_bit_or list_bit_xor list_bool_and list_bool_or list_cat list_concat list_contains list_cosine_distance
    list_cosine_similarity list_count list_distance list_distinct list_dot_product list_element list_entropy
    list_extract list_filter list_first list_grade_up list_has list_has_all list_has_any list_histogram list_indexof
    list_inner_product list_intersect list_kurtosis list_kurtosis_pop list_last list_mad list_max list_median
    list_min list_mode list_negative_dot_product list_negative_inner_product list_pack list_position list_prepend
    list_product list_reduce list_resize list_reverse list_reverse_sort list_select list_sem list_skewness
    list_slice list_sort list_stddev_pop list_stddev_samp list_string_agg list_sum list_transform list_unique
    list_value list_var_pop list_var_samp list_where list_zip listagg ln log log10 log2 lower lpad ltrim lttb mad
    make_date make_time make_timestamp make_timestamp_ms make_timestamp_ns make_timestamptz map map_concat
    map_contains map_contains_entry map_contains_value map_entries map_extract map_extract_value map_from_entries
    map_keys map_values max max_by md5 md5_number md5_number_lower md5_number_upper mean median microsecond
    millennium millisecond min min_by minute mismatches mod mode month monthname multiply nanosecond nextafter
    nfc_normalize normalized_interval not_ilike_escape not_like_escape now nth_value ntile nullif obj_description
    octet_length ord overlay parse_dirname parse_dirpath parse_filename parse_formatted_bytes parse_path path_join
    percent_rank pg_size_pretty pg_typeof pi position pow power prefix product quantile quantile_cont quantile_disc
    quarter radians random range rank rank_dense reduce regexp_escape regexp_extract regexp_extract_all
    regexp_full_match regexp_matches regexp_replace regexp_split_to_array regexp_split_to_table regr_avgx regr_avgy
    regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy repeat replace reservoir_quantile
    reverse right right_grapheme round round_even roundbankers row row_number row_to_json rpad rtrim second sem
    set_bit sha1 sha256 shobj_description sign signbit sin sinh skewness split split_part sqrt starts_with stddev
    stddev_pop stddev_samp str_split str_split_regex strftime string_agg string_split string_split_regex
    string_to_array strip_accents strlen strpos strptime struct_concat struct_contains struct_extract
    struct_extract_at struct_has struct_indexof struct_insert struct_keys struct_pack struct_position struct_update
    struct_values substr substring substring_grapheme subtract suffix sum sum_no_overflow sumkahan switch tan tanh
    time_bucket timezone timezone_hour timezone_minute to_base to_base64 to_binary to_centuries to_days to_decades
    to_hex to_hours to_json to_microseconds to_millennia to_milliseconds to_minutes to_months to_quarters to_seconds
    to_timestamp to_weeks to_years today transaction_timestamp translate trim trunc try_strptime typeof ucase unbin
    unhex unicode union_extract union_tag union_value unpivot_list upper url_decode url_encode uuid
    uuid_extract_timestamp uuid_extract_version uuidv4 uuidv7 var_pop var_samp variance version vertex_extract wavg week
    weekday weekofyear weighted_avg xor year yearweek
"""
#: These functions return rows computed from their arguments, or from the catalog of the store.
_TABLES: Final = """
    range generate_series unnest repeat repeat_row json_each json_tree histogram histogram_values summary
    duckdb_columns duckdb_constraints duckdb_indexes duckdb_keywords duckdb_schemas duckdb_tables duckdb_types
    duckdb_views duckdb_functions pg_timezone_names
"""
#: Functions that read files; only the folder of exports has files.
PARQUET_READERS: Final = frozenset({"read_parquet", "parquet_scan"})

#: Functions allowed in place of a value, in lower case.
VALUES: Final = frozenset({*_OPERATORS.split(), *_VALUES.split(), "is distinct from", "is not distinct from"})
#: Functions allowed in place of a table, in lower case.
TABLES: Final = frozenset(_TABLES.split()) | PARQUET_READERS
#: Views and tables of the database system that describe the store's tables, by schema, without paths and settings.
SYSTEM_VIEWS: Final = {
    "information_schema": frozenset(
        {
            "columns",
            "constraint_column_usage",
            "key_column_usage",
            "schemata",
            "table_constraints",
            "tables",
            "views",
        }
    ),
    "pg_catalog": frozenset(
        {"pg_attribute", "pg_class", "pg_description", "pg_namespace", "pg_tables", "pg_type", "pg_views"}
    ),
    "main": frozenset(
        {
            "duckdb_columns",
            "duckdb_constraints",
            "duckdb_indexes",
            "duckdb_schemas",
            "duckdb_tables",
            "duckdb_types",
            "duckdb_views",
            "sqlite_master",
            "sqlite_schema",
        }
    ),
}


_KINDS: Final = frozenset({duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN})
#: Parts of a statement that read. All others are refused, such as `WITH deleted AS (DELETE …)` and unknown kinds.
_NODES: Final = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
_NODE: Final = re.compile(r"\w+_NODE")
#: The part before the statement that EXPLAIN explains.
_EXPLAIN: Final = re.compile(
    r"\s*EXPLAIN\b(\s+ANALYZE\b)?(\s*\(\s*\w+(\s+\w+)?(\s*,\s*\w+(\s+\w+)?)*\s*\))?", re.IGNORECASE
)
_PARSED: Final = "SELECT json_serialize_sql($sql::VARCHAR)"
_RELATIONS: Final = """
SELECT lower(view_name), internal FROM duckdb_views()
UNION ALL
SELECT lower(table_name), internal FROM duckdb_tables()
"""
#: The largest length of a statement: a longer one is not written by a person, and keeps the parser busy.
MAX_CHARACTERS: Final = 50_000


class Used(NamedTuple):
    """A name that a statement uses: of a "value" or "table" function, or of a "relation", which may be a file."""

    kind: str
    name: str
    schema: str = ""
    paths: tuple[str, ...] | None = ()


def check_statement(
    con: DuckDBPyConnection, sql: str, *, hidden: AbstractSet[str] = frozenset(), folder: Path | None = None
) -> duckdb.Statement:
    """Return the only statement in a text, if it is a SELECT, or an EXPLAIN of one, that uses only allowed names.

    The names are read from DuckDB's own parse of the statement, so quotes, comments and spelling hide nothing.

    Args:
        con: a connection to the store.
        sql: the text.
        hidden: tables that no user may read, in lower case.
        folder: the folder whose Parquet files may be read; None allows no file.

    Raises:
        QueryError: the statement is not allowed; the message names the reason.
    """
    if len(sql) > MAX_CHARACTERS:
        raise QueryError(f"the statement has {len(sql):,} characters; allowed: {MAX_CHARACTERS:,}")
    try:
        statements = con.extract_statements(sql)
        kinds = [statement.type for statement in statements]
    except duckdb.Error as error:
        raise QueryError(f"not SQL: {str(error).rstrip()}") from error
    except (ValueError, TypeError) as error:  # a kind of statement unknown to Python; a lone surrogate
        raise QueryError("not a statement that can be run here; give exactly one SELECT") from error
    if len(statements) != 1:
        raise QueryError(f"{len(statements)} statements; give exactly one SELECT")
    (statement,) = statements
    if statement.type not in _KINDS:
        kind = kinds[0].name
        raise QueryError(f"{kind} is not allowed: the store is read with SELECT or EXPLAIN, and changed by commands")
    parsed = _parsed(con, statement)
    _require_reading(parsed)
    relations = con.execute(_RELATIONS).fetchall()
    allowed = {name for name, internal in relations if not internal} - hidden
    reserved = {name for name, internal in relations if internal} | hidden
    for name in _cte_names(parsed):
        _require_own_name(name, reserved)
        allowed.add(name.lower())
    for used in _used(parsed):
        _require_allowed(used, allowed, hidden, folder)
    return statement


def _parsed(con: DuckDBPyConnection, statement: duckdb.Statement) -> Any:
    """Return a SELECT, also one inside EXPLAIN, as parsed by DuckDB."""
    prefix = _EXPLAIN.match(statement.query) if statement.type == duckdb.StatementType.EXPLAIN else None
    text = statement.query[prefix.end() :] if prefix is not None else statement.query
    try:
        tree = orjson.loads(con.execute(_PARSED, {"sql": text}).fetchall()[0][0])
    except (duckdb.Error, orjson.JSONDecodeError) as error:  # the tree is too deep for DuckDB or orjson
        raise QueryError("the statement is nested too deeply, or holds what no text can") from error
    if tree.get("error") or not tree.get("statements"):
        raise QueryError("only SELECT, and EXPLAIN [ANALYZE] of one SELECT, can be run here")
    return tree["statements"]


def _require_reading(parsed: Any) -> None:
    for node in _nodes(parsed):
        kind = _kind_of(node)
        if _NODE.fullmatch(kind) and kind not in _NODES:
            statement = kind.removesuffix("_NODE").removesuffix("_QUERY")
            raise QueryError(f"{statement} is not allowed inside a SELECT: the store is read with SELECT or EXPLAIN")


def _require_own_name(name: str, reserved: AbstractSet[str]) -> None:
    """Refuse a WITH clause with a refused name: elsewhere in the statement, the name may refer to the refused table."""
    if name.lower() in reserved or not name.isidentifier():
        raise QueryError(f"WITH {name}: give it another name; allowed: letters, digits and _, no name of the system")


def _require_allowed(used: Used, relations: AbstractSet[str], hidden: AbstractSet[str], folder: Path | None) -> None:
    name = used.name.lower()
    if used.kind == "relation":
        _require_relation(used, relations, hidden, folder)
    elif name not in (VALUES if used.kind == "value" else TABLES):
        raise QueryError(f"function {used.name} is not allowed: queries may only call functions that compute values")
    elif name in PARQUET_READERS and not _in_folder(used.paths, folder):
        raise _file_refused(folder)


def _require_relation(used: Used, relations: AbstractSet[str], hidden: AbstractSet[str], folder: Path | None) -> None:
    name, schema = used.name.lower(), used.schema.lower()
    if name in hidden:
        raise QueryError(f"table {used.name} is not allowed: it holds what the store keeps to itself")
    if (name in relations and schema in {"", "main"}) or name in SYSTEM_VIEWS.get(schema or "main", ()):
        return
    if not schema and name in SYSTEM_VIEWS["pg_catalog"]:
        return
    if not schema and name.endswith(".parquet"):
        if _in_folder((used.name,), folder):
            return
        raise _file_refused(folder)
    similar = difflib.get_close_matches(name, relations, n=1)
    suggestion = f"did you mean {similar[0]}? " if similar else ""
    raise QueryError(
        f"the query failed: table {used.name} is not allowed or does not exist: {suggestion}SHOW TABLES lists them"
    )


def _file_refused(folder: Path | None) -> QueryError:
    if folder is None:
        return QueryError("queries read no files; the store exports none (retention.export)")
    return QueryError(f"queries read Parquet files of the export only: name them, as text, below {folder}")


def _in_folder(paths: Sequence[str] | None, folder: Path | None) -> bool:
    """Return whether all paths, as written in the statement, are inside a folder; the file system is not accessed."""
    if folder is None or not paths:
        return False
    base = str(folder)
    return all(path == posixpath.normpath(path) and path.startswith(f"{base}/") for path in paths)


def _cte_names(parsed: Any) -> Iterator[str]:
    """Yield the names of the WITH clauses in a parsed statement."""
    for node in _nodes(parsed):
        for entry in (node.get("cte_map") or {}).get("map") or ():
            yield str(entry.get("key"))


def _nodes(parsed: Any) -> Iterator[dict[str, Any]]:
    """Yield every object of a parsed statement, without recursion, because a statement may be nested very deeply."""
    waiting = [parsed]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


def _kind_of(node: Mapping[str, Any]) -> str:
    """Return the kind of a part of a statement, as the parser names it; "" for a constant."""
    kind = node.get("type")
    return kind if isinstance(kind, str) else ""


def _used(parsed: Any) -> Iterator[Used]:
    """Yield the names that a parsed statement uses."""
    called = {id(node["function"]) for node in _nodes(parsed) if _kind_of(node) == "TABLE_FUNCTION"}
    for node in _nodes(parsed):
        if isinstance(name := node.get("function_name"), str):
            kind = "table" if id(node) in called else "value"
            yield Used(kind, name, _schema(node), _paths(node) if kind == "table" else ())
        elif (name := _relation(node)) is not None:
            yield Used("relation", name, _schema(node))


def _relation(node: dict[str, Any]) -> str | None:
    """Return the name of the table, view or file that a part of a statement reads, or None."""
    kind, name = _kind_of(node), node.get("table_name")
    if kind == "SHOW_REF" and _is_special(node):
        return None
    return name if kind in {"BASE_TABLE", "SHOW_REF"} and isinstance(name, str) and name else None


def _is_special(node: dict[str, Any]) -> bool:
    """Return whether a SHOW lists the tables instead of describing one."""
    return node.get("show_type") == "SHOW_SPECIAL" and node.get("table_name") in {'"tables"', "__show_tables_expanded"}


def _schema(node: dict[str, Any]) -> str:
    """Return the schema of a name; for a name with more parts, a schema that is not allowed."""
    catalog, schema = (str(node.get(f"{part}_name") or node.get(part) or "") for part in ("catalog", "schema"))
    path: Sequence[Any] = (node.get("qualified_name") or {}).get("path") or ()
    if catalog or len(path) > 2:  # noqa: PLR2004 — a schema and a name
        return "system"
    return schema or (str(path[0]) if len(path) > 1 else "")


def _paths(call: dict[str, Any]) -> tuple[str, ...] | None:
    """Return the paths passed to a reader of files, or None if they are not all literals."""
    arguments = [item.get("expression", item) for item in call.get("arguments") or call.get("children") or ()]
    if not arguments:
        return None
    first = arguments[0]
    if first.get("function_name") in {"list_value", "list_pack"}:
        parts = [item.get("expression", item) for item in first.get("arguments") or first.get("children") or ()]
    else:
        parts = [first]
    texts = [_text(part) for part in parts]
    return None if None in texts else tuple(text for text in texts if text is not None)


def _text(expression: dict[str, Any]) -> str | None:
    """Return the text of a text constant, None for anything else."""
    literal, value = expression.get("literal"), expression.get("value")
    if isinstance(literal, dict) and literal.get("kind") == "STRING":
        return str(literal.get("text"))
    if isinstance(value, dict) and (value.get("type") or {}).get("id") == "VARCHAR":
        return str(value.get("value"))
    return None


try:
    import resource
except ImportError:  # Windows: the parent process watches the memory
    resource = None  # type: ignore[assignment]


#: The first byte of the answer, white space in JSON: when it is written, the time limit of the query starts.
STARTED: Final = b" "
_MB: Final = 1_000_000
#: The niceness of a query's process, so that it yields to the collector.
_NICE: Final = 10
#: CPU seconds beyond the time limit: usually the parent kills the process earlier; this limit applies if the parent
#: died.
_CPU_SLACK_S: Final = 10
#: The largest number of rows fetched at once; the first fetch is one row, because a row may be large.
_MOST_FETCHED: Final = 4096
_SCALAR_BYTES: Final = 8
_STATM: Final = "/proc/self/statm"


def main() -> NoReturn:
    """Answer the request on standard input and exit. Nothing needs cleaning up, because nothing was changed.

    `user_queries` starts this process with one line of JSON on standard input, a `Request`. The answer, one JSON
    object, is written to standard output, which is a file. Exit code 0: the answer is complete. `REFUSED`: standard
    error contains the error for the user, as JSON.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    line = sys.stdin.buffer.readline()
    if not line:  # the parent has ended, or needs no query any more
        os._exit(0)
    payload = orjson.loads(line)
    request = Request(**{**payload, "limits": QueryLimits(**payload["limits"])})
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    code = 0
    try:
        _answer(request, sys.stdout.buffer)
    except OtelAgenticError as error:
        message = str(error).encode(errors="replace").decode()
        sys.stderr.buffer.write(orjson.dumps({"error": type(error).__name__, "message": message}))
        sys.stderr.buffer.flush()
        code = REFUSED
    os._exit(code)


def _exit_with_parent() -> None:
    os.read(0, 1)  # the parent writes nothing more, so this returns at the end of the pipe, when the parent has ended
    os._exit(REFUSED)


def _answer(request: Request, out: BinaryIO) -> None:
    os.umask(0o077)  # spilled data contains user data
    limits, folder = request.limits, request.folder and Path(request.folder)
    con = open_database(
        Path(request.file),
        limits,
        create=False,
        export_folder=folder or None,
        read_only=True,
        spill=request.spill,
    )
    _limit(limits)
    out.write(STARTED)
    out.flush()
    try:
        if request.is_store:
            require_current(con, request.file)
            require_evaluation(con, request.evaluation or DEFAULT)
        if request.evaluation is not None:
            show(con, request.evaluation)
        statement = check_statement(con, request.sql, folder=folder or None)
        con.execute("BEGIN TRANSACTION READ ONLY")  # a second layer besides the check of the statement
        _write(con.execute(statement), request, out)
        out.flush()
    except OSError as error:
        raise QueryError(f"the answer cannot be written: {error.strerror}") from error
    except (duckdb.OutOfMemoryException, MemoryError) as error:
        raise QueryError(OUT_OF_MEMORY) from error
    except (duckdb.Error, UnicodeDecodeError, RecursionError) as error:
        message, _, pointer = str(error).rstrip().partition("\n")  # the rest points into the statement
        raise QueryError(f"the query failed: {message}{_hint(error)}{pointer and chr(10)}{pointer}") from error


def _hint(error: Exception) -> str:
    """Return advice for a common error, "" for any other error."""
    text = str(error)
    if isinstance(error, duckdb.BinderException) and "TIMESTAMP_NS" in text and "TIMESTAMP WITH TIME ZONE" in text:
        return (
            ". Times in tables are UTC without a time zone: write `now() AT TIME ZONE 'UTC'` instead of now(), or use a view "
            "such as v_conversations, whose times have one"
        )
    return ""


def _limit(limits: QueryLimits) -> None:
    """Limit the resources of this process from now on, in addition to the memory that is mapped already."""
    with suppress(OSError, AttributeError):  # not on every system
        os.nice(_NICE)
    with suppress(OSError):  # if memory runs out nevertheless, the kernel kills this process, not the collector
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    if resource is None:
        return
    cpu_s = int(limits.timeout_s * (os.cpu_count() or 1)) + _CPU_SLACK_S
    for kind, amount in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, cpu_s),
        *([(resource.RLIMIT_AS, mapped + limits.memory_mb * _MB)] if (mapped := _mapped_bytes()) else []),
    ):
        hard = resource.getrlimit(kind)[1]
        limit = amount if hard == resource.RLIM_INFINITY else min(amount, hard)
        resource.setrlimit(kind, (limit, limit))


def _mapped_bytes() -> int:
    """Return the address space of this process, 0 if the system does not report it (and does not enforce RLIMIT_AS)."""
    try:
        with open(_STATM, encoding="ascii") as file:  # noqa: PTH123 — a path of the system
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _write(result: DuckDBPyConnection, request: Request, out: BinaryIO) -> None:
    """Write the answer as JSON, row by row, as far as the limits allow."""
    described = result.description or []
    columns, types = [str(column[0]) for column in described], [str(column[1]) for column in described]
    out.write(orjson.dumps({"columns": columns, "types": types})[:-1] + b',"rows":[')
    rows = _Rows(result, request.limits)
    out.writelines(
        (b",\n" if index else b"") + orjson.dumps(to_json_value(list(row))) for index, row in enumerate(rows)
    )
    as_of = datetime.fromtimestamp(request.as_of_ns // 1_000_000 / 1000, UTC).isoformat(timespec="milliseconds")
    last = {"truncated": rows.cut_by is not None, "cut_by": rows.cut_by, "as_of": as_of.replace("+00:00", "Z")}
    out.write(b"]," + orjson.dumps(last)[1:])


class _Rows:
    """The rows of an answer; `cut_by` names the setting whose limit cut them, after they were read."""

    def __init__(self, result: DuckDBPyConnection, limits: QueryLimits) -> None:
        self._result = result
        self._limits = limits
        self.cut_by: str | None = None

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        left_bytes, left_rows, count = self._limits.max_bytes, self._limits.max_rows, 1
        row_count = 0
        while fetched := self._result.fetchmany(count):
            for row in fetched:
                if row_count == left_rows:
                    self.cut_by = "store.query_max_rows"
                    return
                left_bytes -= size_of(row)
                if left_bytes < 0:
                    self.cut_by = "store.query_max_bytes"
                    return
                row_count += 1
                yield row
            row_bytes = max(1, (self._limits.max_bytes - left_bytes) // row_count)
            count = max(1, min(_MOST_FETCHED, 2 * count, left_bytes // row_bytes))


def size_of(value: Any) -> int:
    """Return the approximate number of bytes that a value takes in an answer.

    >>> size_of(("four", 1, [None, b"abc"], {"a": 1}))
    40
    """
    total, waiting = 0, [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str | bytes | bytearray):
            total += len(item)
        elif isinstance(item, dict):
            waiting += [*item, *item.values()]
        elif isinstance(item, list | tuple):
            total += 0 if item is value else _SCALAR_BYTES
            waiting += item
        else:
            total += _SCALAR_BYTES
    return total
