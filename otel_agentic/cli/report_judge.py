"""The sentences about who judged the answers behind the rates, and how far that judge is to be trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_agentic.cli.text import interval, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def judge_notes(groups: Sequence[dict[str, Any]]) -> list[str]:
    """Return a line for each judge behind the groups, and one where scores of several stand side by side."""
    judges = [judge for group in groups if (judge := group.get("judge")) is not None]
    lines = dict.fromkeys(line for judge in judges for line in _told(judge))
    return list(lines)


def _told(judge: dict[str, Any]) -> Iterator[str]:
    model = f" ({judge['model']})" if judge["model"] else ""
    name = f"answers judged by {judge['name']}{model}"
    calibration = judge["calibration"]
    if calibration is None:
        yield f"{name}, not held against people yet: `otel-agentic judge calibrate --labels CSV` tells how far it agrees with them"
    else:
        yield f"{name}: {_agreement(calibration)}"
        if not calibration["same_evaluation"]:
            yield (
                f"warning: {judge['name']} was held against people under another evaluator version; cases, labels or "
                "settings changed since"
            )
    if judge["others"]:
        yield (
            f"warning: other scores come from {', '.join(judge['others'])}; `otel-agentic evaluate` over all of them makes "
            "them comparable"
        )


def _agreement(calibration: dict[str, Any]) -> str:
    parts = [
        f"{interval(found['agreement'])} on {plural(found['n'], target)}{_beyond_chance(found)}{_without(found)}"
        for target in ("turn", "conversation")
        if (found := calibration[target]) is not None and found["n"]
    ]
    if not parts:
        return "held against people, but it gave no verdict on what they labelled"
    sample = "" if calibration["random_sample"] else "; the labels are no random sample"
    return f"agreement with people {', '.join(parts)}{sample}"


def _without(found: dict[str, Any]) -> str:
    """Return how many of them the judge had no part in, where tool calls, outputs or missing turns decided."""
    without = found["n"] - found["judged"]
    return f", {without:,} of them decided without a judge" if without else ""


def _beyond_chance(found: dict[str, Any]) -> str:
    return "" if found["kappa"]["value"] is None else f" (kappa {interval(found['kappa'])})"
