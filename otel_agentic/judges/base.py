"""The plug-in point `Judge`: questions, verdicts and failures.

A judge receives questions and returns one verdict for each, in the same order. A question that could not be judged yields a
`JudgeFailure`, never an exception or a score: a failure of the judge is not a failure of the agent.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from otel_agentic.config import JudgeSettings

FailureReason = Literal["judge_error", "budget_exhausted"]
#: What failed. `outage`: the judge does not respond, possibly temporarily. `refused`: the provider rejects the credentials or
#: wants money, so a person must act. `prompt`: the judge replies, but never with a verdict to this prompt. `question`: this
#: question alone.
FailureKind = Literal["outage", "refused", "prompt", "question"]
QuestionKind = Literal["answer", "parameter", "utilization", "rubric"]
#: The requested reply, in addition to the reasons: a number, one of several labels, or a list of texts.
ReplyKind = Literal["score", "label", "texts"]
#: One label leaves nothing to choose.
_FEWEST_LABELS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyForm:
    """The form of a reply: reasons, followed by a score in [`low`, `high`], one of `labels`, or at most `most` texts."""

    kind: ReplyKind = "score"
    low: float = 0.0
    high: float = 1.0
    labels: tuple[str, ...] = ()
    most: int = 20

    def __post_init__(self) -> None:
        """Raise ValueError if no reply can have this form, or a reply would be ambiguous."""
        if self.kind == "score" and not -math.inf < self.low < self.high < math.inf:
            raise ValueError(f"low {self.low:g}, high {self.high:g}; low must be below high, and both finite")
        distinct = {label.strip().casefold() for label in self.labels}
        if self.kind == "label" and (
            len(distinct) < _FEWEST_LABELS or len(distinct) < len(self.labels) or "" in distinct
        ):
            raise ValueError(f"labels {self.labels!r}; give two or more that differ in more than case and white space")
        if self.kind == "texts" and self.most < 1:
            raise ValueError(f"most {self.most}; allowed: 1 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rubric:
    """How a model judges material of any form: instructions, and the form of its reply.

    `name` is the name of the prompt, as listed by `prompts show`; `version` increases with every change of the instructions.
    """

    name: str
    version: str
    instructions: str
    form: ReplyForm


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One answer to be judged; all texts are untrusted input.

    `expected` is the annotated answer, `also_accepted` are further answers that are equally right, `answer` is the agent's
    answer, `not_answer` a text that it must not contain (None: no restriction). `threshold` is the score, in [0, 1], at which
    this answer passes; the score is that of the best matching accepted answer.

    For kind `parameter`, `expected` and `answer` are the expected and the actual value as JSON, and `query` names the tool and
    its parameter. For kind `utilization`, `expected` is the result of a tool call and `answer` the answer that follows it.

    For kind `rubric`, `rubric` defines how `material` (texts by name) is judged; the other texts are empty, see `rubric_question`.
    """

    query: str
    expected: str
    answer: str
    threshold: float
    not_answer: str | None = None
    kind: QuestionKind = "answer"
    rubric: Rubric | None = None
    material: tuple[tuple[str, str], ...] = ()
    also_accepted: tuple[str, ...] = ()

    @property
    def accepted_answers(self) -> tuple[str, ...]:
        """All accepted answers, in the annotated order.

        >>> Question(query="2+2?", expected="4", answer="four", threshold=0.7, also_accepted=("four",)).accepted_answers
        ('4', 'four')
        """
        return (self.expected, *self.also_accepted)

    def __post_init__(self) -> None:
        """Raise ValueError if a question of kind `rubric` has no rubric, or one of another kind has one."""
        if (self.kind == "rubric") != (self.rubric is not None):
            raise ValueError(f"kind {self.kind!r}: only a question of kind 'rubric' has a rubric, see rubric_question")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A judge's answer: `score` in [0, 1] and its reasons.

    For kind `rubric`, `score` is in the range of the reply form, and 0 if that requests a `label` or `texts`.

    `model`: None for a judge without a model. `tries` counts calls of the model, `latency_s` is the total of their seconds.
    `cost_usd`: None if the price is unknown. `cached`: taken from an earlier evaluation.

    `unsure`: the judge does not decide, because `score` is between its failing and its passing threshold. The turn is then
    `not_evaluated: judge_unsure`, and its score is recorded.
    """

    score: float
    reasoning: str
    model: str | None = None
    tries: int = 1
    latency_s: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    cached: bool = False
    label: str | None = None
    texts: tuple[str, ...] = ()
    unsure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeFailure:
    """Why there is no verdict: the judge failed after its retries, or was not called because its budget is exhausted.

    `kind` decides which questions are skipped after several failures in a row, see `judges.breaker`: all after an outage or a
    refusal, those of the same prompt after unreadable replies, none after failures of single questions.
    """

    reason: FailureReason
    message: str
    kind: FailureKind = "question"
    model: str | None = None
    tries: int = 0
    latency_s: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None


@runtime_checkable
class Judge(Protocol):
    """A judge of answers (entry-point group `otel_agentic.judges`).

    `name` and `version` are part of the evaluator version: with a new version, all answers are judged again. A judge of more
    than answers declares an attribute `kinds`, see `kinds_of`. A judge that ignores the threshold of a question declares
    `reads_threshold = False`: its verdicts then apply to any threshold. A judge whose scores are calibrated probabilities of
    being right declares `calibrated = True`: they indicate how far its verdicts shift a pass rate.
    """

    name: str
    version: str

    @classmethod
    def from_settings(cls, settings: JudgeSettings, argument: str | None = None) -> Judge:
        """Return the judge for the settings.

        Args:
            settings: limits and timeouts, for judges that call a model.
            argument: the text after the colon in `--judge name:argument`, None without a colon.

        Raises:
            UsageError: the argument is missing or not supported.
        """
        ...

    def judge(self, questions: Sequence[Question]) -> list[Verdict | JudgeFailure]:
        """Return one verdict or failure per question, in order."""
        ...


@runtime_checkable
class StreamingJudge(Judge, Protocol):
    """A judge that yields each verdict as soon as it is available, so that it can be stored before the next one is paid for."""

    def stream(self, questions: Iterable[tuple[int, Question]]) -> Iterator[tuple[int, Verdict | JudgeFailure]]:
        """Yield (number, verdict or failure) in order of completion, once for each numbered question.

        Questions are taken one at a time as capacity allows: the caller may stop providing them at any time.
        """
        ...


@runtime_checkable
class BudgetAwareJudge(StreamingJudge, Protocol):
    """A judge that requests permission for every call beyond the first one of a question: retries, votes, canaries.

    `permit` returns whether one more call may be spent on a question. It is called from any thread, one at a time per
    question, and is set by the owner of the budget; the initial one always allows.
    """

    permit: Callable[[Question], bool]

    def estimated_tokens(self, question: Question) -> int:
        """Return the estimated number of tokens, input and output, of one call for a question."""
        ...


class JudgeCache(Protocol):
    """Verdicts of earlier evaluations, by `question_key`. Failures are not reused: their questions are asked again."""

    def get(self, keys: Sequence[str]) -> dict[str, Verdict]:
        """Return the stored verdicts by key; keys without one are absent."""
        ...

    def put(self, key: str, verdict: Verdict | JudgeFailure, question: Question) -> None:
        """Record the result of a question; durable soon, at the latest after `flush`.

        Args:
            key: of the question, see `question_key`.
            verdict: the verdict or failure.
            question: the question; `metric_of` returns the name of its metric.
        """
        ...

    def flush(self) -> None:
        """Return when everything recorded before is durable."""
        ...


class Budget(Protocol):
    """The judge's budget for the current window; used by one thread at a time, not always the same.

    An optional attribute `used_up` is a text that names the reached limit and its setting.
    """

    def allows(self, *, calls: int, tokens: int) -> bool:
        """Return whether that many more model calls and tokens (an estimate) may be spent."""
        ...

    def spend(self, verdict: Verdict | JudgeFailure) -> None:
        """Count the cost of a verdict or failure."""
        ...


def kinds_of(judge: Judge) -> frozenset[QuestionKind]:
    """Return the kinds of questions that a judge accepts: its attribute `kinds`, by default answers only."""
    kinds: frozenset[QuestionKind] = getattr(judge, "kinds", frozenset({"answer"}))
    return kinds


def is_calibrated(judge: Judge) -> bool:
    """Return whether the scores of a judge are probabilities, see its attribute `calibrated`."""
    return bool(getattr(judge, "calibrated", False))


def metric_of(question: Question) -> str:
    """Return the name of the prompt for a question: the name of its rubric, or its kind.

    >>> metric_of(Question(query="2+2?", expected="4", answer="four", threshold=0.7))
    'answer'
    """
    return question.kind if question.rubric is None else question.rubric.name


def version_for(judge: Judge, rubric: Rubric | None) -> str:
    """Return the version of a judge for the questions of a rubric, or (None) for those without a rubric.

    A judge may define `version_for(rubric)`: the texts that it sends to its model along with a rubric may then change without
    judging other questions again.
    """
    of_rubric: Callable[[Rubric], str] | None = getattr(judge, "version_for", None)
    return judge.version if rubric is None or of_rubric is None else of_rubric(rubric)


def rubric_question(rubric: Rubric, /, **material: str) -> Question:
    """Return a question about some material; its texts may be untrusted, its names must not be.

    Raises:
        TypeError: a text of the material is not a string, such as None for an answer that was not recorded; names it.

    >>> form = ReplyForm(kind="label", labels=("yes", "no"))
    >>> rubric_question(Rubric(name="polite", version="1", instructions="Is it polite?", form=form), answer="Hi").material
    (('answer', 'Hi'),)
    """
    for name, text in material.items():
        if not isinstance(text, str):
            raise TypeError(f"rubric {rubric.name}: the material {name!r} is {type(text).__name__}; allowed: texts")
    return Question(
        query="",
        expected="",
        answer="",
        threshold=0.0,
        kind="rubric",
        rubric=rubric,
        material=tuple(material.items()),
    )


def question_key(version: str, question: Question) -> str:
    """Return the cache key of a question: a hash of the evaluator version and the content.

    >>> question = Question(query="2+2?", expected="4", answer="four", threshold=0.7)
    >>> question_key("exact-1", question) == question_key("exact-2", question)
    False
    """
    payload = asdict(question)
    if question.rubric is None:  # keeps the keys of verdicts that were paid for before rubrics existed
        del payload["rubric"], payload["material"]
    if not question.also_accepted:  # likewise those from before lists of accepted answers
        del payload["also_accepted"]
    content = json.dumps([version, payload], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()
