"""What a backfill did, or would do, as JSON can say it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from otel_agentic.pipeline.backfill.plan import duration, moment

if TYPE_CHECKING:
    from otel_agentic.pipeline.backfill.dry import Estimated
    from otel_agentic.pipeline.backfill.plan import Asked, Plan
    from otel_agentic.pipeline.backfill.run import Backfilled

Json = dict[str, Any]


def done_json(done: Backfilled, asked: Asked) -> Json:
    """Return what a backfill did."""
    newest, scoring = done.newest, done.scoring
    return {
        "dry_run": False,
        "run_id": newest.run_id if newest else None,
        "finished": newest is not None and newest.finished and not done.stopped,
        "stopped": done.stopped,
        "again": done.again,
        "resumed_after": moment(done.resumed_ns) if done.resumed_ns is not None else None,
        "notes": list(done.plan.notes) if done.plan else [],
        "scoring": {
            "to_score": scoring.wanted,
            "scored": scoring.scored,
            "unchanged": scoring.unchanged,
            "outcomes": dict(scoring.outcomes),
            "reasons": dict(scoring.reasons),
            "warnings": sorted(scoring.warnings),
            "judge": dict(done.judge) if done.judge is not None else None,
        },
        "windows": {
            **_windows(done.plan, asked),
            "rows_changed": newest.rows_changed if newest else 0,
            "pass": newest.number if newest else 0,
            "done_up_to": moment(newest.position_ns) if newest and newest.position_ns is not None else None,
        },
        "emit": {
            "to": asked.emit,
            "points": newest.points_sent if newest else 0,
            "events": done.events.sent,
            "events_lost": done.events.lost,
            "events_problem": done.events.problem,
        },
    }


def estimate_json(found: Estimated | None, asked: Asked) -> Json:
    """Return what a backfill would do."""
    plan = found.plan if found else None
    return {
        "dry_run": True,
        "notes": list(plan.notes) if plan else [],
        "spans": found.spans if found else 0,
        "conversations": {
            "in_windows": found.conversations if found else 0,
            "to_score": found.to_score if found else 0,
            "left_out_by_sampling": found.left_out if found else 0,
        },
        "windows": {
            **_windows(plan, asked),
            "points": found.points if found else 0,
            "rows": found.rows if found else 0,
        },
        "judge": {**asdict(found.judge), "calls": found.judge.calls} if found else None,
        "emit": {"to": asked.emit},
    }


def _windows(plan: Plan | None, asked: Asked) -> Json:
    return {
        "windows": list(asked.windows),
        "step": duration(asked.step_ns),
        "k": list(asked.k),
        "ends": len(plan.ends) if plan else 0,
        "first_end": moment(plan.first_ns) if plan else None,
        "last_end": moment(plan.last_ns) if plan else None,
    }
