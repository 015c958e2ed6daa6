"""Measure the use of results: how often it is known, whether it separates successes from failures, and the cost of large results.

Reads tau-airline from the shared data folder. It has no annotation of use, so the benchmark constructs contradictions: if an
answer states the value of a key of a result, that value is replaced by a different value of the same type.

The area under the ROC curve (AUC) measures whether a definition of utilization separates successes from failures: over all
conversations, and over pairs of conversations with the same number of calls, since failed conversations are longer.
Intervals resample cases. The best definition is chosen on one half of the cases and measured on the other half.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from benchmarks.cpu_time import cpu_of
from benchmarks.utilization_candidates import CONTROL, FROM_EXPECTED, PARAMETERS, candidates
from otel_agentic.config import ScoringSettings, Settings
from otel_agentic.evaluators.base import Subject
from otel_agentic.judges import ExactJudge
from otel_agentic.judges.exact.facts import extract
from otel_agentic.reports.doctor import read_traces
from otel_agentic.scoring import MatchedConversation, score_conversations
from otel_agentic.scoring.scope import scope_of
from otel_agentic.scoring.utilization import Use, use_of
from otel_agentic.scoring.values import Texts, key_text, values_of
from otel_agentic.testing import tool_call, turn
from otel_agentic.truth import CaseIndex, read_cases, read_labels
from tests.shared import SHARED, why_absent

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from otel_agentic.conversations.model import Conversation, ToolCall, Turn

DATA = SHARED / "data" / "tau-airline" / "spans.jsonl.gz"
LARGE = 1_000_000
_RESAMPLES: Final = 2_000


def main() -> None:
    """Print how often the use of real calls is known, how many constructed contradictions are found, and times for large results."""
    why = why_absent(DATA.parent)
    if why is None:
        conversations = [assembled.conversation for assembled in read_traces(Settings(), [str(DATA)]).conversations]
        turns = [turn for conversation in conversations for turn in conversation.turns]
        _print(
            "real calls, each compared with its own turn",
            [use for turn in turns for use in _uses(turn)],
        )
        _print(
            "one stated value replaced",
            [use for turn in turns for altered in _replaced(turn) for use in _uses(altered)],
        )
        _print_separation(conversations)
    else:
        print(why)
    for name, result, answer in _large():
        looked = turn("Please look.", answer, tool_call("look", {}, result=result))
        print(f"{name}: {1e3 * cpu_of(partial(_uses, looked)):.0f} ms CPU")


def _print(what: str, uses: list[Use]) -> None:
    words = {1.0: "used", 0.0: "unused", None: "unknown"}
    counts = Counter(words[use.score] for use in uses)
    shares = ", ".join(f"{count:,} {verdict} ({count / len(uses):.0%})" for verdict, count in counts.most_common())
    print(f"{what}: {len(uses):,} calls, {shares}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A labelled conversation and its value under each definition."""

    case_id: str
    passed: bool
    calls: int
    values: Mapping[str, float | None]


def _print_separation(conversations: Sequence[Conversation]) -> None:
    rows = _rows(conversations)
    print("\ndefinition | conversations | AUC | AUC, same number of calls | mean of successes | mean of failures")
    for name in rows[0].values:
        known = [row for row in rows if row.values[name] is not None]
        passed, failed = (np.mean([row.values[name] for row in known if row.passed is side]) for side in (True, False))
        overall, stratified = _auc_with_interval(known, name)
        print(f"{name} | {len(known)} | {overall} | {stratified} | {passed:.2f} | {failed:.2f}")
    names = [name for name in rows[0].values if name not in {FROM_EXPECTED, PARAMETERS, CONTROL}]
    halves = [[row for row in rows if int(row.case_id.rpartition("-")[2]) % 2 == half] for half in (0, 1)]
    for chosen_on, measured_on in (halves, halves[::-1]):
        best = max(names, key=lambda name: _auc([row for row in chosen_on if row.values[name] is not None], name)[0])
        overall, stratified = _auc_with_interval([row for row in measured_on if row.values[best] is not None], best)
        print(f"best on one half of the cases: {best}; on the other half {overall}, same number of calls {stratified}")


def _rows(conversations: Sequence[Conversation]) -> list[_Row]:
    labels = read_labels(DATA.parent / "labels.csv").labels
    index = CaseIndex(read_cases(DATA.parent / "cases.jsonl").require())
    matched = [
        MatchedConversation(conversation=conversation, match=index.match(conversation))
        for conversation in conversations
    ]
    settings = ScoringSettings()
    rows = []
    for item, score in zip(matched, score_conversations(matched, judge=ExactJudge(), settings=settings), strict=True):
        case, passed = item.match.case, labels[item.conversation.conversation_id].verdict
        if case is not None and passed is not None:
            subject = Subject(conversation=item.conversation, case=case, score=score, aligned={}, settings=settings)
            calls = sum(len(turn.calls) for turn in item.conversation.turns)
            rows.append(_Row(case_id=case.case_id, passed=passed, calls=calls, values=candidates(subject, case)))
    return rows


def _auc_with_interval(rows: Sequence[_Row], name: str) -> tuple[str, str]:
    """Return the AUC over all pairs and over pairs with the same number of calls, with intervals."""
    overall, stratified = (
        "{:.3f} [{:.3f}, {:.3f}]".format(*_auc(rows, name, same_calls=same)) for same in (False, True)
    )
    return overall, stratified


def _auc(rows: Sequence[_Row], name: str, *, same_calls: bool = False) -> tuple[float, float, float]:
    """Return the AUC of a definition, and its 95 % interval over resampled cases."""
    index_of_case = {case_id: index for index, case_id in enumerate(sorted({row.case_id for row in rows}))}
    sides = [[row for row in rows if row.passed is passed] for passed in (True, False)]
    good, bad = (np.array([row.values[name] for row in side]) for side in sides)
    of_case = [np.array([index_of_case[row.case_id] for row in side]) for side in sides]
    wins = (good[:, None] > bad) + 0.5 * (good[:, None] == bad)
    pairs = np.ones_like(wins)
    if same_calls:
        pairs = np.array(
            [[positive.calls == negative.calls for negative in sides[1]] for positive in sides[0]], dtype=float
        )

    def at(weights: NDArray[np.float64]) -> float:
        weighted = pairs * np.outer(weights[of_case[0]], weights[of_case[1]])
        total = weighted.sum()
        return float((wins * weighted).sum() / total) if total else float("nan")

    rng = np.random.default_rng(7)
    draws = rng.multinomial(len(index_of_case), np.full(len(index_of_case), 1 / len(index_of_case)), size=_RESAMPLES)
    low, high = np.nanquantile([at(draw.astype(float)) for draw in draws], [0.025, 0.975])
    return at(np.ones(len(index_of_case))), float(low), float(high)


def _uses(turn: Turn) -> list[Use]:
    scope = scope_of([turn], turn_index=turn.index)
    texts = Texts(scope)
    worked = [call for call in scope.calls if call.call.error is None]
    return [use_of(call, [other for other in worked if other.location > call.location], texts) for call in worked]


def _replaced(turn: Turn) -> Iterator[Turn]:
    """Yield turns with one call whose answer is a line that contradicts the result of the call."""
    rng = random.Random(5)  # noqa: S311 — values of a benchmark
    for call in turn.calls:
        for value in values_of(call.result).values if turn.answer and call.error is None else ():
            name = key_text(value.key) if value.alone else None
            text = str(value.value)
            if name is None or not any(map(str.isdigit, text)):
                continue
            stated = re.compile(rf"(?i)\b{re.escape(name)}\b[\s*:]*(?:is|of)?[\s*:$]*{re.escape(text)}\b")
            line = next((line for line in (turn.answer or "").splitlines() if stated.search(line)), None)
            if line is not None:
                yield _altered(turn, call, line, text, rng)


def _altered(turn: Turn, call: ToolCall, line: str, text: str, rng: random.Random) -> Turn:
    # A different leading digit, so that no rounding makes the value right again.
    other = re.sub(r"\d", lambda digit: rng.choice("123456789".replace(digit[0], "")), text)
    return replace(
        turn, query="Please tell me.", answer=line.replace(text, other), calls=(replace(call, arguments={}),)
    )


def _large() -> Iterator[tuple[str, Any, str]]:
    rows = [
        {"flight": f"HAT{index:05}", "price": index + 0.37, "from": "JFK", "note": "as usual"}
        for index in range(16_000)
    ]
    words = "Nothing of that sort is here. "
    numbers = " ".join(f"item {index} costs ${index}.13," for index in range(60_000))
    result = json.dumps(rows)[:-2] + "}]"
    assert len(extract(numbers[:100]).all) > 1  # warm up the fact reader
    yield "1 MB of JSON, a short answer", result, words
    yield "1 MB of JSON, 1 MB of words", result, words * (LARGE // len(words))
    yield "1 MB of JSON, 1 MB of numbers", result, numbers[:LARGE]
    yield "1 MB of prose, 1 MB of numbers", "A room in Bern costs $240, Anna reports. " * (LARGE // 38), numbers[:LARGE]


if __name__ == "__main__":
    main()
