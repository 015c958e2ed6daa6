"""The answer of a turn and the expected outputs: decisions without a judge, and the questions for the judge."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast

from otel_agentic.dialects.values import parsed
from otel_agentic.judges.base import JudgeFailure, Question, Verdict
from otel_agentic.judges.exact.facts import Day, Quantity, TimeOfDay, extract
from otel_agentic.scoring.tooling import ROUNDING
from otel_agentic.truth.values import Bag, normalise, says_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_agentic.conversations.model import Turn
    from otel_agentic.judges.exact.facts import Facts
    from otel_agentic.scoring.model import FailReason, NotEvaluatedReason, Outcome
    from otel_agentic.truth.model import CaseTurn


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of an outcome; `reason` is None for a pass, `score` (in [0, 1]) may be None.

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
    """Return a part that could not be evaluated; it has a score only where the judge is unsure."""
    return Part(outcome="not_evaluated", reason=reason, explanation=explanation, score=score)


def combine(parts: Sequence[Part]) -> Part:
    """Return the sum of the needed parts; the first failing one sets the reason, the explanation lists all of them.

    >>> combine([passed("a"), not_evaluated("judge_error", "b"), failed("tool_fault", "c")]).reason
    'tool_fault'
    >>> open_ = combine([passed("a"), not_evaluated("judge_unsure", "b"), failed("tool_fault", "c")])
    >>> open_.reason, open_.known_failure
    ('judge_unsure', 'tool_fault')
    >>> combine([]).reason
    'no_data'
    """
    if not parts:
        return not_evaluated("no_data", "the case expects nothing that can be scored")
    if any(part.reason == "judge_unsure" for part in parts):
        return _unsure(parts)
    for outcome in ("fail", "not_evaluated"):
        group = [part for part in parts if part.outcome == outcome]
        if group:
            explanation = "; ".join(dict.fromkeys(part.explanation for part in group))
            return Part(outcome=group[0].outcome, reason=group[0].reason, explanation=explanation)
    return passed("every needed part passed" if len(parts) > 1 else parts[0].explanation)


def _unsure(parts: Sequence[Part]) -> Part:
    """Return the sum of parts of which the judge is unsure about one or more; other parts without a result are omitted."""
    results = [part for part in parts if part.outcome == "fail" or part.reason == "judge_unsure"]
    reasons = [part.reason if part.outcome == "fail" else part.known_failure for part in results]
    known = next((reason for reason in reasons if reason is not None), None)
    return Part(
        outcome="not_evaluated",
        reason="judge_unsure",
        explanation="; ".join(dict.fromkeys(part.explanation for part in results)),
        known_failure=cast("FailReason | None", known),
    )


_THOUSANDS: Final = re.compile(r"(?<=\d)[,'\u2019\u00a0\u202f\u2009](?=\d{3}(?!\d))")
#: Digits grouped as in any country, perhaps with cents: 1.286, 1 286,50, 1,23,456.
_GROUPED: Final = re.compile(
    r"(?<![\w.,\u2212-])\d{1,3}(?P<mark>[ .,'\u2019])(?:\d{2,3}(?P=mark)){0,6}\d{3}(?:[.,]\d{1,2})?(?!\w|[.,]\d)"
)
_CENTS: Final = re.compile(r"[.,](\d{1,2})$")
#: Digits are next to letters in scripts without spaces.
_ADJACENT_TO_DIGITS: Final = re.compile(
    r"(?<=[\u3040-\u30ff\u3400-\u9fff])(?=\d)|(?<=\d)(?=[\u3040-\u30ff\u3400-\u9fff])"
)

#: JSON in a fence, as models write it.
_FENCE: Final = re.compile(r"^\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*$", re.DOTALL)
#: A line break or tab as JSON and programs write it; before a small letter only behind a number. In a path it begins a name.
_ESCAPE: Final = re.compile(r"\\+[nrt](?![a-z])|(?<=\d)\\+[nrt]")
_WINDOWS_PATH: Final = re.compile(r"(?:^|[\s\"'(=])(?:[A-Za-z]:\\|\\\\\w)")
#: Levels of JSON text inside JSON text that are read.
_MOST_ENCODED: Final = 3


@dataclass(frozen=True, kw_only=True)
class _Answer:
    """An answer, read once for all outputs that are looked for in it."""

    raw: str

    @cached_property
    def plain(self) -> str:
        """The normalised text without thousands separators."""
        return _plain(self.raw)

    @cached_property
    def facts(self) -> Facts:
        """Its content, by value."""
        return extract(_spaced(self.raw))

    @cached_property
    def grouped(self) -> frozenset[float]:
        """The numbers whose digits are grouped, by any mark."""
        return frozenset(_ungrouped(item.group()) for item in _GROUPED.finditer(_spaced(self.raw)))

    def contains(self, output: str | float) -> bool:
        """Return whether it contains a text or number."""
        expected = _fact(output)
        if isinstance(expected, Quantity):
            bare = expected.dimension is None and expected.value in self.grouped
            return bare or any(isinstance(fact, Quantity) and fact.same_as(expected) for fact in self.facts.all)
        return says_text(self.plain, _plain(str(output))) or (expected is not None and self.facts.holds(expected))


def contains(answer: str, output: str | float) -> bool:
    """Return whether an answer contains a text or number.

    >>> contains("The total is $23,553.", "23553"), contains("Flight HAT136, gate 4", 136), contains("I know.", "no")
    (True, False, False)
    """
    return any(reading.contains(output) for reading in _readings(answer))


def missing_outputs(turns: Sequence[Turn], outputs: Sequence[str | float]) -> tuple[str, ...]:
    """Return the outputs that no answer contains, as texts."""
    answers = [turn.answer for turn in turns if turn.answer is not None] if outputs else []
    readings = [reading for answer in answers for reading in _readings(answer)]
    return tuple(str(output) for output in outputs if not any(reading.contains(output) for reading in readings))


def outputs_part(turns: Sequence[Turn], missing: Sequence[str]) -> Part:
    """Return the outcome of a conversation's expected outputs."""
    if not missing:
        return passed("the answers contain every expected output")
    message = f"expected output {', '.join(repr(output) for output in missing)} is in no answer"
    if any(turn.answer is None and not turn.answer_captured for turn in turns):
        return not_evaluated("content_not_captured", f"{message} that was captured")
    return failed("output_not_said", message)


def _fact(output: str | float) -> Quantity | Day | TimeOfDay | None:
    """Return the output as a number, date or time, None if it is a text."""
    if not isinstance(output, str):
        return Quantity(value=_float(output), dimension=None, factor=1.0, decimals=0, start=0, end=0)
    facts = extract(_spaced(output))
    alone = len(facts.all) == 1 and not normalise(facts.rest)
    only = facts.all[0] if alone else None
    if isinstance(only, Quantity):
        return None if only.worded else only
    return only if isinstance(only, (Day, TimeOfDay)) else None


def _float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:  # an integer of more than 308 digits
        return math.inf


def _ungrouped(text: str) -> float:
    cents = _CENTS.search(text)
    total = text[: cents.start()] if cents else text
    return float(f"{re.sub(r'[^0-9]', '', total)}.{cents[1] if cents else 0}")


def _readings(answer: str) -> list[_Answer]:
    """Return an answer as it is, and with its escapes decoded where it has some."""
    decoded = _decoded(answer)
    return [_Answer(raw=text) for text in (answer, decoded) if text is not None]


def _decoded(text: str) -> str | None:
    """Return an answer without escapes: the keys and values of JSON on a line each, else its text with spaces for them."""
    fenced = _FENCE.match(text)
    result = parsed(fenced.group(1) if fenced else text)
    if not isinstance(result, str) or result != text:
        return "\n".join(_texts_in(result, _MOST_ENCODED))
    if _ESCAPE.search(text) is None or _WINDOWS_PATH.search(text) is not None:
        return None
    return _ESCAPE.sub(" ", text)


def _texts_in(value: Any, encoded: int) -> Iterator[str]:
    """Yield the keys and values of JSON as texts.

    Args:
        value: the parsed JSON; never deeper than `parsed` lets through.
        encoded: how often JSON text inside of a text is read.
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
    """Return the accepted answer with the largest share of its words in an answer, the first among equals.

    For metrics that take one.

    >>> closest_accepted("That is New York City.", ("NYC", "New York", "New York City"))
    'New York City'
    """
    stated = Bag.of(answer)

    def likeness(text: str) -> tuple[float, float]:
        expected = Bag.of(text)
        shared = sum(min(count, stated.counts.get(word, 0)) for word, count in expected.counts.items())
        return shared / max(expected.size, 1), expected.similarity(stated)

    return max(accepted, key=likeness)


def _without_answer(expected: CaseTurn, turn: Turn) -> Part:
    if not turn.answer_captured:
        return not_evaluated("content_not_captured", f"the answer of turn {turn.index + 1} was not captured")
    if expected.answer is None:
        return passed(f"turn {turn.index + 1} has no answer")
    why = f" ({turn.error})" if turn.error else ""
    return failed("wrong_answer", f"turn {turn.index + 1} has no answer{why}", score=0.0)


def answer_part(turn: Turn, verdict: Verdict | JudgeFailure, threshold: float) -> Part:
    """Return the outcome that a verdict means; a score at the threshold passes, one that the judge is unsure of decides nothing."""
    index = f"answer of turn {turn.index + 1}"
    if isinstance(verdict, JudgeFailure):
        return not_evaluated(verdict.reason, f"{index}: {verdict.message}")
    if verdict.unsure:
        message = f"{index} scores {verdict.score:.2f}, of which the judge is unsure: {verdict.reasoning}"
        return not_evaluated("judge_unsure", message, verdict.score)
    message = f"{index} scores {verdict.score:.2f}, threshold {threshold:g}: {verdict.reasoning}"
    if verdict.score >= threshold - ROUNDING:
        return passed(message, verdict.score)
    return failed("wrong_answer", message, verdict.score)
