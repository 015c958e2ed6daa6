"""Were texts among the arguments the right ones in other words: parameter semantics with a judge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from otel_agentic.evaluators.base import Metric, MetricScore, WithoutSettings
from otel_agentic.evaluators.catalog import metrics_of
from otel_agentic.evaluators.layers.abstaining import none_of
from otel_agentic.evaluators.layers.judged import rubric
from otel_agentic.evaluators.layers.parameters import comparable, compared
from otel_agentic.judges.base import JudgeFailure, rubric_question
from otel_agentic.scoring.checks import agrees
from otel_agentic.scoring.results import json_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_agentic.evaluators.base import Asking, Need, Subject
    from otel_agentic.evaluators.layers.scopes import ExpectedCalls
    from otel_agentic.judges.base import Question, Rubric, Verdict
    from otel_agentic.scoring.made import MadeCall
    from otel_agentic.scoring.sorting import PairedCall

SEMANTICS_JUDGED: Final = "agentic.layers.parameter_semantics_judged"
#: Ways to compare that leave a text to be read; the others say what they want.
_READ: Final = frozenset({"exact", "casefold", "unordered", "judge"})


class _Text(NamedTuple):
    """A parameter of which a judge says how far the same is meant: two texts that differ, or what `match` leaves to a judge.

    `open`: nobody has compared them.
    """

    pair: PairedCall
    made: MadeCall
    key: str
    open: bool


class ParametersJudged(WithoutSettings):
    """The metric of expected parameters, texts read by a judge."""

    name: str = "layers.parameter_semantics_judged"
    version: str = "1"
    metrics: tuple[Metric, ...] = metrics_of("layers.parameter_semantics_judged")
    needs: frozenset[Need] = frozenset({"turns", "case", "expected_tools", "judge"})
    default: bool = False
    rubrics: tuple[Rubric, ...] = (rubric("parameter_semantics_judged"),)

    def ask(self, subject: Subject) -> Asking:
        """Ask about each text that differs, and return the score."""
        found = comparable(subject, SEMANTICS_JUDGED)
        if isinstance(found, MetricScore):
            return [found]
        texts = list(_texts(found, numbers_as_text=subject.settings.numbers_as_text))
        replies: Sequence[Verdict | JudgeFailure] = ()
        if texts:
            replies = yield [self._question(subject, text) for text in texts]
        failure = next((reply for reply in replies if isinstance(reply, JudgeFailure)), None)
        if failure is not None:
            return [none_of(SEMANTICS_JUDGED, failure.reason, f"was not judged: {failure.message}")]
        scores = [reply.score for reply in replies if not isinstance(reply, JudgeFailure)]
        return [_score(found, texts, scores)]

    def _question(self, subject: Subject, text: _Text) -> Question:
        query = next((turn.query for turn in subject.conversation.turns if turn.index == text.made.turn_index), None)
        return rubric_question(
            self.rubrics[0],
            tool=text.made.call.name,
            parameter=text.key,
            expected=json_text(text.pair.expected.parameters.values.get(text.key)),
            made=json_text((text.made.call.arguments or {})[text.key]),
            **({} if query is None else {"query": query}),
        )


def _texts(found: ExpectedCalls, *, numbers_as_text: bool) -> Iterator[_Text]:
    for pair, made in found.paired:
        parameters, arguments = pair.expected.parameters, made.call.arguments or {}
        for key, rule in pair.expected.call.rules.items():
            if key not in arguments or rule.mode not in _READ:
                continue
            expected, given = parameters.values.get(key), arguments[key]
            # Left to a judge by the case: whatever it is, nothing else can tell.
            left = rule.mode == "judge" and agrees(expected, given, rule, numbers_as_text=numbers_as_text) is None
            if left or (key in pair.agreement.wrong and isinstance(expected, str) and isinstance(given, str)):
                yield _Text(pair, made, key, open=left)


def _score(found: ExpectedCalls, texts: Sequence[_Text], scores: Sequence[float]) -> MetricScore:
    total = sum(pair.agreement.score for pair, _ in found.paired)
    for text, score in zip(texts, scores, strict=True):
        # A text that nobody has compared counts as equal in the agreement, one that differs as nothing.
        total += (score - float(text.open)) / compared(text.pair, text.made)
    told = [f"{text.made.call.name}({text.key}) {score:g}" for text, score in zip(texts, scores, strict=True)]
    details: list[dict[str, Any]] = [
        {
            "tool": text.made.call.name,
            "turn_index": text.made.turn_index,
            "parameter": text.key,
            "expected": text.pair.expected.parameters.values.get(text.key),
            "made": (text.made.call.arguments or {})[text.key],
            "score": score,
        }
        for text, score in zip(texts, scores, strict=True)
    ]
    return MetricScore(
        name=SEMANTICS_JUDGED,
        value=total / found.required,
        explanation=f"meant the same: {', '.join(told[:5])}" if told else "no text differs from the expected one",
        details={"required": found.required, "judged": details[:20]},
    )
