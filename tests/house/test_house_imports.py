"""`import otel_agentic` brings no heavy package along."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Final

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
import json, sys
import {module}
print(json.dumps(sorted(sys.modules)))
"""


def fresh_import(module: str) -> set[str]:
    """Return the names of all modules that a fresh interpreter has loaded after an import."""
    program = _PROGRAM.format(module=module)
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(json.loads(ran.stdout))


@pytest.mark.parametrize("module", ["otel_agentic", "collectors", "otel_agentic.cli"])
def test_importing_a_package_imports_no_heavy_one(module: str) -> None:
    loaded = fresh_import(module)

    assert set() == loaded & set(HEAVY)
