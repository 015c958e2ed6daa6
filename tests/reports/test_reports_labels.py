"""Traffic without cases, corrected by the labels of people: on real conversations, whose truth is known."""

from __future__ import annotations

import csv
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pytest
from inline_snapshot import snapshot

from otel_agentic.commands import Commands
from otel_agentic.engine.engine import Engine
from otel_agentic.evaluators.registry import resolved
from otel_agentic.reports.label_report import PersonVerdict, TrafficNumbers
from otel_agentic.reports.report import ReportRequest, report
from otel_agentic.store.queries.scored_conversations import scored_conversations
from tests.stores import settings_for

if TYPE_CHECKING:
    from otel_agentic.results.reports import Rate, ReportGroup
    from tests.once_per_run import OncePerRun
    from tests.stores import CopyOf

REQUEST: Final = ReportRequest(criterion="traffic")
LABELS: Final = 40


@pytest.fixture(scope="session")
def truth(tau: Path) -> dict[str, bool]:
    """The recorded reward of each conversation as a verdict."""
    with (tau / "labels.csv").open(encoding="utf-8") as file:
        return {row["conversation_id"]: float(row["reward"]) > 0.5 for row in csv.DictReader(file)}


@pytest.fixture
def unmatched(tau_file: Path, copy_of: CopyOf, once_per_run: OncePerRun) -> Engine:
    """An engine on tau-airline, evaluated without any case."""

    def fill(folder: Path) -> None:
        with Engine(settings_for(Path(shutil.copy(tau_file, folder / "tau.duckdb")))) as engine:
            Commands(engine).evaluate()

    return copy_of(once_per_run("unmatched", fill) / "tau.duckdb")


def sample_of(truth: dict[str, bool], labels: int = LABELS) -> str:
    """Return a labels file of conversations drawn at random."""
    names = np.random.default_rng(7).choice(sorted(truth), labels, replace=False)
    return "\n".join(["conversation_id,verdict", *(f"{name},{'pass' if truth[name] else 'fail'}" for name in names)])


def labelled(engine: Engine, text: str, *, random_sample: bool) -> ReportGroup:
    """Import a labels file and return the only group of the report of traffic."""
    Commands(engine).truth_import(labels=[("sample.csv", text)], random_sample=random_sample)
    (group,) = report(engine, REQUEST).groups
    return group


def width(rate: Rate) -> float:
    """Return the width of an interval."""
    assert rate.lower is not None
    assert rate.upper is not None
    return rate.upper - rate.lower


def test_without_a_case_and_a_label_traffic_has_rates_and_the_reason_for_no_correction(unmatched: Engine) -> None:
    (group,) = report(unmatched, REQUEST).groups

    assert (200, 198, 1.0) == (group.n, group.c, group.coverage)
    assert group.label_correction is None
    assert group.not_label_corrected == snapshot(
        "none of its conversations is labelled; 10 labels are needed, 40 or more are useful"
    )


def test_labels_correct_the_rate_of_traffic(unmatched: Engine, truth: dict[str, bool]) -> None:
    correction = labelled(unmatched, sample_of(truth), random_sample=True).label_correction

    assert correction is not None
    assert (LABELS, 200, True, 0) == (
        correction.labels, correction.conversations, correction.random_sample, correction.not_used,
    )  # fmt: skip
    here = correction.corrected.here
    assert here.lower is not None
    assert here.upper is not None
    assert here.lower <= 0.42 <= here.upper
    for k in ("1", "3", "5"):
        first, rate = correction.corrected.pass_pow_k["1"], correction.corrected.pass_pow_k[k]
        assert first.value is not None
        assert first.value ** int(k) == pytest.approx(rate.value)
    assert {"turns", "operations.tool_errors"} <= set(correction.predictors)


def test_a_correction_does_not_depend_on_metrics_that_a_label_sets(unmatched: Engine, truth: dict[str, bool]) -> None:
    text = sample_of(truth, 150)
    correction = labelled(unmatched, text, random_sample=True).label_correction
    Commands(unmatched).evaluate()  # the verdicts become outcomes, and the layers name a cause for each failure
    again = labelled(unmatched, text, random_sample=True).label_correction

    assert correction == again
    assert correction is not None
    assert not any(name.startswith(("layers.verdict", "handoffs.blame")) for name in correction.predictors)


def test_labels_outside_of_the_declared_sample_are_not_used(unmatched: Engine, truth: dict[str, bool]) -> None:
    text = sample_of(truth)
    before = labelled(unmatched, text, random_sample=True).label_correction
    chosen = [name for name in sorted(truth) if name not in text][:5]
    for name in chosen:
        Commands(unmatched).label(conversation_id=name, annotator="ana", verdict="fail")
    (group,) = report(unmatched, REQUEST).groups

    assert before is not None
    assert replace(before, not_used=5) == group.label_correction


def test_undeclared_labels_are_used_and_reported_as_such(unmatched: Engine, truth: dict[str, bool]) -> None:
    undeclared = labelled(unmatched, sample_of(truth), random_sample=False).label_correction
    declared = labelled(unmatched, sample_of(truth), random_sample=True).label_correction

    assert undeclared is not None
    assert not undeclared.random_sample
    assert replace(undeclared, random_sample=True) == declared


def test_a_few_labels_correct_nothing(unmatched: Engine, truth: dict[str, bool]) -> None:
    group = labelled(unmatched, sample_of(truth, 9), random_sample=True)

    assert group.label_correction is None
    assert group.not_label_corrected == snapshot(
        "only 9 labels in the random sample; 10 labels are needed, 40 or more are useful"
    )


def test_the_parts_of_a_profile_state_in_how_many_conversations_each_is_known(unmatched: Engine) -> None:
    (rule,) = report(unmatched, REQUEST).criteria

    assert {part.condition.removesuffix(" if known"): (part.known, part.failed) for part in rule.parts} == snapshot(
        {
            "operations.turn_end": (200, 0),
            "operations.tool_failure": (36, 2),
            "operations.loops <= 0": (200, 1),
            "layers.hallucinated_tools <= 0": (0, 0),
            "layers.call_validity": (0, 0),
            "user.abandoned": (0, 0),
        }
    )
    assert all(part.failed_alone <= part.failed for part in rule.parts)


def test_the_effort_until_the_first_success_is_that_of_all_attempts_per_success(unmatched: Engine) -> None:
    (group,) = report(unmatched, REQUEST).groups
    with unmatched.store.read() as con:
        ((total,),) = con.execute(
            "SELECT sum(epoch_ns(ended_at) - epoch_ns(started_at)) / 1e9 FROM conversations WHERE NOT superseded"
        ).fetchall()

    assert group.first_success is not None
    assert 200 / 198 == pytest.approx(group.first_success.attempts)
    assert total / 198 == pytest.approx(group.first_success.seconds)
    assert group.first_success.cost_usd is None  # no span carries token usage


@pytest.mark.slow
@pytest.mark.parametrize("metrics", ["default", "default,user"])
def test_the_corrected_interval_is_narrower_than_that_of_the_labels_and_contains_the_truth(
    tau_file: Path, copy_of: CopyOf, truth: dict[str, bool], metrics: str
) -> None:
    """1,000 draws of 40 of 200 labels; docs/traffic.md has the figures."""
    engine = copy_of(tau_file)
    Commands(engine).evaluate(metrics=list(resolved(metrics.split(","), engine.runner.installed)))
    with engine.store.read() as con:
        members = scored_conversations(con, REQUEST)
    numbers = TrafficNumbers.of(engine, REQUEST)
    rng = np.random.default_rng(1)
    corrected, alone = [], []
    for _ in range(1000):
        drawn = {members[index].conversation_id for index in rng.choice(200, LABELS, replace=False)}
        verdicts = {
            (member.environment, member.conversation_id): PersonVerdict(
                passed=truth[member.conversation_id], revision=None, random_sample=True
            )
            for member in members
            if member.conversation_id in drawn
        }
        correction, _ = replace(numbers, verdicts=verdicts).correction(members, [1])
        assert correction is not None
        corrected.append(correction.corrected.here)
        alone.append(correction.people.here)

    share = np.mean([(rate.lower or 0.0) <= 0.42 <= (rate.upper or 0.0) for rate in corrected])
    assert share >= 0.93
    assert np.mean([width(rate) for rate in corrected]) < np.mean([width(rate) for rate in alone])
