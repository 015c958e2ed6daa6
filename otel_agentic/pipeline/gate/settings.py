"""The conditions of a gate: those of the settings, with what a command asks for on top."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from otel_agentic.config import GateSettings
from otel_agentic.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Conditions that a command adds to, entry by entry; it takes the place of the others.
_TABLES: Final = ("min_pass_pow_k", "min_pass_at_k", "thresholds", "max_regression")


def merged(settings: GateSettings, asked: Mapping[str, Any]) -> GateSettings:
    """Return the conditions of the settings with those that are asked for.

    Limits by k or metric are added, and take the place of one for the same; so do the names that are allowed to have no data.
    Anything else that is asked for takes the place of the setting.

    Raises:
        UsageError: there is no such condition, or a value is not allowed; names it.
    """
    given = dict(asked)
    own = settings.model_dump()
    for name in _TABLES:
        if name in given:
            given[name] = {**_texts(own[name]), **_texts(given[name])}
    if "allow_no_data" in given:
        given["allow_no_data"] = [*own["allow_no_data"], *given["allow_no_data"]]
    try:
        return GateSettings.model_validate({**own, **given})
    except ValidationError as error:
        first = error.errors()[0]
        where = "gate." + ".".join(str(part) for part in first["loc"] if part != "[key]")
        raise UsageError(f"{where}: {first['msg']}, got {first.get('input')!r}") from None


def _texts(table: Any) -> Any:
    """Return a table by text: JSON has no other keys, and 3 is the same k as "3"."""
    return {str(name): value for name, value in table.items()} if isinstance(table, dict) else table
