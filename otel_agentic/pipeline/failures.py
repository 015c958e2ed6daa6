"""Failures of stored conversations, and what they have in common."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_agentic.errors import UsageError
from otel_agentic.evaluators.failures import FailureRules, at_least, distinct
from otel_agentic.evaluators.groups import group_failures
from otel_agentic.evaluators.merging import merge_question, merged
from otel_agentic.evaluators.registry import all_evaluators, metrics_by_name
from otel_agentic.judges import JudgeFailure, kinds_of
from otel_agentic.judges.asking import AskingJudge
from otel_agentic.store.failures import bad_scores, core_found
from otel_agentic.store.judge_calls import DuckDbJudgeCache

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from otel_agentic.config import Severity
    from otel_agentic.evaluators.base import AnyEvaluator
    from otel_agentic.evaluators.failures import Failure
    from otel_agentic.evaluators.groups import ErrorGroup
    from otel_agentic.pipeline.engine import Engine
    from otel_agentic.store.selection import Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Failures, and the rules that made them so."""

    rules: FailureRules
    failures: tuple[Failure, ...]

    def of(self, least: Severity) -> Failures:
        """Return those of a severity, or worse."""
        kept = tuple(failure for failure in self.failures if at_least(failure.severity, least))
        return Failures(rules=self.rules, failures=kept)

    @property
    def groups(self) -> list[ErrorGroup]:
        """The failures by cause, worst first."""
        return group_failures(self.failures, self.rules.metrics)


def found_failures(
    engine: Engine,
    selection: Selection,
    *,
    keys: AbstractSet[tuple[str, str]] | None = None,
    given: Sequence[AnyEvaluator] = (),
) -> Failures:
    """Return the failures of the newest scores, under the thresholds and severities of the settings.

    Args:
        engine: the store.
        selection: which closed conversations to look at.
        keys: only these of them, as (environment, conversation id); None takes all.
        given: evaluators beyond those that are installed or named in the settings.

    Raises:
        PluginError: an evaluator does not load.
        ConfigError: a threshold or severity names a metric that is not there.
    """
    settings = engine.settings.evaluators
    rules = FailureRules(metrics_by_name(all_evaluators(settings, given)).values(), settings)
    with engine.store.read() as con:
        found = [*core_found(con, selection), *bad_scores(con, selection, rules)]
    if keys is not None:
        found = [(place, score) for place, score in found if (place.environment, place.conversation_id) in keys]
    failures = (rules.failure(place, score) for place, score in found)
    return Failures(rules=rules, failures=tuple(distinct(failure for failure in failures if failure is not None)))


def merged_groups(engine: Engine, groups: Sequence[ErrorGroup]) -> tuple[list[ErrorGroup], str | None]:
    """Return groups joined as the judge of the settings says, and why not where it could not say.

    It is asked one question at most, within the budget; what it said before is remembered.

    Raises:
        UsageError: the judge does not take such questions; names what to do.
    """
    evaluating = engine.evaluating
    judge = evaluating.judge
    if "rubric" not in kinds_of(judge):
        raise UsageError(
            f"--merge: judge {judge.name} says whether answers are right, and not what belongs together; "
            "give one that asks a model, such as --judge langchain:openai:gpt-5-mini"
        )
    question = merge_question(groups)
    if question is None:
        return list(groups), None
    cache = DuckDbJudgeCache(engine.store, judge.name, judge.version, reads=engine.settings.judge.cache)
    with closing(cache):
        asking = AskingJudge(judge, cache=cache, budget=evaluating.budget, breaker=evaluating.breaker)
        (answer,) = asking.judge([question])
    if isinstance(answer, JudgeFailure):
        return list(groups), f"groups are as found, for the judge could not say which belong together: {answer.message}"
    return merged(groups, answer.texts), None
