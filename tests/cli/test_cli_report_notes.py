"""The notes below a report: missing evaluations, missing proof, and the assumptions of the intervals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from otel_agentic.render.report_notes import (
    group_notes,
    method_notes,
    name_of,
    not_rebuilt_notes,
    period,
    tier_notes,
    title,
)
from otel_agentic.results import to_json
from otel_agentic.results.reports import Estimates, Report, ReportGroup
from tests.cli.partial import partial
from tests.cli.running import done, run
from tests.cli.small import NOON_NS, SECOND_NS, conversation, write_cases, write_spans
from tests.snapshots import ending, opening, passage

if TYPE_CHECKING:
    from tests.cli.conftest import Shop

_HOUR_NS = 3600 * SECOND_NS


def group(**changes: Any) -> ReportGroup:
    """Return a group of a report, in the shape of the contract."""
    method = changes.pop("method", "beta_equal_tailed")
    estimator = changes.pop("default_estimator", "bayesian")
    unused = dict.fromkeys(("agent_version", "environment", "service", "tag", "dataset", "case", "tool", "window"))
    estimates_of = {
        "interval_method": method,
        "level": 0.95,
        "pass_at_k": {},
        "pass_pow_k": {},
        **changes.pop("estimates_of", {}),
    }
    estimates = {**estimates_of, "estimator": estimator}
    per_case = {**estimates_of, "estimator": "per_case"}
    evidence = {
        "rule": "interval",
        "estimator": estimator,
        "rates": {"pass_at_1": 0.9},
        "n": 20,
        "c": 18,
        "cases": 20,
        "statement": "mean rate over cases below 0.9",
        "e_value": 31.4,
        "e_value_needed": 20.0,
        "since": "2026-03-01T00:00:00Z",
        "agent_version": "2",
        "versions": 1,
        "withheld": None,
    }
    values = {
        "agent": "clerk",
        "criterion": "correct",
        "cases_left_out": {},
        "partial_fails": 0,
        "known_failures": 0,
        **unused,
        "n": 20,
        "c": 18,
        "coverage": 1.0,
        "bounds": [0.9, 0.9],
        "not_evaluated": {},
        "default_estimator": estimator,
        "gauge_estimator": estimator,
        "estimates": {estimator: estimates, "per_case": per_case},
        "pooled": estimates,
        "per_case": per_case,
        "tier_evidence": evidence,
        "tool_dimensions": {},
        "tier": "needs_improvement",
        "leaning": None,
        "needed": 0,
        **changes,
    }
    return partial(ReportGroup, values)


def test_a_group_without_a_number_says_so_and_what_to_do() -> None:
    empty = group(
        n=0, c=0, coverage=0.0, not_evaluated={"unmatched": 3, "judge_error": 1}, tier="insufficient_evidence"
    )

    notes = group_notes([empty])

    assert notes[
        0
    ] == "clerk: no conversation was evaluated, so there is no number to give: 3 unmatched, 1 judge_error" or (
        "3 unmatched" in notes[0] and "1 judge_error" in notes[0]
    )
    assert ["unmatched", "judge_error"] == [line.partition(":")[0] for line in notes[1:]]
    assert "settle" not in " ".join(notes)
    assert [] == method_notes([empty])


def test_what_was_not_evaluated_stands_with_the_bounds_it_leaves() -> None:
    notes = group_notes([group(coverage=0.8, bounds=[0.72, 0.92], not_evaluated={"incomplete": 5})])

    assert notes[0] == snapshot("clerk: not evaluated: 5 incomplete; with them the pass rate lies in [.720, .920]")
    assert opening(notes[1]) == snapshot("incomplete: an expected turn is missing")


def test_what_could_not_be_rebuilt_is_one_line_and_nothing_is_none() -> None:
    (notes,) = not_rebuilt_notes(partial(Report, {"not_rebuilt": {"traces": 0, "conversations": 2}}))

    assert "2 conversations" in notes
    assert "trace" not in notes
    assert [] == not_rebuilt_notes(partial(Report, {}))


@pytest.mark.parametrize(
    ("leaning", "needed", "notes"),
    [
        ("ready", 1253, "leaning ready; about 1,253 more conversations at this rate would settle it"),
        ("ready", 1, "leaning ready; about 1 more conversation at this rate would settle it"),
        ("ready", None, "leaning ready; at this rate no number of conversations within reach would settle it"),
    ],
)
def test_missing_evidence_says_where_it_leans_and_how_much_more_is_needed(
    leaning: str, needed: int | None, notes: str
) -> None:
    (note,) = group_notes([group(tier="insufficient_evidence", leaning=leaning, needed=needed)])

    assert note == f"clerk: insufficient_evidence, {notes}"


def test_a_group_of_one_case_is_warned_of_unless_cases_were_asked_for() -> None:
    alone = group(method="beta_equal_tailed_one_case")

    (warning,) = group_notes([alone])
    assert warning == snapshot(
        "warning: all conversations of clerk are of one case: intervals are about that case alone, and no tier is claimed"
    )
    assert [] == group_notes([group(method="wilson_one_case", case="where")])


@pytest.mark.parametrize(
    ("method", "assumed"),
    [
        ("beta_equal_tailed", "conversations count as independent"),
        (
            "wilson_effective_n",
            "about new cases like these; cases count as independent; attempts of one case may be correlated, so they weigh less",
        ),
        ("wilson_one_case", "the attempts of one case count as independent; the interval is about that case alone"),
    ],
)
def test_what_the_intervals_assume_follows_from_how_they_were_made(method: str, assumed: str) -> None:
    line, _ = method_notes([group(method=method)])

    assert opening(line, method=method, assumed=assumed) == snapshot(
        "pooled: bayesian (pooled over conversations); 95% intervals <method>: <assumed>"
    )


def targets(traffic: float, new: float, *, fewest: int = 4, most: int = 4) -> dict[str, Any]:
    """Return the targets of a group, pass^3 of this traffic and of a new case given."""

    def estimates_with(estimator: str, value: float) -> dict[str, Any]:
        rate = {"value": value, "lower": value - 0.1, "upper": value + 0.05}
        return {"estimator": estimator, "pass_at_k": rate, "pass_pow_k": rate}

    return {
        "cases": 50,
        "fewest_attempts": fewest,
        "most_attempts": most,
        "this_traffic": {"1": estimates_with("this_traffic", 0.8), "3": estimates_with("this_traffic", traffic)},
        "new_case": {"1": estimates_with("per_case", 0.8), "3": estimates_with("hierarchical", new)},
    }


def test_where_cases_differ_both_targets_are_named_and_neither_is_taken_for_the_other() -> None:
    traffic, new = group_notes([group(targets=targets(0.51, 0.63))])
    assert traffic == snapshot(
        "this traffic, if these 50 cases (4 attempts each) continue in these shares: success rate .800 [.700, .850]; "
        "3 conversations drawn from it all succeed .510 [.410, .560]"
    )
    assert new == snapshot(
        "a new case like these: success rate .800 [.700, .850] (per_case); "
        "the same new case succeeds 3 times in a row .630 [.530, .680] (hierarchical)"
    )


def test_unequal_attempts_have_a_note_and_equal_cases_need_none() -> None:
    unequal, _ = group_notes([group(targets=targets(0.51, 0.51, fewest=1, most=60))])
    assert passage(unequal) == snapshot("these 50 cases (1 to 60 attempts each)")
    assert group_notes([group(targets=targets(0.510, 0.512)), group(targets=None)]) == []


def test_an_estimator_of_a_plug_in_is_named_and_nothing_is_claimed_for_it() -> None:
    third = {"estimator": "rule_of_three", "interval_method": "three_over_n", "level": 0.95}
    own = group()
    estimates = {"rule_of_three": partial(Estimates, third)}
    lines = method_notes([replace(own, default_estimator="rule_of_three", estimates=estimates)])

    assert lines[2] == snapshot("rule_of_three: rule_of_three; 95% intervals three_over_n")


def test_each_method_of_each_column_has_its_line() -> None:
    left_out = {"per_case": {"1": 0, "3": 2, "5": 1}}
    groups = [
        group(agent="a"),
        group(agent="b"),
        group(agent="c", method="wilson_effective_n", cases_left_out=left_out),
    ]
    lines = method_notes(groups)

    assert [line.partition(":")[0] for line in lines[:4]] == snapshot(
        ["pooled of 2 groups", "per case of 2 groups", "pooled of 1 group", "per case of 1 group"]
    )
    assert lines[4] == snapshot("per_case leaves out cases with fewer than k attempts: 2 cases at k=3, 1 case at k=5")


def test_the_tier_stands_with_the_numbers_that_it_rests_on() -> None:
    (note,) = tier_notes([group(tier="ready")])
    assert note == snapshot(
        "clerk: tier ready by pass@1 .900 (bayesian); mean rate over cases below 0.9: e-value 31.4, claimed from 20 on; 20 "
        "conversations of 20 cases since 2026-03-01 00:00"
    )
    evidence = to_json(group().tier_evidence)
    (several,) = tier_notes([group(tier="ready", tier_evidence={**evidence, "versions": 3})])
    assert ending(several) == snapshot("20 conversations of 20 cases of version 2 since 2026-03-01 00:00")
    (withheld,) = tier_notes([group(tier_evidence={**evidence, "withheld": "the judge is biased"})])
    assert ending(withheld) == snapshot("no tier is claimed: the judge is biased")
    (gap,) = tier_notes([group(tier="no_row")])
    assert ending(gap) == snapshot("has no row for them")
    assert [] == tier_notes([group(n=0)])


def test_a_bootstrap_interval_without_a_width_is_warned_of() -> None:
    collapsed = group(method="cluster_bootstrap", estimates_of={"collapsed": True})

    assert [
        (
            f"clerk: warning: a bootstrap interval of {name} has no width (its cases all gave the same result): that is no "
            "certainty; leave out --interval bootstrap"
        )
        for name in ("bayesian", "per_case")
    ] == group_notes([collapsed])
    assert passage(method_notes([collapsed])[0]) == snapshot("made by resampling cases, too narrow where there are few")


def test_sampled_shares_have_a_note_and_so_has_their_weight() -> None:
    equal = group(sampling={"lowest_ratio": 0.1, "highest_ratio": 0.1, "weighted": False})
    unequal = group(sampling={"lowest_ratio": 0.1, "highest_ratio": 1.0, "weighted": True})

    assert group_notes([equal]) == snapshot(
        ["clerk: a random share of .100 of its conversations is evaluated: what sampling leaves out biases no rate"]
    )
    assert group_notes([unequal]) == snapshot(
        [
            (
                "clerk: random shares of .100 to 1.00 of its conversations are evaluated: rates count each conversation 1 / share "
                "times, so they differ from correct / evaluated; what sampling leaves out biases no rate"
            )
        ]
    )


def test_groups_are_named_by_what_tells_them_apart() -> None:
    old, new = group(agent_version="1.0", tag="production"), group(agent_version="2.0", tag="production")

    assert title([old, new]) == snapshot("Reliability of clerk, tag production")
    assert ["1.0", "2.0"] == [name_of(side, [old, new]) for side in (old, new)]
    assert "clerk" == name_of(old, [old])


def test_a_period_is_described() -> None:
    assert "all time" == period(None, None, None)
    assert "window 7d, since 30d" == period("7d", "30d", None)
    assert "since 2026-03-01 until 2026-03-02" == period(None, "2026-03-01", "2026-03-02")


@pytest.mark.slow  # the note: a test above
def test_a_report_of_one_case_warns(tmp_path: Path) -> None:
    attempts = [
        conversation(f"c{number}", calls=[("look_up", {"order": "A1"}, "ok")], case="where", start_ns=NOON_NS + number)
        for number in range(3)
    ]
    call = {"tool_name": "look_up", "parameters": {"order": "A1"}}
    write_cases(tmp_path / "cases.jsonl", [{"case_id": "where", "tools": {"calls": [call]}}])
    done("ingest", write_spans(tmp_path / "spans.jsonl", attempts), "--db", "t.duckdb")
    done("evaluate", "--db", "t.duckdb", "--cases", "cases.jsonl")

    assert passage(done("report", "--db", "t.duckdb").out) == snapshot(
        "warning: all conversations of clerk are of one case"
    )
    assert "warning" not in done("report", "--db", "t.duckdb", "--by", "case").out


def test_before_an_evaluation_the_report_says_to_evaluate(tmp_path: Path) -> None:
    done("ingest", write_spans(tmp_path / "spans.jsonl", [conversation("c1")]), "--db", "t.duckdb")

    assert passage(done("report", "--db", "t.duckdb").out) == snapshot(
        "not_scored: closed, but not scored yet; `otel-agentic evaluate` scores them"
    )
    assert "not evaluated yet" in done("conversations", "list", "--db", "t.duckdb").out
    assert "not evaluated yet" in done("conversations", "show", "c1", "--db", "t.duckdb").out


@pytest.mark.parametrize(
    "command",
    [
        "report",
        "failures",
        "conversations list",
        "gate --allow-no-data",
        "truth promote",
        *(
            pytest.param(command, marks=pytest.mark.slow)
            for command in (
                "tools failing",
                "conversations export",
                "suite list",
                "truth matches",
                "truth matches --clusters",
            )
        ),
    ],
)
def test_an_agent_that_the_store_lacks_is_refused_with_those_that_it_has(shop: Shop, command: str) -> None:
    ran = run(*command.split(), "--db", shop.db, "--agent", "nope")

    assert ran.code == 2
    assert "no agent matches 'nope'; the store has: " in ran.err
    assert run(*command.split(), "--db", shop.db, "--agent", "*").code != 2


def test_an_empty_selection_has_a_note_and_is_no_error(shop: Shop) -> None:
    none = ("--db", shop.db, "--since", "2100-01-01")

    assert passage(done("report", *none).out) == snapshot("no closed conversations in this selection")
    assert passage(done("report", *none, "--format", "markdown").out) == snapshot(
        "no closed conversations in this selection"
    )
    report = done("report", *none, "--format", "json").json
    assert ["evaluation", "criteria", "groups", "cases_left_out", "wrong_clocks"] == list(report)
    assert [] == report["groups"]
    assert "no tool faults" in done("tools", "failing", *none).out
    assert passage(done("conversations", "list", *none).out) == snapshot("no conversations in this selection")
    assert "" == done("conversations", "export", *none).out
    assert passage(done("truth", "matches", *none).out) == snapshot("no conversations in this selection")
    assert passage(done("truth", "matches", *none, "--only", "warning").out) == snapshot("no matches with a warning")


@pytest.mark.slow  # the names: a test above
def test_groups_of_different_versions_are_distinguished(tmp_path: Path) -> None:
    spans = [
        conversation(f"c{version}{number}", version=version, case="done", start_ns=NOON_NS + number * _HOUR_NS)
        for version in ("1.0", "2.0")
        for number in range(2)
    ]
    write_cases(tmp_path / "cases.jsonl", [{"case_id": "done", "turns": [{"answer": "It arrives on Monday."}]}])
    done("ingest", write_spans(tmp_path / "spans.jsonl", spans), "--db", "t.duckdb")
    done("evaluate", "--db", "t.duckdb", "--cases", "cases.jsonl")
    by_version = ("report", "--db", "t.duckdb", "--by", "version", "--by", "environment", "-k", "1")

    notes = done(*by_version).out
    assert opening(notes) == snapshot("Reliability of clerk, environment production (all time)\nversion  correct")
    json_groups = done(*by_version, "--format", "json").json["groups"]
    assert [("1.0", "production", 2), ("2.0", "production", 2)] == [
        (row["agent_version"], row["environment"], row["n"]) for row in json_groups
    ]
