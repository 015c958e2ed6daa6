"""Langfuse SDK, releases 3 and 5: its LangChain callback, and observed functions around its OpenAI client."""
# needs: langfuse==5.0.4 langchain==1.4.7 langgraph==1.2.22 langchain-openai==1.7.3 openai==3.54.0
# or:    langfuse==3.15.0 and the same others
# The framework is not installed where types are checked:
# mypy: ignore-errors

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from importlib.metadata import version

from langfuse import Langfuse, get_client, observe
from langfuse.langchain import CallbackHandler
from langfuse.openai import OpenAI

from tools.capture_generators.langsmith_agent import CONVERSATIONS, Desk
from tools.capture_generators.model_server import ModelServer
from tools.capture_generators.openai_loop import answered, ask, ask_streaming, named, opening
from tools.capture_generators.record import recording
from tools.capture_generators.story import AGENT, STORY, TOOLS, expected, interleaved

_RELEASE = int(version("langfuse").split(".")[0])
#: Capture -> how it is made. `session` is how the id is set.
_VARIANTS = {
    3: {
        "langfuse-3-langgraph": {"graph": True, "session": "metadata"},
        "langfuse-3-observe": {"graph": False, "session": "update"},
        "langfuse-3-observe-stream-noid": {"graph": False, "streamed": True},
    },
    5: {
        "langfuse-5-langgraph": {"graph": True, "session": "metadata", "remembers": True},
        "langfuse-5-langgraph-stream-noid": {"graph": True, "streamed": True},
        "langfuse-5-observe": {"graph": False, "session": "propagate"},
        "langfuse-5-observe-stream": {"graph": False, "streamed": True, "session": "propagate"},
    },
}


def _with_graph(url, *, session=None, remembers=False, streamed=False):
    desk = Desk(url, remembers=remembers, streamed=streamed)
    handler = CallbackHandler()

    def say(conversation_id, query):
        metadata = {"langfuse_session_id": conversation_id} if session else {}
        return desk.say(conversation_id, query, callbacks=[handler], metadata=metadata)

    return say


def _propagated(session, conversation_id):
    if session != "propagate":
        return nullcontext()
    from langfuse import propagate_attributes  # noqa: PLC0415 - release 3 began without it

    return propagate_attributes(session_id=conversation_id)


def _with_functions(url, *, session=None, streamed=False):
    client = OpenAI(base_url=url, api_key="none")
    ask_model = ask_streaming if streamed else ask
    tools = named(observe(as_type="tool")(tool) for tool in TOOLS)
    histories, spoken = {}, []

    # The id is no argument: an observed function's arguments are recorded.
    @observe(name=AGENT, as_type="agent")
    def turn(query):
        if session == "update":
            get_client().update_current_trace(session_id=spoken[-1])
        history = histories.setdefault(spoken[-1], opening())
        history.append({"role": "user", "content": query})
        return answered(history, lambda known: ask_model(client, known), tools)

    def say(conversation_id, query):
        with _propagated(session, conversation_id):
            spoken.append(conversation_id)
            return turn(query)

    return say


def _record(name):
    variant = dict(_VARIANTS[_RELEASE][name])
    speaker = _with_graph if variant.pop("graph") else _with_functions
    conversations = CONVERSATIONS if speaker is _with_graph else STORY
    with ModelServer(conversations) as server, recording(name, service="travel-desk") as capture:
        os.environ["LANGFUSE_RELEASE"] = "1"
        host = {"host" if _RELEASE < 5 else "base_url": capture.endpoint}
        client = Langfuse(public_key="pk-none", secret_key="none", flush_at=16, flush_interval=0.4, **host)  # noqa: S106
        say = speaker(server.url, **variant)
        for index, turn_index, turn in interleaved(conversations):
            server.now(index, turn_index)
            answer = say(conversations[index].id, turn.query)
            if answer != turn.answer:
                raise ValueError(f"{turn.query!r} was answered by {answer!r}")
        client.flush()
        known = {} if "session" in variant else {"id_in_telemetry": False}
        capture.truth = expected(conversations, framework=name, **known)
        client.shutdown()


def main() -> None:
    """Record the capture that is named on the command line: the client is set up once a process."""
    _record(sys.argv[1])


if __name__ == "__main__":
    main()
