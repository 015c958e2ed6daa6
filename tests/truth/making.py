"""Strategies of cases: everything that the case format can express, and the part of it that each foreign format can hold."""

from __future__ import annotations

import json
from typing import Any, Final

from hypothesis import strategies as st

from otel_agentic.truth import Case

#: Text as files may hold it: any character but halves of surrogate pairs.
TEXTS: Final = st.text(max_size=8) | st.sampled_from(
    ["007", "no", "=1+1", "'", "a,b", "two\nlines", " ", "1e5", "null", "[x]", '["x"]', '["x", 1]']
)
NAMES: Final = TEXTS.filter(bool)
#: An expected answer: one text, or a list of accepted ones.
ANSWERS: Final = NAMES | st.lists(NAMES, min_size=1, max_size=3)
SCALARS: Final = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
VALUES: Final = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2), max_leaves=4
)
STATES: Final = st.dictionaries(TEXTS, VALUES, max_size=2)
RATIOS: Final = st.floats(min_value=0, max_value=1)
EXTRA_RULES: Final = st.sampled_from(["allow", "penalize", "forbid"])
#: A mode with a value that it takes.
RULED: Final = st.one_of(
    st.tuples(st.sampled_from(["exact", "unordered", "casefold", "contains", "judge"]), VALUES),
    st.tuples(st.just("number"), st.integers(-9, 9) | RATIOS),
    st.tuples(st.just({"mode": "number", "tolerance": 0.5}), RATIOS),
    st.tuples(st.just("regex"), st.sampled_from(["[a-z]+", ""])),
    st.tuples(st.just("one_of"), st.lists(VALUES, min_size=1, max_size=2)),
    st.tuples(st.just("json_schema"), st.sampled_from([True, {"type": "string"}])),
    st.tuples(st.just("any"), st.none()),
)


def optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Some of the fields."""
    return st.fixed_dictionaries({}, optional=fields)


@st.composite
def calls(draw: st.DrawFn, names: st.SearchStrategy[str] = NAMES) -> dict[str, Any]:
    """An expected call, as a record."""
    literal = draw(STATES)
    ruled = draw(st.dictionaries(TEXTS, RULED, max_size=2))
    rest = draw(optional(step=st.integers(0, 9), required=st.booleans(), ignore_extra_parameters=st.booleans()))
    parameters = {**literal, **{key: value for key, (mode, value) in ruled.items() if mode != "any"}}
    return {
        "tool_name": draw(names),
        "parameters": parameters,
        **({"match": {key: mode for key, (mode, _) in ruled.items()}} if ruled else {}),
        **rest,
    }


def expectations(*, nested: bool = True) -> st.SearchStrategy[dict[str, Any]]:
    """A tool expectation, as a record. Forbidden tools have names that no call has."""
    names = st.sampled_from(["book", "search", "get_user"])
    more: dict[str, st.SearchStrategy[Any]] = {
        "order": st.sampled_from(["any", "relative", "exact"]),
        "extra_calls": EXTRA_RULES | st.dictionaries(st.sampled_from(["read", "write"]), EXTRA_RULES, max_size=2),
        "forbidden": st.lists(st.sampled_from(["drop_*", "x"]), max_size=2),
    }
    if nested:
        more["alternatives"] = st.lists(expectations(nested=False), max_size=1)
    return st.builds(
        lambda listed, rest: {"calls": listed, **rest}, st.lists(calls(names), max_size=2), optional(**more)
    )


def turns() -> st.SearchStrategy[dict[str, Any]]:
    """A turn, as a record."""
    return optional(
        query=TEXTS,
        answer=ANSWERS,
        not_answer=NAMES,
        tools=expectations(),
        reference_topics=st.lists(NAMES, max_size=2),
    )


def records() -> st.SearchStrategy[dict[str, Any]]:
    """A case, as a record."""
    weights = st.dictionaries(
        st.sampled_from(["selection", "parameters", "sequence", "utilization"]), RATIOS, min_size=1, max_size=2
    ).filter(lambda result: sum(result.values()) > 0)
    return st.builds(
        lambda identity, rest: {**identity, **rest},
        st.fixed_dictionaries({"case_id": NAMES, "dataset": st.sampled_from(["default", "airline"])}),
        optional(
            tags=st.lists(NAMES, max_size=2),
            agent=NAMES,
            turns=st.lists(turns(), max_size=2),
            tools=expectations(),
            outputs=st.lists(NAMES | st.integers() | RATIOS, max_size=2),
            effects=st.dictionaries(NAMES, st.sampled_from(["read", "write"]), max_size=2),
            goal=TEXTS,
            expected_state=STATES,
            plan=st.lists(NAMES, max_size=2),
            minimum_steps=st.integers(1, 2**70),
            verdict=st.sampled_from(["pass", "fail"]) | st.floats(-1, 2),
            answer_threshold=RATIOS,
            tool_threshold=RATIOS,
            tool_weights=weights,
            reviewed=st.booleans(),
            promoted_from=st.lists(NAMES, max_size=2),
            notes=TEXTS,
            metadata=STATES,
        ),
    )


def case_of(record: dict[str, Any]) -> Case:
    """The case of a record."""
    return Case.model_validate_json(json.dumps(record))


def cases() -> st.SearchStrategy[list[Case]]:
    """Some cases, each of another name."""
    return st.lists(records().map(case_of), max_size=3, unique_by=lambda case: case.key)
