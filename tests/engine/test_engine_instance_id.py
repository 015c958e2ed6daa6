"""The id under which a store emits: kept in it, unless the settings name one."""

from __future__ import annotations

from pathlib import Path

from otel_agentic.config import Settings
from otel_agentic.engine.engine import Engine


def instance_id(db: Path, **emit: str) -> str | None:
    settings = Settings.model_validate({"store": {"db": db}, "emit": emit})
    with Engine(settings, create=True) as engine:
        return engine.emit.instance_id


def test_the_id_is_the_same_after_a_restart_and_another_in_another_store(tmp_path: Path) -> None:
    first, again, other = (instance_id(tmp_path / f"{name}.duckdb") for name in ("a", "a", "b"))

    assert first is not None
    assert (first, True) == (again, first != other)


def test_a_set_id_wins(tmp_path: Path) -> None:
    assert "us-east-1" == instance_id(tmp_path / "a.duckdb", instance_id="us-east-1")
