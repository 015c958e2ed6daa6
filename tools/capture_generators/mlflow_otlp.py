"""MLflow tracing exported over OTLP: autolog of LangChain and OpenAI, its own attributes and translated ones."""
# needs: mlflow==3.17.2 langchain==1.4.7 langgraph==1.2.22 langchain-openai==1.7.3 openai==3.54.0
# needs: opentelemetry-exporter-otlp-proto-http==1.45.2
# The framework is not installed where types are checked:
# mypy: ignore-errors

from __future__ import annotations

import os
import sys
import tempfile

from tools.capture_generators.model_server import ModelServer
from tools.capture_generators.openai_loop import answered, ask, ask_streaming, named, opening
from tools.capture_generators.record import recording
from tools.capture_generators.story import AGENT, STORY, TOOLS, expected, interleaved

#: Capture -> how it is made. `translated` is MLflow's GenAI semantic conventions.
_VARIANTS = {
    "mlflow-langgraph": {"graph": True, "remembers": True},
    "mlflow-langgraph-noid": {"graph": True},
    "mlflow-langgraph-semconv": {"graph": True, "remembers": True, "translated": True},
    "mlflow-openai": {"graph": False, "with_id": True},
    "mlflow-openai-noid": {"graph": False},
    # The translation loses the inputs of the functions, and with them the id.
    "mlflow-openai-stream-semconv": {"graph": False, "with_id": True, "translated": True, "streamed": True},
}


def _with_graph(mlflow, url, *, remembers=False):
    from tools.capture_generators.langsmith_agent import Desk  # noqa: PLC0415 - MLflow reads its environment first

    mlflow.langchain.autolog()
    return Desk(url, remembers=remembers).say


def _with_functions(mlflow, url, *, with_id=False, streamed=False):
    from openai import OpenAI  # noqa: PLC0415 - MLflow reads its environment first

    mlflow.openai.autolog()
    client = OpenAI(base_url=url, api_key="none")
    ask_model = ask_streaming if streamed else ask
    tools = named(mlflow.trace(span_type="TOOL")(tool) for tool in TOOLS)
    histories = {}

    def turn(query, messages):
        messages.append({"role": "user", "content": query})
        return answered(messages, lambda known: ask_model(client, known), tools)

    @mlflow.trace(name=AGENT, span_type="AGENT")
    def atlas(query, session_id):
        return turn(query, histories.setdefault(session_id, opening()))

    @mlflow.trace(name=AGENT, span_type="AGENT")
    def nameless(query, messages):
        return turn(query, messages)

    def say(session, query):
        return atlas(query, session) if with_id else nameless(query, histories.setdefault(session, opening()))

    return say


def _switch_on(capture, folder, *, translated):
    """Set what MLflow reads when it is imported, and return it."""
    # The general endpoint would also get metrics, after the receiver has gone.
    del os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"]
    os.environ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] = f"{capture.endpoint}/v1/traces"
    os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{folder}/mlflow.db"
    os.environ["MLFLOW_ENABLE_OTEL_GENAI_SEMCONV"] = str(translated).lower()
    import mlflow  # noqa: PLC0415 - after its environment

    return mlflow


def _record(name):
    variant = dict(_VARIANTS[name])
    graph, translated = variant.pop("graph"), variant.pop("translated", False)
    conversations = STORY
    if graph:
        from tools.capture_generators.langsmith_agent import CONVERSATIONS as conversations  # noqa: PLC0415, N811
    with (
        tempfile.TemporaryDirectory() as folder,
        ModelServer(conversations) as server,
        recording(name, service="travel-desk") as capture,
    ):
        mlflow = _switch_on(capture, folder, translated=translated)
        say = (_with_graph if graph else _with_functions)(mlflow, server.url, **variant)
        for index, turn_index, turn in interleaved(conversations):
            server.now(index, turn_index)
            answer = say(conversations[index].id, turn.query)
            if answer != turn.answer:
                raise ValueError(f"{turn.query!r} was answered by {answer!r}")
        mlflow.tracing.reset()  # sends the spans that are still buffered
        known = variant.get("remembers") or (variant.get("with_id") and not translated)
        capture.truth = expected(conversations, framework=name, **({} if known else {"id_in_telemetry": False}))


def main() -> None:
    """Record the capture that is named on the command line: MLflow is set up once a process."""
    _record(sys.argv[1])


if __name__ == "__main__":
    main()
