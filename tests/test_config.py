"""Settings: every one is described, the stronger source wins, and a bad value is named."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from inline_snapshot import snapshot

from otel_agentic.config import CONFIG_FILE_VARIABLE, DEFAULT_CONFIG_FILE, Settings, environment_settings, load_settings
from otel_agentic.errors import ConfigError
from tests.snapshots import raises

if TYPE_CHECKING:
    from pydantic import BaseModel


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Leave no settings of the machine: an empty folder, no variables of ours."""
    for name in os.environ:
        if name.upper().startswith("OTEL_AGENTIC_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_every_setting_has_a_description() -> None:
    sections = {name: cast("type[BaseModel]", field.annotation) for name, field in Settings.model_fields.items()}
    assert [] == [
        f"{section}.{name}"
        for section, model in sections.items()
        for name, field in model.model_fields.items()
        if not field.description
    ]


def test_without_any_source_the_defaults_hold() -> None:
    assert Settings() == load_settings()


def test_the_default_file_is_read_where_it_is() -> None:
    write(Path(DEFAULT_CONFIG_FILE), "[stats]\nlevel = 0.9\n")

    assert 0.9 == load_settings().stats.level


def test_a_named_file_takes_the_place_of_the_default_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write(Path(DEFAULT_CONFIG_FILE), "[stats]\nlevel = 0.9\n")
    by_variable = write(tmp_path / "variable.toml", "[stats]\nlevel = 0.8\n")
    by_argument = write(tmp_path / "argument.toml", "[stats]\nlevel = 0.7\n")

    monkeypatch.setenv(CONFIG_FILE_VARIABLE, str(by_variable))

    assert 0.8 == load_settings().stats.level
    assert 0.7 == load_settings(by_argument).stats.level


def test_the_environment_wins_over_the_file_and_a_flag_over_both(monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(Path("a.toml"), '[receive]\nhttp = "127.0.0.1:1"\ngrpc = "127.0.0.1:1"\nmax_events = 1\n')
    monkeypatch.setenv("OTEL_AGENTIC_RECEIVE__HTTP", "127.0.0.1:2")
    monkeypatch.setenv("OTEL_AGENTIC_RECEIVE__GRPC", "127.0.0.1:2")

    receive = load_settings(file, receive={"grpc": "127.0.0.1:3"}).receive

    assert ("127.0.0.1:3", "127.0.0.1:2", 1) == (receive.grpc, receive.http, receive.max_events)


def test_a_flag_leaves_the_rest_of_its_section_to_the_file() -> None:
    file = write(Path("a.toml"), "[stats]\nlevel = 0.9\nk = [1, 2]\n")

    stats = load_settings(file, stats={"k": (4,)}).stats

    assert ((4,), 0.9) == (stats.k, stats.level)


def test_lists_and_tables_come_from_the_environment_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_AGENTIC_WINDOWS__WIDTHS", '["15m", "1h"]')
    monkeypatch.setenv("OTEL_AGENTIC_SCORING__EFFECTS", '{"book_*": "write"}')

    settings = load_settings()

    assert ("15m", "1h") == settings.windows.widths
    assert {"book_*": "write"} == settings.scoring.effects


def test_a_variable_may_name_a_section_a_setting_or_an_entry_of_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(Path("a.toml"), "[judge]\ntries = 2\nmodel_options = {seed = 1}\n")
    monkeypatch.setenv("OTEL_AGENTIC_JUDGE", '{"votes": 3, "model_options": {"temperature": 1}}')
    monkeypatch.setenv("otel_agentic_judge__model_options__TEMPERATURE", "0.5")
    monkeypatch.setenv("OTEL_AGENTIC_JUDGE__MODEL_OPTIONS__EFFORT", "low")

    judge = load_settings(file).judge

    assert (2, 3) == (judge.tries, judge.votes)
    assert {"seed": 1, "temperature": 0.5, "effort": "low"} == judge.model_options


def test_other_variables_with_the_prefix_are_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_AGENTIC_CASE", '{"id": "a"}')

    assert Settings() == load_settings() == environment_settings()


def test_an_unknown_setting_of_the_environment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_AGENTIC_STATS__LEVLE", "0.9")

    with raises(
        ConfigError,
        snapshot(
            "unknown setting stats.levle (from flags or OTEL_AGENTIC_*); did you mean level? allowed: k, mode, estimator, level, prior, tier_rule"
        ),
    ):
        load_settings()


def test_the_environment_alone_leaves_out_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    write(Path(DEFAULT_CONFIG_FILE), "[stats]\nlevel = 0.9\n")
    monkeypatch.setenv("OTEL_AGENTIC_STATS__K", "[4]")

    stats = environment_settings().stats

    assert ((4,), Settings().stats.level) == (stats.k, stats.level)


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [
        ("stats", "level", 1.0),
        ("stats", "k", [0]),
        ("stats", "prior", [1.0]),
        ("scoring", "answer_threshold", 1.5),
        ("scoring", "criteria", []),
        ("receive", "max_request_bytes", 0),
        ("conversations", "turn_idle_s", 0),
        ("emit", "protocol", "carrier pigeon"),
        ("emit", "colour", "blue"),
    ],
)
def test_a_value_that_is_not_allowed_is_named_with_its_setting(section: str, name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"setting {section}\.{name}"):
        load_settings(None, **{section: {name: value}})


def test_weights_that_are_all_zero_are_refused() -> None:
    with raises(
        ConfigError,
        snapshot(
            "setting scoring: Value error, tool_weights: at least one weight must be above 0, got a table of tool_weights (from flags or OTEL_AGENTIC_*)"
        ),
    ):
        load_settings(scoring={"tool_weights": {"selection": 0.0}})


def test_a_bad_value_in_the_environment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_AGENTIC_STATS__LEVEL", "high")

    with raises(
        ConfigError,
        snapshot(
            "setting stats.level: Input should be a valid number, unable to parse string as a number, got 'high' (from flags or OTEL_AGENTIC_*)"
        ),
    ):
        load_settings()


def test_a_value_that_is_not_json_in_the_environment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_AGENTIC_STATS__K", "1,3,5")

    with raises(
        ConfigError,
        snapshot(
            "environment OTEL_AGENTIC_STATS__K: not JSON (Extra data: line 1 column 2 (char 1)); write lists and tables as JSON, such as [1,3,5]"
        ),
    ):
        load_settings()


def test_an_unknown_section_of_a_file_is_named_with_the_file() -> None:
    file = write(Path("a.toml"), "[colours]\nsky = 1\n")

    with raises(
        ConfigError,
        snapshot("unknown setting colours (from flags, OTEL_AGENTIC_* or a.toml); allowed: store"),
    ):
        load_settings(file)


def test_a_file_that_is_missing_or_not_toml_is_named() -> None:
    with raises(ConfigError, snapshot("settings file gone.toml: No such file")):
        load_settings(Path("gone.toml"))
    with raises(ConfigError, snapshot("settings file bad.toml is not TOML: Invalid statement (at line 1, column 1)")):
        load_settings(write(Path("bad.toml"), "= 1\n"))


def test_tokens_are_not_shown() -> None:
    settings = load_settings(receive={"token": "hush-hush"}, emit={"headers": {"authorization": "hush-hush"}})

    assert "hush-hush" not in repr(settings)


def test_a_refused_value_that_is_secret_is_not_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(receive={"token": ["hush-hush"]})

    assert "hush-hush" not in str(caught.value)


def test_settings_do_not_depend_on_where_they_came_from_and_can_be_pickled() -> None:
    file = write(Path("a.toml"), "[stats]\nlevel = 0.9\n")

    loaded = load_settings(file)

    assert load_settings(stats={"level": 0.9}) == loaded
    assert loaded == pickle.loads(pickle.dumps(loaded))  # noqa: S301 — our own bytes


def test_votes_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_AGENTIC_JUDGE__VOTES", "3")
    assert 3 == load_settings().judge.votes
