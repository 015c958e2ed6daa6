"""Plan quality and adherence: which tools a plan names, in every form, and the numbers worked out by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations, permutations, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.evaluators.layers import Reasoning
from otel_agentic.evaluators.layers.plan_texts import ToolNames, stated_plan, tools_named
from otel_agentic.evaluators.layers.plans import in_order, plan_in, thought_in
from otel_agentic.testing import conversation, tool_call, turn
from otel_agentic.truth import Case
from tests.evaluators.ragas_subjects import scores_of, subject
from tests.snapshots import passage

NAMES = ToolNames(["search_hotels", "book", "pay", "getWeather", "browser.open"])
NUMBERED = "1. search hotels\n2. book one\n3. pay"


@pytest.mark.parametrize(
    ("plan", "tools"),
    [
        (NUMBERED, ("search_hotels", "book", "pay")),
        ("Here is my plan, I will pay last:\n- search_hotels\n- Book it\n  with a late check-in\n* pay", "s b p"),
        ("Step 1: use `search_hotels`. Step 2: book.", "s b"),
        ("First search hotels. The search_hotels tool gives prices; then book, and get weather.", "s b getWeather"),
        ("Search hotels, do not pay yet, and book", "s b"),
        ("browser.open the page, then getWeather", "browser.open getWeather"),
        ("The bookkeeper payed for pre-book and book-keeping", ""),
        ('["search_hotels", "book"]', "s b"),
        (
            '{"steps": [{"tool": "search_hotels"}, {"description": "Book it"}, {"action": "pay", "why": "book"}]}',
            "s b p",
        ),
        ('{"plan": "1. search hotels\\n2. book"}', "s b"),
        ('{"1": "search hotels", "2": "book"}', "s b"),
        ([{"content": "Search hotels", "status": "done"}, {"content": "Book", "status": "cancelled"}], "s"),
        ([{"step": "Book and pay", "activeForm": "Booking; book"}], "b p"),
        ([{"tasks": ["book", {"tool_name": "pay"}]}], "b p"),
        # An unknown tool is planned all the same, where it is named as one.
        (["fly_home", "book"], "fly_home b"),
        ([{"tool": "teleport"}, {"name": "anything"}], "teleport"),
        ([{"function": {"name": "book"}}], "b"),
        ('Pay last.\n```json\n["search_hotels", {"tool": "book"}]\n```\nThat is all.', "s b"),
        ("", ""),
        ("{broken", ""),
        ({}, ""),
        (None, ""),
        (5, ""),
        ([["book"]], "b"),
    ],
)
def test_the_tools_of_a_plan_are_found_step_by_step(plan: Any, tools: Any) -> None:
    short = {"s": "search_hotels", "b": "book", "p": "pay"}
    expected = tools if isinstance(tools, tuple) else tuple(short.get(item, item) for item in tools.split())
    assert expected == tools_named(plan, NAMES)


def test_an_untrusted_plan_is_read_within_bounds() -> None:
    deep: Any = "book"
    for _ in range(5_000):
        deep = [deep]
    assert () == tools_named(deep, NAMES)
    assert 300 == len(tools_named(["book"] * 100_000, NAMES))
    assert () == tools_named("-" * 1_000_000, NAMES)
    assert ("pay",) == tools_named("(" * 40_000 + " pay", NAMES)
    assert [] == ToolNames(["a" * 1_000]).within("a" * 1_000)
    assert ["(+", "s"] == ToolNames(["(+", "s"]).within("(+ and s, not \u017f")


def slow_in_order(names: tuple[str, ...], groups: list[tuple[str, ...]]) -> int:
    """Return the longest common subsequence over all orders of each group, by looking at all subsequences."""
    best = 0
    for orders in product(*(set(permutations(group)) for group in groups)):
        expected = [name for group in orders for name in group]
        sizes = [
            size
            for size in range(len(expected) + 1)
            if set(combinations(expected, size)) & set(combinations(names, size))
        ]
        best = max(best, *sizes)
    return best


@given(
    names=st.lists(st.sampled_from("abc"), max_size=6).map(tuple),
    groups=st.lists(st.lists(st.sampled_from("abc"), max_size=3).map(tuple), max_size=3),
)
def test_the_common_subsequence_is_the_longest_over_all_orders_of_the_groups(
    names: tuple[str, ...], groups: list[tuple[str, ...]]
) -> None:
    assert slow_in_order(names, groups) == in_order(names, groups)


def values(about: Any) -> tuple[float | None, float | None]:
    scores = scores_of(Reasoning(), about)
    return scores["plan_quality"].value, scores["plan_adherence"].value


def case(**fields: Any) -> Case:
    return Case.model_validate({"case_id": "c", "turns": [{"query": "go"}], **fields})


def calls(*names: str, **more: Any) -> dict[str, Any]:
    return {"calls": [{"tool_name": name} for name in names], **more}


def planned(plan: Any, *actual: str) -> Any:
    text = plan if isinstance(plan, str) else json.dumps(plan)
    return conversation(turn("go", "done", *map(tool_call, actual), plans=(text,)))


@pytest.mark.parametrize(
    ("plan", "expected", "actual", "quality", "adherence"),
    [
        (["a", "b"], ["a", "b"], ["a", "b"], 1.0, 1.0),
        # A step more in the plan costs nothing in quality; two of the three were executed.
        (["a", "x", "b"], ["a", "b"], ["a", "b"], 1.0, 2 / 3),
        (["a", "c", "b"], ["a", "b", "c"], ["a", "c", "b"], 2 / 3, 1.0),
        # The missing tool does not use up the rest of the plan.
        (["b", "c"], ["a", "b", "c"], ["c", "b"], 2 / 3, 0.5),
        (["a"], ["a", "a"], ["a", "x"], 0.5, 1.0),
        (["x"], ["a"], ["a"], 0.0, 0.0),
    ],
)
def test_quality_and_adherence_are_common_subsequences(
    plan: list[str], expected: list[str], actual: list[str], quality: float, adherence: float
) -> None:
    plan, expected, actual = ([f"do_{name}" for name in names] for names in (plan, expected, actual))
    about = subject(planned(plan, *actual), case(plan=expected))

    assert [pytest.approx(quality), pytest.approx(adherence)] == list(values(about))


def test_without_a_plan_in_the_case_the_required_calls_are_expected_in_their_order() -> None:
    ordered = calls("a_1", "b_1", "c_1", order="relative")
    talk = planned(["a_1", "c_1", "b_1"], "a_1", "b_1", "c_1")
    assert 2 / 3 == values(subject(talk, case(turns=[{"query": "go", "tools": ordered}])))[0]
    # Steps of one number have no order among themselves, and calls of order any none at all.
    parallel = {
        "order": "exact",
        "calls": [{"tool_name": "a_1", "step": 1}, *({"tool_name": n, "step": 2} for n in ("b_1", "c_1"))],
    }
    assert 1.0 == values(subject(talk, case(tools=parallel)))[0]
    assert 1.0 == values(subject(talk, case(tools=calls("b_1", "a_1", "c_1"))))[0]
    # Optional calls are not expected of a plan.
    optional = {"calls": [{"tool_name": "a_1"}, {"tool_name": "z_1", "required": False}]}
    assert 1.0 == values(subject(talk, case(tools=optional)))[0]


def test_calls_of_one_step_are_executed_in_any_order() -> None:
    together = [tool_call("b_1", step=1), tool_call("a_1", step=1)]
    talk = conversation(turn("go", "done", *together, plans=("1. a_1\n2. b_1",)))
    assert 1.0 == values(subject(talk, None))[1]
    apart = conversation(turn("go", "done", tool_call("b_1"), tool_call("a_1"), plans=("1. a_1\n2. b_1",)))
    assert 0.5 == values(subject(apart, None))[1]


def test_unplanned_calls_do_not_hide_planned_ones() -> None:
    assert 1.0 == values(subject(planned(["do_a"], *["do_b"] * 400, "do_a"), None))[1]


@pytest.mark.parametrize(
    ("call", "is_plan"),
    [
        (tool_call("write_todos", {"todos": [{"content": "Search", "status": "pending"}]}), True),
        (tool_call("TodoWrite", {"todos": [{"content": "Search"}]}), True),
        (tool_call("update_plan", {"explanation": "x", "plan": [{"step": "Search", "status": "pending"}]}), True),
        (tool_call("make_plan", {"goal": "a trip"}, result="1. search\n2. book"), True),
        (tool_call("planner", {"task": "a trip"}, result='{"steps": ["search", "book"]}'), True),
        (tool_call("travel_planner", {"task": "a trip"}, result=["search", "book"]), True),
        (tool_call("update_plan", {"plan": [{"step": "Search"}]}, error="no"), False),
        (
            tool_call(
                "cancel_plan",
                {"plan": "Premium"},
                result="Your plan has been cancelled as of today, thank you very much",
            ),
            False,
        ),
        (tool_call("get_plans", {"user": "u"}, result=[{"name": "Premium"}]), False),
        (tool_call("explain", {"plan": ["search", "book"]}), False),
        (tool_call("write_todos", {"todos": []}), False),
        (replace(tool_call("write_todos"), arguments=None), False),
    ],
)
def test_a_call_writes_a_plan_down_by_its_name_and_its_steps(call: Any, is_plan: bool) -> None:  # noqa: FBT001 — a row
    assert is_plan == (plan_in(call) is not None)


def test_of_several_plans_in_a_turn_the_last_counts_unless_it_only_drops_steps() -> None:
    def plan(*steps: str) -> Any:
        return tool_call("write_todos", {"todos": [{"content": step} for step in steps]})

    def quality(*plans: Any, expected: list[str]) -> float | None:
        return values(subject(conversation(turn("go", "done", *plans)), case(plan=expected)))[0]

    a, b, c = "do_a", "do_b", "do_c"
    assert 1.0 == quality(plan(a, b), plan(b), expected=[a, b])
    assert 0.5 == quality(plan(a, b), plan(c, b), expected=[a, b])
    assert 1.0 == quality(plan(c), plan(a, b), plan("nothing to call"), expected=[a, b])


def test_the_plans_of_turns_follow_each_other() -> None:
    talk = conversation(turn("go", "ok", plans=("do_a",)), turn("on", "ok", plans=("do_b",)))
    assert 1.0 == values(subject(talk, case(plan=["do_a", "do_b"])))[0]


def test_without_a_plan_the_abstention_names_the_missing_data() -> None:
    for about in (subject(conversation(), None), subject(conversation(), case(plan=["a"]))):
        for score in scores_of(Reasoning(), about).values():
            assert (None, "no_data") == (score.value, score.reason)
            assert "write_todos" in score.explanation
    scores = scores_of(Reasoning(), subject(planned("I will think about it", "search"), case(plan=["search"])))
    assert {"no_data"} == {score.reason for score in scores.values()}
    assert "plan_quality_judged" in scores["plan_quality"].explanation


def test_a_plan_without_a_case_is_held_against_the_calls_alone() -> None:
    talk = planned("1. search\n2. book", "search")
    # It is unknown that `book` is a tool, until the definitions do.
    scores = scores_of(Reasoning(), subject(talk, None))
    assert ("unmatched", 1.0) == (scores["plan_quality"].reason, scores["plan_adherence"].value)
    scores = scores_of(Reasoning(), subject(replace(talk, tool_definitions={"book": None, "search": None}), None))
    assert ("unmatched", 0.5) == (scores["plan_quality"].reason, scores["plan_adherence"].value)
    scores = scores_of(Reasoning(), subject(planned("1. search\n2. book", "search", "book"), case()))
    assert ("no_data", 1.0) == (scores["plan_quality"].reason, scores["plan_adherence"].value)
    assert passage(scores["plan_quality"].explanation) == snapshot("annotate `plan` or `tools`")


def test_explanations_name_the_tools() -> None:
    scores = scores_of(
        Reasoning(), subject(planned("1. book_it\n2. look_up", "look_up"), case(plan=["look_up", "book_it", "pay"]))
    )
    assert scores["plan_quality"].explanation == snapshot(
        "1 of 3 expected steps are planned in their order; not planned: pay; not in the expected order"
    )
    assert scores["plan_adherence"].explanation == snapshot(
        "1 of 2 planned steps were executed in their order; planned and not called: book_it"
    )


SMOLAGENTS = """Here are the facts I know and the plan of action that I will follow to solve the task:
```
## 1. Facts survey
### 1.1. Facts given in the task
- The trip is to Oslo.

## 2. Plan
1. search hotels in Oslo
2. book the cheapest

   with a late check-in
<end_plan>
```"""


@pytest.mark.parametrize(
    ("text", "tools"),
    [
        (SMOLAGENTS, ["search_hotels", "book"]),
        ("/*PLANNING*/\n1. Use `search_hotels`.\n2. Then `book`.\n/*ACTION*/\npay()", ["search_hotels", "book"]),
        ("/*REPLANNING*/ pay first\n/*REASONING*/ book", ["pay"]),
        ("<plan>search hotels; pay</plan> I begin.", ["search_hotels", "pay"]),
        ("**Plan:**\n- search hotels\n- pay\n\nNow I book.", ["search_hotels", "pay"]),
        ("To-do list:\n\n- [ ] search hotels\n- [x] pay", ["search_hotels", "pay"]),
        ('{"list_of_plans_per_task": [{"task": "travel", "plan": "search hotels, then pay"}]}', ["search_hotels", "pay"]),
        ('```json\n{"steps": [{"action": "search_hotels"}, {"action": "pay"}]}\n```', ["search_hotels", "pay"]),
        # No plan: an intention, a plan of another kind, a list without an announcement, a single step, other JSON.
        ("I will search hotels and then book.", None),
        ("You have the premium plan. I search hotels.", None),
        ("Hotels:\n1. Ritz, book early\n2. Grand", None),
        ("My plan:\n- search hotels", None),
        ('{"items": ["search_hotels", "book"]}', None),
        ('["search_hotels", "book"]', None),
        ("", None),
    ],
)  # fmt: skip
def test_a_text_is_a_plan_only_if_it_has_the_form_of_one(text: str, tools: list[str] | None) -> None:
    plan = stated_plan(text)
    assert tools == (None if plan is None else list(tools_named(plan, NAMES)))


@pytest.mark.parametrize("text", ["<plan>", "/*PLANNING*/", "plan:\n", "plan:\n- a\n\nb\n", "```\n{", "- plan: a:\n b"])
def test_untrusted_texts_are_searched_in_linear_time(text: str) -> None:
    stated_plan(text * 50_000)


def test_a_plan_in_the_reasoning_of_the_model_is_scored_and_an_answer_is_none() -> None:
    plan = "My plan:\n1. search_hotels\n2. book"
    case = Case.model_validate({"case_id": "c", "plan": ["search_hotels", "book", "pay"]})
    calls = [tool_call("search_hotels"), tool_call("pay")]
    scores = scores_of(Reasoning(), subject(conversation(turn("go", "done", *calls, reasoning=(plan,))), case))
    assert {"plan_quality": 2 / 3, "plan_adherence": 0.5} == {name: score.value for name, score in scores.items()}
    thought = tool_call("think", {"thought": plan})
    scores = scores_of(Reasoning(), subject(conversation(turn("go", "done", thought, *calls)), case))
    assert 0.5 == scores["plan_adherence"].value
    scores = scores_of(Reasoning(), subject(conversation(turn("go", plan, *calls)), case))
    assert "no_data" == scores["plan_adherence"].reason


def test_a_planned_answer_is_not_a_planned_call() -> None:
    plan = "Plan:\n1. Use book\n2. Give the answer with `final_answer`"
    about = conversation(
        turn("go", "done", tool_call("book"), reasoning=(plan,)), tool_definitions={"final_answer": None}
    )
    assert 1.0 == scores_of(Reasoning(), subject(about, None))["plan_adherence"].value


def test_without_content_it_is_unknown_whether_there_was_a_plan() -> None:
    hidden = turn(None, None, tool_call("pay", None), query_captured=False, answer_captured=False)
    hidden = replace(hidden, calls=tuple(replace(call, arguments=None, result_captured=False) for call in hidden.calls))
    scores = scores_of(
        Reasoning(), subject(conversation(hidden), Case.model_validate({"case_id": "c", "plan": ["pay"]}))
    )
    assert {"content_not_captured"} == {score.reason for score in scores.values()}


@pytest.mark.parametrize(
    ("name", "arguments", "thought"),
    [
        ("think", {"thought": "Pay last."}, "Pay last."),
        ("sequentialthinking", {"thought": "Pay last.", "thoughtNumber": 1}, "Pay last."),
        ("mcp__sequential-thinking__sequentialthinking", {"thought": "Pay last."}, "Pay last."),
        ("think", {"thought": " "}, None),
        ("think", None, None),
        ("think", {"city": "Rome"}, None),
        ("rethink_order", {"thought": "Pay last."}, None),
        ("", {"thought": "Pay last."}, None),
    ],
)
def test_a_thinking_tool_records_a_thought(name: str, arguments: dict[str, Any] | None, thought: str | None) -> None:
    assert thought == thought_in(tool_call(name, arguments))
