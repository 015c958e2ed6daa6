"""How far a judge's verdicts are those of people, on turns and on conversations: numbers, curve, examples, warnings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from otel_agentic.stats.agreement import (
    Agreement,
    CurvePoint,
    VerdictPair,
    agreement_of,
    best_threshold,
    threshold_curve,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_agentic.stats.model import CaseKey

Target = Literal["turn", "conversation"]
#: A judge, by name and version.
JudgeVersion = tuple[str, str]
TARGETS: Final[tuple[Target, ...]] = ("turn", "conversation")
#: Why there is no verdict where a judge does not decide.
UNSURE: Final = "judge_unsure"
#: Below so many labels of a class its rate is hardly known: half the width of its interval is above .14.
_FEW: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """A turn (`turn_index`, 0-based) or conversation (None) that a person has judged, with what the judge says of it.

    `human` is True for a pass. `outcome` is the judge's; `reason` tells why there is none, or why it fails. `score` is that
    of the answer, for a conversation the lowest of its answers, None where none was judged or something else decided.
    `judge` is the name and version of the judge whose verdict on an answer the outcome rests on, or that was unsure; None where no
    judge had a part in it, as where tool calls decide.
    The texts are for people to look at, None where there is none; `ended_ns` is when the conversation ended.
    """

    environment: str
    conversation_id: str
    revision: int
    turn_index: int | None
    dataset: str | None
    case_id: str | None
    human: bool
    outcome: Literal["pass", "fail", "not_evaluated"]
    reason: str | None
    score: float | None
    ended_ns: int
    query: str | None = None
    expected: str | None = None
    answer: str | None = None
    reasoning: str | None = None
    judge: JudgeVersion | None = None

    @property
    def case_key(self) -> CaseKey:
        """What repeats it: its case, else its conversation. No dataset is named "": no clash."""
        if self.case_id is None:
            return ("", repr((self.environment, self.conversation_id)))
        return (self.dataset or "", self.case_id)

    @property
    def disagrees(self) -> bool:
        """Whether the judge gave the other verdict."""
        return self.outcome != "not_evaluated" and (self.outcome == "pass") != self.human


@dataclass(frozen=True, slots=True, kw_only=True)
class Decider:
    """What one judge decided of what people labelled, or (`judge` None) what was decided without a judge.

    `agreement` is on what it decided; it was `unsure` about so many more.
    """

    judge: JudgeVersion | None
    agreement: Agreement
    unsure: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """How far outcomes and people agree on turns, or on conversations, and which judge decided how many of them.

    `not_judged` counts, by reason, what people labelled and the judge gave no verdict on: it is in no number.
    `curve` and `best` rest on the labelled that have a score, `curve_n` of them; `best` is None where people gave verdicts
    of one class only, and was chosen on the labels that it is measured on. `deciders` are the judges, then (where there is any)
    what no judge decided. `examples` are disagreements.
    """

    target: Target
    agreement: Agreement
    not_judged: Mapping[str, int]
    threshold: float
    curve: tuple[CurvePoint, ...]
    curve_n: int
    best: CurvePoint | None
    deciders: tuple[Decider, ...]
    examples: tuple[Labelled, ...]
    warnings: tuple[str, ...]


def calibrate(
    target: Target, labelled: Sequence[Labelled], *, threshold: float, level: float, examples: int = 10
) -> Calibration:
    """Return how far the judge agrees with people.

    Args:
        target: what all of them are: turns, or conversations.
        labelled: what people labelled, each once.
        threshold: the answer threshold in force.
        level: of the intervals.
        examples: disagreements shown at most, of each kind.
    """
    judged = [one for one in labelled if one.outcome != "not_evaluated"]
    scored = [(one.score, one.human) for one in judged if one.score is not None]
    curve = threshold_curve(scored)
    return Calibration(
        target=target,
        agreement=_agreement(judged, level),
        not_judged=_not_judged(labelled),
        threshold=threshold,
        curve=tuple(curve),
        curve_n=len(scored),
        # Of thresholds that do equally well the one in force is kept: it stands between two scores, seldom on one.
        best=best_threshold(threshold_curve(scored, also=[threshold]), threshold),
        deciders=tuple(_deciders(labelled, level)),
        examples=tuple(_examples(judged, threshold, examples)),
        warnings=tuple(_warnings(target, judged)),
    )


def _agreement(judged: Sequence[Labelled], level: float) -> Agreement:
    pairs = [VerdictPair(judge=one.outcome == "pass", human=one.human, case=one.case_key) for one in judged]
    return agreement_of(pairs, level)


def _deciders(labelled: Sequence[Labelled], level: float) -> Iterator[Decider]:
    """Yield who decided, judges by name and version before what no judge decided."""
    judges = sorted({one.judge for one in labelled if one.judge is not None})
    for judge in (*judges, None):
        those = [one for one in labelled if one.judge == judge]
        decided = [one for one in those if one.outcome != "not_evaluated"]
        unsure = sum(one.reason == UNSURE for one in those)
        if decided or unsure:
            yield Decider(judge=judge, agreement=_agreement(decided, level), unsure=unsure)


def _not_judged(labelled: Sequence[Labelled]) -> dict[str, int]:
    counted = Counter(one.reason or "no_data" for one in labelled if one.outcome == "not_evaluated")
    return dict(sorted(counted.items()))


def _examples(judged: Sequence[Labelled], threshold: float, limit: int) -> Iterator[Labelled]:
    """Yield disagreements, false passes first: the surest verdicts of the judge before others, then the newest."""

    def surest(one: Labelled) -> tuple[float, int]:
        return (0.0 if one.score is None else abs(one.score - threshold), one.ended_ns)

    for human in (False, True):
        found = [one for one in judged if one.disagrees and one.human == human]
        yield from sorted(found, key=surest, reverse=True)[:limit]


def _warnings(target: Target, judged: Sequence[Labelled]) -> Iterator[str]:
    passes = sum(one.human for one in judged)
    fails = len(judged) - passes
    if not judged:
        return
    for count, word, rate in ((passes, "passing", "sensitivity"), (fails, "failing", "specificity")):
        if count == 0:
            yield f"people labelled no {word} {target}: {rate} and the best threshold cannot be known, and kappa tells nothing"
        elif count < _FEW:
            yield f"only {count} {word} {target}{'' if count == 1 else 's'} among the labels: {rate} is uncertain, see its interval"
