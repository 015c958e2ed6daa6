"""Verdicts of judges are cached in the file, cleared on demand, and counted in the budget either way."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from inline_snapshot import snapshot

from otel_agentic.config import JudgeSettings
from otel_agentic.errors import ConfigError, StoreUnusableError
from otel_agentic.judges import JudgeFailure, Question, Verdict
from otel_agentic.judges.asking_judge import Cost
from otel_agentic.judges.base import ReplyForm, Rubric, rubric_question
from otel_agentic.store.judges import DuckDbBudget, DuckDbJudgeCache, clear_verdicts, judge_summary
from otel_agentic.testing import NOON_NS, SECOND_NS
from tests.store.store_queries import rows, value

if TYPE_CHECKING:
    from otel_agentic.store import Store
    from tests.store.conftest import OpenStore

HOUR_NS = 3600 * SECOND_NS
QUESTION = Question(query="2+2?", expected="4", answer="four", threshold=0.7)
RIGHT = Verdict(
    score=0.9, reasoning="yes", model="m-1", tries=2, latency_s=1.5, input_tokens=100, output_tokens=10, cost_usd=0.5
)
FAILURE = JudgeFailure(reason="judge_error", message="timeout", model="m-1", tries=4, input_tokens=40, cost_usd=0.25)


def question_of(form: ReplyForm) -> Question:
    return rubric_question(Rubric(name="house.tone", version="1", instructions="Grade it.", form=form), answer="Hi")


LABEL = question_of(ReplyForm(kind="label", labels=("good", "bad")))
TEXTS = question_of(ReplyForm(kind="texts"))


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now_ns = NOON_NS

    def __call__(self) -> int:
        return self.now_ns


def save_verdicts(
    store: Store, *given: tuple[str, Verdict | JudgeFailure], judge: str = "j", version: str = "1"
) -> None:
    cache = DuckDbJudgeCache(store, judge, version)
    for key, verdict in given:
        cache.put(key, verdict, QUESTION)
    cache.close()


def cached_verdicts(store: Store, *keys: str) -> dict[str, Verdict]:
    cache = DuckDbJudgeCache(store, "j", "1")
    try:
        return cache.get(keys)
    finally:
        cache.close()


def test_a_verdict_is_found_again_by_another_process_and_marked_as_cached(open_store: OpenStore) -> None:
    with open_store() as store:
        save_verdicts(store, ("a", RIGHT), ("b", RIGHT))
    expected = Verdict(
        score=0.9,
        reasoning="yes",
        model="m-1",
        tries=2,
        latency_s=1.5,
        input_tokens=100,
        output_tokens=10,
        cost_usd=0.5,
        cached=True,
    )
    assert {"a": expected} == cached_verdicts(open_store(), "a", "unknown")


def test_a_failure_is_recorded_and_never_an_answer(store: Store) -> None:
    save_verdicts(store, ("a", FAILURE))

    assert {} == cached_verdicts(store, "a")
    assert [("timeout", 4, None)] == rows(store, "SELECT error, tries, score FROM judge_calls")


def test_labels_and_texts_are_cached_with_the_name_of_their_prompt(store: Store) -> None:
    verdicts = {
        "score": Verdict(score=4.0, reasoning="s"),
        "label": Verdict(score=0.0, reasoning="l", label="bad"),
        "texts": Verdict(score=0.0, reasoning="t", texts=("a claim", 'with "quotes", [and] more')),
        "none": Verdict(score=0.0, reasoning="n"),
    }
    questions = {"score": question_of(ReplyForm(low=1, high=5)), "label": LABEL, "texts": TEXTS, "none": TEXTS}
    cache = DuckDbJudgeCache(store, "j", "1")
    for key, verdict in verdicts.items():
        cache.put(key, verdict, questions[key])
    cache.put("plain", RIGHT, QUESTION)
    cache.put("failed", FAILURE, LABEL)
    cache.flush()

    assert {key: replace(verdict, cached=True) for key, verdict in verdicts.items()} == cache.get(list(verdicts))
    assert [
        ("failed", "house.tone", None, None, None),
        ("label", "house.tone", None, "bad", None),
        ("none", "house.tone", None, None, []),
        ("plain", "answer", 0.9, None, None),
        ("score", "house.tone", 4.0, None, None),
        ("texts", "house.tone", None, None, ["a claim", 'with "quotes", [and] more']),
    ] == rows(store, "SELECT content_hash, metric, score, label, texts FROM judge_calls ORDER BY content_hash")
    cache.close()


def test_a_label_counts_as_a_verdict_in_the_summary_and_goes_when_the_cache_is_cleared(store: Store) -> None:
    cache = DuckDbJudgeCache(store, "j", "1")
    cache.put("label", Verdict(score=0.0, reasoning="l", label="bad"), LABEL)
    cache.put("texts", Verdict(score=0.0, reasoning="t", texts=("a claim",)), TEXTS)
    cache.put("failed", replace(FAILURE, model=None), LABEL)
    cache.flush()
    with store.read() as con:
        (summary,) = judge_summary(con)
    store.write(lambda con: clear_verdicts(con, judge=None, before_ns=None, counted_from_ns=0))

    assert (2, 1) == (summary["verdicts"], summary["failures"])
    assert {} == cache.get(["label", "texts"])
    assert [(None, None)] == rows(store, "SELECT DISTINCT reasoning, texts FROM judge_calls")
    cache.close()


def test_a_verdict_after_a_failure_is_the_answer_and_the_newest_of_two_wins(open_store: OpenStore) -> None:
    clock = Clock()
    store = open_store(clock=clock)
    for score in (0.1, 0.2):
        clock.now_ns += SECOND_NS
        save_verdicts(store, ("a", Verdict(score=score, reasoning="")), ("a", FAILURE))

    assert 0.2 == cached_verdicts(store, "a")["a"].score


def test_what_cost_nothing_is_not_recorded(store: Store) -> None:
    refused = JudgeFailure(reason="budget_exhausted", message="no budget")
    save_verdicts(store, ("a", refused), ("b", Verdict(score=1.0, reasoning="", cached=True)))

    assert 0 == value(store, "SELECT count(*) FROM judge_calls")


def test_after_flush_everything_put_before_is_there(store: Store) -> None:
    cache = DuckDbJudgeCache(store, "j", "1")
    for number in range(300):
        cache.put(str(number), RIGHT, QUESTION)
    cache.flush()

    assert 300 == len(cache.get([str(number) for number in range(300)]))
    cache.close()


def test_a_cache_that_is_not_to_be_read_is_written_all_the_same(store: Store) -> None:
    cache = DuckDbJudgeCache(store, "j", "1", reads=False)
    cache.put("a", RIGHT, QUESTION)
    cache.flush()

    assert {} == cache.get(["a"])
    assert ["a"] == list(cached_verdicts(store, "a"))
    cache.close()


def test_a_failed_write_is_raised_by_the_flush(open_store: OpenStore) -> None:
    store = open_store()
    cache = DuckDbJudgeCache(store, "j", "1")
    store.close()
    cache.put("a", RIGHT, QUESTION)

    with pytest.raises(StoreUnusableError, match="closing"):
        cache.flush()
    cache.close()


def test_the_summary_counts_the_verdicts_and_costs_of_each_version(store: Store) -> None:
    save_verdicts(store, ("a", RIGHT), ("b", RIGHT), ("c", FAILURE))
    save_verdicts(store, ("a", Verdict(score=1.0, reasoning="")), version="2")
    with store.read() as con:
        by_version = {row["judge_version"]: row for row in judge_summary(con)}

    version_1 = by_version["1"]
    assert (2, 1, 8, 240, 20, 1.25) == tuple(
        version_1[name] for name in ("verdicts", "failures", "calls", "input_tokens", "output_tokens", "cost_usd")
    )
    assert (1, None) == (by_version["2"]["verdicts"], by_version["2"]["cost_usd"])


@pytest.mark.parametrize(
    ("chosen", "left"),
    [({}, []), ({"judge": "j"}, ["c"]), ({"judge": "other"}, ["a", "b"]), ({"before_ns": NOON_NS + 1}, ["b"])],
)
def test_clearing_forgets_what_it_names(open_store: OpenStore, chosen: dict[str, object], left: list[str]) -> None:
    clock = Clock()
    store = open_store(clock=clock)
    save_verdicts(store, ("a", RIGHT))
    save_verdicts(store, ("c", RIGHT), judge="other")
    clock.now_ns += HOUR_NS
    save_verdicts(store, ("b", RIGHT))
    given = {"judge": None, "before_ns": None, **chosen}

    store.write(lambda con: clear_verdicts(con, counted_from_ns=0, **given))  # type: ignore[arg-type]  # as parametrised

    assert left == sorted(cached_verdicts(store, "a", "b", "c"))


def test_clearing_takes_the_texts_and_leaves_the_cost_until_its_window_is_over(open_store: OpenStore) -> None:
    clock = Clock()
    store = open_store(clock=clock)
    save_verdicts(store, ("old", RIGHT))
    clock.now_ns += 2 * HOUR_NS
    save_verdicts(store, ("new", RIGHT))
    budget = DuckDbBudget(store, JudgeSettings(budget_window="1h", max_calls=3))
    assert budget.allows(calls=1, tokens=0)

    store.write(
        lambda con: clear_verdicts(con, judge=None, before_ns=None, counted_from_ns=clock.now_ns - budget.width_ns)
    )

    assert [("new", None, 2)] == rows(store, "SELECT content_hash, reasoning, tries FROM judge_calls")
    assert Cost(calls=2, tokens=110, cost_usd=0.5) == DuckDbBudget(store, JudgeSettings(budget_window="1h")).spent()


def test_the_budget_counts_what_any_process_spent_in_its_window(open_store: OpenStore) -> None:
    clock = Clock()
    settings = JudgeSettings(budget_window="1h", max_calls=5)
    with open_store(clock=clock) as store:
        save_verdicts(store, ("a", RIGHT), ("b", RIGHT))
    budget = DuckDbBudget(open_store(clock=clock), settings)

    assert budget.allows(calls=1, tokens=10**9)
    assert not budget.allows(calls=2, tokens=0)
    assert budget.used_up == snapshot("the budget of 1h is used up (judge.max_calls 5)")
    clock.now_ns += HOUR_NS
    assert budget.allows(calls=5, tokens=0)
    assert Cost() == budget.spent()


@pytest.mark.parametrize(
    ("limit", "within", "beyond"),
    [
        ({"max_calls": 6}, {"calls": 4, "tokens": 0}, {"calls": 5, "tokens": 0}),
        ({"max_tokens": 120}, {"calls": 9, "tokens": 10}, {"calls": 1, "tokens": 11}),
        (
            {"max_cost_usd": 0.51, "input_price_usd": 1.0, "output_price_usd": 2.0},
            {"calls": 1, "tokens": 4_000},
            {"calls": 1, "tokens": 6_000},
        ),
    ],
)
def test_each_limit_holds(
    store: Store, limit: dict[str, float], within: dict[str, int], beyond: dict[str, int]
) -> None:
    budget = DuckDbBudget(store, JudgeSettings.model_validate(limit))
    budget.spend(RIGHT)

    assert (True, False) == (budget.allows(**within), budget.allows(**beyond))
    assert next(iter(limit)) in (budget.used_up or "")


def test_spending_leaves_the_window_as_time_goes_by(open_store: OpenStore) -> None:
    clock = Clock()
    budget = DuckDbBudget(open_store(clock=clock), JudgeSettings(budget_window="1h", max_calls=4))
    for _ in range(2):
        budget.spend(RIGHT)
        clock.now_ns += HOUR_NS // 2

    assert (2, True, False) == (
        budget.spent().calls,
        budget.allows(calls=2, tokens=0),
        budget.allows(calls=3, tokens=0),
    )


def test_a_million_calls_are_held_as_a_thousand_sums(open_store: OpenStore) -> None:
    clock = Clock()
    budget = DuckDbBudget(open_store(clock=clock), JudgeSettings(budget_window="1h"))
    for _ in range(5_000):
        clock.now_ns += HOUR_NS // 2_500
        budget.spend(RIGHT)

    assert len(budget._spent or ()) <= 1_001
    assert 5_000 == pytest.approx(budget.spent().calls, rel=0.001)


def test_an_invalid_window_is_refused() -> None:
    with pytest.raises(ConfigError, match="24 hours"):
        DuckDbBudget(None, JudgeSettings(budget_window="24 hours"), clock=lambda: 0)  # type: ignore[arg-type]  # not read
