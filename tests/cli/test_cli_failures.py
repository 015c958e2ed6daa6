"""`failures`: causes, severities, counts, examples, and the reason for an empty list."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from tests.cli.hotel import CASES, build_hotel
from tests.cli.running import done, on_terminal, run
from tests.cli.small import conversation, write_cases, write_spans
from tests.live.running_collector import live_settings, running
from tests.snapshots import opening, passage


@pytest.fixture(scope="module")
def hotel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store that tests read and do not change: c2 to c5 failed."""
    return build_hotel(tmp_path_factory.mktemp("hotel"))


def failures(db: Path, *options: str) -> Any:
    return done("failures", "--db", db, "--format", "json", *options).json


def test_a_table_begins_with_what_most_conversations_fail_by(hotel: Path) -> None:
    lines = done("failures", "--db", hotel).out.splitlines()
    assert lines[0] == snapshot("Failures of clerk: 4 of 7 scored conversations failed")
    rows = [" ".join(line.split()) for line in lines[3:5]]
    assert rows == snapshot(
        [
            "1 high book was given a wrong city 3 75% — 2026-03-04 12:01 2026-03-06 12:01 c5 turn 1",
            "2 high book was not called where it is expected 1 25% — 2026-03-03 12:01 2026-03-03 12:01 c2",
        ]
    )
    assert lines[-1] == snapshot("(5 failures in 4 conversations: 5 high; --show N shows one)")


def test_json_holds_every_group_with_the_places_of_its_failures(hotel: Path) -> None:
    result = failures(hotel)
    assert (7, 7, 4, 5, 4, 2, 0) == tuple(
        result[name]
        for name in (
            "conversations",
            "scored",
            "failed",
            "failures",
            "failing_conversations",
            "group_count",
            "judge_errors",
        )
    )
    assert [4, 1] == [group["count"] for group in result["groups"]]
    assert [3, 1] == [group["conversations"] for group in result["groups"]]
    invalid = result["groups"][0]
    assert [
        {"metric": "agentic.tool", "label": "wrong_parameters", "tool_name": "book", "parameter": "city"}
    ] == invalid["causes"]
    assert [("c5", 0, 0, True), ("c4", 0, 0, True), ("c4", 0, 1, False), ("c3", 0, 0, True)] == [
        (item["conversation_id"], item["turn_index"], item["position"], item["is_root"]) for item in invalid["failures"]
    ]
    assert [("drop was called although it was not expected", 1, 1)] == [
        (item["title"], item["count"], item["conversations"]) for item in invalid["symptoms"]
    ]
    assert ("c5", [{"agent_version": "1.10", "count": 4}]) == (
        invalid["example_conversation"],
        invalid["agent_versions"],
    )
    assert 1.0 == pytest.approx(sum(group["share"] for group in result["groups"]))


def test_each_group_has_its_days_its_trend_and_the_version_that_brought_it(hotel: Path) -> None:
    parameter, missing = failures(hotel)["groups"]
    assert [(day["day"], day["conversations"], day["scored"]) for day in parameter["daily"]] == snapshot(
        [
            ("2026-03-02", 0, 2),
            ("2026-03-03", 0, 1),
            ("2026-03-04", 1, 1),
            ("2026-03-05", 1, 1),
            ("2026-03-06", 1, 1),
            ("2026-03-07", 0, 1),
        ]
    )
    assert [1, 3] == [sum(day["conversations"] for day in group["daily"]) for group in (missing, parameter)]
    assert parameter["trend"] == snapshot(
        {
            "direction": None,
            "split_at": "2026-03-04T12:01:00.000000000Z",
            "before": 0,
            "before_scored": 3,
            "after": 3,
            "after_scored": 4,
            "p_value": 0.14285714285714288,
        }
    )
    assert (parameter["first_version"], missing["first_version"]) == snapshot(("1.10", "1.9"))


def test_csv_has_a_row_for_each_group_or_for_each_failure(hotel: Path) -> None:
    groups, item = (
        [*csv.DictReader(io.StringIO(done("failures", "--db", hotel, "--format", "csv", "--by", by).out))]
        for by in ("group", "failure")
    )
    assert [("4", "book", "city"), ("1", "book", "")] == [
        (row["count"], row["tool_name"], row["parameter"]) for row in groups
    ]
    assert sum(int(row["count"]) for row in groups) == len(item) == 5
    assert {"c2", "c3", "c4", "c5"} == {row["conversation_id"] for row in item}
    assert {row["title"] for row in groups} == {row["title"] for row in item}


def test_one_group_is_shown_with_its_newest_places(hotel: Path) -> None:
    output = done("failures", "--db", hotel, "--show", "1").out
    assert opening(output) == snapshot(
        "high: book was given a wrong city\nroot cause of 3 conversations, 75% of all failing ones\n"
    )
    assert passage(output) == snapshot(
        "first seen 2026-03-04 12:01:00 UTC in version 1.10, last seen 2026-03-06 12:01:00 UTC\n"
    )
    assert passage(output) == snapshot("symptom in 1 conversation: drop was called although it was not expected\n")
    assert passage(output) == snapshot("for example: conversation c5, turn 1 of clerk 1.10 production\n")
    assert passage(output) == snapshot('parameter city was "Oslo", expected "Rome"')
    assert passage(output) == snapshot("(otel-agentic conversations show c5 shows all of it)")
    assert {"evaluation": "default", **failures(hotel)["groups"][0]} == failures(hotel, "--show", "1")


def test_time_agent_severity_and_limit_narrow_it(hotel: Path) -> None:
    assert 2 == failures(hotel, "--since", "2026-03-05T12:02:00Z")["conversations"]
    assert 1 == failures(hotel, "--until", "2026-03-04")["failures"]
    assert failures(hotel) == failures(hotel, "--agent", "cl*")
    assert 0 == failures(hotel, "--severity", "critical")["failures"]
    assert (1, 2) == (len(failures(hotel, "--limit", "1")["groups"]), failures(hotel, "--limit", "1")["group_count"])
    assert passage(done("failures", "--db", hotel, "--limit", "1").out) == snapshot("1 more group, --limit lists them")


def test_severities_of_the_settings_count(hotel: Path, tmp_path: Path) -> None:
    config = tmp_path / "own.toml"
    config.write_text('[evaluators.severities]\n"tool=spurious" = "critical"\ntool = "low"\n')
    result = failures(hotel, "--config", str(config))
    assert [("critical", "book"), ("low", "book")] == [
        (group["severity"], group["causes"][0]["tool_name"]) for group in result["groups"]
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--since", "2100-01-01"), "no failures: no closed conversations in this selection"),
        (("--severity", "critical"), "no failures of severity critical or worse in 7 scored conversations"),
        (("--until", "2026-03-02T13:00:00Z"), "no failures in 2 scored conversations"),
    ],
)
def test_where_there_is_none_it_says_what_it_looked_at(hotel: Path, options: tuple[str, ...], message: str) -> None:
    assert done("failures", "--db", hotel, *options).out.startswith(f"{message}\n")


def test_before_evaluate_it_says_so(tmp_path: Path) -> None:
    db = tmp_path / "t.duckdb"
    done("ingest", write_spans(tmp_path / "s.jsonl", [conversation("c1")]), "--db", db)
    assert done("failures", "--db", db).out == snapshot(
        "no failures: none of 1 closed conversation is scored; run evaluate\n"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--show", "9"), "--show 9: no such group; the last group is 2"),
        (("--show", "1", "--limit", "1"), "give --limit or --show, not both"),
        (("--show", "1", "--format", "csv"), "--show needs --format table or json"),
        (("--by", "failure"), "--by failure needs --format csv"),
        (("--judge", "exact"), "--judge selects the judge that merges groups: add --merge"),
        (("--merge",), "--merge: judge exact cannot group failures"),
        (("--severity", "terrible"), "'terrible' is not one of"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_a_line(hotel: Path, options: tuple[str, ...], message: str) -> None:
    ran = run("failures", "--db", hotel, *options)
    assert (2, "", 1) == (ran.code, ran.out, len(ran.lines))
    assert message in ran.err


def test_a_setting_that_names_no_metric_is_refused(hotel: Path, tmp_path: Path) -> None:
    config = tmp_path / "own.toml"
    config.write_text("[evaluators.thresholds]\nhelpfulnes = {min = 3}\n")
    ran = run("failures", "--db", hotel, "--config", config)
    assert 2 == ran.code
    assert passage(ran.err) == snapshot(
        "evaluators.thresholds: 'helpfulnes' is not a metric (a custom one needs its file in evaluators.files)"
    )


@pytest.mark.parametrize("width", [60, 80, 120])
def test_on_a_terminal_of_any_width_the_numbers_stay_whole(hotel: Path, width: int) -> None:
    lines = on_terminal(width, "failures", "--db", str(hotel))
    assert all(len(line) <= width for line in lines)
    assert ["1", "2"] == [words[0] for words in map(str.split, lines) if words[:1] and words[0] in {"1", "2"}]
    assert ("severity" in lines[1]) == (width > 80)  # it is the first column to go
    assert on_terminal(width, "failures", "--db", str(hotel), "--show", "1")


def test_untrusted_texts_are_shown_and_not_obeyed(tmp_path: Path) -> None:
    evil = "drop\x1b[31m\n=1+1\u202e"
    db = tmp_path / "t.duckdb"
    spans = [conversation("c1", query="A room in Rome, please", calls=[(evil, {evil: 1}, "ok")], case="rome")]
    done("ingest", write_spans(tmp_path / "s.jsonl", spans), "--db", db)
    done("evaluate", "--db", db, "--cases", write_cases(tmp_path / "c.jsonl", CASES))
    for options in ((), ("--show", "1"), ("--format", "csv"), ("--format", "json")):
        output = done("failures", "--db", db, *options).out
        assert not {"\x1b", "\u202e"} & set(output)
    (group,) = failures(db)["groups"]
    assert evil in {item["tool_name"] for item in group["failures"]}


@pytest.mark.slow  # as for every command: tests/cli/test_cli_serve.py
def test_a_running_collector_is_asked_by_its_address_and_by_its_file(hotel: Path, tmp_path: Path) -> None:
    db = tmp_path / "live.duckdb"
    db.write_bytes(hotel.read_bytes())
    before = failures(db)
    with running(live_settings(db)) as (_, server):
        assert before == json.loads(done("failures", "--server", server.admin, "--format", "json").out)
        assert before == failures(db)
        refused = run("failures", "--db", db, "--merge", "--judge", "langchain:fake:model")
    assert 2 == refused.code
    assert passage(refused.err) == snapshot("a running collector holds the store and scores with its own settings")
