# mypy: ignore-errors
# (the frameworks are installed where captures are made, not here)
# needs: haystack-ai==3.4.0 openai==3.54.0 traceloop-sdk==0.62.4
# needs: opentelemetry-sdk==1.45.1 opentelemetry-exporter-otlp-proto-http==1.45.1 httpx
"""Haystack 3 under OpenLLMetry, which sees its model calls only: in a workflow, and alone with a chat id."""

from __future__ import annotations

from tools.capture_generators.oi_haystack import alone, in_pipeline
from tools.capture_generators.oi_play import Plan, record
from tools.capture_generators.tl_play import associated, in_workflow, traceloop


def main() -> None:
    """Record the captures. A tool result is only text, without a status."""
    model = traceloop("OPENAI")
    notes = {"framework": "haystack", "not_in_data": ["error"]}
    record(Plan("openllmetry-haystack-chat-id", model, associated(in_pipeline, "chat_id")), **notes)
    record(Plan("openllmetry-haystack-workflow-bare", model, in_workflow(alone)), id_in_telemetry=False, **notes)


if __name__ == "__main__":
    main()
