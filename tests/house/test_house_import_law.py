"""The import rules that `tools/import_law.py` checks."""

from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot

from tools.import_law import violations

ROOT = Path(__file__).parents[2]


def write(root: Path, module: str, source: str) -> None:
    path = root / Path(*module.split(".")).with_suffix(".py")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source, encoding="utf-8")


@pytest.mark.slow  # `make check` asks the same
def test_the_project_has_no_violation() -> None:
    assert [] == [str(violation) for violation in violations(ROOT)]


@pytest.mark.parametrize(
    "source",
    [
        "import opentelemetry.sdk\n",
        "import opentelemetry.sdk.trace as trace\n",
        "from opentelemetry import sdk\n",
        "from opentelemetry.sdk.metrics import MeterProvider\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from opentelemetry.sdk.trace import Span\n",
        "def late() -> None:\n    from opentelemetry.sdk import trace\n",
    ],
)
def test_every_form_of_import_of_the_sdk_is_reported_outside_its_packages(tmp_path: Path, source: str) -> None:
    write(tmp_path, "otel_agentic.spans.model", source)

    assert ["otel_agentic.telemetry"] == [violation.rule.rooms[-1] for violation in violations(tmp_path)]


def test_a_violation_names_file_line_import_and_the_allowed_packages(tmp_path: Path) -> None:
    write(tmp_path, "otel_agentic.store.thief", '"""A thief."""\n\nfrom opentelemetry.sdk.trace import Span\n')

    (violation,) = violations(tmp_path)

    assert str(violation) == snapshot(
        "otel_agentic/store/thief.py:3: imports opentelemetry.sdk.trace.Span; only collectors.in_process, "
        "otel_agentic.demo, otel_agentic.telemetry may import opentelemetry.sdk"
    )


@pytest.mark.parametrize(
    "module", ["otel_agentic.telemetry.facade", "otel_agentic.demo.agents", "collectors.in_process"]
)
def test_the_allowed_packages_may_import_the_sdk(tmp_path: Path, module: str) -> None:
    write(tmp_path, module, "from opentelemetry.sdk.trace import TracerProvider\n")

    assert [] == violations(tmp_path)


def test_the_api_and_the_wire_format_are_not_the_sdk(tmp_path: Path) -> None:
    write(tmp_path, "otel_agentic.spans.model", "from opentelemetry import trace\nimport opentelemetry.proto\n")

    assert [] == violations(tmp_path)
