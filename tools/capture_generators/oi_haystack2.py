# needs: haystack-ai==2.20.0 openai==1.109.1 httpx openinference-instrumentation-haystack==0.1.46
# needs: opentelemetry-sdk==1.45.2 opentelemetry-exporter-otlp-proto-http==1.45.2
"""Haystack 2 under OpenInference: its tool calls have a component of their own, which runs a response's calls at once."""

from __future__ import annotations

from tools.capture_generators.oi_haystack import alone, in_pipeline
from tools.capture_generators.oi_play import Plan, in_session, instrumented, record


def main() -> None:
    """Record the captures."""
    haystack = instrumented("openinference.instrumentation.haystack:HaystackInstrumentor")
    record(Plan("openinference-haystack2-session", haystack, in_session(in_pipeline)), framework="haystack")
    record(Plan("openinference-haystack2-bare", haystack, alone), framework="haystack", id_in_telemetry=False)


if __name__ == "__main__":
    main()
