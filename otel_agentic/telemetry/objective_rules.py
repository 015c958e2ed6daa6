"""The rules of one objective: how fast its error budget burns, and whether it is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_agentic.telemetry import names
from otel_agentic.telemetry.alert_rules import AGENT, EVALUATED, PASS_RATE, SHARE, WHOLE, alert, number
from otel_agentic.telemetry.promql import matchers, selector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_agentic.config import Objective
    from otel_agentic.telemetry.alert_rules import Rule
    from otel_agentic.telemetry.alerts import Windows
    from otel_agentic.telemetry.names import Instrument

#: Recorded series: how fast an error budget burns.
BURN: Final = "agentic:error_budget:burn_rate"
#: Evaluated conversations below which a plain share, or the burn rate made of it, wakes nobody up.
FEW: Final = 20
#: Burn rate that is fast, where the objective leaves room for it; see `fast_burn`.
_FAST_BURN: Final = 2.0


def objective_rules(objective: Objective, windows: Windows) -> list[Rule]:
    """Return the rules of one objective: burn rate, breach, unproven, evidence."""
    rules = [_burn(objective), *_breaches(objective, windows), _evidence(objective)]
    if windows.fast:
        rules.append(
            _burning(objective, windows.fast, "Fast", fast_burn(objective), severity="critical", lasting="10m")
        )
    if windows.slow:
        rules.append(_burning(objective, windows.slow, "Slow", 1.0, severity="warning", lasting="1h"))
    return rules


def fast_burn(objective: Objective) -> float:
    """Return the burn rate that is fast: 2, or half way to the highest possible one where that is less.

    When every conversation fails, the budget burns at 1 / (1 - target): at a target of .9 no more than 10.
    """
    highest = 1 / (1 - objective.target)
    return min(_FAST_BURN, (1 + highest) / 2)


def _burn(objective: Objective) -> Rule:
    """Return the rule that records a burn rate.

    Of the plain share: estimates lean towards the middle while there is little data, so that 20 of 20 would burn the
    budget of a strict objective, and two windows of one agent may be estimated in two ways.
    """
    return {
        "record": BURN,
        "expr": f"(1 - {_share(objective)})\n  / (1 - {number(objective.target)})",
        "labels": {"agentic_objective": objective.label},
    }


def _share(objective: Objective, equal: Mapping[str, str] | None = None) -> str:
    """Return the plain pass^k of the agents of an objective: their pass rate to the power of k."""
    rate = PASS_RATE + matchers({**(equal or {}), **WHOLE}, agent=objective.agent)
    return rate if objective.k == 1 else f"{rate} ^ {objective.k}"


def _breaches(objective: Objective, windows: Windows) -> list[Rule]:
    def bound(instrument: Instrument, widest: str) -> str:
        equal: dict[str, str | int] = {names.WINDOW: windows.main, names.K: objective.k, **WHOLE}
        found = selector(instrument, equal, agent=objective.agent)
        return f"{widest} without (agentic_estimator, agentic_k) ({found})"

    target = number(objective.target)
    breached = f"{bound(names.PASS_POW_K_UPPER, 'max')} < {target}"
    main = {names.WINDOW: windows.main}
    what = f"pass^{objective.k} of {AGENT}"
    return [
        alert(
            "AgenticObjectiveBreached",
            breached,
            objective=objective,
            severity="critical",
            lasting="5m",
            summary=f"{what} is below its objective {target}: at most {SHARE}",
            description=f"The whole interval of the {windows.main} window lies below the objective.",
        ),
        alert(
            "AgenticPassRateLow",
            f"{_share(objective, main)} < {target}\n  and {EVALUATED}{matchers(main)} >= {FEW}\n  unless {breached}",
            objective=objective,
            severity="warning",
            lasting="30m",
            summary=f"{what} looks below its objective {target}: {SHARE}",
            description=f"The plain share of the {windows.main} window is below the objective, its interval is not.",
        ),
        alert(
            "AgenticObjectiveUnproven",
            f"{bound(names.PASS_POW_K_LOWER, 'min')} < {target}\n  unless {breached}",
            objective=objective,
            severity="info",
            lasting="1h",
            summary=f"{what} may be below its objective {target}: at least {SHARE}",
            description=f"The {windows.main} window holds too little to prove that the objective is kept, or that it is not.",
        ),
    ]


def _evidence(objective: Objective) -> Rule:
    equal: dict[str, str | int] = {names.OBJECTIVE: objective.label, names.K: objective.k}
    e_value = selector(names.SLO_E_VALUE, equal, agent=objective.agent)
    return alert(
        "AgenticObjectiveEvidence",
        f"{e_value} >= {number(1 / objective.alpha)}",
        objective=objective,
        severity="critical",
        summary=f"{AGENT} does not keep pass^{objective.k} >= {number(objective.target)}: e-value {{{{ $value | humanize }}}}",
        description=f"Were the objective kept, an e-value would ever come this far with a probability of {objective.alpha:g} "
        "at most, however often it is looked at.",
    )


def _burning(
    objective: Objective, pair: tuple[str, str], speed: str, factor: float, *, severity: str, lasting: str
) -> Rule:
    short, long = pair
    burn_short, burn_long = (
        BURN + matchers({names.OBJECTIVE: objective.label, names.WINDOW: width}, agent=objective.agent)
        for width in (short, long)
    )
    enough = EVALUATED + matchers({names.WINDOW: long})
    return alert(
        f"AgenticErrorBudgetBurn{speed}",
        f"{burn_short} > {number(factor)}\n"
        f"  and ignoring (agentic_window) {burn_long} > {number(factor)}\n"
        f"  and ignoring (agentic_window, agentic_objective) {enough} >= {FEW}",
        objective=objective,
        severity=severity,
        lasting=lasting,
        summary=f"{AGENT} burns its error budget {{{{ $value | humanize }}}} times too fast",
        description=f"pass^{objective.k} misses its objective {number(objective.target)} in the {short} and in the {long} "
        f"window; 1 uses the budget up exactly.",
    )
