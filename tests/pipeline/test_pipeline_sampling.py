"""Which conversations are evaluated where not all are: by hash, whole, monotone, recorded, and weighed by the inverse."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agentic.commands import Commands
from otel_agentic.config import SamplingSettings
from otel_agentic.engine.engine import Engine
from otel_agentic.evaluation.sampling import position_of, ratio_of
from otel_agentic.judges import Question, Verdict
from otel_agentic.testing import NOON_NS, SECOND_NS, AgentRunScript, speak_genai
from tests.builders import feed, rows
from tests.judges.parts import PlainJudge
from tests.pipeline.conftest import settings_for
from tests.pipeline.running import ask, eventually, live_settings, running

if TYPE_CHECKING:
    from otel_agentic.spans.model import SpanBatch
    from tests.pipeline.conftest import OpenEngine

CASES = [("cases.jsonl", json.dumps({"case_id": "hotel", "turns": [{"query": "Which hotel?", "answer": "The Ritz."}]}))]
NAMES = [f"c{number:03}" for number in range(24)]
DAY_S = 86_400
SAID = "SELECT conversation_id, outcome, reason, sample_ratio FROM conversation_scores WHERE NOT superseded"


def judged(question: Question) -> Verdict:
    """Pass answers that begin with "right"."""
    return Verdict(score=float(question.answer.startswith("right")), reasoning="")


def told(name: str, *, agent: str = "clerk", answer: str = "right", start_s: int = 0) -> SpanBatch:
    """Return a conversation; every answer is another one, so that the judge is asked about each."""
    script = AgentRunScript(conversation_id=name, agent_name=agent).ask("Which hotel?").answers(f"{answer}: {name}")
    return speak_genai(script, start_ns=NOON_NS + start_s * SECOND_NS)


@pytest.fixture(scope="module")
def empty_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file without a conversation: copying it is quicker than to make one. Leave it as it is."""
    db = tmp_path_factory.mktemp("empty") / "empty.duckdb"
    Engine(settings_for(db), create=True).close()
    return db


@pytest.fixture
def empty(tmp_path: Path, empty_file: Path) -> Path:
    """A copy of that file."""
    return Path(shutil.copy(empty_file, tmp_path / "t.duckdb"))


@pytest.fixture(scope="module")
def fed_file(empty_file: Path) -> Path:
    """A file with the conversations `NAMES`, not evaluated. Leave it as it is."""
    db = Path(shutil.copy(empty_file, empty_file.with_name("fed.duckdb")))
    with Engine(settings_for(db)) as engine:
        feed(engine, *(told(name) for name in NAMES))
    return db


@pytest.fixture
def db(tmp_path: Path, fed_file: Path) -> Path:
    """A copy of that file."""
    return Path(shutil.copy(fed_file, tmp_path / "t.duckdb"))


def sampling(open_engine: OpenEngine, db: Path, **settings: Any) -> tuple[Engine, Commands, PlainJudge]:
    """Open an engine that samples, with a judge that counts what it is asked."""
    engine = open_engine(db, sampling=settings)
    judge = engine.evaluating.judge = PlainJudge(judged)
    return engine, Commands(engine), judge


def inside(ratio: float, names: list[str] = NAMES) -> set[str]:
    """Return which conversations are in."""
    return {name for name in names if position_of(("", name)) < ratio}


def said(engine: Engine) -> dict[str, tuple[str, str | None, float]]:
    """Return outcome, reason and recorded ratio of each conversation."""
    return {row[0]: row[1:] for row in rows(engine, SAID)}


def passed(engine: Engine) -> set[str]:
    return {name for name, (outcome, _, _) in said(engine).items() if outcome == "pass"}


def recorded(engine: Engine) -> set[float]:
    return {ratio for _, _, ratio in said(engine).values()}


def test_what_is_out_is_not_evaluated_and_nobody_is_asked(open_engine: OpenEngine, db: Path) -> None:
    engine, commands, judge = sampling(open_engine, db, ratio=0.3)
    done = commands.evaluate(cases=CASES)

    taken = inside(0.3)
    assert 0 < len(taken) < len(NAMES)
    out = {name: ("not_evaluated", "sampled_out", 0.3) for name in NAMES if name not in taken}
    assert dict.fromkeys(taken, ("pass", None, 0.3)) | out == said(engine)
    assert (len(taken), len(taken), {"sampled_out": len(out)}) == (judge.asked.total(), done["n"], done["reasons"])
    assert [("hotel",)] == rows(engine, "SELECT DISTINCT case_id FROM matches")
    assert [(0,)] == rows(
        engine,
        "SELECT count(*) FROM turn_scores SEMI JOIN (SELECT * FROM results WHERE reason = 'sampled_out') USING (environment, conversation_id)",
    )


def test_running_again_changes_nothing(open_engine: OpenEngine, db: Path) -> None:
    engine, commands, judge = sampling(open_engine, db, ratio=0.3)
    commands.evaluate(cases=CASES)
    before = rows(engine, "SELECT * FROM conversation_scores ORDER BY ALL")
    asked = judge.asked.total()

    again = commands.evaluate()

    assert (0, 0, asked) == (again["scored"], again["asked_again"], judge.asked.total())
    assert before == rows(engine, "SELECT * FROM conversation_scores ORDER BY ALL")


def test_a_higher_ratio_only_adds_and_weighs_all_anew_and_a_lower_one_takes_nothing_out(
    open_engine: OpenEngine, db: Path
) -> None:
    found: list[tuple[set[str], set[float], set[str]]] = []
    for ratio in (0.2, 0.6, 0.4):
        engine, commands, judge = sampling(open_engine, db, ratio=ratio)
        with engine:
            commands.evaluate(cases=CASES)
            found.append((passed(engine), recorded(engine), set(judge.asked)))
            assert recorded(engine) == {ratio for (ratio,) in rows(engine, "SELECT DISTINCT sample_ratio FROM results")}

    (low, _, _), (high, _, newly), (lower, _, none) = found
    assert (inside(0.2), inside(0.6), inside(0.6)) == (low, high, lower)
    assert [{0.2}, {0.6}, {0.6}] == [ratios for _, ratios, _ in found]
    assert ({f"right: {name}" for name in high - low}, set()) == (newly, none)


def test_force_respects_the_sample_and_what_was_in_stays_in(open_engine: OpenEngine, db: Path) -> None:
    for ratio in (0.5, 0.1):
        engine, commands, _ = sampling(open_engine, db, ratio=ratio)
        with engine:
            done = commands.evaluate(cases=CASES, force=ratio < 0.5)
            assert (inside(0.5), {0.5}) == (passed(engine), recorded(engine))

    assert len(inside(0.5)) == done["scored"]


def test_another_evaluator_version_samples_anew(open_engine: OpenEngine, db: Path) -> None:
    for ratio in (1.0, 0.4):
        engine, commands, _ = sampling(open_engine, db, ratio=ratio)
        with engine:
            commands.evaluate(cases=CASES, labels=[("l.csv", f"conversation_id,verdict\nnobody-{ratio},pass\n")])
            assert (inside(ratio), {ratio}) == (passed(engine), recorded(engine))


def test_a_late_span_of_a_conversation_that_was_in_leaves_it_in(open_engine: OpenEngine, empty: Path) -> None:
    name = next(name for name in NAMES if 0.2 < position_of(("", name)) < 0.6)
    for ratio in (0.6, 0.2):
        engine, commands, _ = sampling(open_engine, empty, ratio=ratio)
        with engine:
            script = AgentRunScript(conversation_id=name).ask("Which hotel?").answers("right")
            longer = script.ask("Which train?").answers("right too")
            feed(engine, speak_genai(script if ratio == 0.6 else longer))
            commands.evaluate(cases=CASES)
            assert ("pass", None, 0.6) == said(engine)[name]


def test_what_the_budget_refused_is_asked_again_although_the_ratio_fell(open_engine: OpenEngine, db: Path) -> None:
    engine = open_engine(db, judge={"max_calls": 10})
    engine.evaluating.judge = PlainJudge(judged)
    with engine:
        assert len(NAMES) - 10 == Commands(engine).evaluate(cases=CASES)["reasons"]["budget_exhausted"]
    engine, commands, judge = sampling(open_engine, db, ratio=0.1)
    with engine:
        commands.evaluate()
        assert (set(NAMES), len(NAMES) - 10) == (passed(engine), judge.asked.total())


def test_ratios_are_by_agent_and_the_first_that_fits_counts() -> None:
    settings = SamplingSettings(ratio=0.5, agents={"support-eu": 0.9, "support-*": 0.1})

    found = [ratio_of(settings, agent) for agent in ("support-eu", "support-us", "sales", None)]
    assert [0.9, 0.1, 0.5, 0.5] == found


def test_rates_of_strata_with_different_ratios_weigh_by_the_inverse(open_engine: OpenEngine, empty: Path) -> None:
    """Of a good agent a fifth is evaluated, of a bad one all: most conversations of their service are good."""
    engine, commands, _ = sampling(open_engine, empty, agents={"good": 0.2})
    good, bad = [f"good-{number}" for number in range(40)], [f"bad-{number}" for number in range(10)]
    feed(
        engine,
        *(told(name, agent="good") for name in good),
        *(told(name, agent="bad", answer="wrong") for name in bad),
    )
    commands.evaluate(cases=CASES)
    taken = len(inside(0.2, good))

    groups = commands.report(k=[1], estimator="plugin")["groups"]
    assert [("bad", 10, None), ("good", taken, 0.2)] == [
        (one["agent"], one["n"], one["sampling"] and one["sampling"]["highest_ratio"]) for one in groups
    ]
    sql = "SELECT sum((outcome = 'pass')::INT / sample_ratio), sum(1 / sample_ratio) FROM results WHERE reason <> 'sampled_out' OR reason IS NULL"
    sums = rows(engine, sql)
    assert [pytest.approx((5 * taken, 5 * taken + 10))] == sums


def test_a_ratio_that_changed_between_two_periods_is_weighed_within_one_group(
    open_engine: OpenEngine, empty: Path
) -> None:
    """All of the first day is evaluated and fails, a quarter of the second and passes: both days are of equal size."""
    first, second = [f"a{number}" for number in range(20)], [f"b{number}" for number in range(20)]
    for ratio, names, answer in ((1.0, first, "wrong"), (0.25, second, "right")):
        engine, commands, _ = sampling(open_engine, empty, ratio=ratio)
        with engine:
            start_s = 0 if answer == "wrong" else DAY_S
            feed(engine, *(told(name, answer=answer, start_s=start_s) for name in names))
            commands.evaluate(cases=CASES)
            (group,) = commands.report(k=[1], estimator="plugin")["groups"]

    taken = len(inside(0.25, second))
    rate = group["estimates"]["plugin"]["pass_at_k"]["1"]["value"]
    assert (20 + taken, taken) == (group["n"], group["c"])
    assert 4 * taken / (20 + 4 * taken) == pytest.approx(rate)
    assert {"lowest_ratio": 0.25, "highest_ratio": 1.0, "weighted": True} == group["sampling"]


def test_a_selection_raises_only_the_ratios_of_what_it_is_about(open_engine: OpenEngine, empty: Path) -> None:
    early, late = NAMES[:12], NAMES[12:]
    for ratio in (0.2, 0.8):
        engine, commands, _ = sampling(open_engine, empty, ratio=ratio)
        with engine:
            if ratio == 0.2:
                feed(engine, *(told(name) for name in early), *(told(name, start_s=DAY_S) for name in late))
            commands.evaluate(cases=CASES, since_ns=NOON_NS + DAY_S * SECOND_NS if ratio == 0.8 else None)
            found = said(engine)

    assert ({0.2}, {0.8}) == ({found[name][2] for name in early}, {found[name][2] for name in late})


def test_a_live_collector_samples_too(tmp_path: Path) -> None:
    settings = live_settings(tmp_path / "t.duckdb", sampling={"ratio": 0.4})
    sql = "SELECT outcome, sample_ratio, count(*) FROM conversation_scores WHERE NOT superseded GROUP BY ALL ORDER BY 1"
    names = NAMES[:10]
    taken = len(inside(0.4, names))
    with running(settings, cases=CASES) as (live, _):
        for name in names:
            live.accept(told(name))
        wanted = [["not_evaluated", 0.4, 10 - taken], ["fail", 0.4, taken]]
        eventually(lambda: [list(row) for row in ask(settings, "query", sql=sql)["rows"]], sorted(wanted))


@given(st.text(max_size=10), st.text(min_size=1, max_size=40))
def test_every_conversation_has_one_place_below_one(environment: str, name: str) -> None:
    place = position_of((environment, name))

    assert 0.0 <= place < 1.0
    assert place == position_of((environment, name))


def test_places_are_spread_evenly() -> None:
    places = sorted(position_of(("production", f"conversation {number}")) for number in range(5_000))
    furthest = max(abs(place - (number + 0.5) / 5_000) for number, place in enumerate(places))

    assert furthest < 1.95 / 5_000**0.5  # Kolmogorov's bound at .001
