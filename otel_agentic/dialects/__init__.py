"""Dialects: read the spans of all frameworks into `AgentEvent` objects."""

from otel_agentic.dialects.base import Dialect, Reader, Reading, Table, TableDialect
from otel_agentic.dialects.events import (
    AgentEvent,
    AgentRun,
    CallRequest,
    CallResult,
    Header,
    Ignored,
    Message,
    ModelCall,
    Plan,
    Redacted,
    Text,
    ToolCall,
)

__all__ = [
    "AgentEvent",
    "AgentRun",
    "CallRequest",
    "CallResult",
    "Dialect",
    "Header",
    "Ignored",
    "Message",
    "ModelCall",
    "Plan",
    "Reader",
    "Reading",
    "Redacted",
    "Table",
    "TableDialect",
    "Text",
    "ToolCall",
]
