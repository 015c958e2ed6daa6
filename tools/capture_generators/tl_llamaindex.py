# mypy: ignore-errors
# (the frameworks are installed where captures are made, not here)
# needs: llama-index-core==0.14.25 llama-index-llms-openai-like==0.8.1 openai==2.54.0 traceloop-sdk==0.62.4
# needs: opentelemetry-instrumentation-llamaindex==0.62.4
# needs: opentelemetry-sdk==1.45.1 opentelemetry-exporter-otlp-proto-http==1.45.1 httpx
"""LlamaIndex under OpenLLMetry: streaming agents that hand off with a chat id, an agent without an id."""

from __future__ import annotations

from tools.capture_generators.oi_llamaindex import HANDOFF, alone, handing_off
from tools.capture_generators.oi_play import Plan, instrumented, record
from tools.capture_generators.story import STORY
from tools.capture_generators.tl_play import associated, traceloop


def main() -> None:
    """Record the captures."""
    sdk = traceloop("LLAMA_INDEX", "OPENAI")
    plain = instrumented("opentelemetry.instrumentation.llamaindex:LlamaIndexInstrumentor")
    record(
        Plan("openllmetry-llamaindex-handoff-stream", sdk, associated(handing_off, "chat_id"), (*STORY, HANDOFF)),
        framework="llama-index",
    )
    record(Plan("openllmetry-llamaindex-bare", plain, alone), framework="llama-index", id_in_telemetry=False)


if __name__ == "__main__":
    main()
