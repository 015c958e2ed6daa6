from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic import scoring
from otel_agentic.config import JudgeSettings, ScoringSettings
from otel_agentic.conversations.model import ClosedBy, Conversation, ConversationId, LinkMethod, ToolCall, Turn
from otel_agentic.judges import ExactJudge, JudgeFailure, Question, Verdict
from otel_agentic.scoring import (
    ConversationScore,
    MatchedConversation,
    ToolScore,
    TurnScore,
    score_conversation,
    score_conversations,
)
from otel_agentic.scoring.model import evaluator_version, truth_version
from otel_agentic.scoring.outcome import BATCH, align_turns
from otel_agentic.truth import CaseIndex, Label, Match, parse_cases
from tests.snapshots import opening


def call(name: str, **fields: Any) -> ToolCall:
    actual = ToolCall(
        name=name,
        kind="tool",
        step=1,
        position=0,
        arguments={},
        result="done",
        result_captured=True,
        error=None,
        call_id=None,
        trace_id="t",
        span_id="s",
        parent_span_id=None,
        agent_name=None,
        source="span",
    )
    return replace(actual, **fields)


def turn(query: str | None, answer: str | None, *calls: ToolCall, captured: bool = True) -> Turn:
    return Turn(
        index=0,
        query=query,
        query_captured=captured,
        answer=answer,
        answer_captured=captured,
        error=None,
        calls=calls,
        trace_id="t",
        span_id="s",
        started_ns=0,
        ended_ns=1,
    )


def conversation(
    *turns: Turn, closed_by: ClosedBy | None = "end_of_input", verdict: bool | None = None
) -> Conversation:
    return Conversation(
        environment="production",
        conversation_id=ConversationId("c1"),
        revision=1,
        agent_name="mesa",
        agent_version=None,
        service=None,
        started_ns=0,
        ended_ns=1,
        closed_by=closed_by,
        link_method="explicit",
        case_id="x",
        verdict=verdict,
        turns=tuple(replace(item, index=position) for position, item in enumerate(turns)),
    )


def index_of(*turns: dict[str, Any], **fields: Any) -> CaseIndex:
    return CaseIndex(parse_cases("d.jsonl", json.dumps({"case_id": "x", "turns": turns, **fields})).require())


def scored(
    index: CaseIndex, actual: Conversation, *, verdict: bool | None = None, judge: Any = None, **rules: Any
) -> ConversationScore:
    label = None if verdict is None else Label(conversation_id="c1", case_id=None, verdict=verdict, line=2)
    return score_conversation(
        actual, index.match(actual, label), label, judge=judge or ExactJudge(), settings=ScoringSettings(**rules)
    )


def derived(method: LinkMethod, *turns: Turn, closed_by: ClosedBy = "end_of_input") -> Conversation:
    return replace(conversation(*turns, closed_by=closed_by), link_method=method)


PARIS = {"query": "Capital of France?", "answer": "Paris"}
ROME = {"query": "Capital of Italy?", "answer": "Rome"}
SAY_PARIS = turn("Capital of France?", "It is Paris.")
SAY_ROME = turn("Capital of Italy?", "It is Rome.")
SAY_OSLO = turn("Capital of Italy?", "It is Oslo.")
BOOK = {"tools": {"calls": [{"tool_name": "book"}]}}


def test_a_conversation_passes_when_every_needed_part_passed() -> None:
    result = scored(index_of(PARIS, ROME), conversation(SAY_PARIS, SAY_ROME))
    assert (result.outcome, result.reason, result.outcome_source, result.match_method) == (
        "pass",
        None,
        "computed",
        "case_id",
    )
    assert [(item.case_turn_index, item.outcome) for item in result.turns] == [(0, "pass"), (1, "pass")]
    assert [item.answer_score for item in result.turns] == pytest.approx([1.0, 1.0], abs=0.01)


@pytest.mark.parametrize(
    ("index", "actual", "reason"),
    [
        (index_of(PARIS, ROME), conversation(SAY_PARIS, SAY_OSLO), "wrong_answer"),
        (index_of(PARIS), conversation(turn("Capital of France?", None)), "wrong_answer"),
        (index_of({**PARIS, "not_answer": "Oslo"}), conversation(turn("x", "Paris, not Oslo")), "forbidden_answer"),
        (index_of(BOOK), conversation(turn("x", "done")), "tool_fault"),
        (index_of(tools=BOOK["tools"]), conversation(turn("x", "done")), "tool_fault"),
        (index_of(PARIS, ROME), conversation(SAY_PARIS, closed_by="end_mark"), "missing_turn"),
        (index_of(outputs=["327"]), conversation(turn("x", "It costs $328.")), "output_not_said"),
    ],
)
def test_one_failing_part_settles_a_fail(index: CaseIndex, actual: Conversation, reason: str) -> None:
    result = scored(index, actual)
    assert (result.outcome, result.reason, result.computed_reason) == ("fail", reason, reason)
    assert result.explanation


NOT_SEEN = turn(None, None, captured=False)


@pytest.mark.parametrize(
    ("index", "actual", "reason"),
    [
        (index_of(PARIS), conversation(), "empty"),
        (index_of(), conversation(SAY_PARIS), "no_data"),
        (index_of({"query": "Hi"}), conversation(turn("Hi", "Hello")), "no_data"),
        (index_of(PARIS, ROME), conversation(SAY_PARIS, closed_by="idle"), "incomplete"),
        (index_of(PARIS, ROME), conversation(SAY_PARIS, closed_by=None), "incomplete"),
        (index_of(PARIS, ROME), conversation(SAY_PARIS, closed_by="end_of_input"), "incomplete"),
        (index_of(PARIS, ROME, outputs=["9"], tools=BOOK["tools"]), conversation(SAY_PARIS), "incomplete"),
        (index_of(PARIS, ROME), derived("trace", SAY_PARIS), "no_conversation_id"),
        (index_of(PARIS, ROME), derived("history", SAY_ROME, closed_by="idle"), "no_conversation_id"),
        (index_of(PARIS), conversation(NOT_SEEN), "content_not_captured"),
        (index_of(tools=BOOK["tools"]), conversation(NOT_SEEN), "content_not_captured"),
        (index_of(outputs=["327"]), conversation(NOT_SEEN), "content_not_captured"),
        (index_of(BOOK), conversation(turn("x", "y", call("book", arguments=None))), "content_not_captured"),
        (index_of(PARIS, agent="other"), conversation(turn("Hi", "x")), "unmatched"),
        (index_of(PARIS, reviewed=False), conversation(SAY_PARIS), "unreviewed"),
        (index_of(PARIS, reviewed=False), conversation(SAY_OSLO), "unreviewed"),
    ],
)
def test_an_undecidable_conversation_is_not_evaluated_with_its_reason(
    index: CaseIndex, actual: Conversation, reason: str
) -> None:
    result = scored(index, actual)
    assert (result.outcome, result.reason, result.outcome_source) == ("not_evaluated", reason, "computed")
    assert (result.answer_outcome, result.tool_outcome, result.both_outcome) == ("not_evaluated",) * 3


def test_an_ambiguous_conversation_tells_its_candidates() -> None:
    match = Match(case=None, method=None, confidence=None, candidates=("a", "b"), warning=None, reason="ambiguous")
    result = score_conversation(conversation(SAY_PARIS), match, judge=ExactJudge(), settings=ScoringSettings())
    assert (result.reason, result.explanation) == ("ambiguous", "fits a, b equally")
    assert [item.reason for item in result.turns] == ["ambiguous"]


SAY_NOTHING = turn("Capital of Spain?", None)


@pytest.mark.parametrize(
    ("cases", "turns", "named", "reason"),
    [
        ([{"case_id": "a", "turns": [PARIS]}], [NOT_SEEN], None, "content_not_captured"),
        ([{"case_id": "a", "turns": [PARIS]}], [NOT_SEEN, SAY_PARIS], None, "content_not_captured"),
        ([{"case_id": "a", "turns": [PARIS]}], [NOT_SEEN], "b", "unmatched"),
        ([{"case_id": "a", "turns": [PARIS]}], [SAY_NOTHING], None, "unmatched"),
        ([{"case_id": "a", "turns": [PARIS]}], [SAY_NOTHING, NOT_SEEN], None, "unmatched"),
        ([{"case_id": x, "turns": [PARIS, ROME]} for x in "ab"], [SAY_PARIS, NOT_SEEN], None, "content_not_captured"),
        ([{"case_id": x, "turns": [PARIS, ROME]} for x in "ab"], [SAY_PARIS, SAY_ROME], None, "ambiguous"),
    ],
)
def test_without_the_queries_that_would_find_a_case_the_content_is_what_is_missing(
    cases: list[dict[str, Any]], turns: list[Turn], named: str | None, reason: str
) -> None:
    index = CaseIndex(parse_cases("d.jsonl", "\n".join(map(json.dumps, cases))).require())
    actual = replace(conversation(*turns), case_id=named)
    assert reason == scored(index, actual).reason


def test_a_turn_that_an_end_mark_proves_missing_fails_without_a_conversation_id_too() -> None:
    actual = replace(derived("trace", SAY_PARIS), closed_by="end_mark")
    assert "missing_turn" == scored(index_of(PARIS, ROME), actual).reason
    assert "missing_turn" == scored(index_of(PARIS, ROME), derived("trace", SAY_PARIS), strict_turns=True).reason


def test_a_conversation_that_fails_by_its_content_fails_even_if_parts_are_missing() -> None:
    result = scored(index_of(PARIS, ROME), derived("trace", turn("Capital of France?", "It is Oslo.")))
    assert (result.outcome, result.reason, result.partial) == ("fail", "wrong_answer", True)


def test_a_known_failing_part_outweighs_one_that_could_not_be_evaluated() -> None:
    result = scored(index_of(PARIS, ROME), conversation(turn("Capital of France?", None, captured=False), SAY_OSLO))
    assert (result.outcome, result.reason) == ("fail", "wrong_answer")
    unknown = scored(index_of(PARIS, ROME), conversation(turn("Capital of France?", None, captured=False), SAY_ROME))
    assert (unknown.outcome, unknown.reason) == ("not_evaluated", "content_not_captured")


def test_a_draft_keeps_its_rows_and_has_no_outcome() -> None:
    result = scored(index_of({**PARIS, **BOOK}, reviewed=False), conversation(SAY_PARIS))
    assert (result.reason, result.explanation) == snapshot(
        ("unreviewed", "case 'x' is a draft that has not been reviewed")
    )
    assert [item.answer_outcome for item in result.turns] == ["pass"]
    assert [item.answer_score for item in result.turns] == pytest.approx([1.0], abs=0.01)
    assert ["missing"] == [fault.kind for tools in result.tools for fault in tools.faults]


UNSEEN = turn("Capital of France?", None, captured=False)


@pytest.mark.parametrize(
    ("index", "actual", "settings", "partial"),
    [
        (index_of(PARIS, ROME), conversation(UNSEEN, SAY_OSLO), {}, True),
        (index_of(PARIS, ROME), conversation(turn("Capital of France?", "Oslo"), closed_by="idle"), {}, True),
        (index_of(PARIS, ROME), conversation(SAY_PARIS, SAY_OSLO), {}, False),
        (index_of(PARIS, ROME), conversation(UNSEEN, SAY_ROME), {}, False),
        (index_of(PARIS, ROME), conversation(UNSEEN, SAY_OSLO), {"verdict": False}, False),
        (index_of({**PARIS, **BOOK}), conversation(UNSEEN), {"criteria": ["tools"]}, False),
        (index_of({**PARIS, **BOOK}, ROME), conversation(UNSEEN, SAY_OSLO), {"criteria": ["annotated"]}, True),
    ],
)
def test_a_fail_with_parts_that_could_not_be_evaluated_is_partial(
    index: CaseIndex, actual: Conversation, settings: dict[str, Any], *, partial: bool
) -> None:
    assert scored(index, actual, **settings).partial == partial


def test_a_turn_states_why_its_answer_is_no_pass_even_if_another_part_decides() -> None:
    index = index_of({**PARIS, **BOOK}, ROME, {"query": "Thanks"})
    actual = conversation(UNSEEN, SAY_OSLO, turn("Thanks", "Bye"))
    result = scored(index, actual, criteria=("tools",))
    assert ["content_not_captured", "wrong_answer", "no_data"] == [item.answer_reason for item in result.turns]
    assert [None] == [item.answer_reason for item in scored(index_of(PARIS), conversation(SAY_PARIS)).turns]


def test_strict_turns_fail_missing_and_extra_turns() -> None:
    assert scored(index_of(PARIS), conversation(SAY_PARIS, SAY_ROME)).outcome == "pass"
    assert scored(index_of(PARIS), conversation(SAY_PARIS, SAY_ROME), strict_turns=True).reason == "extra_turn"
    quiet = conversation(SAY_PARIS, closed_by="idle")
    assert scored(index_of(PARIS, ROME), quiet, strict_turns=True).reason == "missing_turn"


def test_in_an_incomplete_conversation_what_is_missing_may_yet_come_and_what_is_wrong_stays_wrong() -> None:
    index = index_of(PARIS, ROME, tools=BOOK["tools"], outputs=["9"])
    assert scored(index, conversation(SAY_PARIS, closed_by="idle")).reason == "incomplete"
    extra = turn("Capital of France?", "Paris", call("drop"))
    assert scored(index, conversation(extra, closed_by="idle")).reason == "tool_fault"


DROPPED = turn("Capital of France?", "Paris", call("drop"))


@pytest.mark.parametrize(
    ("tools", "threshold", "reason"),
    [
        ({"calls": [{"tool_name": "book"}]}, 1.0, "tool_fault"),
        ({"calls": [{"tool_name": "book"}]}, 0.5, "incomplete"),
        ({"calls": [{"tool_name": "book"}], "extra_calls": "forbid"}, 0.1, "tool_fault"),
        ({"calls": [{"tool_name": "book"}], "forbidden": ["drop"]}, 0.1, "tool_fault"),
        ({"calls": [{"tool_name": "book"}], "alternatives": [{"calls": [{"tool_name": "drop"}]}]}, 1.0, "incomplete"),
        ({"calls": [{"tool_name": "drop", "parameters": {"x": 1}}, {"tool_name": "drop"}]}, 1.0, "incomplete"),
    ],
)
def test_a_conversation_that_went_quiet_fails_only_by_what_no_further_call_could_mend(
    tools: dict[str, Any], threshold: float, reason: str
) -> None:
    index = index_of(PARIS, ROME, tools=tools, tool_threshold=threshold)
    assert reason == scored(index, conversation(DROPPED, closed_by="idle")).reason


MIXED = index_of({**PARIS, **BOOK}, {"query": "Book it", **BOOK})
BOOKED = turn("Book it", "done", call("book"))


@pytest.mark.parametrize(
    ("first", "outcomes"),
    [
        (turn("Capital of France?", "Paris", call("book")), ("pass", "pass", "pass")),
        (turn("Capital of France?", "Paris"), ("pass", "fail", "fail")),
        (turn("Capital of France?", "Oslo", call("book")), ("fail", "pass", "fail")),
    ],
)
def test_answers_and_tools_are_scored_and_the_criteria_choose(first: Turn, outcomes: tuple[str, str, str]) -> None:
    actual = conversation(first, BOOKED)
    for index, criterion in enumerate(("answer", "tools", "annotated")):
        result = scored(MIXED, actual, criteria=(criterion,))
        assert (result.answer_outcome, result.tool_outcome, result.both_outcome) == outcomes
        assert result.outcome == outcomes[index]
        assert result.turns[0].outcome == outcomes[index]


def test_calls_and_outputs_of_the_whole_conversation_decide_unless_other_criteria_are_named() -> None:
    index = index_of(PARIS, tools=BOOK["tools"])
    result = scored(index, conversation(SAY_PARIS))
    assert (result.answer_outcome, result.tool_outcome, result.both_outcome) == ("pass", "fail", "fail")
    assert (result.outcome, [item[:2] for item in result.criteria]) == ("fail", [("answer", "pass"), ("tools", "fail")])
    assert scored(index, conversation(SAY_PARIS), criteria=("answer",)).outcome == "pass"
    stated = scored(
        index_of(outputs=["23,553", 4, "Blue Room"]), conversation(turn("x", "$23553 for the blue  room, 4 days"))
    )
    assert (stated.outcome, stated.missing_outputs) == ("pass", ())


def test_a_given_verdict_sets_the_outcome_labels_before_case_before_event() -> None:
    good = conversation(SAY_PARIS, verdict=False)
    assert scored(index_of(PARIS), good).outcome_source == "computed"
    event = scored(index_of(PARIS), good, trust_verdict_events=True)
    assert (event.outcome, event.reason, event.outcome_source, event.computed_outcome) == (
        "fail",
        "verdict",
        "event",
        "pass",
    )
    of_case = scored(index_of(PARIS, verdict=1.0), good, trust_verdict_events=True)
    assert (of_case.outcome, of_case.outcome_source) == ("pass", "case")
    of_label = scored(index_of(PARIS, verdict=1.0), good, verdict=False)
    assert (of_label.outcome, of_label.outcome_source) == ("fail", "labels")
    assert opening(of_label.explanation) == snapshot("verdict of labels: fail; computed: pass")


def test_a_label_decides_even_a_conversation_that_matches_no_case() -> None:
    result = scored(index_of(PARIS, agent="other"), conversation(turn("Hi", "x")), verdict=True)
    assert (result.outcome, result.outcome_source, result.case_id) == ("pass", "labels", None)
    assert (result.computed_outcome, result.computed_reason) == ("not_evaluated", "unmatched")


@pytest.mark.parametrize("verdict", [True, False])
def test_rows_and_faults_are_present_under_any_annotated_verdict(*, verdict: bool) -> None:
    result = scored(index_of({**PARIS, **BOOK}), conversation(SAY_OSLO), verdict=verdict, criteria=("annotated",))
    assert ("fail", "wrong_answer") == (result.computed_outcome, result.computed_reason)
    assert ["missing"] == [fault.kind for tools in result.tools for fault in tools.faults]


def test_a_mean_that_misses_the_threshold_by_rounding_reaches_it() -> None:
    third = (0.7 + 0.7 + 0.7) / 3
    assert third < 0.7
    assert scored(index_of(PARIS), conversation(SAY_PARIS), judge=Scripted([third])).outcome == "pass"


def test_a_case_sets_its_own_thresholds_and_a_score_at_the_threshold_passes() -> None:
    judge = Scripted([0.5])
    assert scored(index_of(PARIS, answer_threshold=0.5), conversation(SAY_PARIS), judge=judge).outcome == "pass"
    assert scored(index_of(PARIS), conversation(SAY_PARIS), judge=Scripted([0.69])).outcome == "fail"
    assert judge.question[0].threshold == 0.5


class Scripted:
    """A judge that returns scripted scores."""

    name = "scripted"
    version = "1"

    def __init__(self, scores: Sequence[float]) -> None:
        self.scores = list(scores)
        self.question: list[Question] = []
        self.calls = 0

    @classmethod
    def from_settings(cls, settings: JudgeSettings, argument: str | None = None) -> Scripted:
        return cls([settings.vote_band if argument is None else 1.0])

    def judge(self, questions: Sequence[Question]) -> list[Verdict | JudgeFailure]:
        self.calls += 1
        self.question += questions
        return [Verdict(score=self.scores.pop(0), reasoning="told") for _ in questions if self.scores]


class Raising(Scripted):
    def judge(self, questions: Sequence[Question]) -> list[Verdict | JudgeFailure]:
        raise TimeoutError(f"{len(questions)} questions")


class Strange(Scripted):
    """A judge that returns the objects it was recorded with."""

    def __init__(self, what: Any) -> None:
        super().__init__([])
        self.what = what

    def judge(self, questions: Sequence[Question]) -> list[Verdict | JudgeFailure]:
        return [self.what for _ in questions]


class Nothing(Scripted):
    def judge(self, questions: Sequence[Question]) -> list[Verdict | JudgeFailure]:
        return None if questions else []  # type: ignore[return-value]


class Refusing(Scripted):
    def judge(self, questions: Sequence[Question]) -> list[Verdict | JudgeFailure]:
        return [JudgeFailure(reason="budget_exhausted", message="over budget") for _ in questions]


@pytest.mark.parametrize(
    ("judge", "reason", "message"),
    [
        (Scripted([float("nan")]), "judge_error", "judge scripted gave score nan; allowed: 0 to 1"),
        (Scripted([1e9]), "judge_error", "judge scripted gave score 1000000000.0; allowed: 0 to 1"),
        (Scripted([]), "judge_error", "judge scripted gave 0 verdicts for 1 questions"),
        (Raising([]), "judge_error", "judge scripted raised TimeoutError: 1 questions"),
        (Refusing([]), "budget_exhausted", "over budget"),
        (Strange("good"), "judge_error", "judge scripted gave str; allowed: Verdict, JudgeFailure"),
        (Strange(None), "judge_error", "judge scripted gave NoneType; allowed: Verdict, JudgeFailure"),
        (Strange(Verdict(score="1", reasoning="")), "judge_error", "judge scripted gave score '1'; allowed: 0 to 1"),  # type: ignore[arg-type]
        (Nothing([]), "judge_error", "judge scripted raised TypeError: 'NoneType' object is not iterable"),
    ],
)
def test_a_failure_of_the_judge_is_never_one_of_the_agent(judge: Any, reason: str, message: str) -> None:
    result = scored(index_of(PARIS), conversation(SAY_PARIS), judge=judge)
    assert (result.outcome, result.reason) == ("not_evaluated", reason)
    assert result.explanation == f"answer of turn 1: {message}"


def test_the_judge_is_asked_in_batches_and_each_conversation_gets_its_own_verdicts() -> None:
    index = index_of(PARIS)
    count = BATCH + 2
    judge = Scripted([position % 2 for position in range(count)])
    talks = [conversation(turn("Capital of France?", f"Paris {number}")) for number in range(count)]
    matched = [MatchedConversation(conversation=actual, match=index.match(actual)) for actual in talks]
    result = score_conversations(matched, judge=judge, settings=ScoringSettings())
    assert [item.outcome for item in result] == ["fail", "pass"] * (count // 2)
    assert judge.calls == 2


@pytest.mark.parametrize(
    ("expected", "actual", "pairs"),
    [
        (["a b", "c d"], ["a b", "c d"], {0: 0, 1: 1}),
        (["a b", "c d"], ["c d"], {0: 1}),
        (["a b", "c d", "e f"], ["a b", "e f"], {0: 0, 1: 2}),
        (["c d"], ["a b", "c d", "e f"], {1: 0}),
        (["a b", "a b"], ["a b"], {0: 0}),
        ([None, "c d"], [None, None, "c d"], {0: 0, 2: 1}),
        ([], ["a"], {}),
    ],
)
def test_turns_are_aligned_in_order_by_their_queries(
    expected: list[str | None], actual: list[str | None], pairs: dict[int, int]
) -> None:
    assert align_turns(expected, actual) == pairs


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
TEXT = st.none() | st.text(max_size=12) | st.sampled_from(["Paris", "$327", "Capital of France?", "\ud800", "\x00"])
CALLS = st.builds(
    call,
    st.sampled_from(["book", "drop", ""]),
    arguments=st.none() | st.dictionaries(st.text(max_size=3), JSON, max_size=2),
    result=JSON,
    result_captured=st.booleans(),
    error=TEXT,
    kind=st.sampled_from(["tool", "transfer", "agent"]),
    step=st.integers(0, 3),
    position=st.integers(0, 3),
)
TURNS = st.builds(turn, TEXT, TEXT, CALLS, CALLS, captured=st.booleans())
EVERYTHING = index_of(
    {**PARIS, "not_answer": "Oslo", "tools": {"calls": [{"tool_name": "book"}], "order": "relative"}},
    {**BOOK, "query": "Book it"},
    tools={"calls": [{"tool_name": "book", "parameters": {"a": 1}}], "forbidden": ["dr*"], "extra_calls": "allow"},
    outputs=["327", 4, "Paris"],
)


@given(
    st.lists(TURNS, max_size=3),
    st.sampled_from(["end_mark", "end_of_input", "idle", None]),
    st.sampled_from(["answer", "tools", "outputs", "state", "annotated", "selection"]),
)
def test_no_conversation_raises_and_every_outcome_has_its_reason(
    turns: list[Turn], closed_by: ClosedBy | None, criterion: str
) -> None:
    result = scored(EVERYTHING, conversation(*turns, closed_by=closed_by), criteria=(criterion,))
    assert (result.outcome == "pass") == (result.reason is None)
    rows: list[TurnScore | ToolScore] = [*result.turns, *result.tools]
    for row in rows:
        assert (row.outcome == "pass") == (row.reason is None)
        assert row.explanation


def test_the_evaluator_version_changes_with_judge_settings_and_truth_only() -> None:
    cases = list(index_of(PARIS))
    truth = truth_version(cases)
    plain = evaluator_version(ExactJudge(), ScoringSettings(), truth)
    assert plain == evaluator_version(ExactJudge(), ScoringSettings(), truth_version(reversed(cases)))
    others = {
        evaluator_version(Scripted([]), ScoringSettings(), truth),
        evaluator_version(ExactJudge(), ScoringSettings(answer_threshold=0.8), truth),
        evaluator_version(ExactJudge(), ScoringSettings(), truth_version(index_of(ROME))),
    }
    assert len(others | {plain}) == 4


def test_the_public_names_of_scoring_are_there() -> None:
    assert all(hasattr(scoring, name) for name in scoring.__all__)
