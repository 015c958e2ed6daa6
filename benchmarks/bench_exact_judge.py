"""Print how often the judge `exact` agrees with the known labels of answers, by source: the tables of benchmarks/results/exact_judge.md.

    python -m benchmarks.bench_exact_judge [--examples]

`--examples` prints the pairs that the judge gets wrong, except those of the held-out half, which nothing may be tuned to.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from benchmarks.answer_pairs import THRESHOLD, Pair, changed, of_captures, tau_answers, written
from otel_agentic.judges import ExactJudge, Verdict
from otel_agentic.stats.judge_error import VerdictPair, agreement_of
from tests.shared import SHARED

if TYPE_CHECKING:
    from otel_agentic.stats import Estimate

HEADER: Final = (
    "| source | pairs | right | agreement | kappa | sensitivity | specificity |\n|---|---:|---:|---|---|---|---|"
)
_LEVEL: Final = 0.95
_CAPTURES: Final = SHARED / "captures"
_TAU: Final = SHARED / "data" / "tau-airline"


def verdicts(pairs: Sequence[Pair]) -> list[bool]:
    """Return whether the judge passes each pair."""
    replies = ExactJudge().judge([pair.question for pair in pairs])
    return [isinstance(verdict, Verdict) and not verdict.unsure and verdict.score >= THRESHOLD for verdict in replies]


def row(source: str, pairs: Sequence[Pair]) -> str:
    """Return a row of the table."""
    passes = [
        VerdictPair(judge=passed, human=pair.right, case=pair.case)
        for pair, passed in zip(pairs, verdicts(pairs), strict=True)
    ]
    agreement = agreement_of(passes, _LEVEL)
    kappa = "—" if agreement.kappa.value is None else f"{agreement.kappa.value:.3f}"
    rates = (
        _with_interval(agreement.agreement),
        kappa,
        _with_interval(agreement.sensitivity),
        _with_interval(agreement.specificity),
    )
    right = sum(pair.right for pair in pairs)
    return f"| {source} | {len(pairs):,} | {right:,} | {' | '.join(rates)} |"


def _with_interval(rate: Estimate) -> str:
    return "—" if rate.value is None else f"{rate.value:.3f} [{rate.lower:.3f}, {rate.upper:.3f}]"


def sources() -> Iterator[tuple[str, list[Pair]]]:
    """Yield every available source with its name."""
    yield "written by hand, half that the judge was improved with", written("tuned")
    yield "**written by hand, held-out half**", written("held_out")
    if _CAPTURES.is_dir():
        yield "recorded answers of 59 framework captures", of_captures(_CAPTURES)
    if _TAU.is_dir():
        yield "answers of tau-airline, changed by rule", list(changed(tau_answers(_TAU)))


def changes(pairs: Sequence[Pair]) -> Iterator[str]:
    """Yield a row for each origin of pairs: how often the judge is right about them."""
    agreed: Counter[tuple[bool, str]] = Counter()
    totals: Counter[tuple[bool, str]] = Counter()
    for pair, passed in zip(pairs, verdicts(pairs), strict=True):
        totals[pair.right, pair.about] += 1
        agreed[pair.right, pair.about] += passed == pair.right
    for right, about in totals:
        share = agreed[right, about] / totals[right, about]
        yield f"| {about} | {'right' if right else 'wrong'} | {totals[right, about]:,} | {share:.3f} |"


def _examples(pairs: Sequence[Pair]) -> Iterator[str]:
    for pair, verdict in zip(pairs, ExactJudge().judge([pair.question for pair in pairs]), strict=True):
        if isinstance(verdict, Verdict) and (verdict.score >= THRESHOLD and not verdict.unsure) != pair.right:
            question = pair.question
            mistake = "passes a wrong answer" if not pair.right else "fails a right answer"
            yield f"{mistake} ({pair.about}): {verdict.reasoning}\n  expected {question.expected!r}\n  answer   {question.answer!r}"


def main() -> None:
    """Print the tables."""
    pairs_of = dict(sources())
    print(HEADER)
    for source, pairs in pairs_of.items():
        print(row(source, pairs))
    for source, pairs in pairs_of.items():
        if source.startswith(("recorded", "answers")):
            print(f"\n{source}\n\n| an answer that is | it is | pairs | judged so |\n|---|---|---:|---:|")
            print("\n".join(changes(pairs)))
    if "--examples" in sys.argv[1:]:
        for source, pairs in pairs_of.items():
            if "held-out" not in source:
                print(f"\n{source}\n" + "\n".join(_examples(pairs)))


if __name__ == "__main__":
    main()
