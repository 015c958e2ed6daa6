"""All checks, in the order in which they run."""

from __future__ import annotations

from typing import Final

from collectors.conformance._check import Check, catalog
from collectors.conformance.checks import data, grpc, http, json, transfer

_FUNCTIONS: Final = (vars(family).values() for family in (http, json, transfer, grpc))
_BY_ID: Final = {item.id: item for items in (*_FUNCTIONS, data.CHECKS) for item in items if isinstance(item, Check)}
CHECKS: Final[tuple[Check, ...]] = tuple(_BY_ID[name] for name in catalog())
