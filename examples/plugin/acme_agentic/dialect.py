"""A dialect: it reads the spans of the Acme framework."""

from otel_agentic.dialects import Table, TableDialect


class Acme(TableDialect):
    """Spans of the Acme framework."""

    name = "acme"
    table = Table(
        marks=("acme.",),  # a span with an attribute that begins like this is ours
        kind=("acme.step",),
        kinds={"run": "agent", "think": "model", "act": "tool"},
        conversation_id=("acme.chat",),
        agent_name=("acme.agent",),
        query=("acme.asked",),
        answer=("acme.answered",),
        tool_name=("acme.tool",),
        arguments=("acme.arguments",),
        result=("acme.result",),
    )
