"""Laminar, a tracing SDK that the dialects do not name: observed functions around the OpenAI client."""
# needs: lmnr==0.8.2 openai==3.54.0
# The framework is not installed where types are checked:
# mypy: ignore-errors

from __future__ import annotations

import sys

from lmnr import Laminar, observe

from tools.capture_generators.model_server import ModelServer
from tools.capture_generators.openai_loop import answered, ask, ask_streaming, named, opening
from tools.capture_generators.record import recording
from tools.capture_generators.story import AGENT, STORY, TOOLS, expected, interleaved

#: Capture -> whether a session is named, whether it streams.
_VARIANTS = {"generic-laminar": (True, False), "generic-laminar-stream-noid": (False, True)}


def _speaker(url, *, with_id, streamed):
    from openai import OpenAI  # noqa: PLC0415 - after it is instrumented

    client = OpenAI(base_url=url, api_key="none")
    ask_model = ask_streaming if streamed else ask
    tools = named(observe(span_type="TOOL")(tool) for tool in TOOLS)
    histories, spoken = {}, []

    # The id is no argument: an observed function's arguments are recorded.
    @observe(name=AGENT)
    def turn(query):
        if with_id:
            Laminar.set_trace_session_id(spoken[-1])
        history = histories.setdefault(spoken[-1], opening())
        history.append({"role": "user", "content": query})
        return answered(history, lambda known: ask_model(client, known), tools)

    def say(conversation_id, query):
        spoken.append(conversation_id)
        return turn(query)

    return say


def _record(name):
    with_id, streamed = _VARIANTS[name]
    with ModelServer(STORY) as server, recording(name, service="travel-desk") as capture:
        host, port = capture.endpoint.rsplit(":", 1)
        Laminar.initialize(project_api_key="none", base_url=host, http_port=int(port), force_http=True)
        say = _speaker(server.url, with_id=with_id, streamed=streamed)
        for index, turn_index, turn in interleaved(STORY):
            server.now(index, turn_index)
            answer = say(STORY[index].id, turn.query)
            if answer != turn.answer:
                raise ValueError(f"{turn.query!r} was answered by {answer!r}")
        Laminar.shutdown()
        capture.truth = expected(STORY, framework=name, **({} if with_id else {"id_in_telemetry": False}))


def main() -> None:
    """Record the capture that is named on the command line: the SDK is set up once a process."""
    _record(sys.argv[1])


if __name__ == "__main__":
    main()
