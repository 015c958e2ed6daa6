"""LangSmith's export over OpenTelemetry: a LangGraph agent, and decorated functions around the OpenAI client."""
# needs: langsmith[otel]==0.15.0 langchain==1.4.7 langgraph==1.2.22 langchain-openai==1.7.3 openai==3.54.0
# needs: opentelemetry-exporter-otlp-proto-http==1.45.2
# The framework is not installed where types are checked:
# mypy: ignore-errors

from __future__ import annotations

import os
import sys

from langsmith import traceable
from langsmith.wrappers import wrap_openai
from openai import OpenAI

from tools.capture_generators.langsmith_agent import CONVERSATIONS, Desk
from tools.capture_generators.model_server import ModelServer
from tools.capture_generators.openai_loop import answered, ask, ask_streaming, named, opening
from tools.capture_generators.record import recording
from tools.capture_generators.story import AGENT, STORY, TOOLS, expected, interleaved

#: Capture -> how it is made.
_VARIANTS = {
    "langsmith-langgraph": {"graph": True, "remembers": True},
    "langsmith-langgraph-stream-session": {"graph": True, "remembers": False, "streamed": True, "key": "session_id"},
    "langsmith-langgraph-noid": {"graph": True, "remembers": False},
    "langsmith-traceable-openai": {"graph": False, "key": "session_id"},
    "langsmith-traceable-stream": {"graph": False, "streamed": True, "key": "thread_id"},
    "langsmith-traceable-noid": {"graph": False},
}

#: The revision is named so that it is not looked up in the repository.
_SWITCHES = {
    "LANGSMITH_API_KEY": "none",
    "LANGSMITH_OTEL_ENABLED": "true",
    "LANGSMITH_OTEL_ONLY": "true",
    "LANGSMITH_PROJECT": "desk",
    "LANGSMITH_REVISION_ID": "1",
    "LANGSMITH_TRACING": "true",
}


def _with_graph(url, *, remembers, streamed=False, key=None):
    desk = Desk(url, remembers=remembers, streamed=streamed)
    return lambda session, query: desk.say(session, query, metadata={key: session} if key else {})


def _with_functions(url, *, streamed=False, key=None):
    client = wrap_openai(OpenAI(base_url=url, api_key="none"))
    ask_model = ask_streaming if streamed else ask
    tools = named(traceable(run_type="tool")(tool) for tool in TOOLS)
    histories = {}

    @traceable(run_type="chain", name=AGENT)
    def turn(query, history):
        return answered(history, lambda known: ask_model(client, known), tools)

    def say(session, query):
        history = histories.setdefault(session, opening())
        history.append({"role": "user", "content": query})
        return turn(query, history, langsmith_extra={"metadata": {key: session} if key else {}})

    return say


def _record(name):
    variant = dict(_VARIANTS[name])
    speaker = _with_graph if variant.pop("graph") else _with_functions
    conversations = CONVERSATIONS if speaker is _with_graph else STORY
    with ModelServer(conversations) as server, recording(name, service="travel-desk") as capture:
        os.environ.update(_SWITCHES, LANGSMITH_ENDPOINT=capture.endpoint)
        capture.providers()
        say = speaker(server.url, **variant)
        for index, turn_index, turn in interleaved(conversations):
            server.now(index, turn_index)
            answer = say(conversations[index].id, turn.query)
            if answer != turn.answer:
                raise ValueError(f"{turn.query!r} was answered by {answer!r}")
        _flush()
        known = variant.get("remembers") or "key" in variant
        capture.truth = expected(conversations, framework=name, **({} if known else {"id_in_telemetry": False}))


def _flush():
    from langchain_core.tracers.langchain import wait_for_all_tracers  # noqa: PLC0415 - reads the environment

    wait_for_all_tracers()
    from langsmith.run_trees import get_cached_client  # noqa: PLC0415 - the client that the decorators made

    get_cached_client().flush()


def main() -> None:
    """Record the capture that is named on the command line: the client reads its environment once a process."""
    _record(sys.argv[1])


if __name__ == "__main__":
    main()
