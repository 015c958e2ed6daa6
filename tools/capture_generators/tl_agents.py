# mypy: ignore-errors
# (the frameworks are installed where captures are made, not here)
# needs: openai-agents==0.24.0 openai==3.54.0 traceloop-sdk==0.62.4
# needs: opentelemetry-instrumentation-openai-agents==0.62.4
# needs: opentelemetry-sdk==1.45.1 opentelemetry-exporter-otlp-proto-http==1.45.1 httpx
"""OpenAI Agents SDK under OpenLLMetry: a session with a hand-off over chat, and Responses streamed without a session."""

from __future__ import annotations

import os

from tools.capture_generators.oi_agents import chat_with_handoff, streamed
from tools.capture_generators.oi_play import KEY, Plan, instrumented, record
from tools.capture_generators.story import STORY, TRANSFER
from tools.capture_generators.tl_play import associated, traceloop


def main() -> None:
    """Record the captures."""
    os.environ["OPENAI_API_KEY"] = KEY
    sdk = traceloop("OPENAI_AGENTS")
    alone = instrumented("opentelemetry.instrumentation.openai_agents:OpenAIAgentsInstrumentor")
    record(
        Plan("openllmetry-openai-agents-chat-handoff", sdk, associated(chat_with_handoff), (*STORY, TRANSFER)),
        framework="openai-agents",
        # Chat replies are not recorded: an answer is only in the history of the next turn, if there is one.
        not_in_data=["answer_of_last_turn"],
    )
    record(
        Plan("openllmetry-openai-agents-stream-bare", alone, streamed),
        framework="openai-agents",
        id_in_telemetry=False,
    )


if __name__ == "__main__":
    main()
