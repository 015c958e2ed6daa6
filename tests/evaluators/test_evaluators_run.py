"""The driver: every evaluator leaves something of every conversation, and a failing one does not affect others."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from otel_agentic.config import ScoringSettings
from otel_agentic.evaluators.base import JudgeDialogue, MetricScore, Subject
from otel_agentic.judges import JudgeFailure, Verdict
from otel_agentic.judges.base import rubric_question
from otel_agentic.testing import conversation, tool_call, turn
from tests.evaluators.own import POLITE, Asker, Plain
from tests.evaluators.running import evaluate
from tests.snapshots import opening

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Turn
    from otel_agentic.judges import Question


def about(*turns: Turn, **changes: Any) -> Subject:
    return Subject(
        conversation=conversation(*turns, **changes), case=None, score=None, aligned={}, settings=ScoringSettings()
    )


HI = about(turn("hi", "Hello."))


def reasons(scores: Sequence[MetricScore]) -> list[tuple[str, str | None]]:
    return [(score.name, score.reason) for score in scores]


def test_each_evaluator_says_something_of_each_conversation() -> None:
    silent = about(turn("hi", answer=None))

    results = list(evaluate([Plain(), Plain(name="second")], [HI, silent]))

    assert [(0, "length"), (0, "second"), (1, "length"), (1, "second")] == [
        (ran.subject_index, ran.evaluator.name) for ran in results
    ]
    assert [("length.characters", 6.0, None), ("length.kind", None, "short")] == [
        (score.name, score.value, score.label) for score in results[0].scores
    ]
    assert [("length.characters", "no_data"), ("length.kind", "no_data")] == reasons(results[2].scores)
    assert results[2].scores[0].explanation == snapshot("turn 1 has no answer")


def test_missing_data_is_reported_without_running_the_evaluator() -> None:
    plain = Plain()

    (ran,) = evaluate([plain], [about(turn("hi", answer=None, answer_captured=False))])

    assert [] == plain.known
    assert [("length.characters", "content_not_captured"), ("length.kind", "content_not_captured")] == reasons(
        ran.scores
    )


def test_an_evaluator_that_says_nothing_has_abstained_from_all_of_its_metrics() -> None:
    (ran,) = evaluate([Plain(say=lambda _: [])], [HI])

    assert [("length.characters", "no_data"), ("length.kind", "no_data")] == reasons(ran.scores)
    assert () == ran.faults


def raises(_: Subject) -> list[MetricScore]:
    raise ValueError("no\nsuch thing")


def stops_halfway(_: Subject) -> Iterator[MetricScore]:
    yield MetricScore(name="length.characters", value=1.0, turn_index=0)
    raise KeyError("x")


def ends_the_process(_: Subject) -> list[MetricScore]:
    sys.exit(0)


def is_cancelled(_: Subject) -> list[MetricScore]:
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("say", "kind"),
    [
        (raises, "ValueError"),
        (stops_halfway, "KeyError"),
        (lambda _: 1 / 0, "ZeroDivisionError"),
        (ends_the_process, "SystemExit"),
        (is_cancelled, "CancelledError"),
    ],
)
def test_an_evaluator_that_raises_has_abstained_and_the_others_go_on(say: Any, kind: str) -> None:
    broken, sound = evaluate([Plain(say=say), Plain(name="sound")], [HI])

    assert [("length.characters", "no_data"), ("length.kind", "no_data")] == reasons(broken.scores)
    assert broken.scores[0].explanation.startswith(f"evaluator length failed: {kind}")
    assert (f"evaluator length failed: {kind}",) == broken.faults
    assert [("length.characters", None), ("length.kind", None)] == reasons(sound.scores)


def characters(**changes: Any) -> MetricScore:
    return MetricScore(**{"name": "length.characters", "turn_index": 0, **changes})


@pytest.mark.parametrize(
    ("broken", "explanation"),
    [
        (characters(value=float("nan")), "has the value nan, which is not a finite number"),
        (characters(value=float("inf")), "has the value inf, which is not a finite number"),
        (characters(value="many"), "has the value 'many', which is not a finite number"),
        (characters(value=-1.0), "has the value -1, outside the range 0 to inf"),
        (characters(label="good"), "has the label 'good'; allowed: none"),
        (characters(), "has neither a value nor a label, and no reason why"),
        (characters(reason="tired"), "has neither a value nor a label, and no reason why"),
        (characters(value=1.0, turn_index=1), "refers to turn 1 (0-based), which does not exist"),
        (characters(value=1.0, turn_index=None, position=0), "names a call (position 0) without its turn"),
        (characters(value=1.0, position=1), "refers to call 1 (0-based) of turn 0, which does not exist"),
        (MetricScore(name="length.kind", label="huge"), "has the label 'huge'; allowed: short, long"),
        (characters(value=10**400), "which is not a finite number"),
        (characters(value=10**5000), "which is not a finite number"),
        (characters(reason=["tired"]), "has neither a value nor a label, and no reason why"),
        (characters(value=1.0, turn_index="0"), "has the turn_index '0', which is not an integer"),
        (characters(value=1.0, position=0.0), "has the position 0.0, which is not an integer"),
        (characters(value=1.0, tool_name=["book"]), "has tool_name of type list; expected text"),
        (characters(value=1.0, explanation=5), "has explanation of type int; expected text"),
        (characters(value=1.0, details=None), "has details of type NoneType; expected a mapping"),
        (characters(value=1.0, details={"a": 2**80}), "has details that JSON cannot hold"),
        (characters(value=1.0, details={"a": "\ud800"}), "has details that JSON cannot hold"),
    ],
)
def test_a_score_that_breaks_the_contract_is_an_abstention_and_the_sound_ones_stay(
    broken: MetricScore, explanation: str
) -> None:
    sound = MetricScore(name="length.kind", label="short")

    (ran,) = evaluate([Plain(say=lambda _: [broken, sound])], [about(turn("hi", "Hello.", tool_call()))])

    assert [(broken.name, "no_data"), ("length.kind", None)] == reasons(ran.scores)
    assert explanation in ran.scores[0].explanation
    assert (ran.scores[0].explanation,) == ran.faults
    assert ran.scores[0].abstained


def test_half_a_character_harms_no_other_score() -> None:
    stated = characters(value=1.0, explanation="half: \ud800", tool_name="\udfff")

    (ran,) = evaluate([Plain(say=lambda _: [stated])], [HI])

    assert [("half: ?", "?")] == [(score.explanation, score.tool_name) for score in ran.scores]
    assert () == ran.faults


@pytest.mark.parametrize(
    "unknown",
    [
        MetricScore(name="width", value=1.0),
        MetricScore(name=["width"], value=1.0),  # type: ignore[arg-type]
        0.7,
        None,
        {"name": "length.kind"},
    ],
)
def test_a_score_of_an_unknown_metric_is_dropped_and_reported(unknown: object) -> None:
    (alone,) = evaluate([Plain(say=lambda _: [unknown])], [HI])
    (remaining,) = evaluate([Plain(say=lambda _: [unknown, MetricScore(name="length.kind", label="long")])], [HI])

    assert [("length.characters", "no_data"), ("length.kind", "no_data")] == reasons(alone.scores)
    assert [("length.kind", None)] == reasons(remaining.scores)
    assert 1 == len(alone.faults) == len(remaining.faults)


def test_a_score_that_breaks_the_contract_keeps_its_place() -> None:
    two = about(turn("a", "b"), turn("c", "d"))

    (ran,) = evaluate([Plain(say=lambda _: [characters(value=-1.0, turn_index=1)])], [two])

    assert [(1, "no_data")] == [(score.turn_index, score.reason) for score in ran.scores]


def test_the_last_bits_of_a_sum_are_no_breach() -> None:
    (ran,) = evaluate([Plain(say=lambda _: [characters(value=-1e-12)])], [HI])

    assert () == ran.faults


# Those that ask


class Script:
    """Answers by the content of the question, in an order of its own, and records each round."""

    def __init__(self, rude: str = "rude", *, deaf: str = "nobody") -> None:
        self.rounds: list[list[str]] = []
        self.rude = rude
        self.deaf = deaf

    def __call__(self, questions: Sequence[Question]) -> Iterator[tuple[int, Verdict | JudgeFailure]]:
        texts = [dict(question.material)["answer"] for question in questions]
        self.rounds.append(texts)
        for number in reversed(range(len(texts))):
            if self.deaf in texts[number]:
                continue
            label = "no" if texts[number].startswith(self.rude) else "yes"
            yield number, Verdict(score=0.0, reasoning="it is so", label=label)


def index_and_labels(ran: Any) -> tuple[int, list[str | None]]:
    return ran.subject_index, [score.label for score in ran.scores]


def test_everything_is_asked_together_each_question_once() -> None:
    script = Script()
    subjects = [about(turn("a", "one"), turn("b", "rude two")), about(turn("a", "one")), about(turn("c", "three"))]

    results = list(evaluate([Asker()], subjects, script))

    assert [["one", "rude two", "three"]] == script.rounds
    assert {0: ["yes", "no"], 1: ["yes"], 2: ["yes"]} == dict(map(index_and_labels, results))


def test_a_conversation_goes_on_as_soon_as_its_own_answers_are_in() -> None:
    given: list[int] = []

    def ask(questions: Sequence[Question]) -> Iterator[tuple[int, Verdict]]:
        for number in range(len(questions)):
            given.append(number)
            yield number, Verdict(score=0.0, reasoning="", label="yes")

    known = [
        (ran.subject_index, len(given))
        for ran in evaluate([Asker()], [about(turn("a", f"answer {n}")) for n in range(3)], ask)
    ]

    assert [(0, 1), (1, 2), (2, 3)] == known


def test_what_an_answer_raises_is_asked_in_another_round() -> None:
    script = Script()

    results = list(evaluate([Asker(again=True)], [about(turn("a", "kind")), about(turn("a", "rude"))], script))

    assert [["kind", "rude"], ["once more: rude"]] == script.rounds
    assert {0: ["yes"], 1: ["yes"]} == dict(map(index_and_labels, results))


def test_whose_questions_are_not_all_answered_is_left_out() -> None:
    script = Script(deaf="silence")

    results = list(
        evaluate([Asker()], [about(turn("a", "one"), turn("b", "silence")), about(turn("a", "one"))], script)
    )

    assert {1: ["yes"]} == dict(map(index_and_labels, results))


def test_a_failure_of_the_judge_is_the_evaluators_to_tell() -> None:
    failure = JudgeFailure(reason="judge_error", message="timeout")

    (ran,) = evaluate([Asker()], [HI], lambda questions: enumerate([failure] * len(questions)))

    assert [("manners.polite", "judge_error")] == reasons(ran.scores)
    assert () == ran.faults


def test_nothing_is_asked_where_something_is_lacking() -> None:
    script = Script()

    (ran,) = evaluate([Asker()], [about(turn("hi", answer=None))], script)

    assert ([], [("manners.polite", "no_data")]) == (script.rounds, reasons(ran.scores))


class Misbehaving(Asker):
    """Asks in a way that is not one."""

    def __init__(self, way: Any) -> None:
        super().__init__()
        self.way = way

    def ask(self, subject: Subject) -> JudgeDialogue:
        requests: JudgeDialogue = self.way(subject)
        return requests


def raising(_: Subject) -> Any:
    yield []
    raise ValueError("what now")


def texting(_: Subject) -> Any:
    yield ["Is it polite?"]


def returning_nothing(_: Subject) -> Any:
    yield []


def returning_text(_: Subject) -> Any:
    yield []
    return "fine"


def endless(_: Subject) -> Any:
    number = 0
    while True:
        number += 1
        yield [q(f"question {number}")]


def empty(_: Subject) -> Any:
    while True:
        yield []


def q(text: str) -> Question:
    return rubric_question(POLITE, answer=text)


@pytest.mark.parametrize(
    "way", [raising, texting, returning_nothing, returning_text, lambda _: [1], lambda _: None, endless, empty]
)
def test_an_asking_evaluator_that_misbehaves_has_abstained_and_the_others_go_on(way: Any) -> None:
    results = {ran.evaluator.name: ran for ran in evaluate([Misbehaving(way), Plain()], [HI], Script())}

    assert [("manners.polite", "no_data")] == reasons(results["manners.polite"].scores)
    assert opening(results["manners.polite"].faults[0]) == snapshot("evaluator manners.polite failed: ")
    assert () == results["length"].faults


def test_a_round_without_questions_is_answered_at_once() -> None:
    def way(_: Subject) -> Any:
        stated = yield []
        return [MetricScore(name="manners.polite", label="yes", explanation=str(len(stated)))]

    script = Script()
    (ran,) = evaluate([Misbehaving(way)], [HI], script)

    assert ([], "0") == (script.rounds, ran.scores[0].explanation)


def test_thousands_of_questions_are_in_flight_at_once() -> None:
    script = Script()
    subjects = [about(turn("a", f"answer {number}")) for number in range(2_000)]

    results = Counter(ran.subject_index for ran in evaluate([Asker()], subjects, script))

    assert ([2_000], 2_000) == ([len(texts) for texts in script.rounds], len(results))
