"""Compare the speed of tool scoring in turns per CPU-second: our scorer, Fair Forge, and a plain Python scorer.

The scorers run in alternation on the same turns. Our scorer is `score_calls`: four dimensions and the faults as data, without
sentences and without the search for used results. The workloads are the cases of the parity folder (else generated cases), turns
with one call of each tool, and turns like those of an airline agent. `make peers` installs Fair Forge.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from benchmarks.cpu_time import timed
from benchmarks.peers import FairForge, Turn, interpreter
from otel_agentic.config import ScoringSettings
from otel_agentic.conversations.model import ToolCall
from otel_agentic.scoring import ActualCall, ToolRules
from otel_agentic.scoring.compile import CompiledExpectation, compiled
from otel_agentic.scoring.dimensions import score_calls
from otel_agentic.truth import Case, ToolExpectation

#: Promised ratio of our speed to that of Fair Forge.
PROMISED_RATIO: Final = 1.0
ROUNDS: Final = 12
#: Passes before the measurement, so that one-time imports and compilation do not count.
WARM_UP: Final = 5
#: A pass is repeated until a round takes about this many CPU seconds.
ROUND_S: Final = 0.15
RULES: Final = ToolRules.of(Case(case_id="benchmark", effects={"get_*": "read"}), ScoringSettings())
HOW_TO: Final = "Fair Forge is not measured; `make peers` installs it."


class Ours(NamedTuple):
    """A turn in the form that our scorer accepts."""

    expectation: CompiledExpectation
    calls: tuple[ActualCall, ...]


def main() -> None:
    """Print the turns per CPU-second of each scorer on each workload, and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of each scorer; the best counts")
    options = parser.parse_args()
    missing = False
    for name, turns in workloads().items():
        theirs = FairForge.start(interpreter("fair-forge"), turns)
        missing = missing or theirs is None
        show(name, turns, theirs, options.rounds)
    if missing:
        print(HOW_TO)


def workloads() -> dict[str, list[Turn]]:
    """Return turns in the format of Fair Forge's datasets, by workload."""
    parity = parity_turns()
    return {
        **({"parity cases": parity} if parity else {"made-up cases": list(made_up_turns(160))}),
        "one call of each tool": list(plain_turns(200)),
        "like tau-airline": list(airline_turns(200)),
    }


def show(name: str, turns: list[Turn], theirs: FairForge | None, rounds: int) -> None:
    """Time all scorers in alternation and print their speed; turns that one of them rejects are skipped for all."""
    fit = [number for number, turn in enumerate(turns) if ours_of(turn) is not None]
    if theirs is not None:
        fit = theirs.choose(fit)
    chosen = [turns[number] for number in fit]
    ours = [scored for scored in map(ours_of, chosen) if scored is not None]
    runs: dict[str, Callable[[int], float]] = {"ours": partial(passes_s, partial(score_all, ours))}
    if theirs is not None:
        runs[f"fair-forge {theirs.version}"] = theirs.run
    runs["plain Python"] = partial(passes_s, partial(score_plainly, chosen))
    best = best_of(runs, rounds)
    print(f"{name}: {len(chosen)} of {len(turns)} turns that all can score")
    for scorer, taken_s in best.items():
        print(f"  {scorer:<18} {len(chosen) / taken_s:10,.0f} turns per CPU-second   x {best['ours'] / taken_s:5.2f}")
    if theirs is not None:
        ratio = best[f"fair-forge {theirs.version}"] / best["ours"]
        print(f"  {'ours / fair-forge':<18} {ratio:10.2f} (promised: {PROMISED_RATIO})")


def best_of(runs: dict[str, Callable[[int], float]], rounds: int) -> dict[str, float]:
    """Return the minimum CPU time per pass of each scorer, in seconds; scorers alternate, so that machine load affects all equally."""
    for run in runs.values():
        run(WARM_UP)
    passes = {name: max(1, round(ROUND_S / max(run(1), 1e-6))) for name, run in runs.items()}
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            best[name] = min(best[name], run(passes[name]) / passes[name])
    return best


def passes_s(work: Callable[[], None], passes: int) -> float:
    """Return the CPU seconds of a number of passes."""
    with timed() as timer:
        for _ in range(passes):
            work()
    return timer.cpu_s


def score_all(turns: Sequence[Ours]) -> None:
    for expectation, calls in turns:
        score_calls(expectation, calls, turn_index=0)


def score_plainly(turns: Sequence[Turn]) -> None:
    for agentic, ground_truth in turns:
        plain_score(agentic, ground_truth)


def plain_score(agentic: dict[str, Any], ground_truth: dict[str, Any]) -> dict[str, float | bool]:
    """Return the four dimensions by the simplest method: calls with the same name are paired in order."""
    actual = agentic.get("tools_used", [])
    expected = ground_truth.get("expected_tools", [])
    left: dict[str, list[dict[str, Any]]] = {}
    for call in actual:
        left.setdefault(call["tool_name"], []).append(call)
    paired: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for call in expected:
        there = left.get(call["tool_name"])
        if there:
            paired.append((call, there.pop(0)))
    parameters = steps = 0.0
    for call, other in paired:
        parameters_expected, parameters_used = call.get("parameters", {}), other.get("parameters", {})
        keys = parameters_expected.keys() | parameters_used.keys()
        parameters += (
            sum(parameters_expected.get(key) == parameters_used.get(key) for key in keys) / len(keys) if keys else 1.0
        )
        steps += call.get("step") == other.get("step")
    count = len(expected) or 1
    union = len(expected) + len(actual) - len(paired)
    scores = {
        "selection": len(paired) / union if union else 1.0,
        "parameters": parameters / count,
        "sequence": steps / count if ground_truth.get("tool_sequence_matters", True) else 1.0,
        "utilization": float(bool(agentic.get("final_answer_uses_tools", False))),
    }
    overall = sum(scores.values()) / 4
    return {**scores, "overall": overall, "is_correct": overall >= 1.0}


def ours_of(turn: Turn) -> Ours | None:
    """Return a turn in the form that our scorer accepts, or None if its calls are malformed, as in some parity cases."""
    agentic, ground_truth = turn
    try:
        calls = [actual_call_of(call, position, agentic) for position, call in enumerate(agentic.get("tools_used", []))]
        expected = [
            {"tool_name": call["tool_name"], "parameters": call.get("parameters", {}), "step": call.get("step")}
            for call in ground_truth.get("expected_tools", [])
        ]
        order = "relative" if ground_truth.get("tool_sequence_matters", True) else "any"
        fields = {"calls": expected, "order": order, "extra_calls": ground_truth.get("extra_calls", "penalize")}
        expectation = ToolExpectation.model_validate_json(json.dumps(fields))
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return Ours(compiled(expectation, RULES), tuple(sorted(calls, key=lambda call: call.location)))


def actual_call_of(call: dict[str, Any], position: int, agentic: dict[str, Any]) -> ActualCall:
    tool_call = ToolCall(
        name=call["tool_name"],
        kind="tool",
        step=call.get("step") or position + 1,
        position=position,
        arguments={**call.get("parameters", {})},
        result=None,
        result_captured=True,
        error=None,
        call_id=None,
        trace_id="0" * 32,
        span_id=None,
        parent_span_id=None,
        agent_name=None,
        source="span",
        used_flag=bool(agentic.get("final_answer_uses_tools", False)),
    )
    return ActualCall(turn_index=0, call=tool_call)


def parity_turns() -> list[Turn]:
    """Return the parity cases; empty if the folder does not exist."""
    shared = Path(os.environ.get("OTEL_AGENTIC_SHARED", Path(__file__).parents[2] / "shared"))
    path = shared / "parity" / "tool_correctness.json"
    if not path.exists():
        return []
    return [(case["agentic"], case["ground_truth_agentic"]) for case in json.loads(path.read_text())["cases"]]


def made_up_turns(count: int) -> Iterator[Turn]:
    """Yield turns with up to four calls of four tools, with every kind of fault."""
    random = Random(1)  # noqa: S311 — the same turns every time
    values = (0, 1, 2.5, True, None, "a", "1", [1, 2], {"k": "v"})
    for _ in range(count):
        expected = [
            call(random.choice("abcd"), {key: random.choice(values) for key in random.sample("xyz", 2)}, step)
            for step in range(1, random.randint(1, 4) + 1)
        ]
        actual = [dict(call) for call in expected]
        change = random.choice(("nothing", "parameter", "missing", "extra", "order"))
        if change == "parameter":
            actual[-1] = {**actual[-1], "parameters": {**actual[-1]["parameters"], "x": "wrong"}}
        elif change == "missing":
            actual.pop()
        elif change == "extra":
            actual.append(call("e", {}, len(actual) + 1))
        elif change == "order":
            actual = [{**call, "step": step} for step, call in enumerate(reversed(actual), start=1)]
        yield turn_of(actual, expected, ordered=random.choice((True, False)), used=random.choice((True, True, False)))


def plain_turns(count: int) -> Iterator[Turn]:
    """Yield turns with three calls of one tool each; every other turn is right, the rest have a wrong parameter."""
    for number in range(count):
        expected = [
            call("find_flights", {"origin": "ZRH", "destination": "JFK", "date": f"2026-05-{number % 28 + 1:02}"}, 1),
            call("book_flight", {"flight": f"LX{number}", "seats": 2, "cabin": "economy"}, 2),
            call("send_mail", {"to": f"ada{number}@example.com", "subject": "Your flight"}, 3),
        ]
        actual = [dict(call) for call in expected]
        if number % 2:
            actual[1] = {**actual[1], "parameters": {**actual[1]["parameters"], "seats": 3}}
        yield turn_of(actual, expected, ordered=True, used=True)


def airline_turns(count: int) -> Iterator[Turn]:
    """Yield turns with look-ups, which are optional, and one to four changes, often by the same tool."""
    random = Random(2)  # noqa: S311 — the same turns every time
    for number in range(count):
        looks = [call("get_reservation_details", {"reservation_id": f"R{number}{i}"}, i + 1) for i in range(3)]
        expected = [
            call("cancel_reservation", {"reservation_id": f"R{number}{position}"}, position + 4)
            if random.choice((True, False))
            else call("update_reservation_flights", flights(number, position), position + 4)
            for position in range(random.randint(1, 4))
        ]
        actual = [*looks, *map(dict, expected)]
        if random.choice((True, False)):
            actual[-1] = {**actual[-1], "parameters": {**actual[-1]["parameters"], "reservation_id": "another"}}
        agentic, ground_truth = turn_of(actual, expected, ordered=False, used=True)
        yield agentic, {**ground_truth, "extra_calls": {"read": "allow", "write": "forbid"}}


def flights(number: int, position: int) -> dict[str, Any]:
    legs = [{"flight_number": f"HAT{number + leg:03}", "date": f"2024-05-{position + leg + 10}"} for leg in range(2)]
    return {
        "reservation_id": f"R{number}{position}",
        "cabin": "economy",
        "flights": legs,
        "payment_id": f"card_{number}",
    }


def call(tool_name: str, parameters: dict[str, Any], step: int) -> dict[str, Any]:
    return {"tool_name": tool_name, "parameters": parameters, "step": step}


def turn_of(actual: list[dict[str, Any]], expected: list[dict[str, Any]], *, ordered: bool, used: bool) -> Turn:
    return (
        {"tools_used": actual, "final_answer_uses_tools": used},
        {"expected_tools": expected, "tool_sequence_matters": ordered},
    )


if __name__ == "__main__":
    main()
