"""Plans and free-text parameters, scored by a judge."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from otel_agentic.evaluators.base import (
    BuiltInEvaluator,
    JudgeDialogue,
    MetricScore,
    Subject,
    none_of,
)
from otel_agentic.evaluators.layers.calls import ExpectedCalls, comparable, compared
from otel_agentic.evaluators.layers.plan_texts import FEWEST_STEPS
from otel_agentic.evaluators.layers.plans import no_plan, plans_of, texts_of, written_plan
from otel_agentic.evaluators.transcript import json_line, transcript
from otel_agentic.judges.base import JsonLines, JudgeFailure, Question, ReplyForm, Rubric, Verdict, rubric_question
from otel_agentic.judges.prompts import load_rubric
from otel_agentic.scoring.compile import agrees
from otel_agentic.scoring.values import json_text

if TYPE_CHECKING:
    from otel_agentic.scoring.align import PairedCall
    from otel_agentic.scoring.scope import ActualCall

#: Limits: characters of one part of a plan, characters of all parts, and number of tools.
_PART: Final = 4_000
_PLAN: Final = 12_000
_TOOLS: Final = 200
#: Maximum number of steps that a judge extracts.
_STEPS_AT_MOST: Final = 30


def rubric(file: str) -> Rubric:
    """Return a rubric of this family; its score is in [0, 1]."""
    return load_rubric("otel_agentic.evaluators", f"prompts/layers/{file}.md", ReplyForm(kind="score"))


_STEPS: Final = load_rubric(
    "otel_agentic.evaluators", "prompts/layers/plan_steps.md", ReplyForm(kind="texts", most=_STEPS_AT_MOST)
)


class _PlanEvaluator(BuiltInEvaluator, ABC):
    """Asks one question about the plan; subclasses declare name and rubric, and the texts shown with the plan.

    If no plan was recorded as such, the judge first extracts one from the texts that the agent wrote while it worked. All
    evaluators ask this question in the same words, so that it is asked once for a conversation.
    """

    needs = frozenset({"turns", "judge"})
    rubrics: tuple[Rubric, ...]

    @abstractmethod
    def texts(self, subject: Subject) -> tuple[dict[str, str], str]:
        """Return the texts shown with the plan, and a note on shortened ones."""

    def ask(self, subject: Subject) -> JudgeDialogue:
        """Ask about the plan, and return the score, or an abstention if there is no plan or the judge failed."""
        name, plans_by_turn = self.metrics[0].name, plans_of(subject)
        parts = written_plan(subject, plans_by_turn).parts if plans_by_turn else ()
        if not parts:
            written = [(turn.index, text) for turn in subject.conversation.turns for text in texts_of(turn)]
            if not written:
                return [none_of(name, *no_plan(subject))]
            (reply,) = yield [rubric_question(_STEPS, written=_lines(written, "text"))]
            if isinstance(reply, JudgeFailure):
                return [none_of(name, reply.reason, f"its plan was not judged: {reply.message}")]
            steps = list(reply.texts)
            if len(steps) < FEWEST_STEPS:  # an announced next action is not a plan
                return [none_of(name, "no_data", "the judge found no plan of several steps in what the agent wrote")]
            parts = ((written[0][0], steps),)
        texts, note = self.texts(subject)
        (reply,) = yield [rubric_question(self.rubrics[0], plan=_lines(parts, "plan"), **texts)]
        if isinstance(reply, JudgeFailure):
            return [none_of(name, reply.reason, f"was not judged: {reply.message}")]
        details = {} if plans_by_turn else {"extracted_plan": parts[0][1]}
        explanation = f"{reply.reasoning.strip()}{note}"
        return [MetricScore(name=name, value=reply.score, explanation=explanation, details=details)]


class PlanQualityJudged(_PlanEvaluator):
    """Whether the plan is good, according to a judge."""

    name = "layers.plan_quality_judged"
    version = "2"
    rubrics: tuple[Rubric, ...] = (rubric("plan_quality_judged"), _STEPS)

    def texts(self, subject: Subject) -> tuple[dict[str, str], str]:
        """Return the known purpose of the plan."""
        return _purpose(subject), ""


class PlanAdherenceJudged(_PlanEvaluator):
    """Whether the agent followed the plan, according to a judge."""

    name = "layers.plan_adherence_judged"
    version = "2"
    rubrics: tuple[Rubric, ...] = (rubric("plan_adherence_judged"), _STEPS)

    def texts(self, subject: Subject) -> tuple[dict[str, str], str]:
        """Return the conversation."""
        conversation = transcript(subject.conversation.turns)
        return conversation.material, conversation.note


def _lines(parts: Sequence[tuple[int, Any]], key: str) -> JsonLines:
    """Return texts, each with the index of its turn, as lines of JSON; long ones are cut, with a note."""
    lines: list[str] = []
    remaining = _PLAN
    for turn_index, part in parts:
        text = part if isinstance(part, str) else json_line(part)
        limit = min(_PART, remaining)
        if limit <= 0:
            lines.append(json_line({"left_out": len(parts) - len(lines)}))
            break
        line: dict[str, Any] = {"turn": turn_index + 1, key: text[:limit]}
        lines.append(json_line(line if len(text) <= limit else {**line, "characters_left_out": len(text) - limit}))
        remaining -= len(text[:limit])
    return JsonLines("\n".join(lines))


def _purpose(subject: Subject) -> dict[str, str]:
    """Return the known purpose of the plan: queries, goal, tools, the expected plan."""
    queries = [(turn.index, turn.query) for turn in subject.conversation.turns if turn.query is not None]
    texts: dict[str, str] = {"asked": _lines(queries, "user")} if queries else {}
    if subject.conversation.tool_definitions:
        texts["tools"] = json_line(sorted(subject.conversation.tool_definitions)[:_TOOLS])
    case = subject.case
    if case is not None and case.goal is not None:
        texts["goal"] = case.goal
    if case is not None and case.plan is not None:
        texts["expected_plan"] = json_line(list(case.plan))
    return texts


SEMANTICS_JUDGED: Final = "agentic.layers.parameter_semantics_judged"
#: Modes whose texts may differ in wording; the others define equality themselves.
_READ: Final = frozenset({"exact", "casefold", "unordered", "judge"})


class _Text(NamedTuple):
    """A parameter that a judge compares by meaning: two different texts, or one that `match` leaves to a judge.

    `open` is True if it was not compared before.
    """

    pair: PairedCall
    actual: ActualCall
    key: str
    open: bool


class ParametersJudged(BuiltInEvaluator):
    """The agreement of parameters with the expected ones, texts compared by a judge."""

    name = "layers.parameter_semantics_judged"
    needs = frozenset({"turns", "case", "expected_tools", "judge"})
    rubrics: tuple[Rubric, ...] = (rubric("parameter_semantics_judged"),)

    def ask(self, subject: Subject) -> JudgeDialogue:
        """Ask about each text that differs, and return the score."""
        expected = comparable(subject, SEMANTICS_JUDGED)
        if isinstance(expected, MetricScore):
            return [expected]
        texts = list(_texts(expected, numbers_as_text=subject.settings.numbers_as_text))
        replies: Sequence[Verdict | JudgeFailure] = ()
        if texts:
            replies = yield [self._question(subject, text) for text in texts]
        failure = next((reply for reply in replies if isinstance(reply, JudgeFailure)), None)
        if failure is not None:
            return [none_of(SEMANTICS_JUDGED, failure.reason, f"was not judged: {failure.message}")]
        scores = [reply.score for reply in replies if not isinstance(reply, JudgeFailure)]
        return [_score(expected, texts, scores)]

    def _question(self, subject: Subject, text: _Text) -> Question:
        query = next((turn.query for turn in subject.conversation.turns if turn.index == text.actual.turn_index), None)
        return rubric_question(
            self.rubrics[0],
            tool=text.actual.call.name,
            parameter=text.key,
            expected=json_text(text.pair.expected.parameters.values.get(text.key)),
            made=json_text((text.actual.call.arguments or {})[text.key]),
            **({} if query is None else {"query": query}),
        )


def _texts(expected_calls: ExpectedCalls, *, numbers_as_text: bool) -> Iterator[_Text]:
    for pair, actual in expected_calls.paired:
        parameters, arguments = pair.expected.parameters, actual.call.arguments or {}
        for key, rule in pair.expected.call.rules.items():
            if key not in arguments or rule.mode not in _READ:
                continue
            expected_value, actual_value = parameters.values.get(key), arguments[key]
            # The case leaves the parameter to a judge, so no other check applies, regardless of its type.
            left_to_judge = (
                rule.mode == "judge"
                and agrees(expected_value, actual_value, rule, numbers_as_text=numbers_as_text) is None
            )
            if left_to_judge or (
                key in pair.agreement.differing and isinstance(expected_value, str) and isinstance(actual_value, str)
            ):
                yield _Text(pair, actual, key, open=left_to_judge)


def _score(expected_calls: ExpectedCalls, texts: Sequence[_Text], scores: Sequence[float]) -> MetricScore:
    total = sum(pair.agreement.score for pair, _ in expected_calls.paired)
    for text, score in zip(texts, scores, strict=True):
        # In the agreement, a text that was not compared counts 1, and one that differs counts 0.
        total += (score - float(text.open)) / compared(text.pair, text.actual)
    parts = [f"{text.actual.call.name}({text.key}) {score:g}" for text, score in zip(texts, scores, strict=True)]
    details: list[dict[str, Any]] = [
        {
            "tool": text.actual.call.name,
            "turn_index": text.actual.turn_index,
            "parameter": text.key,
            "expected": text.pair.expected.parameters.values.get(text.key),
            "made": (text.actual.call.arguments or {})[text.key],
            "score": score,
        }
        for text, score in zip(texts, scores, strict=True)
    ]
    return MetricScore(
        name=SEMANTICS_JUDGED,
        value=total / expected_calls.required,
        explanation=f"meant the same: {', '.join(parts[:5])}" if parts else "no text differs from the expected one",
        details={"required": expected_calls.required, "judged": details[:20]},
    )
