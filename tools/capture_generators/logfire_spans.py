"""Logfire by hand: spans around turns, instrumented functions, and its instrumentation of the OpenAI client."""
# needs: logfire==5.2.0 openai==3.54.0
# The framework is not installed where types are checked:
# mypy: ignore-errors

from __future__ import annotations

import sys

import logfire
from openai import OpenAI

from tools.capture_generators.model_server import ModelServer
from tools.capture_generators.openai_loop import answered, ask, ask_streaming, named, opening
from tools.capture_generators.record import recording
from tools.capture_generators.story import STORY, TOOLS, expected, interleaved

#: Capture -> version of Logfire's attributes, whether it streams, which attribute has the conversation's id.
_VARIANTS = {
    "logfire-spans": (2, False, "conversation_id"),
    "logfire-spans-v1": (1, False, "thread_id"),
    # The name contains "session": the scrubber replaces the value.
    "logfire-spans-stream-scrubbed": (2, True, "session_id"),
}


def _play(server, client, ask_model, key):
    tools = named(logfire.instrument()(tool) for tool in TOOLS)
    histories = {}
    for index, turn_index, turn in interleaved(server.conversations):
        server.now(index, turn_index)
        messages = histories.setdefault(index, opening())
        messages.append({"role": "user", "content": turn.query})
        with logfire.span("desk turn", query=turn.query, **{key: server.conversations[index].id}) as span:
            answer = answered(messages, lambda known: ask_model(client, known), tools)
            span.set_attribute("answer", answer)
        if answer != turn.answer:
            raise ValueError(f"{turn.query!r} was answered by {answer!r}")


def _record(name):
    version, streamed, key = _VARIANTS[name]
    with ModelServer(STORY) as server, recording(name, service="travel-desk") as capture:
        logfire.configure(
            send_to_logfire=False, console=False, metrics=False, service_name=capture.service, service_version="1"
        )
        client = OpenAI(base_url=server.url, api_key="none")
        logfire.instrument_openai(client, version=version)
        _play(server, client, ask_streaming if streamed else ask, key)
        logfire.shutdown()
        notes = {"id_in_telemetry": False} if key == "session_id" else {}
        capture.truth = expected(STORY, framework=name, **notes)


def main() -> None:
    """Record the capture that is named on the command line: Logfire is set up once a process."""
    _record(sys.argv[1])


if __name__ == "__main__":
    main()
