from __future__ import annotations

from pathlib import Path

import pytest

from otel_agentic.config import ReceiveSettings
from otel_agentic.spans import Limits


@pytest.fixture
def limits() -> Limits:
    return Limits.from_settings(ReceiveSettings())


@pytest.fixture
def captures(shared_dir: Path) -> Path:
    return shared_dir / "captures"
