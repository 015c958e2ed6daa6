"""All checks, one family per file, in the order in which they run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from collectors.conformance._check import Check
from collectors.conformance.checks import (
    data,
    grpc_calls,
    grpc_errors,
    http_answers,
    http_auth,
    http_compression,
    http_connection,
    http_deadlines,
    http_heads,
    http_json,
    http_json_hostile,
    http_routes,
    http_size,
)

if TYPE_CHECKING:
    from types import ModuleType


def _of(*families: ModuleType) -> tuple[Check, ...]:
    """Return the checks of some files, in the order of their definition."""
    return tuple(item for family in families for item in vars(family).values() if isinstance(item, Check))


CHECKS: Final[tuple[Check, ...]] = (
    *_of(
        http_answers,
        http_routes,
        http_compression,
        http_connection,
        http_heads,
        http_deadlines,
        http_json,
        http_json_hostile,
    ),
    *data.HTTP,
    *_of(http_size, http_auth, grpc_calls),
    *data.GRPC,
    *_of(grpc_errors),
)
