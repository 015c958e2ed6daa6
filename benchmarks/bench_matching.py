"""Matching and clustering: similar queries beside exact ones, clusters where no two questions are alike beside real traffic."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from benchmarks.cpu_time import cpu_of
from otel_agentic.testing import conversation, turn
from otel_agentic.truth import Case, CaseIndex, CaseTurn
from otel_agentic.truth.clusters import Opening, cluster
from otel_agentic.truth.fuzzy import FuzzyRule

if TYPE_CHECKING:
    from collections.abc import Sequence

CASES = 5_000
CONVERSATIONS = 200
OPENINGS = 20_000
RULE = FuzzyRule(threshold=0.92, margin=0.05)


def main() -> None:
    """Print CPU times; exact and similar matching in the same run."""
    rng = random.Random(1)  # noqa: S311 — texts of a benchmark
    words = ["".join(rng.choices("etaoinshrdlu", k=rng.randint(2, 9))) for _ in range(2_000)]

    def text(count: int) -> str:
        return " ".join(rng.choices(words, k=count))

    for count in (12, 40, 120):
        cases = [Case(case_id=str(place), turns=(CaseTurn(query=text(count)),)) for place in range(CASES)]
        said = [text(rng.randint(count * 3 // 4, count * 5 // 4)) for _ in range(CONVERSATIONS)]
        exact, fuzzy = (_matching_ms(CaseIndex(cases, rule), said) for rule in (None, RULE))
        characters = sum(map(len, said)) // len(said)
        print(
            f"{characters:4} characters, {CASES:,} cases: exact {exact:.3f} ms CPU a conversation, similar {fuzzy:.2f} ms"
        )
    real = [text(8) for _ in range(300)]
    for what, queries in (
        ("questions repeat", rng.choices(real, k=OPENINGS)),
        ("no two alike", [text(15) for _ in range(OPENINGS)]),
    ):
        print(f"{OPENINGS:,} conversations, {what}: {_clustering_s(queries):.1f} s CPU")


def _matching_ms(index: CaseIndex, said: Sequence[str]) -> float:
    made = [conversation(turn(query)) for query in said]
    index.match(made[0])  # what is made on first use
    return 1e3 * cpu_of(lambda: [index.match(one) for one in made]) / len(made)


def _clustering_s(queries: Sequence[str]) -> float:
    openings = [
        Opening(environment="", conversation_id=str(place), agent=None, query=query, ended_ns=place)
        for place, query in enumerate(queries)
    ]
    return cpu_of(lambda: cluster(openings))


if __name__ == "__main__":
    main()
