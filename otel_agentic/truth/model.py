"""A case: the annotated ground truth of one conversation.

Every field of the case format is parsed here and nothing else is accepted; the messages of a bad file are made in `load`.
"""

from __future__ import annotations

import hashlib
import json
import math
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from otel_agentic.truth.json_schema import schema_problems
from otel_agentic.truth.patterns import compile_pattern
from otel_agentic.truth.values import is_number

Effect = Literal["read", "write"]
ExtraRule = Literal["allow", "penalize", "forbid"]
Order = Literal["any", "relative", "exact"]
WeightName = Literal["selection", "parameters", "sequence", "utilization"]
ModeName = Literal[
    "exact",
    "unordered",
    "casefold",
    "number",
    "regex",
    "contains",
    "one_of",
    "any",
    "ignore",
    "json_schema",
    "judge",
]

#: Modes that need no expected value: they look at the key alone.
VALUELESS_MODES: Final = frozenset({"any", "ignore"})

Name = Annotated[str, Field(min_length=1)]
Ratio = Annotated[float, Field(ge=0.0, le=1.0)]
Weight = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]


#: Python has lists where JSON has arrays: both are taken.
_LISTS: Final = Field(strict=False)


def _answer_form(value: Any) -> str:
    return "[list]" if isinstance(value, list | tuple) else "[text]"


def _accepted(value: str | tuple[str, ...]) -> str | tuple[str, ...]:
    """Return accepted answers, equal ones merged; one alone is a text, so that a case has one version however it is written."""
    if isinstance(value, str):
        return value
    if not value:
        raise ValueError("found []; allowed: a text that is not empty, or a list of at least one such text")
    merged = tuple(dict.fromkeys(value))
    return merged if len(merged) > 1 else merged[0]


#: An expected answer: one text, or two or more accepted answers, each of which is right.
Answer = Annotated[
    Annotated[Name, Tag("[text]")]
    | Annotated[tuple[Name, ...], Field(strict=False, json_schema_extra={"minItems": 1}), Tag("[list]")],
    Discriminator(_answer_form),
    AfterValidator(_accepted),
]


class _Record(BaseModel):
    # Strict: `"required": "no"` is a mistake to report, not a truth value to guess.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class MatchRule(_Record):
    """How one parameter compares; `"exact"` in a file is short for `{"mode": "exact"}`.

    The value it compares with (the pattern, the list of choices, the schema …) is the expected parameter itself.
    """

    mode: ModeName
    tolerance: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] = 0.0

    @model_validator(mode="after")
    def _tolerance_is_for_numbers(self) -> Self:
        if self.tolerance and self.mode != "number":
            raise ValueError(f"tolerance belongs to mode number, not to {self.mode}")
        return self


EXACT: Final = MatchRule(mode="exact")


class ExpectedCall(_Record):
    """A call that the agent should make; with `required` false, one that it may make."""

    tool_name: Name
    parameters: dict[str, Any] = {}
    step: Annotated[int, Field(ge=0)] | None = None
    required: bool = True
    match: dict[str, ModeName | MatchRule] = {}
    ignore_extra_parameters: bool = False

    @cached_property
    def rules(self) -> dict[str, MatchRule]:
        """The rule of every parameter that is expected or named in `match`."""
        given = {
            key: MatchRule(mode=rule) if isinstance(rule, str) else rule for key, rule in sorted(self.match.items())
        }
        return {
            key: given.get(key, EXACT) for key in (*self.parameters, *(k for k in given if k not in self.parameters))
        }

    @model_validator(mode="after")
    def _values_fit_modes(self) -> Self:
        for key, rule in self.rules.items():
            if rule.mode in VALUELESS_MODES:
                continue
            if key not in self.parameters:
                raise ValueError(
                    f"match names parameter {key!r} that `parameters` lacks; give it a value there, or use any or ignore"
                )
            problem = _operand_problem(rule.mode, self.parameters[key])
            if problem:
                raise ValueError(f"parameter {key!r}, match {rule.mode}: {problem}")
        return self


def _operand_problem(mode: ModeName, value: Any) -> str | None:
    """Return what is wrong with the expected value of a mode, None when nothing is."""
    if mode == "number" and not (is_number(value) and math.isfinite(value)):
        return f"expects a number, found {value!r}"
    if mode == "one_of" and not (isinstance(value, list) and value):
        return f"expects a list of allowed values, found {value!r}"
    if mode == "json_schema":
        return next(schema_problems(value), None)
    if mode == "regex":
        if not isinstance(value, str):
            return f"expects a pattern, found {value!r}"
        try:
            compile_pattern(value)
        except ValueError as error:
            return str(error)
    return None


class ToolExpectation(_Record):
    """Which calls are expected, in which order, and what else may be called.

    `alternatives` are other ways to be right: the best-scoring one counts. `extra_calls` is one rule, or one an effect
    (an effect that is not named keeps `penalize`).
    """

    calls: Annotated[tuple[ExpectedCall, ...], _LISTS]
    order: Order = "any"
    extra_calls: ExtraRule | dict[Effect, ExtraRule] = "penalize"
    forbidden: Annotated[tuple[Name, ...], _LISTS] = ()
    alternatives: Annotated[tuple[ToolExpectation, ...], _LISTS] = ()

    def extra_rule(self, effect: Effect) -> ExtraRule:
        """Return what an extra call of this effect means."""
        if isinstance(self.extra_calls, str):
            return self.extra_calls
        return self.extra_calls.get(effect, "penalize")

    @model_validator(mode="after")
    def _not_nested(self) -> Self:
        for place, alternative in enumerate(self.alternatives):
            if alternative.alternatives:
                raise ValueError(f"alternatives.{place} has alternatives of its own; list them all at one level")
        return self

    @model_validator(mode="after")
    def _not_both_expected_and_forbidden(self) -> Self:
        for call in self.calls:
            for pattern in self.forbidden:
                if fnmatchcase(call.tool_name, pattern):
                    raise ValueError(f"call {call.tool_name!r} is expected, and forbidden by {pattern!r}; remove one")
        return self


class CaseTurn(_Record):
    """What is expected of one turn; what is absent is not judged."""

    query: str | None = None
    answer: Answer | None = None
    tools: ToolExpectation | None = None
    reference_topics: Annotated[tuple[Name, ...], _LISTS] = ()
    not_answer: Name | None = None

    @property
    def accepted_answers(self) -> tuple[str, ...]:
        """All accepted answers in their order, none where no answer is annotated.

        >>> CaseTurn(answer="Paris").accepted_answers, CaseTurn(answer=("Paris", "City of Light")).accepted_answers
        (('Paris',), ('Paris', 'City of Light'))
        """
        if self.answer is None:
            return ()
        return (self.answer,) if isinstance(self.answer, str) else self.answer

    @property
    def first_answer(self) -> str | None:
        """The first accepted answer, for formats and tables that hold one; None where no answer is annotated."""
        return next(iter(self.accepted_answers), None)

    @property
    def annotated(self) -> bool:
        """Whether there is anything to judge beyond the turn's being there."""
        return self.answer is not None or self.not_answer is not None or self.tools is not None


class Case(_Record):
    """The annotated ground truth of one conversation. Identity is `(dataset, case_id)`.

    `reviewed` is False for a draft made from what an agent did (`promoted_from` names the conversations): it is matched,
    but nothing passes or fails by it until a person has looked at it. `notes` is for people.
    """

    case_id: Name
    dataset: Name = "default"
    tags: Annotated[tuple[Name, ...], _LISTS] = ()
    agent: Name | None = None
    turns: Annotated[tuple[CaseTurn, ...], _LISTS] = ()
    tools: ToolExpectation | None = None
    outputs: Annotated[tuple[Name | int | Annotated[float, Field(allow_inf_nan=False)], ...], _LISTS] = ()
    effects: dict[Name, Effect] = {}
    goal: str | None = None
    expected_state: dict[str, Any] | None = None
    plan: Annotated[tuple[Name, ...], _LISTS] | None = None
    minimum_steps: Annotated[int, Field(ge=1)] | None = None
    verdict: Literal["pass", "fail"] | Annotated[float, Field(allow_inf_nan=False)] | None = None
    answer_threshold: Ratio | None = None
    tool_threshold: Ratio | None = None
    tool_weights: dict[WeightName, Weight] | None = None
    reviewed: bool = True
    promoted_from: Annotated[tuple[Name, ...], _LISTS] = ()
    notes: str | None = None

    @model_validator(mode="after")
    def _some_weight(self) -> Self:
        if self.tool_weights is not None and sum(self.tool_weights.values()) <= 0:
            raise ValueError("tool_weights: at least one weight must be above 0")
        return self

    @property
    def key(self) -> tuple[str, str]:
        """The identity: dataset and case id."""
        return (self.dataset, self.case_id)

    @cached_property
    def version(self) -> str:
        """The content hash: equal for equal cases, whatever the order of keys or the spelling of defaults."""
        content = self.model_dump(mode="json", exclude_defaults=True)
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def is_for(self, agent_name: str | None) -> bool:
        """Return whether the case is meant for an agent: it names none, or a name or glob that fits."""
        return self.agent is None or (agent_name is not None and fnmatchcase(agent_name, self.agent))

    def given_verdict(self, reward_threshold: float) -> bool | None:
        """Return the case's own verdict, True for a pass; a reward passes at or above the threshold."""
        if self.verdict is None or isinstance(self.verdict, str):
            return None if self.verdict is None else self.verdict == "pass"
        return self.verdict >= reward_threshold
