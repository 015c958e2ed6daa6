"""The resources of an evaluation: the judge, its budget and the evaluators, each created on first use."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from otel_agentic.evaluators.registry import Chosen, all_evaluators, chosen
from otel_agentic.judges.breaker import Breaker
from otel_agentic.judges.choose import judge_named
from otel_agentic.pipeline.judging import JudgeRun
from otel_agentic.pipeline.metrics import require_judge
from otel_agentic.store.judge_budget import DuckDbBudget

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from otel_agentic.config import EvaluatorSettings, JudgeSettings, ScoringSettings
    from otel_agentic.evaluators.base import AnyEvaluator
    from otel_agentic.judges import Judge, JudgeFailure, Verdict
    from otel_agentic.store import Store
    from otel_agentic.store.metric_scores import Measured


class EvaluationListener(Protocol):
    """Receives the events of evaluations."""

    def judge_answered(self, answer: Verdict | JudgeFailure) -> None:
        """Handle an answer of the judge, which may come from the cache."""
        ...

    def metrics_stored(self, measured: Sequence[Measured]) -> None:
        """Handle the scores of evaluators, after they were stored."""
        ...


class NoEvaluationListener:
    """Ignores all events."""

    def judge_answered(self, answer: Verdict | JudgeFailure) -> None:
        """Do nothing."""

    def metrics_stored(self, measured: Sequence[Measured]) -> None:
        """Do nothing."""


class EvaluationResources:
    """The judge and the evaluators named in the settings of a store."""

    def __init__(
        self,
        store: Store,
        settings: ScoringSettings,
        judge_settings: JudgeSettings,
        evaluators: EvaluatorSettings,
        listener: EvaluationListener = NoEvaluationListener(),  # noqa: B008 — it has no state
    ) -> None:
        self.store = store
        self._settings = settings
        self._judge_settings = judge_settings
        self._evaluators = evaluators
        self._listener = listener

    @cached_property
    def installed(self) -> tuple[AnyEvaluator, ...]:
        """All evaluators: those installed, and those in the files of the settings.

        Raises:
            PluginError: an evaluator does not load or breaks the contract.
            UsageError: a file cannot be loaded.
        """
        return all_evaluators(self._evaluators)

    @cached_property
    def configured(self) -> frozenset[str]:
        """The full names of the metrics in the settings. Raises what `chosen` raises."""
        return chosen(self._evaluators, among=self.installed).metrics

    @cached_property
    def chosen(self) -> Chosen:
        """The evaluators in the settings.

        Raises:
            PluginError: an evaluator or the judge does not load, or an evaluator breaks the contract.
            UsageError: a name is unknown or ambiguous, a file cannot be loaded, or a metric needs an LLM judge and none is set.
        """
        return self.choose(None)

    def choose(self, names: Sequence[str] | None) -> Chosen:
        """Return the evaluators of exactly these metrics; None selects those in the settings. Raises what `chosen` raises."""
        return require_judge(chosen(self._evaluators, names, among=self.installed), self.judge)

    @cached_property
    def judge(self) -> Judge:
        """The judge in the settings.

        Raises:
            PluginError: it is not installed or does not load.
            UsageError: it does not accept its argument.
        """
        return judge_named(self._settings.judge, self._judge_settings)

    @cached_property
    def budget(self) -> DuckDbBudget:
        """The judge budget of this store."""
        return DuckDbBudget(self.store, self._judge_settings)

    @cached_property
    def breaker(self) -> Breaker:
        """The circuit breaker of the judge, shared by everything that asks it."""
        return Breaker(self._judge_settings, self.judge.name)

    def judge_run(self, stop: Callable[[], bool] = lambda: False, *, waits: bool = False) -> JudgeRun:
        """Return a run that scores with the judge, to be used as a context manager.

        Once `stop` returns True, no new question is asked. With `waits`, conversations whose questions were not asked because
        the judge is unavailable stay unscored for a later run.
        """
        return JudgeRun(
            self.store,
            self.judge,
            self.budget,
            scoring=self._settings,
            settings=self._judge_settings,
            stop=stop,
            on_answer=self._listener.judge_answered,
            breaker=self.breaker,
            waits=waits,
        )

    def close(self) -> None:
        """Close the judge, if it was created and can be closed."""
        close = getattr(self.__dict__.get("judge"), "close", None)
        if close is not None:
            close()
