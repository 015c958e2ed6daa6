from __future__ import annotations

import os
from pathlib import Path

import pytest

from otel_agentic.config import ReceiveSettings
from otel_agentic.spans import Limits


@pytest.fixture
def limits() -> Limits:
    return Limits.from_settings(ReceiveSettings())


@pytest.fixture
def captures() -> Path:
    shared = os.environ.get("OTEL_AGENTIC_SHARED")
    folder = (Path(shared) if shared else Path(__file__).parents[3] / "shared") / "captures"
    if not folder.is_dir():
        pytest.skip(f"no captures in {folder}; OTEL_AGENTIC_SHARED names the folder of shared data")
    return folder
