"""However the spans travel and whenever they arrive, the store holds the same conversations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collectors.files import FileReader
from otel_agentic.config import ReceiveSettings, Settings
from otel_agentic.engine.engine import Engine
from otel_agentic.spans import (
    Limits,
    SpanBatch,
    decode_logs,
    decode_logs_json,
    decode_traces,
    decode_traces_json,
    merge_batches,
)
from otel_agentic.testing import AgentRunScript, batch
from tests.builders import feed, stored_conversations
from tests.conversations.rebuilding import conversations
from tests.conversations.scripts import NAMELESS, SPEAKERS, WORDLESS, scripts
from tests.conversations.wire import json_of, requests_of

if TYPE_CHECKING:
    from random import Random

    from otel_agentic.conversations import Conversation
    from otel_agentic.spans.model import LogRecord, Span

    Item = Span | LogRecord
    Portions = list[list[Item]]
    Way = Callable[[SpanBatch, Path], SpanBatch]
    Arrival = Callable[[list[Item], Random], Portions]

EVERYONE: Final = {**SPEAKERS, **NAMELESS, **WORDLESS}
LIMITS: Final = Limits.from_settings(ReceiveSettings())
_FILES: Final = count()
#: One temporary folder serves all examples of a test: each makes a file of its own.
in_one_folder: Final = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
few: Final = settings(in_one_folder, max_examples=3)
many: Final = settings(in_one_folder, max_examples=20)
runs: Final = scripts(min_turns=1, max_turns=3)
speakers: Final = st.sampled_from(sorted(EVERYONE))
randoms: Final = st.randoms(use_true_random=False)


def by_protobuf(spoken: SpanBatch, folder: Path) -> SpanBatch:
    traces, logs = requests_of(spoken)
    return merge_batches(
        [decode_traces(traces.SerializeToString(), LIMITS), decode_logs(logs.SerializeToString(), LIMITS)]
    )


def by_json(spoken: SpanBatch, folder: Path) -> SpanBatch:
    traces, logs = requests_of(spoken)
    return merge_batches([decode_traces_json(json_of(traces), LIMITS), decode_logs_json(json_of(logs), LIMITS)])


def by_file(spoken: SpanBatch, folder: Path) -> SpanBatch:
    path = folder / f"{next(_FILES)}.jsonl"
    requests = [request for item in items_of(spoken) for request in requests_of(batch(item)) if request.ByteSize()]
    path.write_bytes(b"".join(json_of(request) + b"\n" for request in requests))
    return merge_batches([chunk.batch for chunk in FileReader(LIMITS).read([path])])


def items_of(spoken: SpanBatch) -> list[Item]:
    return [*spoken.spans, *spoken.logs]


each_way: Final = pytest.mark.parametrize("way", [by_protobuf, by_json, by_file])


@each_way
@given(script=runs)
@few
def test_the_transport_changes_nothing(way: Way, tmp_path: Path, script: AgentRunScript) -> None:
    check_transport(way, tmp_path, script)


@pytest.mark.slow
@each_way
@given(script=runs)
@many
def test_the_transport_of_many_runs_changes_nothing(way: Way, tmp_path: Path, script: AgentRunScript) -> None:
    check_transport(way, tmp_path, script)


def check_transport(way: Way, tmp_path: Path, script: AgentRunScript) -> None:
    """Check that the spans of every convention mean the same after transport."""
    for name, speak in EVERYONE.items():
        spoken = speak(script)

        assert (name, conversations(spoken)) == (name, conversations(way(spoken, tmp_path)))


def one_by_one(items: list[Item], random: Random) -> Portions:
    """Every span in a batch of its own, in any order."""
    random.shuffle(items)
    return [[item] for item in items]


def doubled(items: list[Item], random: Random) -> Portions:
    """One in five is sent again."""
    again = [item for item in items if random.random() < 0.2]
    return [[*items, *again[::2]], again]


def children_first(items: list[Item], random: Random) -> Portions:
    """Spans come in the order of their ends, as exporters send them."""
    return [[item] for item in reversed(items)]


def late(items: list[Item], random: Random) -> Portions:
    """Some come when the conversations have long been built."""
    random.shuffle(items)
    cut = random.randint(0, len(items))
    return [items[:cut], items[cut:]]


each_arrival: Final = pytest.mark.parametrize("arrival", [one_by_one, doubled, children_first, late])


@pytest.mark.parametrize("arrival", [doubled, late])  # any order: tests/engine/test_engine_rebuild.py
@given(script=runs, speaker=speakers, random=randoms)
@few
def test_the_arrival_changes_nothing(
    arrival: Arrival, tmp_path: Path, script: AgentRunScript, speaker: str, random: Random
) -> None:
    check_arrival(arrival, tmp_path, script, speaker, random)


@pytest.mark.slow
@each_arrival
@given(script=runs, speaker=speakers, random=randoms)
@many
def test_the_arrival_of_many_runs_changes_nothing(
    arrival: Arrival, tmp_path: Path, script: AgentRunScript, speaker: str, random: Random
) -> None:
    check_arrival(arrival, tmp_path, script, speaker, random)


def check_arrival(arrival: Arrival, tmp_path: Path, script: AgentRunScript, speaker: str, random: Random) -> None:
    """Check that the store has the same conversations, however the spans arrive."""
    spoken = EVERYONE[speaker](script)
    file = {"store": {"db": tmp_path / f"{next(_FILES)}.duckdb"}}

    with Engine(Settings.model_validate(file), create=True) as engine:
        portions = arrival(items_of(spoken), random)
        for portion in portions[:-1]:
            if arrival is late:
                feed(engine, *portion)
            else:
                engine.store.accept(batch(*portion))
        feed(engine, *portions[-1])

        assert (speaker, normalised(conversations(spoken))) == (
            speaker,
            normalised(stored_conversations(engine).values()),
        )


def normalised(result: Iterable[Conversation]) -> list[Conversation]:
    """Return conversations in an order of their own, without how often they were rebuilt and what closed them."""
    plain = [replace(item, revision=1, closed_by=None) for item in result]
    return sorted(plain, key=lambda item: item.key)
