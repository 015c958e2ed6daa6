"""Cases: the annotated ground truth of one conversation, and the messages about invalid ones.

Every field of the case format is validated here; unknown fields are rejected. The readers of `formats` add file and
line to the messages.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError, model_validator

from otel_agentic.config.patterns import own_pattern
from otel_agentic.truth.values import is_number, schema_problems

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

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

#: Modes without an expected value: they check the key alone.
VALUELESS_MODES: Final = frozenset({"any", "ignore"})

Name = Annotated[str, Field(min_length=1)]
Ratio = Annotated[float, Field(ge=0.0, le=1.0)]
Weight = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]


#: Not strict, so that a Python list is accepted for a tuple, as a JSON array is.
_LISTS: Final = Field(strict=False)


def _answer_form(value: Any) -> str:
    return "[list]" if isinstance(value, list | tuple) else "[text]"


def _unique_answers(value: str | tuple[str, ...]) -> str | tuple[str, ...]:
    """Return the accepted answers without duplicates, a single one as text, so that the notation does not matter."""
    if isinstance(value, str):
        return value
    if not value:
        raise ValueError("found []; allowed: a text that is not empty, or a list of at least one such text")
    merged = tuple(dict.fromkeys(value))
    return merged if len(merged) > 1 else merged[0]


#: An expected answer: one text, or two or more accepted answers, each of which is correct.
Answer = Annotated[
    Annotated[Name, Tag("[text]")]
    | Annotated[tuple[Name, ...], Field(strict=False, json_schema_extra={"minItems": 1}), Tag("[list]")],
    Discriminator(_answer_form),
    AfterValidator(_unique_answers),
]


class _Record(BaseModel):
    # Strict: `"required": "no"` is a mistake to report, not a truth value to guess.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class MatchRule(_Record):
    """How one parameter is compared; `"exact"` in a file is short for `{"mode": "exact"}`.

    The value to compare with (the pattern, the list of choices, the schema …) is the expected parameter itself.
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
    """A call that the agent should make; with `required` false, a call that it may make."""

    tool_name: Name
    parameters: dict[str, Any] = {}
    step: Annotated[int, Field(ge=0)] | None = None
    required: bool = True
    match: dict[str, ModeName | MatchRule] = {}
    ignore_extra_parameters: bool = False

    @cached_property
    def rules(self) -> dict[str, MatchRule]:
        """The rule of every parameter that is expected or named in `match`."""
        explicit = {
            key: MatchRule(mode=rule) if isinstance(rule, str) else rule for key, rule in sorted(self.match.items())
        }
        return {
            key: explicit.get(key, EXACT)
            for key in (*self.parameters, *(k for k in explicit if k not in self.parameters))
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
    """Return the reason why a value cannot be the expected value of a mode, or None."""
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
            own_pattern(value)
        except ValueError as error:
            return str(error)
    return None


class ToolExpectation(_Record):
    """The expected calls, their order, and the meaning of other calls.

    `alternatives` are other correct ways: the best-scoring one counts. `extra_calls` is one rule, or one per effect
    (`penalize` for an effect that is not named).
    """

    calls: Annotated[tuple[ExpectedCall, ...], _LISTS]
    order: Order = "any"
    extra_calls: ExtraRule | dict[Effect, ExtraRule] = "penalize"
    forbidden: Annotated[tuple[Name, ...], _LISTS] = ()
    alternatives: Annotated[tuple[ToolExpectation, ...], _LISTS] = ()

    def extra_rule(self, effect: Effect) -> ExtraRule:
        """Return the rule for an extra call with this effect."""
        if isinstance(self.extra_calls, str):
            return self.extra_calls
        return self.extra_calls.get(effect, "penalize")

    @model_validator(mode="after")
    def _not_nested(self) -> Self:
        for index, alternative in enumerate(self.alternatives):
            if alternative.alternatives:
                raise ValueError(f"alternatives.{index} has alternatives of its own; list them all at one level")
        return self

    @model_validator(mode="after")
    def _not_both_expected_and_forbidden(self) -> Self:
        for call in self.calls:
            for pattern in self.forbidden:
                if fnmatchcase(call.tool_name, pattern):
                    raise ValueError(f"call {call.tool_name!r} is expected, and forbidden by {pattern!r}; remove one")
        return self


class CaseTurn(_Record):
    """The expectations of one turn; absent fields are not judged."""

    query: str | None = None
    answer: Answer | None = None
    tools: ToolExpectation | None = None
    reference_topics: Annotated[tuple[Name, ...], _LISTS] = ()
    not_answer: Name | None = None

    @property
    def accepted_answers(self) -> tuple[str, ...]:
        """All accepted answers in order, empty if no answer is annotated.

        >>> CaseTurn(answer="Paris").accepted_answers, CaseTurn(answer=("Paris", "City of Light")).accepted_answers
        (('Paris',), ('Paris', 'City of Light'))
        """
        if self.answer is None:
            return ()
        return (self.answer,) if isinstance(self.answer, str) else self.answer

    @property
    def first_answer(self) -> str | None:
        """The first accepted answer, for formats and tables with room for one; None without an annotated answer."""
        return next(iter(self.accepted_answers), None)

    @property
    def annotated(self) -> bool:
        """Whether the turn has an expected answer, a forbidden answer or expected tool calls."""
        return self.answer is not None or self.not_answer is not None or self.tools is not None


class Case(_Record):
    """The annotated ground truth of one conversation. Identity is `(dataset, case_id)`.

    `reviewed` is False for a draft created from an agent's actions (`promoted_from` names the conversations): it is matched,
    but no conversation passes or fails by it until a person has reviewed it. `notes` is for people. `metadata` contains the
    fields of another format that mean nothing here, such as preconditions and graders: they are kept and exported, not scored.
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
    criteria: Annotated[tuple[Name, ...], _LISTS, Field(min_length=1)] | None = None
    reviewed: bool = True
    promoted_from: Annotated[tuple[Name, ...], _LISTS] = ()
    notes: str | None = None
    metadata: dict[str, Any] = {}

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
        """The content hash: equal for equal cases, independent of the order of keys and the notation of defaults."""
        content = self.model_dump(mode="json", exclude_defaults=True)
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def is_for(self, agent_name: str | None) -> bool:
        """Return whether the case applies to an agent: it names no agent, or a matching name or glob."""
        return self.agent is None or (agent_name is not None and fnmatchcase(agent_name, self.agent))

    def given_verdict(self, reward_threshold: float) -> bool | None:
        """Return the recorded verdict, True for a pass, or None; a reward passes at or above the threshold."""
        if self.verdict is None or isinstance(self.verdict, str):
            return None if self.verdict is None else self.verdict == "pass"
        return self.verdict >= reward_threshold


_SHOWN_CHARACTERS: Final = 80

#: Parts that pydantic adds to the location of an error: the key of an object, and the variant of a union that was
#: tried.
_TAGS: Final = frozenset({"[key]", "[text]", "[list]", "[messages]", "[object]"})

#: The model of the value of a field, which determines the allowed field names.
_RECORDS: Final[Mapping[str, type[BaseModel]]] = {
    "turns": CaseTurn,
    "tools": ToolExpectation,
    "alternatives": ToolExpectation,
    "calls": ExpectedCall,
    "match": MatchRule,
}

_EXTRA_RULES: Final = ", ".join(get_args(ExtraRule))

#: The allowed values of union fields: pydantic reports an error per variant, people need one sentence.
_UNION_VALUES: Final[Mapping[str, str]] = {
    "extra_calls": f"{_EXTRA_RULES}, or one of these for each of {' and '.join(get_args(Effect))}, "
    'such as {"read": "allow", "write": "forbid"}',
    "match": f'for each parameter one of {", ".join(get_args(ModeName))}, or {{"mode": "number", "tolerance": 0.01}}',
    "answer": "a text that is not empty, or a list of such texts, each of which is accepted",
    "outputs": "a list of texts (not empty) and numbers",
    "verdict": '"pass", "fail", or a reward (a number)',
}

#: Union fields whose errors are located by the next part of the path: a parameter name, or an index of a list.
_INDEXED_UNIONS: Final = frozenset({"answer", "match", "outputs"})

#: Complete messages, by pydantic's type of error.
_SENTENCES: Final[Mapping[str, str]] = {
    "value_error": "{error}",
    "missing": "missing; it is required here",
    "json_invalid": "not JSON: {error}; a line holds one case as a JSON object",
}

#: The allowed values, by pydantic's type of error; for other types pydantic's message is used.
_ALLOWED: Final[Mapping[str, str]] = {
    "string_type": "a text",
    "string_too_short": "a text that is not empty",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "finite_number": "a finite number",
    "less_than_equal": "a number of at most {le:g}",
    "greater_than_equal": "a number of at least {ge:g}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """A problem of a field: its path, and a sentence with the actual and the allowed values."""

    path: tuple[str | int, ...]
    sentence: str


def describe(error: ValidationError) -> Iterator[Complaint]:
    """Yield one complaint per invalid field, in the order of the fields."""
    reported: set[tuple[str | int, ...]] = set()
    for detail in error.errors(include_url=False):
        path = _field_path(detail)
        if path not in reported:
            reported.add(path)
            yield Complaint(path=path, sentence=_sentence(detail))


def _union_field(detail: ErrorDetails) -> tuple[int, str] | None:
    """Return the index and name of the union field that contains the error, or None."""
    for index, part in enumerate(detail["loc"]):
        # Users choose the keys of `parameters`, which may include `match` or `outputs`.
        if part == "parameters":
            return None
        if part in _UNION_VALUES:
            return index, str(part)
    return None


def _field_path(detail: ErrorDetails) -> tuple[str | int, ...]:
    union_field = _union_field(detail)
    path = tuple(part for part in detail["loc"] if part not in _TAGS)
    # After a union field only the parameter name (`match`) or the index (lists) is a part of the document.
    return path if union_field is None else path[: path.index(union_field[1]) + 1 + (union_field[1] in _INDEXED_UNIONS)]


def _sentence(detail: ErrorDetails) -> str:
    kind, actual = detail["type"], found_text(detail["input"])
    if kind in _SENTENCES:
        return _SENTENCES[kind].format(**detail.get("ctx", {}))
    if kind == "extra_forbidden" and _union_field(detail) is None:
        return f"unknown field, found {actual}; allowed: {', '.join(sorted(_record_at(detail).model_fields))}"
    union_field = _union_field(detail)
    if union_field is not None:
        return f"found {actual}; allowed: {_UNION_VALUES[union_field[1]]}"
    if not detail["loc"]:
        return f"a case is a JSON object, found {actual}"
    return f"found {actual}; allowed: {_allowed(detail)}"


def _record_at(detail: ErrorDetails) -> type[BaseModel]:
    fields = [part for part in detail["loc"][:-1] if isinstance(part, str) and part in _RECORDS]
    return _RECORDS[fields[-1]] if fields else Case


def _allowed(detail: ErrorDetails) -> str:
    context = detail.get("ctx", {})
    if detail["type"] == "literal_error":
        return str(context["expected"]).replace("'", "").replace(" or ", ", ")
    if detail["type"] in _ALLOWED:
        return _ALLOWED[detail["type"]].format(**context)
    return detail["msg"].removeprefix("Input should be ")


def found_text(value: Any) -> str:
    """Return a value as quoted in messages: as JSON, truncated if it is long."""
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"
