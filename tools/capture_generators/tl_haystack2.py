# mypy: ignore-errors
# (the frameworks are installed where captures are made, not here)
# needs: haystack-ai==2.20.0 openai==1.109.1 httpx traceloop-sdk==0.62.4 opentelemetry-instrumentation-haystack==0.62.4
# needs: opentelemetry-sdk==1.45.1 opentelemetry-exporter-otlp-proto-http==1.45.1 httpx
"""Haystack 2 under OpenLLMetry: a pipeline with model spans and a chat id. (Haystack 3 cannot be instrumented by it.)"""

from __future__ import annotations

from tools.capture_generators.oi_haystack import in_pipeline
from tools.capture_generators.oi_play import Plan, record
from tools.capture_generators.tl_play import associated, traceloop


def main() -> None:
    """Record the capture."""
    # The SDK looks for a package of another name and would not start the one for Haystack.
    both = traceloop("OPENAI", also=("opentelemetry.instrumentation.haystack:HaystackInstrumentor",))
    record(Plan("openllmetry-haystack2-chat-id", both, associated(in_pipeline, "chat_id")), framework="haystack")


if __name__ == "__main__":
    main()
