"""What a user installs: the wheel holds all that is needed, and its command line works with runtime packages only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from configparser import ConfigParser
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.packaging.tiny import write_cases, write_spans

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("otel_agentic", "collectors")
GROUPS: Final = ("collectors", "dialects", "estimators", "judges")


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """A command line that was installed from the wheel, run in an empty folder."""

    command: tuple[str, ...]
    environment: dict[str, str]
    folder: Path

    def run(self, *arguments: str) -> str:
        """Return the output of a command; fail with its standard error."""
        ran = subprocess.run(
            [*self.command, *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert 0 == ran.returncode, ran.stderr
        return ran.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel, built from the checkout."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel_file,) = folder.glob("*.whl")
    return wheel_file


def clean_environment(**changes: str) -> dict[str, str]:
    """Return the environment without our own settings and without another checkout on the path."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("OTEL_AGENTIC_", "PYTHONPATH"))
    }
    return {**inherited, **changes}


@pytest.fixture(scope="module")
def installed_alongside(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Return the wheel's command line over the packages that are installed here."""
    target = tmp_path_factory.mktemp("target")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target)]
    subprocess.run([*install, str(wheel)], check=True)
    return Installed(
        command=(sys.executable, "-m", "otel_agentic.cli"),
        environment=clean_environment(PYTHONPATH=str(target)),
        folder=tmp_path_factory.mktemp("empty"),
    )


@pytest.fixture(scope="module")
def alone(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Return the command line of a fresh environment with the pinned runtime packages and nothing else."""
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder, with_pip=True)
    install = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-compile"]
    subprocess.run([*install, "--require-hashes", "-r", str(ROOT / "requirements" / "runtime.txt")], check=True)
    subprocess.run([*install, "--no-deps", "--no-index", str(wheel)], check=True)
    return Installed(
        command=(str(folder / "bin" / "otel-agentic"),),
        environment=clean_environment(),
        folder=tmp_path_factory.mktemp("empty"),
    )


def test_the_wheel_holds_every_file_of_both_packages(wheel: Path) -> None:
    inherited = [path for package in PACKAGES for path in (ROOT / package).rglob("*") if path.is_file()]
    expected = {path.relative_to(ROOT).as_posix() for path in inherited if "__pycache__" not in path.parts}

    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}

    assert expected == packed
    assert {
        "otel_agentic/py.typed",
        "collectors/py.typed",
        "otel_agentic/demo/cases.jsonl",
        "otel_agentic/store/schema.sql",
    } <= packed


def test_the_wheel_states_license_python_version_and_entry_points(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [archive.read(name).decode() for name in archive.namelist() if name.endswith("/METADATA")]
        (points,) = [archive.read(name).decode() for name in archive.namelist() if name.endswith("/entry_points.txt")]
        licenses = [archive.read(name) for name in archive.namelist() if name.endswith("/licenses/LICENSE")]

    assert [(ROOT / "LICENSE").read_bytes()] == licenses
    assert "License-Expression: Apache-2.0\n" in metadata
    assert "Requires-Python: >=3.11\n" in metadata
    parsed = ConfigParser()
    parsed.read_string(points)
    assert "otel_agentic.cli:main" == parsed["console_scripts"]["otel-agentic"]
    assert [] == [group for group in GROUPS if not parsed.options(f"otel_agentic.{group}")]


def check_command_line(installed: Installed) -> None:
    """Go the way of a first day: help, plug-ins, spans in, scores and rates out."""
    spans, cases = write_spans(installed.folder / "spans.jsonl"), write_cases(installed.folder / "cases.jsonl")
    database = ("--db", "t.duckdb")

    assert "Usage: otel-agentic" in installed.run("--help")
    offered = installed.run("plugins")
    assert [] == [name for name in ("otlp_grpc", "otlp_http", "files", "genai", "exact") if name not in offered]
    installed.run("ingest", str(spans), *database)
    installed.run("evaluate", *database, "--cases", str(cases))
    report = json.loads(installed.run("report", *database, "-k", "1", "--format", "json"))

    assert [("guide", 1, 1)] == [(group["agent"], group["n"], group["c"]) for group in report["groups"]]


@pytest.mark.slow  # the wheel holds every file of the checkout, of which other tests run each command
def test_the_command_line_works_from_the_wheel(installed_alongside: Installed) -> None:
    where = "import otel_agentic, collectors; print(otel_agentic.__file__, collectors.__file__)"
    ran = subprocess.run(
        [sys.executable, "-c", where],
        cwd=installed_alongside.folder,
        env=installed_alongside.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    target = installed_alongside.environment["PYTHONPATH"]
    assert [True, True] == [path.startswith(target) for path in ran.stdout.split()]

    check_command_line(installed_alongside)


@pytest.mark.slow  # the wheel's command line is proved above; this one installs all that it needs
def test_the_command_line_works_with_the_pinned_runtime_packages_only(alone: Installed) -> None:
    check_command_line(alone)
