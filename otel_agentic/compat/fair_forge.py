"""The agentic metric of Fair Forge 3.0.0, number for number, with its argument names and result fields.

    from otel_agentic.compat.fair_forge import Agentic, Batch, Dataset, Retriever

    results = Agentic.run(MyRetriever, k=3, model=model)  # as `fair_forge.metrics.agentic.Agentic.run`

This module has all names that a script of Fair Forge imports for this metric from its various modules.
Fair Forge itself need not be installed. `docs/compat.md` lists the reproduced parts, faults included, and explains how
to migrate. Results are Pydantic models, because users of Fair Forge save and reload them (`model_dump`,
`model_dump_json`, `model_validate`).
"""

from __future__ import annotations

import json
import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Protocol, TypedDict, cast

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from otel_agentic.compat.fair_forge_tools import (
    DEFAULT_WEIGHTS,
    ToolCorrectnessScore,
    tool_correctness,
    turn_tool_correctness,
)
from otel_agentic.errors import BadInputError, UsageError
from otel_agentic.judges import Judge, JudgeFailure, Question
from otel_agentic.judges.messages import SYSTEM, encode, new_nonce

if TYPE_CHECKING:
    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]


__all__ = [
    "Agentic",
    "AgenticMetric",
    "AnswerCorrectnessOutput",
    "BaseMetric",
    "Batch",
    "BayesianMode",
    "Dataset",
    "FrequentistMode",
    "IterationLevel",
    "Retriever",
    "SessionMetadata",
    "StatisticalMode",
    "StreamedBatch",
    "ToolCorrectnessScore",
    "conversation_level",
    "pass_at_k",
    "pass_pow_k",
    "tool_correctness",
    "turn_tool_correctness",
]

_LOG: Final = logging.getLogger(__name__)


class _Record(BaseModel):
    # Fair Forge's own objects are accepted too, and files may have more fields than the metric reads.
    model_config = ConfigDict(from_attributes=True, extra="ignore")


class Batch(_Record):
    """One turn: the user's query, the agent's answer and calls, and the expected ones.

    The metric does not read `logprobs`, `observation` and `weight`.
    """

    qa_id: str
    query: str
    assistant: str
    ground_truth_assistant: str
    agentic: dict[str, Any] | None = {}
    ground_truth_agentic: dict[str, Any] | None = {}
    logprobs: dict[str, Any] | None = {}
    observation: str | None = None
    weight: Annotated[float, Field(ge=0)] | None = None


class SessionMetadata(_Record):
    """The session of a streamed batch."""

    session_id: str
    assistant_id: str
    context: str
    language: str | None = "english"


class StreamedBatch(_Record):
    """A turn with its session. `Agentic` needs complete sessions, as in Fair Forge."""

    metadata: SessionMetadata
    batch: Batch


class Dataset(SessionMetadata):
    """One conversation."""

    conversation: list[Batch]


class IterationLevel(StrEnum):
    """The unit that a retriever yields; `Agentic` reads complete sessions."""

    FULL_DATASET = "full_dataset"
    STREAM_SESSIONS = "stream_sessions"
    STREAM_BATCHES = "stream_batches"


class Retriever(ABC):
    """The base class of a retriever, which loads datasets; any other class with `load_dataset` is accepted, too."""

    def __init__(self, **kwargs: Any) -> None:
        """Keep the options that the metric does not take itself."""
        self.kwargs = kwargs

    @property
    def iteration_level(self) -> IterationLevel:
        """The unit that `load_dataset` yields."""
        return IterationLevel.FULL_DATASET

    @abstractmethod
    def load_dataset(self) -> Iterable[Any]:
        """Return the datasets."""


def load_datasets(source: Any, options: dict[str, Any]) -> list[Dataset]:
    """Return the datasets of a retriever class (constructed with `options`), a retriever, or an iterable of datasets.

    Raises:
        BadInputError: a dataset lacks a field or has one of a wrong type; the message names the dataset and the field.
        UsageError: the source is not one of the three, yields single turns, or takes no options.
    """
    if options and not isinstance(source, type):
        raise UsageError(
            f"unknown option {', '.join(options)}: only a retriever class takes options beyond those of Agentic, and the "
            f"retriever is a {type(source).__name__}"
        )
    retriever = source(**options) if isinstance(source, type) else source
    result = retriever.load_dataset() if hasattr(retriever, "load_dataset") else retriever
    try:
        datasets = list(result)
    except TypeError:
        raise UsageError(
            f"retriever is {type(source).__name__}; allowed: a class or object with load_dataset(), or a list of datasets"
        ) from None
    if any(hasattr(dataset, "metadata") and hasattr(dataset, "batch") for dataset in datasets):
        raise UsageError(
            "the retriever yields StreamedBatch, and Agentic scores complete sessions; return Dataset objects, with "
            "iteration_level full_dataset or stream_sessions"
        )
    return [_dataset(index, dataset) for index, dataset in enumerate(datasets)]


def _dataset(index: int, dataset: Any) -> Dataset:
    try:
        return Dataset.model_validate(dataset)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "dataset"
        raise BadInputError(f"dataset {index}: {field}: {first['msg']}; found {first['input']!r:.80}") from None


class BaseMetric(BaseModel):
    """The session of a result."""

    session_id: str
    assistant_id: str


class AgenticMetric(BaseMetric):
    """The result for one conversation. `pass_at_k` and `pass_pow_k` are over its *interactions*, as in Fair Forge.

    The bounds are None in frequentist mode. Two fields are not in Fair Forge: `judge_failures`, the interactions whose score
    of 0.0 comes from a failure of the judge, not of the agent; and `answer_reasoning`, the judge's reasoning for each score,
    or why a score is missing.
    """

    total_interactions: int
    correct_interactions: int
    is_fully_correct: bool
    threshold: float
    correctness_scores: list[float]
    correct_indices: list[int]
    tool_correctness_scores: list[ToolCorrectnessScore | None] = []
    k: int = 0
    pass_at_k: float = 0.0
    pass_at_k_ci_low: float | None = None
    pass_at_k_ci_high: float | None = None
    pass_pow_k: float = 0.0
    pass_pow_k_ci_low: float | None = None
    pass_pow_k_ci_high: float | None = None
    judge_failures: list[int] = []
    answer_reasoning: list[str] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationLevel:
    """pass@k and pass^k over `n` conversations, `c` of which are fully correct."""

    n: int
    c: int
    pass_at_k: float
    pass_pow_k: float


ResultType = Literal["point_estimate", "distribution"]


def pass_at_k(n: int, c: int, k: int) -> float:
    """Return 1 - (1 - c/n)^k, 0 for c = 0 and 1 for c >= n.

    Without attempts it is 0, and impossible counts return a number too; in these cases `stats` is undefined or raises.
    The formula is Fair Forge's; `stats` computes the same by logarithms, so that the last digits differ.

    >>> round(pass_at_k(3, 2, 3), 3), pass_at_k(0, 0, 3), pass_at_k(2, 3, 3)
    (0.963, 0.0, 1.0)
    """
    certain = _certain(n, c)
    return 1.0 - (1.0 - c / n) ** k if certain is None else certain


def pass_pow_k(n: int, c: int, k: int) -> float:
    """Return (c/n)^k, 0 for c = 0 and 1 for c >= n, even if `stats` is undefined or raises.

    >>> round(pass_pow_k(3, 2, 3), 3), pass_pow_k(0, 0, 3), pass_pow_k(3, 0, 0)
    (0.296, 0.0, 0.0)
    """
    certain = _certain(n, c)
    return float((c / n) ** k) if certain is None else certain


def _certain(n: int, c: int) -> float | None:
    if c == 0:
        return 0.0
    return 1.0 if c >= n else None


def conversation_level(results: Sequence[AgenticMetric], k: int) -> ConversationLevel:
    """Return pass@k and pass^k over conversations, which is what the paper defines and Fair Forge never reports."""
    n, c = len(results), sum(result.is_fully_correct for result in results)
    return ConversationLevel(n=n, c=c, pass_at_k=pass_at_k(n, c, k), pass_pow_k=pass_pow_k(n, c, k))


class RateSamples(TypedDict):
    """The estimate of a rate in a Bayesian mode."""

    mean: float
    ci_low: float
    ci_high: float
    samples: FloatArray


class StatisticalMode(Protocol):
    """How a rate is estimated; Fair Forge's own modes fit too."""

    def rate_estimation(self, successes: int, trials: int) -> Any:
        """Return a number in [0, 1], or for a distribution a mapping with its `samples`."""
        ...

    def get_result_type(self) -> str:
        """Return `point_estimate` or `distribution`."""
        ...


class FrequentistMode:
    """Point estimates without bounds."""

    def rate_estimation(self, successes: int, trials: int) -> float:
        """Return the share of successes, 0 without trials."""
        return successes / trials if trials > 0 else 0.0

    def get_result_type(self) -> ResultType:
        """Return `point_estimate`."""
        return "point_estimate"


class BayesianMode:
    """Samples of the Beta posterior of a rate.

    The generator is created once and never reset: the same conversations yield other numbers in a second run, or in
    another order. The closed form (`otel_agentic.stats.BetaPosterior`) has no such noise.
    """

    def __init__(  # noqa: PLR0917 — existing callers may pass these by position
        self,
        mc_samples: int = 5000,
        ci_level: float = 0.95,
        dirichlet_prior: float = 1.0,
        beta_prior_a: float = 1.0,
        beta_prior_b: float = 1.0,
        rng_seed: int | None = 42,
    ) -> None:
        self.mc_samples = mc_samples
        self.ci_level = ci_level
        self.dirichlet_prior = dirichlet_prior
        self.beta_prior_a = beta_prior_a
        self.beta_prior_b = beta_prior_b
        self.rng = np.random.default_rng(rng_seed)

    def rate_estimation(self, successes: int, trials: int) -> RateSamples:
        """Return the posterior after the trials; zeros without trials."""
        if trials <= 0:
            return self._summary(np.zeros(self.mc_samples))
        a, b = self.beta_prior_a + successes, self.beta_prior_b + max(trials - successes, 0)
        return self._summary(self.rng.beta(a, b, size=self.mc_samples))

    def get_result_type(self) -> ResultType:
        """Return `distribution`."""
        return "distribution"

    def _summary(self, samples: FloatArray) -> RateSamples:
        if not samples.size:
            return {"mean": 0.0, "ci_low": 0.0, "ci_high": 0.0, "samples": samples}
        low, high = _bounds(samples, self.ci_level)
        return {"mean": float(samples.mean()), "ci_low": low, "ci_high": high, "samples": samples}


def rate_fields(mode: StatisticalMode, correct: int, total: int, k: int) -> dict[str, float]:
    """Return the `pass_*` fields of a conversation's result.

    >>> rate_fields(FrequentistMode(), 1, 2, 2)
    {'pass_at_k': 0.75, 'pass_pow_k': 0.25}
    """
    # Called for both result types: a Bayesian mode draws samples here, which affects its later draws.
    rate = mode.rate_estimation(correct, total)
    if mode.get_result_type() == "point_estimate":
        return {"pass_at_k": pass_at_k(total, correct, k), "pass_pow_k": pass_pow_k(total, correct, k)}
    samples, level = rate["samples"], getattr(mode, "ci_level", 0.95)
    fields: dict[str, float] = {}
    for name, transformed in (("pass_at_k", 1.0 - (1.0 - samples) ** k), ("pass_pow_k", samples**k)):
        low, high = _bounds(transformed, level)
        fields |= {name: float(np.mean(transformed)), f"{name}_ci_low": low, f"{name}_ci_high": high}
    return fields


def _bounds(samples: FloatArray, level: float) -> tuple[float, float]:
    tail = (1.0 - level) / 2.0
    return float(np.quantile(samples, tail)), float(np.quantile(samples, 1.0 - tail))


class ChatModel(Protocol):
    """An object that answers messages, such as any LangChain `BaseChatModel`."""

    def invoke(self, messages: list[tuple[str, str]], /) -> Any:
        """Return a reply with its `content`."""
        ...


class AnswerCorrectnessOutput(BaseModel):
    """A reply that Fair Forge takes: both fields, nothing else, the score within its bounds."""

    model_config = ConfigDict(extra="forbid")

    correctness_score: Annotated[float, Field(ge=0.0, le=1.0)]
    reasoning: str


#: Maximum number of calls of the model for one answer.
TRIES: Final = 5
#: The model is called again only if the text of an exception contains this: meant as a status, but any 400 matches.
_ASK_AGAIN: Final = "400"

_INSTRUCTIONS: Final = """\
Grade how correct the agent's answer to the query is, measured by the expected answer, from 0 to 1:
1.0 the same facts, faultlessly spelled, in whatever words; .85 to .95 the same facts, wordier than needed;
.65 to .75 the right fact with a slip of spelling; .5 to .65 right, but an important detail is missing;
.3 to .5 right in part, with serious mistakes; below .3 a wrong fact.

Reply with one JSON object and nothing else: {"correctness_score": NUMBER, "reasoning": TEXT}."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerGrade:
    """The judge's score of an answer, in [0, 1], with its reasoning; `score` is None if Fair Forge scores a failure 0.0."""

    score: float | None
    reasoning: str


def grade_answer(model: ChatModel, *, query: str, answer: str, expected: str, strict: bool = True) -> AnswerGrade:
    """Return the score that the model gives, or why it is missing.

    An exception is final, unless its text contains "400": then the model is called up to five times. A reply that is
    not exactly the JSON object raises such an exception. `strict`: bind the model strictly to the schema of the reply,
    if it supports that.
    """
    bound = _bound(model, strict=strict)
    data, word = encode({"query": query, "expected_answer": expected, "agent_answer": answer}), new_nonce()
    material = f"<data {word}>\n{data}\n</data {word}>\n\n{_INSTRUCTIONS}"
    messages = [("system", SYSTEM.format(nonce=word)), ("human", material)]
    for attempt in range(TRIES):
        try:
            reply = read_reply(bound.invoke(messages))
        except Exception as error:  # noqa: BLE001 — a chat model may raise anything; all of it means no score
            if _ASK_AGAIN in str(error) and attempt < TRIES - 1:
                continue
            return AnswerGrade(score=None, reasoning=f"the judge failed: {type(error).__name__}: {error}")
        if reply is not None:
            return AnswerGrade(score=reply.correctness_score, reasoning=reply.reasoning)
    return AnswerGrade(score=None, reasoning=f"the judge failed: {TRIES} replies were tool calls, without an answer")


def read_reply(reply: Any) -> AnswerCorrectnessOutput | None:
    """Return the content of a reply, None if the model called a tool instead of replying.

    Raises:
        ValueError: the reply is not exactly the JSON object, or its score is out of bounds.

    >>> from types import SimpleNamespace
    >>> read_reply(SimpleNamespace(content='{"correctness_score": 0.9, "reasoning": "right"}')).correctness_score
    0.9
    """
    if getattr(reply, "tool_calls", None):
        return None
    return AnswerCorrectnessOutput.model_validate(json.loads(_text(reply.content)))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = ((part.get("text") or part.get("content")) if isinstance(part, dict) else part for part in content)
    return "".join(part for part in parts if isinstance(part, str))


def _bound(model: ChatModel, *, strict: bool) -> ChatModel:
    """Return the model bound to the schema of the reply, or the model itself if it cannot be bound."""
    schema: dict[str, Any] = {"name": "AnswerCorrectness", "schema": AnswerCorrectnessOutput.model_json_schema()}
    if strict:
        schema["strict"] = True
    try:
        bind = model.bind_tools  # type: ignore[attr-defined]  # a capability that not every model has
        return bind([], response_format={"type": "json_schema", "json_schema": schema})  # type: ignore[no-any-return]
    except (AttributeError, NotImplementedError):
        return model


class Agentic:
    """The metric: an answer score, a tool score and pass@k, pass^k for each conversation.

    A conversation is fully correct if each of its answers scores at least `threshold`; its tools do not count.

    >>> from otel_agentic.judges import ExactJudge
    >>> turn = {"qa_id": "1", "query": "Capital of France?", "assistant": "Paris", "ground_truth_assistant": "Paris"}
    >>> data = [{"session_id": "s", "assistant_id": "a", "context": "", "conversation": [turn]}]
    >>> [result] = Agentic.run(data, k=3, model=ExactJudge())
    >>> result.is_fully_correct, result.pass_pow_k
    (True, 1.0)
    """

    def __init__(  # noqa: PLR0917 — existing callers may pass these by position
        self,
        retriever: Any,
        model: ChatModel | Judge,
        k: int,
        use_structured_output: bool = True,  # noqa: FBT001, FBT002 — same
        strict: bool = True,  # noqa: FBT001, FBT002 — same
        bos_json_clause: str = "```json",
        eos_json_clause: str = "```",
        threshold: float = 0.7,
        tool_threshold: float = 1.0,
        tool_weights: Mapping[str, float] | None = None,
        statistical_mode: StatisticalMode | None = None,
        *,
        verbose: bool = False,
        **retriever_options: Any,
    ) -> None:
        """Load the datasets.

        Args:
            retriever: a class with `load_dataset` (constructed with the options that are not named here), an object
                with it, or the datasets themselves: dictionaries or Fair Forge's objects.
            model: any LangChain chat model, or one of our judges.
            k: attempts of pass@k and pass^k.
            use_structured_output: False scores every answer 0.0 without asking a chat model, as Fair Forge does, whose prompt
                for this mode cannot be rendered. A warning states it.
            strict: bind the model strictly to the schema of the reply.
            bos_json_clause: the text before the JSON of a reply; without effect, as in Fair Forge, which reads it only if
                `use_structured_output` is False.
            eos_json_clause: the text after the JSON; likewise.
            threshold: score at which an answer is correct, inclusive.
            tool_threshold: score at which tools are correct, inclusive.
            tool_weights: see `tool_correctness`.
            statistical_mode: point estimates (None) or a `BayesianMode`.
            verbose: log each score with the judge's reasoning; to standard error, unless logging is configured.
            retriever_options: options of the retriever class.

        Raises:
            BadInputError: a dataset is invalid.
            UsageError: the model or the retriever is of an unsupported kind, or an option is unknown.
        """
        if verbose:
            show_log(_LOG)
        if not (hasattr(model, "judge") or hasattr(model, "invoke")):
            raise UsageError(f"model is {type(model).__name__}; allowed: a chat model with invoke(), or a judge")
        if not use_structured_output:
            warnings.warn(
                "use_structured_output=False: as in Fair Forge 3.0.0 the model is not asked and every answer scores 0.0;"
                " leave it out",
                stacklevel=2,
            )
        self.dataset = load_datasets(retriever, retriever_options)
        self.model = model
        self.k = k
        self.use_structured_output = use_structured_output
        self.strict = strict
        self.bos_json_clause = bos_json_clause
        self.eos_json_clause = eos_json_clause
        self.threshold = threshold
        self.tool_threshold = tool_threshold
        self.tool_weights: Mapping[str, float] = DEFAULT_WEIGHTS if tool_weights is None else tool_weights
        self.statistical_mode: StatisticalMode = FrequentistMode() if statistical_mode is None else statistical_mode
        self.verbose = verbose

    @classmethod
    def run(cls, retriever: Any, k: int, **options: Any) -> list[AgenticMetric]:
        """Return the result of each conversation, in order; `options` are those of the constructor.

        Raises:
            BadInputError: a dataset is invalid, or an interaction holds tools on which Fair Forge fails.
            UsageError: the model or the retriever is of an unsupported kind.
        """
        return cls(retriever, k=k, **options).evaluate()

    def evaluate(self) -> list[AgenticMetric]:
        """Return the result of each conversation, in order.

        Raises:
            BadInputError: an interaction holds tools on which Fair Forge fails; names session and interaction.
        """
        # Tools first: malformed ones raise before any judge incurs costs.
        tools = [
            [self._tools(dataset, interaction) for interaction in dataset.conversation] for dataset in self.dataset
        ]
        grades = self._grades()
        results = [
            self._result(dataset, [next(grades) for _ in dataset.conversation], tool_scores)
            for dataset, tool_scores in zip(self.dataset, tools, strict=True)
        ]
        self._log_failures(results)
        correct = sum(result.is_fully_correct for result in results)
        _LOG.info("%d of %d conversations are fully correct", correct, len(results))
        return results

    def _result(
        self, dataset: Dataset, grades: list[AnswerGrade], tools: list[ToolCorrectnessScore | None]
    ) -> AgenticMetric:
        # A failure of the judge counts against the agent here; at least `judge_failures` lists them.
        scores = [0.0 if grade.score is None else grade.score for grade in grades]
        correct = [index for index, score in enumerate(scores) if score >= self.threshold]
        for interaction, score, grade in zip(dataset.conversation, scores, grades, strict=True):
            where = (dataset.session_id, interaction.qa_id)
            _LOG.debug("session %r, qa_id %r: answer score %.3f: %s", *where, score, grade.reasoning)
        return AgenticMetric(
            session_id=dataset.session_id,
            assistant_id=dataset.assistant_id,
            total_interactions=len(scores),
            correct_interactions=len(correct),
            is_fully_correct=len(correct) == len(scores),
            threshold=self.threshold,
            correctness_scores=scores,
            correct_indices=correct,
            tool_correctness_scores=tools,
            k=self.k,
            judge_failures=[index for index, grade in enumerate(grades) if grade.score is None],
            answer_reasoning=[grade.reasoning for grade in grades],
            **rate_fields(self.statistical_mode, len(correct), len(scores), self.k),
        )

    @staticmethod
    def _log_failures(results: Sequence[AgenticMetric]) -> None:
        failures = [(result, index) for result in results for index in result.judge_failures]
        if failures:
            result, index = failures[0]
            total = sum(result.total_interactions for result in results)
            message = "%d of %d answers have no score and count as 0.0, as in Fair Forge; the first, session %r: %s"
            _LOG.warning(message, len(failures), total, result.session_id, result.answer_reasoning[index])

    def _tools(self, dataset: Dataset, interaction: Batch) -> ToolCorrectnessScore | None:
        try:
            return turn_tool_correctness(
                interaction.agentic,
                interaction.ground_truth_agentic,
                weights=self.tool_weights,
                threshold=self.tool_threshold,
            )
        except BadInputError as error:
            raise BadInputError(f"session {dataset.session_id!r}, qa_id {interaction.qa_id!r}: {error}") from error

    def _grades(self) -> Iterator[AnswerGrade]:
        """Yield the grade of each interaction of each dataset."""
        interactions = [interaction for dataset in self.dataset for interaction in dataset.conversation]
        if hasattr(self.model, "judge"):
            from otel_agentic.judges.asking_judge import ask  # noqa: PLC0415 — a chat model needs none of our judges

            for verdict in ask(
                cast("Judge", self.model), [self._question(interaction) for interaction in interactions]
            ):
                yield (
                    AnswerGrade(score=None, reasoning=f"the judge failed: {verdict.message}")
                    if isinstance(verdict, JudgeFailure)
                    else AnswerGrade(score=verdict.score, reasoning=verdict.reasoning)
                )
            return
        model = cast("ChatModel", self.model)
        for interaction in interactions:
            if self.use_structured_output:
                yield grade_answer(
                    model,
                    query=interaction.query,
                    answer=interaction.assistant,
                    expected=interaction.ground_truth_assistant,
                    strict=self.strict,
                )
            else:
                yield AnswerGrade(score=None, reasoning="the judge was not asked: use_structured_output=False")

    def _question(self, interaction: Batch) -> Question:
        return Question(
            query=interaction.query,
            expected=interaction.ground_truth_assistant,
            answer=interaction.assistant,
            threshold=self.threshold,
        )


def show_log(log: logging.Logger) -> None:
    """Emit all messages of a logger; to standard error, unless the process configures logging itself."""
    log.setLevel(logging.DEBUG)
    if not log.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        log.addHandler(handler)
