"""Builders of judged conversations, scores and window points, with defaults that a test overrides where it matters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from otel_agentic.conversations.model import Conversation, ConversationId, ToolCall, Turn
from otel_agentic.scoring.model import ConversationScore, ToolFault, ToolScore, TurnScore
from otel_agentic.stats.model import Estimate, Estimates
from otel_agentic.windows.model import DimensionMean, GroupKey, GroupSummary, WindowPoint

SECOND_NS = 1_000_000_000
WIDTHS_NS = {"1h": 3600 * SECOND_NS, "24h": 86_400 * SECOND_NS, "7d": 7 * 86_400 * SECOND_NS}
#: A round moment in 2026.
NOON_NS = 1_780_000_000 * SECOND_NS

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
TURN_SPAN_ID = "b7ad6b7169203331"
CALL_SPAN_ID = "00f067aa0ba902b7"


def tool_call(**changes: Any) -> ToolCall:
    """Return a successful call of `search`."""
    values: dict[str, Any] = {
        "name": "search",
        "kind": "tool",
        "step": 1,
        "position": 0,
        "arguments": {"q": "hotels"},
        "result": ["Ritz"],
        "result_captured": True,
        "error": None,
        "call_id": "call_1",
        "trace_id": TRACE_ID,
        "span_id": CALL_SPAN_ID,
        "parent_span_id": None,
        "agent_name": None,
        "source": "span",
    }
    return ToolCall(**{**values, **changes})


def turn(**changes: Any) -> Turn:
    """Return the first turn: a query, one call, an answer."""
    values: dict[str, Any] = {
        "index": 0,
        "query": "Which hotel?",
        "query_captured": True,
        "answer": "The Ritz.",
        "answer_captured": True,
        "error": None,
        "calls": (tool_call(),),
        "trace_id": TRACE_ID,
        "span_id": TURN_SPAN_ID,
        "started_ns": NOON_NS,
        "ended_ns": NOON_NS + 2 * SECOND_NS,
        "response_id": "resp_1",
    }
    return Turn(**{**values, **changes})


def conversation(**changes: Any) -> Conversation:
    """Return a closed conversation of one turn with the agent `travel` in production."""
    values: dict[str, Any] = {
        "environment": "production",
        "conversation_id": ConversationId("conversation-1"),
        "revision": 1,
        "agent_name": "travel",
        "agent_version": "2.1.0",
        "service": "concierge",
        "started_ns": NOON_NS,
        "ended_ns": NOON_NS + 3 * SECOND_NS,
        "closed_by": "idle",
        "link_method": "explicit",
        "case_id": "case-1",
        "verdict": None,
        "turns": (turn(),),
    }
    return Conversation(**{**values, **changes})


def tool_fault(**changes: Any) -> ToolFault:
    """Return a wrong parameter `q` of the first call."""
    values: dict[str, Any] = {
        "kind": "wrong_parameters",
        "tool_name": "search",
        "parameter": "q",
        "expected": "inns",
        "actual": "hotels",
        "mode": "exact",
        "expected_index": 0,
        "turn_index": 0,
        "actual_position": 0,
        "span_id": CALL_SPAN_ID,
    }
    return ToolFault(**{**values, **changes})


def tool_score(**changes: Any) -> ToolScore:
    """Return a passing score of the first turn's calls; the order did not matter."""
    values: dict[str, Any] = {
        "turn_index": 0,
        "outcome": "pass",
        "reason": None,
        "overall": 1.0,
        "dimensions": {"selection": 1.0, "parameters": 1.0, "sequence": None, "utilization": 1.0},
        "faults": (),
    }
    return ToolScore(**{**values, **changes})


def turn_score(**changes: Any) -> TurnScore:
    """Return a passing first turn."""
    values: dict[str, Any] = {
        "turn_index": 0,
        "case_turn_index": 0,
        "outcome": "pass",
        "reason": None,
        "answer_score": 0.95,
        "answer_outcome": "pass",
        "tool_outcome": "pass",
        "explanation": "The answer names the Ritz.",
    }
    return TurnScore(**{**values, **changes})


def conversation_score(**changes: Any) -> ConversationScore:
    """Return a passing score of `conversation()`, matched by its case id."""
    values: dict[str, Any] = {
        "environment": "production",
        "conversation_id": "conversation-1",
        "revision": 1,
        "case_id": "case-1",
        "dataset": "hotels",
        "case_version": "v1",
        "match_method": "case_id",
        "match_confidence": 1.0,
        "warning": None,
        "outcome": "pass",
        "reason": None,
        "outcome_source": "computed",
        "computed_outcome": "pass",
        "computed_reason": None,
        "answer_outcome": "pass",
        "tool_outcome": "pass",
        "both_outcome": "pass",
        "turns": (turn_score(),),
        "tools": (tool_score(),),
        "missing_outputs": (),
        "explanation": "Every turn passed.",
    }
    return ConversationScore(**{**values, **changes})


def failing_score(**changes: Any) -> ConversationScore:
    """Return a score whose one turn has a wrong answer and a wrong parameter."""
    values: dict[str, Any] = {
        "outcome": "fail",
        "reason": "wrong_answer",
        "turns": (turn_score(outcome="fail", reason="wrong_answer", answer_score=0.2, answer_outcome="fail"),),
        "tools": (
            tool_score(
                outcome="fail",
                reason="tool_fault",
                overall=0.5,
                dimensions={"selection": 1.0, "parameters": 0.0, "sequence": None, "utilization": None},
                faults=(tool_fault(),),
            ),
        ),
    }
    return conversation_score(**{**values, **changes})


def estimates(
    pass_at_k: Mapping[int, Estimate], pass_pow_k: Mapping[int, Estimate] | None = None, name: str = "bayesian"
) -> Estimates:
    """Return estimates; pass^k is pass@k unless given."""
    return Estimates(
        estimator=name,
        interval_method="posterior",
        level=0.95,
        pass_at_k=pass_at_k,
        pass_pow_k=pass_at_k if pass_pow_k is None else pass_pow_k,
    )


def summary(key: GroupKey | None = None, **changes: Any) -> GroupSummary:
    """Return the summary of a ready group: 9 of 10 correct, 2 not evaluated."""
    at_k = {1: Estimate(value=0.9, lower=0.8, upper=0.97), 3: Estimate(value=0.99, lower=0.95, upper=1.0)}
    pow_k = {1: Estimate(value=0.9, lower=0.8, upper=0.97), 3: Estimate(value=0.73, lower=0.5, upper=0.9)}
    values: dict[str, Any] = {
        "key": key or GroupKey(agent="travel", agent_version="2.1.0", environment="production", service="concierge"),
        "n": 10,
        "c": 9,
        "not_evaluated": {"unmatched": 2},
        "coverage": 10 / 12,
        "bounds": (0.75, 0.92),
        "estimates": {"bayesian": estimates(at_k, pow_k), "plugin": estimates(at_k, name="plugin")},
        "default_estimator": "bayesian",
        "tool_dimensions": {"selection": DimensionMean(mean=0.8, n=5)},
        "tier": "ready",
        "leaning": None,
        "needed": None,
    }
    return GroupSummary(**{**values, **changes})


def window_point(
    window: str = "1h", *, end_ns: int = NOON_NS, key: GroupKey | None = None, **changes: Any
) -> WindowPoint:
    """Return a window point of `summary(key, **changes)`."""
    return WindowPoint(window=window, width_ns=WIDTHS_NS[window], end_ns=end_ns, summary=summary(key, **changes))


def empty_window_point(window: str = "1h", key: GroupKey | None = None) -> WindowPoint:
    """Return the point of a window without a conversation: nothing is defined."""
    nothing = {k: Estimate(value=None) for k in (1, 3)}
    return window_point(
        window,
        key=key,
        n=0,
        c=0,
        not_evaluated={},
        coverage=None,
        bounds=None,
        estimates={"bayesian": estimates(nothing)},
        tool_dimensions={"selection": DimensionMean(mean=0.0, n=0)},
        tier="insufficient_evidence",
    )


def agents(count: int) -> Sequence[GroupKey]:
    """Return the keys of `count` agents."""
    return [GroupKey(agent=f"agent-{index:03}", environment="production") for index in range(count)]
