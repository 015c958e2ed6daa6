"""The agentic metric of Fair Forge 3.0.0, number for number, with its argument names and result fields.

    from otel_agentic.compat.fair_forge import Agentic

    results = Agentic.run(datasets, k=3, model=model)  # as `fair_forge.metrics.agentic.Agentic.run`

Fair Forge itself need not be installed. `docs/compat.md` lists the reproduced parts, faults included, and explains how
to migrate. Results are Pydantic models, because users of Fair Forge save and reload them (`model_dump`,
`model_dump_json`, `model_validate`).
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Protocol, TypedDict, cast, runtime_checkable

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from otel_agentic.errors import BadInputError, UsageError
from otel_agentic.evaluators.base import Overlap
from otel_agentic.judges import Judge, JudgeFailure, Question
from otel_agentic.judges.messages import SYSTEM, encode, new_nonce

if TYPE_CHECKING:
    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]


class _Record(BaseModel):
    # Fair Forge's own objects are accepted too, and files may have more fields than the metric reads.
    model_config = ConfigDict(from_attributes=True, extra="ignore", frozen=True)


class Interaction(_Record):
    """One turn: the user's query, the agent's answer and calls, and the expected ones."""

    qa_id: str
    query: str
    assistant: str
    ground_truth_assistant: str
    agentic: dict[str, Any] | None = {}
    ground_truth_agentic: dict[str, Any] | None = {}


class Dataset(_Record):
    """One conversation."""

    session_id: str
    assistant_id: str
    context: str
    conversation: list[Interaction]
    language: str | None = "english"


@runtime_checkable
class Retriever(Protocol):
    """An object that loads datasets, such as an instance of a subclass of Fair Forge's `Retriever`."""

    def load_dataset(self) -> Iterable[Any]:
        """Return the datasets."""
        ...


def load_datasets(source: Any, options: dict[str, Any]) -> list[Dataset]:
    """Return the datasets of a retriever class (constructed with `options`), a retriever, or an iterable of datasets.

    Raises:
        BadInputError: a dataset lacks a field or has one of a wrong type; the message names the dataset and the field.
        UsageError: the source is not one of the three.
    """
    retriever = source(**options) if isinstance(source, type) else source
    result = retriever.load_dataset() if isinstance(retriever, Retriever) else retriever
    try:
        datasets = list(result)
    except TypeError:
        raise UsageError(
            f"retriever is {type(source).__name__}; allowed: a class or object with load_dataset(), or a list of datasets"
        ) from None
    return [_dataset(index, dataset) for index, dataset in enumerate(datasets)]


def _dataset(index: int, dataset: Any) -> Dataset:
    try:
        return Dataset.model_validate(dataset)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "dataset"
        raise BadInputError(f"dataset {index}: {field}: {first['msg']}; found {first['input']!r:.80}") from None


Ratio = Annotated[float, Field(ge=0.0, le=1.0)]


class ToolCorrectnessScore(BaseModel):
    """The tool score of one interaction; every number is in [0, 1]."""

    tool_selection_correct: Ratio
    parameter_accuracy: Ratio
    sequence_correct: Ratio
    result_utilization: Ratio
    overall_correctness: Ratio
    is_correct: bool
    reasoning: str | None = None


class AgenticMetric(BaseModel):
    """The result for one conversation. `pass_at_k` and `pass_pow_k` are over its *interactions*, as in Fair Forge.

    The bounds are None in frequentist mode. `judge_failures` is not in Fair Forge: the interactions whose score of 0.0
    comes from a failure of the judge, not of the agent.
    """

    session_id: str
    assistant_id: str
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


#: The weighted numbers are added in this order.
DEFAULT_WEIGHTS: Final[Mapping[str, float]] = MappingProxyType(
    {"selection": 0.25, "parameters": 0.25, "sequence": 0.25, "utilization": 0.25}
)

_Calls = Mapping[Hashable, list[Any]]


def turn_tool_correctness(
    agentic: Any, ground_truth_agentic: Any, *, weights: Mapping[str, float] | None = None, threshold: float = 1.0
) -> ToolCorrectnessScore | None:
    """Return the tool score of an interaction as the whole metric reports it: None if no tool was used.

    Also None if nothing is annotated. An agent that called no tool although one was expected therefore has no score,
    not 0.

    Raises:
        BadInputError: see `tool_correctness`.
    """
    if not ground_truth_agentic or not agentic or (isinstance(agentic, Mapping) and not agentic.get("tools_used")):
        return None
    return tool_correctness(agentic, ground_truth_agentic, weights=weights, threshold=threshold)


def tool_correctness(
    agentic: Any, ground_truth_agentic: Any, *, weights: Mapping[str, float] | None = None, threshold: float = 1.0
) -> ToolCorrectnessScore:
    """Return the four numbers of the actual calls compared with the expected ones, each in [0, 1], and their weighted sum.

    This is Fair Forge's definition, by sets of names and by the n-th call of each name; `otel_agentic.scoring` pairs
    the calls with the greatest agreement, and normalises the weights.

    Args:
        agentic: `tools_used` (list of objects with `tool_name`, `parameters`, `step`) and `final_answer_uses_tools`.
        ground_truth_agentic: `expected_tools`, of the same form, and `tool_sequence_matters`.
        weights: of `selection`, `parameters`, `sequence`, `utilization`, not normalised: a sum above 1 is rejected if
            the result exceeds 1. None: .25 each.
        threshold: the sum at which the tools are correct, compared without any tolerance for rounding.

    Raises:
        BadInputError: input on which Fair Forge fails with an exception; the message names the malformed part.

    >>> call = {"tool_name": "calc", "parameters": {"a": 5, "b": 3}, "step": 1}
    >>> wrong = {"tools_used": [call | {"parameters": {"a": 5, "b": 4}}], "final_answer_uses_tools": True}
    >>> tool_correctness(wrong, {"expected_tools": [call]}).overall_correctness
    0.875
    """
    try:
        return _score(agentic, ground_truth_agentic, DEFAULT_WEIGHTS if weights is None else weights, threshold)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BadInputError(_complaint(agentic, ground_truth_agentic, weights, error)) from error


def _score(agentic: Any, truth: Any, weights: Mapping[str, float], threshold: float) -> ToolCorrectnessScore:
    used, expected = _by_name(agentic.get("tools_used", [])), _by_name(truth.get("expected_tools", []))
    matters = truth.get("tool_sequence_matters", True)
    numbers = {
        "selection": _selection(used.keys(), expected.keys()),
        "parameters": _mean([*_parameter_scores(used, expected)]),
        "sequence": _mean([*_step_scores(used, expected)]) if matters else 1.0,
        "utilization": 1.0 if agentic.get("final_answer_uses_tools", False) else 0.0,
    }
    # Added one by one: `sum` of newer Python versions rounds differently, and the threshold has no tolerance.
    overall = reduce(add, (weights[name] * number for name, number in numbers.items()))
    return ToolCorrectnessScore(
        tool_selection_correct=numbers["selection"],
        parameter_accuracy=numbers["parameters"],
        sequence_correct=numbers["sequence"],
        result_utilization=numbers["utilization"],
        overall_correctness=overall,
        is_correct=overall >= threshold,
        reasoning=", ".join(f"{name} {number:.2f}" for name, number in numbers.items()),
    )


def _by_name(tools: Any) -> dict[Hashable, list[Any]]:
    results: dict[Hashable, list[Any]] = {}
    for tool in tools:
        results.setdefault(tool.get("tool_name"), []).append(tool)
    return results


def _selection(used: Any, expected: Any) -> float:
    """Return the share of names in common, as sets: how often a tool is called does not count."""
    overlap = Overlap(common=len(used & expected), actual=len(used), expected=len(expected))
    return overlap.jaccard(empty=1.0)


def _parameter_scores(used: _Calls, expected: _Calls) -> Iterator[float]:
    """Yield a number for each expected call, against the *first* call of its name; a missing name counts once."""
    for name, calls in expected.items():
        if name not in used:
            yield 0.0
            continue
        actual = used[name][0].get("parameters", {})
        yield from (_agreement(call.get("parameters", {}), actual) for call in calls)


def _agreement(expected: Any, actual: Any) -> float:
    if expected == actual:
        return 1.0
    keys = set(expected.keys()).union(actual.keys())
    # An absent key reads as None here: an expected null and no parameter at all are the same.
    return sum(expected.get(key) == actual.get(key) for key in keys) / len(keys) if keys else 0.0


def _step_scores(used: _Calls, expected: _Calls) -> Iterator[float]:
    """Yield a number for each expected call, against the n-th call of its name; a missing name counts once."""
    for name, calls in expected.items():
        if name not in used:
            yield 0.0
            continue
        actual = used[name]
        for index, call in enumerate(calls):
            step = actual[index].get("step") if index < len(actual) else None
            yield 1.0 if call.get("step") == step else 0.0


def _mean(scores: Sequence[float]) -> float:
    return sum(scores) / len(scores) if scores else 0.0


def _complaint(agentic: Any, truth: Any, weights: Mapping[str, float] | None, error: Exception) -> str:
    """Return a message on the malformed part of the input or, without one, on the error of the arithmetic."""
    for field, owner, key in (
        ("agentic", agentic, "tools_used"),
        ("ground_truth_agentic", truth, "expected_tools"),
    ):
        if not isinstance(owner, Mapping):
            return f"{field} is {owner!r}; allowed: an object with {key!r}"
        problem = _tools_problem(owner.get(key, []))
        if problem:
            return f"{field}.{key}{problem}"
    weights_text = "" if weights is None else f" with tool_weights {weights!r}"
    return f"Fair Forge has no tool score for this interaction{weights_text}: {type(error).__name__}: {error}"


def _tools_problem(tools: Any) -> str | None:
    if not isinstance(tools, list):
        return f" is {tools!r}; allowed: a list of objects with tool_name, parameters and step"
    for index, tool in enumerate(tools):
        if not isinstance(tool, Mapping):
            return f"[{index}] is {tool!r}; allowed: an object with tool_name, parameters and step"
        if not isinstance(tool.get("tool_name"), Hashable):
            return f"[{index}].tool_name is {tool['tool_name']!r}; allowed: a text"
        if not isinstance(tool.get("parameters", {}), Mapping):
            return f"[{index}].parameters is {tool['parameters']!r}; allowed: an object, or leave it out"
    return None


class ChatModel(Protocol):
    """An object that answers messages, such as any LangChain `BaseChatModel`."""

    def invoke(self, messages: list[tuple[str, str]], /) -> Any:
        """Return a reply with its `content`."""
        ...


class _Reply(BaseModel):
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


def answer_score(model: ChatModel, *, query: str, answer: str, expected: str, strict: bool = True) -> float | None:
    """Return the score that the model gives, in [0, 1]; None if Fair Forge returns 0.0 because there is no score.

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
            score = read_reply(bound.invoke(messages))
        except Exception as error:  # noqa: BLE001 — a chat model may raise anything; all of it means no score
            if _ASK_AGAIN in str(error) and attempt < TRIES - 1:
                continue
            return None
        if score is not None:
            return score
    return None


def read_reply(reply: Any) -> float | None:
    """Return the score of a reply, None if the model called a tool instead of replying.

    Raises:
        ValueError: the reply is not exactly the JSON object, or its score is out of bounds.

    >>> from types import SimpleNamespace
    >>> read_reply(SimpleNamespace(content='{"correctness_score": 0.9, "reasoning": "right"}'))
    0.9
    """
    if getattr(reply, "tool_calls", None):
        return None
    return _Reply.model_validate(json.loads(_text(reply.content))).correctness_score


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = ((part.get("text") or part.get("content")) if isinstance(part, dict) else part for part in content)
    return "".join(part for part in parts if isinstance(part, str))


def _bound(model: ChatModel, *, strict: bool) -> ChatModel:
    """Return the model bound to the schema of the reply, or the model itself if it cannot be bound."""
    schema: dict[str, Any] = {"name": "AnswerCorrectness", "schema": _Reply.model_json_schema()}
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

    def __init__(
        self,
        retriever: Any,
        model: ChatModel | Judge,
        k: int,
        *,
        use_structured_output: bool = True,
        strict: bool = True,
        bos_json_clause: str = "```json",
        eos_json_clause: str = "```",
        threshold: float = 0.7,
        tool_threshold: float = 1.0,
        tool_weights: Mapping[str, float] | None = None,
        statistical_mode: StatisticalMode | None = None,
        verbose: bool = False,
        **retriever_options: Any,
    ) -> None:
        """Load the datasets.

        Args:
            retriever: a class with `load_dataset` (constructed with the options that are not named here), an object
                with it, or the datasets themselves: dictionaries or Fair Forge's objects.
            model: any LangChain chat model, or one of our judges.
            k: attempts of pass@k and pass^k.
            use_structured_output: False scores every answer 0.0 without asking a chat model, as Fair Forge does.
            strict: bind the model strictly to the schema of the reply.
            bos_json_clause: accepted for compatibility; only used by the mode without a model.
            eos_json_clause: likewise.
            threshold: score at which an answer is correct, inclusive.
            tool_threshold: score at which tools are correct, inclusive.
            tool_weights: see `tool_correctness`.
            statistical_mode: point estimates (None) or a `BayesianMode`.
            verbose: accepted for compatibility; nothing is logged.
            retriever_options: options of the retriever class.

        Raises:
            BadInputError: a dataset is invalid.
            UsageError: the model or the retriever is of an unsupported kind.
        """
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
        scores = self._answer_scores()
        return [
            self._result(dataset, [next(scores) for _ in dataset.conversation], tool_scores)
            for dataset, tool_scores in zip(self.dataset, tools, strict=True)
        ]

    def _result(
        self, dataset: Dataset, scores: list[float | None], tools: list[ToolCorrectnessScore | None]
    ) -> AgenticMetric:
        # A failure of the judge counts against the agent here; at least `judge_failures` lists them.
        counted_scores = [0.0 if score is None else score for score in scores]
        correct = [index for index, score in enumerate(counted_scores) if score >= self.threshold]
        return AgenticMetric(
            session_id=dataset.session_id,
            assistant_id=dataset.assistant_id,
            total_interactions=len(counted_scores),
            correct_interactions=len(correct),
            is_fully_correct=len(correct) == len(counted_scores),
            threshold=self.threshold,
            correctness_scores=counted_scores,
            correct_indices=correct,
            tool_correctness_scores=tools,
            k=self.k,
            judge_failures=[index for index, score in enumerate(scores) if score is None],
            **rate_fields(self.statistical_mode, len(correct), len(counted_scores), self.k),
        )

    def _tools(self, dataset: Dataset, interaction: Interaction) -> ToolCorrectnessScore | None:
        try:
            return turn_tool_correctness(
                interaction.agentic,
                interaction.ground_truth_agentic,
                weights=self.tool_weights,
                threshold=self.tool_threshold,
            )
        except BadInputError as error:
            raise BadInputError(f"session {dataset.session_id!r}, qa_id {interaction.qa_id!r}: {error}") from error

    def _answer_scores(self) -> Iterator[float | None]:
        """Yield a score for each interaction of each dataset, None if the judge failed."""
        interactions = [interaction for dataset in self.dataset for interaction in dataset.conversation]
        if hasattr(self.model, "judge"):
            from otel_agentic.judges.asking_judge import ask  # noqa: PLC0415 — a chat model needs none of our judges

            verdicts = ask(cast("Judge", self.model), [self._question(interaction) for interaction in interactions])
            yield from (None if isinstance(verdict, JudgeFailure) else verdict.score for verdict in verdicts)
            return
        model = cast("ChatModel", self.model)
        for interaction in interactions:
            yield self._judge_scores(model, interaction) if self.use_structured_output else None

    def _judge_scores(self, model: ChatModel, interaction: Interaction) -> float | None:
        return answer_score(
            model,
            query=interaction.query,
            answer=interaction.assistant,
            expected=interaction.ground_truth_assistant,
            strict=self.strict,
        )

    def _question(self, interaction: Interaction) -> Question:
        return Question(
            query=interaction.query,
            expected=interaction.ground_truth_assistant,
            answer=interaction.assistant,
            threshold=self.threshold,
        )
