"""The metrics of RAGAS for agents: answer accuracy, goal accuracy, topic adherence, tool call accuracy and F1.

Ref: RAGAS 0.3.9 (and 0.2.15), metrics for agents and Nvidia metrics.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Final, NamedTuple

from otel_agentic.evaluators.base import Metric, MetricScore, WithoutSettings
from otel_agentic.evaluators.catalog import metrics_of
from otel_agentic.evaluators.needs import without_case
from otel_agentic.evaluators.transcript import transcript
from otel_agentic.judges.base import JudgeFailure, ReplyForm, rubric_question
from otel_agentic.judges.prompts import load_rubric
from otel_agentic.scoring.align import SortedCalls, ToolRules, sort_calls
from otel_agentic.scoring.answers import closest_accepted
from otel_agentic.scoring.compile import compiled
from otel_agentic.scoring.model import Scope, scope_of
from otel_agentic.scoring.outcome import unproven_absence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from otel_agentic.conversations.model import Turn
    from otel_agentic.evaluators.base import JudgeDialogue, Need, Subject
    from otel_agentic.judges.base import Question, Rubric, Verdict
    from otel_agentic.scoring.compile import CompiledCall, CompiledExpectation
    from otel_agentic.scoring.model import ActualCall, NotEvaluatedReason
    from otel_agentic.truth.model import Case, CaseTurn, ToolExpectation


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Why there is no score."""

    reason: NotEvaluatedReason
    explanation: str

    def score(self, name: str, turn_index: int | None = None) -> MetricScore:
        """Return the abstention of a metric."""
        return MetricScore(name=name, reason=self.reason, explanation=self.explanation, turn_index=turn_index)


def unheard(turns: Sequence[Turn], *, results: bool) -> Silence | None:
    """Return the reason why the agent's messages are unknown, or None; a judge would take them for silence.

    Args:
        turns: of a conversation.
        results: recorded results of tools suffice.
    """
    for turn in turns:
        if turn.answer_captured or (results and any(call.result_captured for call in turn.calls)):
            return None
    message = "no answer of the agent was captured; have the instrumentation record content"
    return Silence(reason="content_not_captured", explanation=message)


def silence_in(replies: Sequence[Verdict | JudgeFailure], *, labels: bool = True) -> Silence | None:
    """Return the reason why replies yield no score, or None.

    Args:
        replies: of a judge.
        labels: each must have a label; False: each is a list of texts.
    """
    for reply in replies:
        if isinstance(reply, JudgeFailure):
            return Silence(reason=reply.reason, explanation=reply.message)
        if labels and reply.label is None:
            return Silence(reason="judge_error", explanation="the judge gave no label")
    return None


def label_of(reply: Verdict | JudgeFailure) -> str:
    """Return the label of a reply that has one."""
    return "" if isinstance(reply, JudgeFailure) else reply.label or ""


def texts_of(reply: Verdict | JudgeFailure) -> tuple[str, ...]:
    """Return the texts of a reply, each once, in their order; case and white space make no difference."""
    texts = () if isinstance(reply, JudgeFailure) else reply.texts
    distinct = {" ".join(text.casefold().split()): text.strip() for text in reversed(texts) if text.strip()}
    return tuple(reversed(distinct.values()))


def reasons_of(*replies: Verdict | JudgeFailure) -> str:
    """Return the reasons that the judge gave, one after the other."""
    stated = [reply.reasoning.strip() for reply in replies if not isinstance(reply, JudgeFailure)]
    return " ".join(dict.fromkeys(filter(None, stated)))


#: Expectations whose form for F1 is kept.
_CACHED: Final = 1024


class Share(NamedTuple):
    """A share that can be summed over scopes: `part` of `total`. A total of 0 is a share of 1: nothing was to be done."""

    part: float
    total: float

    @property
    def value(self) -> float:
        """The share, in [0, 1].

        >>> Share(1.5, 2.0).value, Share(0.0, 0.0).value
        (0.75, 1.0)
        """
        return self.part / self.total if self.total else 1.0

    def plus(self, other: Share) -> Share:
        """Return the share of both scopes together."""
        return Share(self.part + other.part, self.total + other.total)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What the calls of one scope come to under one expectation.

    `missing` and `unasked` are names of calls, `differing` are (tool, parameter) of calls that were made otherwise. `undecided`
    are parameters, as (tool, parameter), that only a judge could compare.
    """

    in_order: Share
    in_any_order: Share
    equal: Share
    missing: tuple[str, ...] = ()
    unasked: tuple[str, ...] = ()
    differing: tuple[tuple[str, str], ...] = ()
    undecided: tuple[tuple[str, str], ...] = ()


def count(expectation: ToolExpectation, calls: Sequence[ActualCall], rules: ToolRules) -> list[Counted]:
    """Return the counts of calls under an expectation and under each of its alternatives.

    Args:
        expectation: the expectation.
        calls: of the turn or conversation to which it applies, in order.
        rules: those of the case.
    """
    ready = compiled(expectation, rules)
    return [_counted(item, calls) for item in (ready, *ready.alternatives)]


def _counted(expectation: CompiledExpectation, calls: Sequence[ActualCall]) -> Counted:
    calls_sorted = SortedCalls.of(sort_calls(expectation, calls))
    extra = [index for index, rule in calls_sorted.extra if rule != "allow" or index in calls_sorted.forbidden]
    agreed = sum(pair.agreement.score for pair in calls_sorted.pairs)
    total = float(expectation.required + len(extra))
    return Counted(
        in_order=Share(min(agreed, _in_order(expectation, calls_sorted, extra, agreed)), total),
        in_any_order=Share(agreed, total),
        equal=_equal(expectation, calls_sorted.actual),
        missing=_missing(expectation, calls_sorted),
        unasked=tuple(calls_sorted.actual[index].call.name for index in extra),
        differing=tuple((pair.expected.name, key) for pair in calls_sorted.pairs for key in pair.agreement.wrong),
        undecided=tuple(
            (pair.expected.name, key)
            for pair in calls_sorted.pairs
            if pair.expected.parameters.undecided(calls_sorted.actual[pair.place])
            for key, mode in pair.expected.parameters.modes.items()
            if mode == "judge"
        ),
    )


def _missing(expectation: CompiledExpectation, calls_sorted: SortedCalls) -> tuple[str, ...]:
    answered = {pair.expected.index for pair in calls_sorted.pairs}
    return tuple(call.name for call in expectation.calls if call.required and call.index not in answered)


def _in_order(
    expectation: CompiledExpectation, calls_sorted: SortedCalls, extra: Sequence[int], agreed: float
) -> float:
    """Return the largest agreement of expected calls that can be paired without crossings.

    Expected calls of one step, and actual calls of one step, have no order among themselves: they are ordered as in the
    free pairing.
    """
    partner = {pair.place: pair.expected for pair in calls_sorted.pairs}
    place_of = {pair.expected.index: pair.place for pair in calls_sorted.pairs}
    expected = sorted(
        (call for call in expectation.calls if call.required),
        key=lambda call: (call.group, place_of.get(call.index, len(calls_sorted.actual)), call.index),
    )
    last = expectation.required + 1

    def made_at(index: int) -> tuple[tuple[int, int], int, int]:
        group = partner[index].group if index in partner else last
        return calls_sorted.actual[index].step, group, index

    indices = sorted({*partner, *extra}, key=made_at)
    rank = {other_place: number for number, other_place in enumerate(indices)}
    present = [rank[place_of[call.index]] for call in expected if call.index in place_of]
    if present == sorted(present):
        return agreed
    return best_in_order(expected, [calls_sorted.actual[other_place] for other_place in indices])


def best_in_order(expected: Sequence[CompiledCall], actual: Sequence[ActualCall]) -> float:
    """Return the greatest sum of agreements over pairs of calls of one name, no two of which cross.

    Ref: S. Needleman, C. Wunsch (1970), A general method applicable to the search for similarities, without gap penalty.
    """
    before = [0.0] * (len(actual) + 1)
    for expected_call in expected:
        indices = [index for index, other in enumerate(actual) if other.call.name == expected_call.name]
        scores = dict(
            zip(indices, expected_call.parameters.scores([actual[other_place] for other_place in indices]), strict=True)
        )
        now = [0.0]
        for position in range(len(actual)):
            now.append(max(now[position], before[position + 1], before[position] + scores.get(position, 0.0)))
        before = now
    return before[-1]


def _equal(expectation: CompiledExpectation, actual: Sequence[ActualCall]) -> Share:
    """Return the terms of F1: twice the number of calls exactly as expected, and the number of all expected and actual calls."""
    required, optional = _by_need(expectation)
    calls_sorted = SortedCalls.of(sort_calls(required, _as_tools(actual)))
    hits, lacking = len(calls_sorted.excused), _lacking(required, calls_sorted)
    left = [calls_sorted.actual[index] for index, _ in calls_sorted.extra]
    excused = {pair.place for pair in SortedCalls.of(sort_calls(optional, left)).excused}
    invalid = 0
    for position, item in enumerate(left):
        if position in excused:
            continue
        name = item.call.name
        # An allowed extra call is ignored; one in the position of an expected call is that call with wrong arguments.
        if lacking[name]:
            lacking[name] -= 1
        elif expectation.extra_rule(name) == "allow" and not expectation.forbids(name):
            continue
        invalid += 1
    return Share(2.0 * hits, float(hits + invalid + expectation.required))


def _as_tools(actual: Sequence[ActualCall]) -> list[ActualCall]:
    """Return the calls that count for any part of the expectation, including successful transfers and agents used as tools."""
    return [
        item
        if item.call.kind == "tool" and item.call.error is None
        else replace(item, call=replace(item.call, kind="tool", error=None))
        for item in actual
    ]


def _lacking(required: CompiledExpectation, calls_sorted: SortedCalls) -> Counter[str]:
    """Return how many expected calls of each name were not made exactly."""
    result = Counter(call.name for call in required.calls)
    result.subtract(pair.expected.name for pair in calls_sorted.excused)
    return result


class _Same:
    """The same expectation object under the same rules, as a key: models that hold dictionaries have no hash."""

    __slots__ = ("expectation",)

    def __init__(self, expectation: CompiledExpectation) -> None:
        self.expectation = expectation

    def __hash__(self) -> int:
        return id(self.expectation)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.expectation is other.expectation


def _by_need(expectation: CompiledExpectation) -> tuple[CompiledExpectation, CompiledExpectation]:
    """Return the required and the optional calls as expectations of their own.

    All become optional, because a pairing then contains exactly those that occurred as expected.
    """
    return _divided(_Same(expectation))


@lru_cache(maxsize=_CACHED)
def _divided(same: _Same) -> tuple[CompiledExpectation, CompiledExpectation]:
    provided, rules = same.expectation.expectation, same.expectation.rules
    free = [call.model_copy(update={"required": False}) for call in provided.calls]
    parts = [
        provided.model_copy(
            update={
                "calls": tuple(
                    item for item, call in zip(free, provided.calls, strict=True) if call.required == needed
                ),
                "alternatives": (),
                "order": "any",
            }
        )
        for needed in (True, False)
    ]
    return compiled(parts[0], rules), compiled(parts[1], rules)


NAME: Final = "agentic.ragas.answer_accuracy"
#: What each label is rated, of four.
RATINGS: Final[Mapping[str, int]] = {"agrees": 4, "partly": 2, "disagrees": 0}

_BEST: Final = 4
_FORM: Final = ReplyForm(kind="label", labels=tuple(RATINGS))
_ANSWER_FIRST: Final = load_rubric("otel_agentic.evaluators", "prompts/ragas/answer_accuracy.md", _FORM)
_REFERENCE_FIRST: Final = load_rubric("otel_agentic.evaluators", "prompts/ragas/answer_accuracy_swapped.md", _FORM)


class AnswerAccuracy(WithoutSettings):
    """How far each annotated answer was given."""

    name: str = "ragas.answer_accuracy"
    version: str = "1"
    metrics: tuple[Metric, ...] = metrics_of("ragas.answer_accuracy")
    needs: frozenset[Need] = frozenset({"turns", "case", "expected_answer", "judge"})
    default: bool = False
    rubrics: tuple[Rubric, ...] = (_ANSWER_FIRST, _REFERENCE_FIRST)

    def ask(self, subject: Subject) -> JudgeDialogue:
        """Yield two questions for each turn with an annotated answer, and return its scores."""
        turns = list(_annotated(subject))
        if not turns:
            message = "no turn of the conversation has an annotated answer; annotate `answer` in the turns of the case"
            return [Silence(reason="no_data", explanation=message).score(NAME)]
        requested = [(turn, questions) for turn, expected in turns if (questions := _questions(turn, expected))]
        replies = iter((yield [question for _, questions in requested for question in questions]) if requested else ())
        by_turn = {turn.index: (next(replies), next(replies)) for turn, _ in requested}
        return [_answer_score(turn, by_turn.get(turn.index)) for turn, _ in turns]


def _annotated(subject: Subject) -> Iterator[tuple[Turn, CaseTurn]]:
    """Yield the turns with an annotated answer, with their case turns."""
    expected = () if subject.case is None else subject.case.turns
    for turn in subject.conversation.turns:
        index = subject.aligned.get(turn.index)
        if index is not None and expected[index].answer is not None:
            yield turn, expected[index]


def _questions(turn: Turn, expected: CaseTurn) -> Sequence[Question]:
    """Return the two questions about an answer; none without an answer."""
    if turn.answer is None or not expected.accepted_answers:
        return ()
    reference = closest_accepted(turn.answer, expected.accepted_answers)
    query = turn.query or expected.query or ""
    return (
        rubric_question(_ANSWER_FIRST, question=query, answer=turn.answer, reference=reference),
        rubric_question(_REFERENCE_FIRST, question=query, first=turn.answer, second=reference),
    )


def _answer_score(turn: Turn, replies: tuple[Verdict | JudgeFailure, Verdict | JudgeFailure] | None) -> MetricScore:
    index = f"the answer of turn {turn.index + 1}"
    if replies is None and not turn.answer_captured:
        explanation = f"{index} was not captured; have the instrumentation record content"
        return Silence(reason="content_not_captured", explanation=explanation).score(NAME, turn.index)
    if replies is None:
        return MetricScore(
            name=NAME, value=0.0, turn_index=turn.index, explanation=f"turn {turn.index + 1} has no answer"
        )
    silence = silence_in(replies)
    if silence is not None:
        return silence.score(NAME, turn.index)
    first, second = (RATINGS[label_of(reply)] for reply in replies)
    return MetricScore(
        name=NAME,
        value=(first + second) / (2 * _BEST),
        turn_index=turn.index,
        explanation=f"{index} is rated {first} of {_BEST} and, compared the other way, {second}: {reasons_of(*replies)}",
        details={"ratings": [first, second]},
    )


WITH_REFERENCE: Final = "agentic.ragas.goal_accuracy"
WITHOUT_REFERENCE: Final = "agentic.ragas.goal_accuracy_without_reference"
ACHIEVED, NOT_ACHIEVED = "achieved", "not_achieved"

_LABELS: Final = ReplyForm(kind="label", labels=(ACHIEVED, NOT_ACHIEVED))
_GOAL: Final = load_rubric("otel_agentic.evaluators", "prompts/ragas/goal_accuracy.md", _LABELS)
_COMPARED: Final = load_rubric("otel_agentic.evaluators", "prompts/ragas/goal_compared.md", _LABELS)
_USER_GOAL: Final = load_rubric(
    "otel_agentic.evaluators", "prompts/ragas/user_goal.md", ReplyForm(kind="texts", most=10)
)
_END_STATE: Final = load_rubric(
    "otel_agentic.evaluators", "prompts/ragas/end_state.md", ReplyForm(kind="texts", most=1)
)


class GoalAccuracy(WithoutSettings):
    """Whether a conversation ended in the goal of its case."""

    name: str = "ragas.goal_accuracy"
    version: str = "1"
    metrics: tuple[Metric, ...] = metrics_of("ragas.goal_accuracy")
    needs: frozenset[Need] = frozenset({"turns", "case", "goal", "judge"})
    default: bool = False
    rubrics: tuple[Rubric, ...] = (_GOAL,)

    def ask(self, subject: Subject) -> JudgeDialogue:
        """Yield the one question, and return the score."""
        goal = "" if subject.case is None else (subject.case.goal or "").strip()
        if not goal:
            return [Silence(reason="no_data", explanation="the case has no `goal`; annotate one").score(WITH_REFERENCE)]
        silence = unheard(subject.conversation.turns, results=True)
        if silence is not None:
            return [silence.score(WITH_REFERENCE)]
        text = transcript(subject.conversation.turns)
        (reply,) = yield [rubric_question(_GOAL, goal=goal, conversation=text.text)]
        return [_goal_score(WITH_REFERENCE, reply, text.note, {})]


class GoalAccuracyWithoutReference(WithoutSettings):
    """Whether a conversation ended in what its user wanted, as a judge reads it from the conversation."""

    name: str = "ragas.goal_accuracy_without_reference"
    version: str = "1"
    metrics: tuple[Metric, ...] = metrics_of("ragas.goal_accuracy_without_reference")
    needs: frozenset[Need] = frozenset({"turns", "queries", "judge"})
    default: bool = False
    rubrics: tuple[Rubric, ...] = (_USER_GOAL, _END_STATE, _COMPARED)

    def ask(self, subject: Subject) -> JudgeDialogue:
        """Yield the questions for goal and end state, then that for their comparison, and return the score."""
        silence = unheard(subject.conversation.turns, results=True)
        if silence is not None:
            return [silence.score(WITHOUT_REFERENCE)]
        text = transcript(subject.conversation.turns)
        goal_reply, end_reply = yield [
            rubric_question(item, conversation=text.text) for item in (_USER_GOAL, _END_STATE)
        ]
        silence = silence_in([goal_reply, end_reply], labels=False)
        goals, ends = texts_of(goal_reply), texts_of(end_reply)
        if silence is None and not goals:
            silence = Silence(reason="no_data", explanation="the judge finds nothing that the user wanted")
        elif silence is None and not ends:
            silence = Silence(reason="judge_error", explanation="the judge named no end state")
        if silence is not None:
            return [silence.score(WITHOUT_REFERENCE)]
        comparison = {"goal": json.dumps(goals, ensure_ascii=False), "end_state": " ".join(ends)}
        (reply,) = yield [rubric_question(_COMPARED, **comparison)]
        details = {"goal": list(goals), "end_state": comparison["end_state"]}
        return [_goal_score(WITHOUT_REFERENCE, reply, text.note, details)]


def _goal_score(name: str, reply: Verdict | JudgeFailure, note: str, details: Mapping[str, Any]) -> MetricScore:
    silence = silence_in([reply])
    if silence is not None:
        return silence.score(name)
    label = label_of(reply)
    return MetricScore(
        name=name,
        value=float(label == ACHIEVED),
        label=label,
        explanation=reasons_of(reply) + note,
        details=details,
    )


PRECISION: Final = "agentic.ragas.topic_adherence_precision"
RECALL: Final = "agentic.ragas.topic_adherence_recall"
TOPIC_F1: Final = "agentic.ragas.topic_adherence_f1"
ANSWERED, REFUSED, WITHIN, OUTSIDE = "answered", "refused", "within", "outside"

_TOPICS: Final = load_rubric("otel_agentic.evaluators", "prompts/ragas/topics.md", ReplyForm(kind="texts", most=20))
_ANSWERED: Final = load_rubric(
    "otel_agentic.evaluators", "prompts/ragas/topic_answered.md", ReplyForm(kind="label", labels=(ANSWERED, REFUSED))
)
_ALLOWED: Final = load_rubric(
    "otel_agentic.evaluators", "prompts/ragas/topic_allowed.md", ReplyForm(kind="label", labels=(WITHIN, OUTSIDE))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adherence:
    """How many topics were answered rightly, answered wrongly, refused wrongly, and refused rightly."""

    right: int = 0
    strayed: int = 0
    withheld: int = 0
    declined: int = 0

    @classmethod
    def of(cls, topics: Sequence[tuple[str, str]]) -> Adherence:
        """Return the counts of topics, each a pair (answered or refused, within or outside)."""
        return cls(
            right=topics.count((ANSWERED, WITHIN)),
            strayed=topics.count((ANSWERED, OUTSIDE)),
            withheld=topics.count((REFUSED, WITHIN)),
            declined=topics.count((REFUSED, OUTSIDE)),
        )

    @property
    def precision(self) -> float | None:
        """The share of answered topics within the reference topics, None if none was answered.

        >>> Adherence(right=1, strayed=1, declined=5).precision, Adherence(withheld=1, declined=5).precision
        (0.5, None)
        """
        return _share(self.right, self.right + self.strayed)

    @property
    def recall(self) -> float | None:
        """The share of topics within the reference topics that were answered, None without such topics.

        >>> Adherence(right=1, withheld=3, declined=5).recall, Adherence(strayed=1, declined=5).recall
        (0.25, None)
        """
        return _share(self.right, self.right + self.withheld)

    @property
    def f1(self) -> float | None:
        """Their harmonic mean; 0 if one of them is undefined because of failures, None without failures.

        >>> Adherence(right=2, strayed=1, withheld=1).f1, Adherence(withheld=1).f1, Adherence(declined=5).f1
        (0.6666666666666666, 0.0, None)
        """
        return _share(2 * self.right, 2 * self.right + self.strayed + self.withheld)


def _share(part: int, total: int) -> float | None:
    return part / total if total else None


class TopicAdherence(WithoutSettings):
    """The three modes of topic adherence."""

    name: str = "ragas.topic_adherence"
    version: str = "1"
    metrics: tuple[Metric, ...] = metrics_of("ragas.topic_adherence")
    needs: frozenset[Need] = frozenset({"turns", "queries", "case", "reference_topics", "judge"})
    default: bool = False
    rubrics: tuple[Rubric, ...] = (_TOPICS, _ANSWERED, _ALLOWED)

    def ask(self, subject: Subject) -> JudgeDialogue:
        """Yield the question for the topics, then two for each of them, and return the three scores."""
        turns = () if subject.case is None else subject.case.turns
        expected = list(dict.fromkeys(topic for turn in turns for topic in turn.reference_topics))
        if not expected:
            return _no_topic_score(
                Silence(reason="no_data", explanation="the case has no `reference_topics`; annotate them")
            )
        unknown = unheard(subject.conversation.turns, results=False)
        if unknown is not None:
            return _no_topic_score(unknown)
        text = transcript(subject.conversation.turns)
        (result,) = yield [rubric_question(_TOPICS, conversation=text.text)]
        silence, topics = silence_in([result], labels=False), texts_of(result)
        if silence is None and not topics:
            silence = Silence(reason="no_data", explanation="the judge finds no topic that the user brought up")
        if silence is not None:
            return _no_topic_score(silence)
        references = json.dumps(expected, ensure_ascii=False)
        replies = yield [
            *(rubric_question(_ANSWERED, topic=topic, conversation=text.text) for topic in topics),
            *(rubric_question(_ALLOWED, topic=topic, reference_topics=references) for topic in topics),
        ]
        silence = silence_in(replies)
        if silence is not None:
            return _no_topic_score(silence)
        labels = [label_of(reply) for reply in replies]
        fates = dict(zip(topics, zip(labels[: len(topics)], labels[len(topics) :], strict=True), strict=True))
        return _scores(fates, text.note)


def _scores(fates: Mapping[str, tuple[str, str]], note: str) -> list[MetricScore]:
    counts = Adherence.of(list(fates.values()))
    details = {
        "topics": [
            {"topic": topic, "agent": stated, "topic_is": relation} for topic, (stated, relation) in fates.items()
        ]
    }
    undefined = {
        PRECISION: "the agent answered none of the topics",
        RECALL: "none of the topics is within the reference topics",
        TOPIC_F1: "the agent refused all topics, and rightly: none is within the reference topics",
    }
    sentence = _sentence(fates)
    return [
        MetricScore(name=name, reason="no_data", explanation=f"{undefined[name]}: {sentence}{note}", details=details)
        if value is None
        else MetricScore(name=name, value=value, explanation=sentence + note, details=details)
        for name, value in ((PRECISION, counts.precision), (RECALL, counts.recall), (TOPIC_F1, counts.f1))
    ]


def _sentence(fates: Mapping[str, tuple[str, str]]) -> str:
    """Return a deterministic sentence on the treatment of each topic."""
    words = {
        (ANSWERED, WITHIN): "answered, as it should",
        (ANSWERED, OUTSIDE): "answered, though outside of the reference topics",
        (REFUSED, WITHIN): "refused, though within the reference topics",
        (REFUSED, OUTSIDE): "refused, as it should",
    }
    by_fate = {fate: [f'"{topic}"' for topic, actual in fates.items() if actual == fate] for fate in words}
    return "; ".join(f"{words[fate]}: {', '.join(topics)}" for fate, topics in by_fate.items() if topics)


def _no_topic_score(silence: Silence) -> list[MetricScore]:
    return [silence.score(name) for name in (PRECISION, RECALL, TOPIC_F1)]


ACCURACY: Final = "agentic.ragas.tool_call_accuracy"
UNORDERED: Final = "agentic.ragas.tool_call_accuracy_unordered"
TOOL_CALL_F1: Final = "agentic.ragas.tool_call_f1"

#: The scope of an expected turn that never came.
_NO_CALLS: Final = Scope(turn_index=None, calls=(), answers=(), queries=(), captured=True)
_RECORD: Final = "have the instrumentation record content"
#: Items of each kind listed in an explanation.
_LISTED: Final = 5

_SHARES: Final[Mapping[str, Callable[[Counted], Share]]] = {
    ACCURACY: lambda counted: counted.in_order,
    UNORDERED: lambda counted: counted.in_any_order,
    TOOL_CALL_F1: lambda counted: counted.equal,
}


class ToolCalls(WithoutSettings):
    """The three metrics of tool calls."""

    name: str = "ragas.tool_calls"
    version: str = "1"
    metrics: tuple[Metric, ...] = metrics_of("ragas.tool_calls")
    needs: frozenset[Need] = frozenset({"turns", "case", "expected_tools"})
    default: bool = True

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return the three scores of a conversation."""
        case = subject.case
        if case is None:
            return _no_tool_call_score(*without_case(subject))
        scopes = list(_scopes(subject, case))
        lacking = _scope_lacking(subject, case, scopes)
        if lacking is not None:
            return _no_tool_call_score(*lacking)
        rules = ToolRules.of(case, subject.settings)
        counted = [count(expectation, scope.calls, rules) for expectation, scope in scopes]
        return [_tool_call_score(name, share, counted) for name, share in _SHARES.items()]


def _scopes(subject: Subject, case: Case) -> Iterator[tuple[ToolExpectation, Scope]]:
    """Yield each expectation of the case with its scope; a turn that never came has no calls."""
    turns = subject.conversation.turns
    present = {case_index: index for index, case_index in subject.aligned.items()}
    by_index = {turn.index: turn for turn in turns}
    for index, expected in enumerate(case.turns):
        if expected.tools is not None:
            turn = by_index.get(present.get(index, -1))
            yield expected.tools, _NO_CALLS if turn is None else scope_of([turn], turn_index=turn.index)
    if case.tools is not None:
        yield case.tools, scope_of(turns, turn_index=None)


def _scope_lacking(
    subject: Subject, case: Case, scopes: Sequence[tuple[ToolExpectation, Scope]]
) -> tuple[NotEvaluatedReason, str] | None:
    """Return the reason why the calls cannot be scored, or None."""
    if not scopes:
        return "no_data", f"case {case.case_id!r} expects nothing of tools; annotate `tools`"
    absent = sorted(set(range(len(case.turns))) - set(subject.aligned.values()))
    awaited = unproven_absence(subject.conversation, subject.settings) if absent else None
    if awaited is not None:
        message = ", ".join(str(index + 1) for index in absent)
        return awaited[0], f"expected turn {message} is missing; {awaited[1]}"
    if not all(scope.captured for _, scope in scopes):
        return "content_not_captured", f"no content was captured, so that a call may be missing; {_RECORD}"
    unrecorded = next(_unrecorded(scopes, count_errors=subject.settings.count_errors), None)
    if unrecorded is not None:
        message = (
            f"the arguments of {unrecorded.call.name} in turn {unrecorded.turn_index + 1} were not captured; {_RECORD}"
        )
        return "content_not_captured", message
    return None


def _unrecorded(scopes: Sequence[tuple[ToolExpectation, Scope]], *, count_errors: bool) -> Iterator[ActualCall]:
    """Yield the calls that count and whose arguments are not known."""
    for expectation, scope in scopes:
        named = {call.tool_name for call in expectation.calls}
        for item in scope.calls:
            counts = item.call.kind == "tool" or item.call.name in named
            if counts and item.call.arguments is None and (item.call.error is None or count_errors):
                yield item


def _tool_call_score(name: str, share: Callable[[Counted], Share], counted: Sequence[Sequence[Counted]]) -> MetricScore:
    """Return one metric of a conversation: of each expectation, that of its alternatives counts which fits best."""
    best = [max(ways, key=lambda way: share(way).value) for ways in counted]
    undecided = [item for way in best for item in way.undecided]
    if undecided:
        tool, key = undecided[0]
        return _abstained(
            name, "no_data", f"parameter {key} of {tool} is for a judge to compare, and this metric asks none"
        )
    total = reduce(Share.plus, (share(way) for way in best))
    return MetricScore(
        name=name,
        value=total.value,
        explanation=_deviations_text(best, in_order=name == ACCURACY),
        details={"part": total.part, "whole": total.total},
    )


def _deviations_text(best: Sequence[Counted], *, in_order: bool) -> str:
    """Return a deterministic sentence on the deviations of the calls."""
    missing = Counter(name for way in best for name in way.missing)
    unasked = Counter(name for way in best for name in way.unasked)
    invalid = [f"{tool}({key})" for way in best for tool, key in way.differing]
    parts = [
        f"not made: {_names(missing)}" if missing else "",
        f"not asked for: {_names(unasked)}" if unasked else "",
        f"other arguments: {_listed(invalid)}" if invalid else "",
        "not in the expected order" if in_order and any(way.in_order < way.in_any_order for way in best) else "",
    ]
    return "; ".join(filter(None, parts)) or "every expected call was made as expected, and no other"


def _names(result: Counter[str]) -> str:
    return _listed([name if times == 1 else f"{name} ({times} times)" for name, times in result.items()])


def _listed(message: Sequence[str]) -> str:
    more = len(message) - _LISTED
    return ", ".join(message[:_LISTED]) + (f" and {more} more" if more > 0 else "")


def _no_tool_call_score(reason: NotEvaluatedReason, explanation: str) -> list[MetricScore]:
    return [_abstained(name, reason, explanation) for name in _SHARES]


def _abstained(name: str, reason: NotEvaluatedReason, explanation: str) -> MetricScore:
    return MetricScore(name=name, reason=reason, explanation=explanation)
