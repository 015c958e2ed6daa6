"""Results of `failures` and `tools failing`. Times are ISO 8601 text in UTC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from otel_agentic.results.codec import optional
from otel_agentic.results.reports import Threshold


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The cause that the failures of a group share."""

    metric: str
    label: str | None
    tool_name: str | None
    parameter: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionCount:
    """The number of failures of one agent version."""

    agent_version: str | None
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCount:
    """The number of failures that are attributed to one agent of the conversations."""

    agent: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRecord:
    """One failure: its location, severity and explanation."""

    environment: str
    conversation_id: str
    revision: int
    agent: str | None
    agent_version: str | None
    ended_at: str
    turn_index: int | None
    position: int | None
    metric: str
    label: str | None
    value: float | None
    threshold: Threshold | None
    severity: str
    tool_name: str | None
    parameter: str | None
    explanation: str | None
    #: Whether it has the root cause of its conversation; otherwise it is a symptom.
    is_root: bool
    #: The agent that caused it; absent if the conversation has one agent, or the failure belongs to none.
    blamed_agent: str | None = optional()


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """Failures of one cause in the conversations of a group, whose root cause is another."""

    title: str
    metric: str
    label: str | None
    tool_name: str | None
    parameter: str | None
    count: int
    conversations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureDay:
    """The failing conversations of a group that ended on a day (UTC), of all scored ones."""

    day: str
    conversations: int
    scored: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureTrend:
    """The failing conversations of a group before and from `split_at`, which halves the scored conversations.

    `direction` is rising, falling or steady, or null if there are too few failures.
    """

    direction: str | None
    split_at: str
    before: int
    before_scored: int
    after: int
    after_scored: int
    p_value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureGroup:
    """The conversations with one root cause, or several that the judge merged, and all their failures, newest first.

    `count` is the number of these failures, `share` the share of all failing conversations. `terms` are the words that
    similar explanations have in common. `elsewhere` is the number of conversations that have the cause as a symptom.
    """

    severity: str
    title: str
    causes: list[Cause]
    terms: list[str]
    count: int
    conversations: int
    share: float
    symptoms: list[Symptom]
    elsewhere: int
    agents: list[str]
    agent_versions: list[VersionCount]
    first_seen: str
    first_version: str | None
    last_seen: str
    trend: FailureTrend | None
    daily: list[FailureDay]
    example_conversation: str
    example: FailureRecord
    failures: list[FailureRecord]
    #: The agents that caused the failures, the most frequent first; absent if none is attributed to an agent.
    blamed_agents: list[AgentCount] | None = optional()


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureReport:
    """The failures of a selection; `groups` may be limited, the counts include all."""

    evaluation: str
    #: Closed conversations; of these, those with a score; of these, those that failed or could not be evaluated.
    conversations: int
    scored: int
    failed: int
    not_evaluated: int
    known_failures: int
    judge_errors: int
    failures: int
    failing_conversations: int
    by_severity: dict[str, int]
    group_count: int
    note: str | None
    groups: list[FailureGroup]


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionFaults:
    """The number of tool faults of one agent version."""

    agent_version: str | None
    faults: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongValue:
    """A wrong value of a parameter, and its number of occurrences."""

    actual: Any
    expected: Any
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFaultExample:
    """A tool fault in one conversation."""

    agent: str | None
    agent_version: str | None
    environment: str
    conversation_id: str
    ended_at: str
    dataset: str | None
    case_id: str | None
    outcome: str | None
    turn_index: int | None
    query: str | None
    tool: str | None
    dimension: str | None
    fault: str
    parameter: str | None
    expected: Any
    actual: Any
    expected_call: Any
    actual_call: Any
    step: int | None
    error: str | None
    explanation: str
    failed: bool
    tried: int | None
    trace_id: str | None
    span_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingTool:
    """A kind of tool fault: its counts, times, agent versions, and newest example."""

    #: Absent on a report's page.
    evaluation: str | None = optional()
    agent: str | None
    agent_version: str | None
    environment: str
    tool: str | None
    dimension: str | None
    fault: str
    parameter: str | None
    faults: int
    conversations: int
    failed: int
    tried: int | None
    share: float | None
    calls: int | None
    rate: float | None
    expected_conversations: int | None
    first_seen: str | None
    last_seen: str | None
    since: str | None
    introduced_in: str | None
    is_new: bool
    clean_before: int | None
    versions: list[VersionFaults]
    wrong_values: list[WrongValue] | None
    example_conversation: str
    #: An explanation; in a result of `--show` the newest fault.
    example: ToolFaultExample | str | None
    expected: Any
    actual: Any
    expected_call: Any
    actual_call: Any
    error: str | None
    trace_id: str | None
    span_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingTools:
    """Failing tools, those with the most failed conversations first, and the counts of the selection."""

    rows: list[FailingTool]
    evaluation: str
    conversations: int
    scored: int
    with_tools: int
    unknown_tools: int
    failed_tools: int
    faults: int
