"""Results of `report_pictures`: the data of the charts and tables of a report's page. Times are nanoseconds since 1970."""

from __future__ import annotations

from dataclasses import dataclass

from otel_agentic.results.failures import FailingTool
from otel_agentic.results.reports import GroupRates


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveRow(GroupRates):
    """The rates of one group and estimator over k; `cases_left_out` counts the cases with too few attempts, by k."""

    cases_left_out: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """pass@k and pass^k over k of the largest groups."""

    rows: list[CurveRow]
    left_out: int
    #: The requested k.
    asked: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    """The windows of one group as columns, oldest first."""

    agent: str | None
    agent_version: str | None
    environment: str | None
    service: str | None
    tag: str | None
    end_ns: list[int]
    n: list[int]
    c: list[int]
    coverage: list[float | None]
    pass_at_k: list[float | None]
    pass_at_k_lower: list[float | None]
    pass_at_k_upper: list[float | None]
    pass_pow_k: list[float | None]
    pass_pow_k_lower: list[float | None]
    pass_pow_k_upper: list[float | None]
    tier: list[str | None]
    leaning: list[str | None]
    restated: list[bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Windows of one kind, by group; `widths` are those of stored windows."""

    window: str
    width_ns: int | None
    k: int
    estimator: str
    level: float | None
    widths: list[str]
    rows: list[HistoryRow]
    left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolHealth:
    """Mean score, number of scores and faults of one tool of an agent, by dimension; None if it never applied."""

    agent: str | None
    tool: str | None
    conversations: int
    selection: float | None
    selection_n: int | None
    parameters: float | None
    parameters_n: int | None
    sequence: float | None
    sequence_n: int | None
    utilization: float | None
    utilization_n: int | None
    selection_faults: int
    parameters_faults: int
    sequence_faults: int
    utilization_faults: int
    errored: int
    faults: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureCause:
    """A cause of failures, with an example."""

    title: str
    severity: str
    failures: int
    conversations: int
    share: float
    first_seen_ns: int
    last_seen_ns: int
    example_conversation: str
    example_environment: str
    explanation: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureCauses:
    """The worst causes, and the number of further ones."""

    rows: list[FailureCause]
    left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnOutcome:
    """The outcome of a turn; `answer_score` is None if no answer was judged."""

    outcome: str
    answer_score: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationOutcome:
    """The outcome of a conversation with those of its turns, in order."""

    environment: str
    conversation_id: str
    agent: str | None
    agent_version: str | None
    case_id: str | None
    outcome: str
    reason: str | None
    turns: list[TurnOutcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationOutcomes:
    """The result of `report_conversations`: failed conversations first, and the number of further ones."""

    rows: list[ConversationOutcome]
    left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRows:
    """The tools with the most faults, and the number of further ones."""

    rows: list[ToolHealth]
    left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingRows:
    """The most frequent tool faults, and the number of further ones."""

    rows: list[FailingTool]
    left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Charts:
    """The data of a report's page; `first_ns` and `last_ns` are the ends of the oldest and the newest conversation."""

    first_ns: int | None
    last_ns: int | None
    curves: Curves
    #: Stored windows, or windows computed for this report; None if its conversations ended at about the same time.
    history: History | None
    tools: ToolRows
    failing: FailingRows
    failures: FailureCauses
