"""Functions as evaluators: their arguments, their results, and their errors."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest
from inline_snapshot import snapshot

from otel_agentic.config import EvaluatorSettings, ScoringSettings
from otel_agentic.errors import UsageError
from otel_agentic.evaluators import AnyEvaluator, Metric, MetricScore, Subject
from otel_agentic.evaluators.custom import AskingFunctionEvaluator, FunctionEvaluator, evaluator
from otel_agentic.evaluators.registry import chosen
from otel_agentic.judges import JudgeFailure, Question, Verdict
from otel_agentic.judges.base import ReplyForm, Rubric, rubric_question
from otel_agentic.testing import conversation, turn
from tests.evaluators.running import evaluate
from tests.snapshots import passage, raises

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation, Turn

MOOD: Final = Rubric(
    name="house.mood",
    version="1",
    instructions="State the mood of `answer`.",
    form=ReplyForm(kind="label", labels=("calm", "angry")),
)
UNSURE: Final = JudgeFailure(reason="judge_error", message="no reply within 60 s", tries=4)


def subject(*turns: Turn) -> Subject:
    explanation = conversation(
        *(turns or (turn("Where is it?", answer="In the post."), turn("Thanks", answer="Welcome.")))
    )
    return Subject(conversation=explanation, case=None, score=None, aligned={}, settings=ScoringSettings())


def scores_of(
    actual: FunctionEvaluator | AskingFunctionEvaluator, about: Subject, answers: Sequence[object] = ()
) -> list[MetricScore]:
    """Return the scores of a subject after all checks between an evaluator and the store."""
    left = iter(answers)
    selected = chosen(EvaluatorSettings(metrics=("none",)), extra_evaluators=[actual]).evaluators
    (ran,) = evaluate(selected, [about], ask=lambda questions: enumerate([next(left) for _ in questions]))  # type: ignore[misc]
    return list(ran.scores)


def described(scores: Sequence[MetricScore]) -> list[tuple[object, ...]]:
    return [(score.value, score.label, score.reason, score.turn_index) for score in scores]


def test_a_function_of_turns_gives_a_score_a_turn_and_can_be_called_as_before() -> None:
    @evaluator(name="house.brief")
    def brief(turn: Turn) -> bool:
        """Whether the answer is brief.

        Long ones are not read.
        """
        return len(turn.answer or "") < 10

    assert [(0.0, None, None, 0), (1.0, None, None, 1)] == described(scores_of(brief, subject()))
    assert brief(turn("Hi", answer="Hello")) is True
    (metric,) = brief.metrics
    assert (metric.name, metric.title, metric.definition, metric.target) == snapshot(
        ("house.brief", "brief", "Whether the answer is brief.", "turn")
    )
    assert (True, frozenset()) == (brief.default, brief.needs)


def test_a_function_of_a_conversation_or_of_a_subject_gives_one() -> None:
    @evaluator(low=0, high=None)
    def turns(conversation: Conversation) -> int:
        return len(conversation.turns)

    @evaluator(labels=("reviewed", "wild"), failing=frozenset({"wild"}))
    def annotated(subject: Subject) -> str:
        return "wild" if subject.case is None else "reviewed"

    assert [(2.0, None, None, None)] == described(scores_of(turns, subject()))
    assert [(None, "wild", None, None)] == described(scores_of(annotated, subject()))
    assert "turns" == turns.name


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        (0.25, [(0.25, None, None, None)]),
        (1, [(1.0, None, None, None)]),
        (False, [(0.0, None, None, None)]),
        ("calm", [(None, "calm", None, None)]),
        (MetricScore(name="house.any", value=1.0, label="calm"), [(1.0, "calm", None, None)]),
        (None, [(None, None, "no_data", None)]),
        (UNSURE, [(None, None, "judge_error", None)]),
        ([0.5, "calm"], [(0.5, None, None, None), (None, "calm", None, None)]),
        ([None, True], [(None, None, "no_data", None), (1.0, None, None, None)]),
        ((item for item in (0.5, 0.75)), [(0.5, None, None, None), (0.75, None, None, None)]),
        ([], [(None, None, "no_data", None)]),
    ],
)
def test_what_a_function_may_return(returned: object, expected: list[tuple[object, ...]]) -> None:
    @evaluator(name="house.any", labels=("calm", "angry"))
    def any_of(subject: Subject) -> Any:
        return returned

    assert expected == described(scores_of(any_of, subject()))


@pytest.mark.parametrize(
    ("returned", "explanation"),
    [
        (float("nan"), "metric 'house.any' has the value nan, which is not a finite number"),
        (1.5, "metric 'house.any' has the value 1.5, outside the range 0 to 1"),
        ("furious", "metric 'house.any' has the label 'furious'; allowed: calm, angry"),
        (MetricScore(name="house.any"), "metric 'house.any' has neither a value nor a label, and no reason why"),
        (MetricScore(name="house.other", value=1.0), "metric 'house.other' is not one of its declared metrics"),
        (b"calm", "failed at conversation conversation-1: TypeError: it returned bytes; allowed: a number"),
        (object(), "TypeError: it returned object; allowed: a number, True or False, one of its labels"),
        (Verdict(score=1.0, reasoning=""), "TypeError: it returned Verdict; allowed"),
        ({"calm": 1.0}, "TypeError: it returned dict; allowed: a number"),
    ],
)
def test_what_breaks_the_contract_is_an_abstention_that_says_so(returned: object, explanation: str) -> None:
    @evaluator(name="house.any", labels=("calm", "angry"), low=0, high=1)
    def any_of(subject: Subject) -> Any:
        return returned

    (score,) = scores_of(any_of, subject())

    assert (None, None, "no_data") == (score.value, score.label, score.reason)
    assert "evaluator house.any" in score.explanation
    assert explanation in score.explanation


def test_details_of_a_user_are_never_taken_for_faults_of_the_evaluator() -> None:
    @evaluator(name="house.brief")
    def brief(turn: Turn) -> MetricScore:
        return MetricScore(name="house.brief", value=1.0, details={"fault": "none that I know of"})

    (ran,) = evaluate([brief], [subject(turn("a", answer="short"))])

    assert () == ran.faults


def test_where_it_raises_the_other_turns_keep_their_scores() -> None:
    @evaluator(name="house.brief")
    def brief(turn: Turn) -> bool:
        return len(turn.answer) < 10  # type: ignore[arg-type]  # the mistake

    about = subject(turn("a", answer="short"), turn("b", answer=None), turn("c", answer="much too long"))
    scores = scores_of(brief, about)

    assert [(1.0, None, None, 0), (None, None, "no_data", 1), (0.0, None, None, 2)] == described(scores)
    assert scores[1].explanation == snapshot(
        "evaluator house.brief failed at turn 2 of conversation conversation-1: TypeError: object of type 'NoneType' has no len()"
    )


def test_what_a_function_does_not_say_of_its_metric_is_filled_in() -> None:
    @evaluator(labels=("calm", "angry"))
    def which_mood(turn: Turn) -> str:
        return "calm"

    (metric,) = which_mood.metrics
    assert ("which mood", None, None) == (metric.title, metric.low, metric.high)
    assert metric.definition.startswith("What ")
    assert metric.source.endswith("which_mood")


def test_what_was_given_before_it_raised_counts() -> None:
    metrics = (_metric("house.first"), _metric("house.second"))

    @evaluator(name="house.two", metrics=metrics)
    def two(subject: Subject) -> Iterator[MetricScore]:
        yield MetricScore(name="house.first", value=1.0)
        raise KeyError("second")

    first, second = scores_of(two, subject())

    assert (1.0, None) == (first.value, first.reason)
    assert ("house.second", None, "no_data") == (second.name, second.value, second.reason)
    assert "KeyError: 'second'" in second.explanation


def test_of_several_metrics_a_plain_number_is_of_none() -> None:
    @evaluator(name="house.two", metrics=(_metric("house.first"), _metric("house.second")))
    def two(subject: Subject) -> float:
        return 1.0

    assert ["no_data", "no_data"] == [score.reason for score in scores_of(two, subject())]


def test_a_turn_that_lacks_what_the_function_needs_is_abstained_from_alone() -> None:
    questions: list[int] = []

    @evaluator(name="house.brief", needs={"answers"})
    def brief(turn: Turn) -> bool:
        questions.append(turn.index)
        return True

    about = subject(turn("a", answer="short"), turn("b", answer=None, answer_captured=False))
    scores = scores_of(brief, about)

    assert [(1.0, None, None, 0), (None, None, "content_not_captured", 1)] == described(scores)
    assert passage(scores[1].explanation) == snapshot("the answer of turn 2 was not recorded")
    assert [0] == questions


def _metric(name: str) -> Metric:
    return Metric(name=name, title="T", definition="D", source="S", target="conversation")


@evaluator(name="house.mood", rubrics=(MOOD,), labels=("calm", "angry"), failing=frozenset({"angry"}))
def mood(turn: Turn) -> Generator[list[Question], list[Verdict | JudgeFailure], object]:
    """In which mood the agent answers."""
    (answer,) = yield [rubric_question(MOOD, answer=turn.answer or "")]
    return answer if isinstance(answer, JudgeFailure) else answer.label


def test_a_generator_function_asks_about_all_turns_together() -> None:
    rounds: list[list[str]] = []

    def ask(questions: Sequence[Question]) -> Iterator[tuple[int, Verdict | JudgeFailure]]:
        rounds.append([dict(question.material)["answer"] for question in questions])
        yield 1, UNSURE
        yield 0, Verdict(score=0.0, reasoning="It shouts.", label="angry")

    (ran,) = evaluate([mood], [subject()], ask)

    assert [["In the post.", "Welcome."]] == rounds
    assert [(None, "angry", None, 0), (None, None, "judge_error", 1)] == described(ran.scores)
    assert "no reply within 60 s" == ran.scores[1].explanation
    assert (False, {"judge"}) == (mood.default, set(mood.needs))


def test_turns_that_ask_a_different_number_of_times_get_their_own_answers() -> None:
    @evaluator(name="house.times", rubrics=(MOOD,), high=10)
    def times(turn: Turn) -> Generator[list[Question], list[Verdict | JudgeFailure], object]:
        received = []
        for number in range(turn.index + 1):
            answers = yield [rubric_question(MOOD, answer=f"{turn.index} {number} {item}") for item in range(2)]
            received += [answer.label for answer in answers if isinstance(answer, Verdict)]
        return [item == f"of {turn.index}" for item in received]

    def ask(questions: Sequence[Question]) -> Iterator[tuple[int, Verdict | JudgeFailure]]:
        for number, question in enumerate(questions):
            yield number, Verdict(score=0.0, reasoning="", label=f"of {question.material[0][1][0]}")

    (ran,) = evaluate([times], [subject()], ask)
    assert [(1.0, 0)] * 2 + [(1.0, 1)] * 4 == [(score.value, score.turn_index) for score in ran.scores]


def test_a_function_that_asks_and_raises_has_abstained_in_that_turn() -> None:
    @evaluator(name="house.mood", rubrics=(MOOD,), labels=("calm", "angry"))
    def careless(turn: Turn) -> Generator[list[Question], list[Any], object]:
        (answer,) = yield [rubric_question(MOOD, answer=turn.answer or "")]
        return answer.label

    scores = scores_of(careless, subject(), [UNSURE, Verdict(score=0.0, reasoning="", label="calm")])

    assert [(None, None, "no_data", 0), (None, "calm", None, 1)] == described(scores)
    assert "AttributeError" in scores[0].explanation


def test_the_version_changes_with_the_code_unless_one_is_given() -> None:
    def brief(turn: Turn) -> bool:
        return len(turn.answer or "") < 10

    def briefer(turn: Turn) -> bool:
        return len(turn.answer or "") < 5

    actual = evaluator()
    assert actual(brief).version == actual(brief).version != actual(briefer).version
    assert "7" == evaluator(version="7")(brief).version


def test_an_entry_point_may_name_the_decorated_function() -> None:
    actual: AnyEvaluator = mood.from_settings(EvaluatorSettings())
    assert ("house.mood", mood.version, mood.metrics) == (actual.name, actual.version, actual.metrics)


def _nothing() -> float:
    return 1.0


def _unsaid(subject) -> float:  # type: ignore[no-untyped-def]  # the mistake
    return 1.0


def _two(subject: Subject, other: int) -> float:
    return 1.0


def _strange(subject: dict[str, int]) -> float:
    return 1.0


def _certain(subject: Subject) -> float:
    return 1.0


async def _waits(subject: Subject) -> float:
    return 1.0


@pytest.mark.parametrize("function", [_nothing, _unsaid, _two, _strange])
def test_a_function_that_does_not_say_what_it_takes_is_refused(function: Any) -> None:
    with raises(
        UsageError,
        snapshot(
            "evaluator house.any: the function must take one argument, annotated with one of: Subject, Conversation, Turn; as in def <name>(turn: Turn)"
        ),
        name=function.__name__,
    ):
        evaluator(name="house.any")(function)


def test_async_functions_and_unused_rubrics_are_refused() -> None:
    with raises(UsageError, snapshot("evaluator _waits: async functions are not supported")):
        evaluator()(_waits)
    with raises(UsageError, snapshot("it has rubrics and yields no questions")):
        evaluator(rubrics=(MOOD,))(_certain)
    with raises(UsageError, snapshot("set low on the metrics, not next to them")):
        evaluator(metrics=(_metric("house.first"),), low=0.5)(_certain)


class _Brief:
    def __call__(self, turn: Turn) -> bool:
        return len(turn.answer or "") < 10


class _Waiting:
    async def __call__(self, turn: Turn) -> bool:
        return bool(turn.answer)


def _brief(turn: Turn, most: int = 10) -> bool:
    return len(turn.answer or "") < most


_METHOD: Final[Any] = classmethod(_brief)  # type: ignore[arg-type]  # the mistake


@pytest.mark.parametrize("function", [_Brief(), partial(_brief, most=5)])
def test_what_is_called_like_a_function_is_one_under_a_name(function: Any) -> None:
    assert [(0.0, None, None, 0), (1.0, None, None, 1)] == described(
        scores_of(evaluator(name="house.brief")(function), subject(turn("Hi", "x" * 10), turn("Hi", "Hi")))
    )
    with raises(UsageError, snapshot("has no name: give one, as in name='house.brief'")):
        evaluator()(function)


@pytest.mark.parametrize(
    ("function", "explanation"),
    [
        (_Waiting(), "async functions are not supported"),
        (partial(_waits), "async functions are not supported"),
        (_METHOD, "evaluator house.any: a classmethod is not called with one argument; give a function"),
    ],
)
def test_an_object_that_does_not_take_one_argument_is_refused(function: Any, explanation: str) -> None:
    with pytest.raises(UsageError, match=explanation):
        evaluator(name="house.any")(function)


def test_material_that_is_no_text_is_the_evaluators_fault_and_no_question() -> None:
    @evaluator(name="house.mood", rubrics=(MOOD,), labels=("calm", "angry"))
    def careless(turn: Turn) -> Generator[list[Question], list[Any], object]:
        (answer,) = yield [rubric_question(MOOD, answer=turn.answer)]  # type: ignore[arg-type]  # the mistake
        return answer.label

    scores = scores_of(careless, subject(turn("Hi", None)), [])

    assert [(None, None, "no_data", 0)] == described(scores)
    assert passage(scores[0].explanation) == snapshot("the material 'answer' is NoneType; allowed: texts")


def test_material_may_have_any_name() -> None:
    assert (("rubric", "kind"),) == rubric_question(MOOD, rubric="kind").material


def test_a_malformed_question_fails_its_turn_only() -> None:
    @evaluator(name="house.mood", rubrics=(MOOD,), labels=("calm", "angry"))
    def careless(turn: Turn) -> Generator[Any, list[Any], object]:
        question = rubric_question(MOOD, answer=turn.answer or "")
        (answer,) = yield question if turn.index == 0 else [question]
        return answer.label

    scores = scores_of(careless, subject(), [Verdict(score=0.0, reasoning="", label="calm")])

    assert [(None, None, "no_data", 0), (None, "calm", None, 1)] == described(scores)
    assert passage(scores[0].explanation) == snapshot("TypeError: it yields a Question; allowed: lists of Question")
