"""A conversation made ready for scoring: its turns found in the case, its questions for the judge."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from otel_agentic.judges.base import Question
from otel_agentic.scoring.answers import answer_part, question_of
from otel_agentic.scoring.asked import wants_opinions
from otel_agentic.scoring.tooling import Asking, ToolScores, tool_scores
from otel_agentic.scoring.turns import align_turns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_agentic.config import ScoringSettings
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.judges.base import JudgeFailure, QuestionKind, Verdict
    from otel_agentic.scoring.parts import Part
    from otel_agentic.truth.labels import Label
    from otel_agentic.truth.match import Match
    from otel_agentic.truth.model import Case

_ANSWERS_ONLY: frozenset[QuestionKind] = frozenset({"answer"})


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedConversation:
    """A conversation with the match that was found for it and its row of the labels file, if it has one."""

    conversation: Conversation
    match: Match
    label: Label | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A conversation with its case turns found, before the judge has spoken.

    `aligned` is turn index -> case turn index. `asked` is turn index -> question, or outcome where none is needed, or
    None where no answer is annotated. `tools` are the tool scores as far as the data alone tell; `asking` is None where
    they tell all that can be known.
    """

    matched: MatchedConversation
    case: Case | None
    settings: ScoringSettings
    threshold: float = 0.0
    aligned: Mapping[int, int] = field(default_factory=dict)
    asked: Mapping[int, Question | Part | None] = field(default_factory=dict)
    asking: Asking | None = None
    tools: ToolScores = field(default_factory=lambda: ToolScores(turns={}, whole=None))

    @classmethod
    def of(
        cls,
        matched: MatchedConversation,
        settings: ScoringSettings,
        kinds: frozenset[QuestionKind] = _ANSWERS_ONLY,
    ) -> Plan:
        """Return the plan of a conversation; `kinds` are the questions that the judge is asked."""
        case, turns = matched.match.case, matched.conversation.turns
        if case is None or not turns:
            return cls(matched=matched, case=case, settings=settings)
        threshold = settings.answer_threshold if case.answer_threshold is None else case.answer_threshold
        places = align_turns([turn.query for turn in case.turns], [turn.query for turn in turns])
        aligned = {turns[place].index: index for place, index in places.items()}
        asking = Asking(kinds=kinds, threshold=threshold) if wants_opinions(case, kinds) else None
        return cls(
            matched=matched,
            case=case,
            settings=settings,
            threshold=threshold,
            aligned=aligned,
            asked={
                turns[place].index: question_of(case.turns[index], turns[place], threshold)
                for place, index in places.items()
            },
            asking=asking,
            tools=tool_scores(case, turns, aligned, settings, asking),
        )

    @property
    def questions(self) -> tuple[Question, ...]:
        """What the judge is asked: of answers first, then of tools."""
        answers = (question for question in self.asked.values() if isinstance(question, Question))
        return (*answers, *self.tools.asked)

    @property
    def answers_asked(self) -> int:
        """How many of `questions`, the first ones, are about answers."""
        return sum(isinstance(question, Question) for question in self.asked.values())

    def answers(self, verdicts: Sequence[Verdict | JudgeFailure]) -> dict[int, Part | None]:
        """Return turn index -> outcome of its answer, given the verdicts on `questions`."""
        turns = {turn.index: turn for turn in self.matched.conversation.turns}
        said = iter(verdicts)
        return {
            index: answer_part(turns[index], next(said), self.threshold) if isinstance(asked, Question) else asked
            for index, asked in self.asked.items()
        }

    def judged_tools(self, verdicts: Sequence[Verdict | JudgeFailure]) -> ToolScores:
        """Return the tool scores, given the verdicts on `questions`."""
        if self.case is None or self.asking is None or not self.tools.asked:
            return self.tools
        of_tools = dict(zip(self.tools.asked, verdicts[len(verdicts) - len(self.tools.asked) :], strict=True))
        asking = Asking(kinds=self.asking.kinds, threshold=self.threshold, verdicts=of_tools)
        return tool_scores(self.case, self.matched.conversation.turns, self.aligned, self.settings, asking)
