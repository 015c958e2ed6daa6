"""The metrics of RAGAS that ask a judge: answer accuracy, goal accuracy, topic adherence."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.evaluators.base import (
    BuiltInEvaluator,
    JudgeDialogue,
    MetricScore,
    Missing,
    Overlap,
    Subject,
    case_turn_of,
    none_of,
    none_of_all,
)
from otel_agentic.evaluators.transcript import transcript
from otel_agentic.judges.base import JudgeFailure, Question, ReplyForm, Rubric, Verdict, rubric_question
from otel_agentic.judges.prompts import load_rubric
from otel_agentic.scoring.parts import closest_accepted

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Turn
    from otel_agentic.truth.model import CaseTurn


def _answers_missing(turns: Sequence[Turn], *, results: bool) -> Missing | None:
    """Return the reason why the agent's messages are unknown, or None.

    A judge would mistake unrecorded messages for silence.

    Args:
        turns: the turns of a conversation.
        results: whether recorded results of tools suffice.
    """
    for turn in turns:
        if turn.answer_captured or (results and any(call.result_captured for call in turn.calls)):
            return None
    message = "no answer of the agent was captured; have the instrumentation record content"
    return "content_not_captured", message


def _unusable(replies: Sequence[Verdict | JudgeFailure], *, labels: bool = True) -> Missing | None:
    """Return the reason why replies yield no score, or None.

    Args:
        replies: the replies of a judge.
        labels: whether each reply must have a label; False if each is a list of texts.
    """
    for reply in replies:
        if isinstance(reply, JudgeFailure):
            return reply.reason, reply.message
        if labels and reply.label is None:
            return "judge_error", "the judge gave no label"
    return None


def _label(reply: Verdict | JudgeFailure) -> str:
    """Return the label of a reply that has one."""
    return "" if isinstance(reply, JudgeFailure) else reply.label or ""


def _texts(reply: Verdict | JudgeFailure) -> tuple[str, ...]:
    """Return the distinct texts of a reply, in order; texts that differ in case or white space count as the same."""
    texts = () if isinstance(reply, JudgeFailure) else reply.texts
    distinct = {" ".join(text.casefold().split()): text.strip() for text in reversed(texts) if text.strip()}
    return tuple(reversed(distinct.values()))


def _reasons(*replies: Verdict | JudgeFailure) -> str:
    """Return the judge's reasons as one text, without repetitions."""
    reasons = [reply.reasoning.strip() for reply in replies if not isinstance(reply, JudgeFailure)]
    return " ".join(dict.fromkeys(filter(None, reasons)))


NAME: Final = "agentic.ragas.answer_accuracy"
#: The rating of each label, out of four.
RATINGS: Final[Mapping[str, int]] = {"agrees": 4, "partly": 2, "disagrees": 0}

_BEST: Final = 4
_FORM: Final = ReplyForm(kind="label", labels=tuple(RATINGS))
_ANSWER_FIRST: Final = load_rubric("otel_agentic.evaluators", "prompts/ragas/answer_accuracy.md", _FORM)
_REFERENCE_FIRST: Final = load_rubric("otel_agentic.evaluators", "prompts/ragas/answer_accuracy_swapped.md", _FORM)


class AnswerAccuracy(BuiltInEvaluator):
    """How far each answer agrees with the annotated one."""

    name = "ragas.answer_accuracy"
    needs = frozenset({"turns", "case", "expected_answer", "judge"})
    rubrics: tuple[Rubric, ...] = (_ANSWER_FIRST, _REFERENCE_FIRST)

    def ask(self, subject: Subject) -> JudgeDialogue:
        """Yield two questions for each turn with an annotated answer, and return its scores."""
        annotated_turns = list(_annotated(subject))
        if not annotated_turns:
            message = "no turn of the conversation has an annotated answer; annotate `answer` in the turns of the case"
            return [none_of(NAME, "no_data", message)]
        questions_by_turn = [
            (turn, questions) for turn, expected in annotated_turns if (questions := _questions(turn, expected))
        ]
        replies = iter(
            (yield [question for _, questions in questions_by_turn for question in questions])
            if questions_by_turn
            else ()
        )
        replies_by_turn = {turn.index: (next(replies), next(replies)) for turn, _ in questions_by_turn}
        return [_answer_score(turn, replies_by_turn.get(turn.index)) for turn, _ in annotated_turns]


def _annotated(subject: Subject) -> Iterator[tuple[Turn, CaseTurn]]:
    """Yield the turns with an annotated answer, with their case turns."""
    for turn in subject.conversation.turns:
        expected = case_turn_of(subject, turn)
        if expected is not None and expected.answer is not None:
            yield turn, expected


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
    location = f"the answer of turn {turn.index + 1}"
    if replies is None and not turn.answer_captured:
        explanation = f"{location} was not captured; have the instrumentation record content"
        return none_of(NAME, "content_not_captured", explanation, turn_index=turn.index)
    if replies is None:
        return MetricScore(
            name=NAME, value=0.0, turn_index=turn.index, explanation=f"turn {turn.index + 1} has no answer"
        )
    missing = _unusable(replies)
    if missing is not None:
        return none_of(NAME, *missing, turn_index=turn.index)
    first, second = (RATINGS[_label(reply)] for reply in replies)
    return MetricScore(
        name=NAME,
        value=(first + second) / (2 * _BEST),
        turn_index=turn.index,
        explanation=f"{location} is rated {first} of {_BEST} and, compared the other way, {second}: {_reasons(*replies)}",
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


class GoalAccuracy(BuiltInEvaluator):
    """Whether a conversation reached the goal of its case."""

    name = "ragas.goal_accuracy"
    needs = frozenset({"turns", "case", "goal", "judge"})
    rubrics: tuple[Rubric, ...] = (_GOAL,)

    def ask(self, subject: Subject) -> JudgeDialogue:
        """Yield the only question, and return the score."""
        goal = "" if subject.case is None else (subject.case.goal or "").strip()
        if not goal:
            return [none_of(WITH_REFERENCE, "no_data", "the case has no `goal`; annotate one")]
        missing = _answers_missing(subject.conversation.turns, results=True)
        if missing is not None:
            return [none_of(WITH_REFERENCE, *missing)]
        text = transcript(subject.conversation.turns)
        (reply,) = yield [rubric_question(_GOAL, goal=goal, **text.material)]
        return [_goal_score(WITH_REFERENCE, reply, text.note, {})]


class GoalAccuracyWithoutReference(BuiltInEvaluator):
    """Whether a conversation reached the goal of its user, which a judge infers from the conversation."""

    name = "ragas.goal_accuracy_without_reference"
    needs = frozenset({"turns", "queries", "judge"})
    rubrics: tuple[Rubric, ...] = (_USER_GOAL, _END_STATE, _COMPARED)

    def ask(self, subject: Subject) -> JudgeDialogue:
        """Yield the questions for goal and end state, then the one that compares them, and return the score."""
        missing = _answers_missing(subject.conversation.turns, results=True)
        if missing is not None:
            return [none_of(WITHOUT_REFERENCE, *missing)]
        text = transcript(subject.conversation.turns)
        goal_reply, end_reply = yield [rubric_question(rubric, **text.material) for rubric in (_USER_GOAL, _END_STATE)]
        missing = _unusable([goal_reply, end_reply], labels=False)
        goals, ends = _texts(goal_reply), _texts(end_reply)
        if missing is None and not goals:
            missing = "no_data", "the judge finds nothing that the user wanted"
        elif missing is None and not ends:
            missing = "judge_error", "the judge named no end state"
        if missing is not None:
            return [none_of(WITHOUT_REFERENCE, *missing)]
        comparison = {"goal": json.dumps(goals, ensure_ascii=False), "end_state": " ".join(ends)}
        (reply,) = yield [rubric_question(_COMPARED, **comparison)]
        details = {"goal": list(goals), "end_state": comparison["end_state"]}
        return [_goal_score(WITHOUT_REFERENCE, reply, text.note, details)]


def _goal_score(name: str, reply: Verdict | JudgeFailure, note: str, details: Mapping[str, Any]) -> MetricScore:
    missing = _unusable([reply])
    if missing is not None:
        return none_of(name, *missing)
    label = _label(reply)
    return MetricScore(
        name=name,
        value=float(label == ACHIEVED),
        label=label,
        explanation=_reasons(reply) + note,
        details=details,
    )


PRECISION: Final = "agentic.ragas.topic_adherence_precision"
RECALL: Final = "agentic.ragas.topic_adherence_recall"
TOPIC_F1: Final = "agentic.ragas.topic_adherence_f1"
ANSWERED, REFUSED, WITHIN, OUTSIDE = "answered", "refused", "within", "outside"

_TOPICS: Final = load_rubric("otel_agentic.evaluators", "prompts/ragas/topics.md", ReplyForm(kind="texts", most=20))


def _topic_rubric(file: str, *labels: str) -> Rubric:
    """Return a rubric of which one question is asked for each topic; a panel shows the topics of all of them."""
    form = ReplyForm(kind="label", labels=labels)
    return replace(load_rubric("otel_agentic.evaluators", f"prompts/ragas/{file}.md", form), asides=("topic",))


_ANSWERED: Final = _topic_rubric("topic_answered", ANSWERED, REFUSED)
_ALLOWED: Final = _topic_rubric("topic_allowed", WITHIN, OUTSIDE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adherence:
    """Numbers of topics rightly answered, wrongly answered, wrongly refused and rightly refused, in this order."""

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
        return self._overlap.precision(empty=None)

    @property
    def recall(self) -> float | None:
        """The share of topics within the reference topics that were answered, None without such topics.

        >>> Adherence(right=1, withheld=3, declined=5).recall, Adherence(strayed=1, declined=5).recall
        (0.25, None)
        """
        return self._overlap.recall(empty=None)

    @property
    def f1(self) -> float | None:
        """The harmonic mean of precision and recall: 0 if only one of them is undefined, None if both are.

        >>> Adherence(right=2, strayed=1, withheld=1).f1, Adherence(withheld=1).f1, Adherence(declined=5).f1
        (0.6666666666666666, 0.0, None)
        """
        return self._overlap.f1(empty=None)

    @property
    def _overlap(self) -> Overlap:
        return Overlap(common=self.right, actual=self.right + self.strayed, expected=self.right + self.withheld)


class TopicAdherence(BuiltInEvaluator):
    """The three modes of topic adherence."""

    name = "ragas.topic_adherence"
    needs = frozenset({"turns", "queries", "case", "reference_topics", "judge"})
    rubrics: tuple[Rubric, ...] = (_TOPICS, _ANSWERED, _ALLOWED)

    def ask(self, subject: Subject) -> JudgeDialogue:
        """Yield the question for the topics, then two questions for each topic, and return the three scores."""
        turns = () if subject.case is None else subject.case.turns
        expected = list(dict.fromkeys(topic for turn in turns for topic in turn.reference_topics))
        if not expected:
            return none_of_all(self.metrics, "no_data", "the case has no `reference_topics`; annotate them")
        missing = _answers_missing(subject.conversation.turns, results=False)
        if missing is not None:
            return none_of_all(self.metrics, *missing)
        text = transcript(subject.conversation.turns)
        (topics_reply,) = yield [rubric_question(_TOPICS, **text.material)]
        missing, topics = _unusable([topics_reply], labels=False), _texts(topics_reply)
        if missing is None and not topics:
            missing = "no_data", "the judge finds no topic that the user brought up"
        if missing is not None:
            return none_of_all(self.metrics, *missing)
        references = json.dumps(expected, ensure_ascii=False)
        replies = yield [
            *(rubric_question(_ANSWERED, topic=topic, **text.material) for topic in topics),
            *(rubric_question(_ALLOWED, topic=topic, reference_topics=references) for topic in topics),
        ]
        missing = _unusable(replies)
        if missing is not None:
            return none_of_all(self.metrics, *missing)
        labels = [_label(reply) for reply in replies]
        labels_by_topic = dict(zip(topics, zip(labels[: len(topics)], labels[len(topics) :], strict=True), strict=True))
        return _scores(labels_by_topic, text.note)


def _scores(labels_by_topic: Mapping[str, tuple[str, str]], note: str) -> list[MetricScore]:
    counts = Adherence.of(list(labels_by_topic.values()))
    details = {
        "topics": [
            {"topic": topic, "agent": treatment, "topic_is": relation}
            for topic, (treatment, relation) in labels_by_topic.items()
        ]
    }
    undefined = {
        PRECISION: "the agent answered none of the topics",
        RECALL: "none of the topics is within the reference topics",
        TOPIC_F1: "the agent refused all topics, and rightly: none is within the reference topics",
    }
    sentence = _sentence(labels_by_topic)
    return [
        MetricScore(name=name, reason="no_data", explanation=f"{undefined[name]}: {sentence}{note}", details=details)
        if value is None
        else MetricScore(name=name, value=value, explanation=sentence + note, details=details)
        for name, value in ((PRECISION, counts.precision), (RECALL, counts.recall), (TOPIC_F1, counts.f1))
    ]


def _sentence(labels_by_topic: Mapping[str, tuple[str, str]]) -> str:
    """Return a deterministic sentence on the treatment of each topic."""
    phrases = {
        (ANSWERED, WITHIN): "answered, as it should",
        (ANSWERED, OUTSIDE): "answered, though outside of the reference topics",
        (REFUSED, WITHIN): "refused, though within the reference topics",
        (REFUSED, OUTSIDE): "refused, as it should",
    }
    topics_by_labels = {
        topic_labels: [f'"{topic}"' for topic, labels in labels_by_topic.items() if labels == topic_labels]
        for topic_labels in phrases
    }
    return "; ".join(
        f"{phrases[topic_labels]}: {', '.join(topics)}" for topic_labels, topics in topics_by_labels.items() if topics
    )
