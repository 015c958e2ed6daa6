"""Rows that are searched only since their ids are known are those that a search of all rows finds."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from otel_agentic.engine.engine import Engine, rebuilder_over
from otel_agentic.engine.workers import WorkerPool
from otel_agentic.store import known_ids, links
from otel_agentic.store.conversations import current_revisions, load_conversations
from otel_agentic.store.known_ids import KnownIds
from otel_agentic.store.queries.browsing import spans_of
from otel_agentic.store.queries.conversations import newest_revision
from otel_agentic.testing import NOON_NS, SECOND_NS, batch, speak_genai
from tests.builders import ask_hotel, contents, stored_conversations
from tests.stores import settings_for

HOUR_NS = 3_600 * SECOND_NS
COMMITS = 8
PROCESSES = 2


@pytest.fixture(autouse=True)
def tight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the time of each id precise: with the real sizes, all ids of a test have the same."""
    monkeypatch.setattr(known_ids, "_PARTITION", 4)
    monkeypatch.setattr(known_ids, "_OVERLAP_NS", 0)
    monkeypatch.setattr(known_ids, "_PROMPT_NS", 0)
    monkeypatch.setattr(known_ids, "_CHUNK", 6)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerPool]:
    with WorkerPool(settings_for(tmp_path_factory.mktemp("none") / "none.duckdb"), 1) as workers:
        yield workers


def arrivals(seed: int) -> list[list[Any]]:
    """Return the spans of each commit: of conversations that are resumed, that share an id, and without one."""
    draw = random.Random(seed)  # noqa: S311 — reproducible, not secret
    commits: list[list[Any]] = [[] for _ in range(COMMITS)]
    for number in range(18):
        name = draw.choice([None, f"c-{number}", f"c-{draw.randrange(6)}"])
        first = draw.randrange(COMMITS)
        script = ask_hotel(name)
        if draw.random() < 0.3:
            script = script.ask("How much?").answers("300 euros.")
        spans = speak_genai(script, start_ns=NOON_NS + first * HOUR_NS + number * SECOND_NS).spans
        for span in spans:
            is_late = draw.random() < 0.1
            commits[draw.randrange(first, COMMITS) if is_late else first].append(span)
    return commits


def check_each_conversation(engine: Engine) -> None:
    """Check that a search since the ids are known finds the rows that a search of all finds, for each conversation alone."""
    known, all_rows = engine.store.known_ids, KnownIds(engine.store.read)
    all_rows.forget()
    with engine.store.read() as con:
        for key in stored_conversations(engine):
            name = key[1]
            for search in (links.families_of, links.traces_of):
                assert search(con, [key], all_rows) == search(con, [key], known)
            assert current_revisions(con, [key]) == current_revisions(con, [key], known.since([name]))
            assert load_conversations(con, [key]) == load_conversations(con, [key], known.since([name]))
            assert newest_revision(con, key) == newest_revision(con, key, known.periods(name))
            spans = partial(spans_of, con, key, offset=0, limit=1000)
            assert [] != spans([known_ids.ALWAYS]) == spans(known.periods(name))


def rows_after(
    db: Path, seed: int, pool: WorkerPool | None = None, *, searches_all: bool = False
) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row after spans arrived in commits an hour apart, in processes that each receive a few of them."""
    hours = iter(enumerate(arrivals(seed)))
    now_ns = [NOON_NS]
    for _ in range(PROCESSES):
        with Engine(settings_for(db), create=True, clock=lambda: now_ns[0], collecting=True) as engine:
            if searches_all:
                engine.store.known_ids.forget()
            rebuilder = rebuilder_over(engine, pool)
            for _ in range(COMMITS // PROCESSES):
                hour, spans = next(hours)
                now_ns[0] = NOON_NS + hour * HOUR_NS
                engine.store.accept(batch(*spans))
                touched = rebuilder.read(rebuilder.pending())
                rebuilder.rebuild(touched, lambda _: None)
                if hour % 2:
                    rebuilder.close(stored_conversations(engine).keys(), ())
            if not (searches_all or pool):
                check_each_conversation(engine)
            result = contents(engine)
    return {name: rows for name, rows in result.items() if name not in {"schema_migrations", "instance"}}


@pytest.mark.slow  # in this process: the next test; in workers: tests/engine/test_engine_parallel.py
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_same_rows_are_found_in_this_process_and_in_workers(tmp_path: Path, pool: WorkerPool, seed: int) -> None:
    expected = rows_after(tmp_path / "all.duckdb", seed, searches_all=True)
    assert any("#2" in row[1] for row in expected["conversations"])
    assert any(row[2] > 1 for row in expected["conversations"])

    assert expected == rows_after(tmp_path / "known.duckdb", seed)
    assert expected == rows_after(tmp_path / "pooled.duckdb", seed, pool)


def test_a_clock_that_is_set_back_hides_no_conversation(tmp_path: Path) -> None:
    now_ns = [NOON_NS + 5 * HOUR_NS]
    with Engine(settings_for(tmp_path / "t.duckdb"), create=True, clock=lambda: now_ns[0], collecting=True) as engine:
        for hour in (5, 0, 1):
            now_ns[0] = NOON_NS + hour * HOUR_NS
            for name in ("c-1", f"c-{hour + 2}"):
                engine.store.accept(batch(speak_genai(ask_hotel(name), start_ns=NOON_NS + hour * HOUR_NS)))
            engine.rebuilder.rebuild(engine.rebuilder.read(engine.rebuilder.pending()), lambda _: None)
            check_each_conversation(engine)
        rows = contents(engine)["conversations"]
    assert [("c-1", 1), ("c-2", 1), ("c-3", 1), ("c-7", 1)] == [row[1:3] for row in rows]
