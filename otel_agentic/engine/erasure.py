"""Erasure of a conversation or of everything of a person, in the store, its snapshot and its exported files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import TYPE_CHECKING, Final

from otel_agentic.config import export_folder_of
from otel_agentic.conversations.slices import USER_ATTRIBUTES
from otel_agentic.errors import BadInputError, StoreUnusableError, UsageError
from otel_agentic.results.store import ErasedConversation, Erasures, SourceCase
from otel_agentic.store.maintenance import erasure as tables
from otel_agentic.store.maintenance.erasure import Erasure
from otel_agentic.windows.model import parse_width

if TYPE_CHECKING:
    from otel_agentic.conversations.segments import Segment
    from otel_agentic.engine.engine import Engine
    from otel_agentic.store.connection import Connection
    from otel_agentic.store.maintenance.erasure import Link
    from otel_agentic.store.table import Key

SpanId = tuple[str, str]
_HINT: Final = "`otel-agentic conversations list` lists the conversations"


class Eraser:
    """Erases the rows about a conversation or a person. The caller holds every lock of the engine's loops."""

    def __init__(self, engine: Engine) -> None:
        """Create an eraser; nothing is read yet.

        Args:
            engine: the opened store. The caller holds its `retention_lock`, and nothing rebuilds or scores meanwhile.
        """
        self._engine = engine
        self._folder: Path = export_folder_of(engine.settings).resolve()

    def find(self, *, user: str | None, conversation_id: str | None, environment: str | None) -> Erasure:
        """Return the conversations, traces and spans of a conversation id or of a person.

        A conversation belongs to a person if one of its spans names the person. Spans are matched after redaction, as
        they are stored.

        Raises:
            UsageError: neither or both of user and conversation are given.
            BadInputError: nothing is stored about it.
        """
        if (user is None) == (conversation_id is None):
            raise UsageError("give either --user or --conversation")
        redact = self._engine.store.redacting.value
        with self._engine.store.read() as con:
            if user is not None:
                name = redact(user)
                spans = tables.spans_of_user(con, self._folder, name, USER_ATTRIBUTES, environment)
                keys = self._keys_of_spans(con, spans)
            else:
                name = redact(conversation_id)
                spans = tables.spans_of_conversation(con, self._folder, name, environment)
                keys = tables.keys_named(con, self._folder, name)
            chosen = {key for key in keys if environment is None or key[0] == environment}
            erasure = self._complete(con, chosen, {trace_id for trace_id, _ in spans}, None if user is None else name)
            if not (erasure.keys or erasure.traces or tables.count_rows(con, erasure)):
                subject = f"conversation {conversation_id!r}" if user is None else f"spans of user {user!r}"
                where = "" if environment is None else f" in environment {environment!r}"
                raise BadInputError(f"no {subject}{where} in {self._engine.store.path}; {_HINT}")
        return erasure

    def count(self, erasure: Erasure) -> Erasures:
        """Return the rows to erase."""
        with self._engine.store.read() as con:
            rows = tables.count_rows(con, erasure)
            files = tables.count_exported(con, self._folder, erasure)
            cases = tables.cases_of(con, erasure)
        return _result(erasure, rows=rows, files=files.values(), cases=cases, dry_run=True)

    def erase(self, erasure: Erasure) -> Erasures:
        """Erase; afterwards, search for remaining rows. If this process is killed, run it again.

        Exported files come first: their rows are selected by the content of the tables.

        Raises:
            StoreUnusableError: an exported file cannot be rewritten.
        """
        engine, now_ns = self._engine, self._engine.clock()
        expected = self.count(erasure)
        try:
            with engine.store.connection() as con:
                removed_files = tables.rewrite_exported(con, self._folder, erasure)
        except OSError as error:
            raise StoreUnusableError(
                f"{self._folder}: an exported file cannot be rewritten: {error.strerror}; free space, and run it again"
            ) from error
        counted_from_ns = now_ns - parse_width(engine.settings.judge.budget_window)
        rows, verdicts = engine.store.write(
            lambda con: tables.delete(con, erasure, removed_files, now_ns=now_ns, counted_from_ns=counted_from_ns)
        )
        engine.rebuilder.refresh()
        engine.runner.forget_truth()
        engine.store.snapshots.discard()
        engine.store.reclaim()
        left = self.count(erasure)
        return Erasures(
            dry_run=False,
            conversations=expected.conversations,
            rows=rows,
            files=expected.files,
            file_rows=expected.file_rows,
            cases=expected.cases,
            judge_verdicts=verdicts,
            left=sum(left.rows.values()) + left.file_rows,
        )

    def _keys_of_spans(self, con: Connection, spans: AbstractSet[SpanId]) -> set[Key]:
        """Return the conversations that spans belong to; of a trace with several, those with the spans in their part."""
        links = _by_trace(tables.links_of_traces(con, self._folder, {trace_id for trace_id, _ in spans}))
        shared = {trace_id for trace_id, own in links.items() if len({link.key for link in own}) > 1}
        parts = self._parts(shared)
        return {
            link.key
            for trace_id, own in links.items()
            for link in own
            if trace_id not in parts or not spans.isdisjoint(_spans_of(parts[trace_id], [link]))
        }

    def _complete(
        self, con: Connection, keys: Collection[Key], named_traces: Iterable[str], feedback_of: str | None
    ) -> Erasure:
        """Return the erasure of conversations, and of named traces that are in no conversation yet.

        Of a trace that other conversations have a part in, only the spans of the erased parts are erased, if the store has
        it. A trace that is in exported files only is erased as a whole.
        """
        own_links = tables.links_of_keys(con, self._folder, keys)
        links = _by_trace(tables.links_of_traces(con, self._folder, {link.trace_id for link in own_links}))
        shared = {trace_id for trace_id, own in links.items() if any(link.key not in keys for link in own)}
        parts = self._parts(shared)
        linked = _by_trace(tables.links_of_traces(con, self._folder, named_traces))
        return Erasure(
            keys=frozenset(keys),
            traces=frozenset((links.keys() - parts.keys()) | (set(named_traces) - linked.keys())),
            spans=frozenset(
                span
                for trace_id, segments in parts.items()
                for span in _spans_of(segments, [link for link in links[trace_id] if link.key in keys])
            ),
            feedback_of=feedback_of,
        )

    def _parts(self, traces: Collection[str]) -> dict[str, list[Segment]]:
        """Return the segments of traces that the store has."""
        parts: dict[str, list[Segment]] = defaultdict(list)
        if traces:
            for segment in self._engine.segments.read_to_rebuild(traces).segments:
                parts[segment.trace_id].append(segment)
        return dict(parts)


def _by_trace(links: Iterable[Link]) -> dict[str, list[Link]]:
    by_trace: dict[str, list[Link]] = defaultdict(list)
    for link in links:
        by_trace[link.trace_id].append(link)
    return dict(by_trace)


def _spans_of(segments: Iterable[Segment], links: Iterable[Link]) -> set[SpanId]:
    """Return the spans of the segments that links are about."""
    linked = {(link.environment, link.explicit_id) for link in links}
    return {
        (segment.trace_id, node.span.span_id)
        for segment in segments
        if (segment.environment, segment.explicit_id) in linked
        for node in segment.nodes
    }


def _result(
    erasure: Erasure,
    *,
    rows: dict[str, int],
    files: Collection[int],
    cases: Iterable[tuple[str, str]],
    dry_run: bool,
) -> Erasures:
    return Erasures(
        dry_run=dry_run,
        conversations=[
            ErasedConversation(environment=environment, conversation_id=conversation_id)
            for environment, conversation_id in sorted(erasure.keys)
        ],
        rows=rows,
        files=len(files),
        file_rows=sum(files),
        cases=[SourceCase(dataset=dataset, case_id=case_id) for dataset, case_id in cases],
    )
