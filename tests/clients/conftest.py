from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.clients.installing import JsClient, installed_js
from tests.live.running_collector import OPEN, live_settings

if TYPE_CHECKING:
    from otel_agentic.config import Settings


@pytest.fixture(scope="session")
def js(tmp_path_factory: pytest.TempPathFactory) -> JsClient:
    return installed_js(tmp_path_factory.mktemp("js"))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings of a collector with a store, on free ports; conversations stay open as long as a test lasts."""
    return live_settings(tmp_path / "spans.duckdb", **OPEN)
