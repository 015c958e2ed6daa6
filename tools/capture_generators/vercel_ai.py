"""The Vercel AI SDK, releases 4 to 7: run, stream and agent class, with and without a session id.

Needs node 22 or newer for release 7, and here: opentelemetry-proto==1.44.0.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from tools.capture_generators.vercel_node import record_node

_NO_ID: Final = {"id_in_telemetry": False}
#: Capture -> release, how the driver plays, notes for expected.json.
_VARIANTS: Final[dict[str, tuple[int, dict[str, Any], dict[str, Any]]]] = {
    "vercel-4-stream": (4, {"method": "stream", "sessionKey": "sessionId"}, {}),
    "vercel-4-generate-noid": (4, {"method": "generate", "firstAsPrompt": True}, _NO_ID),
    "vercel-5-generate": (5, {"method": "generate", "sessionKey": "threadId", "firstAsPrompt": True}, {}),
    "vercel-5-stream-noid": (5, {"method": "stream", "api": "responses"}, _NO_ID),
    "vercel-6-stream-responses": (6, {"method": "stream", "sessionKey": "sessionId", "api": "responses"}, {}),
    "vercel-6-generate-noid": (6, {"method": "generate"}, _NO_ID),
    "vercel-6-agent": (6, {"method": "agent", "sessionKey": "conversationId", "api": "responses"}, {}),
    "vercel-7-stream": (
        7,
        {
            "method": "stream",
            "integration": "OpenTelemetry",
            "sessionKey": "sessionId",
            "integrationOptions": {"runtimeContext": True, "agentSpanName": "functionId"},
        },
        {},
    ),
    "vercel-7-agent-noid": (7, {"method": "agent", "integration": "OpenTelemetry", "api": "responses"}, _NO_ID),
    "vercel-7-generate-context": (
        7,
        {
            "method": "generate",
            "integration": "OpenTelemetry",
            "sessionKey": "conversationId",
            "integrationOptions": {"runtimeContext": True, "usage": True, "toolChoice": True, "providerMetadata": True},
        },
        {},
    ),
    "vercel-4-stream-server": (4, {"method": "stream", "sessionKey": "sessionId", "around": "request"}, {}),
    "vercel-5-stream-delegation": (5, {"method": "stream", "sessionKey": "sessionId", "delegates": True}, {}),
    "vercel-6-generate-onetrace-noid": (
        6,
        {"method": "generate", "around": "conversation", "delegates": True},
        _NO_ID,
    ),
    "vercel-6-stream-nocontent": (
        6,
        {"method": "stream", "sessionKey": "sessionId", "record": {"recordInputs": False, "recordOutputs": False}},
        {"content_in_telemetry": False},
    ),
    "vercel-6-generate-noinputs": (
        6,
        {"method": "generate", "sessionKey": "sessionId", "record": {"recordInputs": False}},
        {"not_in_data": ["query"]},
    ),
    "vercel-7-enriched-server": (
        7,
        {
            "method": "stream",
            "integration": "OpenTelemetry",
            "sessionKey": "session",
            "enriched": "gen_ai.conversation.id",
            "around": "request",
            "delegates": True,
        },
        {},
    ),
    "vercel-7-nocontent": (
        7,
        {
            "method": "generate",
            "integration": "OpenTelemetry",
            "sessionKey": "sessionId",
            "integrationOptions": {"runtimeContext": True},
            "record": {"recordInputs": False, "recordOutputs": False},
        },
        {"content_in_telemetry": False},
    ),
    "vercel-7-legacy-delegation": (
        7,
        {"method": "generate", "integration": "LegacyOpenTelemetry", "sessionKey": "sessionId", "delegates": True},
        {},
    ),
    "vercel-7-legacy-stream": (
        7,
        {"method": "stream", "integration": "LegacyOpenTelemetry", "sessionKey": "sessionId"},
        {},
    ),
    "vercel-7-legacy-generate-noid": (7, {"method": "generate", "integration": "LegacyOpenTelemetry"}, _NO_ID),
}


def main() -> None:
    """Record the captures that are named on the command line, all of them when none is."""
    for name in sys.argv[1:] or _VARIANTS:
        release, variant, notes = _VARIANTS[name]
        variant_notes = {"release": release, **variant}
        record_node(name, project=f"vercel-{release}", driver="vercel", variant=variant_notes, **notes)


if __name__ == "__main__":
    main()
