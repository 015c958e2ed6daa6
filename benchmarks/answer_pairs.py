"""Pairs for measuring a judge of answers: an expected answer, an actual answer, and whether the actual answer is right.

    python -m benchmarks.answer_pairs

prints how often the judge `exact` agrees with people. Each model is measured on pairs that it was not trained on.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from rapidfuzz import fuzz
from scipy.stats import spearmanr

from benchmarks.answer_changes import CORRECT, INCORRECT
from benchmarks.cpu_time import in_turns
from otel_agentic.config import Settings
from otel_agentic.judges import ExactJudge, JudgeFailure, Question
from otel_agentic.judges.exact.features import shipped_model
from otel_agentic.reports.doctor import read_traces
from otel_agentic.windows.model import JudgedByProbability
from tools.train_exact_judge import (
    FAILS,
    PAIRS,
    PASSES,
    HumanPair,
    Measured,
    blank_model,
    fit,
    measured,
    probabilities,
    read_pairs,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


Half = Literal["tuned", "held_out"]
WRITTEN: Final = Path(__file__).parents[1] / "tests" / "judges" / "exact_pairs.jsonl"
MISTAKES: Final = Path(__file__).parents[1] / "tests" / "judges" / "exact_mistakes.jsonl"
THRESHOLD: Final = 0.7
#: Number of tau-airline answers to use, evenly spread; more answers give the same result.
_TAU_ANSWERS: Final = 400
#: Shorter answers are greetings, which resemble each other.
_MIN_CHARACTERS: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """An answer to a question and whether it is right. `case` identifies repetitions; `about` is the origin of the answer."""

    question: Question
    right: bool
    case: str
    about: str


def written(half: Half) -> list[Pair]:
    """Return one half of the pairs that were written and labelled by hand."""
    rows = [json.loads(line) for line in WRITTEN.read_text(encoding="utf-8").splitlines()]
    return [
        Pair(
            question=_question(row["query"], row["expected"], row["answer"]),
            right=row["right"],
            case=f"{row['query']}\n{row['expected']}",
            about=row["kind"],
        )
        for row in rows
        if row["half"] == half
    ]


def of_captures(folder: Path) -> list[Pair]:
    """Return the recorded answers of the captures, paired with the expected answers of their own turn and of other turns."""
    pairs = {}
    for path in sorted(folder.glob("*/expected.json")):
        truth = _truth(path)
        recorded = {query: answer for query, answer in _answers(path.parent) if query in truth}
        for query, expected in truth.items():
            for other, answer in recorded.items():
                right = query == other
                if right or truth[other] != expected:
                    about = "its own turn" if right else "another turn"
                    pair = Pair(question=_question(query, expected, answer), right=right, case=query, about=about)
                    pairs[query, expected, answer] = pair
    return list(pairs.values())


def changed(answers: Iterable[tuple[str, str]]) -> Iterator[Pair]:
    """Yield pairs of real answers (from `(query, answer)`) and of their rule-based changes."""
    for query, answer in answers:
        for right, changes in ((True, CORRECT), (False, INCORRECT)):
            for about, change in changes.items():
                answer_changed = change(answer)
                if answer_changed is not None:
                    yield Pair(question=_question(query, answer, answer_changed), right=right, case=answer, about=about)


def tau_answers(folder: Path) -> list[tuple[str, str]]:
    """Return distinct (query, answer) of tau-airline, evenly spread."""
    query_of = {answer: query for query, answer in _answers(folder / "spans.jsonl.gz") if len(answer) > _MIN_CHARACTERS}
    every = max(1, len(query_of) // _TAU_ANSWERS)
    return [(query, answer) for answer, query in sorted(query_of.items())][::every]


def _truth(path: Path) -> dict[str, str]:
    """Return the expected answers of a capture by query, for queries that occur once."""
    turns = [
        turn
        for conversation in json.loads(path.read_text(encoding="utf-8"))["conversations"]
        for turn in conversation["turns"]
    ]
    queries = [turn["query"] for turn in turns]
    return {turn["query"]: turn["answer"] for turn in turns if turn["answer"] and queries.count(turn["query"]) == 1}


@cache
def _answers(path: Path) -> tuple[tuple[str, str], ...]:
    """Return (query, answer) of the turns that are rebuilt from spans."""
    rebuilt = read_traces(Settings(), [str(path)]).conversations
    turns = (turn for matched in rebuilt for turn in matched.conversation.turns)
    return tuple((turn.query, turn.answer) for turn in turns if turn.query and turn.answer)


def _question(query: str, expected: str, answer: str) -> Question:
    return Question(query=query, expected=expected, answer=answer, threshold=THRESHOLD)


# The human-judged pairs: the code below always refits the model without the pairs that it is measured on.

FOLDS: Final = 5
LENGTHS: Final = ((1, 3), (4, 10), (11, 25), (26, 60), (61, 10_000))
TURNS: Final = (3, 5, 10)
BANDS: Final = (0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.01)
#: Number of randomly composed conversations per row of the bias table.
_CONVERSATIONS: Final = 20_000
_SQUAD_ARTICLES: Final = re.compile(r"\b(?:a|an|the)\b")
#: Results of `exact-2` on the pairs written by hand: right pairs passed, right pairs, wrong pairs not passed, wrong pairs.
EXACT_2: Final = {
    "number": (12, 13, 10, 11), "money": (8, 9, 10, 10), "unit": (9, 9, 6, 6), "date": (8, 8, 9, 9),
    "identifier": (7, 8, 7, 7), "name": (8, 9, 7, 10), "yes_no": (10, 11, 9, 9), "reworded": (4, 11, 14, 15),
    "list": (7, 7, 7, 8), "hedged": (5, 5, 9, 9), "refusal": (0, 3, 3, 3), "long": (5, 5, 4, 6),
    "structured": (4, 4, 4, 5), "language": (8, 9, 9, 9), "off_topic": (2, 3, 5, 5),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedPairs:
    """Human-judged pairs with their feature rows, and their scores by models that were trained without them."""

    pairs: Sequence[HumanPair]
    data: Measured
    right: NDArray[np.bool_]
    system: NDArray[np.str_]
    group: NDArray[np.int64]

    @classmethod
    def of(cls, pairs: Sequence[HumanPair]) -> JudgedPairs:
        """Return the pairs with their features."""
        data = measured(pairs, blank_model())
        groups = {group: number for number, group in enumerate(dict.fromkeys(pair.group for pair in pairs))}
        return cls(
            pairs=pairs,
            data=data,
            right=data.right,
            system=np.array([pair.system for pair in pairs]),
            group=np.array([groups[pair.group] for pair in pairs]),
        )

    def held_out(self, part: NDArray[Any], *, one_accepted: bool = False) -> NDArray[np.float64]:
        """Return the score of each pair by a model that was trained without the fold of that pair."""
        scores = np.empty(len(self.pairs))
        for name in np.unique(part):
            weights, intercept = fit(self.data.of(part != name))
            held = self.data.of(part == name)
            scores[part == name] = probabilities(held.one_accepted() if one_accepted else held, weights, intercept)
        return scores


def kappa(verdicts: NDArray[np.bool_], right: NDArray[np.bool_]) -> float:
    """Return Cohen's kappa of two verdicts."""
    agreed = float((verdicts == right).mean())
    chance = float(verdicts.mean() * right.mean() + (1 - verdicts.mean()) * (1 - right.mean()))
    return (agreed - chance) / (1 - chance) if chance < 1 else 1.0


def decided(scores: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which scores are outside the range in which the judge is unsure."""
    return (scores < FAILS) | (scores >= PASSES)


def agreement(name: str, scores: NDArray[np.float64], right: NDArray[np.bool_]) -> str:
    """Return a row of the agreement table: decided pairs, then all pairs."""
    known = decided(scores)
    passed = scores >= PASSES
    forced = scores >= 0.5  # noqa: PLR2004 — the likelier verdict
    return (
        f"| {name} | {len(right):,} | {right.mean():.3f} | {known.mean():.3f} | {_share(right, passed)} | "
        f"{_share(~right, scores < FAILS)} | {kappa(passed[known], right[known]):.3f} | {(forced == right).mean():.3f} | "
        f"{_share(forced, right)} | {_share(~forced, ~right)} | {kappa(forced, right):.3f} |"
    )


def _share(of: NDArray[np.bool_], among: NDArray[np.bool_]) -> str:
    return f"{of[among].mean():.3f}" if among.any() else "—"


AGREEMENT_HEADER: Final = (
    "| pairs | number | right | decided | decided passes that are right | decided fails that are right | kappa, decided | "
    "accuracy, all | sensitivity, all | specificity, all | kappa, all |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
)


def rivals(pairs: Sequence[HumanPair]) -> dict[str, NDArray[np.bool_]]:
    """Return the verdicts of one-line judges; each uses the best match among all accepted answers."""
    passes: dict[str, list[bool]] = {}
    for pair in pairs:
        answer = _squad(pair.answer)
        rows = [_one_line_verdicts(_squad(text), answer) for text in pair.accepted]
        for name in rows[0]:
            passes.setdefault(name, []).append(any(row[name] for row in rows))
    return {name: np.array(values) for name, values in passes.items()}


def _squad(text: str) -> str:
    plain = "".join(mark for mark in text.lower() if mark.isalnum() or mark.isspace())
    return " ".join(_SQUAD_ARTICLES.sub(" ", plain).split())


def _one_line_verdicts(expected: str, answer: str) -> dict[str, bool]:
    own, other = Counter(expected.split()), Counter(answer.split())
    shared, size = (own & other).total(), own.total() + other.total()
    recall = shared / own.total() if own else 0.0
    return {
        "exact match (SQuAD)": expected == answer,
        "accepted answer contained": f" {expected} " in f" {answer} ",
        "F1 >= .5": bool(size) and 2 * shared / size >= 0.5,  # noqa: PLR2004
        "token recall >= .5": recall >= 0.5,  # noqa: PLR2004
        "rapidfuzz ratio >= 70": fuzz.ratio(expected, answer) >= 70,  # noqa: PLR2004
        "rapidfuzz partial_ratio >= 85": fuzz.partial_ratio(expected, answer) >= 85,  # noqa: PLR2004
        "rapidfuzz token_set_ratio >= 80": fuzz.token_set_ratio(expected, answer) >= 80,  # noqa: PLR2004
    }


def bias_row(name: str, scores: NDArray[np.float64], right: NDArray[np.bool_], turns: int, seed: int) -> str:
    """Return a row of the bias table: conversations of randomly drawn pairs, judged by people and by the judge."""
    drawn = np.random.default_rng(seed).integers(len(right), size=(_CONVERSATIONS, turns))
    people = float(right[drawn].all(axis=1).mean())
    known = decided(scores)[drawn].all(axis=1)
    passed = float(np.all(scores[drawn[known]] >= PASSES, axis=1).mean())
    rated = JudgedByProbability(
        n=len(drawn),
        probability=float(scores[drawn].prod(axis=1).sum()),
        evaluated=int(known.sum()),
        passed=round(passed * int(known.sum())),
    )
    return (
        f"| {name} | {turns} | {people:.3f} | {known.mean():.3f} | {passed:.3f} | {passed - people:+.3f} | "
        f"{rated.shift:+.3f} | {'no' if rated.withheld else 'yes'} |"
    )


def calibration(scores: NDArray[np.float64], right: NDArray[np.bool_]) -> Iterator[str]:
    """Yield the rows of the reliability table, and the Brier score."""
    for low, high in itertools.pairwise(BANDS):
        there = (scores >= low) & (scores < high)
        if there.any():
            yield f"| {low:.2f} to {min(high, 1.0):.2f} | {there.sum():,} | {scores[there].mean():.3f} | {right[there].mean():.3f} |"
    yield f"\nBrier score {((scores - right) ** 2).mean():.4f}, {(right.mean() * (1 - right.mean())):.4f} for the mean alone."


def systems(scores: NDArray[np.float64], pairs: JudgedPairs) -> Iterator[str]:
    """Yield the pass rate of each system by people and by the judge, and the rank correlation of the two."""
    names = sorted(set(pairs.system.tolist()))
    people = [float(pairs.right[pairs.system == name].mean()) for name in names]
    known = decided(scores)
    judge = [float((scores >= PASSES)[known & (pairs.system == name)].mean()) for name in names]
    for row in sorted(zip(people, judge, names, strict=True), reverse=True):
        yield f"| {row[2]} | {row[0]:.3f} | {row[1]:.3f} |"
    yield f"\nSpearman's rank correlation {spearmanr(people, judge).statistic:.2f}."


def groups_written() -> Iterator[str]:
    """Yield how many pairs written by hand pass, per kind, with the previous and the current judge."""
    counts: dict[str, Counter[str]] = {}
    pairs = [*written("tuned"), *written("held_out")]
    for pair in pairs:
        verdict, _ = _verdict(pair.question)
        counts.setdefault(pair.about, Counter())[f"{'right' if pair.right else 'wrong'} {verdict}"] += 1
    for kind, (passed, correct, passed_wrongly, incorrect) in EXACT_2.items():
        count = counts[kind]
        yield (
            f"| {kind} | {passed} of {correct} | {count['right pass']} | {count['right unsure']} | {count['right fail']} | "
            f"{incorrect - passed_wrongly} of {incorrect} | {count['wrong pass']} | {count['wrong unsure']} | {count['wrong fail']} |"
        )


def cost(pairs: Sequence[HumanPair]) -> Iterator[str]:
    """Yield the CPU time per pair by answer length, with one accepted answer and with all accepted answers."""
    judge = ExactJudge()
    for name, characters, every in (
        ("as recorded", 0, 10),
        ("of 3,000 characters", 3_000, 30),
        ("of 50,000 characters", 50_000, 300),
    ):
        for most in (1, None):
            questions = [
                Question(
                    query=pair.question,
                    expected=pair.accepted[0],
                    also_accepted=pair.accepted[1:most],
                    answer=_lengthened(pair.answer, characters) if characters else pair.answer,
                    threshold=THRESHOLD,
                )
                for pair in pairs[::every]
            ]
            # The first round parses queries and accepted answers; further attempts at a case use the cached result.
            times = in_turns({"judge": partial(judge.judge, questions)}, rounds=4)["judge"]
            accepted = sum(len(question.accepted_answers) for question in questions) / len(questions)
            first, again = (1e3 * spent_s / len(questions) for spent_s in (times[0], min(times[1:])))
            yield f"| {name} | {accepted:.1f} | {first:.2f} ms | {again:.2f} ms |"


def _lengthened(text: str, characters: int) -> str:
    return (text.strip() + " " + "It was also reported in several other places at that time. " * (characters // 50))[
        :characters
    ]


def _verdict(question: Question) -> tuple[str, float]:
    """Return the verdict of the judge, and its score."""
    (verdict,) = ExactJudge().judge([question])
    if isinstance(verdict, JudgeFailure):
        raise TypeError(verdict.message)
    return "unsure" if verdict.unsure else "pass" if verdict.score >= THRESHOLD else "fail", verdict.score


def mistakes() -> Iterator[str]:
    """Yield the current verdicts on twenty kinds of mistakes of `exact-2`."""
    for line in MISTAKES.read_text(encoding="utf-8").strip().split("\n"):
        row = json.loads(line)
        verdict, score = _verdict(_question(row["query"], row["expected"], row["answer"]))
        now = (
            "unsure now"
            if verdict == "unsure"
            else "right now"
            if (verdict == "pass") == row["right"]
            else "**still wrong**"
        )
        yield (
            f"| {row['number']} | {row['expected']} | {row['answer']} | {'right' if row['right'] else 'wrong'} | "
            f"{row['before']} | {verdict} ({score:.2f}) | {now} |"
        )


def main() -> None:
    """Print the tables of benchmarks/results/exact_judge.md that use human-judged answers."""
    human = JudgedPairs.of(read_pairs(PAIRS))
    right, system = human.right, human.system
    folds = human.group * 7919 % FOLDS
    scores, single = human.held_out(folds), human.held_out(folds, one_accepted=True)
    unseen = human.held_out(system)
    shipped = shipped_scores(human)
    print(f"Held out by question ({FOLDS} parts)\n\n{AGREEMENT_HEADER}")
    print(agreement("**all**", scores, right))
    for name in sorted(set(system.tolist())):
        print(agreement(f"system {name}", scores[system == name], right[system == name]))
    lengths = np.array([len(pair.answer.split()) for pair in human.pairs])
    for low, high in LENGTHS:
        there = (lengths >= low) & (lengths <= high)
        print(
            agreement(
                f"answers of {low} to {high} words" if high < LENGTHS[-1][1] else f"answers of {low} words and more",
                scores[there],
                right[there],
            )
        )
    few = np.array([len(pair.accepted) == 1 for pair in human.pairs])
    print(agreement("questions with one accepted answer", scores[few], right[few]))
    print(agreement("all, judged by one accepted answer alone", single, right))
    for name in sorted(set(system.tolist())):
        print(agreement(f"{name}, model trained without it", unseen[system == name], right[system == name]))
    print(agreement("shipped coefficients (trained on these pairs)", shipped, right))
    print("\n| one-line judges | accuracy | sensitivity | specificity | kappa |\n|---|---:|---:|---:|---:|")
    for name, passes in rivals(human.pairs).items():
        print(
            f"| {name} | {(passes == right).mean():.3f} | {_share(passes, right)} | {_share(~passes, ~right)} | {kappa(passes, right):.3f} |"
        )
    print("\n| probability | pairs | mean probability | right |\n|---|---:|---:|---:|")
    print("\n".join(calibration(scores, right)))
    agreed = shipped_model().agreed
    ruled = scores == agreed
    print(
        f"\nPairs decided by the rules for stated facts and for yes and no, at a set probability of {agreed}: "
        f"{ruled.sum():,}, right {right[ruled].sum():,}."
    )
    print("\n| system | people | judge |\n|---|---:|---:|")
    print("\n".join(systems(scores, human)))
    print(
        "\n| conversations of | turns | people pass | evaluated | judge passes | bias | estimated bias | may claim a tier |\n"
        "|---|---:|---:|---:|---:|---:|---:|---|"
    )
    for seed, name in enumerate(["all systems", *sorted(set(system.tolist())), "all, one accepted answer"]):
        there = np.isin(system, [name]) | name.startswith("all")
        by = single if name.endswith("answer") else scores
        for turns in TURNS:
            print(bias_row(name, by[there], right[there], turns, seed))
    print(
        "\n| written by hand | right, exact-2 passes | passes | unsure | fails | wrong, exact-2 passes | passes | unsure | fails |\n"
        "|---|---|---:|---:|---:|---|---:|---:|---:|"
    )
    print("\n".join(groups_written()))
    print("\n| mistake | expected | answer | it is | exact-2 | exact-3 | |\n|---|---|---|---|---|---|---|")
    print("\n".join(mistakes()))
    print("\n| answers | accepted answers per pair | CPU time per pair, first | again |\n|---|---:|---:|---:|")
    print("\n".join(cost(human.pairs)))


def shipped_scores(human: JudgedPairs) -> NDArray[np.float64]:
    """Return the scores of the shipped model."""
    model = shipped_model()
    return probabilities(human.data, np.array(model.weights), model.intercept)


if __name__ == "__main__":
    main()
