"""What judges said, in the store: the cache that no answer is judged twice for."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.judges.base import Verdict, metric_of
from otel_agentic.store.selection import rows
from otel_agentic.store.table import Table, key_columns, rows_with

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duckdb import DuckDBPyConnection

    from otel_agentic.judges.base import JudgeFailure, Question, ReplyKind
    from otel_agentic.store.selection import Row
    from otel_agentic.store.store import Store
    from otel_agentic.store.table import Key

#: That a verdict was taken from the cache is written down when it was not for so long, ns.
_USED_NS: Final = 24 * 3600 * 1_000_000_000
#: How long verdicts gather before they are written together, seconds. What a process that dies had not written is asked
#: again, so this is short; a commit takes a few milliseconds.
_GATHERING_S: Final = 0.02
_KNOWN: Final = """
SELECT
    content_hash, score, reasoning, model, tries, latency_s, input_tokens, output_tokens, cost_usd,
    epoch_ns(coalesce(used_at, judged_at)), label, texts, coalesce(unsure, false)
FROM judge_calls
SEMI JOIN requested USING (content_hash)
WHERE (score IS NOT NULL OR label IS NOT NULL OR texts IS NOT NULL) AND cleared IS NOT TRUE
QUALIFY row_number() OVER (PARTITION BY content_hash ORDER BY judged_at DESC) = 1
"""
_SUMMARY: Final = """
SELECT
    judge, judge_version, model,
    count(DISTINCT content_hash) FILTER (error IS NULL AND cleared IS NOT TRUE) AS verdicts,
    count(*) FILTER (error IS NOT NULL) AS failures,
    sum(tries)::BIGINT AS calls,
    sum(input_tokens)::BIGINT AS input_tokens,
    sum(output_tokens)::BIGINT AS output_tokens,
    sum(cost_usd) AS cost_usd,
    sum(latency_s) / nullif(sum(tries), 0) AS seconds_per_call,
    min(judged_at) AS first_at,
    max(judged_at) AS last_at
FROM judge_calls
GROUP BY judge, judge_version, model
ORDER BY last_at DESC, judge, judge_version, model
"""
_CHOSEN: Final = "($judge IS NULL OR judge = $judge) AND ($before IS NULL OR judged_at < make_timestamp_ns($before))"
_COUNT: Final = f"SELECT count(*) FROM judge_calls WHERE cleared IS NOT TRUE AND {_CHOSEN}"  # noqa: S608 — a constant of our own
_FORGET: Final = f"UPDATE judge_calls SET cleared = true, reasoning = NULL, texts = NULL WHERE {_CHOSEN}"  # noqa: S608 — same
_DROP: Final = "DELETE FROM judge_calls WHERE cleared AND judged_at < make_timestamp_ns($counted_from)"
#: Verdicts that were taken are as young as that: retention goes by it.
_USED: Final = """
UPDATE judge_calls SET used_at = make_timestamp_ns($now)
WHERE content_hash IN (SELECT content_hash FROM requested) AND error IS NULL
"""
#: Models that the spans of some conversations name.
_MODELS: Final = """
SELECT DISTINCT model FROM spans
SEMI JOIN (SELECT trace_id FROM trace_links SEMI JOIN requested USING (environment, conversation_id)) USING (trace_id)
WHERE model IS NOT NULL
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """What a judge said of a question, and when."""

    key: str
    verdict: Verdict | JudgeFailure
    question: Question
    at_ns: int

    @property
    def score(self) -> float | None:
        """The score; None of a failure, and where a label or texts were asked for: 0 would be a bad one."""
        return self.verdict.score if isinstance(self.verdict, Verdict) and self._asks_for("score") else None

    @property
    def label(self) -> str | None:
        """The label, None where none was asked for."""
        return self.verdict.label if isinstance(self.verdict, Verdict) and self._asks_for("label") else None

    @property
    def texts(self) -> list[str] | None:
        """The texts, None where none were asked for."""
        return list(self.verdict.texts) if isinstance(self.verdict, Verdict) and self._asks_for("texts") else None

    def _asks_for(self, kind: ReplyKind) -> bool:
        return kind == ("score" if self.question.rubric is None else self.question.rubric.form.kind)


class DuckDbJudgeCache:
    """The verdicts of one judge in the store; a `JudgeCache`. Thread-safe. Close it before the store."""

    def __init__(self, store: Store, judge: str, version: str, *, reads: bool = True) -> None:
        """Begin.

        Args:
            store: where they are kept.
            judge: the judge's name,
            version: and version, written beside each verdict.
            reads: False to take nothing from earlier evaluations; verdicts are kept all the same.
        """
        self._store = store
        self._judge = judge
        self._version = version
        self._reads = reads
        self._lock = threading.Lock()
        self._gathered: list[_Said] = []
        self._written: Future[None] | None = None
        self._error: BaseException | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="otel-agentic-verdicts")

    def get(self, keys: Sequence[str]) -> dict[str, Verdict]:
        """Return the stored verdicts of those keys that have one, marked as cached."""
        if not self._reads:
            return {}
        with self._store.read() as con:
            found = _known(con, keys)
        now_ns = self._store.clock()
        stale = [key for key, (_, used_ns) in found.items() if now_ns - used_ns > _USED_NS]
        if stale:
            self._store.write(lambda con: note_used(con, stale, now_ns))
        return {key: verdict for key, (verdict, _) in found.items()}

    def put(self, key: str, verdict: Verdict | JudgeFailure, question: Question) -> None:
        """Record a verdict, or a failure that was paid for; returns at once, see `flush`."""
        if not verdict.tries or (isinstance(verdict, Verdict) and verdict.cached):
            return
        with self._lock:
            self._gathered.append(_Said(key=key, verdict=verdict, question=question, at_ns=self._store.clock()))
            if len(self._gathered) == 1:
                self._written = self._thread.submit(self._write)

    def flush(self) -> None:
        """Return when everything put before is durable.

        Raises:
            StoreError: it could not be written.
        """
        with self._lock:
            written = self._written
        if written is not None:
            written.result()  # writes are one after the other: the last one is the last
        error, self._error = self._error, None
        if error is not None:
            raise error

    def close(self) -> None:
        """Write what is gathered and end."""
        self._thread.shutdown()

    def _write(self) -> None:
        time.sleep(_GATHERING_S)
        with self._lock:
            given, self._gathered = self._gathered, []
        try:
            self._store.write(lambda con: _insert(con, given, self._judge, self._version))
        except Exception as error:  # noqa: BLE001 — handed to whoever waits for it in `flush`
            self._error = error


def known_verdicts(con: DuckDBPyConnection, keys: Sequence[str]) -> dict[str, Verdict]:
    """Return the newest verdict of each key that has one, marked as cached."""
    return {key: verdict for key, (verdict, _) in _known(con, keys).items()}


def _known(con: DuckDBPyConnection, keys: Sequence[str]) -> dict[str, tuple[Verdict, int]]:
    """Return the same with when each was last taken, or given, ns."""
    return {
        row[0]: (
            Verdict(
                score=row[1] or 0.0,
                reasoning=row[2] or "",
                model=row[3],
                tries=row[4],
                latency_s=row[5] or 0.0,
                input_tokens=row[6] or 0,
                output_tokens=row[7] or 0,
                cost_usd=row[8],
                cached=True,
                label=row[10],
                texts=tuple(row[11] or ()),
                unsure=row[12],
            ),
            row[9],
        )
        for row in rows_with(con, {"content_hash": sorted(set(keys))}, _KNOWN)
    }


def note_used(con: DuckDBPyConnection, keys: Sequence[str], now_ns: int) -> None:
    """Write down that verdicts were taken from the cache: retention removes those that were not for long."""
    rows_with(con, {"content_hash": sorted(set(keys))}, _USED, {"now": now_ns}, fetch=False)


def judge_summary(con: DuckDBPyConnection) -> list[Row]:
    """Return what each judge, version and model said and cost, the latest first."""
    return rows(con, _SUMMARY, {})


def clear_verdicts(con: DuckDBPyConnection, *, judge: str | None, before_ns: int | None, counted_from_ns: int) -> int:
    """Take verdicts out of the cache, with their reasoning; return how many.

    What the budget counts stays until its window has passed: clearing the cache frees no budget.

    Args:
        con: a connection in a transaction.
        judge: of this judge only,
        before_ns: given before this time only.
        counted_from_ns: where the budget window begins.
    """
    chosen = {"judge": judge, "before": before_ns}
    count = int(con.execute(_COUNT, chosen).fetchall()[0][0])
    con.execute(_FORGET, chosen)
    con.execute(_DROP, {"counted_from": counted_from_ns})
    return count


def models_of(con: DuckDBPyConnection, keys: Iterable[Key]) -> set[str]:
    """Return the models that the spans of some conversations name."""
    return {model for (model,) in rows_with(con, key_columns(keys), _MODELS)}


def _insert(con: DuckDBPyConnection, given: Sequence[_Said], judge: str, version: str) -> None:
    said = [each.verdict for each in given]
    columns: dict[str, list[Any]] = {
        name: [getattr(verdict, name) for verdict in said]
        for name in ("model", "tries", "latency_s", "input_tokens", "output_tokens", "cost_usd")
    }
    Table(con, "judge_calls").insert(
        con,
        {
            **columns,
            "content_hash": [each.key for each in given],
            "metric": [metric_of(each.question) for each in given],
            "judge": [judge] * len(given),
            "judge_version": [version] * len(given),
            "score": [each.score for each in given],
            "label": [each.label for each in given],
            "texts": [each.texts for each in given],
            "unsure": [True if isinstance(verdict, Verdict) and verdict.unsure else None for verdict in said],
            "reasoning": [verdict.reasoning if isinstance(verdict, Verdict) else None for verdict in said],
            "error": [None if isinstance(verdict, Verdict) else verdict.message for verdict in said],
            "judged_at": [each.at_ns for each in given],
        },
    )
