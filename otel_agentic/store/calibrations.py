"""People's verdicts in the store, and the calibrations of judges that were made with them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.store.selection import parsed, rows
from otel_agentic.store.table import Table, rows_with

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duckdb import DuckDBPyConnection

    from otel_agentic.judges.calibration import Calibration, Labelled
    from otel_agentic.stats.model import Estimate
    from otel_agentic.store.selection import Row

_PLACES: Final = """
SELECT conversation_id, environment, revision, turn_count, closed_by IS NOT NULL
FROM conversations
SEMI JOIN requested USING (conversation_id)
WHERE NOT superseded
ORDER BY conversation_id, environment
"""
_FORGET_VERDICTS: Final = """
DELETE FROM human_verdicts h USING requested w
WHERE h.environment = w.environment AND h.conversation_id = w.conversation_id
    AND coalesce(h.turn_index, -1) = w.turn_index
"""
_NEWEST: Final = """
SELECT * FROM judge_calibrations
QUALIFY row_number() OVER (PARTITION BY judge, judge_version, target ORDER BY calibrated_at DESC) = 1
ORDER BY calibrated_at DESC, target
"""
_RATES: Final = ("agreement", "kappa", "sensitivity", "specificity")
_COUNTS: Final = ("both_pass", "false_pass", "false_fail", "both_fail")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a conversation of some id stands: its environment, newest revision and number of turns."""

    environment: str
    revision: int
    turn_count: int
    closed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanVerdict:
    """A person's verdict, True for a pass, on a turn (0-based) or a conversation (None) that is in the store."""

    environment: str
    conversation_id: str
    revision: int
    turn_index: int | None
    verdict: bool
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationRun:
    """What was calibrated, with which labels: what stands beside every number of it.

    `random_sample`: it was said that the labelled conversations are a random sample.
    """

    calibration_id: str
    evaluation_id: str
    judge: str
    judge_version: str
    model: str | None
    random_sample: bool
    labels: tuple[str, ...]
    calibrated_ns: int


def places_of(con: DuckDBPyConnection, conversation_ids: Iterable[str]) -> dict[str, list[Place]]:
    """Return where the conversations of some ids stand; an id that is in no environment is left out."""
    found: dict[str, list[Place]] = {}
    for row in rows_with(con, {"conversation_id": sorted(set(conversation_ids))}, _PLACES):
        place = Place(environment=row[1], revision=row[2], turn_count=row[3], closed=row[4])
        found.setdefault(row[0], []).append(place)
    return found


def save_human_verdicts(
    con: DuckDBPyConnection, verdicts: Sequence[HumanVerdict], *, random_sample: bool, now_ns: int
) -> None:
    """Remember verdicts of people; each replaces an older one on the same turn or conversation."""
    keys: dict[str, list[Any]] = {
        "environment": [verdict.environment for verdict in verdicts],
        "conversation_id": [verdict.conversation_id for verdict in verdicts],
    }
    places = [-1 if verdict.turn_index is None else verdict.turn_index for verdict in verdicts]
    rows_with(con, {**keys, "turn_index": places}, _FORGET_VERDICTS, fetch=False)
    Table(con, "human_verdicts").insert(
        con,
        {
            **keys,
            "revision": [verdict.revision for verdict in verdicts],
            "turn_index": [verdict.turn_index for verdict in verdicts],
            "verdict": [verdict.verdict for verdict in verdicts],
            "random_sample": [random_sample] * len(verdicts),
            "source": [verdict.source for verdict in verdicts],
            "imported_at": [now_ns] * len(verdicts),
        },
    )


def save_calibration(
    con: DuckDBPyConnection, run: CalibrationRun, found: Sequence[Calibration], labelled: Sequence[Labelled]
) -> None:
    """Write a calibration: a row for turns and one for conversations, and what was compared."""
    Table(con, "judge_calibrations").insert(con, _columns([_row(run, one) for one in found]))
    Table(con, "calibration_verdicts").insert(con, _columns([_verdict_row(run, one) for one in labelled]))


def newest_calibrations(con: DuckDBPyConnection) -> list[Row]:
    """Return the newest calibration of each judge, version and target, the latest first."""
    found = rows(con, _NEWEST, {})
    for row in found:
        row["curve"], row["not_judged"] = parsed(row["curve"]), parsed(row["not_judged"])
    return found


def _row(run: CalibrationRun, found: Calibration) -> dict[str, Any]:
    agreement = found.agreement
    row = {
        **_shared(run),
        "target": found.target,
        "n": int(agreement.confusion.n),
        "judged": sum(int(one.agreement.confusion.n) for one in found.deciders if one.judge is not None),
        **{name: int(getattr(agreement.confusion, name)) for name in _COUNTS},
        "interval_method": agreement.interval_method,
        "level": agreement.level,
        "threshold": found.threshold,
        "best_threshold": found.best.threshold if found.best else None,
        "curve": [asdict(point) for point in found.curve],
        "not_judged": dict(found.not_judged),
        "random_sample": run.random_sample,
        "labels": list(run.labels),
        "calibrated_at": run.calibrated_ns,
    }
    for name in _RATES:
        rate: Estimate = getattr(agreement, name)
        row |= {name: rate.value, f"{name}_lower": rate.lower, f"{name}_upper": rate.upper}
    return row


def _shared(run: CalibrationRun) -> dict[str, Any]:
    names = ("calibration_id", "evaluation_id", "judge", "judge_version", "model")
    return {name: getattr(run, name) for name in names}


def _verdict_row(run: CalibrationRun, one: Labelled) -> dict[str, Any]:
    names = ("environment", "conversation_id", "revision", "turn_index", "dataset", "case_id", "human")
    return {
        "calibration_id": run.calibration_id,
        **{name: getattr(one, name) for name in names},
        "judge_outcome": one.outcome,
        "judge_reason": one.reason,
        "judge_score": one.score,
        "judged": one.judge is not None,
        "random_sample": run.random_sample,
    }


def _columns(found: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in found] for name in found[0]} if found else {}
