"""Results of `conversations` and `truth`. Times are ISO 8601 text in UTC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from otel_agentic.results.codec import JsonObject, optional


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationRow:
    """A conversation in a list; the outcome is None until it is evaluated."""

    conversation_id: str
    environment: str
    revision: int
    agent: str | None
    agent_version: str | None
    service: str | None
    started_at: str
    ended_at: str
    window_time: str | None
    closed_by: str | None
    turn_count: int
    call_count: int
    content_captured: Any
    case_id: str | None
    outcome: str | None
    reason: str | None
    explanation: str | None
    evaluation: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCall:
    """A call of a turn."""

    name: str
    kind: str
    arguments: JsonObject | None
    result: Any
    result_captured: bool
    step: int
    error: str | None
    call_id: str | None
    span_id: str | None
    parent_span_id: str | None
    agent_name: str | None
    used: Any
    #: The kind of record that the call was read from; only in results of `doctor`.
    source: str | None = optional()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTurn:
    """A turn of a conversation."""

    index: int
    query: str | None
    query_captured: bool
    answer: str | None
    answer_captured: bool
    trace_id: str | None
    span_id: str | None
    error: str | None
    tools: list[ShownCall]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownConversation:
    """A conversation with its turns and the outcome of its newest score."""

    conversation_id: str
    environment: str
    revision: int
    agent_name: str | None
    agent_version: str | None
    service: str | None
    started_at: str
    ended_at: str
    closed_by: str | None
    verdict: bool | None
    case_id: str | None
    outcome: str | None
    reason: str | None
    #: The slices that it is in, as `name=value`.
    slices: list[str]
    turns: list[ShownTurn]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnScore:
    """The score of one turn, and the index of the expected turn."""

    turn_index: int
    case_turn_index: int | None
    outcome: str | None
    reason: str | None
    answer_score: float | None
    answer_outcome: str | None
    tool_outcome: str | None
    explanation: str | None
    answer_reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolScore:
    """The tool dimensions of one turn, or of the conversation if the turn is None."""

    turn_index: int | None
    outcome: str | None
    reason: str | None
    overall: float | None
    selection: float | None
    parameters: float | None
    sequence: float | None
    utilization: float | None
    evidence: dict[str, list[Any]] | None
    explanation: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFault:
    """A fault of a tool call."""

    turn_index: int | None
    fault: str
    dimension: str | None
    tool_name: str | None
    parameter: str | None
    expected: Any
    actual: Any
    expected_index: int | None
    actual_position: int | None
    trace_id: str | None
    span_id: str | None
    explanation: str
    expected_call: Any
    failed: bool
    tried: int | None
    effect: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisionalFault:
    """A fault of a tool in an open conversation."""

    tool_name: str
    fault: str
    parameter: str | None
    expected: Any
    actual: Any
    explanation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenConversation:
    """An open conversation with its provisional outcome.

    `outcome` is `failed already`, `no failure so far`, or `not evaluated` for `reason`. `closes_at` is when it closes if no
    further span arrives.
    """

    conversation_id: str
    environment: str
    agent: str | None
    agent_version: str | None
    closes_at: str
    turn_count: int
    case_id: str | None
    outcome: str
    reason: str | None
    explanation: str
    faults: list[ProvisionalFault]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenConversations:
    """The open conversations of a selection, and why a selection may have no closed ones.

    Attributes:
        open: the number of open conversations.
        arriving: the number of conversations that are not built yet, because their last spans arrived just now; None if not
            requested.
        first_closes_at: when the first one closes; None without one.
        collecting: whether a collector runs on the store; without one, conversations stay open.
        others: the number of other conversations in the store: closed, or not in the selection.
        spans: the number of spans in the whole store.
        cases: the number of cases.
        agents: the names of the agents in the store.
        conversations: the open conversations with their provisional outcomes, the newest first; empty unless requested.
    """

    open: int
    arriving: int | None
    first_closes_at: str | None
    collecting: bool
    others: int
    spans: int
    cases: int
    agents: list[str]
    conversations: list[OpenConversation]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPair:
    """An expected call with the actual call that scoring paired it with, or one of both; a row of `call_pairs`."""

    turn_index: int | None
    alternative: int | None
    tool_name: str
    status: str
    expected_index: int | None
    actual_turn_index: int | None
    actual_position: int | None
    span_id: str | None
    agreement: float | None
    in_order: bool | None
    used: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidingCriterion:
    """The outcome of a conversation by one deciding criterion."""

    name: str
    outcome: str
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationScore:
    """The newest score of a conversation, with its case as a native record."""

    evaluation_id: str
    revision: int
    evaluation: str
    superseded: bool
    dataset: str | None
    case_id: str | None
    outcome: str
    reason: str | None
    outcome_source: str | None
    computed_outcome: str | None
    computed_reason: str | None
    answer_outcome: str | None
    tool_outcome: str | None
    both_outcome: str | None
    match_method: str | None
    warning: str | None
    missing_outputs: list[Any] | None
    explanation: str | None
    scored_at: str
    case_version: str | None
    partial: bool | None
    sample_ratio: float | None
    metrics_at: str | None
    known_failure: str | None
    pass_probability: float | None
    criteria: list[DecidingCriterion]
    match_confidence: float | None
    candidates: list[str] | None
    turn_scores: list[TurnScore]
    tool_scores: list[ToolScore]
    tool_faults: list[ToolFault]
    call_pairs: list[CallPair]
    case: JsonObject | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricScoreRow:
    """A score of one metric for a conversation, a turn or a call; the severity is None unless it is a failure."""

    name: str
    evaluator: str
    evaluator_version: str | None
    target: str | None
    turn_index: int | None
    position: int | None
    tool_name: str | None
    parameter: str | None
    value: float | None
    label: str | None
    reason: str | None
    explanation: str | None
    details: JsonObject | None
    score_id: str | None
    title: str | None
    unit: str | None
    range: list[float | None] | None
    severity: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationDetails:
    """A conversation with its score and the scores of metrics."""

    evaluation: str
    conversation: ShownConversation
    score: ConversationScore | None
    metrics: list[MetricScoreRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseVersion:
    """A version of a case, and the newest scores by it: of its attempts, `n` were evaluated and `c` are correct."""

    version: str
    current: bool
    #: The person who saved it; None for a version from the file `source`.
    author: str | None
    source: str
    saved_at: str
    attempts: int
    n: int
    c: int
    record: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseHistory:
    """The versions of a case, the current one first, then the newest first."""

    dataset: str
    case_id: str
    versions: list[CaseVersion]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseProposal:
    """A case by which a conversation would pass: the corrected case of the conversation, or a new one.

    `base_version` is the version to which it is a correction; None for a new case.
    """

    record: JsonObject
    base_version: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeChange:
    """A conversation whose outcome a saved case changed; an outcome is None before the first evaluation."""

    environment: str
    conversation_id: str
    agent: str | None
    agent_version: str | None
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedCase:
    """A case that was saved, and its effect.

    `evaluated` counts the conversations that were evaluated again; `not_matched` those without a case that were too many to be
    matched with it.
    """

    dataset: str
    case_id: str
    version: str
    evaluated: int
    changed: list[OutcomeChange]
    not_matched: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedConversations:
    """Conversations that a person mapped to a case, or whose choice was withdrawn (`case_id` is None), and the effect.

    `left_out` counts similar conversations that were not mapped because there were too many. `evaluated` counts those that were evaluated
    again; open ones are evaluated when they close.
    """

    dataset: str | None
    case_id: str | None
    mapped: int
    left_out: int
    evaluated: int
    changed: list[OutcomeChange]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetChange:
    """A dataset after an import; its version is None if it no longer has cases."""

    dataset: str
    version: str | None
    cases: int
    changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TruthImport:
    """An import of cases and labels."""

    new_case_versions: int
    cases: int
    labels: int
    datasets: list[DatasetChange]
    warnings: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryCluster:
    """Conversations that begin with the same or a similar query."""

    evaluation: str
    query: str | None
    size: int
    share: float
    agents: list[str]
    example_conversation: str
    environment: str
    first_seen: str
    last_seen: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotPromoted:
    """A conversation from which no draft was created, and the reason."""

    conversation_id: str
    environment: str
    reason: str
    case_id: str | None
    dataset: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """Draft cases from conversations, as native records."""

    cases: list[JsonObject]
    tagged: list[JsonObject]
    left_out: list[NotPromoted]
    unscored: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRow:
    """An active case."""

    dataset: str
    case_id: str
    version: str
    agent: str | None
    tags: list[str]
    source: str | None
    reviewed: bool
    turns: int
    expected_calls: int
    attempts: int
    dataset_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetVersion:
    """A version of a dataset."""

    dataset: str
    version: str
    cases: int
    source: str | None
    imported_at: str
    current: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchRow:
    """The case that a conversation was matched to, or the one that its text suggests."""

    evaluation: str
    environment: str
    conversation_id: str
    agent: str | None
    dataset: str | None
    case_id: str | None
    method: str | None
    confidence: float | None
    reason: str | None
    candidates: list[str] | None
    warning: str | None
    suggested_dataset: str | None
    suggested_case_id: str | None
    suggested_confidence: float | None
    suggested_margin: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmatchedRow(MatchRow):
    """A conversation that a person may map to a case, and the first query of its user; `ended_at` is ISO 8601 in UTC."""

    query: str | None
    ended_at: str
    closed_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchPage:
    """A page of a list of matches, the number of all of them, and the cursor of the next page; None on the last one."""

    rows: list[UnmatchedRow]
    total: int
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseChoice:
    """A case to which a conversation may be mapped.

    `similarity` is that of the texts of all queries, in [0, 1]. `fits`: it is the case of the conversation, one of several that
    match it, or the one that its text suggests.
    """

    dataset: str
    case_id: str
    reviewed: bool
    queries: list[str]
    similarity: float
    fits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarConversation:
    """A conversation that has no case either and begins with a similar query."""

    environment: str
    conversation_id: str
    agent: str | None
    query: str | None
    ended_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseChoices:
    """The cases to which a conversation may be mapped, the most similar first, and the conversations like it.

    `method` and `reason` are those of its match by the current cases: one of them is None. `mapped_by` is the person who chose its
    case. `case_total` counts the cases that meet the condition, of which `cases` are the first; `similar_total` those of `similar`, of
    which at most `mapped_at_once` are mapped with the conversation at once.
    """

    environment: str
    conversation_id: str
    agent: str | None
    queries: list[str | None]
    dataset: str | None
    case_id: str | None
    method: str | None
    reason: str | None
    mapped_by: str | None
    cases: list[CaseChoice]
    case_total: int
    similar: list[SimilarConversation]
    similar_total: int
    mapped_at_once: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldLoss:
    """A field of a file that a case cannot represent, and the number of cases that have it."""

    field: str
    cases: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFile:
    """A file of cases or labels with its problems; the format of labels is None."""

    file: str
    kind: str
    format: str | None
    count: int
    problems: list[str]
    left_out: list[FieldLoss]
