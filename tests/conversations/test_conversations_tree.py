"""The spans of a trace as a forest: orphans, cycles, depth, equal times."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agentic.conversations.merge import Node
from otel_agentic.conversations.tree import build_tree
from otel_agentic.testing import span
from tests.conversations.rebuilding import READER, at, chat, conversation_of, run, tool
from tests.steps import LINEAR, growth

if TYPE_CHECKING:
    from otel_agentic.spans.model import Span


def built(spans: Sequence[Span]) -> list[Node]:
    return build_tree(READER.read_all(spans, {}))


def names(nodes: Sequence[Node]) -> list[str]:
    return [node.span.name for node in nodes]


def runs(spans: Sequence[Span]) -> list[str]:
    return [node.span.name for node in built(spans) if node.is_run]


def test_nodes_come_depth_first_and_siblings_by_start() -> None:
    root = span("root", start_ns=at(0))
    first, second = span("first", parent=root, start_ns=at(1)), span("second", parent=root, start_ns=at(2))
    inner = span("inner", parent=first, start_ns=at(3))

    assert ["root", "first", "inner", "second"] == names(built([inner, second, first, root]))


def test_a_span_whose_parent_never_came_is_a_root() -> None:
    root, orphan = span("root", start_ns=at(0)), span("orphan", parent="never came", start_ns=at(1))

    nodes = built([orphan, root])

    assert ["root", "orphan"] == names(nodes)
    assert [None, None] == [node.parent for node in nodes]


def test_nodes_are_freed_without_the_collector_of_cyclic_garbage() -> None:
    def count() -> int:
        return sum(type(tracked) is Node for tracked in gc.get_objects())

    root = span("root", start_ns=at(0))
    spans = [root, run(1, parent=root), span("late", parent=root, start_ns=at(2))]
    gc.collect()
    before = count()
    gc.disable()
    try:
        nodes = built(spans)
        assert before + 3 == count()
        del nodes
        assert before == count()
    finally:
        gc.enable()


def test_a_span_that_is_its_own_parent_is_a_root() -> None:
    own = span("own", span_id="own", parent="own")

    assert [None] == [node.parent for node in built([own])]


def test_a_cycle_of_parents_is_cut_at_its_earliest_span() -> None:
    spans = [
        span("a", span_id="a", parent="c", start_ns=at(1)),
        span("b", span_id="b", parent="a", start_ns=at(0)),
        span("c", span_id="c", parent="b", start_ns=at(2)),
        span("tail", parent=span("a", span_id="a"), start_ns=at(-1)),
    ]

    nodes = built(spans)

    assert ["b", "c", "a", "tail"] == names(nodes)
    assert [node.span.name for node in nodes if node.parent is None] == ["b"]


def test_equal_times_are_settled_by_end_and_then_by_id() -> None:
    longest = span("long", start_ns=at(0), end_ns=at(9))
    twins = sorted((span(name, start_ns=at(0), end_ns=at(5)) for name in "ab"), key=lambda result: result.span_id)

    assert ["long", *(twin.name for twin in twins)] == names(built([*reversed(twins), longest]))


@given(order=st.permutations(range(8)))
@settings(max_examples=20)
def test_the_order_of_arrival_changes_nothing(order: list[int]) -> None:
    parents = [None, "0", "1", "1", "never", "5", "6", "0"]
    spans = [
        span(str(index), span_id=str(index), parent=parent and str(parent), start_ns=at(index % 3))
        for index, parent in enumerate(parents)
    ]

    assert names(built(spans)) == names(built([spans[index] for index in order]))


@pytest.mark.parametrize("kind", ["invoke_agent", "chain", "execute_tool", "unknown"])
def test_a_long_chain_of_spans_is_read_without_recursion_in_linear_time(kind: str) -> None:
    attributes = {
        "chain": {"openinference.span.kind": "CHAIN"},
        "unknown": {},
    }.get(kind, {"gen_ai.operation.name": kind, "gen_ai.conversation.id": "c1"})

    def chain(length: int) -> Callable[[], Any]:
        spans = [
            span(str(depth), span_id=str(depth), parent=str(depth - 1), start_ns=at(depth / 1000), end_ns=at(100),
                 attributes=attributes)
            for depth in range(length)
        ]  # fmt: skip
        return partial(conversation_of, *spans, chat(50, id="c1", parent=str(length - 1)))

    assert chain(2 * sys.getrecursionlimit())().conversation_id
    assert growth(chain, 100) < LINEAR


def test_many_silent_calls_in_a_turn_are_read_in_linear_time() -> None:
    root = run(0, 2000, id="c1", query="Go")

    def calls(count: int) -> Callable[[], Any]:
        work = [item for index in range(count) for item in (chat(index, parent=root), tool(index + 0.5, parent=root))]
        return partial(conversation_of, root, *work)

    (turn,) = calls(100)().turns
    assert 100 == len(turn.calls)
    assert growth(calls, 100) < LINEAR


def test_an_agent_run_counts_wherever_it_stands() -> None:
    top = run(0, 9)
    inner = run(1, 2, parent=tool(1, parent=top))

    assert {top.name, inner.name} == set(runs([top, tool(1, parent=top), inner]))


def chain(name: str, start_s: float, parent: Span | None = None, kind: str = "CHAIN", **attributes: str) -> Span:
    keys = {key.replace("__", "."): value for key, value in attributes.items()}
    return span(name, parent=parent, start_ns=at(start_s), end_ns=at(99), attributes={"openinference.span.kind": kind, **keys})  # fmt: skip


def test_the_topmost_chain_that_works_is_the_run_and_those_inside_are_not() -> None:
    top = chain("graph", 0, input__value="Hi")
    node = chain("node", 1, top, input__value="state")

    assert ["graph"] == runs([top, node, chain("model", 2, node, kind="LLM")])


def test_a_chain_around_an_agent_with_nothing_of_its_own_is_no_run() -> None:
    top = chain("wrapper", 0)
    agent = chain("agent", 1, top, kind="AGENT")

    assert ["agent"] == runs([top, agent, chain("model", 2, agent, kind="LLM")])


def test_a_chain_that_a_tool_started_is_a_run_of_its_own() -> None:
    top = chain("graph", 0, input__value="Hi")
    call = chain("ask_booking", 1, top, kind="TOOL")
    inner = chain("booking", 2, call, input__value="Book")

    assert ["graph", "booking"] == runs([top, call, inner, chain("model", 3, inner, kind="LLM")])


def test_a_chain_that_does_nothing_is_no_run() -> None:
    assert [] == runs([chain("prompt template", 0), chain("parser", 1)][:1])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("invoke_agent mesa", "mesa"),
        ("invoke_workflow mesa", "mesa"),
        ("mesa.agent", "mesa"),
        ("mesa.workflow", "mesa"),
        ("agent run", None),
    ],
)
def test_a_run_without_an_agent_name_has_that_of_its_span(name: str, expected: str | None) -> None:
    bare = replace(run(0), name=name, attributes={"gen_ai.operation.name": "invoke_agent"})

    assert expected == built([bare])[0].agent_name
