"""Settings files: written with every default, checked with suggestions, and with ground truth next to them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from inline_snapshot import snapshot

from otel_agentic import open as open_store
from otel_agentic.config import Settings, load_settings
from otel_agentic.testing import AgentRunScript, scripted_call, speak_genai
from tests.builders import CASE
from tests.cli.running import done, run
from tests.snapshots import passage

if TYPE_CHECKING:
    import pytest

FILE = Path("otel-agentic.toml")


def test_a_written_file_has_every_setting_and_changes_none() -> None:
    done("config", "init")

    assert load_settings() == Settings()
    text = FILE.read_text()
    for section, field in Settings.model_fields.items():
        for name in type(field.get_default()).model_fields:
            assert f"\n# {name} = " in text, (section, name)
    assert tomllib.loads(text)["store"] == {}
    again = run("config", "init")
    assert (again.code, "exists already" in again.err) == (2, True)


def test_a_file_is_checked_and_a_misspelt_name_gets_a_suggestion() -> None:
    FILE.write_text("[store]\nqueue_mb = 8\n")
    assert done("config", "check").out == snapshot(
        "otel-agentic.toml: valid (1 setting of the file, 0 of the environment)\n"
    )

    FILE.write_text('[[slo.objectives]]\nname = "a"\nk = 3\ntaget = 0.9\n')
    ran = run("config", "check")
    assert ran.code == 2
    assert passage(ran.err) == snapshot("unknown setting slo.objectives.0.taget")
    assert passage(ran.err) == snapshot("did you mean target?")
    FILE.write_text("[store]\nqueue_mbs = 8\n")
    assert passage(run("config", "check").err) == snapshot("did you mean queue_mb?")


def test_only_changed_settings_are_listed_with_their_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    FILE.write_text("[store]\nqueue_mb = 8\n")
    monkeypatch.setenv("OTEL_AGENTIC_LOG__LEVEL", "debug")

    out = done("config", "show", "--changed").out

    assert passage(out) == snapshot("(from the file)")
    assert passage(out) == snapshot("(from the environment)")
    assert "settings file: otel-agentic.toml" in out
    assert "checkpoint_threshold_mb" not in out


def test_the_first_of_the_known_places_has_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "settings" / "otel-agentic"
    home.mkdir(parents=True)
    (home / FILE.name).write_text("[store]\nqueue_mb = 7\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home.parent))
    assert load_settings().store.queue_mb == 7

    FILE.write_text("[store]\nqueue_mb = 8\n")
    assert load_settings().store.queue_mb == 8


def test_cases_of_the_settings_are_loaded_from_files_and_folders_next_to_them(tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    (folder / "cases").mkdir(parents=True)
    (folder / "cases" / "hotel.jsonl").write_text(CASE)
    (folder / "cases" / ".hidden").write_text("not a case")
    (folder / FILE.name).write_text('[truth]\ncases = ["cases"]\n')
    script = AgentRunScript(conversation_id="right").ask("Which hotel?")
    script = script.calls(scripted_call("search", {"q": "hotels"}, result=["Ritz"])).answers("The Ritz.")
    with open_store("t.duckdb", create=True) as store:
        store.sink.accept(speak_genai(script))
        store.rebuild()

    out = done("evaluate", "--config", folder / FILE.name, "--db", "t.duckdb").out

    assert passage(out) == snapshot("1 conversation scored: 1 pass")
    (folder / FILE.name).write_text('[truth]\ncases = ["missing.jsonl"]\n')
    ran = run("evaluate", "--config", folder / FILE.name, "--db", "t.duckdb")
    assert (ran.code, "missing.jsonl: No such file" in ran.err) == (2, True)
