"""The report: the shape of the contract, and the published table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from otel_agentic.commands import Commands
from otel_agentic.commands.ingest import ingest_files
from otel_agentic.errors import PluginError, UsageError
from otel_agentic.stats import GroupedAttempts, HierarchicalEstimator
from otel_agentic.testing import AgentRunScript, speak_genai
from otel_agentic.truth import parse_labels
from tests.builders import CASE, ask_hotel, feed, rows, stored_conversations

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from tests.stores import CopyOf, OpenEngine

K = [1, 2, 3, 4]
GROUP_KEYS = {"agent", "agent_version", "environment", "service", "tag", "dataset", "case", "tool", "window"}
RESULT_KEYS = {
    "criterion",
    "judge",
    "corrected",
    "not_corrected",
    "label_correction",
    "not_label_corrected",
    "first_success",
    "sampling",
    "cases_left_out",
    "gauge_estimator",
    "pooled",
    "per_case",
    "effective_n",
    "targets",
    "tier_evidence",
    "partial_fails",
    "n",
    "c",
    "coverage",
    "bounds",
    "not_evaluated",
    "known_failures",
    "estimates",
    "tool_dimensions",
    "tool_bands",
    "metrics",
    "tier",
    "leaning",
    "needed",
}


def values(estimates: Mapping[str, Any], name: str) -> list[float]:
    return [estimates[name][str(k)]["value"] for k in K]


@pytest.fixture(scope="session")
def labelled(labelled_engine: Engine) -> Commands:
    """Commands on tau-airline with its labels; tests only read it."""
    return Commands(labelled_engine)


def test_the_object_has_the_keys_of_the_contract(labelled: Commands) -> None:
    report = labelled.report(k=K)

    assert {"evaluation", "criteria", "groups", "cases_left_out", "wrong_clocks"} == report.keys()
    (group,) = report["groups"]
    assert GROUP_KEYS | RESULT_KEYS | {"default_estimator"} == group.keys()
    assert {None} == {group[name] for name in GROUP_KEYS - {"agent"}}
    for estimates in group["estimates"].values():
        assert {"interval_method", "level", "pass_at_k", "pass_pow_k"} == estimates.keys()
        for rates in (estimates["pass_at_k"], estimates["pass_pow_k"]):
            assert [str(k) for k in K] == list(rates)
            assert all({"value", "lower", "upper"} == rate.keys() for rate in rates.values())
    assert {"plugin", "unbiased", "per_case", "bayesian", "hierarchical"} == group["estimates"].keys()
    assert all({"mean", "n"} == mean.keys() for mean in group["tool_dimensions"].values())
    assert report == orjson.loads(orjson.dumps(report))


def test_tau_airline_gives_its_published_table(labelled: Commands, tau: Path) -> None:
    (group,) = labelled.report(k=K, estimator="per_case")["groups"]

    (estimates,) = group["estimates"].values()
    assert [0.420, 0.273, 0.220, 0.200] == pytest.approx(values(estimates, "pass_pow_k"), abs=0.0005)
    assert [0.420, 0.567, 0.660, 0.720] == pytest.approx(values(estimates, "pass_at_k"), abs=0.0005)
    assert (200, 84, 1.0) == (group["n"], group["c"], group["coverage"])


@pytest.mark.slow
def test_without_labels_the_spans_and_cases_alone_agree_with_them(
    copy_of: CopyOf, tau_file: Path, tau_truth: dict[str, Any]
) -> None:
    engine = copy_of(tau_file)
    commands = Commands(engine)
    done = commands.evaluate(cases=tau_truth["cases"])
    ((name, text),) = tau_truth["labels"]
    labels = parse_labels(name, text, reward_threshold=1.0 - 1e-6).require()

    assert 84 == pytest.approx(done["outcomes"]["pass"], abs=1)
    reported = dict(
        rows(engine, "SELECT conversation_id, outcome = 'pass' FROM conversation_scores WHERE NOT superseded")
    )
    assert 200 == len(labels)
    assert 198 <= sum(reported[label.conversation_id] == label.verdict for label in labels.values())


def test_content_that_was_not_captured_is_never_a_failure(
    open_engine: OpenEngine, tau: Path, tau_truth: dict[str, Any]
) -> None:
    engine = open_engine()
    ingest_files(engine, [str(tau / "variant-nocontent.jsonl.gz")], lambda *_: None)
    commands = Commands(engine)
    commands.evaluate(cases=tau_truth["cases"])

    (group,) = commands.report(k=K)["groups"]

    assert {"content_not_captured": 20} == group["not_evaluated"]
    assert (0, 0, 0.0, [0.0, 1.0]) == (group["n"], group["c"], group["coverage"], group["bounds"])
    assert {None} == {value for estimate in group["estimates"].values() for value in values(estimate, "pass_at_k")}
    assert "insufficient_evidence" == group["tier"]


@pytest.mark.parametrize(
    "variant", [*(pytest.param(name, marks=pytest.mark.slow) for name in ("structured", "sibling")), "openinference"]
)
def test_the_variants_give_the_same_conversations_as_the_main_file(
    open_engine: OpenEngine, copy_of: CopyOf, tau_file: Path, tau: Path, variant: str
) -> None:
    engine = open_engine()
    ingest_files(engine, [str(tau / f"variant-{variant}.jsonl.gz")], lambda *_: None)
    main = {name: result for (_, name), result in stored_conversations(copy_of(tau_file)).items()}

    def content_of(result: Any) -> list[Any]:
        return [
            (turn.query, turn.answer, [(call.name, call.arguments, call.result, call.step) for call in turn.calls])
            for turn in result.turns
        ]

    own = stored_conversations(engine)
    assert 20 == len(own)
    assert [] == [name for (_, name), result in own.items() if content_of(result) != content_of(main[name])]


@pytest.mark.parametrize(
    ("by", "groups"),
    [(["case"], 50), (["environment"], 1), (["version"], 1), (["service"], 1), (["agent", "agent"], 1)],
)
def test_groups_are_what_was_asked_for(labelled: Commands, by: Any, groups: int) -> None:
    result = labelled.report(k=[1], by=by)["groups"]

    assert groups == len(result)
    assert 200 == sum(group["n"] for group in result)


def test_a_window_reaches_back_from_the_newest_conversation(labelled: Commands) -> None:
    (group,) = labelled.report(k=[1], window="365d")["groups"]
    (part,) = labelled.report(k=[1], window="1h")["groups"]

    assert (200, "365d", "1h") == (group["n"], group["window"], part["window"])
    assert 0 < part["n"] < 200


def test_a_window_of_a_number_holds_the_newest_of_each_group(labelled: Commands) -> None:
    (complete,) = labelled.report(k=[1], window="n30")["groups"]
    by_case = labelled.report(k=[1], by=["case"], window="n3")["groups"]

    assert (30, "n30") == (complete["n"], complete["window"])
    assert {3} == {group["n"] for group in by_case}


def test_bootstrap_intervals_are_those_of_the_estimator_that_is_shown(labelled: Commands) -> None:
    (plain,) = labelled.report(k=K)["groups"]
    (drawn,) = labelled.report(k=K, interval="bootstrap")["groups"]
    for name in ("bayesian", "per_case"):
        estimates = drawn["estimates"][name]
        assert ("cluster_bootstrap", False) == (estimates["interval_method"], estimates["collapsed"])
        assert values(plain["estimates"][name], "pass_pow_k") == values(estimates, "pass_pow_k")
        assert 0.05 < estimates["pass_at_k"]["1"]["upper"] - estimates["pass_at_k"]["1"]["lower"] < 0.3
    assert plain["estimates"]["plugin"] == drawn["estimates"]["plugin"]


def test_neither_data_nor_k_change_the_estimator_and_both_estimates_are_there(labelled: Commands) -> None:
    for k in ([1, 3], [1, 3, 5], [4]):
        (group,) = labelled.report(k=k)["groups"]
        assert ("bayesian", "bayesian") == (group["default_estimator"], group["gauge_estimator"])
        assert ("bayesian", "per_case") == (group["pooled"]["estimator"], group["per_case"]["estimator"])
        for role in ("pooled", "per_case"):
            reported = {name: value for name, value in group[role].items() if name != "estimator"}
            assert reported == group["estimates"][group[role]["estimator"]]
    (requested,) = labelled.report(k=[1], estimator="per_case")["groups"]
    assert ("per_case", "bayesian", {"per_case"}) == (
        requested["default_estimator"], requested["pooled"]["estimator"], set(requested["estimates"]),
    )  # fmt: skip


def test_n_c_and_the_prior_give_the_pooled_estimate_and_the_effective_n_is_less(labelled: Commands) -> None:
    (group,) = labelled.report(k=[1])["groups"]
    assert group["pooled"]["pass_at_k"]["1"]["value"] == pytest.approx((group["c"] + 1) / (group["n"] + 2))
    assert group["effective_n"] < group["n"]


def test_a_conversation_without_a_score_counts_as_not_evaluated(engine: Engine) -> None:
    feed(engine, speak_genai(ask_hotel()))

    (group,) = Commands(engine).report(k=[1])["groups"]

    assert (0, {"not_scored": 1}) == (group["n"], group["not_evaluated"])


def test_an_empty_store_has_no_groups(engine: Engine) -> None:
    report = Commands(engine).report()
    assert ["correct"] == [criterion["name"] for criterion in report.pop("criteria")]
    assert {"evaluation": "default", "groups": [], "cases_left_out": {}, "wrong_clocks": []} == report


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"k": [0]}, UsageError),
        ({"k": [-1, 2]}, UsageError),
        ({"k": []}, UsageError),
        ({"window": "yesterday"}, UsageError),
        ({"estimator": "best"}, PluginError),
        ({"compare": "version=1"}, UsageError),
        ({"window": "n0"}, UsageError),
    ],
)
def test_invalid_arguments_are_refused(labelled: Commands, arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        labelled.report(**arguments)


def test_the_attempts_of_one_case_are_left_out_where_k_is_larger(engine: Engine) -> None:
    feed(engine, speak_genai(ask_hotel()))
    commands = Commands(engine)
    commands.evaluate(cases=[("cases.jsonl", CASE)], metrics=["none"])

    assert {"1": 0, "3": 1} == commands.report(k=[1, 3])["cases_left_out"]["per_case"]


def test_equal_case_ids_of_two_datasets_are_two_cases(engine: Engine) -> None:
    inn_asked = AgentRunScript(conversation_id="two").ask("Which inn?").answers("The Ritz.")
    feed(engine, speak_genai(ask_hotel("one")), speak_genai(inn_asked))
    commands = Commands(engine)
    inn = CASE.replace("Which hotel?", "Which inn?")
    commands.evaluate(cases=[("old.jsonl", CASE), ("new.jsonl", inn)], metrics=["none"])

    (group,) = commands.report(k=[1, 2])["groups"]
    by_case = commands.report(k=[1], by=["case"])["groups"]

    assert 2 == group["n"]
    assert 2 == commands.report(k=[1, 2])["cases_left_out"]["per_case"]["2"]
    assert [("new", "hotel", 1), ("old", "hotel", 1)] == [
        (item["dataset"], item["case"], item["n"]) for item in by_case
    ]


def test_the_displayed_estimators_alone_are_the_same_and_the_others_are_computed_only_for_targets(
    labelled: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []
    numbers_of = HierarchicalEstimator._numbers

    def counted(self: HierarchicalEstimator, grouped: GroupedAttempts, k: list[int]) -> object:
        sizes.append(len(grouped.n))
        return numbers_of(self, grouped, k)

    monkeypatch.setattr(HierarchicalEstimator, "_numbers", counted)
    computed = {}
    for by in ([], ["case"]):
        every = labelled.report(k=[1, 8], by=by)
        sizes.clear()
        displayed = labelled.report(k=[1, 8], by=by, only_displayed=True)
        computed[len(by)] = sum(sizes)
        for all_of, part in zip(every["groups"], displayed["groups"], strict=True):
            chosen = part.pop("estimates")
            assert list(chosen) == ["bayesian", "per_case"]
            estimates = all_of.pop("estimates")
            assert chosen == {name: estimates[name] for name in chosen}
            assert all_of == part
    assert computed[1] == 0 < computed[0]  # a single case has no targets


def test_without_e_values_tiers_and_all_other_numbers_are_the_same(labelled: Commands) -> None:
    for by in ([], ["case"]):
        report, without = labelled.report(by=by), labelled.report(by=by, e_values=False)
        evidence = [
            (group.pop("tier_evidence"), other.pop("tier_evidence"))
            for group, other in zip(report["groups"], without["groups"], strict=True)
        ]
        assert report == without
        assert any(item["e_value"] is not None for item, _ in evidence)
        for item, other in evidence:
            assert other == item | {"statement": None, "e_value": None}
