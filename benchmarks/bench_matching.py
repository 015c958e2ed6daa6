"""Measure matching on tau-airline without ids, the warning about a wrong ground truth, and the cost of matching and clustering.

For the text matcher, run `python -m benchmarks.bench_text_matching`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from benchmarks.cpu_time import cpu_of
from benchmarks.matching_data import (
    ATTEMPTS,
    DATA,
    attempts,
    case_of,
    first_half,
    misspelt,
    one_digit_changed,
    one_negated,
    reworded,
    right_cases,
    spoken_conversation,
    texts,
)
from otel_agentic.config import MatchingSettings
from otel_agentic.testing import conversation, turn
from otel_agentic.truth import Case, CaseIndex, CaseTurn
from otel_agentic.truth.match import shares_nothing
from otel_agentic.truth.promote import Opening, cluster
from tests.shared import why_absent

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation

    Variant = Callable[[Conversation, random.Random], Conversation]

CASES = 5_000
CONVERSATIONS = 200
OPENINGS = 20_000
#: Offsets of the wrong cases that each conversation is compared with, as in a table with shifted rows.
SHIFTS: Final = (1, 2, 3, 5, 8, 13)


def main() -> None:
    """Print how conversations with the same beginning are matched, how often the warning is raised, and CPU times."""
    rng = random.Random(1)  # noqa: S311 — draws of a benchmark
    why = why_absent(DATA)
    if why is None:
        print_beginnings(rng)
        print_warnings(rng)
    else:
        print(why)
    print_cost(rng)


def print_beginnings(rng: random.Random) -> None:
    """Print how conversations whose beginning equals that of a case are matched; the text matcher is off."""
    users = texts()
    rows: dict[str, list[bool]] = {}
    for case_id, spoken in users.items():
        for queries in spoken:
            index = CaseIndex([case_of(case_id, queries)], MatchingSettings(text="off"))
            for name, changed in _beginnings(queries, rng):
                rows.setdefault(name, []).append(index.match(spoken_conversation(changed)).case is not None)
            other = rng.choice([name for name in users if name != case_id])
            for rest in users[other]:
                is_matched = index.match(spoken_conversation((queries[0], *rest[1:]))).case is not None
                rows.setdefault("continues like a conversation of another case", []).append(is_matched)
    print("begins exactly like the case, and then: matched")
    for name, matched in rows.items():
        print(f"  {name:50} {sum(matched):>4} of {len(matched)}")


def _beginnings(queries: Sequence[str], rng: random.Random) -> Iterator[tuple[str, Sequence[str]]]:
    yield "ends after the first query", queries[:1]
    yield "ends after half of the queries", first_half(queries, rng)
    if rest := queries[1:]:
        yield "continues with different contractions and politeness", (queries[0], *reworded(rest, rng))
        yield "continues with one misspelling in eight words", (queries[0], *misspelt(rest, rng))
        yield 'continues with a "not" in one query', (queries[0], *one_negated(rest, rng))
        if changed := one_digit_changed(rest, rng):
            yield "continues with one digit changed", (queries[0], *changed)


def _cut(share: float) -> Variant:
    def shortened(conversation: Conversation, _: random.Random) -> Conversation:
        return replace(conversation, turns=conversation.turns[: max(1, round(share * len(conversation.turns)))])

    return shortened


def _two_turns(attempt: Conversation, _: random.Random) -> Conversation:
    return replace(attempt, turns=attempt.turns[:2])


def _agent_did_nothing(attempt: Conversation, _: random.Random) -> Conversation:
    return replace(
        attempt, turns=tuple(replace(turn, answer="I cannot help with that.", calls=()) for turn in attempt.turns)
    )


def _queries_reworded(attempt: Conversation, rng: random.Random) -> Conversation:
    return replace(
        attempt,
        turns=tuple(
            replace(turn, query=reworded((turn.query,), rng)[0]) if turn.query else turn for turn in attempt.turns
        ),
    )


VARIANTS: Final[Mapping[str, Variant]] = {
    "as recorded": lambda attempt, _: attempt,
    "first half of the turns": _cut(0.5),
    "first two turns": _two_turns,
    "first turn": _cut(0.0),
    "the agent did nothing": _agent_did_nothing,
    "other politeness": _queries_reworded,
}


def print_warnings(rng: random.Random) -> None:
    """Print for how many right and wrong pairs of case and conversation the warning is raised."""
    for name, counts in warnings(rng).items():
        on_right, right_pairs, on_wrong, wrong_pairs = counts
        print(
            f"  {name:60} right {on_right:>3} of {right_pairs:>4}, wrong {on_wrong:>5} of {wrong_pairs} ({on_wrong / wrong_pairs:.0%})"
        )


def warnings(rng: random.Random) -> Mapping[str, tuple[int, int, int, int]]:
    """Return, by content of the case and change of the conversation: right pairs with a warning, all right pairs, the same for wrong pairs."""
    print("warned about a wrong ground truth")
    return {
        f"{held}; {name}": _warned(case_for, variant, rng)
        for held, case_for in (
            ("expected calls", _with_calls),
            ("calls and queries", _with_both),
            ("queries", case_of),
            ("one query", _with_one_query),
        )
        for name, variant in VARIANTS.items()
    }


def _with_calls(case_id: str, _: Sequence[str]) -> Case:
    return right_cases()[case_id]


def _with_both(case_id: str, queries: Sequence[str]) -> Case:
    return right_cases()[case_id].model_copy(update={"turns": tuple(CaseTurn(query=query) for query in queries)})


def _with_one_query(case_id: str, queries: Sequence[str]) -> Case:
    return case_of(case_id, queries[:1])


def _warned(
    case_for: Callable[[str, Sequence[str]], Case], variant: Variant, rng: random.Random
) -> tuple[int, int, int, int]:
    users, names = texts(), list(texts())
    on_right: list[bool] = []
    on_wrong: list[bool] = []
    for index, case_id in enumerate(names):
        for number, attempt in enumerate(attempts()[case_id]):
            changed = variant(attempt, rng)
            # The queries of the case are from another attempt, because people phrase a task in different ways.
            others = [queries for other, queries in enumerate(users[case_id]) if other != number]
            on_right += [shares_nothing(case_for(case_id, queries), changed) for queries in others]
            for shift in SHIFTS:
                other = names[(index + shift) % len(names)]
                on_wrong.append(shares_nothing(case_for(other, users[other][(number + 1) % ATTEMPTS]), changed))
    return sum(on_right), len(on_right), sum(on_wrong), len(on_wrong)


def print_cost(rng: random.Random) -> None:
    """Print CPU times of matching against many cases, and of clustering."""
    words = ["".join(rng.choices("etaoinshrdlu", k=rng.randint(2, 9))) for _ in range(2_000)]

    def text(count: int) -> str:
        return " ".join(rng.choices(words, k=count))

    for count in (12, 40, 120, 400):
        cases = [Case(case_id=str(index), turns=(CaseTurn(query=text(count)),)) for index in range(CASES)]
        spoken = [text(rng.randint(count * 3 // 4, count * 5 // 4)) for _ in range(CONVERSATIONS)]
        off, suggest = (CaseIndex(cases, MatchingSettings(text=way)) for way in ("off", "suggest"))
        attempts_of_text = [conversation(turn(query)) for query in spoken]
        indexing_s = cpu_of(partial(suggest.match, attempts_of_text[0]))
        exact_ms, text_ms = (
            1e3 * cpu_of(partial(_match_all, index, attempts_of_text)) / len(attempts_of_text)
            for index in (off, suggest)
        )
        print(
            f"{sum(map(len, spoken)) // len(spoken):4} characters, {CASES:,} cases: exact {exact_ms:.3f} ms CPU a conversation, "
            f"text {text_ms:.2f} ms, indexing {indexing_s:.1f} s"
        )
    real = [text(8) for _ in range(300)]
    for what, queries in (
        ("questions repeat", rng.choices(real, k=OPENINGS)),
        ("all different", [text(15) for _ in range(OPENINGS)]),
    ):
        print(f"{OPENINGS:,} conversations, {what}: {_clustering_s(queries):.1f} s CPU")


def _match_all(index: CaseIndex, conversations: Sequence[Conversation]) -> None:
    for item in conversations:
        index.match(item)


def _clustering_s(queries: Sequence[str]) -> float:
    openings = [
        Opening(environment="", conversation_id=str(index), agent=None, query=query, ended_ns=index)
        for index, query in enumerate(queries)
    ]
    return cpu_of(lambda: cluster(openings))


if __name__ == "__main__":
    main()
