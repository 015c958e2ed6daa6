"""`results` equals the join that it represents: the newest score of each conversation, joined with the revision that was scored."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_agentic.conversations.model import ClosedBy, Conversation, ConversationId
from otel_agentic.store.conversations import Built, save_conversations, supersede
from otel_agentic.store.results import load_results, note_changes, watermark
from otel_agentic.store.score_rows import score_types
from otel_agentic.store.scores import NewScores
from otel_agentic.store.truth import save_cases
from otel_agentic.store.windows import forget_changes, read_changes
from otel_agentic.testing import NOON_NS, SECOND_NS, conversation
from otel_agentic.truth import Case
from tests.builders import save_revisions, save_scored, scored_as
from tests.store.store_queries import rows, value

if TYPE_CHECKING:
    from otel_agentic.scoring.scope import Outcome
    from otel_agentic.store import Store

#: The join that `results` represents, without the numbers that only `results` has.
JOIN = """
WITH tools AS (
    SELECT evaluation_id, environment, conversation_id, revision, avg(selection) AS selection,
        avg(parameters) AS parameters, avg(sequence) AS sequence, avg(utilization) AS utilization
    FROM tool_scores GROUP BY ALL
)
SELECT c.environment, c.conversation_id, c.revision, s.evaluation_id, c.agent, c.agent_version, c.service,
    'correct' AS criterion, '' AS criteria, c.ended_at,
    c.window_time,
    c.closed_by, s.dataset, s.case_id, coalesce(k.tags, CAST('[]' AS VARCHAR[])) AS tags, s.outcome, s.reason, t.selection,
    t.parameters, t.sequence, t.utilization, coalesce(s.sample_ratio, 1.0) AS sample_ratio, c.user_hash, c.session_hash,
    s.pass_probability, list_filter(c.slices, lambda slice: slice NOT LIKE 'user=%') AS slices
FROM conversation_scores s
JOIN conversations c USING (environment, conversation_id, revision)
LEFT JOIN tools t USING (evaluation_id, environment, conversation_id, revision)
LEFT JOIN cases k ON k.dataset = s.dataset AND k.case_id = s.case_id AND k.version = s.case_version
WHERE NOT s.superseded AND NOT c.superseded
ORDER BY ALL
"""
STORED = "SELECT * EXCLUDE (subject, case_no) FROM results ORDER BY ALL"
NUMBERS = """
SELECT count(*) FROM results r
LEFT JOIN subjects s USING (subject)
LEFT JOIN result_cases k USING (case_no)
WHERE (r.agent, r.agent_version, r.environment, r.service) IS DISTINCT FROM (s.agent, s.agent_version, s.environment, s.service)
    OR r.case_id IS DISTINCT FROM k.case_id OR (r.case_id IS NOT NULL AND coalesce(r.dataset, '') <> k.dataset)
"""
CASES = (None, Case(case_id="hotel", dataset="shop", tags=("vip", "new")), Case(case_id="hotel"))
KEYS = (("production", "c-1"), ("production", "c-2"), ("", "c-1"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something that happens to one conversation."""

    does: str
    key: tuple[str, str]
    agent: str | None
    second: int
    case: Case | None
    outcome: Outcome
    evaluation: str
    ratio: float


STEPS = st.builds(
    Step,
    does=st.sampled_from(["open", "close", "close", "score", "score", "score", "dissolve"]),
    key=st.sampled_from(KEYS),
    agent=st.sampled_from(["travel", None]),
    second=st.integers(0, 9),
    case=st.sampled_from(CASES),
    outcome=st.sampled_from(["pass", "fail", "not_evaluated"]),
    evaluation=st.sampled_from(["e-1", "e-2"]),
    ratio=st.sampled_from([1.0, 0.5]),
)


class History:
    """Conversations of one store, and what happens to them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._newest: dict[tuple[str, str], Conversation] = {}
        self._dissolved: set[tuple[str, str]] = set()
        store.write(lambda con: save_cases(con, [case for case in CASES if case], "cases.jsonl", 1))

    def take(self, step: Step) -> None:
        """Do the step, if it can happen now."""
        newest = self._newest.get(step.key)
        if step.does in {"open", "close"}:
            self._revise(step, newest)
        elif newest is not None and newest.closed_by is not None and step.does == "score":
            self._score(step, newest)  # of one that dissolved meanwhile, too: it was read before
        elif newest is not None and step.does == "dissolve":
            self._dissolved.add(step.key)
            self._store.write(lambda con: supersede(con, [step.key]))

    def _revise(self, step: Step, newest: Conversation | None) -> None:
        closed = newest is not None and newest.closed_by is not None and step.key not in self._dissolved
        again = newest is not None and (newest.closed_by is not None or step.key in self._dissolved)
        closed_by: ClosedBy | None = "idle" if closed or step.does == "close" else None
        fresh = conversation(
            environment=step.key[0],
            conversation_id=ConversationId(step.key[1]),
            revision=(newest.revision if newest else 1) + again,
            agent_name=step.agent,
            ended_ns=NOON_NS + step.second * SECOND_NS,
            closed_by=closed_by,
            slices=() if step.agent is None else (f"locale={step.key[0]}", "user=u-1"),
        )
        self._newest[step.key] = fresh
        self._dissolved.discard(step.key)
        built = Built(conversation=fresh, ambiguous_link=False)
        self._store.write(lambda con: save_conversations(con, [built], 1))

    def _score(self, step: Step, newest: Conversation) -> None:
        scored = scored_as(newest, step.outcome, step.case, ratio=step.ratio)
        self._store.write(lambda con: NewScores.of(score_types(con), step.evaluation, [scored], 1).save(con))


def empty(store: Store) -> None:
    tables = ("conversations", "turns", "tool_calls", "matches", "scores", "tool_counts", "call_pairs", "results",
              "subjects", "result_cases", "window_changes", "cases")  # fmt: skip
    for table in tables:
        store.write(lambda con, table=table: con.execute(f"DELETE FROM {table}"))  # type: ignore[misc]  # noqa: S608 — our own table names


@settings(
    max_examples=settings().max_examples // 4,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(STEPS, max_size=12))
def test_results_equal_the_join_that_they_represent_after_any_steps(store: Store, steps: list[Step]) -> None:
    empty(store)
    history = History(store)
    for step in steps:
        history.take(step)
        assert rows(store, JOIN) == rows(store, STORED)
    assert 0 == value(store, NUMBERS)


@pytest.fixture
def closed() -> Conversation:
    """A closed conversation that ends at noon."""
    return conversation(ended_ns=NOON_NS)


def test_the_result_of_a_superseded_revision_goes_at_once(store: Store, closed: Conversation) -> None:
    revised = replace(closed, revision=2, agent_name="other", ended_ns=NOON_NS + SECOND_NS)
    query = "SELECT revision, agent, outcome, epoch_ns(ended_at) FROM results"
    save_revisions(store, closed)
    save_scored(store, scored_as(closed))
    save_revisions(store, revised)
    before = rows(store, query)

    save_scored(store, scored_as(revised, "fail"))

    assert [] == before
    assert [(2, "other", "fail", NOON_NS + SECOND_NS)] == rows(store, query)


def test_a_revision_that_is_superseded_while_it_is_scored_has_no_result(store: Store, closed: Conversation) -> None:
    save_revisions(store, closed)
    save_revisions(store, replace(closed, revision=2))

    save_scored(store, scored_as(closed))

    assert [] == rows(store, "SELECT * FROM results")


def test_a_conversation_that_dissolves_while_it_is_scored_has_no_result(store: Store, closed: Conversation) -> None:
    save_revisions(store, closed)
    store.write(lambda con: supersede(con, [("production", "conversation-1")]))

    save_scored(store, scored_as(closed))

    assert [] == rows(store, "SELECT * FROM results")
    assert [(True,)] == rows(store, "SELECT superseded FROM conversation_scores")


def test_changes_are_recorded_at_the_times_where_results_are_and_were(store: Store, closed: Conversation) -> None:
    moved = replace(closed, revision=2, ended_ns=NOON_NS + SECOND_NS)
    filed = replace(closed, conversation_id=ConversationId("filed"), closed_by="end_of_input", ended_ns=NOON_NS + 5)
    save_revisions(store, closed, filed)
    save_scored(store, scored_as(closed), scored_as(filed))
    with store.read() as con:
        first = read_changes(con)
    store.write(lambda con: forget_changes(con, first))
    save_revisions(store, moved)
    with store.read() as con:
        left = read_changes(con)
    store.write(lambda con: forget_changes(con, left))
    save_scored(store, scored_as(moved))
    with store.read() as con:
        second = read_changes(con)

    assert ((NOON_NS,), (NOON_NS + 5,)) == (first.live_ns, first.other_ns)
    assert ((NOON_NS,), ()) == (left.live_ns, left.other_ns)
    assert ((NOON_NS + SECOND_NS,), ()) == (second.live_ns, second.other_ns)


def test_changes_noted_meanwhile_are_not_forgotten(store: Store, closed: Conversation) -> None:
    save_revisions(store, closed)
    save_scored(store, scored_as(closed))
    with store.read() as con:
        changes = read_changes(con)
    store.write(lambda con: note_changes(con, [("production", "conversation-1")]))

    store.write(lambda con: forget_changes(con, changes))

    with store.read() as con:
        assert (NOON_NS,) == read_changes(con).live_ns


@pytest.mark.parametrize(
    ("closed_by", "scored", "expected"),
    [
        (None, 0, NOON_NS - 1),
        ("idle", 0, NOON_NS - 1),
        ("end_mark", 0, NOON_NS - 1),
        ("end_of_input", 0, NOON_NS + 50),
        ("idle", 1, NOON_NS + 50),
    ],
)
def test_monitors_wait_for_what_is_open_or_not_scored_but_not_for_files(
    store: Store, closed: Conversation, closed_by: ClosedBy | None, scored: int, expected: int
) -> None:
    revised = replace(closed, closed_by=closed_by)
    save_revisions(store, revised)
    if scored:
        save_scored(store, scored_as(revised))

    with store.read() as con:
        assert expected == watermark(con, NOON_NS + 60, 10)


def test_a_revision_that_waits_for_its_score_holds_the_watermark_where_it_was_counted(
    store: Store, closed: Conversation
) -> None:
    save_revisions(store, closed)
    save_scored(store, scored_as(closed))
    save_revisions(store, replace(closed, revision=2, ended_ns=NOON_NS + SECOND_NS))

    with store.read() as con:
        assert NOON_NS - 1 == watermark(con, NOON_NS + 2 * SECOND_NS, 0)


def test_the_newest_of_before_are_loaded_for_count_windows(store: Store, closed: Conversation) -> None:
    times = [
        replace(closed, conversation_id=ConversationId(f"c-{number}"), ended_ns=NOON_NS + number) for number in range(6)
    ]
    save_revisions(store, *times)
    save_scored(store, *map(scored_as, times))

    with store.read() as con:
        results = load_results(con, first_ns=NOON_NS + 4, last_ns=NOON_NS + 4, newest=2)

    assert [NOON_NS + 2, NOON_NS + 3, NOON_NS + 4] == results.ended_ns.tolist()


def test_a_file_that_no_collector_opens_does_not_grow_by_scoring_it_again(store: Store, closed: Conversation) -> None:
    times = [
        replace(closed, conversation_id=ConversationId(f"c-{number}"), ended_ns=NOON_NS + number)
        for number in range(20)
    ]
    save_revisions(store, *times)
    save_scored(store, *map(scored_as, times))
    first = rows(store, "SELECT count(*), max(serial) FROM window_changes")
    save_scored(store, *map(scored_as, times))

    assert [(20, 1)] == first
    assert [(20, 2)] == rows(store, "SELECT count(*), min(serial) FROM window_changes")
