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
from otel_agentic.evaluation.scope import position_of, ratio_of
from otel_agentic.judges import Question, Verdict
from otel_agentic.testing import NOON_NS, SECOND_NS, AgentRunScript, speak_genai
from tests.builders import feed, rows
from tests.judges.parts import PlainJudge
from tests.live.running_collector import ask, eventually, live_settings, running
from tests.stores import OpenEngine, settings_for

if TYPE_CHECKING:
    from otel_agentic.spans.model import SpanBatch

CASES = [("cases.jsonl", json.dumps({"case_id": "hotel", "turns": [{"query": "Which hotel?", "answer": "The Ritz."}]}))]
NAMES = [f"c{number:03}" for number in range(24)]
DAY_S = 86_400
SCORES = "SELECT conversation_id, outcome, reason, sample_ratio FROM conversation_scores WHERE NOT superseded"


def judge_answer(question: Question) -> Verdict:
    """Pass answers that begin with "right"."""
    return Verdict(score=float(question.answer.startswith("right")), reasoning="")


def talk(name: str, *, agent: str = "clerk", answer: str = "right", start_s: int = 0) -> SpanBatch:
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
        feed(engine, *(talk(name) for name in NAMES))
    return db


@pytest.fixture
def db(tmp_path: Path, fed_file: Path) -> Path:
    """A copy of that file."""
    return Path(shutil.copy(fed_file, tmp_path / "t.duckdb"))


def sampling(open_engine: OpenEngine, db: Path, **settings: Any) -> tuple[Engine, Commands, PlainJudge]:
    """Open an engine that samples, with a judge that counts its questions."""
    engine = open_engine(db, sampling=settings)
    judge = engine.runner.judge = PlainJudge(judge_answer)
    return engine, Commands(engine), judge


def inside(ratio: float, names: list[str] = NAMES) -> set[str]:
    """Return which conversations are in."""
    return {name for name in names if position_of(("", name)) < ratio}


def scores_of(engine: Engine) -> dict[str, tuple[str, str | None, float]]:
    """Return outcome, reason and recorded ratio of each conversation."""
    return {row[0]: row[1:] for row in rows(engine, SCORES)}


def passed(engine: Engine) -> set[str]:
    return {name for name, (outcome, _, _) in scores_of(engine).items() if outcome == "pass"}


def recorded(engine: Engine) -> set[float]:
    return {ratio for _, _, ratio in scores_of(engine).values()}


def test_a_conversation_outside_the_sample_is_not_evaluated_and_asks_no_judge(
    open_engine: OpenEngine, db: Path
) -> None:
    engine, commands, judge = sampling(open_engine, db, ratio=0.3)
    done = commands.evaluate(cases=CASES, metrics=["none"])

    sampled = inside(0.3)
    assert 0 < len(sampled) < len(NAMES)
    out = {name: ("not_evaluated", "sampled_out", 0.3) for name in NAMES if name not in sampled}
    assert dict.fromkeys(sampled, ("pass", None, 0.3)) | out == scores_of(engine)
    assert (len(sampled), len(sampled), {"sampled_out": len(out)}) == (
        judge.requests.total(),
        done["n"],
        done["reasons"],
    )
    assert [("hotel",)] == rows(engine, "SELECT DISTINCT case_id FROM matches")
    assert [(0,)] == rows(
        engine,
        "SELECT count(*) FROM turn_scores SEMI JOIN (SELECT * FROM results WHERE reason = 'sampled_out') USING (environment, conversation_id)",
    )


def test_running_again_changes_nothing(open_engine: OpenEngine, db: Path) -> None:
    engine, commands, judge = sampling(open_engine, db, ratio=0.3)
    commands.evaluate(cases=CASES, metrics=["none"])
    before = rows(engine, "SELECT * FROM conversation_scores ORDER BY ALL")
    requested = judge.requests.total()

    again = commands.evaluate(metrics=["none"])

    assert (0, 0, requested) == (again["scored"], again["asked_again"], judge.requests.total())
    assert before == rows(engine, "SELECT * FROM conversation_scores ORDER BY ALL")


def test_a_higher_ratio_only_adds_and_weighs_all_anew_and_a_lower_one_takes_nothing_out(
    open_engine: OpenEngine, db: Path
) -> None:
    result: list[tuple[set[str], set[float], set[str]]] = []
    for ratio in (0.2, 0.6, 0.4):
        engine, commands, judge = sampling(open_engine, db, ratio=ratio)
        with engine:
            commands.evaluate(cases=CASES, metrics=["none"])
            result.append((passed(engine), recorded(engine), set(judge.requests)))
            assert recorded(engine) == {ratio for (ratio,) in rows(engine, "SELECT DISTINCT sample_ratio FROM results")}

    (low, _, _), (high, _, newly), (lower, _, none) = result
    assert (inside(0.2), inside(0.6), inside(0.6)) == (low, high, lower)
    assert [{0.2}, {0.6}, {0.6}] == [ratios for _, ratios, _ in result]
    assert ({f"right: {name}" for name in high - low}, set()) == (newly, none)


def test_force_respects_the_sample_and_what_was_in_stays_in(open_engine: OpenEngine, db: Path) -> None:
    for ratio in (0.5, 0.1):
        engine, commands, _ = sampling(open_engine, db, ratio=ratio)
        with engine:
            done = commands.evaluate(cases=CASES, force=ratio < 0.5, metrics=["none"])
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
            commands.evaluate(cases=CASES, metrics=["none"])
            assert ("pass", None, 0.6) == scores_of(engine)[name]


def test_what_the_budget_refused_is_asked_again_although_the_ratio_fell(open_engine: OpenEngine, db: Path) -> None:
    engine = open_engine(db, judge={"max_calls": 10})
    engine.runner.judge = PlainJudge(judge_answer)
    with engine:
        assert (
            len(NAMES) - 10 == Commands(engine).evaluate(cases=CASES, metrics=["none"])["reasons"]["budget_exhausted"]
        )
    engine, commands, judge = sampling(open_engine, db, ratio=0.1)
    with engine:
        commands.evaluate(metrics=["none"])
        assert (set(NAMES), len(NAMES) - 10) == (passed(engine), judge.requests.total())


def test_ratios_are_by_agent_and_the_first_that_fits_counts() -> None:
    settings = SamplingSettings(ratio=0.5, agents={"support-eu": 0.9, "support-*": 0.1})

    result = [ratio_of(settings, agent) for agent in ("support-eu", "support-us", "sales", None)]
    assert [0.9, 0.1, 0.5, 0.5] == result


def test_rates_of_strata_with_different_ratios_weigh_by_the_inverse(open_engine: OpenEngine, empty: Path) -> None:
    """Of a good agent a fifth is evaluated, of a bad one all: most conversations of their service are good."""
    engine, commands, _ = sampling(open_engine, empty, agents={"good": 0.2})
    good, bad = [f"good-{number}" for number in range(40)], [f"bad-{number}" for number in range(10)]
    feed(
        engine,
        *(talk(name, agent="good") for name in good),
        *(talk(name, agent="bad", answer="wrong") for name in bad),
    )
    commands.evaluate(cases=CASES, metrics=["none"])
    sampled = len(inside(0.2, good))

    groups = commands.report(k=[1], estimator="plugin")["groups"]
    assert [("bad", 10, None), ("good", sampled, 0.2)] == [
        (group["agent"], group["n"], group["sampling"] and group["sampling"]["highest_ratio"]) for group in groups
    ]
    sql = "SELECT sum((outcome = 'pass')::INT / sample_ratio), sum(1 / sample_ratio) FROM results WHERE reason <> 'sampled_out' OR reason IS NULL"
    sums = rows(engine, sql)
    assert [pytest.approx((5 * sampled, 5 * sampled + 10))] == sums


def test_a_ratio_that_changed_between_two_periods_is_weighed_within_one_group(
    open_engine: OpenEngine, empty: Path
) -> None:
    """All of the first day is evaluated and fails, a quarter of the second and passes: both days are of equal size."""
    first, second = [f"a{number}" for number in range(20)], [f"b{number}" for number in range(20)]
    for ratio, names, answer in ((1.0, first, "wrong"), (0.25, second, "right")):
        engine, commands, _ = sampling(open_engine, empty, ratio=ratio)
        with engine:
            start_s = 0 if answer == "wrong" else DAY_S
            feed(engine, *(talk(name, answer=answer, start_s=start_s) for name in names))
            commands.evaluate(cases=CASES, metrics=["none"])
            (group,) = commands.report(k=[1], estimator="plugin")["groups"]

    sampled = len(inside(0.25, second))
    rate = group["estimates"]["plugin"]["pass_at_k"]["1"]["value"]
    assert (20 + sampled, sampled) == (group["n"], group["c"])
    assert 4 * sampled / (20 + 4 * sampled) == pytest.approx(rate)
    assert {"lowest_ratio": 0.25, "highest_ratio": 1.0, "weighted": True} == group["sampling"]


def test_a_selection_raises_only_the_ratios_of_what_it_is_about(open_engine: OpenEngine, empty: Path) -> None:
    early, late = NAMES[:12], NAMES[12:]
    for ratio in (0.2, 0.8):
        engine, commands, _ = sampling(open_engine, empty, ratio=ratio)
        with engine:
            if ratio == 0.2:
                feed(engine, *(talk(name) for name in early), *(talk(name, start_s=DAY_S) for name in late))
            commands.evaluate(
                cases=CASES, since_ns=NOON_NS + DAY_S * SECOND_NS if ratio == 0.8 else None, metrics=["none"]
            )
            result = scores_of(engine)

    assert ({0.2}, {0.8}) == ({result[name][2] for name in early}, {result[name][2] for name in late})


def test_a_live_collector_samples_too(tmp_path: Path) -> None:
    settings = live_settings(tmp_path / "t.duckdb", sampling={"ratio": 0.4})
    sql = "SELECT outcome, sample_ratio, count(*) FROM conversation_scores WHERE NOT superseded GROUP BY ALL ORDER BY 1"
    names = NAMES[:10]
    sampled = len(inside(0.4, names))
    with running(settings, cases=CASES) as (live, _):
        for name in names:
            live.accept(talk(name))
        expected = [["not_evaluated", 0.4, 10 - sampled], ["fail", 0.4, sampled]]
        eventually(lambda: [list(row) for row in ask(settings, "query", sql=sql)["rows"]], sorted(expected))


@given(st.text(max_size=10), st.text(min_size=1, max_size=40))
def test_every_conversation_has_one_place_below_one(environment: str, name: str) -> None:
    index = position_of((environment, name))

    assert 0.0 <= index < 1.0
    assert index == position_of((environment, name))


def test_places_are_spread_evenly() -> None:
    positions = sorted(position_of(("production", f"conversation {number}")) for number in range(5_000))
    furthest = max(abs(index - (number + 0.5) / 5_000) for number, index in enumerate(positions))

    assert furthest < 1.95 / 5_000**0.5  # Kolmogorov's bound at .001
