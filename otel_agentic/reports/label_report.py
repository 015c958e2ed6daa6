"""Rates by any criterion, corrected by the verdicts of people on a sample of the conversations, and the effort of a success."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from otel_agentic.evaluators.registry import metrics_by_name
from otel_agentic.results import reports as results
from otel_agentic.results.reports import LabelCorrection, LabelRates, Rate
from otel_agentic.stats.first_success import Amounts, first_success_of
from otel_agentic.stats.label_correction import LabelledTraffic, corrected_by_labels, correlation, powers
from otel_agentic.store.annotations import load_labels, load_verdicts, random_samples
from otel_agentic.store.queries.scores import effort_by_kind, numbers_by_conversation

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from otel_agentic.stats.model import Estimate
    from otel_agentic.store.queries.scored_conversations import KindTable
    from otel_agentic.store.queries.scores import NumberName
    from otel_agentic.store.table import Key, Selection
    from otel_agentic.windows import ScoredConversation

#: With fewer labels in a group, half the width of every interval exceeds .25.
MIN_LABELS: Final = 10
#: The needs of metrics that depend on a case, or on the outcome, which a label sets: they cannot predict a label.
_OF_TRUTH: Final = frozenset(
    {
        "case",
        "expected_tools",
        "expected_answer",
        "expected_state",
        "expected_plan",
        "goal",
        "minimum_steps",
        "reference_topics",
        "score",
    }
)
#: The name of the outcome by the criterion among the predictors.
_CRITERION: Final = ("criterion", None)
_COST: Final = "agentic.operations.cost"
_SECONDS: Final = "seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonVerdict:
    """The verdict of people on a conversation, its labelled revision if known, and whether it was drawn at random."""

    passed: bool
    revision: int | None
    random_sample: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficNumbers:
    """The verdicts of people, and the numbers of conversations that need no case.

    Attributes:
        verdicts: the verdict of people on each labelled conversation.
        numbers: metrics and sizes of each conversation, by name; empty where conversations are counted by kind.
        efforts: the sum and the number of known costs and durations of each kind, by name.
        predictors: the names of metrics and sizes that may predict a verdict.
        level: level of the intervals.
    """

    verdicts: Mapping[Key, PersonVerdict]
    numbers: Mapping[Key, Mapping[NumberName, float]]
    predictors: frozenset[str]
    level: float
    efforts: Mapping[int, Mapping[str, tuple[float, int]]] = field(default_factory=dict)

    @classmethod
    def by_kind(cls, engine: Engine, table: KindTable) -> TrafficNumbers:
        """Read the cost and duration of unlabelled conversations, counted by kind, from the store."""
        efforts = effort_by_kind(table, _COST)
        level = engine.settings.stats.level
        return cls(verdicts={}, numbers={}, predictors=frozenset(), level=level, efforts=efforts)

    @classmethod
    def of(cls, engine: Engine, selection: Selection) -> TrafficNumbers:
        """Read verdicts and metrics from the store."""
        free = [
            evaluator
            for evaluator in engine.runner.installed
            if not _OF_TRUTH & set(getattr(evaluator, "needs", _OF_TRUTH))
        ]
        names = [
            name
            for name, metric in metrics_by_name(free).items()
            if metric.target != "group" and not _OF_TRUTH & metric.needs
        ]
        with engine.store.read() as con:
            numbers = numbers_by_conversation(con, selection, [*names, _COST])
            labels, verdicts, declared = load_labels(con), load_verdicts(con), random_samples(con)
        known: dict[Key, PersonVerdict] = {}
        for key in numbers:
            label, verdict = labels.get(key[1]), verdicts.get(key)
            label = label if verdict is None else verdict.applied_to(label)
            if label is None or label.verdict is None:
                continue
            of_person = verdict is not None and label.source != "labels"
            known[key] = PersonVerdict(
                passed=label.verdict,
                revision=verdict.annotation.revision if verdict is not None and of_person else None,
                random_sample=bool({key, (None, key[1])} & declared),
            )
        return cls(
            verdicts=known,
            numbers=numbers,
            predictors=frozenset({*names, "turns", "calls", _SECONDS}),
            level=engine.settings.stats.level,
        )

    def correction(
        self, members: Sequence[ScoredConversation], k: Sequence[int]
    ) -> tuple[LabelCorrection | None, str | None]:
        """Return the corrected rates of a group, or None and the reason.

        Args:
            members: the conversations of the group with their outcomes by a criterion.
            k: the k of pass@k and pass^k.
        """
        verdicts = [self.verdicts.get((member.environment, member.conversation_id)) for member in members]
        current = [
            verdict is not None and verdict.revision in {None, member.revision}
            for member, verdict in zip(members, verdicts, strict=True)
        ]
        random_sample = any(verdict is not None and verdict.random_sample for verdict in verdicts)
        labelled = [
            (index, verdict)
            for index, verdict in enumerate(verdicts)
            if verdict is not None and current[index] and (verdict.random_sample or not random_sample)
        ]
        if len(labelled) < MIN_LABELS:
            return None, _too_few(len(labelled), random_sample=random_sample)
        names, metrics = self._matrix(members)
        indices = np.array([index for index, _ in labelled], dtype=np.int64)
        passed = np.array([verdict.passed for _, verdict in labelled], dtype=bool)
        data = LabelledTraffic(
            cases=[member.case_key for member in members], metrics=metrics, labelled=indices, passed=passed
        )
        corrected = corrected_by_labels(data, self.level)
        outcome = metrics[indices, names.index(_CRITERION)]
        known = ~np.isnan(outcome)
        return LabelCorrection(
            level=self.level,
            labels=corrected.labels,
            conversations=corrected.conversations,
            random_sample=random_sample,
            not_used=sum(verdict is not None for verdict in verdicts) - len(labelled),
            correlation=correlation(outcome[known], passed[known]),
            prediction_correlation=corrected.correlation,
            predictors=[_displayed(*names[column]) for column in corrected.used],
            power=corrected.power,
            people=_rates(corrected.people_here, corrected.people, k),
            corrected=_rates(corrected.here, corrected.traffic, k),
        ), None

    def first_success(self, members: Sequence[ScoredConversation]) -> results.FirstSuccess | None:
        """Return the expected effort until the first success of a group, or None without a success."""
        total, passed = (
            sum(member.count * member.weight for member in members if member.outcome in outcomes)
            for outcomes in ({"pass", "fail"}, {"pass"})
        )
        if not passed:
            return None
        cost, seconds = (
            first_success_of(
                self._amounts(members, name, "pass"), self._amounts(members, name, "fail"), p=min(1.0, passed / total)
            )
            for name in (_COST, _SECONDS)
        )
        if cost is None or seconds is None:
            return None
        return results.FirstSuccess(
            attempts=cost.attempts,
            cost_usd=cost.amount,
            seconds=seconds.amount,
            known_cost=cost.passes + cost.failures,
            known_seconds=seconds.passes + seconds.failures,
        )

    def _amounts(self, members: Sequence[ScoredConversation], name: str, outcome: str) -> Amounts:
        selected = [member for member in members if member.outcome == outcome]
        keys = [(member.environment, member.conversation_id) for member in selected if member.kind is None]
        amounts = Amounts.of(self.numbers.get(key, {}).get((name, None)) for key in keys)
        sums = [self.efforts[member.kind][name] for member in selected if member.kind is not None]
        return Amounts(
            total=math.fsum((amounts.total, *(total for total, _ in sums))),
            known=amounts.known + sum(known for _, known in sums),
            attempts=sum(member.count for member in selected),
        )

    def _matrix(self, members: Sequence[ScoredConversation]) -> tuple[list[NumberName], np.ndarray]:
        """Return the names of the predictors, and their values by conversation, NaN where unknown."""
        rows = [self.numbers.get((member.environment, member.conversation_id), {}) for member in members]
        names: list[NumberName] = sorted(
            {name for row in rows for name in row if name[0] in self.predictors},
            key=lambda name: (name[0], name[1] or ""),
        )
        by_metric = [{name for name, label in row if label is not None} for row in rows]
        outcomes = {"pass": 1.0, "fail": 0.0}
        values = [
            [outcomes.get(member.outcome, np.nan)]
            + [
                row.get((name, label), 0.0 if label is not None and name in labelled else np.nan)
                for name, label in names
            ]
            for member, row, labelled in zip(members, rows, by_metric, strict=True)
        ]
        return [_CRITERION, *names], np.array(values, dtype=np.float64)


def _displayed(name: str, label: str | None) -> str:
    return name.removeprefix("agentic.") + ("" if label is None else f" = {label}")


def _rates(here: Estimate, traffic: Estimate, k: Sequence[int]) -> LabelRates:
    return LabelRates(
        here=Rate.of(here),
        pass_at_k={str(count): Rate.of(rate) for count, rate in powers(traffic, k, at_least_one=True).items()},
        pass_pow_k={str(count): Rate.of(rate) for count, rate in powers(traffic, k).items()},
    )


def _too_few(labels: int, *, random_sample: bool) -> str:
    sample = " in the random sample" if random_sample else ""
    share = f"none of its conversations is labelled{sample}" if not labels else f"only {labels} labels{sample}"
    return f"{share}; {MIN_LABELS} labels are needed, 40 or more are useful"
