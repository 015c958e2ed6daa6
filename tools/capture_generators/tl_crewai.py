# mypy: ignore-errors
# (the frameworks are installed where captures are made, not here)
# needs: crewai==1.15.30 openai==2.54.0 traceloop-sdk==0.62.4 opentelemetry-instrumentation-crewai==0.62.4
# needs: opentelemetry-instrumentation-openai==0.62.4
# needs: opentelemetry-sdk==1.45.1 opentelemetry-exporter-otlp-proto-http==1.45.1 httpx
"""CrewAI under OpenLLMetry: crews with model spans and a session, and the same with one trace a conversation."""

from __future__ import annotations

from tools.capture_generators.oi_crewai import alone
from tools.capture_generators.oi_play import Plan, record
from tools.capture_generators.tl_play import associated, traceloop


def main() -> None:
    """Record the captures. A query occurs only inside the text of the task, which quotes the earlier messages."""
    notes = {"framework": "crewai", "not_in_data": ["query"]}
    sdk = traceloop("CREWAI", "OPENAI")
    record(Plan("openllmetry-crewai-session", sdk, associated(alone), count=True), **notes)
    record(
        Plan(
            "openllmetry-crewai-onetrace",
            sdk,
            alone,
            around=lambda tracer, _: tracer.start_as_current_span("desk shift"),
            count=True,
        ),
        id_in_telemetry=False,
        **notes,
    )


if __name__ == "__main__":
    main()
