"""The calls of a scope sorted out under one expectation: paired, missing, extra, errored, forbidden."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_agentic.scoring.align import Pairing, pair_calls
from otel_agentic.scoring.effects import effect_of
from otel_agentic.scoring.made import MadeCall, Scope, counted_calls, is_forbidden

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_agentic.config import ScoringSettings
    from otel_agentic.scoring.model import Dimension
    from otel_agentic.truth.model import Case, Effect, ExtraRule, ToolExpectation


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRules:
    """How tools are judged for one case: the settings, with what the case overrides.

    `effects` are tables of tool name or glob, the case's first. `weights` need not sum to 1.
    """

    threshold: float
    weights: Mapping[Dimension, float]
    effects: tuple[Mapping[str, Effect], ...]
    count_errors: bool
    numbers_as_text: bool

    @classmethod
    def of(cls, case: Case, settings: ScoringSettings) -> ToolRules:
        """Return the rules of a case."""
        return cls(
            threshold=settings.tool_threshold if case.tool_threshold is None else case.tool_threshold,
            weights=settings.tool_weights if case.tool_weights is None else case.tool_weights,
            effects=(case.effects, settings.effects),
            count_errors=settings.count_errors,
            numbers_as_text=settings.numbers_as_text,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedCalls:
    """The calls of a scope sorted out under one expectation.

    `made` are the calls that count; `errored` those that answered with an error; `extra` are unpaired calls by what
    their being extra means; `forbidden` those that the expectation forbids by name.
    """

    expectation: ToolExpectation
    made: tuple[MadeCall, ...]
    errored: tuple[MadeCall, ...]
    pairing: Pairing
    extra: Mapping[ExtraRule, list[MadeCall]]
    forbidden: tuple[MadeCall, ...]

    @property
    def required(self) -> int:
        """How many calls are required."""
        return len(self.pairing.required) + len(self.pairing.missing)

    @property
    def captured(self) -> bool:
        """Whether arguments and results of all calls that weigh were recorded; allowed extras weigh nothing."""
        allowed = {id(made) for made in self.extra["allow"]}
        return all(
            made.call.arguments is not None and (made.call.result_captured or made.call.error is not None)
            for made in self.made
            if id(made) not in allowed
        )


def sort_calls(expectation: ToolExpectation, scope: Scope, rules: ToolRules) -> SortedCalls:
    """Return the calls of a scope sorted out under an expectation."""
    counted = counted_calls(scope, expectation)
    errored = tuple(made for made in counted if made.call.error is not None)
    made = tuple(one for one in counted if rules.count_errors or one.call.error is None)
    pairing = pair_calls(expectation.calls, made, numbers_as_text=rules.numbers_as_text)
    extra: dict[ExtraRule, list[MadeCall]] = defaultdict(list)
    for place in pairing.extra:
        extra[expectation.extra_rule(effect_of(made[place].call.name, rules.effects))].append(made[place])
    return SortedCalls(
        expectation=expectation,
        made=made,
        errored=errored,
        pairing=pairing,
        extra=extra,
        forbidden=tuple(one for one in made if is_forbidden(one.call.name, expectation)),
    )
