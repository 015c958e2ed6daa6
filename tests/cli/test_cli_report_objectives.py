"""The objectives of a report: in JSON, in a terminal and as Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inline_snapshot import snapshot

from otel_agentic.render.report_notes import objective_notes
from otel_agentic.results.reports import ObjectiveStatus
from otel_agentic.stats.sequential import log_e_path
from tests.cli.partial import partial
from tests.cli.running import done, on_terminal, run, wrapped_lines
from tests.cli.small import NOON_NS, SECOND_NS, conversation, write_cases, write_spans
from tests.snapshots import exactly, passage

CASE = {"case_id": "order", "turns": [{"query": "Where is my order?", "answer": "It arrives on Monday."}]}
#: Of the clerk's conversations, which are right: one in three, at noon two years before the others' noon.
RIGHT = [number % 3 == 0 for number in range(12)]
START_NS = NOON_NS - 730 * 86_400 * SECOND_NS
OBJECTIVES = """
[slo]
block = "none"

[[slo.objectives]]
k = 3
target = 0.7

[[slo.objectives]]
name = "rarely"
target = 0.1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A store with twelve scored conversations, and settings with objectives."""

    db: Path
    config: Path


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    folder = tmp_path_factory.mktemp("watched")
    spans = [
        conversation(
            f"c-{number:02}",
            answer="It arrives on Monday." if right else "No idea.",
            start_ns=START_NS + number * 3_600 * SECOND_NS,
        )
        for number, right in enumerate(RIGHT)
    ]
    config = folder / "otel-agentic.toml"
    config.write_text(OBJECTIVES, "utf-8")
    watched_store = Watched(db=folder / "t.duckdb", config=config)
    done("ingest", write_spans(folder / "spans.jsonl", spans), "--db", watched_store.db)
    done("evaluate", "--db", watched_store.db, "--cases", write_cases(folder / "cases.jsonl", [CASE]))
    return watched_store


def e_of(p0: float) -> Any:
    return pytest.approx(float(np.exp(log_e_path(RIGHT, p0)[-1])))


def test_json_has_every_objective_with_its_evidence(watched: Watched) -> None:
    broken, met = done("report", "--db", watched.db, "--config", watched.config, "--format", "json").json["objectives"]

    reached = int(np.flatnonzero(log_e_path(RIGHT, 0.7 ** (1 / 3)) >= np.log(20))[0])
    assert ("pass^3>=0.7", 12, 4, 0, True) == tuple(
        broken[name] for name in ("objective", "n", "c", "pending", "alarm")
    )
    assert e_of(0.7 ** (1 / 3)) == broken["e_value"]
    assert f"2024-03-02T{12 + reached}:01:00.000000000Z" == broken["alarmed_at"]
    assert ("rarely", False, None) == (met["objective"], met["alarm"], met["alarmed_at"])
    assert e_of(0.1) == met["e_value"]
    subject = {name: broken[name] for name in ("agent", "agent_version", "environment", "service")}
    assert {"agent": "clerk", "agent_version": "1.0", "environment": "production", "service": "shop"} == subject


def test_a_report_without_objectives_says_nothing_of_them(watched: Watched) -> None:
    assert "objectives" not in done("report", "--db", watched.db, "--format", "json").json


def test_a_table_says_in_words_which_is_broken_and_how_sure_that_is(watched: Watched) -> None:
    output = done("report", "--db", watched.db, "--config", watched.config).out
    e_value = f"{float(np.exp(log_e_path(RIGHT, 0.7 ** (1 / 3))[-1])):.3g}"
    assert passage(output, e_value=e_value) == snapshot(
        "pass^3>=0.7: broken, with e-value <e_value> after 12 conversations (an alarm at 20 is false in at most 5 % of agents, ever; reached 2024-03-02T"
    )
    assert passage(output) == snapshot("rarely: no evidence against it, with e-value")


def test_the_words_fit_a_narrow_terminal(watched: Watched) -> None:
    lines = on_terminal(80, "report", "--db", watched.db, "--config", watched.config)
    assert any(line.startswith("pass^3>=0.7: broken, with e-value") for line in lines)
    assert max(map(len, wrapped_lines(lines))) <= 80


def test_markdown_says_it_as_a_list(watched: Watched) -> None:
    output = done("report", "--db", watched.db, "--config", watched.config, "--format", "markdown").out
    assert passage(output) == snapshot("\n- pass^3\\>=0.7: broken, with e-value")


def test_only_the_requested_agents_are_reported(watched: Watched) -> None:
    arguments = ("report", "--db", watched.db, "--config", watched.config, "--format", "json", "--agent")
    assert 2 == len(done(*arguments, "cl*").json["objectives"])
    refused = run(*arguments, "nobody")
    assert (2, True) == (refused.code, "the store has: clerk" in refused.err)


def test_objectives_with_one_name_end_the_command(watched: Watched, tmp_path: Path) -> None:
    config = tmp_path / "two.toml"
    config.write_text(OBJECTIVES.replace('name = "rarely"', 'name = "pass^3>=0.7"'), "utf-8")
    ran = run("report", "--db", watched.db, "--config", config)
    assert 2 == ran.code
    assert passage(ran.err) == snapshot("two objectives are named 'pass^3>=0.7', for agents '*' and '*'")


def objective(**changes: Any) -> ObjectiveStatus:
    """Return an objective of a report, in the shape of the contract."""
    values = {
        "agent": "clerk",
        "agent_version": "1",
        "environment": "production",
        "service": "shop",
        "objective": "pass^3>=0.7",
        "k": 3,
        "target": 0.7,
        "p0": 0.7 ** (1 / 3),
        "method": "pooled",
        "block": "none",
        "blocks": 1_200,
        "n": 1_200,
        "c": 1_100,
        "pending": 0,
        "e_value": 0.25,
        "alpha": 0.05,
        "alarm": False,
        "alarmed_at": None,
        "target_run_length": 1_000.0,
        "changes": 0,
        "changed_at": None,
        **changes,
    }
    return partial(ObjectiveStatus, values)


MOMENT = {"alarm": True, "alarmed_at": "2026-03-02T12:00:00.123456789Z"}
NO_PROOF = "no alarm does not prove that an objective is kept; a lower bound of pass^k at or above the target does"
TRUST = "an alarm at 20 is false in at most 5 % of agents, ever; reached 2026-03-02T12:00:00Z"


@pytest.mark.parametrize(
    ("changes", "output"),
    [
        (
            {"e_value": 41.2, **MOMENT},
            f"broken, with e-value 41.2 after 1,200 conversations ({TRUST})",
        ),
        (
            {"e_value": 1e300, "method": "per_case", **MOMENT},
            f"broken, with e-value by case above 1e300 after 1,200 conversations ({TRUST})",
        ),
        (
            {"e_value": 41.2, "block": "auto", "blocks": 71, **MOMENT},
            (
                "broken, with e-value 41.2 after 1,200 conversations, counted as 71 blocks (runs of a user or session, else "
                f"hours) ({TRUST})"
            ),
        ),
        ({"e_value": 3.0, **MOMENT}, f"was found broken ({TRUST}); e-value 3 after 1,200 conversations"),
        (
            {"e_value": 3.0, "alpha": 0.001},
            "no alarm, with e-value 3 after 1,200 conversations (the alarm is at 1000; above 1 speaks against it)",
        ),
        (
            {"pending": 1},
            "no evidence against it, with e-value 0.25 after 1,200 conversations (the alarm is at 20); 1 newer one not final yet",
        ),
        (
            {"n": 0, "c": 0, "pending": 2},
            "no evidence yet, because no conversation is final; 2 conversations not final yet",
        ),
    ],
)
def test_each_state_has_its_words(changes: dict[str, Any], output: str) -> None:
    status = objective(**changes)
    more = [NO_PROOF] if status.n and not status.alarm else []
    assert [f"pass^3>=0.7: {output}", *more] == objective_notes([status])


@pytest.mark.parametrize(("changes", "which"), [(1, ""), (3, ", the last of 3")])
def test_a_fall_has_a_line_of_its_own(changes: int, which: str) -> None:
    _, output, _ = objective_notes([objective(changes=changes, changed_at="2026-03-02T12:00:00.000000000Z")])
    assert exactly(output, which=which) == snapshot(
        "pass^3>=0.7: the pass rate seems to have fallen below .888: change alarm 2026-03-02T12:00:00Z<which> (where it did not fall, such alarms are 1,000 conversations apart or more, on average)"
    )


def test_several_groups_are_named_by_their_differences() -> None:
    *output, _ = objective_notes([objective(), objective(agent_version="2"), objective(agent_version=None)])
    assert ["1: pass^3>=0.7", "2: pass^3>=0.7", "pass^3>=0.7"] == [line.split(": no ")[0] for line in output]


def test_no_objective_has_no_line() -> None:
    assert [] == objective_notes([])
