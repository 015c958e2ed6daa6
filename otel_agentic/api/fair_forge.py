"""Fair Forge's agentic metric with the default arithmetic: its constructor, and an `Evaluation` as the result.

    from otel_agentic.api.fair_forge import Agentic

    evaluation = Agentic.run(MyRetriever, k=3, model=model, threshold=0.8)
    print(evaluation)

`otel_agentic.compat.fair_forge` has the class of the same name with Fair Forge's own arithmetic.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.api.evaluate import evaluate, settings_with
from otel_agentic.api.evaluation import chosen_k
from otel_agentic.compat.fair_forge import load_datasets, show_log
from otel_agentic.config import Settings, environment_settings
from otel_agentic.errors import UsageError

if TYPE_CHECKING:
    from otel_agentic.api.evaluation import Evaluation
    from otel_agentic.compat.fair_forge import StatisticalMode
    from otel_agentic.judges.registry import JudgeLike

_LOG: Final = logging.getLogger(__name__)
_CLAUSES: Final = ("```json", "```")


class Agentic:
    """Evaluates the sessions of a retriever: pass@k and pass^k over sessions, and the tools of each turn.

    A failure of the judge is not evaluated instead of 0.0, and the tools are scored by our rules.

    >>> turn = {"qa_id": "1", "query": "Capital of France?", "assistant": "Paris", "ground_truth_assistant": "Paris"}
    >>> data = [{"session_id": "s", "assistant_id": "a", "context": "", "conversation": [turn]}]
    >>> Agentic.run(data, k=3, model="exact").pass_pow_k[3].value
    1.0
    """

    def __init__(  # noqa: PLR0917 — Fair Forge's constructor
        self,
        retriever: Any,
        model: JudgeLike,
        k: int,
        use_structured_output: bool = True,  # noqa: FBT001, FBT002 — same
        strict: bool = True,  # noqa: ARG002, FBT001, FBT002 — same
        bos_json_clause: str = _CLAUSES[0],
        eos_json_clause: str = _CLAUSES[1],
        threshold: float = 0.7,
        tool_threshold: float = 1.0,
        tool_weights: Mapping[str, float] | None = None,
        statistical_mode: StatisticalMode | None = None,
        *,
        verbose: bool = False,
        settings: Settings | None = None,
        **retriever_options: Any,
    ) -> None:
        """Load the datasets.

        Args:
            retriever: a class with `load_dataset` (constructed with the options that are not named here), an object
                with it, or the datasets themselves.
            model: any judge of `otel_agentic.evaluate`, such as a LangChain chat model.
            k: attempts of pass@k and pass^k.
            use_structured_output: False asks the model for plain text with JSON.
            strict: without effect: the judge uses the strictest form of reply that the model supports.
            bos_json_clause: only the default: JSON is read with and without a fence.
            eos_json_clause: likewise.
            threshold: score at which an answer is correct, inclusive.
            tool_threshold: score at which tools are correct, inclusive.
            tool_weights: weights of selection, parameters, sequence and utilization, normalised; None: those of the settings.
            statistical_mode: frequentist (None), or a mode with `ci_level`, `beta_prior_a` and `beta_prior_b`: Bayesian, in
                closed form.
            verbose: log each turn with the judge's reasoning.
            settings: everything else; None for the defaults and the environment.
            retriever_options: options of the retriever class.

        Raises:
            BadInputError: a dataset is invalid.
            UsageError: an argument is invalid.
        """
        if (bos_json_clause, eos_json_clause) != _CLAUSES:
            raise UsageError("bos_json_clause, eos_json_clause: JSON is read with and without a fence; omit both")
        self._datasets = [dataset.model_dump() for dataset in load_datasets(retriever, retriever_options)]
        self._model, self._verbose = model, verbose
        self._settings = settings_with(
            settings or environment_settings(),
            scoring={
                "answer_threshold": threshold,
                "tool_threshold": tool_threshold,
                "tool_weights": None if tool_weights is None else dict(tool_weights),
                "criteria": ("answer",),  # as in Fair Forge, tools are scored but decide nothing
            },
            stats={**_stats_of(statistical_mode), "k": chosen_k(k)},
            judge={"method": None if use_structured_output else "text"},
        )

    @classmethod
    def run(cls, retriever: Any, k: int, **options: Any) -> Evaluation:
        """Return the evaluation of all sessions; `options` are those of the constructor.

        Raises:
            BadInputError: a dataset is invalid.
            UsageError: an argument is invalid.
        """
        return cls(retriever, k=k, **options).evaluate()

    def evaluate(self) -> Evaluation:
        """Return the evaluation of all sessions."""
        evaluation = evaluate(self._datasets, judge=self._model, settings=self._settings)
        if self._verbose:
            show_log(_LOG)
            for row in evaluation.turns:
                where = (row["conversation_id"], row["turn_index"])
                _LOG.info("session %r, turn %d: %s: %s", *where, row["outcome"], row["explanation"])
        return evaluation


def _stats_of(mode: StatisticalMode | None) -> dict[str, Any]:
    if mode is None or mode.get_result_type() == "point_estimate":
        return {"mode": "frequentist"}
    prior = (getattr(mode, "beta_prior_a", 1.0), getattr(mode, "beta_prior_b", 1.0))
    return {"mode": "bayesian", "level": getattr(mode, "ci_level", 0.95), "prior": prior}
