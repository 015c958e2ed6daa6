"""Plug-ins are found by entry point: real packages, really installed, met by a fresh interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from otel_agentic import plugins
from otel_agentic.errors import PluginError
from otel_agentic.plugins import GROUPS
from tests.snapshots import passage, raises

_PYPROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{distribution}"
version = "1.2"

[project.entry-points."otel_agentic.judges"]
{entry_points}

[tool.hatch.build.targets.wheel]
packages = ["{package}"]
"""


def install(folder: Path, distribution: str, modules: dict[str, str], entry_points: dict[str, str]) -> Path:
    """Build and install a package of modules; return the folder that makes it importable."""
    package = distribution.replace("-", "_")
    source, target = folder / distribution, folder / f"{distribution}-installed"
    (source / package).mkdir(parents=True)
    for name, text in {"__init__": "", **modules}.items():
        (source / package / f"{name}.py").write_text(text, encoding="utf-8")
    lines = "\n".join(f'{name} = "{package}.{value}"' for name, value in entry_points.items())
    (source / "pyproject.toml").write_text(
        _PYPROJECT.format(distribution=distribution, package=package, entry_points=lines), encoding="utf-8"
    )
    options = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--target", str(target)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(source)], check=True)
    return target


def python(program: str, *folders: Path) -> subprocess.CompletedProcess[str]:
    """Run a program that may import from folders."""
    path = os.pathsep.join([*map(str, folders), *sys.path])
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )


@pytest.fixture(scope="module")
def third_party(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where a package with one good judge and two broken ones is installed."""
    modules = {
        "good": "class Always:\n    name = 'always'\n",
        "broken": "import a_package_that_nobody_has\n",
    }
    entry_points = {"always": "good:Always", "broken": "broken:Never", "vanished": "good:Gone"}
    return install(tmp_path_factory.mktemp("strangers"), "strange-judges", modules, entry_points)


@pytest.fixture(scope="module")
def doubled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where a package is installed that offers a judge under a built-in's name."""
    modules = {"judge": "class Mine:\n    pass\n"}
    return install(tmp_path_factory.mktemp("doubled"), "rival-judge", modules, {"exact": "judge:Mine"})


def test_a_third_party_plug_in_is_found_and_loads(third_party: Path) -> None:
    ran = python(
        "from otel_agentic import plugins\n"
        "found = plugins.get('judges', 'always')\n"
        "print(found.distribution, found.version, found.value, found.load()().name)",
        third_party,
    )

    assert (ran.stderr, ran.stdout) == snapshot(("", "strange-judges 1.2 strange_judges.good:Always always\n"))


def test_third_party_and_built_in_plug_ins_are_sorted_by_name(third_party: Path) -> None:
    ran = python("from otel_agentic import plugins\nprint(*plugins.find('judges'))", third_party)

    assert ["always", "broken", "exact", "langchain", "vanished"] == ran.stdout.split()


def test_finding_a_broken_plug_in_does_not_import_it(third_party: Path) -> None:
    ran = python("from otel_agentic import plugins\nprint(plugins.get('judges', 'broken').name)", third_party)

    assert "broken\n" == ran.stdout


def test_another_package_with_the_name_of_ours_is_named_with_its_folder(tmp_path: Path) -> None:
    (tmp_path / "collectors").mkdir()
    (tmp_path / "collectors" / "__init__.py").touch()
    load = "from otel_agentic import plugins\nplugins.get('collectors', 'files').load()"
    ran = python(f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n{load}")

    assert f"'collectors' was loaded from {tmp_path / 'collectors'}: if it is another package" in ran.stderr


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("broken", "(strange_judges.broken:Never): ModuleNotFoundError: No module named 'a_package_that_nobody_has'"),
        ("vanished", "(strange_judges.good:Gone): AttributeError: "),
    ],
)
def test_a_plug_in_that_does_not_load_is_named_with_distribution_and_reason(
    third_party: Path, name: str, reason: str
) -> None:
    ran = python(f"from otel_agentic import plugins\nplugins.get('judges', '{name}').load()", third_party)

    assert 0 != ran.returncode
    assert passage(ran.stderr, name=name, reason=reason) == snapshot(
        "PluginError: judges plug-in '<name>' of strange-judges 1.2 does not load <reason>"
    )


def test_a_name_offered_twice_names_both_distributions(doubled: Path) -> None:
    ran = python("from otel_agentic import plugins\nplugins.find('judges')", doubled)

    assert 0 != ran.returncode
    (line,) = [line for line in ran.stderr.splitlines() if line.startswith("otel_agentic.errors.PluginError: ")]
    assert passage(line) == snapshot("judges plug-in 'exact' is offered by ")
    assert {"otel-agentic", "rival-judge"} <= set(line.replace(";", "").split())


def test_a_distribution_found_twice_counts_once(third_party: Path) -> None:
    again = "import sys\nsys.path.append(sys.path[1])\n"
    ran = python(f"{again}from otel_agentic import plugins\nprint(*plugins.find('judges'))", third_party)

    assert ["always", "broken", "exact", "langchain", "vanished"] == ran.stdout.split()


def test_an_unknown_name_is_answered_with_the_known_names() -> None:
    with raises(
        PluginError,
        snapshot("no estimators plug-in 'guess'; installed: bayesian, hierarchical, per_case, plugin, unbiased"),
    ):
        plugins.get("estimators", "guess")


@pytest.mark.parametrize("group", GROUPS)
def test_every_built_in_plug_in_loads(group: plugins.Group) -> None:
    assert [] == [name for name, plugin in plugins.find(group).items() if plugin.load() is None]
