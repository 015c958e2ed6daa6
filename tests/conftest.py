"""What every test may use: the folder of shared data, and how hypothesis searches."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.shared import SHARED, why_absent

if TYPE_CHECKING:
    from pathlib import Path

# No deadlines and no complaint about slow data: a loaded machine of two cores is not a finding.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# CI repeats itself: the same examples in each run, so a red run is the change's doing.
settings.register_profile("ci", settings.get_profile("house"), derandomize=True, database=None)
settings.load_profile("ci" if os.environ.get("CI") else "house")


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """Return the folder of shared data; skip where it is absent."""
    reason = why_absent(SHARED)
    if reason:
        pytest.skip(reason)
    return SHARED


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name bytes by their argument: their content is unreadable, and compressed bytes hold the time of day."""
    return argname if isinstance(val, bytes) else None
