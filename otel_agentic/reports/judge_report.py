"""How far the judge of a group of conversations agrees with people, and pass rates corrected by their verdicts."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.stats.agreement import VerdictPair
from otel_agentic.stats.judge_error import corrected
from otel_agentic.store.judges import human_samples, newest_calibrations
from otel_agentic.store.queries.scores import newest_model, origins
from otel_agentic.store.selection import plain

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from otel_agentic.engine.engine import Engine
    from otel_agentic.stats.judge_error import Corrected
    from otel_agentic.stats.model import CaseKey, Estimate
    from otel_agentic.store.judges import HumanSample
    from otel_agentic.store.queries.scores import Origin
    from otel_agentic.store.selection import Row, Selection
    from otel_agentic.store.table import Key
    from otel_agentic.windows import ScoredConversation

#: Fewer labelled conversations in a group say next to nothing: half the width of any interval is above .3.
MIN_LABELS: Final = 10

#: A judge, by name and version.
_Judge = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """The corrected rates of a group as JSON can say them, or None and, where people labelled something, why."""

    rates: dict[str, Any] | None = None
    why_not: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrections:
    """What people's verdicts say about judged rates.

    Attributes:
        origins: where the scores in force come from.
        samples: the labelled conversations, by judge and version.
        calibrated: judges that were held against people, on whatever.
        level: of the intervals.
    """

    origins: Mapping[Key, Origin]
    samples: Mapping[_Judge, HumanSample]
    calibrated: Collection[_Judge]
    level: float

    def of(self, members: Iterable[ScoredConversation]) -> Correction:
        """Return the corrected pass rate of some conversations, on what was computed of them under their judge."""
        if not self.calibrated:
            return Correction()
        judged = [
            (one, origin)
            for one in members
            if (origin := self.origins.get((one.environment, one.conversation_id))) is not None
            and origin.computed != "not_evaluated"
        ]
        judges = Counter((origin.judge, origin.judge_version) for _, origin in judged)
        if not judges:
            return Correction()
        if len(judges) > 1:
            return Correction(why_not=_several(judges) if judges.keys() & set(self.calibrated) else None)
        (judge,) = judges
        sample = self.samples.get(judge)
        if sample is None:
            return Correction(why_not=self._no_sample(judge))
        if not sample.random_sample:
            return Correction(why_not="the labels are no random sample (`judge calibrate --random-sample`)")
        return self._corrected(judge, judged, sample.verdicts)

    def _corrected(
        self,
        judge: _Judge,
        judged: Sequence[tuple[ScoredConversation, Origin]],
        verdicts: Mapping[Key, tuple[int, bool]],
    ) -> Correction:
        pairs: list[VerdictPair] = []
        rest: list[tuple[CaseKey, bool]] = []
        for one, origin in judged:
            passed = origin.computed == "pass"
            revision, human = verdicts.get((one.environment, one.conversation_id), (None, False))
            if revision == origin.revision:
                pairs.append(VerdictPair(judge=passed, human=human, case=one.case_key))
            else:
                rest.append((one.case_key, passed))
        if len(pairs) < MIN_LABELS:
            return Correction(why_not=_too_few(len(pairs)))
        if len({one.weight for one, _ in judged}) > 1:
            return Correction(why_not="its conversations were sampled at different ratios")
        judged_rate = sum(passed for _, passed in rest) / len(rest) if rest else None
        return Correction(rates=_json(judge, corrected(pairs, rest, self.level), judged_rate))

    def _no_sample(self, judge: _Judge) -> str | None:
        if judge in self.calibrated:
            return "people labelled turns only; rates are of conversations, which want labels of their own"
        versions = [version for name, version in self.calibrated if name == judge[0]]
        if not versions:
            return None
        return f"people's verdicts were held against version {versions[-1]} of {judge[0]}, and version {judge[1]} judged here"


def _several(judges: Iterable[_Judge]) -> str:
    return f"scores of several judges or versions stand side by side: {', '.join(' '.join(judge) for judge in sorted(judges))}"


def _too_few(labelled: int) -> str:
    there = "none of its conversations is" if labelled == 0 else f"only {labelled} of its conversations are"
    return f"{there} labelled in the random sample; {MIN_LABELS} are needed"


def _json(judge: _Judge, found: Corrected, judged_rate: float | None) -> dict[str, Any]:
    """Return the rates; `judged_rate` is what the corrections start from: that of what nobody labelled."""
    shared = {"level": found.level, "n_human": found.n_human, "n_judge": found.n_judge}
    return {
        "judge": judge[0],
        "judge_version": judge[1],
        "raw": {**asdict(found.raw), "n": found.n_human + found.n_judge, "level": found.level},
        "human": {**asdict(found.human), "n": found.n_human, "level": found.level},
        "rogan_gladen": {
            **_estimate(found.rogan_gladen),
            **shared,
            "judged_rate": judged_rate,
            "sensitivity": found.sensitivity,
            "specificity": found.specificity,
        },
        "ppi": {**_estimate(found.ppi), **shared, "lambda": found.power},
    }


def _estimate(found: Estimate) -> dict[str, float | None]:
    return asdict(found)


_RATES: Final = ("agreement", "kappa", "sensitivity", "specificity")


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
