from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from otel_agentic.config import ReceiveSettings
from otel_agentic.spans import Limits

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def limits() -> Limits:
    return Limits.from_settings(ReceiveSettings())


@pytest.fixture
def captures(shared_dir: Path) -> Path:
    return shared_dir / "captures"
