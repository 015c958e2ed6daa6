"""A conversation made ready for scoring: its turns found in the case, its questions for the judge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_agentic.judges.base import JudgeFailure, Question, Verdict
from otel_agentic.scoring.answers import answer_part, question_of
from otel_agentic.scoring.turns import align_turns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from otel_agentic.config import ScoringSettings
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.scoring.parts import Part
    from otel_agentic.truth.labels import Label
    from otel_agentic.truth.match import Match
    from otel_agentic.truth.model import Case


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedConversation:
    """A conversation with the match that was found for it and its row of the labels file, if it has one."""

    conversation: Conversation
    match: Match
    label: Label | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A conversation with its case turns found, before the judge has spoken.

    `aligned` is turn index -> case turn index. `asked` is turn index -> question, or outcome where none is needed.
    """

    matched: MatchedConversation
    case: Case | None
    threshold: float
    aligned: Mapping[int, int]
    asked: Mapping[int, Question | Part | None]

    @classmethod
    def of(cls, matched: MatchedConversation, settings: ScoringSettings) -> Plan:
        """Return the plan of a conversation."""
        case, turns = matched.match.case, matched.conversation.turns
        if case is None:
            return cls(matched=matched, case=None, threshold=0.0, aligned={}, asked={})
        threshold = settings.answer_threshold if case.answer_threshold is None else case.answer_threshold
        places = align_turns([turn.query for turn in case.turns], [turn.query for turn in turns])
        return cls(
            matched=matched,
            case=case,
            threshold=threshold,
            aligned={turns[place].index: index for place, index in places.items()},
            asked={
                turns[place].index: question_of(case.turns[index], turns[place], threshold)
                for place, index in places.items()
            },
        )

    def questions(self) -> Iterator[Question]:
        """Yield what the judge is asked."""
        return (question for question in self.asked.values() if isinstance(question, Question))

    def answers(self, verdicts: Iterator[Verdict | JudgeFailure]) -> dict[int, Part | None]:
        """Return turn index -> outcome of its answer; takes as many verdicts as there are questions."""
        turns = {turn.index: turn for turn in self.matched.conversation.turns}
        return {
            index: answer_part(turns[index], next(verdicts), self.threshold) if isinstance(asked, Question) else asked
            for index, asked in self.asked.items()
        }
