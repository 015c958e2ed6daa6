"""What was said of rows, as the JSON object of the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_agentic.pipeline.judge_use import judge_models

if TYPE_CHECKING:
    from otel_agentic.pipeline.rows import RowScores, RowsEvaluated


def rows_json(found: RowsEvaluated) -> dict[str, Any]:
    """Return all of it as JSON can say it: one record a row, the metrics summed up, and what the judge was asked."""
    told = found.metrics.to_json(found.names)
    use = found.judge_use
    return {
        "rows": [_row_json(one) for one in found.rows],
        "metrics": told["metrics"],
        "faults": told["faults"],
        "left_out": dict(found.left_out),
        "metrics_left_out": list(found.unasked),
        "judge": {
            "name": found.judge.name,
            "version": found.judge.version,
            "models": judge_models(found.judge, use),
            "calls": use.calls,
            "judged": use.verdicts,
            "cached": use.cached,
            "failed": use.failed,
            "failure": use.failure,
            "refused": use.refused,
            "input_tokens": use.input_tokens,
            "output_tokens": use.output_tokens,
            "cost_usd": use.cost_usd,
            "used_up": found.used_up,
        },
    }


def _row_json(one: RowScores) -> dict[str, Any]:
    return {
        "file": one.row.file,
        "line": one.row.line,
        "row": one.row.name,
        "scores": [
            {
                "name": score.name,
                "value": score.value,
                "label": score.label,
                "reason": score.reason,
                "explanation": score.explanation,
                "turn_index": score.turn_index,
                "position": score.position,
                "details": dict(score.details),
            }
            for score in one.scores
        ],
    }
