"""What a judge is asked about tool calls, and what its verdicts mean: the opinions that tool scoring takes.

Tools are scored twice where a judge may be asked: once to learn what it would be asked, once with its verdicts.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.judges.base import JudgeFailure, Question, Verdict
from otel_agentic.scoring.use import Use

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_agentic.config import ScoringSettings
    from otel_agentic.judges.base import QuestionKind
    from otel_agentic.scoring.made import MadeCall
    from otel_agentic.scoring.model import NotEvaluatedReason
    from otel_agentic.scoring.sorting import SortedCalls
    from otel_agentic.scoring.utilization import Texts
    from otel_agentic.truth.model import Case, ExpectedCall

#: What a judge is shown of one text, in characters; it may be told less by its own settings.
_SHOWN_CHARACTERS: Final = 20_000
#: A score this close to the threshold reaches it: scores may be means.
ROUNDING: Final = 1e-9


class AskedOpinions:
    """The opinions of a judge of those kinds, as far as its verdicts are known (see `opinions.Opinions`).

    `asked` are the questions that had no verdict yet, each once, in order. `silence` is why there is no opinion.
    """

    def __init__(
        self,
        kinds: frozenset[QuestionKind],
        threshold: float,
        verdicts: Mapping[Question, Verdict | JudgeFailure] | None = None,
    ) -> None:
        """Take the verdicts that are known.

        Args:
            kinds: the questions that the judge takes.
            threshold: the score, in [0, 1], at which it says yes.
            verdicts: what it has said.
        """
        self._kinds = kinds
        self._threshold = threshold
        self._verdicts = verdicts or {}
        self._silences: set[NotEvaluatedReason] = set()
        self._said: dict[tuple[int, tuple[int, int, int], str], Mapping[str, Any]] = {}
        self.asked: dict[Question, None] = {}

    @property
    def silence(self) -> NotEvaluatedReason:
        """Why there is no opinion: the judge failed, is unsure or was not asked, or it takes no such questions."""
        order: tuple[NotEvaluatedReason, ...] = ("judge_error", "budget_exhausted", "judge_unsure")
        return next((reason for reason in order if reason in self._silences), "no_data")

    def evidence(self, calls: SortedCalls) -> list[Mapping[str, Any]]:
        """Return what the judge said of the parameters of the calls that were paired, one record a parameter."""
        found = (
            self._said.get((id(pair.expected.call), calls.made[pair.place].place, key))
            for pair in (*calls.pairs, *calls.excused)
            for key in pair.expected.call.rules
        )
        return [record for record in found if record is not None]

    def parameter(self, expected: ExpectedCall, key: str, made: MadeCall) -> bool | None:
        """Return whether a made parameter means the expected one, None where that is not known."""
        if "parameter" not in self._kinds:
            return None
        arguments = made.call.arguments or {}
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
        self._said[id(expected), made.place, key] = _record(expected, key, made, verdict, agrees=agrees)
        return agrees

    def used(self, made: MadeCall, later: Sequence[MadeCall], texts: Texts) -> Use | None:
        """Return whether the judge finds the result of a call used, None where that is not known."""
        if "utilization" not in self._kinds:
            return None
        question = use_question(made, later, texts, self._threshold)
        verdict = None if question is None else self._verdict(question)
        if verdict is None:
            return None
        used = self._reaches(verdict)
        note = f"the judge scores its use {verdict.score:.2f}, threshold {self._threshold:g}: {verdict.reasoning}"
        return Use(score=float(used), how="judge", note=note)

    def _verdict(self, question: Question) -> Verdict | None:
        known = self._verdicts.get(question)
        if known is None:
            self.asked[question] = None
        elif isinstance(known, JudgeFailure):
            self._silences.add(known.reason)
        elif known.unsure:
            self._silences.add("judge_unsure")
        else:
            return known
        return None

    def _reaches(self, verdict: Verdict) -> bool:
        return verdict.score >= self._threshold - ROUNDING


def use_question(made: MadeCall, later: Sequence[MadeCall], texts: Texts, threshold: float) -> Question | None:
    """Return the question whether a result was used, None where nothing was said or done after it, or it is empty."""
    result = _text_of(made.call.result) if made.call.result_captured else ""
    said = [text.raw for _, text in texts.answers_after(made)]
    done = [f"later call {call.call.name}: {_text_of(call.call.arguments)}" for call in later]
    if result in {"", "null", '""', "[]", "{}"} or not (said or done):
        return None
    return Question(
        kind="utilization",
        query=f"tool {made.call.name}, called with {_text_of(made.call.arguments)}",
        expected=result,
        answer="\n".join((*said, *done))[:_SHOWN_CHARACTERS],
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
        for one in (tools, *tools.alternatives)
        for call in one.calls
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


def _record(expected: ExpectedCall, key: str, made: MadeCall, verdict: Verdict, *, agrees: bool) -> dict[str, Any]:
    return {
        "tool": expected.tool_name,
        "turn_index": made.turn_index,
        "position": made.call.position,
        "span_id": made.call.span_id,
        "parameter": key,
        "score": verdict.score,
        "agrees": agrees,
        "how": "judge",
        "explanation": verdict.reasoning,
    }
