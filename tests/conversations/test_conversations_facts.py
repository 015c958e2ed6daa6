"""Facts apart from the messages: tokens, definitions of tools, plans, the final state, when calls ran."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from otel_agentic.config import ConversationSettings
from otel_agentic.conversations import Conversation, assemble
from otel_agentic.conversations.model import ModelUse
from otel_agentic.spans.model import Span, StatusCode
from otel_agentic.testing import batch
from tests.conversations.rebuilding import (
    act,
    asks,
    assistant,
    at,
    call_of,
    chat,
    conversation_of,
    linked,
    run,
    tool,
    turn_of,
    user,
)
from tests.conversations.rebuilding import conversations as rebuilt
from tests.golden.comparing import batches
from tests.shared import SHARED, why_absent

CAPTURES: Final = SHARED / "captures"
needs_captures = pytest.mark.skipif(why_absent(CAPTURES) is not None, reason=str(why_absent(CAPTURES)))

GENAI: Final = ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens")
OPENINFERENCE: Final = ("llm.token_count.prompt", "llm.token_count.completion")
CHAT: Final = ("gen_ai.operation.name", "chat")
#: The attributes with the tokens of a model call in a capture, and which spans are model calls, as read by a person. Spans
#: of runs, nodes and wrappers carry sums, or the same call again. Longest beginning of the name first.
COUNTED: Final[tuple[tuple[str, tuple[str, str], tuple[str, str]], ...]] = (
    ("adk-", GENAI, ("gen_ai.operation.name", "generate_content")),
    ("openinference-google-adk", GENAI, ("gen_ai.operation.name", "generate_content")),
    ("openinference-pydantic-ai", GENAI, CHAT),
    ("openinference-", OPENINFERENCE, ("openinference.span.kind", "LLM")),
    ("mixed-", OPENINFERENCE, ("openinference.span.kind", "LLM")),
    ("langfuse-langchain", ("input", "output"), ("langfuse.observation.type", "generation")),
    ("langfuse-observe", ("prompt_tokens", "completion_tokens"), ("langfuse.observation.type", "generation")),
    ("mlflow-", ("input_tokens", "output_tokens"), ("mlflow.spanType", '"CHAT_MODEL"')),
    (
        "openllmetry-decorators-old",
        ("gen_ai.usage.prompt_tokens", "gen_ai.usage.completion_tokens"),
        ("llm.request.type", "chat"),
    ),
    (
        "openllmetry-langchain-old",
        ("gen_ai.usage.prompt_tokens", "gen_ai.usage.completion_tokens"),
        ("llm.request.type", "chat"),
    ),
    ("vercel-ai-v7-generate-legacy", GENAI, ("ai.operationId", "ai.generateText.doGenerate")),
    ("vercel-ai-v7", GENAI, CHAT),
    ("vercel-ai-v4", GENAI, ("ai.operationId", "ai.generateText.doGenerate")),
    ("vercel-ai-", GENAI, ("gen_ai.system", "")),
    ("", GENAI, CHAT),
)
IN_JSON: Final = ("langfuse.observation.usage_details", "mlflow.chat.tokenUsage")
#: Model calls whose spans have no token counts: of a sub-agent (agent-framework), and of each call that asked for tools.
UNCOUNTED: Final = {
    "maf-default-nocontent": 2,
    "maf-latest-service": 2,
    "maf-v136-service": 2,
    "openllmetry-langchain-old": 13,
}
MESA: Final = {"add", "div", "get_weather", "book_table"}
#: The tools that each capture's agents were given in addition to these four, and whether all have a schema.
GIVEN: Final[Mapping[str, tuple[set[str], bool]]] = {
    **dict.fromkeys(
        ("adk-1-default", "adk-2-schema1", "adk-2-schema2-span"), ({"transfer_to_agent", "umbrella_expert"}, True)
    ),
    "genai-openai-agents-responses": ({"transfer_to_weather_specialist", "umbrella_expert"}, True),
    **dict.fromkeys(("genai-openai-event-wrapped", "genai-openai-responses-conversation"), (set(), True)),
    **dict.fromkeys(
        ("genai-util-agent-tool-event", "genai-util-agent-tool-span", "openinference-langchain-hitl"), (set(), True)
    ),
    **dict.fromkeys(
        ("langfuse-langchain", "langfuse-observe-openai", "langsmith-otel-langchain"), ({"ask_booking_agent"}, True)
    ),
    **dict.fromkeys(
        ("logfire-instrument-openai", "mlflow-langchain", "openinference-pydantic-ai"), ({"ask_booking_agent"}, True)
    ),
    **dict.fromkeys(
        ("openinference-decorators-openai", "openinference-langchain-onetrace"), ({"ask_booking_agent"}, True)
    ),
    **dict.fromkeys(("openinference-langchain-session", "openllmetry-decorators-new"), ({"ask_booking_agent"}, True)),
    **dict.fromkeys(("openllmetry-decorators-old", "openllmetry-langchain-new"), ({"ask_booking_agent"}, True)),
    **dict.fromkeys(("openllmetry-langchain-old", "vercel-ai-v4-generate"), ({"ask_booking_agent"}, True)),
    **dict.fromkeys(("vercel-ai-v5-stream", "vercel-ai-v7-generate"), ({"ask_booking_agent"}, True)),
    "vercel-ai-v7-generate-legacy": ({"ask_booking_agent"}, True),
    **dict.fromkeys(
        ("logfire-agents-sdk-scrubbed", "openinference-openai-agents-responses"), ({"transfer_to_booking_agent"}, True)
    ),
    "openllmetry-openai-agents-responses": ({"transfer_to_booking_agent"}, True),
    "openllmetry-sdk-openai-agents-responses": ({"transfer_to_booking_agent"}, True),
    "logfire-openai-agents-responses": ({"umbrella_expert"}, False),
    **dict.fromkeys(
        ("maf-default-nocontent", "maf-latest-service", "vercel-ai-stream"), ({"ask_weather_specialist"}, True)
    ),
    **dict.fromkeys(
        ("pydantic-ai-1-v1-logs", "pydantic-ai-1-v2", "pydantic-ai-2-v5"), ({"ask_weather_specialist"}, True)
    ),
    **dict.fromkeys(("pydantic-ai-2-v5-nocontent", "pydantic-ai-2-v6-stream"), ({"ask_weather_specialist"}, True)),
    **dict.fromkeys(("strands-latest", "strands-legacy"), ({"ask_weather_specialist"}, False)),
    "openinference-crewai-llm": ({"ask_question_to_coworker", "delegate_work_to_coworker"}, True),
    "openllmetry-crewai-llm": ({"ask_question_to_coworker", "delegate_work_to_coworker"}, True),
    "openinference-google-adk": ({"transfer_to_agent"}, True),
    "openinference-llamaindex": ({"handoff"}, True),
    "openinference-smolagents": ({"final_answer"}, True),
}
#: In these the available tools are not recorded, or a length limit cut the list off (truncated).
NONE_GIVEN: Final = {
    "autogen-openaiv2-span",
    "genai-langchain-event",
    "genai-langchain-span",
    "genai-langchain-span-stream-noid",
    "maf-v136-service",
    "mixed-oi-tl-openai-agents-chat",
    "openai-agents-v2-responses",
    "openai-v2-latest-span-bare",
    "openai-v2-legacy-logs-wrapped",
    "openinference-decorators-openai-redacted",
    "openllmetry-decorators-events",
    "openllmetry-llamaindex",
    "pydantic-ai-2-v5-truncated",
}


def names() -> list[str]:
    return sorted(path.parent.name for path in CAPTURES.glob("*/expected.json"))


@cache
def of_capture(name: str) -> list[Conversation]:
    return rebuilt(*batches(CAPTURES / name))


def raw_spans(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the attributes of each span as the file has them, scalars only: read with nothing of ours."""
    for line in (folder / "traces.jsonl").read_text().splitlines():
        for resource in json.loads(line).get("resourceSpans", []):
            for scope in resource.get("scopeSpans", []):
                for span in scope.get("spans", []):
                    yield {item["key"]: next(iter(item["value"].values()), None) for item in span.get("attributes", [])}


def raw_usage(folder: Path) -> tuple[int, int, int]:
    """Return how many spans of model calls have token counts, and the sums of both counts."""
    (own, other), (mark, value) = next((keys, mark) for start, keys, mark in COUNTED if folder.name.startswith(start))
    results = []
    for attributes in raw_spans(folder):
        if mark in attributes and value in {"", attributes[mark]}:
            details = {
                key: item
                for name in IN_JSON
                if name in attributes
                for key, item in json.loads(attributes[name]).items()
            }
            message = {**attributes, **details}
            if own in message:
                results.append((int(message[own]), int(message[other])))
    return len(results), sum(own for own, _ in results), sum(other for _, other in results)


def uses(conversations: list[Conversation]) -> list[ModelUse]:
    return [use for item in conversations for turn in item.turns for use in turn.models]


@needs_captures
@pytest.mark.parametrize("name", names())
def test_each_model_call_of_a_capture_is_counted_once_with_its_tokens(name: str) -> None:
    calls, input_tokens, output_tokens = raw_usage(CAPTURES / name)

    result = uses(of_capture(name))

    missing = UNCOUNTED.get(name, 0)
    assert calls > 0
    assert (calls + missing, calls, 0) == (
        sum(use.calls for use in result),
        sum(use.priced_calls for use in result),
        sum(use.failed for use in result),
    )
    assert (input_tokens, output_tokens) == (
        sum(use.input_tokens or 0 for use in result),
        sum(use.output_tokens or 0 for use in result),
    )


@needs_captures
def test_every_capture_has_its_expected_definitions() -> None:
    assert names() == sorted({*GIVEN, *NONE_GIVEN})
    assert not GIVEN.keys() & NONE_GIVEN


@needs_captures
@pytest.mark.parametrize("name", names())
def test_the_tools_that_a_capture_names_are_those_that_its_agents_were_given(name: str) -> None:
    given = [item.tool_definitions for item in of_capture(name)]

    if name in NONE_GIVEN:
        assert [None] == list({None if item is None else len(item) for item in given})
        return
    more, described = GIVEN[name]
    tools = {tool: schema for item in given for tool, schema in (item or {}).items()}
    assert {*MESA, *more} == set(tools)
    assert described == all(schema is not None for item in given for schema in (item or {}).values())
    if name != "logfire-openai-agents-responses":
        assert {"number"} == {field["type"] for field in tools["add"]["properties"].values()}
        assert ["a", "b"] == sorted(tools["add"]["properties"])
        assert tools["book_table"]["properties"]["party_size"]["type"] in {"integer", "number"}  # JavaScript has one


@needs_captures
@pytest.mark.parametrize("name", ["adk-1-default", "strands-latest", "openinference-llamaindex", "langfuse-langchain"])
def test_facts_do_not_depend_on_the_order_in_which_spans_come(name: str) -> None:
    complete = batch(*batches(CAPTURES / name))
    spans, logs = list(complete.spans), list(complete.logs)
    expected = of_capture(name)
    for seed in range(2):
        random = Random(seed)  # noqa: S311 — nothing secret
        random.shuffle(spans)
        random.shuffle(logs)
        assert expected == rebuilt(*spans, *logs)


def usage(given: int | None, accepted: int | None, model: str = "m1", **more: Any) -> dict[str, Any]:
    counts = {"gen_ai.usage.input_tokens": given, "gen_ai.usage.output_tokens": accepted, "gen_ai.request.model": model}
    return {key: value for key, value in {**counts, **more}.items() if value is not None}


def answered(start_s: float, counts: dict[str, Any], **more: Any) -> Span:
    return chat(start_s, [user("hi")], [assistant("hello")], attributes=counts, **more)


def models_of(*spans: Span) -> tuple[ModelUse, ...]:
    return turn_of(*spans).models


def test_a_run_that_sums_up_its_model_calls_is_not_counted_in_addition() -> None:
    top = run(0, 9, query="hi", answer="hello", attributes=usage(30, 7))
    calls = [answered(1, usage(10, 3), parent=top), answered(3, usage(20, 4), parent=top)]

    assert (ModelUse(model="m1", calls=2, input_tokens=30, output_tokens=7, priced_calls=2),) == models_of(top, *calls)


def test_a_call_that_two_instrumentations_tell_of_is_counted_once() -> None:
    """The one knows the tokens, the other the model."""
    top = run(0, 9, query="hi")
    outer = chat(1, None, None, attributes={"gen_ai.request.model": "m1"}, parent=top)
    inner = chat(1.1, [user("hi")], [assistant("hello")], attributes=usage(10, 3, "m2"), parent=outer)

    assert (ModelUse(model="m1", calls=1, input_tokens=10, output_tokens=3, priced_calls=1),) == models_of(
        top, outer, inner
    )


def test_a_span_around_several_model_calls_is_none_of_its_own() -> None:
    top = run(0, 20, query="hi")
    around = chat(1, None, None, attributes=usage(30, 7), parent=top, scope="outer")
    calls = [
        chat(second, [user("hi")], [assistant(f"{second}")], attributes=usage(second, 2), parent=around)
        for second in (10, 20)
    ]

    assert (ModelUse(model="m1", calls=2, input_tokens=30, output_tokens=4, priced_calls=2),) == models_of(
        top, around, *calls
    )


def test_each_model_has_a_count_of_its_own_by_name() -> None:
    top = run(0, 9, query="hi")
    calls = [answered(1, usage(1, 1, "zeta"), parent=top), answered(2, usage(2, 2, "alpha"), parent=top)]

    assert [("alpha", 2), ("zeta", 1)] == [(use.model, use.input_tokens) for use in models_of(top, *calls)]


def test_a_request_that_failed_before_it_was_tried_again_is_counted_as_failed() -> None:
    """As spans of their own, and as tries inside one span."""
    top = run(0, 9, query="hi")
    failed = chat(1, [user("hi")], None, attributes=usage(None, None), status=StatusCode.ERROR, parent=top)
    alongside = models_of(top, failed, answered(3, usage(10, 3), parent=top))
    outer = answered(1, usage(None, None), parent=top)
    first = chat(1.1, None, None, attributes=usage(None, None), status=StatusCode.ERROR, parent=outer)
    second = chat(1.5, None, None, attributes=usage(10, 3), parent=outer)
    inside = models_of(top, outer, first, second)

    expected = ModelUse(model="m1", calls=2, failed=1, input_tokens=10, output_tokens=3, priced_calls=2)
    assert ((expected,), (expected,)) == (alongside, inside)


def test_the_tokens_of_a_try_that_failed_hide_none_of_the_next() -> None:
    """60 and 3 by all tries; the span around them has the sum itself."""
    top = run(0, 9, query="hi")

    def tried(message: dict[str, Any]) -> tuple[ModelUse, ...]:
        outer = answered(1, message, parent=top)
        first = chat(1.1, None, None, attributes=usage(50, 0), status=StatusCode.ERROR, parent=outer)
        return models_of(top, outer, first, chat(1.5, None, None, attributes=usage(10, 3), parent=outer))

    expected = ModelUse(model="m1", calls=2, failed=1, input_tokens=60, output_tokens=3, priced_calls=2)
    assert ((expected,), (expected,)) == (tried(usage(None, None)), tried(usage(60, 3)))


def test_a_count_of_zero_hides_no_tokens_of_another_record() -> None:
    top = run(0, 9, query="hi")
    outer = chat(1, None, None, attributes=usage(0, 0), parent=top)
    inner = chat(1.1, [user("hi")], [assistant("hello")], attributes=usage(10, 3), parent=outer)
    alongside = [
        chat(1 + later, [user("hi")], [assistant("hello")], attributes=message, parent=top, scope=f"by.{later}")
        for later, message in ((0, usage(0, 0)), (0.05, usage(10, 3)))
    ]

    expected = ModelUse(model="m1", calls=1, input_tokens=10, output_tokens=3, priced_calls=1)
    assert ((expected,), (expected,)) == (models_of(top, outer, inner), models_of(top, *alongside))


def test_a_failed_request_in_two_tellings_is_one() -> None:
    top = run(0, 9, query="hi")
    outer = chat(1, [user("hi")], None, attributes=usage(None, None), status=StatusCode.ERROR, parent=top)
    inner = chat(1.1, None, None, attributes=usage(None, None), status=StatusCode.ERROR, parent=outer)

    assert (ModelUse(model="m1", calls=1, failed=1, priced_calls=1),) == models_of(top, outer, inner)


def test_a_call_that_tells_one_count_only_is_not_whole() -> None:
    top = run(0, 9, query="hi")

    assert (ModelUse(model="m1", calls=1, input_tokens=10, priced_calls=0),) == models_of(
        top, answered(1, usage(10, None), parent=top)
    )


def test_calls_tell_when_they_ran_and_those_without_a_span_do_not() -> None:
    top = run(0, 9, query="hi")
    model_call = chat(1, [user("hi")], [asks(("c1", "search", {}), ("c2", "lost", {}))], parent=top)
    ran = tool(3, "search", call_id="c1", parent=top)

    result = {call.name: (call.started_ns, call.ended_ns) for call in turn_of(top, model_call, ran).calls}

    assert {"search": (at(3), at(4)), "lost": (None, None)} == result


def test_the_tools_of_several_agents_are_known_together_and_the_last_schema_counts() -> None:
    old, new = {"type": "object"}, {"type": "object", "properties": {}}
    top = run(
        0, 9, query="hi", attributes={"gen_ai.tool.definitions": json.dumps([{"name": "search", "parameters": old}])}
    )
    call = answered(
        2, {"gen_ai.tool.definitions": [{"name": "search", "parameters": new}, {"name": "book"}]}, parent=top
    )

    assert {"search": new, "book": None} == conversation_of(top, call).tool_definitions


def test_a_called_tool_is_not_a_given_one_but_its_span_may_tell_its_schema() -> None:
    schema = {"type": "object", "properties": {"q": {"type": "string"}}}
    top = run(0, 9, query="hi", attributes={"gen_ai.agent.tools": '["search"]'})
    calls = [
        tool(2, name, attributes={"gen_ai.tool.json_schema": json.dumps(schema)}, parent=top)
        for name in ("search", "drop")
    ]

    assert {"search": schema} == conversation_of(top, *calls).tool_definitions
    assert conversation_of(run(0, 9, query="hi"), *calls).tool_definitions is None


def test_no_tools_at_all_differs_from_unknown_ones() -> None:
    assert {} == conversation_of(run(0, 9, query="hi", attributes={"gen_ai.tool.definitions": "[]"})).tool_definitions


def test_plans_are_texts_of_their_turn_in_order() -> None:
    top = run(0, 9, query="hi")
    second = act("plan", 4, attributes={"gen_ai.output.messages": [assistant("Then book.")]}, parent=top)
    first = act("plan", 2, attributes={"gen_ai.output.messages": json.dumps([assistant("First search.")])}, parent=top)
    request = act("plan", 5, 8, parent=top)
    inside = chat(6, [user("Plan!")], [assistant("1. Pay.")], parent=request)

    assert ("First search.", "Then book.", "1. Pay.") == turn_of(top, second, first, request, inside).plans


def test_a_plan_outside_of_every_run_belongs_to_the_turn_that_goes_on() -> None:
    plan = act("plan", 1, attributes={"gen_ai.output.messages": [assistant("Search.")]})
    calls = [chat(2, [user("hi")], [asks(("c1", "search", {}))]), tool(4, call_id="c1")]

    conversation = conversation_of(plan, *calls)

    assert [("Search.",)] == [turn.plans for turn in conversation.turns]
    assert "search" == call_of(plan, *calls).name


def test_the_state_that_the_last_span_names_is_the_final_one() -> None:
    """By its end: a span inside another ends before it."""
    top = run(0, 9, query="hi", attributes={"agentic.final_state": '{"booked": 2}'})
    inner = tool(2, attributes={"agentic.final_state": {"booked": 1}}, parent=top)
    other = tool(4, attributes={"agentic.final_state": "no state"}, parent=top)
    last = tool(5, attributes={"agentic.final_state": '{"booked": 3}'}, parent=top)

    assert {"booked": 2} == conversation_of(top, inner, other).final_state
    assert {"booked": 1} == conversation_of(run(0, 9, query="hi"), inner).final_state
    assert {"booked": 3} == conversation_of(run(0, 9, query="hi"), inner, other, last).final_state
    assert conversation_of(run(0, 9, query="hi"), other).final_state is None


@pytest.mark.parametrize("lost", ['{"booked": [1, 2', "[REDACTED]", '{"a": "' + "x" * 1_000_000 + '"}'])
def test_a_last_state_that_cannot_be_read_does_not_make_the_one_before_it_final(lost: str) -> None:
    top = run(0, 9, query="hi", attributes={"agentic.final_state": lost})
    inner = tool(2, attributes={"agentic.final_state": {"booked": 1}}, parent=top)

    assert conversation_of(top, inner).final_state is None


def test_the_name_of_the_state_is_a_setting() -> None:
    own = ConversationSettings(state_attributes=("shop.cart",))
    (conversation,) = linked(
        run(0, 9, query="hi", attributes={"shop.cart": '{"items": 3}', "agentic.final_state": "{}"})
    )

    assert {"items": 3} == assemble(conversation, own).final_state


def test_the_first_span_that_names_a_user_or_a_session_tells_whose_conversation_it_is() -> None:
    def hashes(**attributes: str) -> tuple[int | None, int | None]:
        named = {name.replace("_", "."): item for name, item in attributes.items()}
        conversation = conversation_of(run(0, 9, query="hi", attributes={"gen_ai.conversation.id": "c-1", **named}))
        return conversation.user_hash, conversation.session_hash

    user, session = hashes(user_id="u-1", session_id="visit")
    assert user is not None
    assert session is not None
    assert (user, None) == hashes(enduser_id="u-1")
    assert (user, session) == hashes(user_id="u-1", enduser_id="another", session_id="visit")
    assert user != hashes(user_id="u-2")[0]
    assert (None, None) == hashes()


def test_a_session_that_is_the_conversation_itself_says_nothing_of_others() -> None:
    conversation = conversation_of(
        run(0, 9, query="hi", attributes={"session.id": "c-1", "gen_ai.conversation.id": "c-1"})
    )
    assert conversation.session_hash is None


def test_reasoning_is_each_text_of_the_model_but_the_answer_once_and_in_order() -> None:
    top = run(0, 9, query="hi")
    thought = {"role": "assistant", "parts": [{"type": "reasoning", "content": "Search, then book."}]}
    thought["parts"] += asks(("c1", "search", {}), text="I search.")["parts"]
    planner = chat(1, [user("Plan!")], [assistant("1. Search.")], parent=top)
    calls = [chat(at_s, [user("hi")], [thought], parent=top) for at_s in (2, 3)]
    last = chat(5, [user("hi")], [assistant("Booked.")], parent=top)

    turn = turn_of(top, last, *calls, planner)

    assert ("1. Search.", "Search, then book.", "I search.") == turn.reasoning
    assert "Booked." == turn.answer
    assert () == turn_of(top, last).reasoning


def test_the_reasoning_of_a_turn_is_kept_within_bounds() -> None:
    top = run(0, 9, query="hi")
    calls = [chat(2, [user("hi")], [asks((f"c{n}", "search", {}), text=f"{n}" * 30_000)], parent=top) for n in range(5)]
    assert 3 == len(turn_of(top, *calls).reasoning)
