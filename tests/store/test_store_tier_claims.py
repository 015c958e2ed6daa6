"""Tiers as of window ends: counted by the database since each version's first conversation, removed results included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.config import StatsSettings
from otel_agentic.stats import claim_tier
from otel_agentic.store.maintenance.retention import old_results, remove_results
from otel_agentic.store.windows import Claims, claims_at, removed_attempts
from otel_agentic.windows import GroupKey, ScoredConversation, claim_basis
from tests.builders import save_results
from tests.snapshots import passage
from tests.windows.rolled import PLAIN, SECOND, conversations

if TYPE_CHECKING:
    from otel_agentic.store import Store

#: By the paper's table tiers follow the counts closely, so that a difference of one conversation shows.
PAPER = StatsSettings(mode="frequentist", tier_rule="paper")


def claimed(
    store: Store,
    ends: Sequence[int],
    *,
    tags: Sequence[str] = (),
    since_ns: int | None = None,
    stats: StatsSettings = PAPER,
) -> Claims:
    with store.read() as con:
        return claims_at(con, ends, tags=tags, since_ns=since_ns, settings=stats, estimators=())


def by_hand(
    scored: Sequence[ScoredConversation], ends: Sequence[int], tags: Sequence[str], since_ns: int | None
) -> Claims:
    claims: Claims = {}
    for end_ns in ends:
        groups: dict[GroupKey, list[ScoredConversation]] = {}
        for row in scored:
            names = [tag for tag in dict.fromkeys(row.tags) if any(tag == name for name in tags)]
            for tag in (None, *names):
                if row.outcome != "not_evaluated" and row.ended_ns <= end_ns:
                    key = GroupKey(
                        agent=row.agent,
                        agent_version=row.agent_version,
                        environment=row.environment,
                        service=row.service,
                        tag=tag,
                        criterion="correct",
                        criteria="",
                    )
                    groups.setdefault(key, []).append(row)
        for key, members in groups.items():
            attempts = claim_basis(key, members, since_ns=since_ns).attempts
            if attempts.n:
                claims[key, end_ns] = claim_tier(attempts, PAPER).tier
    return claims


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    conversations(),
    st.lists(st.integers(0, 80), min_size=1, max_size=4),
    st.sampled_from([(), ("new",)]),
    st.sampled_from([None, 20 * SECOND]),
)
def test_claims_count_everything_from_the_beginning_to_each_end(
    store: Store,
    scored: list[ScoredConversation],
    seconds: list[int],
    tags: tuple[str, ...],
    since_ns: int | None,
) -> None:
    ends = sorted({second * SECOND for second in seconds})
    store.write(lambda con: save_results(con, scored))

    assert by_hand(scored, ends, tags, since_ns) == claimed(store, ends, tags=tags, since_ns=since_ns)


def stream(passed: int, *, case: str | None = None) -> list[ScoredConversation]:
    return [
        replace(
            PLAIN,
            conversation_id=f"c-{index:03}",
            ended_ns=index * SECOND,
            outcome="pass",
            reason=None,
            dataset="" if case else None,
            case_id=case,
        )
        for index in range(passed)
    ]


@pytest.mark.parametrize("cut", [30, 50, 100])
def test_what_retention_removed_still_counts(store: Store, cut: int) -> None:
    store.write(lambda con: save_results(con, stream(100)))
    before = claimed(store, [200 * SECOND], stats=StatsSettings())

    for _ in range(2):
        with store.read() as con:
            old = old_results(
                con, cut_ns=cut * SECOND, frozen_ns=cut * SECOND, newest=0, watched=(), watched_since_ns=0
            )
        store.write(partial(remove_results, rows=old, cut_ns=cut * SECOND))

    assert ["ready"] == list(before.values())
    assert before == claimed(store, [200 * SECOND], stats=StatsSettings())
    with store.read() as con:
        assert [(cut, 0, (cut - 1) * SECOND)] == con.execute(
            "SELECT n, epoch_ns(first_time), epoch_ns(last_time) FROM removed_attempts"
        ).fetchall()


def test_removed_conversations_are_part_of_a_reports_basis(store: Store) -> None:
    scored = stream(60, case="hotel")
    store.write(lambda con: save_results(con, scored))
    with store.read() as con:
        removed = removed_attempts(con, "")  # the conversations themselves are not in this store

    basis = claim_basis(GroupKey(agent=PLAIN.agent), (), removed=removed)

    assert [(case.case_id, case.n, case.c) for case in basis.attempts.cases] == [("hotel", 60, 60)]
    assert claim_basis(GroupKey(agent="another"), (), removed=removed).attempts.n == 0
    assert claim_basis(GroupKey(agent=PLAIN.agent, tool="book"), (), removed=removed).withheld is not None
    assert claim_basis(GroupKey(agent=PLAIN.agent), (), removed=removed, since_ns=SECOND).attempts.n == 0


def test_a_claim_is_about_the_version_that_came_last() -> None:
    old = [replace(row, agent_version="1") for row in stream(50)]
    new = [replace(row, agent_version="2", ended_ns=row.ended_ns + 30 * SECOND) for row in stream(20)]

    basis = claim_basis(GroupKey(agent=PLAIN.agent), [*new, *old])

    assert (basis.agent_version, basis.versions, basis.attempts.n, basis.since_ns) == ("2", 2, 20, 30 * SECOND)


@pytest.mark.parametrize(("probability", "tier"), [(0.99, "ready"), (0.9, "insufficient_evidence")])
def test_a_rate_that_the_judge_shifts_supports_no_tier(store: Store, probability: float, tier: str) -> None:
    scored = [replace(row, pass_probability=probability) for row in stream(100)]
    store.write(lambda con: save_results(con, scored))
    withheld = claim_basis(GroupKey(agent=PLAIN.agent), scored).withheld

    assert [tier] == list(claimed(store, [200 * SECOND], stats=StatsSettings()).values())
    assert (withheld is None) == (tier == "ready")
    if withheld is not None:
        assert passage(withheld) == snapshot("shifts the pass rate by an estimated +.10 (limit .05)")


def test_unsure_conversations_count_in_the_shift_and_labelled_ones_do_not() -> None:
    sure, labelled = [replace(row, pass_probability=1.0) for row in stream(90)], stream(10)
    unsure = [replace(row, outcome="not_evaluated", reason="judge_unsure", pass_probability=0.3) for row in stream(10)]

    assert claim_basis(GroupKey(agent=PLAIN.agent), [*sure, *labelled]).withheld is None
    assert "+.07" in str(claim_basis(GroupKey(agent=PLAIN.agent), [*sure, *unsure]).withheld)
