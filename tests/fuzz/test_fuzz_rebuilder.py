"""Partial and invented traces through a store: every one of them is rebuilt, and nothing is recorded as not rebuilt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from otel_agentic.commands.ingest import rebuild_pending
from otel_agentic.config import Settings
from otel_agentic.engine.engine import Engine
from otel_agentic.spans.model import LogRecord, Span, SpanBatch
from otel_agentic.spans.sanitize import Limits, clean_value
from otel_agentic.testing import NOON_NS, SECOND_NS, event, span
from tests.builders import rows
from tests.dialects.hostile import DIALECTS, EVENTS, Tabled, anything, keys_of
from tests.golden.comparing import batches
from tests.shared import SHARED, why_absent
from tests.stores import settings_for

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy


CAPTURES: Final = SHARED / "captures"
FOLDERS: Final = sorted(path.parent for path in CAPTURES.glob("*/expected.json"))
needs_captures = pytest.mark.skipif(why_absent(CAPTURES) is not None, reason=str(why_absent(CAPTURES)))

LIMITS: Final = Limits.from_settings(Settings().receive)
Trace = list["Span"]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine(settings_for(tmp_path / "t.duckdb"), create=True) as opened:
        yield opened


def apart(traces: Iterable[tuple[Trace, Sequence[LogRecord]]], prefix: str) -> SpanBatch:
    """Return traces as one batch, each in an environment of its own, so that none is linked to another."""
    spans: list[Span] = []
    logs: list[LogRecord] = []
    for number, (trace, records) in enumerate(traces):
        name = f"{prefix}{number}"
        resources: dict[int, Any] = {}

        def moved(item: Any, name: str = name, resources: dict[int, Any] = resources) -> Any:
            resource = resources.setdefault(
                id(item.resource),
                replace(item.resource, attributes={**item.resource.attributes, "deployment.environment.name": name}),
            )
            changes = {"trace_id": Random(f"{name} {item.trace_id}").randbytes(16).hex(), "resource": resource}  # noqa: S311 — no secret
            return replace(item, **changes)

        spans += map(moved, trace)
        logs += map(moved, records)
    return SpanBatch(spans=tuple(spans), logs=tuple(logs))


def require_all_rebuilt(engine: Engine, batch: SpanBatch) -> None:
    """Store a batch, rebuild it, and check that nothing in it failed or was passed over."""
    engine.store.accept(batch)
    rebuilt = rebuild_pending(engine, lambda *_: None)
    assert ((), []) == (rebuilt.left_out, rows(engine, "SELECT * FROM not_rebuilt"))
    assert [] == engine.rebuilder.pending()
    unlinked = (
        "SELECT * FROM trace_links l ANTI JOIN conversations c USING (environment, conversation_id) WHERE l.events > 0"
    )
    assert [] == rows(engine, unlinked)


def partial_traces(folder: Path, random: Random, prefixes: int, pairs: int, longest: int) -> Iterator[Any]:
    """Yield some prefixes of a capture's spans, and pairs of spans, each with the log records of its spans."""
    result = batches(folder)
    spans = [item for batch in result for item in batch.spans]
    logs = [log for batch in result for log in batch.logs]
    ends = range(1, min(longest, len(spans)) + 1)
    parts = [spans[:end] for end in random.sample(ends, min(prefixes, len(ends)))]
    parts += map(list, random.sample(list(combinations(spans, 2)), pairs))
    for part in parts:
        retained = {(item.trace_id, item.span_id) for item in part}
        yield part, [log for log in logs if (log.trace_id, log.span_id) in retained]


@pytest.mark.slow  # invented traces: the other test
@needs_captures
def test_some_partial_traces_of_each_capture_are_rebuilt(engine: Engine) -> None:
    random = Random(1)  # noqa: S311 — no secret
    parts = [part for folder in FOLDERS for part in partial_traces(folder, random, prefixes=2, pairs=4, longest=10)]

    require_all_rebuilt(engine, apart(parts, "p"))


@pytest.mark.slow
@needs_captures
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_many_partial_traces_of_a_capture_are_rebuilt(engine: Engine, folder: Path) -> None:
    random = Random(folder.name)  # noqa: S311 — no secret
    parts = partial_traces(folder, random, prefixes=40, pairs=300, longest=1000)

    require_all_rebuilt(engine, apart(parts, "p"))


@st.composite
def invented(draw: DrawFn, dialect: Tabled) -> Trace:
    """Draw a small trace in the scope of a dialect, with attributes that it looks at and parents that may be absent."""
    table = dialect.table
    scope = draw(st.sampled_from((*table.scopes, ""))) if table.scopes else ""
    keys = keys_of(dialect) or ["session.id"]
    kinds = st.sampled_from(sorted(table.kinds)) if table.kinds else anything
    spans: Trace = []
    for number in range(draw(st.integers(1, 4))):
        attributes = draw(st.dictionaries(st.sampled_from(keys), anything, max_size=4))
        attributes |= {key: draw(kinds) for key in table.kind[:1] if draw(st.booleans())}
        attributes |= {"session.id": "s"} if draw(st.booleans()) else {}
        attributes = clean_value(attributes, LIMITS, Counter())  # as the decoders do
        start_ns = NOON_NS + draw(st.integers(0, 3)) * SECOND_NS
        spans.append(
            span(
                f"span {number}",
                span_id=f"{number}",
                parent=draw(st.sampled_from([None, "absent", *(f"{other}" for other in range(number + 1))])),
                start_ns=start_ns,
                end_ns=start_ns + draw(st.integers(0, 2)) * SECOND_NS,
                attributes=attributes,
                events=[event(draw(st.sampled_from(EVENTS)), attributes)] if draw(st.booleans()) else [],
                status=draw(st.integers(0, 2)),
                scope=scope,
            )
        )
    return spans


#: A trace in the scope of each dialect.
EVERY_SCOPE: Final[SearchStrategy[tuple[Trace, ...]]] = st.tuples(*(invented(dialect) for dialect in DIALECTS))
quick = settings(max_examples=5, suppress_health_check=list(HealthCheck), phases=(Phase.generate,))
thorough = settings(max_examples=60, suppress_health_check=list(HealthCheck), phases=(Phase.generate,))


def rebuild_invented(engine: Engine, traces: tuple[Trace, ...]) -> None:
    ((stored,),) = rows(engine, "SELECT count(*) FROM spans")
    require_all_rebuilt(engine, apart([(trace, ()) for trace in traces], f"{stored} "))


@quick
@given(traces=EVERY_SCOPE)
def test_invented_traces_in_every_scope_are_rebuilt(engine: Engine, traces: tuple[Trace, ...]) -> None:
    rebuild_invented(engine, traces)


@pytest.mark.slow
@pytest.mark.timeout(900)
@thorough
@given(traces=EVERY_SCOPE)
def test_many_invented_traces_in_every_scope_are_rebuilt(engine: Engine, traces: tuple[Trace, ...]) -> None:
    rebuild_invented(engine, traces)
