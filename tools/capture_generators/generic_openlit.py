"""OpenLIT, an instrumentation library that the dialects do not name: the OpenAI client, and LangGraph."""
# needs: openlit==1.45.0 openai==2.54.0 langchain==1.4.7 langgraph==1.2.22 langchain-openai==1.7.3
# The framework is not installed where types are checked:
# mypy: ignore-errors

from __future__ import annotations

import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

import openlit
from opentelemetry import trace

from tools.capture_generators.model_server import ModelServer
from tools.capture_generators.openai_loop import answered, ask, ask_streaming, named, opening
from tools.capture_generators.record import recording
from tools.capture_generators.story import AGENT, STORY, TOOLS, expected, interleaved

#: Capture -> how it is made.
_VARIANTS = {
    "generic-openlit-langgraph": {"graph": True, "remembers": True},
    "generic-openlit-langgraph-stream-noid": {"graph": True, "streamed": True},
    "generic-openlit-openai": {"graph": False, "key": "session.id"},
    "generic-openlit-openai-stream-noid": {"graph": False, "streamed": True},
}


def _with_graph(url, *, remembers=False, streamed=False):
    from tools.capture_generators.langsmith_agent import Desk  # noqa: PLC0415 - after it is instrumented

    return Desk(url, remembers=remembers, streamed=streamed).say


def _with_functions(url, *, key=None, streamed=False):
    from openai import OpenAI  # noqa: PLC0415 - after it is instrumented

    client = OpenAI(base_url=url, api_key="none")
    ask_model = ask_streaming if streamed else ask
    tools = named(openlit.trace(tool) for tool in TOOLS)
    histories = {}

    def say(session, query):
        history = histories.setdefault(session, opening())
        history.append({"role": "user", "content": query})
        around = openlit.using_attributes({key: session}) if key else nullcontext()
        with around, openlit.start_trace(AGENT) as turn:
            answer = answered(history, lambda known: ask_model(client, known), tools)
            turn.set_result(answer)
        return answer

    return say


def _switch_on(capture, folder):
    """Start OpenLIT; its prices, which it would download, are an empty file."""
    prices = Path(folder) / "prices.json"
    prices.write_text("{}", encoding="utf-8")
    openlit.init(
        service_name=capture.service, otlp_endpoint=capture.endpoint, pricing_json=str(prices), disable_metrics=True
    )


def _record(name):
    variant = dict(_VARIANTS[name])
    graph = variant.pop("graph")
    with (
        tempfile.TemporaryDirectory() as folder,
        ModelServer(STORY) as server,
        recording(name, service="travel-desk", logs=True) as capture,
    ):
        _switch_on(capture, folder)
        say = (_with_graph if graph else _with_functions)(server.url, **variant)
        for index, turn_index, turn in interleaved(STORY):
            server.now(index, turn_index)
            answer = say(STORY[index].id, turn.query)
            if answer != turn.answer:
                raise ValueError(f"{turn.query!r} was answered by {answer!r}")
        trace.get_tracer_provider().shutdown()
        known = {} if variant.get("remembers") or "key" in variant else {"id_in_telemetry": False}
        capture.truth = expected(STORY, framework=name, **known)


def main() -> None:
    """Record the capture that is named on the command line: OpenLIT is set up once a process."""
    _record(sys.argv[1])


if __name__ == "__main__":
    main()
