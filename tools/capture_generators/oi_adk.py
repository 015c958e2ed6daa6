# mypy: ignore-errors
# The framework is not installed where the types are checked.
# needs: google-adk==2.13.0 litellm==1.106.2 mcp openinference-instrumentation-google-adk==1.0.5
# needs: opentelemetry-sdk==1.44.0 opentelemetry-exporter-otlp-proto-http==1.44.0
"""Google ADK under OpenInference: agents that transfer, and a streaming agent with an agent as its tool."""

from __future__ import annotations

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.adk.tools.agent_tool import AgentTool
from google.genai.types import Content, Part

from tools.capture_generators.oi_play import KEY, Plan, delegated, instrumented, record, wait
from tools.capture_generators.story import (
    AGENT,
    INSTRUCTIONS,
    REFUND_INSTRUCTIONS,
    REFUND_TOOLS,
    REFUNDS,
    STORY,
    TOOLS,
    transfer,
)

_TRANSFER = transfer("transfer_to_agent", {"agent_name": REFUNDS})
_DELEGATED = delegated(REFUNDS, lambda task: {"request": task})


def main() -> None:
    """Record the captures."""
    adk = instrumented("openinference.instrumentation.google_adk:GoogleADKInstrumentor")
    record(
        Plan("openinference-adk-transfer", adk, _transferring, (*STORY, _TRANSFER), count=True), framework="google-adk"
    )
    record(Plan("openinference-adk-agenttool-stream", adk, _delegating, (*STORY, _DELEGATED)), framework="google-adk")


def _model(url):
    return LiteLlm("openai/scripted-1", api_base=url, api_key=KEY)


def _say_failed(tool, args, tool_context, error):
    return {"error": str(error)}


def _agents(url, **options):
    settings = {"model": _model(url), "on_tool_error_callback": _say_failed}
    member = LlmAgent(
        name=REFUNDS,
        description="Pays bookings back.",
        instruction=REFUND_INSTRUCTIONS,
        tools=list(REFUND_TOOLS),
        **settings,
    )
    return member, lambda **more: LlmAgent(name=AGENT, instruction=INSTRUCTIONS, **settings, **options, **more)


def _transferring(url):
    member, desk = _agents(url)
    return _speaker(desk(tools=list(TOOLS), sub_agents=[member]), RunConfig())


def _delegating(url):
    member, desk = _agents(url)
    tools = [*TOOLS, AgentTool(member)]
    return _speaker(desk(tools=tools), RunConfig(streaming_mode=StreamingMode.SSE))


def _speaker(agent, config):
    runner = InMemoryRunner(agent, app_name="desk")
    begun = set()

    async def ask(conversation, query):
        ids = {"user_id": "u-7", "session_id": conversation.id}
        if conversation.id not in begun:
            begun.add(conversation.id)
            await runner.session_service.create_session(app_name="desk", **ids)
        message = Content(role="user", parts=[Part(text=query)])
        events = [event async for event in runner.run_async(**ids, new_message=message, run_config=config)]
        final = [event for event in events if event.is_final_response() and event.content and not event.partial]
        return "".join(part.text or "" for part in final[-1].content.parts)

    return lambda conversation, query: wait(ask(conversation, query))


if __name__ == "__main__":
    main()
