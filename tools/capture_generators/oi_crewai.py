# mypy: ignore-errors
# The framework is not installed where the types are checked.
# needs: crewai==1.15.30 openai==2.54.0 openinference-instrumentation-crewai==1.1.21
# needs: openinference-instrumentation-openai==0.1.66 opentelemetry-sdk==1.45.2
# needs: opentelemetry-exporter-otlp-proto-http==1.45.2
"""CrewAI under OpenInference: crews in a session with model spans, and crews alone with one trace a conversation."""

from __future__ import annotations

import os

os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"
os.environ["CREWAI_TRACING_ENABLED"] = "false"
os.environ["OTEL_SDK_DISABLED"] = "false"

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool

from tools.capture_generators.oi_play import KEY, Plan, in_session, instrumented, record
from tools.capture_generators.story import AGENT, INSTRUCTIONS, TOOLS


def main() -> None:
    """Record the captures."""
    crews = instrumented("openinference.instrumentation.crewai:CrewAIInstrumentor")
    with_model = instrumented(
        "openinference.instrumentation.crewai:CrewAIInstrumentor",
        "openinference.instrumentation.openai:OpenAIInstrumentor",
    )
    record(Plan("openinference-crewai-session", with_model, in_session(alone), count=True), framework="crewai")
    record(
        Plan(
            "openinference-crewai-onetrace",
            crews,
            alone,
            around=lambda tracer, _: tracer.start_as_current_span("desk shift"),
            count=True,
        ),
        framework="crewai",
        id_in_telemetry=False,
    )


def alone(url):
    """Return a speaker over a crew of one whose task quotes the conversation so far."""
    histories = {}

    def say(conversation, query):
        history = histories.setdefault(conversation.id, [])
        crew = _crew(url)
        answer = crew.kickoff(inputs={"question": query, "history": "\n".join(history) or "nothing yet"}).raw
        history.extend((f"User: {query}", f"Agent: {answer}"))
        return answer

    return say


def _crew(url):
    model = LLM(model="openai/scripted-1", base_url=url, api_key=KEY)
    tools = [tool(function.__name__)(function) for function in TOOLS]
    agent = Agent(role=AGENT, goal=INSTRUCTIONS, backstory="You know every train.", llm=model, tools=tools)
    task = Task(description="So far: {history}\nNow: {question}", expected_output="An answer.", agent=agent)
    return Crew(agents=[agent], tasks=[task], name="desk")


if __name__ == "__main__":
    main()
