"""Files of cases return the fields that they can hold, and the others are reported as losses."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agentic.truth.formats import FORMATS, Document, Loss, read_document, read_rows, write_document, write_rows
from otel_agentic.truth.formats.table import COLUMNS
from otel_agentic.truth.formats.tau_bench import READS
from tests.truth.making import ANSWERS, NAMES, STATES, TEXTS, VALUES, case_of, cases, optional

if TYPE_CHECKING:
    from otel_agentic.truth import Case

ABSENT = object()
LOSSLESS = {"native", "yaml"}


def there_and_back(given_cases: list[Case], name: str) -> tuple[Document, tuple[Loss, ...]]:
    """Return the content of a file of the cases, and the reported losses."""
    if name == "parquet":
        table = write_rows(given_cases)
        return read_rows("", COLUMNS, list(enumerate(table.rows, start=1)), name), table.losses
    written = write_document(given_cases, name)
    return read_document("", written.text, name), written.losses


def with_lost(back: Case, case: Case, losses: list[Loss]) -> dict[str, Any]:
    """Return the case read again, with the lost fields as they were; each of them must have differed."""
    first, other = case.model_dump(mode="json"), copy.deepcopy(back.model_dump(mode="json"))
    for loss in losses:
        source, target = first, other
        *way, last = way_of(loss.field)
        for part in way:
            source, target = source[part], target[part]
        retained = target.pop(last, ABSENT)
        assert repr(source.get(last, ABSENT)) != repr(retained), loss
        if last in source:
            target[last] = source[last]
    return other


def way_of(field: str) -> list[Any]:
    """The keys and places of a field; the name of a parameter may hold dots."""
    way: list[Any] = []
    parts = field.split(".")
    while parts:
        part = parts.pop(0)
        way.append(int(part) if part.isdigit() and way and way[-1] in {"turns", "calls"} else part)
        if part == "parameters":
            return [*way, ".".join(parts)]
    return way


@settings(max_examples=settings().max_examples // 2)
@given(given_cases=cases())
def test_the_losses_are_exactly_the_fields_that_differ(given_cases: list[Case]) -> None:
    for name in FORMATS:
        back, losses = there_and_back(given_cases, name)
        assert () == back.problems, name
        assert all(loss.reason for loss in losses)
        assert not (losses and name in LOSSLESS)
        result = {case.key: case for case in back.cases}
        for case in given_cases:
            lost = [loss for loss in losses if (loss.dataset, loss.case_id) == case.key]
            if case.key in result:
                assert case.model_dump(mode="json") == with_lost(result[case.key], case, lost)
            else:
                assert [""] == [loss.field for loss in lost]


LITERAL = st.fixed_dictionaries({"tool_name": NAMES, "parameters": STATES})
STEPPED = st.builds(lambda call, step: {**call, **step}, LITERAL, optional(step=st.integers(0, 9)))


def expectation(calls: st.SearchStrategy[Any], **fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Calls, and the fields where there are any."""
    return st.lists(calls, max_size=2).map(lambda listed: {"calls": listed, **(fields if listed else {})})


def turns_of(least: int = 0, most: int = 2, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(optional(**fields), min_size=least, max_size=most)


def of(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(fields)


FAIR_FORGE = of(
    turns=turns_of(query=NAMES, answer=NAMES, tools=expectation(STEPPED) | expectation(STEPPED, order="relative"))
)
CALLED = optional(tools=expectation(LITERAL, order="relative"))
QUESTION = st.builds(
    lambda turn, topics, called: {"turns": [{**turn, **topics}], **called},
    optional(query=NAMES, answer=NAMES),
    optional(reference_topics=st.lists(NAMES, min_size=1, max_size=2)),
    CALLED,
)
DIALOGUE = st.builds(
    lambda queries, topics, rest, called: {
        "turns": [{"query": query, **topics} for query in queries],
        **rest,
        **called,
    },
    st.lists(NAMES, min_size=2, max_size=3),
    optional(reference_topics=st.lists(NAMES, min_size=1, max_size=2)),
    optional(goal=NAMES),
    CALLED,
)
OUTCOME = st.builds(
    lambda item, rest: {**item, **rest},
    of(turns=st.just([]) | optional(query=NAMES, answer=ANSWERS).filter(bool).map(lambda turn: [turn])),
    optional(
        notes=TEXTS,
        tags=st.lists(NAMES, max_size=2),
        agent=NAMES,
        goal=TEXTS,
        minimum_steps=st.integers(1, 9),
        expected_state=STATES,
        outputs=st.lists(NAMES | st.integers(), max_size=2),
        tools=st.lists(
            of(tool_name=st.sampled_from(["a", "b"]), ignore_extra_parameters=st.just(True)) | LITERAL, max_size=2
        ).map(lambda calls: {"calls": calls, "extra_calls": "allow"}),
    ),
)
ADK = st.builds(
    lambda item, state: {**item, **state},
    of(turns=turns_of(query=TEXTS, answer=NAMES, tools=expectation(LITERAL, order="exact")))
    | of(turns=of(query=TEXTS).map(lambda turn: [turn]), goal=TEXTS),
    optional(expected_state=st.dictionaries(TEXTS, VALUES, min_size=1, max_size=2)),
)
WRITES = of(tool_name=st.sampled_from(["book", "cancel"]), parameters=STATES)
FREE = of(tool_name=st.sampled_from(["get_user", "think"]), parameters=STATES, required=st.just(False))
TAU_BENCH = st.builds(
    lambda calls, rest: {
        "tools": {"calls": calls, "extra_calls": {"read": "allow", "write": "forbid"}},
        "effects": dict.fromkeys(READS, "read"),
        **rest,
    },
    st.lists(WRITES | FREE, max_size=3),
    optional(goal=NAMES, outputs=st.lists(NAMES, max_size=2)),
)
VISIBLE = NAMES.filter(lambda text: text.strip() and "\x00" not in text)
ACCEPTED = VISIBLE | st.lists(NAMES, min_size=2, max_size=3, unique=True)
FLAT = of(
    turns=turns_of(query=VISIBLE, answer=ACCEPTED, tools=expectation(STEPPED)), goal=st.sampled_from(["007", "=x", "'"])
)


@pytest.mark.parametrize(
    ("name", "holds"),
    [
        ("csv", FLAT),
        ("parquet", FLAT),
        ("fair-forge", FAIR_FORGE),
        ("ragas", QUESTION | DIALOGUE),
        ("outcome", OUTCOME),
        ("adk", ADK),
        ("tau-bench", TAU_BENCH),
    ],
)
@settings(max_examples=settings().max_examples // 2)
@given(data=st.data())
def test_what_a_format_can_hold_comes_back_as_it_was(
    name: str, holds: st.SearchStrategy[dict[str, Any]], data: st.DataObject
) -> None:
    identity = of(case_id=st.sampled_from(["a", "007", "x/y"]), dataset=st.sampled_from(["airline", "shop"]))
    listed = st.lists(
        st.builds(lambda first, other: case_of({**first, **other}), identity, holds),
        max_size=2,
        unique_by=lambda case: case.key,
    )
    given_cases = data.draw(listed)
    back, losses = there_and_back(given_cases, name)
    assert () == losses
    assert given_cases == list(back.cases)
