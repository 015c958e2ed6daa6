"""The deployment files name settings, options, pages and exporters that exist."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
import yaml

from otel_agentic.cli.serve import serve
from otel_agentic.config import Settings

_ROOT: Final = Path(__file__).parents[2]
_DEPLOY: Final = _ROOT / "deploy"
_VARIABLE: Final = re.compile(r"OTEL_AGENTIC_([A-Z]+)__([A-Z_]+)")
_FILES: Final = sorted([*_DEPLOY.iterdir(), _ROOT / "docs" / "deployment.md"])
_COLLECTORS: Final = sorted(_DEPLOY.glob("*.yaml"))


def test_every_deployment_file_is_known_here() -> None:
    assert {"Containerfile", "collector-fan-out.yaml", "otel-agentic.service"} == {
        path.name for path in _DEPLOY.iterdir()
    }


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.name)
def test_every_environment_variable_is_a_setting(path: Path) -> None:
    named = _VARIABLE.findall(path.read_text("utf-8"))
    known = {
        (section.upper(), name.upper())
        for section in Settings.model_fields
        for name in type(getattr(Settings(), section)).model_fields
    }
    assert set() == set(named) - known


def options_of(command: list[str]) -> set[str]:
    return {part for part in command if part.startswith("--")}


def known_options() -> set[str]:
    return {option for parameter in serve.params for option in parameter.opts}


def test_the_container_starts_the_collector_with_options_that_exist() -> None:
    text = (_DEPLOY / "Containerfile").read_text("utf-8")
    command = json.loads(re.findall(r"^CMD (\[.*\])$", text, re.MULTILINE)[-1])
    assert ("serve", set()) == (command[0], options_of(command) - known_options())


def test_the_container_copies_files_that_exist() -> None:
    text = (_DEPLOY / "Containerfile").read_text("utf-8")
    copied = [name for line in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE) for name in line.split()]
    assert [] == [name for name in copied if not (_ROOT / name).exists()]


def test_the_service_starts_the_collector_with_options_that_exist() -> None:
    text = (_DEPLOY / "otel-agentic.service").read_text("utf-8")
    command = shlex.split(re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)[0])
    assert ("serve", set()) == (command[1], options_of(command) - known_options())


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_finds_no_fault_in_the_service(tmp_path: Path) -> None:
    text = (_DEPLOY / "otel-agentic.service").read_text("utf-8")
    unit = tmp_path / "otel-agentic.service"
    unit.write_text(text.replace("/opt/otel-agentic/bin/otel-agentic", sys.executable), "utf-8")
    process = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], check=False, capture_output=True, text=True, timeout=60
    )
    assert (0, "") == (process.returncode, process.stderr)


@pytest.mark.parametrize("path", _COLLECTORS, ids=lambda path: path.name)
def test_the_pipelines_of_a_collector_name_parts_that_it_has(path: Path) -> None:
    settings = yaml.safe_load(path.read_text("utf-8"))
    pipelines = settings["service"]["pipelines"].values()
    used = {(kind, name) for pipeline in pipelines for kind in ("receivers", "exporters") for name in pipeline[kind]}
    assert {(kind, name) for kind in ("receivers", "exporters") for name in settings[kind]} == used


def test_no_deployment_file_routes_spans_by_conversation() -> None:
    # Spans without the id, and traces tied by another trace, would land in other stores than their conversation.
    routed = [path.name for path in _COLLECTORS if "gen_ai.conversation.id" in path.read_text("utf-8")]

    assert [] == routed
