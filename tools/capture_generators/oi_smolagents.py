# mypy: ignore-errors
# The framework is not installed where the types are checked.
# needs: smolagents==1.26.0 openai==3.54.0 openinference-instrumentation-smolagents==0.1.43
# needs: opentelemetry-sdk==1.45.2 opentelemetry-exporter-otlp-proto-http==1.45.2
"""smolagents under OpenInference: a managed agent in a session, one that streams without session, two that write code."""

from __future__ import annotations

import smolagents
from smolagents import ChatMessage, CodeAgent, MessageRole, Model, OpenAIServerModel, ToolCallingAgent, tool
from smolagents.monitoring import TokenUsage

from tools.capture_generators.oi_play import KEY, Plan, delegated, in_session, instrumented, record
from tools.capture_generators.story import (
    AGENT,
    INSTRUCTIONS,
    REFUND_INSTRUCTIONS,
    REFUND_TOOLS,
    REFUNDS,
    STORY,
    TOOLS,
)

_DELEGATED = delegated(REFUNDS, lambda task: {"task": task})


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
    record(
        Plan("openinference-smolagents-code", smol, in_session(_coding), **how),
        framework="smolagents, CodeAgent",
    )
    record(
        Plan("openinference-smolagents-planning", smol, in_session(_planning), STORY[:2], **how),
        framework="smolagents, CodeAgent that plans",
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


class ScriptedCoder(Model):
    """A model that writes code: a thought, and the calls of one step as statements; asked for a plan, it writes that."""

    def __init__(self):
        super().__init__(model_id="scripted-1")
        self.steps = iter(())
        self.plan = ""

    def generate(self, messages, stop_sequences=None, **_):  # noqa: ARG002 — the framework's signature
        if "<end_plan>" in (stop_sequences or ()):
            content = self.plan
        else:
            thought, code = next(self.steps)
            content = f"Thought: {thought}\n<code>\n{code}\n</code>"
        usage = TokenUsage(input_tokens=20, output_tokens=5)
        return ChatMessage(role=MessageRole.ASSISTANT, content=content, token_usage=usage)


# The instrumentation wraps the models that the package exports.
smolagents.ScriptedCoder = ScriptedCoder


def _planning(url):
    return _coding(url, planning_interval=10)


def _coding(url, **planning):
    del url
    agents = {}

    def say(conversation, query):
        model = ScriptedCoder()
        options = {"name": AGENT, "instructions": INSTRUCTIONS, "verbosity_level": 0, **planning}
        agent = agents.setdefault(conversation.id, CodeAgent([tool(function) for function in TOOLS], model, **options))
        played = agents.setdefault((conversation.id, "turns"), iter(conversation.turns))
        agent.model.steps = iter([*_code(turn := next(played)), ("I know it.", f"final_answer({turn.answer!r})")])
        agent.model.plan = _plan(turn)
        return agent.run(query, reset=False)

    return say


def _plan(turn):
    """Return facts and a plan in the form that smolagents asks for; it cuts the mark at the end."""
    names = dict.fromkeys(call.name for step in turn.steps for call in step)
    steps = [*(f"Call `{name}`." for name in names), "Give the answer with `final_answer`."]
    plan = "\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1))
    return f"## 1. Facts survey\n### 1.1. Facts given in the task\n- None but the query.\n\n## 2. Plan\n{plan}\n"


def _code(turn):
    """Yield a thought and the code of each step; the first argument goes without its name."""
    for step in turn.steps:
        lines = []
        for call in step:
            (_, first), *named = call.arguments.items()
            arguments = ", ".join([repr(first), *(f"{name}={value!r}" for name, value in named)])
            lines.append(f"found = {call.name}({arguments})\nprint(found)")
        yield "I look it up.", "\n".join(lines)


if __name__ == "__main__":
    main()
