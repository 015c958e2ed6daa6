"""AgentScope, an agent framework that the dialects do not name, with its tracing middleware."""
# needs: agentscope==2.0.10 openai==3.54.0 opentelemetry-exporter-otlp-proto-http==1.45.2
# The framework is not installed where types are checked:
# mypy: ignore-errors

from __future__ import annotations

import asyncio
import sys

from agentscope.agent import Agent
from agentscope.credential import OpenAICredential
from agentscope.message import UserMsg
from agentscope.middleware import TracingMiddleware
from agentscope.model import OpenAIChatModel
from agentscope.permission import PermissionBehavior, PermissionDecision
from agentscope.state import AgentState
from agentscope.tool import FunctionTool, Toolkit

from tools.capture_generators.model_server import ModelServer
from tools.capture_generators.record import recording
from tools.capture_generators.script import MODEL
from tools.capture_generators.story import AGENT, INSTRUCTIONS, STORY, TOOLS, expected, interleaved

#: Capture -> whether the model's answers are streamed.
_VARIANTS = {"generic-agentscope": False, "generic-agentscope-stream": True}


def _agent(url, session, *, streamed):
    allowed = PermissionDecision(behavior=PermissionBehavior.ALLOW, message="")
    credential = OpenAICredential(api_key="none", base_url=url)
    return Agent(
        name=AGENT,
        system_prompt=INSTRUCTIONS,
        model=OpenAIChatModel(credential, MODEL, stream=streamed),
        toolkit=Toolkit(tools=[FunctionTool(tool, permission=allowed) for tool in TOOLS]),
        middlewares=[TracingMiddleware()],
        state=AgentState(session_id=session),
    )


async def _play(server, *, streamed):
    agents = [_agent(server.url, conversation.id, streamed=streamed) for conversation in STORY]
    for index, turn_index, turn in interleaved(STORY):
        server.now(index, turn_index)
        reply = await agents[index].reply(UserMsg("user", turn.query))
        answer = reply.get_text_content()
        if answer != turn.answer:
            raise ValueError(f"{turn.query!r} was answered by {answer!r}")


def main() -> None:
    """Record the capture that is named on the command line: the provider is set once a process."""
    name = sys.argv[1]
    with ModelServer(STORY) as server, recording(name, service="travel-desk") as capture:
        capture.providers()
        asyncio.run(_play(server, streamed=_VARIANTS[name]))
        capture.truth = expected(STORY, framework=name)


if __name__ == "__main__":
    main()
