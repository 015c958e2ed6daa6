"""People's verdicts on random samples of conversations, as judged rates are corrected by them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duckdb import DuckDBPyConnection

    from otel_agentic.store.table import Key

#: The newest calibration on conversations of each judge and version, one of a random sample before any other.
_SAMPLES: Final = """
WITH newest AS (
    SELECT judge, judge_version, calibration_id, random_sample
    FROM judge_calibrations
    WHERE target = 'conversation'
    QUALIFY row_number() OVER (
        PARTITION BY judge, judge_version ORDER BY random_sample DESC, calibrated_at DESC, calibration_id
    ) = 1
)
SELECT n.judge, n.judge_version, n.random_sample, v.environment, v.conversation_id, v.revision, v.human
FROM newest n
JOIN calibration_verdicts v USING (calibration_id)
WHERE v.turn_index IS NULL AND v.random_sample = n.random_sample
ORDER BY n.judge, n.judge_version, v.environment, v.conversation_id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanSample:
    """Conversations that people labelled for a calibration of a judge's version.

    `random_sample`: it was said that they are one. `verdicts`: the revision that was labelled, and True for a pass.
    """

    random_sample: bool
    verdicts: Mapping[Key, tuple[int, bool]]


def human_samples(con: DuckDBPyConnection) -> dict[tuple[str, str], HumanSample]:
    """Return the labelled conversations by judge and version; a judge that was never held against people has none."""
    found: dict[tuple[str, str], tuple[bool, dict[Key, tuple[int, bool]]]] = {}
    for judge, version, random_sample, environment, name, revision, human in con.execute(_SAMPLES).fetchall():
        found.setdefault((judge, version), (random_sample, {}))[1][(environment, name)] = (revision, human)
    return {judge: HumanSample(random_sample=known[0], verdicts=known[1]) for judge, known in found.items()}
