"""Conditions on conversations: every command that selects conversations has the same ones, and applies them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from otel_agentic.commands.registry import Commands, registered
from otel_agentic.engine.engine import Engine
from otel_agentic.results import to_json
from tests.demo_store import evaluated_demo
from tests.stores import settings_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.stores import PreparedStore

#: Commands whose results name conversations, which in the demo contain their version.
NAMING = (
    "conversations_list",
    "conversations_page",
    "conversations_export",
    "tools_failing",
    "failures",
    "truth_matches",
)
CONDITIONS = {"since_ns", "until_ns", "agent", "agent_version", "environment"}


@pytest.fixture(scope="module")
def engine(prepared_store: PreparedStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    db = shutil.copy(prepared_store(evaluated_demo), tmp_path_factory.mktemp("selection"))
    with Engine(settings_for(Path(db))) as engine:
        yield engine


def result(engine: Engine, name: str, **arguments: Any) -> str:
    """Return the result of a command as JSON text, with all conversations where it has a limit."""
    command = registered()[name]
    limit = {"limit": 100} if "limit" in command.signature.parameters else {}
    answer = Commands(engine).run(name, limit | arguments)
    rows = list(answer) if command.streams else answer
    return orjson.dumps(to_json(rows), default=str).decode()


@pytest.mark.parametrize("name", sorted(registered()))
def test_a_command_with_one_of_the_conditions_has_all(name: str) -> None:
    names = set(registered()[name].signature.parameters)

    assert "agent" not in names or names >= CONDITIONS


@pytest.mark.parametrize("name", NAMING)
def test_a_version_and_an_environment_select(engine: Engine, name: str) -> None:
    text = result(engine, name)
    assert "-1.0.0-" in text
    assert "-1.1.0-" in text
    of_version = result(engine, name, agent_version="1.1.0", environment="demo")
    assert "-1.1.0-" in of_version
    assert "-1.0.0-" not in of_version
    for conditions in ({"agent_version": "9"}, {"environment": "other"}, {"environment": ""}):
        assert not any(version in result(engine, name, **conditions) for version in ("-1.0.0-", "-1.1.0-"))


def test_a_report_of_a_version_has_the_rates_of_its_group(engine: Engine) -> None:
    run = Commands(engine).run
    by_version = {
        group.agent_version: group for group in run("report", {"agent": "trip-planner", "by": ["version"]}).groups
    }
    (of_version,) = run("report", {"agent": "trip-planner", "agent_version": "1.1.0"}).groups

    assert (of_version.n, of_version.c) == (by_version["1.1.0"].n, by_version["1.1.0"].c) == (24, 13)
