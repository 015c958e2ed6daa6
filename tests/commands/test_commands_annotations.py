"""Annotations: what people record, which verdict counts, and its effect on the score of a conversation."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from otel_agentic.commands import Commands
from otel_agentic.errors import BadInputError, UsageError
from otel_agentic.testing import NOON_NS, AgentRunScript, ScriptedCall, speak_genai
from tests.builders import feed, rows

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from tests.stores import CopyOf, PreparedStore

HOUR_NS = 3600 * 1_000_000_000
CASE = {"case_id": "trip", "turns": [{"query": "Which hotel?", "answer": "The Ritz."}]}
CASES = [("cases.jsonl", json.dumps(CASE))]


def trips(engine: Engine) -> None:
    """Store two scored conversations, one right and one wrong; the right one's id exists in two environments."""
    for number, (name, answer, environment) in enumerate(
        (("right", "The Ritz.", "production"), ("wrong", "The Savoy.", "production"), ("right", "The Ritz.", "staging"))
    ):
        script = AgentRunScript(conversation_id=name, environment=environment)
        script = (
            script.ask("Which hotel?")
            .calls(ScriptedCall(name="search", arguments={"q": 1}, result="Ritz"))
            .answers(answer)
        )
        feed(engine, speak_genai(script, start_ns=NOON_NS + number * HOUR_NS))
    Commands(engine).evaluate(cases=CASES, metrics=["none"])


@pytest.fixture
def engine(copy_of: CopyOf, prepared_store: PreparedStore) -> Engine:
    return copy_of(prepared_store(trips))


@pytest.fixture
def commands(engine: Engine) -> Commands:
    return Commands(engine)


def label(
    commands: Commands, conversation_id: str, verdict: str | None, annotator: str = "ana", **options: Any
) -> dict[str, Any]:
    arguments = {"conversation_id": conversation_id, "verdict": verdict, "annotator": annotator, **options}
    result: dict[str, Any] = commands.call("label", arguments)
    return result


def outcomes(engine: Engine) -> tuple[str, str, str]:
    (row,) = rows(
        engine,
        "SELECT outcome, outcome_source, computed_outcome FROM conversation_scores "
        "WHERE NOT superseded AND conversation_id = 'wrong'",
    )
    return row


def test_a_verdict_sets_the_outcome_of_its_conversation_at_once_and_of_no_other(
    engine: Engine, commands: Commands
) -> None:
    others = "SELECT * FROM conversation_scores WHERE conversation_id = 'right' ORDER BY ALL"
    before = rows(engine, others)

    result = label(commands, "wrong", "pass", note="the guest asked for it")

    assert (True, "pass", "annotators") == tuple(result[key] for key in ("rescored", "outcome", "outcome_source"))
    assert ("pass", "annotators", "fail") == outcomes(engine)
    assert before == rows(engine, others)
    assert commands.evaluate(metrics=["none"])["scored"] == 0  # every conversation has its score


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([("ana", "pass"), ("ben", "pass")], ("pass", "annotators")),
        ([("ana", "pass"), ("ben", "fail")], ("fail", "computed")),
        ([("ana", "pass"), ("ben", "unsure")], ("pass", "annotators")),
        ([("ana", "fail"), ("ana", "pass")], ("pass", "annotators")),
        ([("ana", "pass"), ("ben", "fail"), ("eve", "pass", "adjudicate")], ("pass", "adjudication")),
        ([("ana", "pass"), ("ana", None)], ("fail", "computed")),
        ([("ana", "fail"), ("ana", "pass"), ("ana", None)], ("fail", "computed")),
        ([("eve", "pass", "adjudicate"), ("ana", "fail"), ("eve", None, "adjudicate")], ("fail", "annotators")),
    ],
)
def test_which_verdict_counts(
    engine: Engine, commands: Commands, given: list[tuple[str | None, ...]], expected: tuple[str, str]
) -> None:
    for annotator, verdict, *rest in given:
        options = {"adjudicate": bool(rest), "retracted": verdict is None}
        label(commands, "wrong", verdict, str(annotator), **options)

    assert expected == outcomes(engine)[:2]


def test_precedence_is_adjudication_label_case_annotators_computed(engine: Engine, commands: Commands) -> None:
    assert ("fail", "computed") == outcomes(engine)[:2]
    label(commands, "wrong", "pass")
    assert ("pass", "annotators") == outcomes(engine)[:2]
    given = {**CASE, "verdict": "fail"}
    commands.evaluate(cases=[("cases.jsonl", json.dumps(given))], metrics=["none"])
    assert ("fail", "case") == outcomes(engine)[:2]
    commands.evaluate(labels=[("l.csv", "conversation_id,verdict\nwrong,pass\n")], metrics=["none"])
    assert ("pass", "labels") == outcomes(engine)[:2]
    label(commands, "wrong", "fail", "eve", adjudicate=True)
    assert ("fail", "adjudication") == outcomes(engine)[:2]


def test_a_verdict_given_before_the_score_is_applied_by_evaluate(engine: Engine, commands: Commands) -> None:
    engine.store.write(lambda con: con.execute("DELETE FROM scores"))
    result = label(commands, "wrong", "pass")
    assert not result["rescored"]
    assert "otel-agentic evaluate" in result["note"]

    commands.evaluate(metrics=["none"])

    assert ("pass", "annotators", "fail") == outcomes(engine)


def test_disagreement_is_reported_listed_and_measured(engine: Engine, commands: Commands) -> None:
    label(commands, "wrong", "pass")
    result = label(commands, "wrong", "fail", "ben")
    for annotator in ("ana", "ben"):
        label(commands, "right", "pass", annotator, environment="staging")

    assert (True, None) == (result["disagree"], result["active_verdict"])
    assert [{"annotator": "ana", "verdict": "pass"}, {"annotator": "ben", "verdict": "fail"}] == result["votes"]
    assert [("wrong", 1, 1, "ana: pass, ben: fail")] == rows(
        engine, "SELECT conversation_id, passes, fails, verdicts FROM v_annotator_disagreements"
    )
    listed = commands.truth_annotations(disagreements=True)
    assert [("wrong", "ana"), ("wrong", "ben")] == [
        (row["conversation_id"], row["annotator"]) for row in listed["annotations"]
    ]
    assert (2, 1, 0.5, 1) == (
        listed["agreement"]["items"],
        listed["agreement"]["disagreements"],
        listed["agreement"]["agreement"],
        listed["without_verdict"],
    )


def test_turns_calls_and_metrics_are_annotated_without_an_effect_on_the_outcome(
    engine: Engine, commands: Commands
) -> None:
    for options in (
        {"turn": 1},
        {"turn": 1, "call": 1},
        {"turn": 1, "name": "answer"},
        {"name": "trajectory.exact"},
    ):
        assert not label(commands, "wrong", "pass", **options)["rescored"]

    assert ("fail", "computed") == outcomes(engine)[:2]
    assert [
        ("agentic.trajectory.exact", None, None),
        ("answer", 0, None),
        ("correct", 0, 0),
        ("correct", 0, None),
    ] == rows(engine, "SELECT name, turn_index, position FROM v_annotations ORDER BY name, position NULLS LAST")


@pytest.mark.parametrize(
    ("name", "options", "refusal"),
    [
        ("right", {}, (BadInputError, "ambiguous: it exists in environments 'production', 'staging'")),
        ("none", {}, (BadInputError, "not in the store")),
        ("right", {"environment": "test"}, (BadInputError, "not in the store in environment 'test'")),
        ("wrong", {"turn": 2}, (BadInputError, "--turn 2: conversation 'wrong' has 1 turns")),
        ("wrong", {"turn": 1, "call": 2}, (BadInputError, "--call 2: turn 1 of conversation 'wrong' has 1 calls")),
        ("wrong", {"call": 1}, (UsageError, "also give --turn")),
        ("wrong", {"name": "answer"}, (UsageError, "answer is about a turn: give --turn")),
        ("wrong", {"name": "nothing"}, (UsageError, "no metric 'nothing'")),
        ("wrong", {"verdict": None}, (UsageError, "give a verdict")),
        ("wrong", {"verdict": "maybe"}, (UsageError, "argument verdict")),
        ("wrong", {"verdict": None, "retracted": True}, (BadInputError, "ana has no annotation of correct")),
        ("wrong", {"verdict": "unsure", "adjudicate": True}, (UsageError, "give pass or fail")),
    ],
)
def test_what_is_refused_leaves_nothing_behind(
    engine: Engine, commands: Commands, name: str, options: dict[str, Any], refusal: tuple[type[Exception], str]
) -> None:
    with pytest.raises(refusal[0], match=refusal[1]):
        label(commands, name, **{"verdict": "pass", **options})

    assert [(0,)] == rows(engine, "SELECT count(*) FROM annotations")


def test_annotations_are_only_ever_appended(engine: Engine, commands: Commands) -> None:
    stored_before: list[Any] = []
    for verdict in ("pass", "fail", None):
        label(commands, "wrong", verdict, retracted=verdict is None)
        stored = rows(engine, "SELECT * FROM annotations ORDER BY rowid")
        assert stored_before == stored[: len(stored_before)]
        stored_before = stored

    assert [(4,)] == rows(
        engine, "SELECT count(*) FROM annotations"
    )  # two verdicts, each withdrawn by a row of its own
    assert [] == rows(engine, "SELECT * FROM v_annotations")
