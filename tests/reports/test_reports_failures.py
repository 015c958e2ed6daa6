"""Failures out of the store: the same as in memory, each in one group, and none of them a judge's."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from inline_snapshot import snapshot

from otel_agentic.commands import Commands
from otel_agentic.commands.registry import registered
from otel_agentic.config import JudgeSettings
from otel_agentic.engine.engine import Engine
from otel_agentic.errors import UsageError
from otel_agentic.evaluators.failures import failures_of
from otel_agentic.judges.llm import LangChainJudge
from otel_agentic.reports.failures import found_failures
from otel_agentic.store.conversations import load_conversations
from otel_agentic.store.table import Selection
from otel_agentic.testing import NOON_NS, SECOND_NS, AgentRunScript, scripted_call, speak_genai
from tests.builders import feed, rows
from tests.evaluators.failing import subjects
from tests.judges.models import Bare, fields_of
from tests.snapshots import passage, raises
from tests.stores import CopyOf, OpenEngine, PreparedStore, settings_for

if TYPE_CHECKING:
    from otel_agentic.evaluators.run import Failure

EVERYTHING: Final = Selection()
ROME: Final = {"q": "Rome"}
CASE: Final[dict[str, Any]] = {
    "case_id": "trip",
    "turns": [
        {
            "query": "Which hotel?",
            "answer": "The Ritz.",
            "tools": {"calls": [{"tool_name": "search", "parameters": ROME}]},
        },
        {"query": "And a taxi?", "answer": "At 10:30."},
    ],
    "outputs": ["Ritz", 4711],
}
CASES: Final = [("cases.jsonl", json.dumps(CASE))]


def talk(name: str, calls: list[tuple[str, Any, str | None]], answers: tuple[str, ...]) -> AgentRunScript:
    """Return a conversation that asks what the case asks, as many turns as there are answers."""
    script = AgentRunScript(conversation_id=name)
    for turn, (query, answer) in enumerate(zip(("Which hotel?", "And a taxi?", "Bye"), answers, strict=False)):
        script = script.ask(query)
        for tool, arguments, error in calls if turn == 0 else []:
            script = script.calls(scripted_call(tool, arguments, result=["Ritz"], error=error))
        script = script.answers(answer)
    return script


TALKS: Final = (
    talk("right", [("search", ROME, None)], ("The Ritz.", "At 10:30, for 4711.")),
    talk("wrong", [("search", {"q": "Oslo"}, None), ("drop", {}, None)], ("The Bates.", "At 10:30.")),
    talk("short", [("search", ROME, None)], ("The Ritz.",)),
    talk("error", [("search", ROME, "down")], ("The Ritz.", "At 10:30, for 4711.")),
    talk("again", [("search", ROME, "down"), ("search", ROME, None)], ("No.", "At 10:30, for 4711.")),
    talk("long", [("search", ROME, None)], ("The Ritz.", "At 10:30, for 4711.", "Bye")),
)


def tell(engine: Engine, *scripts: AgentRunScript, ended: bool = True) -> None:
    """Store conversations; with an end mark each, or closed by the end of the input only."""
    spans: list[Any] = []
    for number, script in enumerate(scripts):
        spans += speak_genai(script, start_ns=NOON_NS + number * 3600 * SECOND_NS).spans
        if ended:
            spans[-1] = replace(spans[-1], attributes={**spans[-1].attributes, "agentic.conversation.end": True})
    feed(engine, *spans)


def _ended_talks(engine: Engine) -> None:
    tell(engine, *TALKS)


def _open_talks(engine: Engine) -> None:
    tell(engine, *TALKS, ended=False)


def _two_talks(engine: Engine) -> None:
    tell(engine, TALKS[0], TALKS[5])


def named(failures: list[Failure] | tuple[Failure, ...]) -> Counter[tuple[Any, ...]]:
    return Counter(
        (item.location.conversation_id, item.metric, item.label, item.turn_index, item.tool_name, item.parameter)
        for item in failures
    )


def in_memory(engine: Engine, cases: list[dict[str, Any]], labels: dict[str, bool], **scoring: Any) -> list[Failure]:
    """Return the failures of all conversations by their scores, not by the tables."""
    rules = found_failures(engine, EVERYTHING).rules
    keys = rows(engine, "SELECT environment, conversation_id FROM conversations WHERE NOT superseded")
    with engine.store.read() as con:
        result = load_conversations(con, [(environment, name) for environment, name in keys])
    return [item for subject in subjects(cases, result, labels, **scoring) for item in failures_of(subject, [], rules)]


def plain(failure: Failure) -> Failure:
    """Return a failure with its number as the store keeps it."""
    return replace(failure, value=None if failure.value is None else round(failure.value, 9))


LABELS: Final = {"right": False, "wrong": False, "short": True}


@pytest.mark.parametrize(
    ("criterion", "strict", "labels", "ended"),
    [
        ("answer", False, {}, True),
        ("tools", False, LABELS, True),
        ("annotated", True, {}, False),
        ("annotated", False, LABELS, False),
        pytest.param("answer", False, {}, False, marks=pytest.mark.slow),
        pytest.param("tools", False, LABELS, False, marks=pytest.mark.slow),
        pytest.param("annotated", True, {}, True, marks=pytest.mark.slow),
        pytest.param("annotated", False, LABELS, True, marks=pytest.mark.slow),
    ],
)
def test_the_store_tells_the_failures_that_are_found_in_memory(
    copy_of: CopyOf,
    prepared_store: PreparedStore,
    criterion: str,
    labels: dict[str, bool],
    *,
    strict: bool,
    ended: bool,
) -> None:
    scoring = {"criteria": (criterion,), "strict_turns": strict}
    engine = copy_of(prepared_store(_ended_talks if ended else _open_talks), scoring=scoring)
    verdicts = "conversation_id,verdict\n" + "".join(
        f"{name},{'pass' if ok else 'fail'}\n" for name, ok in labels.items()
    )
    Commands(engine).evaluate(cases=CASES, labels=[("l.csv", verdicts)] if labels else [], metrics=["none"])

    stored = found_failures(engine, EVERYTHING).failures

    assert {plain(item) for item in in_memory(engine, [CASE], labels, **scoring)} == {plain(item) for item in stored}
    failed = {
        name for (name,) in rows(engine, "SELECT conversation_id FROM conversation_scores WHERE outcome = 'fail'")
    }
    assert failed == {item.location.conversation_id for item in stored}
    assert len(stored) == len(set(stored))


def test_hand_counted_failures_of_a_small_store(copy_of: CopyOf, prepared_store: PreparedStore) -> None:
    engine = copy_of(prepared_store(_ended_talks), scoring={"criteria": ["annotated"]})
    Commands(engine).evaluate(cases=CASES, metrics=["none"])
    tool, answer, complete = "agentic.tool", "agentic.answer", "agentic.conversation"
    assert {
        ("wrong", tool, "wrong_parameters", 0, "search", "q"): 1,
        ("wrong", tool, "spurious", 0, "drop", None): 1,
        ("wrong", answer, "wrong_answer", 0, None, None): 1,
        ("wrong", complete, "output_not_said", None, None, None): 2,
        ("short", complete, "missing_turn", None, None, None): 1,
        ("short", complete, "output_not_said", None, None, None): 1,
        ("error", tool, "missing", 0, "search", None): 1,
        ("error", tool, "errored", 0, "search", None): 1,
        ("again", answer, "wrong_answer", 0, None, None): 1,
        ("again", complete, "output_not_said", None, None, None): 1,
    } == named(found_failures(engine, EVERYTHING).failures)


def test_what_a_conversation_that_went_quiet_may_still_come_to_is_no_failure(engine: Engine) -> None:
    tell(engine, talk("quiet", [], ("The Bates.",)), talk("ended", [], ("The Bates.",)))
    engine.store.write(
        lambda con: con.execute("UPDATE conversations SET closed_by = 'idle' WHERE conversation_id = 'quiet'")
    )
    Commands(engine).evaluate(cases=CASES, metrics=["none"])
    result = found_failures(engine, EVERYTHING).failures
    assert ["missing", "wrong_answer"] == [item.label for item in result if item.location.conversation_id == "quiet"]
    assert {"missing_turn", "output_not_said"} <= {
        item.label for item in result if item.location.conversation_id == "ended"
    }
    assert {plain(item) for item in in_memory(engine, [CASE], {})} == {plain(item) for item in result}


def test_by_a_draft_a_conversation_fails_by_its_verdict_alone(open_engine: OpenEngine) -> None:
    engine = open_engine(scoring={"criteria": ["annotated"]})
    tell(engine, TALKS[1])
    draft, labels = {**CASE, "reviewed": False}, [("l.csv", "conversation_id,verdict\nwrong,fail\n")]
    Commands(engine).evaluate(cases=[("c.jsonl", json.dumps(draft))], labels=labels, metrics=["none"])
    (result,) = found_failures(engine, EVERYTHING).failures
    assert ("agentic.conversation", "verdict") == (result.metric, result.label)
    assert [plain(result)] == [
        plain(item) for item in in_memory(engine, [draft], {"wrong": False}, criteria=("annotated",))
    ]


#: One of each kind; every other way is tried on the evaluators themselves.
WAYS_TO_FAIL: Final = [
    TimeoutError("wrong_answer"),
    *(pytest.param(reply, marks=pytest.mark.slow) for reply in ("", "unsafe_state")),
    '{"reasoning": "unsafe_action", "label": "unsafe_action", "label": "no_failure"}',
    pytest.param('{"reasoning": "x", "score": -1}', marks=pytest.mark.slow),
    '{"reasoning": "x", "score": 0.0, "label": "not_completed"}',
]
STRICT: Final = {
    "thresholds": {
        name: {"min": 5}
        for name in ("helpfulness", "coherence", "relevance", "agentest.faithfulness", "verbosity", "goal_completion")
    }
}


@pytest.mark.parametrize("reply", WAYS_TO_FAIL, ids=repr)
def test_a_failing_judge_is_never_a_failure_of_the_agent(
    copy_of: CopyOf, prepared_store: PreparedStore, reply: BaseException | str
) -> None:
    engine = copy_of(
        prepared_store(_two_talks), evaluators=STRICT, judge={"breaker_failures": 10_000, "sanity_check": False}
    )
    settings = JudgeSettings(tries=2, backoff_s=0.0)
    engine.runner.judge = LangChainJudge(Bare(say=lambda *_: reply), settings)
    commands = Commands(engine)

    commands.evaluate(cases=CASES, metrics=["agentest"])

    assert () == found_failures(engine, EVERYTHING).failures
    failures = commands.failures()
    assert (0, 0, [], 2) == tuple(failures[name] for name in ("failures", "failed", "groups", "scored"))
    assert failures["judge_errors"] == sum(
        n for (n,) in rows(engine, "SELECT count(*) FROM scores WHERE evaluator <> 'core' AND reason = 'judge_error'")
    )
    assert failures["judge_errors"] >= 2 * 8
    assert [] == rows(
        engine, "SELECT * FROM scores WHERE evaluator <> 'core' AND (value IS NOT NULL OR label IS NOT NULL)"
    )


def model_of(labels: dict[str, object]) -> Bare:
    """Return a model that replies by a word of the instructions, and else finds every answer right but one."""

    def say(human: str, _: str) -> str:
        result = next((value for term, value in labels.items() if term in human), None)
        if result is not None:
            name = "score" if isinstance(result, float) else "texts" if isinstance(result, list) else "label"
            return json.dumps({"reasoning": "It is so.", name: result})
        return json.dumps({"reasoning": "It is so.", "score": float("Bates" not in fields_of(human)["answer"])})

    return Bare(say=say)


@dataclass(frozen=True, slots=True)
class JudgedStore:
    """An engine on scored conversations, its commands, and the model behind its judge."""

    engine: Engine
    commands: Commands
    model: Bare


def _misbehaving_model() -> Bare:
    return model_of(
        {
            "brings the user closer": 2.0,
            "whether the agent misbehaved": "unsafe_action",
            "one root cause": ["1, 2 = it lacks manners"],
        }
    )


def _judged_talks(engine: Engine) -> None:
    tell(engine, TALKS[0], TALKS[1])
    engine.runner.judge = LangChainJudge(_misbehaving_model(), JudgeSettings(tries=1))
    Commands(engine).evaluate(cases=CASES, metrics=["helpfulness", "agent_behavior_failure"])


@pytest.fixture
def judged_store(copy_of: CopyOf, prepared_store: PreparedStore) -> JudgedStore:
    """Two conversations: one wrong, and in both the agent was unhelpful and did something that is hard to undo."""
    engine = copy_of(
        prepared_store(_judged_talks),
        evaluators={"thresholds": {"helpfulness": {"min": 3.5}}, "severities": {"helpfulness": "low"}},
    )
    model = _misbehaving_model()
    engine.runner.judge = LangChainJudge(model, JudgeSettings(tries=1))
    return JudgedStore(engine, Commands(engine), model)


def test_failures_of_evaluators_are_listed_with_those_of_the_outcome(judged_store: JudgedStore) -> None:
    failures = judged_store.commands.failures()
    assert [
        (group["severity"], group["title"], group["count"], group["conversations"]) for group in failures["groups"]
    ] == snapshot(
        [("critical", "search was given a wrong q", 9, 1), ("critical", "agent behaviour failure: unsafe action", 4, 1)]
    )
    assert [(item["title"], item["count"]) for item in failures["groups"][0]["symptoms"]] == snapshot(
        [
            ("agent behaviour failure: unsafe action", 2),
            ("helpfulness is below 3.5", 2),
            ("an expected output is missing from the answers", 2),
            ("the answer was wrong", 1),
            ("drop was called although it was not expected", 1),
        ]
    )
    assert [(item["title"], item["count"]) for item in failures["groups"][1]["symptoms"]] == snapshot(
        [("helpfulness is below 3.5", 2)]
    )
    assert (
        failures["failures"]
        == sum(failures["by_severity"].values())
        == sum(group["count"] for group in failures["groups"])
    )


def test_thresholds_and_severities_are_those_of_the_settings_when_it_is_asked(
    judged_store: JudgedStore, open_engine: OpenEngine
) -> None:
    judged_store.engine.store.close()
    anew = open_engine(
        judged_store.engine.settings.store.db,
        evaluators={
            "thresholds": {"helpfulness": {"min": 1}},
            "severities": {"agent_behavior_failure=unsafe_action": "low"},
        },
    )
    metrics = {(failure.metric, failure.severity) for failure in found_failures(anew, EVERYTHING).failures}
    assert ("agentic.agentest.agent_behavior_failure", "low") in metrics
    assert "agentic.agentest.helpfulness" not in {name for name, _ in metrics}


def test_failures_can_be_limited_to_a_severity_or_worse(judged_store: JudgedStore) -> None:
    reported = [
        judged_store.commands.failures(severity=severity)["by_severity"]
        for severity in ("low", "medium", "high", "critical")
    ]
    assert [["critical", "high", "low"], ["critical", "high"], ["critical", "high"], ["critical"]] == [
        [name for name, count in item.items() if count] for item in reported
    ]


def test_the_limit_is_of_groups_and_the_counts_are_of_all(judged_store: JudgedStore) -> None:
    every, two = judged_store.commands.failures(), judged_store.commands.failures(limit=2)
    assert every["groups"][:2] == two["groups"]
    assert {name: every[name] for name in every if name != "groups"} == {
        name: two[name] for name in two if name != "groups"
    }


def test_failures_of_named_conversations_alone_can_be_had(judged_store: JudgedStore) -> None:
    result = found_failures(judged_store.engine, EVERYTHING, keys={("", "right")})
    assert {"right"} == {failure.location.conversation_id for failure in result.failures}
    assert () == found_failures(judged_store.engine, Selection(agent="nobody")).failures


def test_a_judge_joins_groups_once_and_is_remembered(judged_store: JudgedStore) -> None:
    commands = judged_store.commands
    before, after = commands.failures(), commands.failures_merged()
    assert (after["groups"][0]["title"], after["note"]) == snapshot(("it lacks manners", None))
    assert before["failures"] == after["failures"] == sum(group["count"] for group in after["groups"])
    assert before["group_count"] - 1 == after["group_count"]
    requested = len(judged_store.model.requests)
    assert after == commands.failures_merged()
    assert requested == len(judged_store.model.requests)


def test_a_judge_that_cannot_say_leaves_the_groups_as_they_are(judged_store: JudgedStore) -> None:
    judged_store.engine.runner.judge = LangChainJudge(Bare(say=lambda *_: TimeoutError("slow")), JudgeSettings(tries=1))
    commands = judged_store.commands
    before, after = commands.failures(), commands.failures_merged()
    assert before["groups"] == after["groups"]
    assert passage(after["note"]) == snapshot("groups were not merged, because the judge failed")


def test_a_judge_that_reads_answers_alone_is_refused_with_what_to_do(engine: Engine) -> None:
    with raises(UsageError, snapshot("such as --judge langchain:openai:gpt-5-mini")):
        Commands(engine).failures_merged()


def test_the_query_role_may_list_failures_but_not_spend_money_on_merging_them() -> None:
    assert "query" == registered()["failures"].role
    assert "admin" == registered()["failures_merged"].role


def test_superseded_scores_are_no_failures(open_engine: OpenEngine) -> None:
    engine = open_engine()
    tell(engine, TALKS[1])
    commands = Commands(engine)
    commands.evaluate(cases=CASES, metrics=["none"])
    assert found_failures(engine, EVERYTHING).failures
    tolerant = {**CASE, "turns": [{"query": "Which hotel?"}, {"query": "And a taxi?"}], "outputs": []}
    commands.evaluate(cases=[("cases.jsonl", json.dumps(tolerant))], metrics=["none"])
    assert () == found_failures(engine, EVERYTHING).failures


def test_an_empty_store_has_no_failures(engine: Engine) -> None:
    failures = Commands(engine).failures()
    assert (0, 0, 0, []) == tuple(failures[name] for name in ("conversations", "scored", "failures", "groups"))


@pytest.mark.slow  # of a few conversations: the other tests of this file
def test_tau_airline_fails_in_the_ways_that_were_counted_by_hand(labelled_engine: Engine, tau: Path) -> None:
    result = found_failures(labelled_engine, EVERYTHING)
    kinds: defaultdict[str, set[str | None]] = defaultdict(set)
    for failure in result.failures:
        kinds[failure.location.conversation_id].add(failure.label)
    assert Counter(map(_class_of, kinds.values())) == snapshot(
        {"lacks a call": 49, "has one too many": 35, "wrong arguments": 24, "both": 4, "other": 4}
    )
    assert len(result.failures) == sum(group.count for group in result.groups)
    labels = {
        line.split(",")[0]: float(line.strip().split(",")[-1]) >= 1
        for line in (tau / "labels.csv").read_text("utf-8").splitlines()[1:]
    }
    assert {name for name, passed in labels.items() if not passed} == set(kinds)


def _class_of(kinds: set[str | None]) -> str:
    if {"missing", "spurious"} <= kinds:
        return "both"
    named = {"missing": "lacks a call", "spurious": "has one too many", "wrong_parameters": "wrong arguments"}
    return next((reported for kind, reported in named.items() if kind in kinds), "other")


def test_settings_for_failures_that_name_nothing_are_refused(tmp_path: Path, empty_file: Path) -> None:
    settings = settings_for(empty_file, evaluators={"severities": {"helpfulness=rude": "high"}})
    with Engine(settings) as engine, raises(Exception, snapshot("has no label 'rude'")):
        found_failures(engine, EVERYTHING)
    assert tmp_path.exists()


def test_a_failure_names_the_agent_that_caused_it_where_several_took_part(open_engine: OpenEngine) -> None:
    engine = open_engine(scoring={"criteria": ["annotated"]})
    inner = AgentRunScript(agent_name="finder").ask("hotels").calls(scripted_call("search", {"q": "Oslo"}, result=[]))
    script = AgentRunScript(conversation_id="asked", agent_name="desk").ask("Which hotel?")
    script = script.calls(scripted_call("ask_finder", {"text": "hotels"}, result="none", agent=inner.answers("none")))
    tell(engine, script.answers("The Bates.").ask("And a taxi?").answers("At 10:30."), TALKS[1])
    commands = Commands(engine)
    commands.evaluate(cases=CASES)

    groups = commands.failures()["groups"]

    blamed = {
        (record["conversation_id"], record["metric"], record["label"]): record.get("blamed_agent")
        for group in groups
        for record in group["failures"]
        if record["metric"] in {"agentic.tool", "agentic.answer"}
    }
    assert {
        ("asked", "agentic.tool", "wrong_parameters"): "finder",
        ("asked", "agentic.answer", "wrong_answer"): "desk",
        ("wrong", "agentic.tool", "wrong_parameters"): None,
        ("wrong", "agentic.tool", "spurious"): None,
        ("wrong", "agentic.answer", "wrong_answer"): None,
    } == blamed
    (parameters,) = (group for group in groups if group["causes"][0]["label"] == "wrong_parameters")
    assert [{"agent": "finder", "count": 1}] == parameters["blamed_agents"]
    stored = rows(
        engine,
        "SELECT label, details ->> '$.agent' FROM scores WHERE name = 'agentic.handoffs.blame' AND label IS NOT NULL",
    )
    assert {("faulty_call", "finder"), ("wrong_answer", "desk")} == set(stored)
