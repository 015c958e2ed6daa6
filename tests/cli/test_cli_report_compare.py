"""Two versions against each other, and corrected rates, as a terminal, Markdown and JSON show them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from otel_agentic.render.corrected_rates import corrected_notes, corrected_rows
from otel_agentic.render.report_tables import (
    comparison_notes,
    difference,
    difference_columns,
    difference_rows,
    difference_title,
    probability,
)
from otel_agentic.results.reports import ComparedGroup, Comparison, Rate, ReportGroup, UncomparedGroup
from tests.cli.partial import partial
from tests.cli.running import done, on_terminal, run, wrapped_lines
from tests.cli.small import conversation, write_cases, write_spans
from tests.snapshots import ending, item, opening, passage


def estimate(value: float, lower: float, upper: float) -> dict[str, float | None]:
    return {"value": value, "lower": lower, "upper": upper}


def group(**changes: Any) -> ComparedGroup:
    """Return the comparison of one agent, in the shape of the report's JSON."""
    pooled, per_case = (
        {
            "method": "paired",
            "cases": 6,
            "pass_at_k": estimate(-0.1, -0.3, 0.1),
            "pass_pow_k": estimate(value, -0.61, -0.2),
        }
        for value in (-0.4, -0.42)
    )
    differences = {k: {**pooled, "pooled": pooled, "per_case": per_case} for k in ("1", "3")}
    values = {
        "agent": "clerk",
        "n": {"a": 24, "b": 30},
        "c": {"a": 23, "b": 13},
        "method": "paired",
        "cases": 6,
        "cases_left_out": {"a": 0, "b": 0},
        "probability_worse": 0.9973,
        "differences": differences,
        **changes,
    }
    return partial(ComparedGroup, values)


def comparison(*groups: ComparedGroup, **changes: Any) -> Comparison:
    values = {
        "by": "version",
        "a": "1.0.0",
        "b": "1.1.0",
        "level": 0.95,
        "groups": list(groups),
        "not_compared": [],
        "on_both": 0,
        **changes,
    }
    return partial(Comparison, values)


def test_the_first_note_names_the_worse_side() -> None:
    assert comparison_notes(comparison(group())) == snapshot(
        ["1.1.0 is worse than 1.0.0 with probability .997, paired over 6 cases: pass^1 -.420 [-.610, -.200]"]
    )


def test_what_is_rather_better_is_called_better() -> None:
    better = group(probability_worse=0.2, method="unpaired", cases=0)
    for k, difference_of_k in better.differences.items():
        better.differences[k] = replace(difference_of_k, per_case=None)

    (line,) = comparison_notes(comparison(better))
    assert opening(line) == snapshot(
        "1.1.0 is better than 1.0.0 with probability .800, unpaired, 24 and 30 conversations: "
    )


@pytest.mark.parametrize("worse", [0.4996, 0.5, 0.5004])
def test_where_nothing_speaks_for_either_neither_is_called_worse(worse: float) -> None:
    (line,) = comparison_notes(comparison(group(probability_worse=worse)))

    assert opening(line) == snapshot(
        "1.1.0 is as likely to be better than 1.0.0 as to be worse, paired over 6 cases: pass^1 "
    )


def test_what_is_not_compared_is_named_where_there_are_others() -> None:
    named, nameless = (
        partial(UncomparedGroup, {"agent": "clerk", "case": case, "without": ["1.1.0"]}) for case in ("hotel", None)
    )
    notes = "not compared, because nothing of version 1.1.0 was evaluated"

    assert [notes] == comparison_notes(comparison(not_compared=[nameless]))
    assert [f"hotel: {notes}", f"conversations without case: {notes}"] == comparison_notes(
        comparison(not_compared=[named, nameless])
    )


def test_several_agents_are_named_and_missing_sides_have_a_note() -> None:
    missing = partial(UncomparedGroup, {"agent": "other", "without": ["1.1.0"]})
    notes = comparison_notes(
        comparison(group(), group(agent="desk", cases_left_out={"a": 1, "b": 2}), not_compared=[missing], on_both=2)
    )

    assert ["clerk: 1.1.0 is", "desk: 1.1.0 is w"] == [notes[0][:15], notes[1][:16]]
    assert notes[2:] == snapshot(
        [
            "desk: left out: 1 case of 1.0.0 that 1.1.0 has no evaluated attempt of",
            "desk: left out: 2 cases of 1.1.0 that 1.0.0 has no evaluated attempt of",
            "other: not compared, because nothing of version 1.1.0 was evaluated",
            "2 conversations on both sides left out",
        ]
    )


def test_a_k_without_a_per_case_difference_is_named() -> None:
    mixed = group()
    mixed.differences["3"] = replace(mixed.differences["3"], per_case=None)

    assert opening(comparison_notes(comparison(mixed))[1]) == snapshot("no per-case difference at k=3")
    assert ["—", "—"] == difference_rows(comparison(mixed))[1][-2:]


def test_without_single_attempts_the_sentence_stands_without_a_difference() -> None:
    third = group()
    del third.differences["1"]

    assert comparison_notes(comparison(third)) == snapshot(
        ["1.1.0 is worse than 1.0.0 with probability .997, paired over 6 cases"]
    )


def test_each_k_has_a_row() -> None:
    result = comparison(group())

    assert difference_title(result) == snapshot("Difference of version 1.1.0 from 1.0.0")
    assert [
        [k, "-.100 [-.300, +.100]", "-.400 [-.610, -.200]", "-.100 [-.300, +.100]", "-.420 [-.610, -.200]"]
        for k in ("1", "3")
    ] == difference_rows(result)
    assert ["k", "pass@k, pooled", "pass^k, pooled", "pass@k, per case", "pass^k, per case"] == [
        column.name for column in difference_columns(result)
    ]


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "<.001"), (0.0004, "<.001"), (0.5, ".500"), (0.9994, ".999"), (0.9996, ">.999")]
)
def test_only_what_is_certain_would_be_called_certain(value: float, text: str) -> None:
    assert text == probability(value)


def test_differences_have_signs_and_a_dash_where_there_is_none() -> None:
    assert ["-1.00 [-1.00, +.500]", "—"] == [
        difference(Rate(value=-1.0, lower=-1.0, upper=0.5)),
        difference(Rate(value=None, lower=None, upper=None)),
    ]


CORRECTED = {
    "raw": estimate(0.8, 0.77, 0.83),
    "human": estimate(0.7, 0.6, 0.78),
    "rogan_gladen": {**estimate(0.71, 0.6, 0.8), "judged_rate": 0.812, "sensitivity": 0.95, "specificity": 0.7},
    "ppi": {**estimate(0.72, 0.65, 0.79), "n_human": 100, "n_judge": 900, "lambda": 0.7},
}


def test_raw_and_corrected_rates_are_named() -> None:
    reported = partial(ReportGroup, {"agent": "clerk", "corrected": CORRECTED})

    assert [
        ["judge alone (raw)", ".800 [.770, .830]"],
        ["people alone", ".700 [.600, .780]"],
        ["Rogan-Gladen (corrected)", ".710 [.600, .800]"],
        ["PPI++ (corrected)", ".720 [.650, .790]"],
    ] == corrected_rows([reported])
    assert corrected_notes([reported]) == snapshot(
        [
            (
                "clerk: corrected by 100 conversations that people labelled, 900 more judged only (.812 by the judge, which both "
                "corrections start from); sensitivity .950, specificity .700, lambda .700"
            )
        ]
    )


def test_few_labels_and_missing_corrections_have_notes() -> None:
    corrected = {**CORRECTED, "ppi": {**CORRECTED["ppi"], "n_human": 12}}
    few = partial(ReportGroup, {"agent": "few", "corrected": corrected})
    none = partial(ReportGroup, {"agent": "none", "not_corrected": "the labels are no random sample"})
    quiet = partial(ReportGroup, {"agent": "quiet", "corrected": None, "not_corrected": None})
    notes = corrected_notes([few, none, quiet])

    assert ending(notes[0]) == snapshot("below 50 labels the PPI++ interval, which is asymptotic, is rough")
    assert notes[1:] == snapshot(["none: not corrected for the judge's errors: the labels are no random sample"])


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with three cases, three attempts each of two versions: the newer one fails all of one case."""
    call = {"tool_name": "look_up", "parameters": {"order": "A1"}}
    cases = ("where", "when", "who")
    spans = [
        conversation(
            f"{version}-{case}-{number}",
            version=version,
            case=case,
            calls=[("look_up", {"order": "B2" if (version, case) == ("2.0", "who") else "A1"}, "ok")],
        )
        for version in ("1.0", "2.0")
        for case in cases
        for number in range(3)
    ]
    folder = tmp_path_factory.mktemp("shelf")
    rows = [{"case_id": case, "tools": {"calls": [call]}} for case in cases]
    done("ingest", write_spans(folder / "spans.jsonl", spans), "--db", folder / "t.duckdb")
    done("evaluate", "--db", folder / "t.duckdb", "--cases", write_cases(folder / "cases.jsonl", rows))
    return folder / "t.duckdb"


@pytest.mark.slow  # its parts: the tests below and tests/reports/test_reports_comparison.py
def test_versions_are_compared_from_end_to_end(shelf: Path) -> None:
    arguments = ("report", "--db", shelf, "--compare", "version=1.0,2.0", "-k", "1,3")
    lines = on_terminal(80, *arguments)
    (group,) = done(*arguments, "--format", "json").json["comparison"]["groups"]

    assert all(len(line) <= 80 for line in wrapped_lines(lines))
    assert item(lines) == snapshot("Difference of version 2.0 from 1.0")
    assert any(line.startswith("2.0 is worse than 1.0 with probability ") for line in lines)
    assert ("paired", 3) == (group["method"], group["cases"])
    assert -1 / 3 == pytest.approx(group["differences"]["1"]["pass_at_k"]["value"])
    notes = done(*arguments, "--format", "markdown").out
    assert passage(notes) == snapshot("### Difference of version 2.0 from 1.0")
    assert passage(notes) == snapshot("- 2.0 is worse than 1.0 with probability")


def test_an_invalid_comparison_ends_with_one_line(shelf: Path) -> None:
    ran = run("report", "--db", shelf, "--compare", "version=1.0,3.0")

    assert 2 == ran.code
    assert ran.lines == snapshot(
        ["otel-agentic: --compare: no closed conversation of this selection has version '3.0'; existing: '1.0', '2.0'"]
    )


def test_a_bootstrap_is_made_and_warned_of(shelf: Path) -> None:
    notes = done("report", "--db", shelf, "--by", "version", "--interval", "bootstrap").out

    assert passage(notes) == snapshot("1.0: warning: a bootstrap interval of bayesian has no width")
    assert "2.0: warning: a bootstrap" not in notes
