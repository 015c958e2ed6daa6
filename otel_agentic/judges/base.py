"""The plug-in point: is this answer right?

A judge gets questions and gives, in their order, one verdict each. That it could not judge is data
(`JudgeFailure`), never an exception and never a score: a judge's failure is not the agent's.
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
#: What a failure is a failure of. `outage`: the judge does not answer, which may pass. `refused`: it wants other credentials or
#: money, which a person has to see to. `prompt`: it answers, but nothing it answers to this prompt is a verdict. `question`: this
#: one question alone.
FailureKind = Literal["outage", "refused", "prompt", "question"]
QuestionKind = Literal["answer", "parameter", "utilization", "rubric"]
#: What a model is to reply with, beside its reasons: a number, one of some labels, or a list of texts.
ReplyKind = Literal["score", "label", "texts"]
#: A choice of one is none.
_FEWEST_LABELS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyForm:
    """The form of a reply: reasons, and then a score in [`low`, `high`], one of `labels`, or at most `most` texts."""

    kind: ReplyKind = "score"
    low: float = 0.0
    high: float = 1.0
    labels: tuple[str, ...] = ()
    most: int = 20

    def __post_init__(self) -> None:
        """Raise ValueError where no reply could be of this form, or one could be read in two ways."""
        if self.kind == "score" and not -math.inf < self.low < self.high < math.inf:
            raise ValueError(f"low {self.low:g}, high {self.high:g}; low has to be below high, both finite")
        told = {label.strip().casefold() for label in self.labels}
        if self.kind == "label" and (len(told) < _FEWEST_LABELS or len(told) < len(self.labels) or "" in told):
            raise ValueError(f"labels {self.labels!r}; give two or more that differ in more than case and blanks")
        if self.kind == "texts" and self.most < 1:
            raise ValueError(f"most {self.most}; allowed: 1 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rubric:
    """How a model is to judge material of any form: instructions, and what it is to reply with.

    `name` is that of the prompt, as `prompts show` lists it; `version` goes up with every change of the instructions.
    """

    name: str
    version: str
    instructions: str
    form: ReplyForm


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One answer to be judged; all texts come from strangers.

    `expected` is the annotated answer, `also_accepted` are further answers that are equally right, `answer` is what the agent
    said, `not_answer` what it must not say (None: nothing). `threshold` is the score, in [0, 1], at which this answer passes;
    the score is that of the accepted answer that fits best.

    Of kind `parameter`, `expected` and `answer` are the expected and the made value as JSON, `query` names the tool and
    its parameter. Of kind `utilization`, `expected` is the result of a tool call, `answer` what was said after it.

    Of kind `rubric`, `rubric` says how `material`, texts by name, is judged; the other texts are empty, see `rubric_question`.
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
        """All accepted answers, the annotated order kept.

        >>> Question(query="2+2?", expected="4", answer="four", threshold=0.7, also_accepted=("four",)).accepted_answers
        ('4', 'four')
        """
        return (self.expected, *self.also_accepted)

    def __post_init__(self) -> None:
        """Raise ValueError where a question of kind `rubric` has none, or another kind has one."""
        if (self.kind == "rubric") != (self.rubric is not None):
            raise ValueError(f"kind {self.kind!r}: a question of kind 'rubric' has a rubric, see rubric_question")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A judge's answer: `score` in [0, 1] and why.

    To a question of kind `rubric`, `score` is in the range of its form, and 0 where that asks for a `label` or `texts`.

    `model` is None for a judge without one. `tries` counts calls of the model, `latency_s` is seconds over all of them,
    `cost_usd` is None where the price is unknown. `cached`: taken from an earlier evaluation.

    `unsure`: the judge does not decide, because `score` lies between its failing and its passing threshold. The turn is then
    `not_evaluated: judge_unsure`, and its score is kept.
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
    """Why there is no verdict: the judge failed after its retries, or was not asked because its budget is exhausted.

    `kind` decides what is no longer asked after several failures in a row, see `judges.breaker`: everything after an outage or a
    refusal, the same prompt after unreadable replies, nothing for a failure of a single question.
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

    `name` and `version` go into the evaluator version: a new version judges everything anew. A judge of more than answers
    says so by an attribute `kinds`, see `kinds_of`. One that never looks at a question's threshold says so by an attribute
    `reads_threshold` that is False: its verdicts then hold for any other threshold. One whose scores are calibrated
    probabilities of being right has an attribute `calibrated` that is True: they show how far its verdicts shift a pass rate.
    """

    name: str
    version: str

    @classmethod
    def from_settings(cls, settings: JudgeSettings, argument: str | None = None) -> Judge:
        """Return the judge as the settings want it.

        Args:
            settings: limits and manners, for judges that ask a model.
            argument: what follows the colon in `--judge name:argument`, None without a colon.

        Raises:
            UsageError: the argument is missing, or not one that the judge takes.
        """
        ...

    def judge(self, questions: Sequence[Question]) -> list[Verdict | JudgeFailure]:
        """Return one verdict or failure a question, in their order."""
        ...


@runtime_checkable
class StreamingJudge(Judge, Protocol):
    """A judge that tells each verdict as soon as it has it, so that it can be kept before the next one is paid for."""

    def stream(self, questions: Iterable[tuple[int, Question]]) -> Iterator[tuple[int, Verdict | JudgeFailure]]:
        """Yield (number, verdict or failure) in order of completion, once for each numbered question.

        The questions are taken one by one as there is room for another call: whoever gives them may stop at any time.
        """
        ...


@runtime_checkable
class ThriftyJudge(StreamingJudge, Protocol):
    """A judge that asks leave for every call beyond the first one of a question: retries, votes, canaries.

    `permit` answers whether one more call may be spent on a question. It is called from any thread, one at a time for a
    question, and is set by whoever holds the budget; a judge begins with one that always allows.
    """

    permit: Callable[[Question], bool]

    def estimated_tokens(self, question: Question) -> int:
        """Return about how many tokens one call for a question takes, both ways."""
        ...


class JudgeCache(Protocol):
    """Verdicts of earlier evaluations, by `question_key`. Failures are never kept: they are asked again."""

    def get(self, keys: Sequence[str]) -> dict[str, Verdict]:
        """Return the stored verdicts of those keys that have one."""
        ...

    def put(self, key: str, verdict: Verdict | JudgeFailure, question: Question) -> None:
        """Record what a question came to; durable soon, at the latest after `flush`.

        Args:
            key: of the question, see `question_key`.
            verdict: what it came to.
            question: what was asked; `metric_of` says what it was about.
        """
        ...

    def flush(self) -> None:
        """Return when everything put before is durable."""
        ...


class Budget(Protocol):
    """What a judge may spend in the current window; used by one thread at a time, not always the same.

    An attribute `used_up`, where there is one, is a text that names the limit that is reached and its setting.
    """

    def allows(self, *, calls: int, tokens: int) -> bool:
        """Return whether that many more model calls and tokens (an estimate) may be spent."""
        ...

    def spend(self, verdict: Verdict | JudgeFailure) -> None:
        """Count what a verdict, or a failure, has cost."""
        ...


def kinds_of(judge: Judge) -> frozenset[QuestionKind]:
    """Return which questions a judge takes: those of its attribute `kinds`, answers alone where it has none."""
    kinds: frozenset[QuestionKind] = getattr(judge, "kinds", frozenset({"answer"}))
    return kinds


def is_calibrated(judge: Judge) -> bool:
    """Return whether the scores of a judge are probabilities, see its attribute `calibrated`."""
    return bool(getattr(judge, "calibrated", False))


def metric_of(question: Question) -> str:
    """Return the name of the prompt that a question is asked with: its rubric's, else its kind.

    >>> metric_of(Question(query="2+2?", expected="4", answer="four", threshold=0.7))
    'answer'
    """
    return question.kind if question.rubric is None else question.rubric.name


def version_for(judge: Judge, rubric: Rubric | None) -> str:
    """Return the version of a judge as far as it concerns a rubric, or (None) the questions without one.

    A judge that does not answer alike for all of them says so by a method `version_for(rubric)`: what it tells its model
    beside the rubric may change without the verdicts of other questions being judged anew.
    """
    of_rubric: Callable[[Rubric], str] | None = getattr(judge, "version_for", None)
    return judge.version if rubric is None or of_rubric is None else of_rubric(rubric)


def rubric_question(rubric: Rubric, /, **material: str) -> Question:
    """Return a question about some material; its texts may be strangers', its names are ours.

    Raises:
        TypeError: something of the material is no text, as an answer that was not recorded is None; names it.

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
    """Return the cache key of a question: a hash of evaluator version and content.

    >>> question = Question(query="2+2?", expected="4", answer="four", threshold=0.7)
    >>> question_key("exact-1", question) == question_key("exact-2", question)
    False
    """
    told = asdict(question)
    if question.rubric is None:  # keys of verdicts that were paid for before there were rubrics stay as they are
        del told["rubric"], told["material"]
    if not question.also_accepted:  # nor do those from before there were lists of accepted answers change
        del told["also_accepted"]
    content = json.dumps([version, told], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()
