# mypy: ignore-errors
# The framework is not installed where the types are checked.
# needs: haystack-ai==3.4.0 openai==3.54.0 openinference-instrumentation-haystack==0.1.46
# needs: opentelemetry-sdk==1.45.2 opentelemetry-exporter-otlp-proto-http==1.45.2
"""Haystack under OpenInference: an agent in a session, and an agent in a pipeline with one trace a conversation."""

from __future__ import annotations

from haystack import Pipeline
from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import create_tool_from_function
from haystack.utils import Secret

from tools.capture_generators.oi_play import KEY, Plan, in_session, instrumented, record
from tools.capture_generators.story import INSTRUCTIONS, TOOLS


def main() -> None:
    """Record the captures."""
    haystack = instrumented("openinference.instrumentation.haystack:HaystackInstrumentor")
    record(Plan("openinference-haystack-session", haystack, in_session(alone)), framework="haystack")
    record(
        Plan("openinference-haystack-pipeline-bare", haystack, in_pipeline), framework="haystack", id_in_telemetry=False
    )
    record(
        Plan(
            "openinference-haystack-onetrace",
            haystack,
            in_pipeline,
            around=lambda tracer, _: tracer.start_as_current_span("websocket /desk"),
        ),
        framework="haystack",
        id_in_telemetry=False,
    )


def agent(url, **options):
    """Return the travel desk's agent."""
    generator = OpenAIChatGenerator(model="scripted-1", api_base_url=url, api_key=Secret.from_token(KEY))
    tools = [create_tool_from_function(tool) for tool in TOOLS]
    return Agent(chat_generator=generator, tools=tools, system_prompt=INSTRUCTIONS, **options)


def alone(url):
    """Return a speaker over the agent itself."""
    desk, histories = agent(url), {}
    # Haystack 2 wants it; 3 does it by itself.
    desk.warm_up()

    def say(conversation, query):
        history = [*histories.get(conversation.id, ()), ChatMessage.from_user(query)]
        result = desk.run(messages=history)
        histories[conversation.id] = without_system(result["messages"])
        return result["last_message"].text

    return say


def in_pipeline(url):
    """Return a speaker over a pipeline with the agent in it."""
    pipeline, histories = Pipeline(), {}
    pipeline.add_component("desk", agent(url))

    def say(conversation, query):
        history = [*histories.get(conversation.id, ()), ChatMessage.from_user(query)]
        result = pipeline.run({"desk": {"messages": history}})["desk"]
        histories[conversation.id] = without_system(result["messages"])
        return result["last_message"].text

    return say


def without_system(messages):
    """Return the messages that a caller keeps: the agent adds its instructions again."""
    return [message for message in messages if message.role != "system"]


if __name__ == "__main__":
    main()
