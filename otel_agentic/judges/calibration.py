"""Agreement of a judge's verdicts with human labels, on turns and on conversations: figures, curve, examples, warnings."""

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
#: The reason for a missing verdict if a judge does not decide.
UNSURE: Final = "judge_unsure"
#: With fewer labels of a class its rate is poorly known: half the width of its interval exceeds .14.
_FEW: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """A turn (`turn_index`, 0-based) or conversation (None) with a human verdict, and the outcome by the judge.

    `human` is True for a pass. `outcome` is the judge's; `reason` explains why it is missing or a fail. `score` is the score of
    the answer, of a conversation the lowest of its answers; None if no answer was judged or another criterion decided.
    `judge` is the name and version of the judge whose verdict on an answer determined the outcome, or that was unsure; None if no
    judge took part, for example if tool calls decided.
    The texts are for display, None if missing; `ended_ns` is when the conversation ended.
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
        """The cluster of repetitions: the case, or the conversation itself. No dataset is named "", so they cannot clash."""
        if self.case_id is None:
            return ("", repr((self.environment, self.conversation_id)))
        return (self.dataset or "", self.case_id)

    @property
    def disagrees(self) -> bool:
        """Whether the judge's verdict differs from the human one."""
        return self.outcome != "not_evaluated" and (self.outcome == "pass") != self.human


@dataclass(frozen=True, slots=True, kw_only=True)
class Decider:
    """The labelled items that one judge decided, or (`judge` None) that were decided without a judge.

    `agreement` is about the decided ones; the judge was `unsure` about that many more.
    """

    judge: JudgeVersion | None
    agreement: Agreement
    unsure: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Agreement of outcomes and people on turns, or on conversations, and how many of them each judge decided.

    `not_judged` counts, by reason, the labelled items without a verdict of the judge: no figure includes them.
    `curve` and `best` are computed from the `curve_n` labelled items with a score; `best`: None if the human verdicts are of
    one class only, and is chosen on the labels that it is measured on. `deciders` are the judges, then (if any) the items that
    no judge decided. `examples` are disagreements.
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
        target: the kind of all labelled items: turns, or conversations.
        labelled: the labelled items, each once.
        threshold: the active answer threshold.
        level: of the intervals.
        examples: maximum number of disagreements of each kind.
    """
    decided = [item for item in labelled if item.outcome != "not_evaluated"]
    scored = [(item.score, item.human) for item in decided if item.score is not None]
    curve = threshold_curve(scored)
    return Calibration(
        target=target,
        agreement=_agreement(decided, level),
        not_judged=_not_judged(labelled),
        threshold=threshold,
        curve=tuple(curve),
        curve_n=len(scored),
        # Among thresholds that are equally good the active one is retained: it is between two scores, rarely equal to one.
        best=best_threshold(threshold_curve(scored, also=[threshold]), threshold),
        deciders=tuple(_deciders(labelled, level)),
        examples=tuple(_examples(decided, threshold, examples)),
        warnings=tuple(_warnings(target, decided)),
    )


def _agreement(decided: Sequence[Labelled], level: float) -> Agreement:
    pairs = [VerdictPair(judge=item.outcome == "pass", human=item.human, case=item.case_key) for item in decided]
    return agreement_of(pairs, level)


def _deciders(labelled: Sequence[Labelled], level: float) -> Iterator[Decider]:
    """Yield the deciders: judges by name and version, then the items that no judge decided."""
    judges = sorted({item.judge for item in labelled if item.judge is not None})
    for judge in (*judges, None):
        own = [item for item in labelled if item.judge == judge]
        decided = [item for item in own if item.outcome != "not_evaluated"]
        unsure = sum(item.reason == UNSURE for item in own)
        if decided or unsure:
            yield Decider(judge=judge, agreement=_agreement(decided, level), unsure=unsure)


def _not_judged(labelled: Sequence[Labelled]) -> dict[str, int]:
    counted = Counter(item.reason or "no_data" for item in labelled if item.outcome == "not_evaluated")
    return dict(sorted(counted.items()))


def _examples(decided: Sequence[Labelled], threshold: float, limit: int) -> Iterator[Labelled]:
    """Yield disagreements, false passes first: by decreasing confidence of the judge, then the newest."""

    def surest(item: Labelled) -> tuple[float, int]:
        return (0.0 if item.score is None else abs(item.score - threshold), item.ended_ns)

    for human in (False, True):
        disagreements = [item for item in decided if item.disagrees and item.human == human]
        yield from sorted(disagreements, key=surest, reverse=True)[:limit]


def _warnings(target: Target, decided: Sequence[Labelled]) -> Iterator[str]:
    passes = sum(item.human for item in decided)
    fails = len(decided) - passes
    if not decided:
        return
    for count, word, rate in ((passes, "passing", "sensitivity"), (fails, "failing", "specificity")):
        if count == 0:
            yield f"people labelled no {word} {target}: {rate}, the best threshold and kappa cannot be determined"
        elif count < _FEW:
            yield f"only {count} {word} {target}{'' if count == 1 else 's'} among the labels: {rate} is uncertain, see its interval"
