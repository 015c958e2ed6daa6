"""What an evaluation is made with: the judge, its purse, and the evaluators, each made when it is first needed."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from otel_agentic.evaluators.registry import Chosen, all_evaluators, chosen
from otel_agentic.judges.breaker import Breaker
from otel_agentic.judges.choose import judge_named
from otel_agentic.pipeline.judging import Judging
from otel_agentic.pipeline.metrics import require_judge
from otel_agentic.store.judge_budget import DuckDbBudget

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from otel_agentic.config import EvaluatorSettings, JudgeSettings, ScoringSettings
    from otel_agentic.evaluators.base import AnyEvaluator
    from otel_agentic.judges import Judge, JudgeFailure, Verdict
    from otel_agentic.store import Store
    from otel_agentic.store.metric_scores import Measured


class Means:
    """The judge and the evaluators that the settings of a store name."""

    def __init__(
        self, store: Store, settings: ScoringSettings, judging: JudgeSettings, evaluators: EvaluatorSettings
    ) -> None:
        self._store = store
        self._settings = settings
        self._judging = judging
        self._evaluators = evaluators
        #: Told of each answer of the judge, also of those from the cache.
        self.heard: Callable[[Verdict | JudgeFailure], None] = lambda _: None
        #: Told of what evaluators said, once it is stored.
        self.measured: Callable[[Sequence[Measured]], None] = lambda _: None

    @cached_property
    def installed(self) -> tuple[AnyEvaluator, ...]:
        """Every evaluator there is: installed ones, and those of the settings' files.

        Raises:
            PluginError: one does not load or breaks the contract.
            UsageError: a file cannot be loaded.
        """
        return all_evaluators(self._evaluators)

    @cached_property
    def configured(self) -> frozenset[str]:
        """The metrics of the settings, by whole name. See `chosen` for what it raises."""
        return chosen(self._evaluators, among=self.installed).metrics

    @cached_property
    def chosen(self) -> Chosen:
        """The evaluators of the settings.

        Raises:
            PluginError: one does not load or breaks the contract, or the judge does not load.
            UsageError: a name is unknown or ambiguous, a file cannot be loaded, or a model is needed and the judge asks none.
        """
        return self.choose(None)

    def choose(self, names: Sequence[str] | None) -> Chosen:
        """Return the evaluators of exactly these metrics; None takes the settings' ones. See `chosen` for what it raises."""
        return require_judge(chosen(self._evaluators, names, among=self.installed), self.judge)

    @cached_property
    def judge(self) -> Judge:
        """The judge of the settings.

        Raises:
            PluginError: it is not installed or does not load.
            UsageError: its argument is not one that it takes.
        """
        return judge_named(self._settings.judge, self._judging)

    @cached_property
    def budget(self) -> DuckDbBudget:
        """What judges may spend on this store."""
        return DuckDbBudget(self._store, self._judging)

    @cached_property
    def breaker(self) -> Breaker:
        """What leaves the judge alone while it fails, whoever asks it."""
        return Breaker(self._judging, self.judge.name)

    def judging(self, stop: Callable[[], bool] = lambda: False, *, waits: bool = False) -> Judging:
        """Return a way to score with the judge; close it. Once `stop` says so, the judge is asked nothing new.

        With `waits`, a conversation is not scored for which a judge that is left alone was not asked.
        """
        return Judging(
            self._store,
            self.judge,
            self.budget,
            scoring=self._settings,
            settings=self._judging,
            stop=stop,
            heard=self.heard,
            breaker=self.breaker,
            waits=waits,
        )

    def close(self) -> None:
        """Close the judge, if one was made and can be closed."""
        close = getattr(self.__dict__.get("judge"), "close", None)
        if close is not None:
            close()
