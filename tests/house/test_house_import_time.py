"""`import otel_agentic` is quick and brings no heavy package along."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Final

import pytest

HEAVY: Final = (
    "duckdb",
    "grpc",
    "langchain_core",
    "numpy",
    "opentelemetry.sdk",
    "rich",
    "scipy",
    "starlette",
    "uvicorn",
)

_PROGRAM: Final = """
import json, sys, time
began = time.perf_counter()
import {module}
print(json.dumps({{"seconds": time.perf_counter() - began, "modules": sorted(sys.modules)}}))
"""


def fresh_import(module: str) -> dict[str, Any]:
    """Return what a fresh interpreter measured: seconds for the import, names of all modules then loaded."""
    program = _PROGRAM.format(module=module)
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    measured: dict[str, Any] = json.loads(ran.stdout)
    return measured


@pytest.mark.parametrize("module", ["otel_agentic", "collectors"])
def test_importing_a_package_imports_no_heavy_one(module: str) -> None:
    loaded = set(fresh_import(module)["modules"])

    assert set() == loaded & set(HEAVY)


@pytest.mark.parametrize("module", ["otel_agentic", "otel_agentic.cli"])
def test_an_import_stays_under_150_ms(module: str) -> None:
    # The quickest of several: a busy machine slows some of them down, never all by the same amount.
    quickest = min(fresh_import(module)["seconds"] for _ in range(7))

    assert quickest < 0.150
