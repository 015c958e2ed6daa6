"""The recordings of the demo, read without its processes: conversations and scores are those of the scripts."""

from __future__ import annotations

import json
import shutil
from collections import Counter, defaultdict
from math import comb
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from otel_agentic.commands.registry import Commands
from otel_agentic.demo.processes import AGENTS
from otel_agentic.demo.run import CASES
from otel_agentic.demo.scenario import conversations
from otel_agentic.engine.engine import Engine
from tests.demo_store import evaluated_demo
from tests.stores import settings_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.stores import PreparedStore

K = 3


@pytest.fixture(scope="module")
def commands(prepared_store: PreparedStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    db = shutil.copy(prepared_store(evaluated_demo), tmp_path_factory.mktemp("recordings"))
    with Engine(settings_for(Path(db))) as engine:
        yield Commands(engine)


def scripted() -> dict[str, tuple[str, str, bool]]:
    """Return agent, version, and whether a conversation does what its case expects, by conversation id."""
    cases = {json.loads(line)["case_id"]: json.loads(line) for line in CASES.read_text().splitlines()}
    result: dict[str, tuple[str, str, bool]] = {}
    for agent, version in AGENTS:
        for conversation in conversations(agent, version):
            case = cases.get(
                conversation.conversation_id.removesuffix(f"-{version}-{conversation.conversation_id[-1]}")
            )
            if case is None:
                continue
            calls = [
                [(call.name, dict(call.arguments)) for response in turn.responses for call in response.calls]
                for turn in conversation.turns
            ]
            expected = [
                [(call["tool_name"], call["parameters"]) for call in turn["tools"]["calls"]] for turn in case["turns"]
            ]
            wrong_sum = any("69 euros" in response.text for turn in conversation.turns for response in turn.responses)
            result[conversation.conversation_id] = (agent, version, calls == expected and not wrong_sum)
    return result


def test_every_conversation_has_the_outcome_of_its_script(commands: Commands) -> None:
    rows = commands.call("conversations_list", {"limit": 1000})

    outcomes = {row["conversation_id"]: row["outcome"] == "pass" for row in rows if row["outcome"] in {"pass", "fail"}}
    assert outcomes == {name: is_right for name, (_, _, is_right) in scripted().items()}
    assert Counter(row["reason"] for row in rows)["unmatched"] == 1


def test_pass_pow_k_is_that_of_an_independent_count(commands: Commands) -> None:
    attempts: dict[tuple[str, str], dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for name, (agent, version, is_right) in scripted().items():
        attempts[agent, version][name.rpartition(f"-{version}-")[0]].append(is_right)

    for group in commands.call("report", {"by": ["version"]})["groups"]:
        by_case = attempts[group["agent"], group["agent_version"]].values()
        assert (group["n"], group["c"]) == (sum(map(len, by_case)), sum(map(sum, by_case)))
        enough = [case for case in by_case if len(case) >= K]
        expected = [comb(sum(case), K) / comb(len(case), K) for case in enough]
        value = group["per_case"]["pass_pow_k"][str(K)]["value"]
        assert value == (pytest.approx(sum(expected) / len(expected)) if enough else None)


def test_faults_of_tools_have_their_dimension_parameter_and_count(commands: Commands) -> None:
    rows = commands.call("tools_failing", {"by": "problem"})

    assert {(row["tool"], row["dimension"], row["fault"], row["parameter"], row["faults"]) for row in rows} == {
        ("book_seat", "parameters", "wrong_parameters", "seat_class", 6),
        ("book_seat", "parameters", "wrong_parameters", "passengers", 1),
        ("check_bicycle", "selection", "missing", None, 2),
        ("get_weather", "selection", "missing", None, 2),
        ("search_trains", None, "errored", None, 2),
    }
