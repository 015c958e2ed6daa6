"""Objectives in the settings: accepted ones, and the messages about others."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.config import SloSettings, load_settings
from otel_agentic.config.patterns import globs_overlap
from otel_agentic.errors import ConfigError
from tests.snapshots import raises

TWO = """
[[slo.objectives]]
agent = "support-*"
k = 3
target = 0.7

[[slo.objectives]]
agent = "{agent}"
k = 3
target = {target}
"""


_TOML = re.compile(r"```toml\n(.*?)```", re.DOTALL)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "settings.toml"


def test_two_objectives_of_one_name_for_agents_that_may_be_the_same_are_refused_with_both_named(file: Path) -> None:
    file.write_text(TWO.format(agent="*-eu", target=0.7), "utf-8")
    with raises(
        ConfigError,
        snapshot(
            "setting slo: Value error, two objectives are named 'pass^3>=0.7', for agents 'support-*' and '*-eu', which may be the same agent; set a distinct name on one of them, got a table of objectives (from flags, OTEL_AGENTIC_* or <tmp_path>/settings.toml)"
        ),
        tmp_path=file.parent,
    ):
        load_settings(file)


@pytest.mark.parametrize(("agent", "target"), [("sales", 0.7), ("support-eu", 0.75)])
def test_objectives_that_can_be_distinguished_are_accepted(file: Path, agent: str, target: float) -> None:
    file.write_text(TWO.format(agent=agent, target=target), "utf-8")
    assert ["pass^3>=0.7", f"pass^3>={target}"] == [objective.label for objective in load_settings(file).slo.objectives]


def test_a_name_of_its_own_is_the_label(file: Path) -> None:
    file.write_text('[[slo.objectives]]\nname = "gold"\ntarget = 0.9\n', "utf-8")
    assert ["gold"] == [objective.label for objective in load_settings(file).slo.objectives]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-01T00:00:00Z", 1_772_323_200_000_000_000),
        ("2026-03-01T00:00:00", 1_772_323_200_000_000_000),
        ("2026-03-01T01:00:00.5+01:00", 1_772_323_200_500_000_000),
    ],
)
def test_the_start_is_a_time_in_utc_unless_it_says_otherwise(text: str, expected: int) -> None:
    assert expected == SloSettings.model_validate({"since": text}).since_ns


def test_a_toml_time_is_a_start_too(file: Path) -> None:
    file.write_text("[slo]\nsince = 2026-03-01T00:00:00Z\n", "utf-8")
    assert 1_772_323_200_000_000_000 == load_settings(file).slo.since_ns


@pytest.mark.parametrize(
    "line", ['since = "soon"', "objectives = [{target = 1.0}]", 'objectives = [{target = 0.9, method = "both"}]']
)
def test_what_cannot_be_is_refused_by_name(file: Path, line: str) -> None:
    file.write_text(f"[slo]\n{line}\n", "utf-8")
    with pytest.raises(ConfigError, match=r"slo\.(since|objectives\.0)"):
        load_settings(file)


def test_the_objectives_of_the_guide_are_taken(file: Path) -> None:
    objectives, targets = _TOML.findall((Path(__file__).parents[1] / "docs" / "monitoring.md").read_text("utf-8"))
    file.write_text(objectives + targets, "utf-8")
    settings = load_settings(file)
    assert ["pass^3>=0.7", "checkout works"] == [objective.label for objective in settings.slo.objectives]
    assert ["on-call", "chat", "people"] == [target.name for target in settings.notify.targets]


GLOBS = st.text("ab*?", max_size=4)


@given(GLOBS, GLOBS, st.text("ab", max_size=8))
def test_globs_that_fit_one_name_may_meet(first: str, other: str, name: str) -> None:
    assert globs_overlap(first, other) == globs_overlap(other, first)
    assert globs_overlap(first, other) or not (fnmatchcase(name, first) and fnmatchcase(name, other))


@given(GLOBS, st.text("ab", max_size=6))
def test_a_glob_meets_a_plain_name_where_it_fits(glob: str, name: str) -> None:
    assert fnmatchcase(name, glob) == globs_overlap(glob, name)


def test_a_class_of_characters_may_be_any_of_them() -> None:
    assert globs_overlap("agent-[ab]", "agent-b")
    assert not globs_overlap("agent-[ab]", "agent-long")
