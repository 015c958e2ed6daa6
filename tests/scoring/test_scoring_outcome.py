from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
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

if TYPE_CHECKING:
    from collections.abc import Sequence


def call(name: str, **fields: Any) -> ToolCall:
    made = ToolCall(
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
    return replace(made, **fields)


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
        turns=tuple(replace(one, index=place) for place, one in enumerate(turns)),
    )


def index_of(*turns: dict[str, Any], **fields: Any) -> CaseIndex:
    return CaseIndex(parse_cases("d.jsonl", json.dumps({"case_id": "x", "turns": turns, **fields})).require())


def scored(
    index: CaseIndex, made: Conversation, *, verdict: bool | None = None, judge: Any = None, **rules: Any
) -> ConversationScore:
    label = None if verdict is None else Label(conversation_id="c1", case_id=None, verdict=verdict, line=2)
    return score_conversation(
        made, index.match(made, label), label, judge=judge or ExactJudge(), settings=ScoringSettings(**rules)
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
    found = scored(index_of(PARIS, ROME), conversation(SAY_PARIS, SAY_ROME))
    assert (found.outcome, found.reason, found.outcome_source, found.match_method) == (
        "pass",
        None,
        "computed",
        "case_id",
    )
    assert [(one.case_turn_index, one.outcome) for one in found.turns] == [(0, "pass"), (1, "pass")]
    assert [one.answer_score for one in found.turns] == pytest.approx([1.0, 1.0], abs=0.01)


@pytest.mark.parametrize(
    ("index", "made", "reason"),
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
def test_one_failing_part_settles_a_fail(index: CaseIndex, made: Conversation, reason: str) -> None:
    found = scored(index, made)
    assert (found.outcome, found.reason, found.computed_reason) == ("fail", reason, reason)
    assert found.explanation


NOT_SEEN = turn(None, None, captured=False)


@pytest.mark.parametrize(
    ("index", "made", "reason"),
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
def test_what_cannot_be_told_is_not_evaluated_with_its_reason(
    index: CaseIndex, made: Conversation, reason: str
) -> None:
    found = scored(index, made)
    assert (found.outcome, found.reason, found.outcome_source) == ("not_evaluated", reason, "computed")
    assert (found.answer_outcome, found.tool_outcome, found.both_outcome) == ("not_evaluated",) * 3


def test_an_ambiguous_conversation_tells_its_candidates() -> None:
    match = Match(case=None, method=None, confidence=None, candidates=("a", "b"), warning=None, reason="ambiguous")
    found = score_conversation(conversation(SAY_PARIS), match, judge=ExactJudge(), settings=ScoringSettings())
    assert (found.reason, found.explanation) == ("ambiguous", "fits a, b equally")
    assert [one.reason for one in found.turns] == ["ambiguous"]


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
    made = replace(conversation(*turns), case_id=named)
    assert reason == scored(index, made).reason


def test_a_turn_that_an_end_mark_proves_missing_fails_without_a_conversation_id_too() -> None:
    made = replace(derived("trace", SAY_PARIS), closed_by="end_mark")
    assert "missing_turn" == scored(index_of(PARIS, ROME), made).reason
    assert "missing_turn" == scored(index_of(PARIS, ROME), derived("trace", SAY_PARIS), strict_turns=True).reason


def test_a_conversation_that_fails_by_what_it_holds_fails_whatever_is_missing() -> None:
    found = scored(index_of(PARIS, ROME), derived("trace", turn("Capital of France?", "It is Oslo.")))
    assert (found.outcome, found.reason, found.partial) == ("fail", "wrong_answer", True)


def test_a_known_failing_part_outweighs_one_that_could_not_be_evaluated() -> None:
    found = scored(index_of(PARIS, ROME), conversation(turn("Capital of France?", None, captured=False), SAY_OSLO))
    assert (found.outcome, found.reason) == ("fail", "wrong_answer")
    unknown = scored(index_of(PARIS, ROME), conversation(turn("Capital of France?", None, captured=False), SAY_ROME))
    assert (unknown.outcome, unknown.reason) == ("not_evaluated", "content_not_captured")


def test_a_draft_keeps_its_rows_and_has_no_outcome() -> None:
    found = scored(index_of({**PARIS, **BOOK}, reviewed=False), conversation(SAY_PARIS))
    assert (found.reason, found.explanation) == snapshot(
        ("unreviewed", "case 'x' is a draft that has not been reviewed")
    )
    assert [one.answer_outcome for one in found.turns] == ["pass"]
    assert [one.answer_score for one in found.turns] == pytest.approx([1.0], abs=0.01)
    assert ["missing"] == [fault.kind for tools in found.tools for fault in tools.faults]


UNSEEN = turn("Capital of France?", None, captured=False)


@pytest.mark.parametrize(
    ("index", "made", "settings", "partial"),
    [
        (index_of(PARIS, ROME), conversation(UNSEEN, SAY_OSLO), {}, True),
        (index_of(PARIS, ROME), conversation(turn("Capital of France?", "Oslo"), closed_by="idle"), {}, True),
        (index_of(PARIS, ROME), conversation(SAY_PARIS, SAY_OSLO), {}, False),
        (index_of(PARIS, ROME), conversation(UNSEEN, SAY_ROME), {}, False),
        (index_of(PARIS, ROME), conversation(UNSEEN, SAY_OSLO), {"verdict": False}, False),
        (index_of({**PARIS, **BOOK}), conversation(UNSEEN), {"turn_rule": "tools"}, False),
        (index_of({**PARIS, **BOOK}, ROME), conversation(UNSEEN, SAY_OSLO), {"turn_rule": "both"}, True),
    ],
)
def test_a_fail_beside_parts_that_could_not_be_evaluated_is_partial(
    index: CaseIndex, made: Conversation, settings: dict[str, Any], *, partial: bool
) -> None:
    assert scored(index, made, **settings).partial == partial


def test_a_turn_says_why_its_answer_is_no_pass_whatever_else_decides() -> None:
    index = index_of({**PARIS, **BOOK}, ROME, {"query": "Thanks"})
    made = conversation(UNSEEN, SAY_OSLO, turn("Thanks", "Bye"))
    found = scored(index, made, turn_rule="tools")
    assert ["content_not_captured", "wrong_answer", "no_data"] == [one.answer_reason for one in found.turns]
    assert [None] == [one.answer_reason for one in scored(index_of(PARIS), conversation(SAY_PARIS)).turns]


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
def test_all_three_turn_rules_are_computed_and_the_setting_chooses(first: Turn, outcomes: tuple[str, str, str]) -> None:
    made = conversation(first, BOOKED)
    for place, rule in enumerate(("answer", "tools", "both")):
        found = scored(MIXED, made, turn_rule=rule)
        assert (found.answer_outcome, found.tool_outcome, found.both_outcome) == outcomes
        assert found.outcome == outcomes[place]
        assert found.turns[0].outcome == outcomes[place]


def test_conversation_level_tools_and_outputs_count_under_every_rule() -> None:
    found = scored(index_of(PARIS, tools=BOOK["tools"]), conversation(SAY_PARIS))
    assert (found.answer_outcome, found.tool_outcome, found.both_outcome) == ("fail",) * 3
    said = scored(
        index_of(outputs=["23,553", 4, "Blue Room"]), conversation(turn("x", "$23553 for the blue  room, 4 days"))
    )
    assert (said.outcome, said.missing_outputs) == ("pass", ())


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
    found = scored(index_of(PARIS, agent="other"), conversation(turn("Hi", "x")), verdict=True)
    assert (found.outcome, found.outcome_source, found.case_id) == ("pass", "labels", None)
    assert (found.computed_outcome, found.computed_reason) == ("not_evaluated", "unmatched")


@pytest.mark.parametrize("verdict", [True, False])
def test_rows_and_faults_are_there_whatever_a_verdict_says(*, verdict: bool) -> None:
    found = scored(index_of({**PARIS, **BOOK}), conversation(SAY_OSLO), verdict=verdict, turn_rule="both")
    assert ("fail", "wrong_answer") == (found.computed_outcome, found.computed_reason)
    assert ["missing"] == [fault.kind for tools in found.tools for fault in tools.faults]


def test_a_mean_that_misses_the_threshold_by_rounding_reaches_it() -> None:
    third = (0.7 + 0.7 + 0.7) / 3
    assert third < 0.7
    assert scored(index_of(PARIS), conversation(SAY_PARIS), judge=Scripted([third])).outcome == "pass"


def test_a_case_sets_its_own_thresholds_and_a_score_at_the_threshold_passes() -> None:
    judge = Scripted([0.5])
    assert scored(index_of(PARIS, answer_threshold=0.5), conversation(SAY_PARIS), judge=judge).outcome == "pass"
    assert scored(index_of(PARIS), conversation(SAY_PARIS), judge=Scripted([0.69])).outcome == "fail"
    assert judge.asked[0].threshold == 0.5


class Scripted:
    """A judge that gives the scores it was told."""

    name = "scripted"
    version = "1"

    def __init__(self, scores: Sequence[float]) -> None:
        self.scores = list(scores)
        self.asked: list[Question] = []
        self.calls = 0

    @classmethod
    def from_settings(cls, settings: JudgeSettings, argument: str | None = None) -> Scripted:
        return cls([settings.vote_band if argument is None else 1.0])

    def judge(self, questions: Sequence[Question]) -> list[Verdict | JudgeFailure]:
        self.calls += 1
        self.asked += questions
        return [Verdict(score=self.scores.pop(0), reasoning="told") for _ in questions if self.scores]


class Raising(Scripted):
    def judge(self, questions: Sequence[Question]) -> list[Verdict | JudgeFailure]:
        raise TimeoutError(f"{len(questions)} questions")


class Strange(Scripted):
    """A judge that answers with whatever it was given."""

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
    ("judge", "reason", "told"),
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
def test_a_failure_of_the_judge_is_never_one_of_the_agent(judge: Any, reason: str, told: str) -> None:
    found = scored(index_of(PARIS), conversation(SAY_PARIS), judge=judge)
    assert (found.outcome, found.reason) == ("not_evaluated", reason)
    assert found.explanation == f"answer of turn 1: {told}"


def test_the_judge_is_asked_in_batches_and_each_conversation_gets_its_own_verdicts() -> None:
    index = index_of(PARIS)
    made = conversation(SAY_PARIS)
    count = BATCH + 2
    judge = Scripted([place % 2 for place in range(count)])
    matched = [MatchedConversation(conversation=made, match=index.match(made)) for _ in range(count)]
    found = score_conversations(matched, judge=judge, settings=ScoringSettings())
    assert [one.outcome for one in found] == ["fail", "pass"] * (count // 2)
    assert judge.calls == 2


@pytest.mark.parametrize(
    ("expected", "made", "pairs"),
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
    expected: list[str | None], made: list[str | None], pairs: dict[int, int]
) -> None:
    assert align_turns(expected, made) == pairs


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
    st.sampled_from(["answer", "tools", "both"]),
)
@settings(max_examples=60)
def test_no_conversation_raises_and_every_outcome_has_its_reason(
    turns: list[Turn], closed_by: ClosedBy | None, rule: str
) -> None:
    found = scored(EVERYTHING, conversation(*turns, closed_by=closed_by), turn_rule=rule)
    assert (found.outcome == "pass") == (found.reason is None)
    rows: list[TurnScore | ToolScore] = [*found.turns, *found.tools]
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
