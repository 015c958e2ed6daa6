"""Data about judges in the store: the cache of their verdicts, their budget, calibrations, and human verdicts."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.judges.asking_judge import Cost, Limits
from otel_agentic.judges.base import JudgeFailure, Question, ReplyKind, Verdict, metric_of
from otel_agentic.store.annotations import add_annotations, current_annotations, new_annotation_id, retract
from otel_agentic.store.conversations import conversations_named
from otel_agentic.store.table import (
    Key,
    Row,
    Table,
    columns_of,
    fields_of,
    from_row,
    key_columns,
    parse_json,
    rows,
    rows_with,
)
from otel_agentic.truth.annotations import ANSWER, CORRECT, Annotation
from otel_agentic.windows.model import parse_width

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from otel_agentic.config import JudgeSettings
    from otel_agentic.judges.calibration import Calibration, Labelled
    from otel_agentic.stats.model import Estimate
    from otel_agentic.store.store import Store

#: The use of a cached verdict is recorded if the last record is older than this, ns.
_USED_NS: Final = 24 * 3600 * 1_000_000_000
#: How long verdicts are collected before they are written together, seconds. It is short, because verdicts lost with a
#: killed process must be requested again; a commit takes a few milliseconds.
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
_CHOSEN: Final = """
    ($judge IS NULL OR judge = $judge) AND ($before IS NULL OR judged_at < make_timestamp_ns($before))
    AND ($since IS NULL OR judged_at >= make_timestamp_ns($since))
"""
_COUNT: Final = f"SELECT count(*) FROM judge_calls WHERE cleared IS NOT TRUE AND {_CHOSEN}"  # noqa: S608 — a constant of our own
_FORGET: Final = f"UPDATE judge_calls SET cleared = true, reasoning = NULL, texts = NULL WHERE {_CHOSEN}"  # noqa: S608 — same
_DROP: Final = "DELETE FROM judge_calls WHERE cleared AND judged_at < make_timestamp_ns($counted_from)"
#: The last use of a verdict, which determines its age for retention.
_USED: Final = """
UPDATE judge_calls SET used_at = make_timestamp_ns($now)
WHERE content_hash IN (SELECT content_hash FROM requested) AND error IS NULL
"""
#: Models named by the spans of some conversations.
_MODELS: Final = """
SELECT DISTINCT model FROM spans
SEMI JOIN (SELECT trace_id FROM trace_links SEMI JOIN requested USING (environment, conversation_id)) USING (trace_id)
WHERE model IS NOT NULL
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """The answer of a judge to a question, and its time."""

    key: str
    verdict: Verdict | JudgeFailure
    question: Question
    at_ns: int

    @property
    def score(self) -> float | None:
        """The score; None for a failure, and if a label or texts were requested, because 0 would be a bad score."""
        return self.verdict.score if isinstance(self.verdict, Verdict) and self._asks_for("score") else None

    @property
    def label(self) -> str | None:
        """The label, or None if none was requested."""
        return self.verdict.label if isinstance(self.verdict, Verdict) and self._asks_for("label") else None

    @property
    def texts(self) -> list[str] | None:
        """The texts, or None if none were requested."""
        return list(self.verdict.texts) if isinstance(self.verdict, Verdict) and self._asks_for("texts") else None

    def _asks_for(self, kind: ReplyKind) -> bool:
        return kind == ("score" if self.question.rubric is None else self.question.rubric.form.kind)


class DuckDbJudgeCache:
    """The verdicts of one judge in the store; a `JudgeCache`. Thread-safe. Close it before the store."""

    def __init__(self, store: Store, judge: str, version: str, *, reads: bool = True, prefix: str = "") -> None:
        """Start the writing thread.

        Args:
            store: the store of the verdicts.
            judge: name of the judge, stored with each verdict.
            version: version of the judge, stored with each verdict.
            reads: False to ignore earlier verdicts; new verdicts are stored nevertheless.
            prefix: the start of all stored keys; verdicts with a prefix count for the budget, but no score uses them.
        """
        self._store = store
        self._judge = judge
        self._version = version
        self._reads = reads
        self._prefix = prefix
        self._lock = threading.Lock()
        self._gathered: list[_Answer] = []
        self._written: Future[None] | None = None
        self._error: BaseException | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="otel-agentic-verdicts")

    def get(self, keys: Sequence[str]) -> dict[str, Verdict]:
        """Return the stored verdicts by key, marked as cached."""
        if not self._reads:
            return {}
        with self._store.read() as con:
            cached = _cached_verdicts(con, keys)
        now_ns = self._store.clock()
        stale = [key for key, (_, used_ns) in cached.items() if now_ns - used_ns > _USED_NS]
        if stale:
            self._store.write(lambda con: note_used(con, stale, now_ns))
        return {key: verdict for key, (verdict, _) in cached.items()}

    def put(self, key: str, verdict: Verdict | JudgeFailure, question: Question) -> None:
        """Record a verdict, or a failure that used model calls, without waiting until it is durable; see `flush`."""
        if verdict.cached if isinstance(verdict, Verdict) else not verdict.tries:
            return
        with self._lock:
            self._gathered.append(
                _Answer(key=self._prefix + key, verdict=verdict, question=question, at_ns=self._store.clock())
            )
            if len(self._gathered) == 1:
                self._written = self._thread.submit(self._write)

    def flush(self) -> None:
        """Wait until all earlier calls of `put` are durable.

        Raises:
            StoreError: a verdict could not be written.
        """
        with self._lock:
            written = self._written
        if written is not None:
            written.result()  # writes are sequential, so all earlier ones are finished, too
        error, self._error = self._error, None
        if error is not None:
            raise error

    def close(self) -> None:
        """Write all collected verdicts and stop."""
        self._thread.shutdown()

    def _write(self) -> None:
        time.sleep(_GATHERING_S)
        with self._lock:
            answers, self._gathered = self._gathered, []
        try:
            self._store.write(lambda con: _insert(con, answers, self._judge, self._version))
        except Exception as error:  # noqa: BLE001 — raised by the next `flush`
            self._error = error


def known_verdicts(con: DuckDBPyConnection, keys: Sequence[str]) -> dict[str, Verdict]:
    """Return the newest verdict of each key that has one, marked as cached."""
    return {key: verdict for key, (verdict, _) in _cached_verdicts(con, keys).items()}


def _cached_verdicts(con: DuckDBPyConnection, keys: Sequence[str]) -> dict[str, tuple[Verdict, int]]:
    """Return the newest verdict of each key that has one, with the time of its last use or of the answer, ns."""
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
    """Record the use of cached verdicts: retention removes verdicts that were not used for a long time."""
    rows_with(con, {"content_hash": sorted(set(keys))}, _USED, {"now": now_ns}, fetch=False)


def judge_summary(con: DuckDBPyConnection) -> list[Row]:
    """Return the verdicts, failures and costs of each judge, version and model, the latest first."""
    return rows(con, _SUMMARY, {})


def clear_verdicts(
    con: DuckDBPyConnection,
    *,
    judge: str | None = None,
    since_ns: int | None = None,
    before_ns: int | None = None,
    counted_from_ns: int,
) -> int:
    """Remove verdicts from the cache, with their reasoning; return how many.

    Calls that count for the budget are remaining until its window has passed: clearing the cache frees no budget.

    Args:
        con: a connection in a transaction.
        judge: only verdicts of this judge; None for all judges.
        since_ns: only verdicts from this time on; None for any time.
        before_ns: only verdicts from before this time; None for any time.
        counted_from_ns: start of the budget window.
    """
    parameters = {"judge": judge, "since": since_ns, "before": before_ns}
    count = int(con.execute(_COUNT, parameters).fetchall()[0][0])
    con.execute(_FORGET, parameters)
    con.execute(_DROP, {"counted_from": counted_from_ns})
    return count


def models_of(con: DuckDBPyConnection, keys: Iterable[Key]) -> set[str]:
    """Return the names of the models in the spans of some conversations."""
    return {model for (model,) in rows_with(con, key_columns(keys), _MODELS)}


def _insert(con: DuckDBPyConnection, answers: Sequence[_Answer], judge: str, version: str) -> None:
    verdicts = [answer.verdict for answer in answers]
    Table(con, "judge_calls").insert(
        con,
        {
            **fields_of(verdicts, "model", "tries", "latency_s", "input_tokens", "output_tokens", "cost_usd"),
            **fields_of(answers, "score", "label", "texts"),
            "content_hash": [answer.key for answer in answers],
            "metric": [metric_of(answer.question) for answer in answers],
            "judge": [judge] * len(answers),
            "judge_version": [version] * len(answers),
            "unsure": [True if isinstance(verdict, Verdict) and verdict.unsure else None for verdict in verdicts],
            "reasoning": [verdict.reasoning if isinstance(verdict, Verdict) else None for verdict in verdicts],
            "error": [None if isinstance(verdict, Verdict) else verdict.message for verdict in verdicts],
            "judged_at": [answer.at_ns for answer in answers],
        },
    )


#: Number of parts into which the window is divided: a window of a million calls needs only this many sums.
_PARTS: Final = 1000
_SPENT: Final = """
SELECT
    max(epoch_ns(judged_at)) AS at_ns, sum(tries)::BIGINT,
    sum(coalesce(input_tokens, 0) + coalesce(output_tokens, 0))::BIGINT, sum(coalesce(cost_usd, 0))::DOUBLE
FROM judge_calls
WHERE judged_at > make_timestamp_ns($since)
GROUP BY epoch_ns(judged_at) // $part
ORDER BY at_ns
"""


class DuckDbBudget:
    """The budget of all judges on one store; a `Budget`. Thread-safe.

    Spending is counted from the stored calls, so a restart does not begin a new window. The window always ends now:
    spending older than its width no longer counts. Calls in progress are not included: callers of `allows` add them.
    """

    def __init__(self, store: Store, settings: JudgeSettings, clock: Callable[[], int] | None = None) -> None:
        """Start with the spending recorded in the store.

        Args:
            store: the opened store; no other process can spend while it is open.
            settings: the limits and the window.
            clock: returns the current time, ns since the epoch; None means the store's clock.

        Raises:
            ConfigError: the window is not a valid width.
        """
        self._store = store
        self._settings = settings
        self._clock = clock or store.clock
        self.width_ns: Final = parse_width(settings.budget_window)
        self._part_ns: Final = max(1, self.width_ns // _PARTS)
        self._limits: Final = Limits(settings)
        self._lock = threading.Lock()
        self._spent: deque[tuple[int, Cost]] | None = None
        self._sum = Cost()
        self._reached: str | None = None

    def allows(self, *, calls: int, tokens: int) -> bool:
        """Return whether this many more model calls and tokens may be spent."""
        with self._lock:
            spent = self._in_window()
        reached = self._limits.reached(spent, calls=calls, tokens=tokens)
        self._reached = reached or self._reached
        return reached is None

    def spend(self, verdict: Verdict | JudgeFailure) -> None:
        """Count the cost of a verdict or a failure."""
        cost = Cost.of(verdict)
        with self._lock:
            self._in_window()
            if cost.calls or cost.tokens:
                self._remember(self._clock(), cost)

    @property
    def limits(self) -> Mapping[str, float | None]:
        """The limits by the name of their setting, None for those that are not set."""
        return self._limits.values

    @property
    def used_up(self) -> str | None:
        """A message that names the limit that was reached, or None."""
        window = self._settings.budget_window
        return None if self._reached is None else f"the budget of {window} is used up ({self._reached})"

    def spent(self) -> Cost:
        """Return the spending in the window that ends now."""
        with self._lock:
            return self._in_window()

    def _in_window(self) -> Cost:
        """Return the sum of the window, after removing expired spending."""
        since_ns = self._clock() - self.width_ns
        if self._spent is None:
            self._read(since_ns)
        assert self._spent is not None  # noqa: S101 — just read
        while self._spent and self._spent[0][0] <= since_ns:
            self._sum -= self._spent.popleft()[1]
        return self._sum if self._spent else Cost()

    def _read(self, since_ns: int) -> None:
        self._spent = deque()
        with self._store.read() as con:
            rows = con.execute(_SPENT, {"since": since_ns, "part": self._part_ns}).fetchall()
        for at_ns, calls, tokens, cost_usd in rows:
            self._remember(at_ns, Cost(calls=calls, tokens=tokens, cost_usd=cost_usd))

    def _remember(self, at_ns: int, cost: Cost) -> None:
        """Add a cost to the window; costs at nearly the same time share one entry, which expires with the last one."""
        assert self._spent is not None  # noqa: S101 — read before anything is added
        self._sum = self._sum + cost if self._spent else cost
        if self._spent and self._spent[-1][0] // self._part_ns == at_ns // self._part_ns:
            cost += self._spent.pop()[1]
        self._spent.append((at_ns, cost))


_LOCATIONS: Final = """
SELECT conversation_id, environment, revision, turn_count, closed_by IS NOT NULL
FROM conversations
SEMI JOIN requested USING (environment, conversation_id)
WHERE NOT superseded
"""
_NEWEST: Final = """
SELECT * FROM judge_calibrations
WHERE metric IS NULL
QUALIFY row_number() OVER (PARTITION BY judge, judge_version, target ORDER BY calibrated_at DESC) = 1
ORDER BY calibrated_at DESC, target
"""
_RATES: Final = ("agreement", "kappa", "sensitivity", "specificity")
_COUNTS: Final = ("both_pass", "false_pass", "false_fail", "both_fail")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationLocation:
    """A conversation that some name fits: its identity, newest revision and number of turns."""

    conversation_id: str
    environment: str
    revision: int
    turn_count: int
    closed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanVerdict:
    """A human verdict, True for a pass, on a turn (0-based) or a conversation (None) in the store."""

    environment: str
    conversation_id: str
    revision: int
    turn_index: int | None
    verdict: bool
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationRun:
    """The judge and the evaluation that a calibration is about, and its labels.

    `random_sample`: the labelled conversations were declared to be a random sample. `metric`: None for answers and
    outcomes.
    """

    calibration_id: str
    evaluation_id: str
    judge: str
    judge_version: str
    model: str | None
    random_sample: bool
    labels: tuple[str, ...]
    calibrated_ns: int
    metric: str | None = None


def locations_of(con: DuckDBPyConnection, conversation_ids: Iterable[str]) -> dict[str, list[ConversationLocation]]:
    """Return the conversations that some names fit; a name without a conversation is omitted."""
    named = conversations_named(con, conversation_ids)
    stored = locations_with(con, {key for keys in named.values() for key in keys})
    locations = {(location.environment, location.conversation_id): location for location in stored}
    return {name: [locations[key] for key in keys] for name, keys in named.items()}


def locations_with(con: DuckDBPyConnection, keys: Iterable[Key]) -> list[ConversationLocation]:
    """Return the conversations with some identities that the store contains."""
    return [from_row(ConversationLocation, row) for row in rows_with(con, key_columns(keys), _LOCATIONS)]


def save_human_verdicts(
    con: DuckDBPyConnection, verdicts: Sequence[HumanVerdict], files: Sequence[str], *, random_sample: bool, now_ns: int
) -> None:
    """Store the human verdicts of files as annotations; those that a file no longer contains are withdrawn.

    Args:
        con: a connection in a transaction.
        verdicts: all verdicts of the files on stored conversations.
        files: the names of the files.
        random_sample: whether the conversations were declared to be a random sample.
        now_ns: the current time.
    """
    new = [_annotation(verdict, random_sample=random_sample, now_ns=now_ns) for verdict in verdicts]
    stored = [
        annotation
        for annotation in current_annotations(con, decides=False)
        if annotation.source == "file" and annotation.annotator in files
    ]
    remaining = {_content(annotation) for annotation in new}
    known = {_content(annotation) for annotation in stored}
    retract(con, [annotation for annotation in stored if _content(annotation) not in remaining], now_ns)
    add_annotations(con, [annotation for annotation in new if _content(annotation) not in known])


def _annotation(verdict: HumanVerdict, *, random_sample: bool, now_ns: int) -> Annotation:
    return Annotation(
        annotation_id=new_annotation_id(),
        annotator=verdict.source.rpartition(":")[0],
        source="file",
        environment=verdict.environment,
        conversation_id=verdict.conversation_id,
        revision=verdict.revision,
        turn_index=verdict.turn_index,
        name=CORRECT if verdict.turn_index is None else ANSWER,
        verdict="pass" if verdict.verdict else "fail",
        random_sample=random_sample,
        origin=verdict.source,
        annotated_ns=now_ns,
    )


def _content(annotation: Annotation) -> tuple[Any, ...]:
    """Return the content of an annotation of a file, without its id and time."""
    return (
        annotation.target,
        annotation.annotator,
        annotation.revision,
        annotation.verdict,
        annotation.random_sample,
        annotation.origin,
    )


def save_calibration(
    con: DuckDBPyConnection, run: CalibrationRun, calibrations: Sequence[Calibration], labelled: Sequence[Labelled]
) -> None:
    """Write a calibration: one row for each target, and the compared verdicts."""
    Table(con, "judge_calibrations").insert(con, columns_of([_row(run, calibration) for calibration in calibrations]))
    Table(con, "calibration_verdicts").insert(con, columns_of([_verdict_row(run, pair) for pair in labelled]))


def newest_calibrations(con: DuckDBPyConnection) -> list[Row]:
    """Return the newest calibration of each judge and version on answers and on outcomes, the latest first."""
    calibrations = rows(con, _NEWEST, {})
    for row in calibrations:
        row["curve"], row["not_judged"] = parse_json(row["curve"]), parse_json(row["not_judged"])
    return calibrations


def _row(run: CalibrationRun, calibration: Calibration) -> dict[str, Any]:
    agreement = calibration.agreement
    row = {
        **_shared(run),
        "target": calibration.target,
        "n": int(agreement.confusion.n),
        "judged": sum(
            int(decider.agreement.confusion.n) for decider in calibration.deciders if decider.judge is not None
        ),
        **{name: int(getattr(agreement.confusion, name)) for name in _COUNTS},
        "interval_method": agreement.interval_method,
        "level": agreement.level,
        "threshold": calibration.threshold,
        "best_threshold": calibration.best.threshold if calibration.best else None,
        "curve": [asdict(point) for point in calibration.curve],
        "not_judged": dict(calibration.not_judged),
        "random_sample": run.random_sample,
        "labels": list(run.labels),
        "calibrated_at": run.calibrated_ns,
    }
    for name in _RATES:
        rate: Estimate = getattr(agreement, name)
        row |= {name: rate.value, f"{name}_lower": rate.lower, f"{name}_upper": rate.upper}
    return row


def _shared(run: CalibrationRun) -> dict[str, Any]:
    names = ("calibration_id", "evaluation_id", "judge", "judge_version", "model", "metric")
    return {name: getattr(run, name) for name in names}


def _verdict_row(run: CalibrationRun, labelled: Labelled) -> dict[str, Any]:
    names = ("environment", "conversation_id", "revision", "turn_index", "position", "dataset", "case_id", "human")
    return {
        "calibration_id": run.calibration_id,
        "metric": run.metric,
        **{name: getattr(labelled, name) for name in names},
        "judge_outcome": labelled.outcome,
        "judge_reason": labelled.reason,
        "judge_score": labelled.score,
        "judged": labelled.judge is not None,
        "random_sample": run.random_sample,
    }


#: The newest calibration on conversations of each judge and version; a random sample takes precedence.
_SAMPLES: Final = """
WITH newest AS (
    SELECT judge, judge_version, calibration_id, random_sample
    FROM judge_calibrations
    WHERE target = 'conversation' AND metric IS NULL
    QUALIFY row_number() OVER (
        PARTITION BY judge, judge_version ORDER BY random_sample DESC, calibrated_at DESC, calibration_id
    ) = 1
)
SELECT n.judge, n.judge_version, n.random_sample, v.environment, v.conversation_id, v.revision, v.human
FROM newest n
JOIN calibration_verdicts v USING (calibration_id)
WHERE v.turn_index IS NULL AND v.metric IS NULL AND v.random_sample = n.random_sample
ORDER BY n.judge, n.judge_version, v.environment, v.conversation_id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanSample:
    """Conversations labelled by people for the calibration of a judge's version.

    `random_sample`: the conversations were declared to be a random sample. `verdicts`: the labelled revision of each,
    and True for a pass.
    """

    random_sample: bool
    verdicts: Mapping[Key, tuple[int, bool]]


def human_samples(con: DuckDBPyConnection) -> dict[tuple[str, str], HumanSample]:
    """Return the labelled conversations by judge and version; a judge that was never calibrated is omitted."""
    samples: dict[tuple[str, str], tuple[bool, dict[Key, tuple[int, bool]]]] = {}
    for judge, version, random_sample, environment, conversation_id, revision, human in con.execute(
        _SAMPLES
    ).fetchall():
        samples.setdefault((judge, version), (random_sample, {}))[1][(environment, conversation_id)] = (revision, human)
    return {
        judge_version: HumanSample(random_sample=random_sample, verdicts=verdicts)
        for judge_version, (random_sample, verdicts) in samples.items()
    }
