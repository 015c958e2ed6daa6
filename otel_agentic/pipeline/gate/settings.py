"""The conditions of a gate: those of the settings, merged with those of a command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from otel_agentic.config import GateSettings
from otel_agentic.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Conditions that a command extends entry by entry; it replaces the others.
_TABLES: Final = ("min_pass_pow_k", "min_pass_at_k", "thresholds", "max_regression")


def merged(settings: GateSettings, conditions: Mapping[str, Any]) -> GateSettings:
    """Return the conditions of the settings merged with those of a command.

    Limits by k or metric are added to those of the settings, and replace one for the same k or metric; names in
    `allow_no_data` are added. Any other condition replaces the setting.

    Raises:
        UsageError: a condition is unknown or its value invalid; the message names it.
    """
    changes = dict(conditions)
    own = settings.model_dump()
    for name in _TABLES:
        if name in changes:
            changes[name] = {**_texts(own[name]), **_texts(changes[name])}
    if "allow_no_data" in changes:
        changes["allow_no_data"] = [*own["allow_no_data"], *changes["allow_no_data"]]
    try:
        return GateSettings.model_validate({**own, **changes})
    except ValidationError as error:
        first = error.errors()[0]
        path = "gate." + ".".join(str(part) for part in first["loc"] if part != "[key]")
        raise UsageError(f"{path}: {first['msg']}, got {first.get('input')!r}") from None


def _texts(table: Any) -> Any:
    """Return a table with text keys, as in JSON: 3 is the same k as "3"."""
    return {str(name): value for name, value in table.items()} if isinstance(table, dict) else table
