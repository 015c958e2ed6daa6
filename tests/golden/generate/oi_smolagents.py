# mypy: ignore-errors
# The framework is not installed where the types are checked.
# needs: smolagents==1.26.0 openai==3.54.0 openinference-instrumentation-smolagents==0.1.43
# needs: opentelemetry-sdk==1.45.2 opentelemetry-exporter-otlp-proto-http==1.45.2
"""smolagents under OpenInference: an agent in a session with a managed agent, and one that streams without session."""

from __future__ import annotations

from smolagents import OpenAIServerModel, ToolCallingAgent, tool

from tests.golden.generate.oi_play import KEY, Plan, delegated, in_session, instrumented, record
from tests.golden.generate.story import (
    AGENT,
    INSTRUCTIONS,
    REFUND_INSTRUCTIONS,
    REFUND_TOOLS,
    REFUNDS,
    STORY,
    TOOLS,
)

_DELEGATED = delegated(REFUNDS, lambda asked: {"task": asked})


def main() -> None:
    """Record the captures."""
    smol = instrumented("openinference.instrumentation.smolagents:SmolagentsInstrumentor")
    how = {"answer_tool": "final_answer", "count": True}
    record(
        Plan(
            "openinference-smolagents-managed", smol, in_session(_managed, user_id="u-7"), (*STORY, _DELEGATED), **how
        ),
        framework="smolagents",
    )
    record(
        Plan("openinference-smolagents-stream-bare", smol, _streaming, **how),
        framework="smolagents",
        id_in_telemetry=False,
    )


def _agent(url, **options):
    model = OpenAIServerModel("scripted-1", api_base=url, api_key=KEY)
    tools = [tool(function) for function in TOOLS]
    return ToolCallingAgent(tools, model, name=AGENT, instructions=INSTRUCTIONS, verbosity_level=0, **options)


def _managed(url):
    model = OpenAIServerModel("scripted-1", api_base=url, api_key=KEY)
    tools = [tool(function) for function in REFUND_TOOLS]
    settings = {"name": REFUNDS, "description": "Pays bookings back.", "instructions": REFUND_INSTRUCTIONS}
    agents = {}

    def say(conversation, query):
        member = ToolCallingAgent(tools, model, verbosity_level=0, **settings)
        agent = agents.setdefault(conversation.id, _agent(url, managed_agents=[member]))
        return agent.run(query, reset=False)

    return say


def _streaming(url):
    agents = {}

    def say(conversation, query):
        agent = agents.setdefault(conversation.id, _agent(url, stream_outputs=True))
        return list(agent.run(query, stream=True, reset=False))[-1].output

    return say


if __name__ == "__main__":
    main()
