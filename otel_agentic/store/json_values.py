"""Values of the database as JSON can hold them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

_INT_END: Final = 2**63


def plain(value: Any) -> Any:  # noqa: PLR0911 — one return a type
    """Return a value from the database as JSON can say it: times as ISO 8601 text, decimals as numbers."""
    match value:
        case bool() | None | str() | float():
            return value
        case int():  # an integer that JSON readers cannot hold becomes its digits
            return value if -_INT_END <= value < _INT_END else str(value)
        case Mapping():
            return {str(key): plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [plain(inner) for inner in value]
        case datetime():
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
        case Decimal():
            return float(value)
        case bytes():
            return value.hex()
        case _:
            return str(value)
