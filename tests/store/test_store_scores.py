"""Every score is stored once: it loads as it was saved, and the views show its fields."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_agentic.evaluators.base import MetricScore
from otel_agentic.scoring.model import ConversationScore, CriterionScore, ToolScore, TurnScore
from otel_agentic.scoring.scope import DIMENSIONS
from otel_agentic.store.queries.scores import stored_scores, with_faults
from otel_agentic.store.score_rows import score_types
from otel_agentic.store.scores import NewScores
from otel_agentic.store.table import Measured, Scored, parse_json
from otel_agentic.testing import NOON_NS, conversation
from otel_agentic.truth import Case
from tests.builders import save_revisions, save_scored, scored_as
from tests.store.store_queries import rows, value

if TYPE_CHECKING:
    from otel_agentic.scoring.scope import Outcome
    from otel_agentic.store import Store

TALK: Final = conversation(conversation_id="c", closed_by="end_mark")
CASE: Final = Case(case_id="hotel", dataset="shop")
OPEN: Final = ("judge_error", "judge_unsure", "content_not_captured")
SHARES: Final = st.none() | st.floats(0.0, 1.0)


def _part(failures: tuple[str, ...]) -> st.SearchStrategy[tuple[str, str | None]]:
    """Return pairs of outcome and reason."""
    return st.sampled_from(
        [("pass", None), *(("fail", reason) for reason in failures), *(("not_evaluated", reason) for reason in OPEN)]
    )


@st.composite
def turn_scores(draw: st.DrawFn, index: int) -> TurnScore:
    """Return a score of a turn."""
    (outcome, reason), (answer, answer_reason) = draw(_part(("tool_fault",))), draw(_part(("wrong_answer",)))
    return TurnScore(
        turn_index=index,
        case_turn_index=draw(st.none() | st.integers(0, 3)),
        outcome=outcome,  # type: ignore[arg-type]
        reason=reason,  # type: ignore[arg-type]
        answer_score=draw(SHARES),
        answer_outcome=answer,  # type: ignore[arg-type]
        tool_outcome=draw(st.sampled_from([None, "pass", "fail", "not_evaluated"])),
        explanation=draw(st.sampled_from(["", "It was so."])),
        answer_reason=answer_reason,  # type: ignore[arg-type]
    )


@st.composite
def tool_scores(draw: st.DrawFn, index: int | None) -> ToolScore:
    """Return a score of an expectation without faults."""
    outcome, reason = draw(_part(("tool_fault",)))
    dimensions = {name: draw(SHARES) for name in DIMENSIONS}
    return ToolScore(index, outcome, reason, draw(SHARES), dimensions, faults=())  # type: ignore[arg-type]


@st.composite
def conversation_scores(draw: st.DrawFn) -> ConversationScore:
    """Return a score of `TALK`."""
    (outcome, reason), (computed, computed_reason) = draw(_part(("verdict",))), draw(_part(("missing_turn",)))
    outcomes: st.SearchStrategy[Outcome] = st.sampled_from(["pass", "fail", "not_evaluated"])
    names = draw(st.lists(st.sampled_from(["answer", 'a.b[0]>=0.5 "x"', "tools"]), unique=True))
    return replace(
        scored_as(TALK, case=draw(st.sampled_from([None, CASE]))).score,
        outcome=outcome,  # type: ignore[arg-type]
        reason=reason,  # type: ignore[arg-type]
        outcome_source=draw(st.sampled_from(["computed", "labels"])),
        computed_outcome=computed,  # type: ignore[arg-type]
        computed_reason=computed_reason,  # type: ignore[arg-type]
        answer_outcome=draw(outcomes),
        tool_outcome=draw(outcomes),
        both_outcome=draw(outcomes),
        match_method=draw(st.sampled_from([None, "exact_queries"])),
        match_confidence=draw(SHARES),
        warning=draw(st.sampled_from([None, "the ground truth looks wrong"])),
        missing_outputs=draw(st.sampled_from([(), ("12 'EUR'", '"x"')])),
        explanation=draw(st.sampled_from(["", "It was so."])),
        partial=draw(st.booleans()),
        known_failure=draw(st.sampled_from([None, "tool_fault"])),
        pass_probability=draw(SHARES),
        criteria=tuple(CriterionScore(name, *draw(_part(("criterion",)))) for name in names),  # type: ignore[arg-type]
        turns=tuple(draw(turn_scores(index)) for index in range(draw(st.integers(0, 2)))),
        tools=tuple(draw(tool_scores(index)) for index in draw(st.sampled_from([(), (0, None), (1,)]))),
    )


def _views(store: Store) -> tuple[list[dict[str, Any]], ...]:
    """Return the rows of the views of core scores as records, sorted by turn."""
    result = []
    for view in ("conversation_scores", "turn_scores", "tool_scores"):
        names = [name for name, *_ in rows(store, f"DESCRIBE {view}")]
        sql = f"FROM {view} ORDER BY {'turn_index NULLS LAST' if 'turn_index' in names else 'ALL'}"
        result.append([dict(zip(names, row, strict=True)) for row in rows(store, sql)])
    return tuple(result)


@settings(
    max_examples=settings().max_examples // 2,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(conversation_scores())
def test_a_score_loads_as_it_was_saved_and_the_views_show_it(store: Store, score: ConversationScore) -> None:
    store.write(lambda con: [con.execute(f"DELETE FROM {name}") for name in ("conversations", "scores", "matches")])  # noqa: S608 — our own table names
    save_revisions(store, TALK)
    save_scored(store, replace(scored_as(TALK, case=CASE), score=score, sample_ratio=0.5))

    with store.read() as con:
        stored = stored_scores(con, "e", [TALK.key])[TALK.key]
    assert score == replace(stored, tools=score.tools)
    assert score == with_faults(stored, score)
    assert {tools.turn_index: tools for tools in score.tools} == {tools.turn_index: tools for tools in stored.tools}
    (outcome_score,), turns, tools = _views(store)
    for field in fields(ConversationScore):
        if field.name in outcome_score and field.name not in {"missing_outputs", "criteria"}:
            assert getattr(score, field.name) == outcome_score[field.name], field.name
    assert list(score.missing_outputs) == outcome_score["missing_outputs"]
    assert [list(criterion[:3]) for criterion in score.criteria] == parse_json(outcome_score["criteria"])
    assert (0.5, "default", False, None) == tuple(
        outcome_score[name] for name in ("sample_ratio", "evaluation", "superseded", "metrics_at")
    )
    for expected, row in zip(score.turns, turns, strict=True):
        assert {field.name: getattr(expected, field.name) for field in fields(TurnScore)}.items() <= row.items()
    for tool, row in zip(score.tools, tools, strict=True):
        columns = {"outcome": row["outcome"], "reason": row["reason"], "overall": row["overall"]}
        assert tool == tool._replace(dimensions={name: row[name] for name in DIMENSIONS}, **columns)
        assert (tool.explanation, None) == (row["explanation"], row["evidence"])


#: The evaluator that has scored the conversation before.
RESTATED = {(*TALK.key, "length")}


def _scored(evaluation_id: str, version: str, *, revision: int = 1) -> Scored:
    """Return a score of a revision, with the score of an evaluator."""

    class Length:
        name, metrics, needs = "length", (), ()

    Length.version = version  # type: ignore[attr-defined]
    talk = replace(TALK, revision=revision)
    score = MetricScore(name="length.characters", value=3.0)
    measured = Measured(
        conversation=talk, case_id=None, evaluator=Length, evaluation_id=evaluation_id, scores=(score,)  # type: ignore[arg-type]
    )  # fmt: skip
    return replace(scored_as(talk, case=CASE), metrics=(measured,))


def _current(store: Store) -> list[tuple[str, str, int]]:
    return rows(
        store, "SELECT DISTINCT evaluator, evaluation_id, revision FROM scores WHERE NOT superseded ORDER BY ALL"
    )


def test_one_statement_supersedes_core_scores_and_those_of_evaluators(store: Store) -> None:
    save_revisions(store, TALK, replace(TALK, revision=2))
    store.write(lambda con: NewScores.of(score_types(con), "core1", [_scored("m1", "1")], NOON_NS).save(con))
    assert [("core", "core1", 1), ("length", "m1", 1)] == _current(store)

    # Another truth: the core scores are superseded; those of the evaluator stay until it runs again.
    store.write(
        lambda con: NewScores.of(score_types(con), "core2", [replace(_scored("m1", "1"), metrics=())], NOON_NS).save(
            con
        )
    )
    assert [("core", "core2", 1), ("length", "m1", 1)] == _current(store)

    scored = [_scored("m2", "2")]
    store.write(
        lambda con: NewScores.of(score_types(con), "core2", scored, NOON_NS + 1, core=False).save(con, RESTATED)
    )
    assert [("core", "core2", 1), ("length", "m2", 1)] == _current(store)
    noted = "SELECT epoch_ns(metrics_at) FROM conversation_scores WHERE NOT superseded"
    assert NOON_NS + 1 == value(store, noted)

    # A new revision supersedes the scores of evaluators that do not run on it.
    scored = [replace(_scored("m2", "2", revision=2), metrics=())]
    store.write(lambda con: NewScores.of(score_types(con), "core2", scored, NOON_NS).save(con))
    assert [("core", "core2", 2)] == _current(store)
    assert 3 == value(store, "SELECT count(*) FROM conversation_scores")


def test_the_same_evaluation_of_the_same_revision_replaces_its_rows(store: Store) -> None:
    save_revisions(store, TALK)
    store.write(lambda con: NewScores.of(score_types(con), "core1", [_scored("m1", "1")], NOON_NS).save(con))
    before = rows(store, "SELECT * EXCLUDE (scored_at, metrics_at) FROM scores ORDER BY ALL")

    scored = [_scored("m1", "1")]
    store.write(lambda con: NewScores.of(score_types(con), "core1", scored, NOON_NS + 1).save(con, RESTATED))

    assert before == rows(store, "SELECT * EXCLUDE (scored_at, metrics_at) FROM scores ORDER BY ALL")
    assert 1 == value(store, "SELECT count(*) FROM matches")
    assert NOON_NS + 1 == value(store, "SELECT epoch_ns(min(scored_at)) FROM scores")
