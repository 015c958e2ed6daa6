"""Measure the cost of supporting many conventions: rebuild conversations from mixed spans and from the same number of plain GenAI spans.

The promised ratio is half the speed of plain GenAI. `BENCH_SPANS` sets the number of spans of each kind.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, Final, get_args

from benchmarks.cpu_time import best_s
from otel_agentic.config import ConversationSettings
from otel_agentic.conversations import assemble, link_segments, read_segments
from otel_agentic.dialects import Reader
from otel_agentic.testing import (
    NOON_NS,
    SECOND_NS,
    AgentRunScript,
    GenAIStyle,
    batch,
    scripted_call,
    span,
    speak_genai,
    speak_openinference,
    speak_openllmetry,
    speak_vercel,
)

if TYPE_CHECKING:
    from otel_agentic.spans.model import LogRecord, SpanBatch

    Speaker = Callable[..., SpanBatch]

SPANS: Final = int(os.environ.get("BENCH_SPANS", "100_000"))
#: Number of spans that are rebuilt at once, as in a store.
PORTION: Final = 10_000
ROUNDS: Final = 2
PROMISED_RATIO: Final = 0.5
SETTINGS: Final = ConversationSettings()


def web_request(_: AgentRunScript, *, start_ns: int) -> SpanBatch:
    """Return spans that no dialect recognises, such as those that arrive together with agent spans."""
    root = span("POST /chat", trace=str(start_ns), start_ns=start_ns, attributes={"http.request.method": "POST"})
    return batch(root, span("SELECT", parent=root, start_ns=start_ns, attributes={"db.system.name": "postgresql"}))


PLAIN: Final[tuple[Speaker, ...]] = (speak_genai,)
MIXED: Final[tuple[Speaker, ...]] = (
    *(partial(speak_genai, style=style) for style in get_args(GenAIStyle)),
    speak_openinference,
    partial(speak_openllmetry, form="old"),
    partial(speak_openllmetry, form="new"),
    partial(speak_vercel, version=4),
    partial(speak_vercel, version=6, stream=True),
    partial(speak_vercel, version=7),
    partial(speak_vercel, version="7-legacy"),
    web_request,
)


def main() -> None:
    """Time reading, and reading with rebuilding, on both workloads in alternation; print speeds and their ratio."""
    reader = Reader.from_settings(SETTINGS)
    workloads = {"plain GenAI": spoken(PLAIN), "all conventions": spoken(MIXED)}
    steps: dict[str, Callable[[SpanBatch], object]] = {
        "dialects alone": partial(read, reader),
        "to conversations": partial(rebuild, reader),
    }
    for step, work in steps.items():
        taken_s = timed(workloads, work)
        speed = {name: SPANS / spent_s for name, spent_s in taken_s.items()}
        for name, spans_a_second in speed.items():
            print(f"{step:<18} {name:<18} {spans_a_second:10,.0f} spans/s")
        plain, mixed = speed.values()
        print(f"{step:<18} {'ratio':<18} {mixed / plain:10.2f} (promised: {PROMISED_RATIO})")


def spoken(speakers: Sequence[Speaker]) -> list[SpanBatch]:
    """Return the configured number of spans in portions of whole conversations, written by each convention in alternation."""
    portions: list[SpanBatch] = []
    pending: list[SpanBatch] = []
    done = waiting = 0
    for number, speak in enumerate(cycle(speakers)):
        run = speak(script(number), start_ns=NOON_NS + number * SECOND_NS)
        run = batch(*run.spans[: SPANS - done], *run.logs)
        pending.append(run)
        done, waiting = done + len(run.spans), waiting + len(run.spans)
        if waiting >= PORTION or done >= SPANS:
            portions.append(batch(*pending))
            pending, waiting = [], 0
        if done >= SPANS:
            break
    return portions


def script(number: int) -> AgentRunScript:
    """Return a conversation with three turns, a few calls and a sub-agent: about thirty spans."""
    booker = AgentRunScript(agent_name="booker", conversation_id=None).ask("A table for two")
    booker = booker.calls(scripted_call("book", {"people": 2, "name": f"Zoë {number}"}, result={"id": number})).answers(
        "Booked."
    )
    return (
        AgentRunScript(conversation_id=f"conversation-{number}")
        .ask(f"How is the weather in Zürich and Rome on day {number}?")
        .calls(
            scripted_call("weather", {"city": "Zürich"}, result="18 °C"),
            scripted_call("weather", {"city": "Rome"}, result="24 °C"),
        )
        .answers("18 °C and 24 °C.")
        .ask("Book a table in Rome.")
        .calls(scripted_call("ask_booker", {"request": "A table for two"}, result="Booked.", agent=booker))
        .calls(scripted_call("taxi", {"to": "Rome"}, error="ValueError: no taxi"))
        .answers("You have a table, but no taxi.")
        .ask("Thanks!")
        .answers("You are welcome.")
    )


def read(reader: Reader, portion: SpanBatch) -> None:
    """Read each span with its log records."""
    by_span: dict[tuple[str, str], list[LogRecord]] = defaultdict(list)
    for log in portion.logs:
        by_span[log.trace_id, log.span_id].append(log)
    reader.read_all(portion.spans, by_span)


def rebuild(reader: Reader, portion: SpanBatch) -> None:
    """Read spans with their log records and rebuild conversations."""
    for linked in link_segments(read_segments(portion.spans, portion.logs, reader), SETTINGS):
        assemble(linked, SETTINGS)


def timed(workloads: dict[str, list[SpanBatch]], work: Callable[[SpanBatch], object]) -> dict[str, float]:
    """Return the minimum CPU time of the work on each workload, in seconds; the workloads alternate."""

    def all_of(portions: list[SpanBatch]) -> None:
        for portion in portions:
            work(portion)

    return best_s({name: partial(all_of, portions) for name, portions in workloads.items()}, ROUNDS)


if __name__ == "__main__":
    main()
