"""The parts of an outcome (answers, expected outputs, tool scores), decided without a judge or as questions for one.

If a judge may be asked about tools, they are scored twice: once to collect the questions, and once with the verdicts.
"""

from __future__ import annotations

import math
import re
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from otel_agentic.dialects.values import parsed
from otel_agentic.judges.base import JudgeFailure, Question, QuestionKind, Verdict
from otel_agentic.judges.exact.facts import Day, Facts, Quantity, TimeOfDay, extract
from otel_agentic.scoring.compile import NO_VERDICTS
from otel_agentic.scoring.dimensions import overall_score, score_tools
from otel_agentic.scoring.scope import ActualCall, Dimension, NotEvaluatedReason, Scope, ToolRules, scope_of
from otel_agentic.scoring.utilization import Use
from otel_agentic.truth.values import Bag, json_text, normalise, says_text

if TYPE_CHECKING:
    from otel_agentic.config import ScoringSettings
    from otel_agentic.conversations.model import Turn
    from otel_agentic.scoring.align import SortedCalls
    from otel_agentic.scoring.model import ToolScore
    from otel_agentic.scoring.scope import FailReason, Outcome
    from otel_agentic.scoring.values import Texts
    from otel_agentic.truth.model import Case, CaseTurn, ExpectedCall, ToolExpectation

#: Maximum length of one text in a question; the settings of the judge may shorten it further.
_SHOWN_CHARACTERS: Final = 20_000
#: A score this close to the threshold reaches it: scores may be means.
ROUNDING: Final = 1e-9


class JudgedVerdicts:
    """The opinions of a judge, as far as its verdicts are known (implements `compile.ToolVerdicts`).

    `questions` are the questions without a verdict yet, each once, in order. `silence` is the reason why there is no
    opinion.
    """

    def __init__(
        self,
        kinds: frozenset[QuestionKind],
        threshold: float,
        verdicts: Mapping[Question, Verdict | JudgeFailure] | None = None,
    ) -> None:
        """Store the known verdicts.

        Args:
            kinds: the kinds of questions that the judge accepts.
            threshold: the minimum score, in [0, 1], of an affirmative verdict.
            verdicts: the verdicts by question.
        """
        self._kinds = kinds
        self._threshold = threshold
        self._verdicts = verdicts or {}
        self._silences: set[NotEvaluatedReason] = set()
        self._parameter_records: dict[tuple[int, tuple[int, int, int], str], Mapping[str, Any]] = {}
        self.questions: dict[Question, None] = {}

    @property
    def silence(self) -> NotEvaluatedReason:
        """Why there is no opinion: the judge failed, is unsure, was not asked, or does not accept such questions."""
        order: tuple[NotEvaluatedReason, ...] = ("judge_error", "budget_exhausted", "judge_unsure")
        return next((reason for reason in order if reason in self._silences), "no_data")

    def evidence(self, calls: SortedCalls) -> list[Mapping[str, Any]]:
        """Return the judge's verdicts on the parameters of paired calls, one record per parameter."""
        records = (
            self._parameter_records.get((id(pair.expected.call), calls.actual[pair.actual_index].location, key))
            for pair in (*calls.pairs, *calls.excused)
            for key in pair.expected.call.rules
        )
        return [record for record in records if record is not None]

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
        # Stored by key, because the same pair may be compared repeatedly and under several alternatives.
        self._parameter_records[id(expected), actual.location, key] = _record(
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
    """Return the question whether a result was used; None for an empty result, or without later answers or calls."""
    result = _text_of(actual.call.result) if actual.call.result_captured else ""
    answers = [text.raw for _, text in texts.answers_after(actual)]
    later_calls = [f"later call {call.call.name}: {_text_of(call.call.arguments)}" for call in later]
    if result in {"", "null", '""', "[]", "{}"} or not (answers or later_calls):
        return None
    return Question(
        kind="utilization",
        query=f"tool {actual.call.name}, called with {_text_of(actual.call.arguments)}",
        expected=result,
        answer="\n".join((*answers, *later_calls))[:_SHOWN_CHARACTERS],
        threshold=threshold,
    )


def wants_opinions(case: Case, kinds: frozenset[QuestionKind]) -> bool:
    """Return whether scoring the tools of a case may require questions of these kinds."""
    if "utilization" in kinds:
        return True
    calls = (
        call
        for tools in (case.tools, *(turn.tools for turn in case.turns))
        if tools is not None
        for alternative in (tools, *tools.alternatives)
        for call in alternative.calls
    )
    return "parameter" in kinds and any(rule.mode == "judge" for call in calls for rule in call.rules.values())


def kinds_wanted(kinds: frozenset[QuestionKind], settings: ScoringSettings) -> frozenset[QuestionKind]:
    """Return the kinds of questions that a judge is asked, out of the kinds that it accepts."""
    return kinds if settings.judged_utilization else kinds - {"utilization"}


def _text_of(value: Any) -> str:
    """Return a text unchanged and any other value as JSON, truncated to `_SHOWN_CHARACTERS`."""
    return value[:_SHOWN_CHARACTERS] if isinstance(value, str) else _json_of(value)


def _json_of(value: Any) -> str:
    return json_text(value, sys.maxsize)[:_SHOWN_CHARACTERS]


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
    """The tool scores of a conversation: of its turns, by turn index, and of the conversation as a whole.

    `questions` are the open questions for a judge.
    """

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
        settings: the scoring settings, which the case may override.
        requests: the judge; if None, the data alone decide.
    """
    scorer = _Scorer(rules=ToolRules.of(case, settings), judge=requests, turns=turns)
    expected = dict(_expectations(case, turns, aligned))
    turn_scores = {index: scorer.score(*expectation_and_scope) for index, expectation_and_scope in expected.items()}
    if case.tools is None:
        return ToolScores(turns=turn_scores, conversation=None, questions=tuple(scorer.questions))
    scope = scope_of(turns, turn_index=None)
    whole_score = scorer.score(case.tools, scope)
    calls_of_whole, calls_of_turns = (
        _requested_calls(whole_score),
        frozenset[CallKey]().union(*map(_requested_calls, turn_scores.values())),
    )
    return ToolScores(
        turns={
            index: scorer.score_without(calls_of_whole, turn_scores[index], *expectation_and_scope)
            for index, expectation_and_scope in expected.items()
        },
        conversation=scorer.score_without(calls_of_turns, whole_score, case.tools, scope),
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
        return score._replace(judge_results=by_judge) if by_judge else score

    def score_without(
        self, keys: frozenset[CallKey], score: ToolScore, expectation: ToolExpectation, scope: Scope
    ) -> ToolScore:
        """Return the score, computed again without any extra calls that have one of these keys."""
        excluded = [actual for actual in _extra_calls(score) if actual.location in keys]
        return self.score(expectation, self._scope_without(scope, excluded)) if excluded else score

    def _scope_without(self, scope: Scope, excluded: Sequence[ActualCall]) -> Scope:
        """Return a scope without some calls; like earlier turns, they may still explain what an answer states."""
        locations = {actual.location for actual in excluded}
        excluded_turns = (
            replace(
                turn,
                query=None,
                answer=None,
                calls=tuple(actual.call for actual in excluded if actual.turn_index == turn.index),
            )
            for turn in self.turns
        )
        retained = tuple(actual for actual in scope.calls if actual.location not in locations)
        return replace(scope, calls=retained, earlier=(*scope.earlier, *excluded_turns))


def _requested_calls(score: ToolScore) -> frozenset[CallKey]:
    """Return the keys of the actual calls that are paired with a required or optional expected call."""
    calls = score.calls
    if calls is None:
        return frozenset()
    return frozenset(calls.actual[pair.actual_index].location for pair in (*calls.pairs, *calls.excused))


def _extra_calls(score: ToolScore) -> list[ActualCall]:
    """Return the actual calls that an expectation neither expects nor forbids by name."""
    calls = score.calls
    return [] if calls is None else [calls.actual[index] for index, _ in calls.extra if index not in calls.forbidden]


def await_missing_calls(
    score: ToolScore, case: Case, settings: ScoringSettings, awaited: tuple[NotEvaluatedReason, str]
) -> ToolScore:
    """Return the score of a conversation whose missing turns may still exist and contain the missing calls.

    A failed score remains failed only if no further call could change it. `awaited` is the (reason, explanation) from
    `unproven_absence`.
    """
    if score.outcome != "fail" or case.tools is None or _is_settled(score, case.tools, ToolRules.of(case, settings)):
        return score
    reason, explanation = awaited
    return score._replace(outcome="not_evaluated", reason=reason, note=explanation)


def _is_settled(score: ToolScore, expectation: ToolExpectation, rules: ToolRules) -> bool:
    """Return whether a score remains failed even if all missing calls still occur as expected."""
    if expectation.alternatives:
        return False
    extra_faults = [fault for fault in score.faults if fault.kind in {"spurious", "forbidden"}]
    if any(fault.kind == "forbidden" or fault.note == "forbid" for fault in extra_faults):
        return True
    required = sum(call.required for call in expectation.calls)
    selection = required / (required + len(extra_faults)) if required else float(not extra_faults)
    ordered = expectation.order != "any" and required > 1
    best_dimensions: dict[Dimension, float | None] = {
        "selection": selection,
        "parameters": 1.0 if required else None,
        "sequence": 1.0 if ordered else None,
    }
    overall = overall_score(best_dimensions, rules.weights)
    return overall is not None and overall < rules.threshold - ROUNDING


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of an outcome; `reason` is None for a pass; `score`, in [0, 1], may be None.

    `known_failure` is the reason why an outcome of `not_evaluated: judge_unsure` fails regardless of the judge's
    decision.
    """

    outcome: Outcome
    reason: FailReason | NotEvaluatedReason | None = None
    explanation: str = ""
    score: float | None = None
    known_failure: FailReason | None = None


def passed(explanation: str, score: float | None = None) -> Part:
    """Return a part that passed."""
    return Part(outcome="pass", explanation=explanation, score=score)


def failed(reason: FailReason, explanation: str, score: float | None = None) -> Part:
    """Return a part that failed."""
    return Part(outcome="fail", reason=reason, explanation=explanation, score=score)


def not_evaluated(reason: NotEvaluatedReason, explanation: str, score: float | None = None) -> Part:
    """Return a part that could not be evaluated; it has a score only if the judge is unsure."""
    return Part(outcome="not_evaluated", reason=reason, explanation=explanation, score=score)


def combine(parts: Sequence[Part]) -> Part:
    """Return the combined outcome of the needed parts.

    The first failing part sets the reason; the explanation lists all failing parts. One failing part is enough for a
    fail; a pass needs every part. If the judge is unsure about a part, the combined outcome is not evaluated, even if
    another part failed: the judge abstains more often the more turns there are, so if such failures counted while a
    pass needs every turn, the rates of long conversations would be biased downwards. The failure is then recorded in
    `known_failure`.

    >>> combine([passed("a"), not_evaluated("judge_error", "b"), failed("tool_fault", "c")]).reason
    'tool_fault'
    >>> unsure = combine([passed("a"), not_evaluated("judge_unsure", "b"), failed("tool_fault", "c")])
    >>> unsure.reason, unsure.known_failure
    ('judge_unsure', 'tool_fault')
    >>> combine([]).reason
    'no_data'
    """
    if not parts:
        return not_evaluated("no_data", "the case expects nothing that can be scored")
    left = [part for part in parts if part.outcome != "pass"]
    if not left:
        return passed("every needed part passed" if len(parts) > 1 else parts[0].explanation)
    if any(part.reason == "judge_unsure" for part in left):
        return _unsure(left)
    decisive = [part for part in left if part.outcome == "fail"] or left
    explanation = "; ".join(dict.fromkeys(part.explanation for part in decisive))
    return Part(outcome=decisive[0].outcome, reason=decisive[0].reason, explanation=explanation)


def _unsure(parts: Sequence[Part]) -> Part:
    """Return the combined outcome if the judge is unsure about a part, explained by the failed and unsure parts."""
    decisive = [part for part in parts if part.outcome == "fail" or part.reason == "judge_unsure"]
    reasons = [part.reason if part.outcome == "fail" else part.known_failure for part in decisive]
    failure = next((reason for reason in reasons if reason is not None), None)
    return Part(
        outcome="not_evaluated",
        reason="judge_unsure",
        explanation="; ".join(dict.fromkeys(part.explanation for part in decisive)),
        known_failure=cast("FailReason | None", failure),
    )


_THOUSANDS: Final = re.compile(r"(?<=\d)[,'\u2019\u00a0\u202f\u2009](?=\d{3}(?!\d))")
#: Digits grouped by the convention of any country, optionally with cents: 1.286, 1 286,50, 1,23,456.
_GROUPED: Final = re.compile(
    r"(?<![\w.,\u2212-])\d{1,3}(?P<mark>[ .,'\u2019])(?:\d{2,3}(?P=mark)){0,6}\d{3}(?:[.,]\d{1,2})?(?!\w|[.,]\d)"
)
_CENTS: Final = re.compile(r"[.,](\d{1,2})$")
#: Boundaries between digits and letters of scripts that do not use spaces.
_ADJACENT_TO_DIGITS: Final = re.compile(
    r"(?<=[\u3040-\u30ff\u3400-\u9fff])(?=\d)|(?<=\d)(?=[\u3040-\u30ff\u3400-\u9fff])"
)

#: JSON in a Markdown code fence, as models write it.
_FENCE: Final = re.compile(r"^\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*$", re.DOTALL)
#: An escaped line break or tab. Before a lower-case letter it counts only after a number, because in a path "\n" may
#: begin a file name.
_ESCAPE: Final = re.compile(r"\\+[nrt](?![a-z])|(?<=\d)\\+[nrt]")
_WINDOWS_PATH: Final = re.compile(r"(?:^|[\s\"'(=])(?:[A-Za-z]:\\|\\\\\w)")
#: Maximum depth of JSON text inside JSON text that is parsed.
_MAX_ENCODED: Final = 3


@dataclass(frozen=True, kw_only=True)
class _Answer:
    """An answer, parsed once for all outputs that are searched in it."""

    raw: str

    @cached_property
    def plain(self) -> str:
        """The normalised text without thousands separators."""
        return _plain(self.raw)

    @cached_property
    def facts(self) -> Facts:
        """The numbers, dates, times and identifiers of the answer."""
        return extract(_spaced(self.raw))

    @cached_property
    def grouped(self) -> frozenset[float]:
        """The numbers whose digits are grouped, with any separator."""
        return frozenset(_ungrouped(match.group()) for match in _GROUPED.finditer(_spaced(self.raw)))

    def contains(self, output: str | float) -> bool:
        """Return whether the answer contains a text or number."""
        expected = _fact(output)
        if isinstance(expected, Quantity):
            is_grouped = expected.dimension is None and expected.value in self.grouped
            return is_grouped or any(isinstance(fact, Quantity) and fact.same_as(expected) for fact in self.facts.all)
        return says_text(self.plain, _plain(str(output))) or (expected is not None and self.facts.holds(expected))


def contains(answer: str, output: str | float) -> bool:
    """Return whether an answer contains a text or number.

    >>> contains("The total is $23,553.", "23553"), contains("Flight HAT136, gate 4", 136), contains("I know.", "no")
    (True, False, False)
    """
    return any(version.contains(output) for version in _versions(answer))


def missing_outputs(turns: Sequence[Turn], outputs: Sequence[str | float]) -> tuple[str, ...]:
    """Return the outputs that no answer contains, as texts."""
    answers = [turn.answer for turn in turns if turn.answer is not None] if outputs else []
    versions = [version for answer in answers for version in _versions(answer)]
    return tuple(str(output) for output in outputs if not any(version.contains(output) for version in versions))


def outputs_part(turns: Sequence[Turn], missing: Sequence[str]) -> Part:
    """Return the outcome of a conversation's expected outputs."""
    if not missing:
        return passed("the answers contain every expected output")
    message = f"expected output {', '.join(repr(output) for output in missing)} is in no answer"
    if any(turn.answer is None and not turn.answer_captured for turn in turns):
        return not_evaluated("content_not_captured", f"{message} that was captured")
    return failed("output_not_said", message)


def _fact(output: str | float) -> Quantity | Day | TimeOfDay | None:
    """Return the output as a number, date or time, or None if it is a text."""
    if not isinstance(output, str):
        return Quantity(value=_float(output), dimension=None, factor=1.0, decimals=0, start=0, end=0)
    facts = extract(_spaced(output))
    is_single_fact = len(facts.all) == 1 and not normalise(facts.rest)
    fact = facts.all[0] if is_single_fact else None
    if isinstance(fact, Quantity):
        return None if fact.worded else fact
    return fact if isinstance(fact, (Day, TimeOfDay)) else None


def _float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:  # an integer of more than 308 digits
        return math.inf


def _ungrouped(text: str) -> float:
    cents = _CENTS.search(text)
    digits = text[: cents.start()] if cents else text
    return float(f"{re.sub(r'[^0-9]', '', digits)}.{cents[1] if cents else 0}")


def _versions(answer: str) -> list[_Answer]:
    """Return an answer unchanged and, if it has escapes, also with the escapes decoded."""
    decoded = _decoded(answer)
    return [_Answer(raw=text) for text in (answer, decoded) if text is not None]


def _decoded(text: str) -> str | None:
    """Return an answer with its escapes decoded, or None if it has none.

    The keys and values of JSON are returned on a line each; in other text, spaces replace the escapes.
    """
    fenced = _FENCE.match(text)
    result = parsed(fenced.group(1) if fenced else text)
    if not isinstance(result, str) or result != text:
        return "\n".join(_texts_in(result, _MAX_ENCODED))
    if _ESCAPE.search(text) is None or _WINDOWS_PATH.search(text) is not None:
        return None
    return _ESCAPE.sub(" ", text)


def _texts_in(value: Any, encoded: int) -> Iterator[str]:
    """Yield the keys and values of JSON as texts.

    Args:
        value: the parsed JSON; its depth is limited by `parsed`.
        encoded: the maximum depth of JSON text inside a text that is parsed.
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield key
            yield from _texts_in(item, encoded)
    elif isinstance(value, list):
        for item in value:
            yield from _texts_in(item, encoded)
    elif isinstance(value, str):
        inner = parsed(value) if encoded else value
        if isinstance(inner, str) and inner == value:
            yield _ESCAPE.sub(" ", value) if _WINDOWS_PATH.search(value) is None else value
        else:
            yield from _texts_in(inner, encoded - 1)
    elif value is not None:
        yield str(value)


def _spaced(text: str) -> str:
    return _ADJACENT_TO_DIGITS.sub(" ", unicodedata.normalize("NFKC", text))


def _plain(text: str) -> str:
    return normalise(_THOUSANDS.sub("", text))


def question_of(expected: CaseTurn, turn: Turn, threshold: float) -> Question | Part | None:
    """Return the question for the judge, the outcome if no judge is needed, or None if no answer is annotated."""
    accepted = expected.accepted_answers
    if not accepted and expected.not_answer is None:
        return None
    if turn.answer is None:
        return _without_answer(expected, turn)
    if expected.not_answer is not None and contains(turn.answer, expected.not_answer):
        return failed("forbidden_answer", f"turn {turn.index + 1} contains {expected.not_answer!r}, which is forbidden")
    if not accepted:
        return passed(f"turn {turn.index + 1} does not contain {expected.not_answer!r}")
    return Question(
        query=turn.query or expected.query or "",
        expected=accepted[0],
        answer=turn.answer,
        threshold=threshold,
        not_answer=expected.not_answer,
        also_accepted=accepted[1:],
    )


def closest_accepted(answer: str, accepted: Sequence[str]) -> str:
    """Return the accepted answer with the largest share of its words in an answer; among equals the first.

    Metrics that accept a single reference answer use it.

    >>> closest_accepted("That is New York City.", ("NYC", "New York", "New York City"))
    'New York City'
    """
    answer_words = Bag.of(answer)

    def similarity_key(text: str) -> tuple[float, float]:
        expected = Bag.of(text)
        shared_words = sum(min(count, answer_words.counts.get(word, 0)) for word, count in expected.counts.items())
        return shared_words / max(expected.size, 1), expected.similarity(answer_words)

    return max(accepted, key=similarity_key)


def _without_answer(expected: CaseTurn, turn: Turn) -> Part:
    if not turn.answer_captured:
        return not_evaluated("content_not_captured", f"the answer of turn {turn.index + 1} was not captured")
    if expected.answer is None:
        return passed(f"turn {turn.index + 1} has no answer")
    error = f" ({turn.error})" if turn.error else ""
    return failed("wrong_answer", f"turn {turn.index + 1} has no answer{error}", score=0.0)


def answer_part(turn: Turn, verdict: Verdict | JudgeFailure, threshold: float) -> Part:
    """Return the outcome for a verdict: a score at the threshold passes, and an unsure verdict is not evaluated."""
    subject = f"answer of turn {turn.index + 1}"
    if isinstance(verdict, JudgeFailure):
        return not_evaluated(verdict.reason, f"{subject}: {verdict.message}")
    if verdict.unsure:
        message = f"{subject} scores {verdict.score:.2f}, of which the judge is unsure: {verdict.reasoning}"
        return not_evaluated("judge_unsure", message, verdict.score)
    message = f"{subject} scores {verdict.score:.2f}, threshold {threshold:g}: {verdict.reasoning}"
    if verdict.score >= threshold - ROUNDING:
        return passed(message, verdict.score)
    return failed("wrong_answer", message, verdict.score)
