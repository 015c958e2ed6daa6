"""The tool scores of a conversation, and the questions that they put to a judge."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from otel_agentic.judges.base import JudgeFailure, Question, Verdict
from otel_agentic.scoring.align import ToolRules
from otel_agentic.scoring.compile import NO_VERDICTS
from otel_agentic.scoring.dimensions import overall_score, score_tools
from otel_agentic.scoring.model import scope_of
from otel_agentic.scoring.utilization import Use

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_agentic.config import ScoringSettings
    from otel_agentic.conversations.model import Turn
    from otel_agentic.judges.base import QuestionKind
    from otel_agentic.scoring.align import SortedCalls
    from otel_agentic.scoring.model import ActualCall, Dimension, NotEvaluatedReason, Scope, ToolScore
    from otel_agentic.scoring.values import Texts
    from otel_agentic.truth.model import Case, ExpectedCall, ToolExpectation

#: Characters of one text in a question; the settings of the judge may cut it further.
_SHOWN_CHARACTERS: Final = 20_000
#: A score this close to the threshold reaches it: scores may be means.
ROUNDING: Final = 1e-9


class JudgedVerdicts:
    """The opinions of a judge of those kinds, as far as its verdicts are known (see `opinions.ToolVerdicts`).

    `questions` are the questions that had no verdict yet, each once, in order. `silence` is why there is no opinion.
    """

    def __init__(
        self,
        kinds: frozenset[QuestionKind],
        threshold: float,
        verdicts: Mapping[Question, Verdict | JudgeFailure] | None = None,
    ) -> None:
        """Store the known verdicts.

        Args:
            kinds: the questions that the judge accepts.
            threshold: the score, in [0, 1], that means yes.
            verdicts: its verdicts.
        """
        self._kinds = kinds
        self._threshold = threshold
        self._verdicts = verdicts or {}
        self._silences: set[NotEvaluatedReason] = set()
        self._verdicts_by_question: dict[tuple[int, tuple[int, int, int], str], Mapping[str, Any]] = {}
        self.questions: dict[Question, None] = {}

    @property
    def silence(self) -> NotEvaluatedReason:
        """Why there is no opinion: the judge failed, is unsure or was not asked, or it takes no such questions."""
        order: tuple[NotEvaluatedReason, ...] = ("judge_error", "budget_exhausted", "judge_unsure")
        return next((reason for reason in order if reason in self._silences), "no_data")

    def evidence(self, calls: SortedCalls) -> list[Mapping[str, Any]]:
        """Return the judge's verdicts on the parameters of paired calls, one record per parameter."""
        result = (
            self._verdicts_by_question.get((id(pair.expected.call), calls.actual[pair.place].place, key))
            for pair in (*calls.pairs, *calls.excused)
            for key in pair.expected.call.rules
        )
        return [record for record in result if record is not None]

    def parameter(self, expected: ExpectedCall, key: str, actual: ActualCall) -> bool | None:
        """Return whether an actual parameter means the same as the expected one, None if unknown."""
        if "parameter" not in self._kinds:
            return None
        arguments = actual.call.arguments or {}
        question = Question(
            kind="parameter",
            query=f"tool {expected.tool_name}, parameter {key}",
            expected=_json_of(expected.parameters.get(key)),
            answer=_json_of(arguments.get(key)),
            threshold=self._threshold,
        )
        verdict = self._verdict(question)
        if verdict is None:
            return None
        agrees = self._reaches(verdict)
        # The same pair may be looked at more than once, and under several alternatives.
        self._verdicts_by_question[id(expected), actual.place, key] = _record(
            expected, key, actual, verdict, agrees=agrees
        )
        return agrees

    def used(self, actual: ActualCall, later: Sequence[ActualCall], texts: Texts) -> Use | None:
        """Return whether the judge considers the result of a call used, None if unknown."""
        if "utilization" not in self._kinds:
            return None
        question = use_question(actual, later, texts, self._threshold)
        verdict = None if question is None else self._verdict(question)
        if verdict is None:
            return None
        used = self._reaches(verdict)
        note = f"the judge scores its use {verdict.score:.2f}, threshold {self._threshold:g}: {verdict.reasoning}"
        return Use(score=float(used), how="judge", note=note)

    def _verdict(self, question: Question) -> Verdict | None:
        known = self._verdicts.get(question)
        if known is None:
            self.questions[question] = None
        elif isinstance(known, JudgeFailure):
            self._silences.add(known.reason)
        elif known.unsure:
            self._silences.add("judge_unsure")
        else:
            return known
        return None

    def _reaches(self, verdict: Verdict) -> bool:
        return verdict.score >= self._threshold - ROUNDING


def use_question(actual: ActualCall, later: Sequence[ActualCall], texts: Texts, threshold: float) -> Question | None:
    """Return the question whether a result was used, None without later answers or calls, or for an empty result."""
    result = _text_of(actual.call.result) if actual.call.result_captured else ""
    stated = [text.raw for _, text in texts.answers_after(actual)]
    done = [f"later call {call.call.name}: {_text_of(call.call.arguments)}" for call in later]
    if result in {"", "null", '""', "[]", "{}"} or not (stated or done):
        return None
    return Question(
        kind="utilization",
        query=f"tool {actual.call.name}, called with {_text_of(actual.call.arguments)}",
        expected=result,
        answer="\n".join((*stated, *done))[:_SHOWN_CHARACTERS],
        threshold=threshold,
    )


def wants_opinions(case: Case, kinds: frozenset[QuestionKind]) -> bool:
    """Return whether scoring the tools of a case may ask a judge anything of these kinds."""
    if "utilization" in kinds:
        return True
    calls = (
        call
        for tools in (case.tools, *(turn.tools for turn in case.turns))
        if tools is not None
        for item in (tools, *tools.alternatives)
        for call in item.calls
    )
    return "parameter" in kinds and any(rule.mode == "judge" for call in calls for rule in call.rules.values())


def kinds_wanted(kinds: frozenset[QuestionKind], settings: ScoringSettings) -> frozenset[QuestionKind]:
    """Return the questions that a judge is asked, of those that it takes."""
    return kinds if settings.judged_utilization else kinds - {"utilization"}


def _text_of(value: Any) -> str:
    """Return a text as it is, any other value as JSON, cut to what a judge is shown."""
    return value[:_SHOWN_CHARACTERS] if isinstance(value, str) else _json_of(value)


def _json_of(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, sort_keys=True, default=repr)
    except (RecursionError, TypeError, ValueError):
        text = "a value that cannot be shown"
    return text[:_SHOWN_CHARACTERS]


def _record(expected: ExpectedCall, key: str, actual: ActualCall, verdict: Verdict, *, agrees: bool) -> dict[str, Any]:
    return {
        "tool": expected.tool_name,
        "turn_index": actual.turn_index,
        "position": actual.call.position,
        "span_id": actual.call.span_id,
        "parameter": key,
        "score": verdict.score,
        "agrees": agrees,
        "how": "judge",
        "explanation": verdict.reasoning,
    }


#: Turn, step and position of a call.
CallKey: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolJudge:
    """A judge of tool questions: the questions that it accepts, and its verdicts."""

    kinds: frozenset[QuestionKind]
    threshold: float
    verdicts: Mapping[Question, Verdict | JudgeFailure] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolScores:
    """The tool scores of a conversation: by turn index, and of the whole. `questions` are the open questions for a judge."""

    turns: Mapping[int, ToolScore]
    conversation: ToolScore | None
    questions: tuple[Question, ...] = ()


def tool_scores(
    case: Case,
    turns: Sequence[Turn],
    aligned: Mapping[int, int],
    settings: ScoringSettings,
    requests: ToolJudge | None = None,
) -> ToolScores:
    """Return the tool scores of a conversation.

    A call expected by a turn is not an extra call of the conversation, and vice versa.

    Args:
        case: its case.
        turns: its turns.
        aligned: turn index -> case turn index.
        settings: defaults for cases without own values.
        requests: the judge; None: only the data decide.
    """
    scorer = _Scorer(rules=ToolRules.of(case, settings), judge=requests, turns=turns)
    expected = dict(_expectations(case, turns, aligned))
    results = {index: scorer.score(*group) for index, group in expected.items()}
    if case.tools is None:
        return ToolScores(turns=results, conversation=None, questions=tuple(scorer.questions))
    scope = scope_of(turns, turn_index=None)
    total = scorer.score(case.tools, scope)
    of_whole, of_turns = _asked_for(total), frozenset[CallKey]().union(*map(_asked_for, results.values()))
    return ToolScores(
        turns={index: scorer.without(of_whole, results[index], *group) for index, group in expected.items()},
        conversation=scorer.without(of_turns, total, case.tools, scope),
        questions=tuple(scorer.questions),
    )


def _expectations(
    case: Case, turns: Sequence[Turn], aligned: Mapping[int, int]
) -> Iterator[tuple[int, tuple[ToolExpectation, Scope]]]:
    """Yield the index of each turn with an expectation of its own, the expectation and its scope."""
    for number, turn in enumerate(turns):
        index = aligned.get(turn.index)
        expectation = None if index is None else case.turns[index].tools
        if expectation is not None:
            yield turn.index, (expectation, scope_of([turn], turn_index=turn.index, earlier=turns[:number]))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scorer:
    """Scores expectations; collects the questions for a judge in `questions`."""

    rules: ToolRules
    judge: ToolJudge | None
    turns: Sequence[Turn]
    questions: dict[Question, None] = field(default_factory=dict)

    def score(self, expectation: ToolExpectation, scope: Scope) -> ToolScore:
        """Return the score of an expectation."""
        if self.judge is None:
            return score_tools(expectation, scope, self.rules, NO_VERDICTS)
        verdicts = JudgedVerdicts(self.judge.kinds, self.judge.threshold, self.judge.verdicts)
        score = score_tools(expectation, scope, self.rules, verdicts)
        self.questions.update(verdicts.questions)
        by_judge = [] if score.calls is None else verdicts.evidence(score.calls)
        return score._replace(judged=by_judge) if by_judge else score

    def without(
        self, indices: frozenset[CallKey], score: ToolScore, expectation: ToolExpectation, scope: Scope
    ) -> ToolScore:
        """Return the score, computed again if calls with these indices were extra to it."""
        beyond = [actual for actual in _extra(score) if actual.place in indices]
        return self.score(expectation, self._aside(scope, beyond)) if beyond else score

    def _aside(self, scope: Scope, beyond: Sequence[ActualCall]) -> Scope:
        """Return a scope without some calls, which may still explain what an answer states, as earlier turns may."""
        indices = {actual.place for actual in beyond}
        known = (
            replace(
                turn,
                query=None,
                answer=None,
                calls=tuple(actual.call for actual in beyond if actual.turn_index == turn.index),
            )
            for turn in self.turns
        )
        retained = tuple(actual for actual in scope.calls if actual.place not in indices)
        return replace(scope, calls=retained, earlier=(*scope.earlier, *known))


def _asked_for(score: ToolScore) -> frozenset[CallKey]:
    """Return the places of the calls that an expectation asked for."""
    calls = score.calls
    if calls is None:
        return frozenset()
    return frozenset(calls.actual[pair.place].place for pair in (*calls.pairs, *calls.excused))


def _extra(score: ToolScore) -> list[ActualCall]:
    """Return the calls that an expectation neither asked for nor forbids by name."""
    calls = score.calls
    return [] if calls is None else [calls.actual[index] for index, _ in calls.extra if index not in calls.forbidden]


def await_missing_calls(
    score: ToolScore, case: Case, settings: ScoringSettings, awaited: tuple[NotEvaluatedReason, str]
) -> ToolScore:
    """Return the score of a conversation whose missing turns may still exist and contain the missing calls.

    A fail remains one only if no further call could change it. `awaited` is (reason, explanation) of
    `unproven_absence`.
    """
    if score.outcome != "fail" or case.tools is None or _is_settled(score, case.tools, ToolRules.of(case, settings)):
        return score
    reason, explanation = awaited
    return score._replace(outcome="not_evaluated", reason=reason, note=explanation)


def _is_settled(score: ToolScore, expectation: ToolExpectation, rules: ToolRules) -> bool:
    """Return whether a score stays a fail even if all that is missing comes, and comes right."""
    if expectation.alternatives:
        return False
    beyond = [fault for fault in score.faults if fault.kind in {"spurious", "forbidden"}]
    if any(fault.kind == "forbidden" or fault.note == "forbid" for fault in beyond):
        return True
    required = sum(call.required for call in expectation.calls)
    selection = required / (required + len(beyond)) if required else float(not beyond)
    ordered = expectation.order != "any" and required > 1
    best: dict[Dimension, float | None] = {
        "selection": selection,
        "parameters": 1.0 if required else None,
        "sequence": 1.0 if ordered else None,
    }
    overall = overall_score(best, rules.weights)
    return overall is not None and overall < rules.threshold - ROUNDING
