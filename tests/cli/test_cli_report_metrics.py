"""The metrics of a report beyond the outcome, in a table and as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from inline_snapshot import snapshot

from otel_agentic.render.html.failures import FailuresView, band_rows
from otel_agentic.render.html.filters import distinguishing_keys
from otel_agentic.render.html.links import FileLinks
from otel_agentic.render.html.metrics import MetricsTable, layer_rows
from otel_agentic.render.html.page import render
from otel_agentic.render.report_tables import metric_notes, shown_value, table_of_bands, table_of_metrics
from otel_agentic.results.charts import Charts, FailingRows, FailureCause, FailureCauses
from tests.cli.measured import group, labelled, metric, silent
from tests.cli.partial import partial
from tests.cli.pictured import Page
from tests.snapshots import ending, opening, passage

if TYPE_CHECKING:
    from otel_agentic.results.reports import ReportGroup

_SCRIPT: Final = "<script>alert(1)</script>\"'&amp;"


def metrics_table(*groups: ReportGroup) -> Page:
    """Return the table of metrics of a page, taken apart."""
    return Page.of(render("metrics", "metrics_table", MetricsTable.of(groups), distinguishing_keys(groups)))


def layers_table(*groups: ReportGroup) -> Page:
    """Return the table of layers of a page, taken apart."""
    return Page.of(render("metrics", "layers_table", layer_rows(groups), distinguishing_keys(groups)))


def failures_table(*rows: FailureCause) -> Page:
    """Return the table of failures of a page, taken apart."""
    failures = {"failures": FailureCauses(rows=list(rows), left_out=0), "failing": FailingRows(rows=[], left_out=0)}
    view = FailuresView.of(partial(Charts, failures), FileLinks({}))
    return Page.of(render("failures", "causes_table", view, view.causes))


def test_a_metric_has_a_row_with_its_score_what_is_good_and_what_is_missing() -> None:
    helpful = metric(
        name="agentic.agentest.helpfulness",
        range=[1.0, 5.0],
        mean=4.25,
        threshold={"min": 3.0, "max": None},
        failures=1,
        not_evaluated={"judge_error": 2, "no_data": 3},
    )
    columns, rows = table_of_metrics([group(helpful)])
    assert ["metric", "score", "scores", "good is", "failures", "not evaluated"] == [column.name for column in columns]
    assert rows == snapshot(
        [["agentest.helpfulness", "4.25 of 1 to 5", "4", "at least 3", "1", "3 no_data, 2 judge_error"]]
    )


def test_labels_stand_with_their_shares_and_failures_only_where_something_says_what_one_is() -> None:
    columns, rows = table_of_metrics([group(labelled({"none": 3, "action": 1}, "action"), metric())])
    assert [
        ["layers.verdict", "none 75%, action 25%", "4", "1"],
        ["layers.routing", ".500", "4", "—"],
    ] == rows
    assert ["metric", "score", "scores", "failures"] == [column.name for column in columns]  # the others are empty


def test_many_labels_are_counted() -> None:
    labels = {f"label {number}": 10 - number for number in range(9)}
    _, ((_, score, *_),) = table_of_metrics([group(labelled(labels))])
    assert score == snapshot("label 0 19%, label 1 17%, label 2 15%, label 3 13%, 5 other labels")


def test_groups_that_differ_are_named_in_their_first_row() -> None:
    groups = [group(metric(), metric(), agent_version="1.9"), group(metric(), agent_version="1.10")]
    columns, rows = table_of_metrics(groups)
    assert ["1.9", "", "1.10"] == [row[0] for row in rows]
    assert "version" == columns[0].name


def test_what_abstained_throughout_is_counted_with_the_command_that_shows_it() -> None:
    groups = [group(metric(), silent("no_data"), silent("content_not_captured"))]
    assert 1 == len(table_of_metrics(groups)[1])
    (note,) = metric_notes(groups)
    assert passage(note) == snapshot(
        "clerk: 2 more metrics had nothing to score (no_data, content_not_captured); `otel"
    )
    assert ending(note) == snapshot("`otel-agentic report --metrics all` shows them")


@pytest.mark.parametrize(
    ("reason", "advised"),
    [
        ("tokens_not_recorded", "gen_ai.usage.input_tokens"),
        ("price_not_set", "[evaluators.prices]"),
        ("tool_definitions_not_recorded", "gen_ai.tool.definitions"),
        ("state_not_recorded", "agentic.final_state"),
        ("model_calls_not_recorded", "model client"),
        ("budget_exhausted", "judge.max_calls"),
    ],
)
def test_missing_scores_have_advice_once(reason: str, advised: str) -> None:
    _, note = metric_notes([group(metric(), silent(reason)), group(silent(reason))])
    assert note.startswith(f"{reason}: ")
    assert advised in note
    assert "CAPTURE_MESSAGE_CONTENT" not in note


def test_groups_in_which_the_same_metrics_abstained_stand_in_one_sentence() -> None:
    groups = [group(silent("no_data"), agent_version=version) for version in ("1.9", "y" * 500)]
    (note,) = metric_notes(groups)
    assert opening(note, value="y" * 79) == snapshot("1.9, <value>…: 1 more metric had nothing to score")


def test_metrics_that_were_asked_for_are_shown_even_without_a_score() -> None:
    groups = [group(metric(), silent("no_data"))]
    assert ["layers.plan", "—", "0", "4 no_data"] == table_of_metrics(groups, every=True)[1][1]
    assert [] == metric_notes(groups, [metric.name for metric in groups[0].metrics or ()])


def test_metrics_that_were_asked_for_and_never_computed_are_named_with_what_computes_them() -> None:
    chosen = ["agentic.layers.routing", *(f"agentic.agentest.{letter}" for letter in "abcdefgh")]
    (note,) = metric_notes([group(metric())], chosen)
    assert passage(note) == snapshot(
        "not computed here: agentest.a, agentest.b, agentest.c, agentest.d, agentest.e, agentest.f and 2 more"
    )
    assert passage(note) == snapshot("`otel-agentic evaluate --metrics agentest.a` computes one")


def test_of_many_groups_metrics_are_left_out_with_a_note() -> None:
    groups = [group(metric(), case=str(number)) for number in range(7)]
    assert metric_notes(groups) == snapshot(
        ["metrics of 7 groups are not shown: --metrics A,B shows some, --format json has all"]
    )


def test_a_report_without_metrics_says_nothing_of_them() -> None:
    without = [group(metrics=None)]
    assert ([], [], []) == (table_of_metrics(without)[1], metric_notes(without), MetricsTable.of(without).rows)


@pytest.mark.parametrize(
    ("value", "unit", "bounds", "expected"),
    [
        (0.25, "1", [0.0, 1.0], ".250"),
        (0.25, "1", [0.0, None], "0.25"),
        (2.0, "1", [1.0, 5.0], "2 of 1 to 5"),
        (12.345, "s", [0.0, None], "12.3 s"),
        (0.00041, "{USD}", [0.0, None], "$0.00041"),
        (1.0, "{call}", [0.0, None], "1 call"),
        (2.5, "{call}", [0.0, None], "2.5 calls"),
        (98765.4, "{token}", [0.0, None], "98,765 tokens"),
        (3.0, "km", [0.0, None], "3 km"),
        (3.0, None, None, "3"),
    ],
)
def test_values_have_their_unit(value: float, unit: str | None, bounds: list[Any] | None, expected: str) -> None:
    assert expected == shown_value(value, metric(unit=unit, range=bounds))


def test_tool_scores_stand_in_bands() -> None:
    counts = {"perfect": 1200, "good": 3, "moderate": 0, "poor": 7}
    columns, rows = table_of_bands([group(tool_bands={"selection": counts})])
    assert ["dimension", "perfect", "good", "moderate", "poor"] == [column.name for column in columns]
    assert [["selection", "1,200", "3", "0", "7"]] == rows
    page = Page.of(render("failures", "bands_table", band_rows([group(tool_bands={"selection": counts})]), []))
    assert "selection 1,200 3 0 7" in page.text
    assert [] == band_rows([group()])


def test_a_page_says_what_the_table_says() -> None:
    scores = {"range": [1.0, 5.0], "mean": 4.25, "low": 1.0, "median": 4.0, "high": 5.0}
    limits = {"threshold": {"min": 3.0, "max": None}, "failures": 1, "not_evaluated": {"judge_error": 2}}
    limited = metric(title="helpfulness", **scores, **limits)
    text = metrics_table(group(limited)).text
    assert passage(text) == snapshot(
        "layers.routing helpfulness 4.25 of 1 to 5 median 4, from 1 to 5 at least 3 2 judge error 4 1"
    )


def test_the_layers_stand_first_with_the_share_of_each() -> None:
    verdict = labelled({"none": 6, "action": 3, "reasoning": 1}, "action", "reasoning", not_evaluated={"no_data": 2})
    page = layers_table(group(metric(), verdict))
    assert passage(page.text) == snapshot("60% none 30% action 10% reasoning 10 of 12")
    widths = [float((value or "0").rstrip("%")) for name, value in page.attributes if name == "width"]
    assert pytest.approx([60, 30, 10], abs=0.6) == widths
    assert [] == layer_rows([group(metric())])


def test_failures_stand_by_cause_with_severity_and_example() -> None:
    rows = [failure(severity="critical", title="book was called though it is forbidden", share=0.125)]
    text = failures_table(*rows).text
    assert passage(text) == snapshot(
        "book was called though it is forbidden ■ critical c7 2026-03-02 12:00 to 2026-03-03 12:00 3 4 12%"
    )


def test_untrusted_names_become_no_markup() -> None:
    labels = {_SCRIPT: 1, "\u202egnp": 1}
    hostile = labelled(labels, _SCRIPT, name=_SCRIPT, title=_SCRIPT, not_evaluated={_SCRIPT: 1})
    verdict = labelled(labels, _SCRIPT)
    hostile_group = group(hostile, verdict, agent=_SCRIPT)
    rows = [failure(title=_SCRIPT, example_conversation=_SCRIPT)]
    for page in (metrics_table(hostile_group), layers_table(hostile_group), failures_table(*rows)):
        assert "<script>alert(1)" in page.text
        assert [] == [name for name, _ in page.attributes if name.startswith("on")]


def failure(**changes: Any) -> FailureCause:
    """Return a cause of failures, as `report_pictures` returns it."""
    values: dict[str, Any] = {
        "title": "the answer was wrong",
        "severity": "high",
        "failures": 4,
        "conversations": 3,
        "share": 0.5,
        "first_seen_ns": 1_772_452_800_000_000_000,
        "last_seen_ns": 1_772_539_200_000_000_000,
        "example_conversation": "c7",
        "example_environment": "production",
        "explanation": "the answer was wrong",
    }
    return partial(FailureCause, values | changes)
