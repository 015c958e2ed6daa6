# mypy: ignore-errors
# The framework is not installed where the types are checked.
# needs: pydantic-ai-slim[openai]==2.68.0 openinference-instrumentation-pydantic-ai==0.1.30
# needs: opentelemetry-sdk==1.45.2 opentelemetry-exporter-otlp-proto-http==1.45.2
"""Pydantic AI under OpenInference's span processor: a session with a delegate, and streaming without a session."""

from __future__ import annotations

from openinference.instrumentation.pydantic_ai import OpenInferenceSpanProcessor
from pydantic_ai import Agent, InstrumentationSettings, ModelRetry
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from tools.capture_generators.oi_play import KEY, Plan, delegated, record, wait
from tools.capture_generators.story import (
    AGENT,
    INSTRUCTIONS,
    REFUND_INSTRUCTIONS,
    REFUND_TOOLS,
    REFUNDS,
    STORY,
    TOOLS,
)
from tools.capture_generators.tools import seats_left

_DELEGATED = delegated(REFUNDS, lambda task: {"request": task}, result="B-17 is paid back: 49.9 euros.")


def main() -> None:
    """Record the captures."""
    record(
        Plan("openinference-pydantic-ai-delegation", _instrument, _in_session, (*STORY, _DELEGATED)),
        framework="pydantic-ai",
    )
    record(
        Plan("openinference-pydantic-ai-stream-bare", _instrument, _streaming),
        framework="pydantic-ai",
        id_in_telemetry=False,
    )


def _instrument(spans, _records):
    # It rewrites spans as they end: it must come before the exporting processor.
    processors = spans._active_span_processor
    processors._span_processors = (OpenInferenceSpanProcessor(), *processors._span_processors)
    Agent.instrument_all(InstrumentationSettings(tracer_provider=spans))


def _agent(url, **options):
    model = OpenAIChatModel("scripted-1", provider=OpenAIProvider(base_url=url, api_key=KEY))
    agent = Agent(model, name=AGENT, instructions=INSTRUCTIONS, **options)
    for function in TOOLS:
        if function is not seats_left:
            agent.tool_plain(function)

    @agent.tool_plain(name="seats_left", retries=3)
    def seats(train: str, coach: int) -> int:
        """Count the free seats in a coach of a train."""
        try:
            return seats_left(train, coach)
        except ValueError as error:
            raise ModelRetry(str(error)) from error

    return agent


def _in_session(url):
    agent, histories = _agent(url), {}
    member = Agent(agent.model, name=REFUNDS, instructions=REFUND_INSTRUCTIONS, tools=list(REFUND_TOOLS))

    @agent.tool_plain
    async def refunds(request: str) -> str:
        """Ask the agent that pays bookings back."""
        return (await member.run(request)).output

    def say(conversation, query):
        history = histories.get(conversation.id)
        result = wait(agent.run(query, message_history=history, conversation_id=conversation.id))
        histories[conversation.id] = result.all_messages()
        return result.output

    return say


def _streaming(url):
    agent, histories = _agent(url), {}

    async def ask(conversation, query):
        async with agent.run_stream(query, message_history=histories.get(conversation.id)) as result:
            text = "".join([part async for part in result.stream_text(delta=True)])
        histories[conversation.id] = result.all_messages()
        return text

    return lambda conversation, query: wait(ask(conversation, query))


if __name__ == "__main__":
    main()
