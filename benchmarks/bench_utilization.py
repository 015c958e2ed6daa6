"""Use of results: how often the data tell, whether a contradiction is found, and what the largest results cost.

Reads tau-airline from the folder of shared data, which has no annotation of use. So contradictions are made: where an answer
states the value of a key of a result, that value is replaced by another one of its kind.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.cpu_time import cpu_of
from otel_agentic.config import Settings
from otel_agentic.judges.facts import extract
from otel_agentic.pipeline.inspect import read_traces
from otel_agentic.scoring.made import scope_of
from otel_agentic.scoring.results import key_text, values_of
from otel_agentic.scoring.utilization import Texts, Use, use_of
from otel_agentic.testing import tool_call, turn
from tests.shared import SHARED, why_absent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_agentic.conversations.model import ToolCall, Turn

DATA = SHARED / "data" / "tau-airline" / "spans.jsonl.gz"
LARGE = 1_000_000


def main() -> None:
    """Print what is known of real calls, what of made contradictions is found, and times of large ones."""
    why = why_absent(DATA.parent)
    if why is None:
        turns = [
            turn for made in read_traces(Settings(), [str(DATA)]).conversations for turn in made.conversation.turns
        ]
        _print("real calls, each against its own turn", [use for one in turns for use in _uses(one)])
        _print("one stated value replaced", [use for one in turns for wrong in _replaced(one) for use in _uses(wrong)])
    else:
        print(why)
    for name, result, answer in _large():
        looked = turn("Please look.", answer, tool_call("look", {}, result=result))
        print(f"{name}: {1e3 * cpu_of(partial(_uses, looked)):.0f} ms CPU")


def _print(what: str, uses: list[Use]) -> None:
    words = {1.0: "used", 0.0: "unused", None: "unknown"}
    counts = Counter(words[use.score] for use in uses)
    shares = ", ".join(f"{count:,} {word} ({count / len(uses):.0%})" for word, count in counts.most_common())
    print(f"{what}: {len(uses):,} calls, {shares}")


def _uses(made: Turn) -> list[Use]:
    scope = scope_of([made], turn_index=made.index)
    texts = Texts(scope)
    worked = [one for one in scope.calls if one.call.error is None]
    return [use_of(one, [other for other in worked if other.place > one.place], texts) for one in worked]


def _replaced(made: Turn) -> Iterator[Turn]:
    """Yield turns of one call whose answer is a line that states another value than the result of the call."""
    rng = random.Random(5)  # noqa: S311 — values of a benchmark
    for call in made.calls:
        for value in values_of(call.result).values if made.answer and call.error is None else ():
            name = key_text(value.key) if value.alone else None
            shown = str(value.value)
            if name is None or not any(map(str.isdigit, shown)):
                continue
            stated = re.compile(rf"(?i)\b{re.escape(name)}\b[\s*:]*(?:is|of)?[\s*:$]*{re.escape(shown)}\b")
            line = next((line for line in (made.answer or "").splitlines() if stated.search(line)), None)
            if line is not None:
                yield _wrong(made, call, line, shown, rng)


def _wrong(made: Turn, call: ToolCall, line: str, shown: str, rng: random.Random) -> Turn:
    # Another leading digit, so that no rounding makes it right again.
    other = re.sub(r"\d", lambda digit: rng.choice("123456789".replace(digit[0], "")), shown)
    return replace(
        made, query="Please tell me.", answer=line.replace(shown, other), calls=(replace(call, arguments={}),)
    )


def _large() -> Iterator[tuple[str, Any, str]]:
    rows = [
        {"flight": f"HAT{place:05}", "price": place + 0.37, "from": "JFK", "note": "as usual"}
        for place in range(16_000)
    ]
    words = "Nothing of that sort is here. "
    numbers = " ".join(f"item {place} costs ${place}.13," for place in range(60_000))
    result = json.dumps(rows)[:-2] + "}]"
    assert len(extract(numbers[:100]).found) > 1  # the reader of facts is warm
    yield "1 MB of JSON, a short answer", result, words
    yield "1 MB of JSON, 1 MB of words", result, words * (LARGE // len(words))
    yield "1 MB of JSON, 1 MB of numbers", result, numbers[:LARGE]
    yield "1 MB of prose, 1 MB of numbers", "A room in Bern costs $240, says Anna. " * (LARGE // 38), numbers[:LARGE]


if __name__ == "__main__":
    main()
