"""The views on tools equal the results of the commands, and every number in them is counted by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from otel_agentic.config import ScoringSettings
from otel_agentic.judges import ExactJudge
from otel_agentic.scoring import MatchedConversation, score_conversations
from otel_agentic.store.conversations import Built, save_conversations
from otel_agentic.store.queries.conversations import newest_revision, score_of
from otel_agentic.store.queries.failures import FaultFilter, example_of, failing_tools, scored_with_tools
from otel_agentic.store.score_rows import score_types
from otel_agentic.store.scores import Evaluation, NewScores, save_evaluations
from otel_agentic.store.table import Scored, Selection
from otel_agentic.testing import NOON_NS, SECOND_NS, conversation, tool_call, turn
from otel_agentic.truth import CaseIndex, Label, parse_cases
from tests.store.store_queries import rows, value

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation, ToolCall
    from otel_agentic.store import Store

EVALUATION: Final = Evaluation(
    evaluation_id="e1", judge="exact", judge_version="1", settings_json="{}", truth_version="t1"
)
FIND: Final = {"tool_name": "find"}
BOOK: Final = {"tool_name": "book", "parameters": {"city": "Rome", "nights": 2}}
CASE: Final = {
    "case_id": "trip",
    "turns": [
        {
            "query": "A room in Rome",
            "answer": "AB12",
            "tools": {"calls": [FIND, BOOK], "order": "relative", "extra_calls": {"read": "allow"}},
        }
    ],
    "effects": {"look": "read"},
}


def find(**fields: Any) -> ToolCall:
    return tool_call("find", {}, result=fields.pop("result", {"code": "XY99"}), span_id="f1", trace_id="t1", **fields)


def book(city: Any = "Rome", **fields: Any) -> ToolCall:
    given = {"city": city, "nights": 2}
    return tool_call("book", given, result={"code": "AB12"}, span_id="b1", trace_id="t1", **fields)


def talk(name: str, *calls: ToolCall, day: int = 0, version: str | None = "1.0", **fields: Any) -> Conversation:
    start_ns = NOON_NS + day * 24 * 3600 * SECOND_NS
    query, answer = fields.pop("query", "A room in Rome"), fields.pop("answer", "It is AB12.")
    spoken_turn = turn(query, answer, *calls, started_ns=start_ns, ended_ns=start_ns + SECOND_NS)
    defaults = {"closed_by": "end_of_input", "conversation_id": name, "agent_version": version, "case_id": "trip"}
    return conversation(spoken_turn, **{**defaults, **fields})


def save(
    store: Store, conversations: Sequence[Conversation], labels: dict[str, bool] | None = None, **rules: Any
) -> None:
    """Store conversations and their scores."""
    index = CaseIndex(parse_cases("d.jsonl", json.dumps(CASE)).require())
    settings = ScoringSettings(**{"criteria": ["annotated"], **rules})
    given = {
        name: Label(conversation_id=name, case_id=None, verdict=verdict, line=1)
        for name, verdict in (labels or {}).items()
    }
    matched = [
        MatchedConversation(conversation=item, match=index.match(item), label=given.get(item.conversation_id))
        for item in conversations
    ]
    scores = score_conversations(matched, judge=ExactJudge(), settings=settings)
    scored = [
        Scored(conversation=item.conversation, match=item.match, score=score)
        for item, score in zip(matched, scores, strict=True)
    ]

    def write(con: Any) -> None:
        save_conversations(con, [Built(conversation=item, ambiguous_link=False) for item in conversations], NOON_NS)
        save_evaluations(con, [EVALUATION], NOON_NS)
        NewScores.of(score_types(con), EVALUATION.evaluation_id, scored, NOON_NS).save(con)

    store.write(write)


def failing(store: Store, *, by_version: bool = True, **selected: Any) -> list[dict[str, Any]]:
    only = FaultFilter(**{name: selected.pop(name) for name in ("tool", "fault") if name in selected})
    with store.read() as con:
        return failing_tools(con, Selection(**selected), only, by_version=by_version)


def view_rows(store: Store, view: str) -> list[dict[str, Any]]:
    """Return the rows of a view as records, JSON read."""
    columns = rows(store, f"DESCRIBE {view}")
    return [
        {
            name: json.loads(cell) if kind == "JSON" and cell is not None else cell
            for (name, kind, *_), cell in zip(columns, row, strict=True)
        }
        for row in rows(store, f"FROM {view}")
    ]


CONVERSATIONS: Final = (
    talk("c1", find(), book(), version="1.9"),
    talk("c2", book(), find(), day=1, version="1.10"),
    talk("c3", find(), book("Oslo"), tool_call("look"), tool_call("drop"), day=2, version="1.10"),
    talk("c4", find(error="Error: busy"), book("Oslo"), day=3, version="1.10"),
    talk("c5", book("Pisa"), day=4, version=None, environment="staging"),
    talk("c6", find(), book("Oslo"), day=5, version="1.10", agent_name=None),
)


@pytest.fixture
def trips(store: Store) -> Store:
    """Conversations of two versions of an agent, of another environment, and of an agent without a name."""
    save(store, CONVERSATIONS)
    return store


def by_problem(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in ("agent", "agent_version", "environment", "tool", "fault", "parameter"))


def test_the_command_says_what_the_view_says(trips: Store) -> None:
    view, command = view_rows(trips, "v_failing_tools"), failing(trips)
    assert sorted(command, key=by_problem) == sorted(view, key=by_problem)
    assert 8 == len(command)


def test_a_problem_of_several_versions_is_one_row_where_that_is_wanted(trips: Store) -> None:
    (row,) = failing(
        trips,
        by_version=False,
        tool="book",
        fault="wrong_parameters",
        agent="travel",
        until_ns=CONVERSATIONS[4].ended_ns,
    )
    assert (None, 2, ["1.10"]) == (
        row["agent_version"],
        row["faults"],
        [item["agent_version"] for item in row["versions"]],
    )


def test_versions_follow_each_other_by_number_and_else_by_when_they_appeared(store: Store) -> None:
    misbooked = [
        talk(f"n{day}", find(), book("Oslo"), day=day, version=v) for day, v in enumerate(("1.10", "1.9", "1.2"))
    ]
    named = [talk(f"h{day}", find(), book("Oslo"), day=day, version=v, agent_name="b") for day, v in enumerate("zay")]
    huge = talk("x", find(), book("Oslo"), version="9" * 60, agent_name="c")
    save(store, [*misbooked, *named, huge])
    by_key = {
        str(row["agent"]): [item["agent_version"] for item in row["versions"]]
        for row in view_rows(store, "v_fault_history")
    }
    assert {"travel": ["1.2", "1.9", "1.10"], "b": ["z", "a", "y"], "c": ["9" * 60]} == by_key


def test_of_a_selection_every_count_is_about_the_selection(store: Store) -> None:
    days = enumerate(("1.9", "1.9", "1.10", "1.10", "1.10"))
    save(store, [talk(f"c{day}", find(), book("Oslo"), day=day, version=version) for day, version in days])
    since_ns = NOON_NS + 24 * 3600 * SECOND_NS
    (row,) = failing(store, by_version=False, since_ns=since_ns, tool="book")
    assert [("1.9", 1), ("1.10", 3)] == [(item["agent_version"], item["faults"]) for item in row["versions"]]
    assert row["faults"] == sum(item["faults"] for item in row["versions"])
    assert row["since"] == row["first_seen"]

    by_version = failing(store, since_ns=since_ns, tool="book")
    assert [("1.10", 3), ("1.9", 1)] == [(item["agent_version"], item["faults"]) for item in by_version]
    assert [row["versions"]] * 2 == [item["versions"] for item in by_version]


def test_a_fault_is_new_when_an_earlier_version_used_the_tool_without_it(store: Store) -> None:
    clean = talk("c1", find(), book(), day=3, version="1.0")
    misbooked = talk("c2", find(), book("Oslo"), day=1, version="1.1")
    save(store, [clean, misbooked, talk("c3", find(), book("Pisa"), tool_call("drop"), day=2, version="1.1")])
    news = {
        (row["tool"], row["parameter"]): (row["is_new"], row["clean_before"])
        for row in view_rows(store, "v_fault_history")
    }
    assert {("book", "city"): (True, 0), ("drop", None): (False, 0)} == news


def test_health_counts_what_was_expected_made_and_right(trips: Store) -> None:
    health = {
        (row["agent"], row["agent_version"], row["environment"], row["tool"]): row
        for row in view_rows(trips, "v_tool_health")
    }
    book_of_10 = health["travel", "1.10", "production", "book"]
    assert (3, 3, 3, 3, 0, 3, 0) == tuple(
        book_of_10[name]
        for name in ("conversations", "expected_conversations", "expected", "actual", "errored", "paired", "unexpected")
    )
    assert (1.0, pytest.approx((1 + 0.5 + 0.5) / 3), 1.0) == tuple(
        book_of_10[name] for name in ("selection", "parameters", "utilization")
    )
    find_of_10 = health["travel", "1.10", "production", "find"]
    assert (3, 2, 1, 2) == tuple(find_of_10[name] for name in ("expected", "actual", "errored", "paired"))
    assert pytest.approx(2 / 3) == find_of_10["selection"]
    # Of six ordered calls one of c2 came too early, and find of c4 never.
    in_order = [health["travel", "1.10", "production", tool]["sequence"] for tool in ("book", "find")]
    assert pytest.approx(4 / 3) == sum(in_order)
    drop, look = (health["travel", "1.10", "production", tool] for tool in ("drop", "look"))
    assert (0, 1, 1, 0.0) == (drop["expected"], drop["actual"], drop["unexpected"], drop["selection"])
    assert (0, 1, 0, None) == (look["expected"], look["actual"], look["unexpected"], look["selection"])


def test_a_fault_has_its_turn_its_case_and_both_calls(trips: Store) -> None:
    by_key = {(row["conversation_id"], row["tool"], row["fault"]): row for row in view_rows(trips, "v_tool_faults")}
    misbooked = by_key["c4", "book", "wrong_parameters"]
    assert ("A room in Rome", "trip", "city", "Rome", "Oslo", 0, 2) == tuple(
        misbooked[name] for name in ("query", "case_id", "parameter", "expected", "actual", "turn_index", "step")
    )
    assert ({"city": "Rome", "nights": 2}, {"city": "Oslo", "nights": 2}) == (
        misbooked["expected_call"],
        misbooked["actual_call"],
    )
    assert ("t1", "b1") == (misbooked["trace_id"], misbooked["span_id"])
    missing = by_key["c5", "find", "missing"]
    turn_span = value(trips, "SELECT span_id FROM turns WHERE conversation_id = 'c5'")
    assert ({}, None, turn_span) == (missing["expected_call"], missing["actual_call"], missing["span_id"])
    assert "Error: busy" == by_key["c4", "find", "errored"]["error"]


def test_the_example_is_the_newest_of_the_row(trips: Store) -> None:
    (row,) = failing(trips, agent="travel", tool="book", fault="wrong_parameters", until_ns=CONVERSATIONS[4].ended_ns)
    with trips.read() as con:
        example = example_of(con, Selection(agent="travel"), row, by_version=True)
    assert (row["example_conversation"], row["example"]) == (example["conversation_id"], example["explanation"])


def test_a_null_parameter_differs_from_a_missing_one(store: Store) -> None:
    absent = tool_call("book", {"nights": 2}, result={"code": "AB12"})
    save(store, [talk("c1", find(), book(None)), talk("c2", find(), absent)])
    actual = rows(store, "SELECT conversation_id, actual FROM tool_faults WHERE parameter = 'city' ORDER BY ALL")
    assert [("c1", "null"), ("c2", None)] == actual


def test_evidence_is_a_row_a_call_in_sql_and_a_record_for_the_command(trips: Store) -> None:
    by_key = {(row["conversation_id"], row["tool"]): row for row in view_rows(trips, "v_tool_evidence")}
    row = by_key["c1", "book"]
    assert ("answer", 1.0, "code", "AB12", 0, "It is AB12.", None) == tuple(
        row[name] for name in ("how", "score", "key", "value", "found_turn_index", "found_text", "found_tool")
    )
    assert ("utilization", 0, 1, "b1", "trip") == tuple(
        row[name] for name in ("dimension", "turn_index", "position", "span_id", "case_id")
    )
    with trips.read() as con:
        score = score_of(con, newest_revision(con, ("production", "c1")))
    assert score is not None
    (record,) = score["tool_scores"][0]["evidence"]["utilization"]
    assert row["explanation"] == record["explanation"]


def test_evidence_of_an_earlier_release_is_no_row(trips: Store) -> None:
    trips.write(
        lambda con: con.execute(
            "UPDATE scores SET details = '{\"utilization\": [\"a sentence\"]}' WHERE name LIKE '%.overall'"
        )
    )
    assert [] == view_rows(trips, "v_tool_evidence")


def test_verdicts_that_contradict_what_was_computed_are_listed(store: Store) -> None:
    save(
        store,
        [talk("c1", find(), book()), talk("c2", find(), book("Oslo"), day=1), talk("c3", find(), book(), day=2)],
        labels={"c1": False, "c2": True, "c3": True},
    )
    by_key = {
        row["conversation_id"]: (row["outcome_source"], row["outcome"], row["computed_outcome"])
        for row in view_rows(store, "v_disagreements")
    }
    assert {"c1": ("labels", "fail", "pass"), "c2": ("labels", "pass", "fail")} == by_key


def test_fails_on_partial_evidence_are_counted(store: Store) -> None:
    unknown = talk("c1", find(), book("Oslo"), answer=None)
    silent = replace(unknown, turns=(replace(unknown.turns[0], answer_captured=False),))
    save(store, [silent, talk("c2", find(), book("Oslo"), day=1), talk("c3", find(), book(), day=2)])
    (row,) = view_rows(store, "v_partial_evidence")
    assert (3, 1, pytest.approx(1 / 3)) == (row["evaluated"], row["partial_fails"], row["share"])
    assert [("c1", True), ("c2", False), ("c3", False)] == rows(
        store, "SELECT conversation_id, partial FROM conversation_scores ORDER BY ALL"
    )
    reasons = "SELECT answer_outcome, answer_reason FROM turn_scores ORDER BY conversation_id"
    assert [("not_evaluated", "content_not_captured"), ("pass", None), ("pass", None)] == rows(store, reasons)


def test_what_most_conversations_failed_by_stands_first_and_errors_made_good_last(store: Store) -> None:
    save(
        store,
        [
            talk("c1", find(), book(error="Error: busy"), book(position=2), day=1),
            talk(
                "c2", find(), book(error="Error: busy"), book(error="Error: busy", position=2), book(position=3), day=2
            ),
            talk("c3", find(error="Error: down"), find(error="Error: down", position=1), book(position=2), day=3),
            talk("c4", find(), book("Oslo"), day=4),
        ],
    )
    failures = failing(store)
    assert [
        ("find", "errored", 1, 2, None),
        ("book", "wrong_parameters", 1, 1, None),
        ("find", "missing", 1, 1, 1),
        ("book", "errored", 0, 3, None),
    ] == [tuple(row[name] for name in ("tool", "fault", "failed", "faults", "tried")) for row in failures]
    assert ["Error: down", None, None, "Error: busy"] == [row["error"] for row in failures]


def test_tools_that_could_not_be_evaluated_are_counted(store: Store) -> None:
    save(store, [talk("c1", tool_call("find", None, result=None, result_captured=False))])
    with store.read() as con:
        assert 1 == scored_with_tools(con, Selection())["unknown_tools"]
    assert {0} == {row["failed"] for row in failing(store)}


def test_what_was_looked_at_is_counted(trips: Store) -> None:
    save(trips, [talk("other", case_id=None, query="Hello")])
    with trips.read() as con:
        counts = scored_with_tools(con, Selection())
        none = scored_with_tools(con, Selection(agent="nobody"))
    assert counts == {
        "conversations": 7,
        "scored": 7,
        "with_tools": 6,
        "unknown_tools": 0,
        "failed_tools": 5,
        "faults": 9,
    }
    assert none == dict.fromkeys(counts, 0)


def test_scoring_again_replaces_the_rows(trips: Store) -> None:
    before = [view_rows(trips, table) for table in ("tool_counts", "tool_faults", "tool_scores")]
    save(trips, CONVERSATIONS)
    assert before == [view_rows(trips, table) for table in ("tool_counts", "tool_faults", "tool_scores")]


def test_scores_without_counts_have_faults_without_a_rate(trips: Store) -> None:
    trips.write(lambda con: con.execute("DELETE FROM tool_counts"))
    failures = failing(trips)
    assert 8 == len(failures)
    assert {(None, None, None)} == {(row["rate"], row["calls"], row["is_new"]) for row in failures}
