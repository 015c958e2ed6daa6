from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from otel_agentic import scoring
from otel_agentic.config import JudgeSettings, ScoringSettings
from otel_agentic.conversations.model import ClosedBy, Conversation, ConversationId, ToolCall, Turn
from otel_agentic.judges import ExactJudge, JudgeFailure, Question, Verdict
from otel_agentic.scoring import ConversationScore, MatchedConversation, score_conversation, score_conversations
from otel_agentic.scoring.outcome import BATCH
from otel_agentic.scoring.turns import align_turns
from otel_agentic.scoring.version import evaluator_version, truth_version
from otel_agentic.truth import CaseIndex, Label, Match, parse_cases

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
    index: CaseIndex, made: Conversation, *, verdict: bool | None = None, judge: Any = None, **settings: Any
) -> ConversationScore:
    label = None if verdict is None else Label(conversation_id="c1", case_id=None, verdict=verdict, line=2)
    return score_conversation(
        made, index.match(made, label), label, judge=judge or ExactJudge(), settings=ScoringSettings(**settings)
    )


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
    assert [(one.case_turn_index, one.outcome, one.answer_score) for one in found.turns] == [
        (0, "pass", 1.0),
        (1, "pass", 1.0),
    ]


@pytest.mark.parametrize(
    ("index", "made", "reason"),
    [
        (index_of(PARIS, ROME), conversation(SAY_PARIS, SAY_OSLO), "wrong_answer"),
        (index_of(PARIS), conversation(turn("Capital of France?", None)), "wrong_answer"),
        (index_of({**PARIS, "not_answer": "Oslo"}), conversation(turn("x", "Paris, not Oslo")), "forbidden_answer"),
        (index_of(BOOK), conversation(turn("x", "done")), "tool_fault"),
        (index_of(tools=BOOK["tools"]), conversation(turn("x", "done")), "tool_fault"),
        (index_of(PARIS, ROME), conversation(SAY_PARIS), "missing_turn"),
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
        (index_of(PARIS), conversation(NOT_SEEN), "content_not_captured"),
        (index_of(tools=BOOK["tools"]), conversation(NOT_SEEN), "content_not_captured"),
        (index_of(outputs=["327"]), conversation(NOT_SEEN), "content_not_captured"),
        (index_of(BOOK), conversation(turn("x", "y", call("book", arguments=None))), "content_not_captured"),
        (index_of(PARIS, agent="other"), conversation(turn("Hi", "x")), "unmatched"),
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


def test_a_known_failing_part_outweighs_one_that_could_not_be_evaluated() -> None:
    found = scored(index_of(PARIS, ROME), conversation(turn("Capital of France?", None, captured=False), SAY_OSLO))
    assert (found.outcome, found.reason) == ("fail", "wrong_answer")
    unknown = scored(index_of(PARIS, ROME), conversation(turn("Capital of France?", None, captured=False), SAY_ROME))
    assert (unknown.outcome, unknown.reason) == ("not_evaluated", "content_not_captured")


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
    assert of_label.explanation.startswith("verdict of labels: fail; computed: pass")


def test_a_label_decides_even_a_conversation_that_matches_no_case() -> None:
    found = scored(index_of(PARIS, agent="other"), conversation(turn("Hi", "x")), verdict=True)
    assert (found.outcome, found.outcome_source, found.case_id) == ("pass", "labels", None)
    assert (found.computed_outcome, found.computed_reason) == ("not_evaluated", "unmatched")


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


class Refusing(Scripted):
    def judge(self, questions: Sequence[Question]) -> list[Verdict | JudgeFailure]:
        return [JudgeFailure(reason="sampled_out", message="over budget") for _ in questions]


@pytest.mark.parametrize(
    ("judge", "reason", "told"),
    [
        (Scripted([float("nan")]), "judge_error", "judge scripted gave score nan; allowed: 0 to 1"),
        (Scripted([1e9]), "judge_error", "judge scripted gave score 1000000000.0; allowed: 0 to 1"),
        (Scripted([]), "judge_error", "judge scripted gave 0 verdicts for 1 questions"),
        (Raising([]), "judge_error", "judge scripted raised TimeoutError: 1 questions"),
        (Refusing([]), "sampled_out", "over budget"),
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
