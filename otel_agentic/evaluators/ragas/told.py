"""What a judge told: a label or texts, or why there is none; a judge's failure is never the agent's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_agentic.evaluators.base import MetricScore
from otel_agentic.judges.base import JudgeFailure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.conversations.model import Turn
    from otel_agentic.judges.base import Verdict
    from otel_agentic.scoring.model import NotEvaluatedReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Why there is no score."""

    reason: NotEvaluatedReason
    told: str

    def score(self, name: str, turn_index: int | None = None) -> MetricScore:
        """Return the abstention of a metric."""
        return MetricScore(name=name, reason=self.reason, explanation=self.told, turn_index=turn_index)


def unheard(turns: Sequence[Turn], *, results: bool) -> Silence | None:
    """Return that nothing tells what the agent said, None where something does: a judge would take it for nothing said.

    Args:
        turns: of a conversation.
        results: what a tool answered tells as much.
    """
    for turn in turns:
        if turn.answer_captured or (results and any(call.result_captured for call in turn.calls)):
            return None
    told = "no answer of the agent was captured; have the instrumentation record content"
    return Silence(reason="content_not_captured", told=told)


def silence_in(replies: Sequence[Verdict | JudgeFailure], *, labels: bool = True) -> Silence | None:
    """Return why some replies do not make a score, None where they do.

    Args:
        replies: of a judge.
        labels: each must have a label; False: each is a list of texts.
    """
    for reply in replies:
        if isinstance(reply, JudgeFailure):
            return Silence(reason=reply.reason, told=reply.message)
        if labels and reply.label is None:
            return Silence(reason="judge_error", told="the judge gave no label")
    return None


def label_of(reply: Verdict | JudgeFailure) -> str:
    """Return the label of a reply that has one."""
    return "" if isinstance(reply, JudgeFailure) else reply.label or ""


def texts_of(reply: Verdict | JudgeFailure) -> tuple[str, ...]:
    """Return the texts of a reply, each once, in their order; case and white space make no difference."""
    texts = () if isinstance(reply, JudgeFailure) else reply.texts
    distinct = {" ".join(text.casefold().split()): text.strip() for text in reversed(texts) if text.strip()}
    return tuple(reversed(distinct.values()))


def reasons_of(*replies: Verdict | JudgeFailure) -> str:
    """Return the reasons that the judge gave, one after the other."""
    said = [reply.reasoning.strip() for reply in replies if not isinstance(reply, JudgeFailure)]
    return " ".join(dict.fromkeys(filter(None, said)))
