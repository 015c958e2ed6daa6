"""Fair Forge's agentic metric: the same constructor, the same results, without Fair Forge."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, cast

from otel_agentic.compat.fair_forge.datasets import Dataset, Interaction, load_datasets
from otel_agentic.compat.fair_forge.rates import FrequentistMode, StatisticalMode, rate_fields
from otel_agentic.compat.fair_forge.replies import ChatModel, answer_score
from otel_agentic.compat.fair_forge.results import AgenticMetric, ToolCorrectnessScore
from otel_agentic.compat.fair_forge.tools import DEFAULT_WEIGHTS, turn_tool_correctness
from otel_agentic.errors import BadInputError, UsageError
from otel_agentic.judges import Judge, JudgeFailure, Question

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Agentic:
    """The metric: an answer score, a tool score and pass@k, pass^k for each conversation.

    A conversation is fully correct when every answer of it scores at least `threshold`; its tools decide nothing.

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
            retriever: a class with `load_dataset` (made with the options that are not named here), an object with it,
                or the datasets themselves: dictionaries or Fair Forge's objects.
            model: any LangChain chat model, or one of our judges.
            k: attempts of pass@k and pass^k.
            use_structured_output: False scores every answer 0.0 without asking a chat model, as Fair Forge does.
            strict: bind the model strictly to the schema of the reply.
            bos_json_clause: kept so that old calls work; only read by the mode that asks nobody.
            eos_json_clause: the same.
            threshold: score at which an answer is correct, inclusive.
            tool_threshold: score at which tools are correct, inclusive.
            tool_weights: see `tool_correctness`.
            statistical_mode: point estimates (None) or a `BayesianMode`.
            verbose: kept so that old calls work; nothing is logged.
            retriever_options: for the retriever class.

        Raises:
            BadInputError: a dataset is not one.
            UsageError: model or retriever is not what is allowed.
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
            BadInputError: a dataset is not one, or an interaction holds tools on which Fair Forge fails.
            UsageError: model or retriever is not what is allowed.
        """
        return cls(retriever, k=k, **options).evaluate()

    def evaluate(self) -> list[AgenticMetric]:
        """Return the result of each conversation, in order.

        Raises:
            BadInputError: an interaction holds tools on which Fair Forge fails; names session and interaction.
        """
        # Tools first: malformed ones are found before any judge is paid.
        tools = [
            [self._tools(dataset, interaction) for interaction in dataset.conversation] for dataset in self.dataset
        ]
        scores = self._answer_scores()
        return [
            self._result(dataset, [next(scores) for _ in dataset.conversation], of_tools)
            for dataset, of_tools in zip(self.dataset, tools, strict=True)
        ]

    def _result(
        self, dataset: Dataset, scores: list[float | None], tools: list[ToolCorrectnessScore | None]
    ) -> AgenticMetric:
        # The agent pays for the judge's failure here; `judge_failures` at least tells.
        counted = [0.0 if score is None else score for score in scores]
        correct = [place for place, score in enumerate(counted) if score >= self.threshold]
        return AgenticMetric(
            session_id=dataset.session_id,
            assistant_id=dataset.assistant_id,
            total_interactions=len(counted),
            correct_interactions=len(correct),
            is_fully_correct=len(correct) == len(counted),
            threshold=self.threshold,
            correctness_scores=counted,
            correct_indices=correct,
            tool_correctness_scores=tools,
            k=self.k,
            judge_failures=[place for place, score in enumerate(scores) if score is None],
            **rate_fields(self.statistical_mode, len(correct), len(counted), self.k),
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
        """Yield a score for each interaction of each dataset, None where the judge failed."""
        interactions = [interaction for dataset in self.dataset for interaction in dataset.conversation]
        if hasattr(self.model, "judge"):
            from otel_agentic.judges.checked import ask  # noqa: PLC0415 — a chat model needs nothing of our judges

            verdicts = ask(cast("Judge", self.model), [self._question(interaction) for interaction in interactions])
            yield from (None if isinstance(verdict, JudgeFailure) else verdict.score for verdict in verdicts)
            return
        model = cast("ChatModel", self.model)
        for interaction in interactions:
            yield self._asked(model, interaction) if self.use_structured_output else None

    def _asked(self, model: ChatModel, interaction: Interaction) -> float | None:
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
