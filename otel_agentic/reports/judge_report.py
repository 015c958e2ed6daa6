"""Agreement of the judge of a group of conversations with people, and pass rates corrected by people's verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.results.reports import (
    CorrectedRates,
    GroupJudge,
    JudgeAgreement,
    JudgeCalibration,
    PpiRate,
    Rate,
    RoganGladenRate,
    SampleRate,
)
from otel_agentic.stats.judge_error import Corrected, VerdictPair, corrected
from otel_agentic.store.connection import to_json_value
from otel_agentic.store.judges import HumanSample, human_samples, newest_calibrations
from otel_agentic.store.queries.scores import Origin, newest_model, origins, origins_by_kind

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from otel_agentic.stats.model import CaseKey
    from otel_agentic.store.queries.scored_conversations import KindTable
    from otel_agentic.store.table import Key, Row, Selection
    from otel_agentic.windows import ScoredConversation

#: With fewer labelled conversations in a group, half the width of every interval exceeds .3.
MIN_LABELS: Final = 10

#: A judge, by name and version.
_Judge = tuple[str, str]


#: The corrected rates, or None; and the reason if they are missing although people labelled conversations.
Correction = tuple[CorrectedRates | None, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrections:
    """Corrects judged rates by human verdicts.

    Attributes:
        origins: the origins of the current scores.
        samples: the labelled conversations, by judge and version.
        calibrated: judges that were compared with people, on turns or conversations.
        level: level of the intervals.
    """

    origins: Mapping[Key, Origin]
    samples: Mapping[_Judge, HumanSample]
    calibrated: Collection[_Judge]
    level: float

    def of(self, members: Iterable[ScoredConversation]) -> Correction:
        """Return the corrected pass rate of conversations, based on the outcomes computed with their judge."""
        if not self.calibrated:
            return None, None
        scored_by_judge = [
            (member, origin)
            for member in members
            if (origin := self.origins.get((member.environment, member.conversation_id))) is not None
            and origin.computed != "not_evaluated"
        ]
        judges = Counter((origin.judge, origin.judge_version) for _, origin in scored_by_judge)
        if not judges:
            return None, None
        if len(judges) > 1:
            return None, _several(judges) if judges.keys() & set(self.calibrated) else None
        (judge,) = judges
        sample = self.samples.get(judge)
        if sample is None:
            return None, self._no_sample(judge)
        if not sample.random_sample:
            return None, "the labels are not a random sample (`judge calibrate --random-sample`)"
        return self._corrected(judge, scored_by_judge, sample.verdicts)

    def _corrected(
        self,
        judge: _Judge,
        scored_by_judge: Sequence[tuple[ScoredConversation, Origin]],
        verdicts: Mapping[Key, tuple[int, bool]],
    ) -> Correction:
        pairs: list[VerdictPair] = []
        unlabelled: list[tuple[CaseKey, bool]] = []
        for member, origin in scored_by_judge:
            passed = origin.computed == "pass"
            revision, human = verdicts.get((member.environment, member.conversation_id), (None, False))
            if revision == origin.revision:
                pairs.append(VerdictPair(judge=passed, human=human, case=member.case_key))
            else:
                unlabelled.append((member.case_key, passed))
        if len(pairs) < MIN_LABELS:
            return None, _too_few(len(pairs))
        if len({member.weight for member, _ in scored_by_judge}) > 1:
            return None, "its conversations were sampled at different ratios"
        judged_rate = sum(passed for _, passed in unlabelled) / len(unlabelled) if unlabelled else None
        return corrected_rates(judge, corrected(pairs, unlabelled, self.level), judged_rate), None

    def _no_sample(self, judge: _Judge) -> str | None:
        if judge in self.calibrated:
            return "people labelled turns only; rates of conversations need labels of conversations"
        versions = [version for name, version in self.calibrated if name == judge[0]]
        if not versions:
            return None
        return f"people's verdicts were compared with version {versions[-1]} of {judge[0]}, but version {judge[1]} was the judge here"


def _several(judges: Iterable[_Judge]) -> str:
    return f"the scores are from several judges or versions: {', '.join(' '.join(judge) for judge in sorted(judges))}"


def _too_few(labelled: int) -> str:
    share = "none of its conversations is" if labelled == 0 else f"only {labelled} of its conversations are"
    return f"{share} labelled in the random sample; {MIN_LABELS} are needed"


def corrected_rates(judge: _Judge, rates: Corrected, judged_rate: float | None) -> CorrectedRates:
    """Return the rates as a result; `judged_rate` is the judged rate of the unlabelled conversations or other items."""
    shared = {"level": rates.level, "n_human": rates.n_human, "n_judge": rates.n_judge}
    return CorrectedRates(
        judge=judge[0],
        judge_version=judge[1],
        raw=SampleRate(**asdict(rates.raw), n=rates.n_human + rates.n_judge, level=rates.level),
        human=SampleRate(**asdict(rates.human), n=rates.n_human, level=rates.level),
        rogan_gladen=RoganGladenRate(
            **asdict(rates.rogan_gladen) | shared,
            judged_rate=judged_rate,
            sensitivity=rates.sensitivity,
            specificity=rates.specificity,
        ),
        ppi=PpiRate(**asdict(rates.ppi) | shared, power=rates.power),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReport:
    """The origins of scores, and the models and calibrations of their judges."""

    origins: Mapping[Key, Origin]
    models: Mapping[_Judge, str | None]
    calibrations: Mapping[_Judge, list[Row]]
    corrections: Corrections

    @classmethod
    def of(cls, engine: Engine, selection: Selection, table: KindTable | None = None) -> JudgeReport:
        """Read the origins of conversations, models and calibrations from the store.

        Args:
            engine: the opened store.
            selection: the conversations.
            table: these conversations by kind, of which one of each kind is read; None reads each conversation.
        """
        with engine.store.read() as con:
            score_origins = origins(con, selection) if table is None else origins_by_kind(table)
            judges = sorted({(origin.judge, origin.judge_version) for origin in score_origins.values()})
            models = {judge: newest_model(con, *judge) for judge in judges}
            calibrations: dict[_Judge, list[Row]] = {}
            for row in newest_calibrations(con):
                calibrations.setdefault((row["judge"], row["judge_version"]), []).append(row)
            samples = human_samples(con)
        corrections = Corrections(
            origins=score_origins, samples=samples, calibrated=list(calibrations), level=engine.settings.stats.level
        )
        return cls(origins=score_origins, models=models, calibrations=calibrations, corrections=corrections)

    def partial_fails(self, scored: Iterable[ScoredConversation]) -> int:
        """Return how many conversations failed while other required parts of them were not evaluated."""
        return sum(
            conversation.count
            for conversation in scored
            if conversation.outcome == "fail" and (origin := self._origin(conversation)) is not None and origin.partial
        )

    def judge_of(self, scored: Iterable[ScoredConversation]) -> GroupJudge | None:
        """Return the judge of conversations, or None if no answer was judged.

        If there are several judges, it is the judge of most conversations; the others are named.
        """
        counted: Counter[_Judge] = Counter()
        evaluations: dict[_Judge, set[str]] = {}
        for conversation in scored:
            origin = self._origin(conversation)
            if origin is not None and origin.has_judged_answer:
                judge = origin.judge, origin.judge_version
                counted[judge] += conversation.count
                evaluations.setdefault(judge, set()).add(origin.evaluation_id)
        if not counted:
            return None
        (judge, conversations), *others = counted.most_common()
        return GroupJudge(
            name=judge[0],
            version=judge[1],
            model=self.models[judge],
            conversations=conversations,
            others=[" ".join(other) for other, _ in others],
            calibration=self._calibration(judge, evaluations[judge]),
        )

    def _origin(self, conversation: ScoredConversation) -> Origin | None:
        return self.origins.get((conversation.environment, conversation.conversation_id))

    def _calibration(self, judge: _Judge, evaluations: set[str]) -> JudgeCalibration | None:
        by_target = {row["target"]: row for row in self.calibrations.get(judge, ())}
        if not by_target:
            return None
        newest = max(by_target.values(), key=lambda row: row["calibrated_at"])
        return JudgeCalibration(
            calibrated_at=to_json_value(newest["calibrated_at"]),
            random_sample=newest["random_sample"],
            same_evaluation=evaluations == {newest["evaluation_id"]},
            turn=_agreement(by_target.get("turn")),
            conversation=_agreement(by_target.get("conversation")),
        )


def _agreement(row: Row | None) -> JudgeAgreement | None:
    if row is None:
        return None
    return JudgeAgreement(
        n=row["n"],
        judged=row["judged"],
        **{
            name: Rate(value=row[name], lower=row[f"{name}_lower"], upper=row[f"{name}_upper"])
            for name in ("agreement", "kappa", "sensitivity", "specificity")
        },
        threshold=row["threshold"],
        interval_method=row["interval_method"],
    )
