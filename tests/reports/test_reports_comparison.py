"""`report --compare`: the conversations of each side, and the statements about them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from otel_agentic.commands import Commands
from otel_agentic.config import StatsSettings
from otel_agentic.errors import UsageError
from otel_agentic.reports.report import Compared, comparison_of
from otel_agentic.results import to_json
from otel_agentic.stats.compare import compare
from otel_agentic.testing import NOON_NS, SECOND_NS, AgentRunScript, speak_genai
from otel_agentic.windows import GroupKey, ScoredConversation, attempts_of, group_by
from tests.builders import feed
from tests.snapshots import raises

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine


def scored(name: str, *, right: bool = True, case: str | None = None, **changes: Any) -> ScoredConversation:
    """Return a scored conversation of agent clerk, version 1."""
    fields = {
        "environment": "production",
        "conversation_id": name,
        "revision": 1,
        "agent": "clerk",
        "agent_version": "1",
        "service": "shop",
        "ended_ns": NOON_NS,
        "dataset": None if case is None else "d",
        "case_id": case,
        "tags": (),
        "outcome": "pass" if right else "fail",
        "reason": None if right else "wrong_answer",
        **changes,
    }
    return ScoredConversation(**fields)


def compared(text: str, conversations: list[ScoredConversation], *by: Any) -> dict[str, Any]:
    """Return the comparison of some conversations, grouped by agent and more."""
    requested = Compared.parse(text)
    grouped = group_by(requested.among(conversations), tuple(dict.fromkeys(("agent", *by, requested.by))))
    comparison: dict[str, Any] = to_json(comparison_of(requested, requested.groups(grouped), [1, 3], StatsSettings()))
    return comparison


VERSIONS = [
    scored(f"{version}-{case}-{number}", right=number < rights, case=case, agent_version=version)
    for version, rights in (("1", 4), ("2", 2), ("3", 1))
    for case in "abc"
    for number in range(4)
]


def test_the_second_value_is_held_against_the_first() -> None:
    (group,) = compared("version=1,2", VERSIONS)["groups"]

    a, b = (attempts_of(item for item in VERSIONS if item.agent_version == version) for version in "12")
    expected = compare(a, b, [1, 3], level=0.95)
    first = group["differences"]["1"]["pass_pow_k"]
    assert group["differences"]["1"]["pooled"]["pass_pow_k"] == first
    per_case = expected.per_case[1].pass_pow_k
    pass_pow_k = group["differences"]["1"]["per_case"]["pass_pow_k"]
    assert {"value": per_case.value, "lower": per_case.lower, "upper": per_case.upper} == pass_pow_k
    assert ("paired", 3, expected.worse) == (group["method"], group["cases"], group["probability_worse"])
    reported = expected.pooled[1].pass_pow_k
    assert {"value": reported.value, "lower": reported.lower, "upper": reported.upper} == first
    assert first["value"] < 0
    assert group["probability_worse"] > 0.9
    assert ({"a": 12, "b": 12}, {"a": 12, "b": 6}) == (group["n"], group["c"])
    assert ["1", "3"] == list(group["differences"])


def test_each_agent_is_compared_with_itself_and_one_without_both_sides_is_named() -> None:
    others = [scored("x", agent="desk", agent_version="1"), scored("y", agent="desk", agent_version="4")]
    result = compared("version=1,2", [*VERSIONS, *others])

    assert ["clerk"] == [group["agent"] for group in result["groups"]]
    assert [("desk", ["2"])] == [(item["agent"], item["without"]) for item in result["not_compared"]]


def test_conversations_that_were_not_evaluated_are_on_no_side() -> None:
    open_one = scored("open", agent_version="2", outcome="not_evaluated", reason="unmatched")
    result = compared("version=1,2", [scored("one"), open_one])

    assert ([], [["2"]]) == (result["groups"], [item["without"] for item in result["not_compared"]])


def test_agents_are_compared_over_everything() -> None:
    others = [
        scored(f"desk-{version.conversation_id}", agent="desk", case=version.case_id, right=False)
        for version in VERSIONS[:12]
    ]
    (group,) = compared("agent=clerk,desk", [*VERSIONS[:12], *others])["groups"]

    assert (None, "paired", 3, -1.0) == (
        group["agent"],
        group["method"],
        group["cases"],
        group["differences"]["1"]["pass_at_k"]["value"],
    )


@pytest.mark.parametrize(("key", "field"), [("environment", "environment"), ("service", "service")])
def test_environments_and_services_are_compared_too(key: str, field: str) -> None:
    changes: list[dict[str, Any]] = [{field: side} for side in ("blue", "green") for _ in range(3)]
    sides = [scored(f"{number}", **change) for number, change in enumerate(changes)]
    (group,) = compared(f"{key}=blue,green", sides)["groups"]

    assert ("unpaired", 0, {"a": 3, "b": 3}) == (group["method"], group["cases"], group["n"])
    assert 0.5 == pytest.approx(group["probability_worse"])


def test_what_has_both_tags_is_on_neither_side() -> None:
    tagged = [
        *(scored(f"x{number}", tags=("x", "other")) for number in range(3)),
        *(scored(f"y{number}", tags=("y",), right=False) for number in range(4)),
        *(scored(f"both{number}", tags=("x", "y")) for number in range(2)),
    ]
    result = compared("tag=x,y", tagged)
    (group,) = result["groups"]

    assert (2, {"a": 3, "b": 4}, -1.0) == (
        result["on_both"],
        group["n"],
        group["differences"]["1"]["pass_pow_k"]["value"],
    )


def test_comparisons_are_within_the_other_groups() -> None:
    staged = [
        scored(f"{environment}-{version}-{number}", environment=environment, agent_version=version)
        for environment in ("staging", "production")
        for version in "12"
        for number in range(2)
    ]
    result = compared("version=1,2", staged, "environment")

    assert ["production", "staging"] == [group["environment"] for group in result["groups"]]


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        (
            "1.0.0,1.1.0",
            "give a key and two values, such as version=1.0.0,1.1.0; keys: agent, version, environment, service, tag",
        ),
        ("tool=a,b", "keys: agent, version, environment, service, tag"),
        ("version=1.0.0", "exactly two different values"),
        ("version=1,2,3", "exactly two different values"),
        ("version=1,", "exactly two different values"),
        ("version=1,1", "exactly two different values"),
    ],
)
def test_what_is_no_pair_of_values_is_refused(text: str, reported: str) -> None:
    with pytest.raises(UsageError, match=reported):
        Compared.parse(text)


def test_a_value_that_nothing_has_is_refused_and_those_that_there_are_named() -> None:
    with raises(
        UsageError, snapshot("no closed conversation of this selection has version '9'; existing: '1', '2', '3'")
    ):
        Compared.parse("version=1,9").among(VERSIONS)


def test_a_conversation_of_unknown_version_is_on_no_side() -> None:
    unknown = scored("unknown", agent_version=None)

    assert unknown not in Compared.parse("version=1,2").among([*VERSIONS, unknown])


def test_the_whole_report_is_about_the_two_sides(engine: Engine) -> None:
    case = {"case_id": "hotel", "turns": [{"query": "Which hotel?", "answer": "The Ritz."}]}
    for index, agent in enumerate(("old", "new", "other")):
        script = AgentRunScript(conversation_id=agent, agent_name=agent).ask("Which hotel?").answers("The Ritz.")
        feed(engine, speak_genai(script, start_ns=NOON_NS + index * SECOND_NS))
    commands = Commands(engine)
    commands.evaluate(cases=[("cases.jsonl", json.dumps(case))])

    report = commands.report(compare="agent=old,new")

    assert ["new", "old"] == [group["agent"] for group in report["groups"]]
    assert ["1", "3", "5"] == list(report["comparison"]["groups"][0]["differences"])
    assert "comparison" not in commands.report()
    with pytest.raises(UsageError, match="'new', 'old', 'other'"):
        commands.report(compare="agent=old,young")


def test_groups_of_other_keys_are_no_sides() -> None:
    tagged = [scored("one", tags=("x", "z")), scored("two", tags=("y", "z"))]
    grouped = group_by(tagged, ("agent", "tag"))

    assert [GroupKey(agent="clerk", tag="x"), GroupKey(agent="clerk", tag="y")] == list(
        Compared.parse("tag=x,y").groups(grouped)
    )
