"""Scores of metrics in single conversations and in reports, from a store that real evaluators scored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from inline_snapshot import snapshot

from otel_agentic.cli.conversations import print_metrics
from otel_agentic.render.terminal import console
from otel_agentic.results.conversations import MetricScoreRow
from tests.cli.partial import partial
from tests.cli.running import done, run
from tests.snapshots import passage

if TYPE_CHECKING:
    from tests.cli.conftest import Shop

_ESC: Final = "\x1b[31m"


def score(**changes: Any) -> MetricScoreRow:
    values: dict[str, Any] = {
        "name": "agentic.layers.routing",
        "title": "tool routing",
        "unit": "1",
        "range": [0.0, 1.0],
        "turn_index": None,
        "position": None,
        "tool_name": None,
        "parameter": None,
        "value": 0.5,
        "label": None,
        "reason": None,
        "explanation": "Half of the calls.",
        "severity": None,
    }
    return partial(MetricScoreRow, values | changes)


def printed(capsys: pytest.CaptureFixture[str], *scores: MetricScoreRow) -> list[str]:
    print_metrics(console(), scores)
    return capsys.readouterr().out.splitlines()


def test_scores_stand_with_what_they_are_about_and_how_bad_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(
        capsys,
        score(),
        score(
            value=None, label="invalid", turn_index=0, position=1, tool_name="book", parameter="day", severity="high"
        ),
    )
    assert ["metric", "of", "score", "failure", "why"] == lines[1].split()
    assert ["layers.routing", "the", "conversation", ".500", "Half", "of", "the", "calls."] == lines[3].split()
    assert passage(lines[4]) == snapshot("turn 1, call 2: book day")
    assert lines[4].split()[-6:] == ["invalid", "high", "Half", "of", "the", "calls."]


def test_without_a_failure_there_is_no_column_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert "failure" not in printed(capsys, score())[1]


def test_abstentions_are_counted_by_reason(capsys: pytest.CaptureFixture[str]) -> None:
    silent = [score(value=None, reason=reason) for reason in ("no_data", "judge_error", "no_data")]
    assert printed(capsys, *silent) == snapshot(
        ["not scored: 2 no_data, 1 judge_error; --format json shows the reasons"]
    )


def test_a_terminal_does_not_obey_what_evaluators_and_models_say(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = score(name=_ESC, label=_ESC, tool_name=_ESC, parameter=_ESC, explanation=_ESC)
    lines = printed(capsys, hostile, score(value=None, reason=_ESC))
    assert [] == [line for line in lines if "\x1b" in line]
    assert any("\ufffd[31m" in line for line in lines)


def test_a_conversation_is_shown_with_the_scores_of_its_metrics(shop: Shop) -> None:
    result = done("conversations", "show", "c2", "--db", shop.db, "--format", "json").json
    routing = {row["name"]: row for row in result["metrics"]}["agentic.layers.tool_routing_accuracy"]
    assert (routing["title"], routing["unit"], routing["range"]) == ("tool routing accuracy", "1", [0.0, 1.0])
    assert {"evaluator", "evaluator_version", "score_id", "target", "severity", "details"} <= routing.keys()
    text = done("conversations", "show", "c2", "--db", shop.db).out
    assert "layers.tool_routing_accuracy" in text
    assert "not scored: " in text


def test_the_report_has_the_same_metrics_as_the_store_for_each_group(shop: Shop) -> None:
    groups = done("report", "--db", shop.db, "--by", "case", "--format", "json").json["groups"]
    sql = """
    SELECT k.case_id, s.name, count(*) FILTER (s.reason IS NULL) AS n, avg(s.value) AS mean
    FROM scores s JOIN v_conversations k USING (environment, conversation_id)
    WHERE s.evaluator <> 'core' AND NOT s.superseded GROUP BY ALL
    """
    stored = done("query", "--db", shop.db, sql, "--format", "json").json
    output = {(group["case"], item["name"]): (item["n"], item["mean"]) for group in groups for item in group["metrics"]}
    assert {(row["case_id"], row["name"]): (row["n"], row["mean"]) for row in stored}.items() <= output.items()
    assert len(groups) * len({name for _, name in output}) == len(output)


def test_metrics_are_chosen_by_name_and_none_shows_none(shop: Shop) -> None:
    requests = ("report", "--db", shop.db, "--format", "json", "--metrics")
    (group,) = done(*requests, "tool_f1,layers.verdict").json["groups"]
    assert ["agentic.layers.tool_f1", "agentic.layers.verdict"] == [item["name"] for item in group["metrics"]]
    (group,) = done(*requests, "none").json["groups"]
    assert group["metrics"] is None
    assert "Metrics beyond the outcome" not in done("report", "--db", shop.db, "--metrics", "none").out
    ran = run("report", "--db", shop.db, "--metrics", "politeness")
    assert (2, "") == (ran.code, ran.out)
    assert passage(ran.err) == snapshot("no metric 'politeness'; allowed: default, all, none, a family")


@pytest.mark.parametrize("output", ["table", "markdown", "html"])
def test_every_form_of_the_report_tells_of_metrics_and_bands(shop: Shop, output: str) -> None:
    text = done("report", "--db", shop.db, "--format", output, "--details").out
    for item in ("layers", "tool", "perfect", "moderate", "had nothing to score"):
        assert item in text


def test_metrics_that_were_asked_for_are_shown_also_where_they_abstained(shop: Shop) -> None:
    text = done("report", "--db", shop.db, "--metrics", "layers.reasoning,helpfulness").out
    assert "layers.plan_quality" in text
    assert passage(text) == snapshot(
        "not computed here: agentest.helpfulness; `otel-agentic evaluate --metrics agentest.helpfulness`"
    )
