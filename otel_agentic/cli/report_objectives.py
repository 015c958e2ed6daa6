"""The sentences about objectives in a report: which are broken, what the evidence is, and how far an alarm can be trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_agentic.cli.tables import told_apart
from otel_agentic.cli.text import plural, ratio

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_KEYS: Final = ("agent", "agent_version", "environment", "service")
#: What counts once.
_BLOCKS: Final = {
    "auto": "runs of a user or session, else hours",
    "user": "runs of a user, else hours",
    "session": "runs of a session, else hours",
    "hour": "hours",
}
#: The largest e-value that is told as a number.
_LARGEST: Final = 1e300


def objective_notes(objectives: Sequence[dict[str, Any]]) -> list[str]:
    """Return a line for each objective of a report, and one more where its pass rate fell.

    Args:
        objectives: as they stand in the report; none where none is set.
    """
    names, _ = told_apart(objectives, _KEYS)
    lines = []
    for found in objectives:
        group = " ".join(str(found[name]) for name in names if found[name])
        label = f"{group}: {found['objective']}" if group else found["objective"]
        lines += [f"{label}: {sentence}" for sentence in _sentences(found)]
    return [*lines, *_not_proven(objectives)]


def _not_proven(objectives: Sequence[dict[str, Any]]) -> list[str]:
    if all(found["alarm"] or not found["n"] for found in objectives):
        return []
    return ["no alarm does not prove that an objective is kept; a lower bound of pass^k at or above the target does"]


def _sentences(found: dict[str, Any]) -> Iterator[str]:
    newer = f"; {plural(found['pending'], 'newer one')} not final yet" if found["pending"] else ""
    if not found["n"]:
        yield f"nothing to say, for no conversation is final yet{newer.replace('newer one', 'conversation')}"
        return
    by_case = " by case" if found["method"] == "per_case" else ""
    counted = plural(found["n"], "conversation")
    if found["block"] != "none":
        counted += f", counted as {plural(found['blocks'], 'block')} ({_BLOCKS[found['block']]})"
    evidence = f"e-value{by_case} {_number(found['e_value'])} after {counted}"
    yield f"{_verdict(found, evidence)}{newer}"
    if found["changed_at"] is not None:
        yield _changed(found)


def _verdict(found: dict[str, Any], evidence: str) -> str:
    alarm = f"{1 / found['alpha']:.4g}"
    if found["alarm"]:
        trust = f"an alarm at {alarm} is false in at most {100 * found['alpha']:.3g} % of agents, ever"
        since = f"; reached {_time(found['alarmed_at'])}"
        if found["e_value"] * found["alpha"] >= 1:
            return f"broken, with {evidence} ({trust}{since})"
        return f"was found broken ({trust}{since}); {evidence}"
    if found["e_value"] > 1:
        return f"no alarm, with {evidence} (the alarm is at {alarm}; above 1 speaks against it)"
    return f"no evidence against it, with {evidence} (the alarm is at {alarm})"


def _changed(found: dict[str, Any]) -> str:
    which = f", the last of {found['changes']:,}" if found["changes"] > 1 else ""
    return (
        f"the pass rate seems to have fallen below {ratio(found['p0'])}: change alarm {_time(found['changed_at'])}{which} "
        f"(where it did not fall, such alarms are {found['target_run_length']:,.6g} {'conversations' if found['block'] == 'none' else 'blocks'} apart or more, on average)"
    )


def _number(e_value: float) -> str:
    return "above 1e300" if e_value >= _LARGEST else f"{e_value:.3g}"


def _time(iso: str) -> str:
    """Return a time without parts of a second."""
    return f"{iso[:19]}Z"
