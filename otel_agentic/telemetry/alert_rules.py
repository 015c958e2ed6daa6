"""The rules that need no objective: what each asks of our metrics, how grave it is, and what it tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from otel_agentic.telemetry import names
from otel_agentic.telemetry.prometheus import label_name
from otel_agentic.telemetry.promql import GROUP_LABELS, selector

if TYPE_CHECKING:
    from otel_agentic.config import Objective
    from otel_agentic.telemetry.alerts import Windows
    from otel_agentic.telemetry.names import Instrument

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
