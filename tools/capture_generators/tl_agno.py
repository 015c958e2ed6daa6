# mypy: ignore-errors
# (the frameworks are installed where captures are made, not here)
# needs: agno==3.1.10 openai==3.54.0 traceloop-sdk==0.62.4 opentelemetry-instrumentation-agno==0.62.4
# needs: opentelemetry-sdk==1.45.1 opentelemetry-exporter-otlp-proto-http==1.45.1 httpx
"""Agno under OpenLLMetry: an agent, a team, a stream, and agents alone with one trace a conversation."""

from __future__ import annotations

from tools.capture_generators.oi_agno import DELEGATED, streaming, team, with_session
from tools.capture_generators.oi_play import Plan, instrumented, record
from tools.capture_generators.story import STORY
from tools.capture_generators.tl_play import associated, traceloop


def main() -> None:
    """Record the captures."""
    both = traceloop("AGNO", "OPENAI")
    alone = instrumented("opentelemetry.instrumentation.agno:AgnoInstrumentor")
    record(Plan("openllmetry-agno-session", both, associated(with_session)), framework="agno")
    record(Plan("openllmetry-agno-team", both, associated(team), (*STORY, DELEGATED)), framework="agno")
    record(Plan("openllmetry-agno-stream", both, associated(streaming)), framework="agno")
    record(
        Plan(
            "openllmetry-agno-onetrace",
            alone,
            with_session,
            around=lambda tracer, _: tracer.start_as_current_span("POST /desk"),
        ),
        framework="agno",
        id_in_telemetry=False,
    )


if __name__ == "__main__":
    main()
