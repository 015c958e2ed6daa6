"""Time Fair Forge's own tool scoring in its own interpreter: `bench_tools.py` runs this file and exchanges lines with it.

The script reads a JSON list of [agentic, ground_truth_agentic] and writes the indices of the turns that it can score. Then, for
each number of passes that it reads, it scores all of them that many times and writes the CPU seconds. It imports nothing from
otel-agentic, because the two packages may need different environments.
"""

from __future__ import annotations

import json
import sys
import time
from importlib.metadata import version


def main() -> None:
    # Not installed in the environment of the type checker, and possibly not here.
    from fair_forge.metrics.agentic import Agentic  # type: ignore[import-not-found]  # noqa: PLC0415

    metric = object.__new__(Agentic)  # its constructor needs a retriever and a model, which tool scoring never uses
    metric.tool_threshold = 1.0
    metric.tool_weights = dict.fromkeys(("selection", "parameters", "sequence", "utilization"), 0.25)
    score = metric._evaluate_tool_correctness
    turns = json.loads(sys.stdin.readline())
    scored = [number for number, turn in enumerate(turns) if can_score(score, turn)]
    tell([version("alquimia-fair-forge"), scored])
    chosen = [turns[number] for number in json.loads(sys.stdin.readline())]
    for line in sys.stdin:
        began = time.process_time()
        for _ in range(int(line)):
            for agentic, ground_truth in chosen:
                score(agentic, ground_truth)
        tell(time.process_time() - began)


def can_score(score: object, turn: list[object]) -> bool:
    try:
        score(*turn)  # type: ignore[operator]
    except Exception:  # noqa: BLE001 — any error on malformed turns
        return False
    return True


def tell(answer: object) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
