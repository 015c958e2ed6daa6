"""The Prometheus rule file for some objectives and windows, and the Grafana dashboard."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import yaml

from otel_agentic.config import Objective
from otel_agentic.telemetry import names
from otel_agentic.telemetry.names import label_name, series_names
from otel_agentic.windows import parse_width

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_agentic.telemetry.names import Instrument

#: The labels that say which group a series is about.
GROUP_LABELS: Final = tuple(
    map(
        label_name,
        (
            names.GEN_AI_AGENT_NAME,
            names.GEN_AI_AGENT_VERSION,
            names.DEPLOYMENT_ENVIRONMENT_NAME,
            names.SUBJECT_SERVICE_NAME,
            names.CASE_TAG,
        ),
    )
)
_SPECIAL: Final = frozenset("\\.+*?()|[]{}^$")
#: What a character class lists: a range, or one character.
_LISTED: Final = re.compile(r"(.)-(.)|(.)", re.DOTALL)


def selector(
    instrument: Instrument,
    equal: Mapping[str, str | int] | None = None,
    *,
    unlike: Mapping[str, str | int] | None = None,
    agent: str = "*",
) -> str:
    """Return the selector of a metric that is one series a point.

    Args:
        instrument: no histogram.
        equal: attributes that must have these values,
        unlike: and those that must not.
        agent: name or glob of the agent.

    >>> from otel_agentic.telemetry import names
    >>> selector(names.COVERAGE, {names.WINDOW: "24h"}, agent="travel-*")
    'agentic_coverage_ratio{agentic_window="24h",gen_ai_agent_name=~"travel-.*"}'
    """
    (series,) = series_names(instrument)
    return series + matchers(equal, unlike=unlike, agent=agent)


def matchers(
    equal: Mapping[str, str | int] | None = None,
    *,
    unlike: Mapping[str, str | int] | None = None,
    agent: str = "*",
) -> str:
    """Return matchers in braces, nothing where there are none; see `selector`."""
    found = [f"{label_name(name)}={quoted(str(value))}" for name, value in (equal or {}).items()]
    found += [f"{label_name(name)}!={quoted(str(value))}" for name, value in (unlike or {}).items()]
    if agent != "*":
        found.append(f"{label_name(names.GEN_AI_AGENT_NAME)}=~{quoted(glob_to_re2(agent))}")
    return f"{{{','.join(found)}}}" if found else ""


def quoted(text: str) -> str:
    r"""Return a text as PromQL writes it.

    >>> print(quoted('the "best"'))
    "the \"best\""
    """
    return json.dumps(text, ensure_ascii=False)


def glob_to_re2(glob: str) -> str:
    r"""Return a glob as the regular expression of Prometheus, which matches whole values.

    >>> print(glob_to_re2("a.b-*"), glob_to_re2("v[!12]?"))
    a\.b-.* v[^12].
    """
    parts, rest = [], glob
    while rest:
        end = rest.find("]", 3 if rest.startswith("[!") else 2) if rest[0] == "[" else -1
        if end > 0:
            parts.append(_character_class(rest[1:end]))
            rest = rest[end + 1 :]
            continue
        parts.append({"*": ".*", "?": "."}.get(rest[0]) or _literal(rest[0]))
        rest = rest[1:]
    return "".join(parts)


def _character_class(content: str) -> str:
    negated = content.startswith("!")
    listed = _LISTED.findall(content[1:] if negated else content)
    parts = [_escaped(one) if one else f"{_escaped(low)}-{_escaped(high)}" for low, high, one in listed if low <= high]
    if not parts:  # ranges that are all empty
        return "." if negated else r"[^\s\S]"
    return f"[{'^' if negated else ''}{''.join(parts)}]"


def _escaped(character: str) -> str:
    return f"\\{character}" if character in "\\[]^-" else character


def _literal(character: str) -> str:
    return f"\\{character}" if character in _SPECIAL else character


Rule: TypeAlias = "dict[str, Any]"

#: Recorded series: evaluated conversations, and the plain share of them that is correct.
EVALUATED: Final = "agentic:window_conversations:evaluated"
PASS_RATE: Final = "agentic:window_conversations:pass_rate"  # noqa: S105 — no password

#: Coverage below which a rate says little: what could not be evaluated may be what failed.
LOW_COVERAGE: Final = 0.8
#: A backlog below this is what a busy minute leaves.
_LARGE_BACKLOG: Final = 1000
#: Objectives are about agents, and so is what alerts say: windows of one case tag tell only of hard and easy cases.
WHOLE: Final = {names.CASE_TAG: ""}
#: What says which agent it is, whatever its version.
_AGENT_LABELS: Final = tuple(
    map(label_name, (names.GEN_AI_AGENT_NAME, names.DEPLOYMENT_ENVIRONMENT_NAME, names.SUBJECT_SERVICE_NAME))
)
#: In the words of an alert: the agent, and its value as a share.
AGENT: Final = "{{ $labels.gen_ai_agent_name }}"
SHARE: Final = "{{ $value | humanizePercentage }}"


def recorded() -> list[Rule]:
    """Return the rules that record counts and the plain pass rate of every window."""
    evaluated = selector(names.WINDOW_CONVERSATIONS, unlike={names.OUTCOME: "not_evaluated"})
    passed = selector(names.WINDOW_CONVERSATIONS, {names.OUTCOME: "pass"})
    return [
        {"record": EVALUATED, "expr": f"sum without (agentic_outcome) ({evaluated})"},
        {"record": PASS_RATE, "expr": f"sum without (agentic_outcome) ({passed})\n  / ({EVALUATED} > 0)"},
    ]


def window_alerts(windows: Windows, sampled: float = 1.0) -> list[Rule]:
    """Return the alerts that need no objective: coverage, tiers, agents that fell silent.

    Args:
        windows: the windows to look at.
        sampled: share of the conversations that sampling leaves in; the others lower the coverage, and hide nothing.
    """
    return [
        alert(
            "AgenticCoverageLow",
            f"{_of_main(names.COVERAGE, windows)} < {number(LOW_COVERAGE * sampled)}",
            severity="warning",
            lasting="30m",
            summary=f"only {SHARE} of the conversations of {AGENT} could be evaluated",
            description="What is not evaluated leaves every rate and may hold the failures. `otel-agentic report` tells why.",
        ),
        _changed_tier(),
        _silent(windows),
    ]


def _of_main(instrument: Instrument, windows: Windows) -> str:
    return selector(instrument, {names.WINDOW: windows.main, **WHOLE})


def _changed_tier() -> Rule:
    status = selector(names.TIER_STATUS, WHOLE)
    now, before = (f"max without (instance) ({status}{offset})" for offset in ("", " offset 1h"))
    return alert(
        "AgenticTierChanged",
        f"{now} == 1\n  unless {before} == 1\n  and on ({', '.join(GROUP_LABELS)}, job) {before}",
        severity="info",
        summary=f"{AGENT} is now {{{{ $labels.agentic_tier }}}}",
        description="An hour ago its conversations since the version's first one supported another tier.",
    )


def _silent(windows: Windows) -> Rule:
    """Return the alert about an agent, not a version: versions come and go. A collector that is down says nothing."""
    coverage = _of_main(names.COVERAGE, windows)
    agent = ", ".join(_AGENT_LABELS)
    emitting = f"group by (job, instance) ({selector(names.INGEST_SPANS)})"
    return alert(
        "AgenticAgentSilent",
        f"count by ({agent}) ({coverage} offset 1h and on (job, instance) {emitting})\n"
        f"  unless count by ({agent}) ({coverage})",
        severity="warning",
        lasting="10m",
        summary=f"no conversation of {AGENT} in the last {windows.main}",
        description="It had some an hour ago. It is not used any more, or its spans do not arrive.",
    )


def data_alerts() -> list[Rule]:
    """Return the alerts about the data itself: nothing is emitted, scored, or shown."""
    accepted = selector(names.INGEST_SPANS, {names.RESULT: "accepted"})
    scored = selector(names.EVALUATED_CONVERSATIONS)
    return [
        alert(
            "AgenticTelemetryAbsent",
            f"absent({selector(names.INGEST_SPANS)})",
            severity="critical",
            lasting="10m",
            summary="no otel-agentic emits anything",
            description="The collector is down, or its /metrics or its OTLP export does not reach this Prometheus.",
        ),
        alert(
            "AgenticEvaluationStalled",
            f"sum by (job) (increase({accepted}[2h] offset 1h)) > 0\n"
            f"  unless sum by (job) (increase({scored}[2h])) > 0\n"
            # A series that is new begins at 1: of its first conversation there is no increase.
            f"  unless count by (job) ({scored} unless {scored} offset 2h)",
            severity="warning",
            lasting="15m",
            summary="spans arrive, and no conversation is scored",
            description="Conversations close when they are idle. Ask `otel-agentic doctor --live` what holds them up.",
        ),
        alert(
            "AgenticGroupsDropped",
            f"increase({selector(names.GROUPS_DROPPED)}[1h]) > 0",
            severity="info",
            summary="{{ $value | humanize }} groups fell out of the gauges",
            description="There are more agents, versions and services than emit.max_groups; the quietest go first.",
        ),
    ]


def collector_alerts() -> list[Rule]:
    """Return the alerts about the collector itself: what keeps it from its work although it runs."""
    backlog = selector(names.BACKLOG)
    return [
        alert(
            "AgenticStoreNotWritable",
            f"{selector(names.STORE_OPEN)} == 0",
            severity="critical",
            lasting="2m",
            summary="the store cannot be written",
            description="Spans are refused, and their senders try again for a while only. `otel-agentic doctor --live` tells why.",
        ),
        alert(
            "AgenticBacklogGrowing",
            f"{backlog} > {_LARGE_BACKLOG} and deriv({backlog}[30m]) > 0",
            severity="warning",
            lasting="30m",
            summary="{{ $value | humanize }} wait at stage {{ $labels.agentic_stage }}, and it gets more",
            description="Nothing is lost, but rates are late. More arrives than this machine rebuilds and scores beside it.",
        ),
        alert(
            "AgenticJudgeLeftAlone",
            f"{selector(names.BREAKER_OPEN)} == 1",
            severity="warning",
            lasting="15m",
            summary="the judge fails, and conversations wait for it",
            description="It is tried again by itself. `otel-agentic doctor --live` tells when.",
        ),
        alert(
            "AgenticRetentionFailing",
            f"{selector(names.RETENTION_FAILING)} == 1",
            severity="warning",
            lasting="1h",
            summary="what is old is not exported or removed",
            description="The store grows meanwhile. `otel-agentic doctor --live` tells why.",
        ),
    ]


def alert(
    name: str,
    expr: str,
    *,
    severity: str,
    summary: str,
    description: str,
    lasting: str | None = None,
    objective: Objective | None = None,
) -> Rule:
    """Return an alert; of an objective it carries the label. `lasting` is how long it must hold before it fires."""
    return {
        "alert": name,
        "expr": expr,
        **({"for": lasting} if lasting else {}),
        "labels": {"severity": severity, **({"agentic_objective": _plain(objective.label)} if objective else {})},
        "annotations": {"summary": summary, "description": description},
    }


def _plain(text: str) -> str:
    """Return a text that Prometheus takes as it is: labels of alerts are templates."""
    return text.replace("{{", '{{"{{"}}')


def number(value: float) -> str:
    """Return a number as people write it: .1 and not .09999999999999998."""
    return f"{value:.12g}"


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


#: What agents are held to where nothing is configured: 90 % of conversations right.
DEFAULT_OBJECTIVE: Final = Objective(k=1, target=0.9)
_HEAD: Final = """\
# Prometheus rules over what otel-agentic emits; load them by `rule_files`.
# Written by `otel-agentic alerts rules` for the objectives and windows of its settings.
"""
_NO_OBJECTIVE: Final = """\
# No objective is configured (slo.objectives), so pass^1 >= 0.9 stands in; e-values are emitted of configured ones only.
"""
_DAY: Final = "24h"


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Names of the time windows that rules look at: one for most, and pairs (shorter, longer) for burn rates."""

    main: str
    fast: tuple[str, str] | None = None
    slow: tuple[str, str] | None = None

    @classmethod
    def of(cls, widths: Sequence[str]) -> Windows | None:
        """Return the windows to look at among those that are emitted, None where none of them is a time.

        The day is the main one, else the second narrowest.

        >>> Windows.of(["7d", "n200", "24h", "1h"])
        Windows(main='24h', fast=('1h', '24h'), slow=('24h', '7d'))
        """
        ordered = sorted((width for width in widths if not width.startswith("n")), key=parse_width)
        if not ordered:
            return None
        pairs = list(pairwise(ordered))
        return cls(
            main=_DAY if _DAY in ordered else ordered[min(1, len(ordered) - 1)],
            fast=pairs[0] if pairs else None,
            slow=pairs[-1] if len(pairs) > 1 else None,
        )


def rules_text(objectives: Sequence[Objective], widths: Sequence[str], sampled: float = 1.0) -> str:
    """Return a rule file of Prometheus.

    Args:
        objectives: what agents are held to; none gives rules for `DEFAULT_OBJECTIVE`.
        widths: the windows that are emitted; without a time among them there are only rules about the data.
        sampled: the lowest share of an agent's conversations that is evaluated.
    """
    windows = Windows.of(widths)
    groups = [] if windows is None else _window_groups(objectives or (DEFAULT_OBJECTIVE,), windows, sampled)
    about_us = [
        {"name": "agentic-data", "rules": data_alerts()},
        {"name": "agentic-collector", "rules": collector_alerts()},
    ]
    content = {"groups": [*groups, *about_us]}
    head = _HEAD if objectives else _HEAD + _NO_OBJECTIVE
    return head + yaml.dump(content, Dumper=_Dumper, sort_keys=False, width=1000, allow_unicode=True)


def dashboard_text() -> str:
    """Return the Grafana dashboard: JSON to be imported."""
    return files("otel_agentic.telemetry").joinpath("assets/dashboard.json").read_text(encoding="utf-8")


def _window_groups(objectives: Sequence[Objective], windows: Windows, sampled: float) -> list[dict[str, Any]]:
    return [
        {"name": "agentic-recorded", "rules": recorded()},
        *(
            {"name": f"agentic-objective-{place}", "rules": objective_rules(objective, windows)}
            for place, objective in enumerate(objectives, start=1)
        ),
        {"name": "agentic-windows", "rules": window_alerts(windows, sampled)},
    ]


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
