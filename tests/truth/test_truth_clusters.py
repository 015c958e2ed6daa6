"""Conversations grouped by what they begin with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.truth.promote import Opening, cluster

if TYPE_CHECKING:
    import random


def opening(name: str, query: str | None, *, at: int = 0, agent: str | None = "mesa") -> Opening:
    return Opening(environment="", conversation_id=name, agent=agent, query=query, ended_ns=at)


def test_the_same_question_is_one_cluster_with_any_figures_and_wording() -> None:
    result = cluster(
        [
            opening("c1", "Where is my order A1?", at=1, agent="mesa"),
            opening("c2", "where is my order B-22", at=4, agent="mesa"),
            opening("c3", "Where is my order now?", at=9, agent="bot"),
            opening("c4", "Play some music", at=5, agent=None),
        ]
    )

    first, second = result
    assert (first.query, first.size, first.share, first.agents) == snapshot(
        ("where is my order B-22", 3, 0.75, ("mesa", "bot"))
    )
    assert ("c2", 1, 9) == (first.example.conversation_id, first.first_seen_ns, first.last_seen_ns)
    assert ("Play some music", 1, 0.25, ()) == (second.query, second.size, second.share, second.agents)


def test_conversations_without_a_query_are_a_cluster_of_their_own() -> None:
    result = cluster([opening("c1", None), opening("c2", None, at=2), opening("c3", "?")])

    assert [(None, 3)] == [(item.query and None, item.size) for item in result]
    assert [] == cluster([])


def test_an_unlike_question_stands_alone() -> None:
    queries = ["I want to cancel my flight", "I want to cancel my order", "How is the weather?", "你好"]
    result = cluster(opening(query, query) for query in queries)

    assert [1, 1, 1, 1] == [item.size for item in result]


def test_a_long_paste_after_the_question_does_not_matter() -> None:
    question = " ".join(f"word{'x' * index}" for index in range(20))
    result = cluster([opening("c1", f"{question} one"), opening("c2", f"{question} {'other ' * 5000}")])

    assert [2] == [item.size for item in result]


QUERIES = st.none() | st.lists(st.sampled_from(["cancel", "my", "flight", "order", "A1", "now"]), max_size=6).map(
    " ".join
)


@given(queries=st.lists(QUERIES, min_size=1, max_size=12), shuffler=st.randoms())
def test_every_conversation_is_in_one_cluster_and_their_order_does_not_matter(
    queries: list[str | None], shuffler: random.Random
) -> None:
    openings = [opening(f"c{index}", query, at=index % 3) for index, query in enumerate(queries)]
    shuffled = list(openings)
    shuffler.shuffle(shuffled)

    result = cluster(openings)

    assert result == cluster(shuffled)
    assert len(openings) == sum(item.size for item in result)
    assert [item.size for item in result] == sorted((item.size for item in result), reverse=True)
    assert all(item.example in openings and item.example.query == item.query for item in result)
    assert abs(sum(item.share for item in result) - 1) < 1e-9
