"""Build each `Conversation` from agent events: assign events to conversations, turns and tool calls, in order."""

from otel_agentic.conversations.assemble import EndMark, assemble, assemble_open, closed
from otel_agentic.conversations.link import link, link_segments, read_segments
from otel_agentic.conversations.model import Conversation, ConversationId, ToolCall, Turn, idle_limit_ns, turn_limit_ns
from otel_agentic.conversations.segments import Linked, Segment

__all__ = [
    "Conversation",
    "ConversationId",
    "EndMark",
    "Linked",
    "Segment",
    "ToolCall",
    "Turn",
    "assemble",
    "assemble_open",
    "closed",
    "idle_limit_ns",
    "link",
    "link_segments",
    "read_segments",
    "turn_limit_ns",
]
