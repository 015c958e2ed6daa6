"""One error tree, and one answer to each error."""

from __future__ import annotations

from collections.abc import Iterator

import grpc  # type: ignore[import-untyped]  # grpcio ships no types
import pytest
from inline_snapshot import snapshot

from otel_agentic import errors
from otel_agentic.errors import ERROR_CODES, UNFORESEEN, OtelAgenticError, codes_of

#: The contract of architecture.md, section 5.
EXIT_CODES = {
    "GateFailedError": 1,
    "UsageError": 2,
    "ConfigError": 2,
    "PluginError": 2,
    "BadInputError": 3,
    "DecodeError": 3,
    "TooLargeError": 3,
    "CaseError": 3,
    "ConflictError": 3,
    "QueryError": 3,
    "StoreError": 4,
    "StoreBusyError": 4,
    "StoreUnusableError": 4,
    "OverloadedError": 4,
    "BackendError": 5,
}


def subclasses(of: type[OtelAgenticError]) -> Iterator[type[OtelAgenticError]]:
    """Yield the errors of `errors.py` below one, depth first, in the order they are written."""
    for kind in of.__subclasses__():
        if kind.__module__ == errors.__name__:
            yield kind
            yield from subclasses(kind)


KINDS = list(subclasses(OtelAgenticError))


def test_each_error_leaves_with_the_exit_code_of_the_contract() -> None:
    assert EXIT_CODES == {kind.__name__: codes_of(kind("x")).exit for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_each_error_has_an_answer_of_its_own_line(kind: type[OtelAgenticError]) -> None:
    assert UNFORESEEN is not codes_of(kind("x"))


def test_the_drawn_tree_is_the_tree() -> None:
    drawing = (errors.__doc__ or "").split("```")[1]
    drawn = [line.strip("│├└─ ").split()[0] for line in drawing.splitlines() if line.strip()]
    depths = [(len(line) - len(line.lstrip("│├└─ "))) // 4 for line in drawing.splitlines() if line.strip()]

    assert ["OtelAgenticError", *(kind.__name__ for kind in KINDS)] == drawn
    assert [0, *(len(kind.__mro__) - len(OtelAgenticError.__mro__) for kind in KINDS)] == depths


def test_no_line_of_the_table_hides_a_later_one() -> None:
    kinds = [kind for kind, _ in ERROR_CODES]

    assert [] == [
        (later, earlier) for at, later in enumerate(kinds) for earlier in kinds[:at] if issubclass(later, earlier)
    ]


def test_an_unexpected_error_asks_senders_to_retry() -> None:
    assert (503, "UNAVAILABLE") == (codes_of(ZeroDivisionError()).http, codes_of(ZeroDivisionError()).grpc)


@pytest.mark.parametrize("codes", [*(codes for _, codes in ERROR_CODES), UNFORESEEN])
def test_no_answer_makes_an_otlp_client_drop_spans_in_silence(codes: errors.ErrorCodes) -> None:
    """A client retries 429, 502, 503 and 504; of the rest only those may be sent that a retry cannot help."""
    assert hasattr(grpc.StatusCode, codes.grpc)
    assert codes.http in {400, 409, 413, 422} or (codes.http in {502, 503} and codes.grpc == "UNAVAILABLE")


def test_messages_are_kept() -> None:
    assert str(errors.StoreBusyError("a.duckdb is held")) == snapshot("a.duckdb is held")
