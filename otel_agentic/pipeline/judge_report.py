"""Who judged the answers behind a rate, and how far that judge agrees with people."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.pipeline.corrected import Corrections
from otel_agentic.store.calibrations import newest_calibrations
from otel_agentic.store.human_sample import human_samples
from otel_agentic.store.json_values import plain
from otel_agentic.store.judged import newest_model, origins

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from otel_agentic.pipeline.engine import Engine
    from otel_agentic.store.judged import Origin
    from otel_agentic.store.selection import Row, Selection
    from otel_agentic.store.table import Key
    from otel_agentic.windows import ScoredConversation

_RATES: Final = ("agreement", "kappa", "sensitivity", "specificity")

#: A judge, by name and version.
_Judge = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReport:
    """Where scores come from, and what is known of the judges behind them."""

    origins: Mapping[Key, Origin]
    models: Mapping[_Judge, str | None]
    calibrations: Mapping[_Judge, list[Row]]
    corrections: Corrections

    @classmethod
    def of(cls, engine: Engine, selection: Selection) -> JudgeReport:
        """Read what the store knows."""
        with engine.store.read() as con:
            found = origins(con, selection)
            judges = sorted({(origin.judge, origin.judge_version) for origin in found.values()})
            models = {judge: newest_model(con, *judge) for judge in judges}
            calibrations: dict[_Judge, list[Row]] = {}
            for row in newest_calibrations(con):
                calibrations.setdefault((row["judge"], row["judge_version"]), []).append(row)
            samples = human_samples(con)
        corrections = Corrections(
            origins=found, samples=samples, calibrated=list(calibrations), level=engine.settings.stats.level
        )
        return cls(origins=found, models=models, calibrations=calibrations, corrections=corrections)

    def partial_fails(self, scored: Iterable[ScoredConversation]) -> int:
        """Return how many of some conversations failed while other needed parts of them were not evaluated."""
        return sum(
            one.outcome == "fail" and (origin := self._origin(one)) is not None and origin.partial for one in scored
        )

    def judge_json(self, scored: Iterable[ScoredConversation]) -> dict[str, Any] | None:
        """Return the judge behind some conversations as JSON can say it; None where no answer was judged.

        Of several judges it is the one of most conversations; the others are named.
        """
        judged = [origin for one in scored if (origin := self._origin(one)) is not None and origin.has_judged_answer]
        counted = Counter((origin.judge, origin.judge_version) for origin in judged)
        if not counted:
            return None
        (judge, conversations), *others = counted.most_common()
        evaluations = {origin.evaluation_id for origin in judged if (origin.judge, origin.judge_version) == judge}
        return {
            "name": judge[0],
            "version": judge[1],
            "model": self.models[judge],
            "conversations": conversations,
            "others": [" ".join(other) for other, _ in others],
            "calibration": self._calibration(judge, evaluations),
        }

    def corrected_json(self, scored: Iterable[ScoredConversation]) -> dict[str, Any]:
        """Return the pass rate corrected by people's verdicts, None with the reason where it cannot be."""
        found = self.corrections.of(scored)
        return {"corrected": found.rates, "not_corrected": found.why_not}

    def _origin(self, one: ScoredConversation) -> Origin | None:
        return self.origins.get((one.environment, one.conversation_id))

    def _calibration(self, judge: _Judge, evaluations: set[str]) -> dict[str, Any] | None:
        found = {row["target"]: row for row in self.calibrations.get(judge, ())}
        if not found:
            return None
        newest = max(found.values(), key=lambda row: row["calibrated_at"])
        return {
            "calibrated_at": plain(newest["calibrated_at"]),
            "random_sample": newest["random_sample"],
            "same_evaluation": evaluations == {newest["evaluation_id"]},
            "turn": _target(found.get("turn")),
            "conversation": _target(found.get("conversation")),
        }


def _target(row: Row | None) -> dict[str, Any] | None:
    if row is None:
        return None
    rates = {
        name: {"value": row[name], "lower": row[f"{name}_lower"], "upper": row[f"{name}_upper"]} for name in _RATES
    }
    return {
        "n": row["n"],
        "judged": row["judged"],
        **rates,
        "threshold": row["threshold"],
        "interval_method": row["interval_method"],
    }
