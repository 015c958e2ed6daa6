"""For your own tests: builders of spans and conversations, scripted agent runs, and a kit for dialect plug-ins.

    script = AgentRunScript(agent_name="travel").ask("Which hotel?").calls(scripted_call("search", {"q": "hotels"}, result=["Ritz"]))
    batch = speak_genai(script.answers("The Ritz."))

Everything is deterministic: the same arguments give the same ids and times.
"""

from otel_agentic.testing.builders import (
    NOON_NS,
    SECOND_NS,
    AgentRunScript,
    CallOutline,
    Exchange,
    Outline,
    ScriptedCall,
    Step,
    TurnOutline,
    batch,
    conversation,
    event,
    link_to,
    log_record,
    outline,
    scripted_call,
    span,
    tool_call,
    turn,
)
from otel_agentic.testing.conformance import check_dialect
from otel_agentic.testing.conventions import (
    GenAIStyle,
    OpenLLMetryForm,
    speak_genai,
    speak_openinference,
    speak_openllmetry,
)
from otel_agentic.testing.vercel import VercelVersion, speak_vercel

__all__ = [
    "NOON_NS",
    "SECOND_NS",
    "AgentRunScript",
    "CallOutline",
    "Exchange",
    "GenAIStyle",
    "OpenLLMetryForm",
    "Outline",
    "ScriptedCall",
    "Step",
    "TurnOutline",
    "VercelVersion",
    "batch",
    "check_dialect",
    "conversation",
    "event",
    "link_to",
    "log_record",
    "outline",
    "scripted_call",
    "span",
    "speak_genai",
    "speak_openinference",
    "speak_openllmetry",
    "speak_vercel",
    "tool_call",
    "turn",
]
