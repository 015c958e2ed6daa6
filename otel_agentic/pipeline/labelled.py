"""What people labelled, beside what the judge says of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.errors import CaseError
from otel_agentic.judges.calibration import UNSURE, Labelled
from otel_agentic.store.calibrations import HumanVerdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_agentic.conversations.model import Turn
    from otel_agentic.judges.calibration import JudgeVersion
    from otel_agentic.judges.human_labels import HumanLabel
    from otel_agentic.scoring import ConversationScore, MatchedConversation
    from otel_agentic.scoring.model import TurnScore
    from otel_agentic.scoring.turns import TurnRule
    from otel_agentic.store.calibrations import Place

#: Why the judge gave no verdict on an answer whose outcome is known all the same: nothing was said, or a text that must not be.
NO_QUESTION: Final = "settled_without_judge"
#: What scoring tells before the judge's own words: a table has columns for it.
_SCORED: Final = re.compile(
    r"\Aanswer of turn \d+ scores [\d.]+, (?:threshold [\d.e-]+|of which the judge is unsure): "
)
#: Labels that lead nowhere, told one by one.
_TOLD: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The labels whose conversation or turn is in the store, and a sentence for each kind of label that is not."""

    verdicts: tuple[HumanVerdict, ...]
    warnings: tuple[str, ...]


def find(labels: Sequence[HumanLabel], places: Mapping[str, Sequence[Place]]) -> Found:
    """Return where the labelled conversations and turns stand in the store.

    Args:
        labels: what people said.
        places: where the conversations of each id stand.

    Raises:
        CaseError: an id stands in several environments and the label does not say which; lists all of these.
    """
    verdicts: list[HumanVerdict] = []
    lost: dict[str, list[str]] = {}
    problems: list[str] = []
    for label in labels:
        fitting = [
            place
            for place in places.get(label.conversation_id, ())
            if label.environment is None or place.environment == label.environment
        ]
        if len(fitting) > 1:
            names = ", ".join(repr(place.environment) for place in fitting)
            problems.append(
                f"{label.source}: conversation {label.conversation_id!r} exists in environments {names}; "
                "name one in a column environment"
            )
        elif (why := _lost(label, fitting)) is not None:
            lost.setdefault(why, []).append(_named(label))
        else:
            verdicts.append(_verdict(label, fitting[0]))
    if problems:
        raise CaseError("\n".join(problems))
    return Found(verdicts=tuple(verdicts), warnings=tuple(_told(why, names) for why, names in lost.items()))


def of_turn(one: MatchedConversation, score: ConversationScore, verdict: HumanVerdict, judge: JudgeVersion) -> Labelled:
    """Return a labelled turn with what the judge says of its answer."""
    assert verdict.turn_index is not None  # noqa: S101 — a verdict on a turn
    turn = one.conversation.turns[verdict.turn_index]
    said = next((each for each in score.turns if each.turn_index == turn.index), None)
    judged = said is not None and turn.answer is not None and said.answer_score is not None
    decided = judged and said is not None and said.answer_outcome != "not_evaluated"
    return Labelled(
        environment=verdict.environment,
        conversation_id=verdict.conversation_id,
        revision=score.revision,
        turn_index=turn.index,
        dataset=score.dataset,
        case_id=score.case_id,
        human=verdict.verdict,
        outcome=said.answer_outcome if said is not None and judged else "not_evaluated",
        reason=_why_not(said) if said is not None and not decided else None,
        score=said.answer_score if said is not None and judged else None,
        ended_ns=one.conversation.ended_ns,
        query=turn.query,
        expected=_expected(one, said),
        answer=turn.answer,
        reasoning=_reasons(said.explanation) if said is not None else None,
        judge=judge if judged else None,
    )


def of_conversation(
    one: MatchedConversation, score: ConversationScore, verdict: HumanVerdict, judge: JudgeVersion, rule: TurnRule
) -> Labelled:
    """Return a labelled conversation with what was computed of it, whatever a given label says.

    Its score is the lowest of its answers, and its texts are of that answer, where answers decide.
    """
    weakest = _weakest(one, score, rule)
    judged = weakest is not None or score.computed_reason == UNSURE
    turn = _turn_of(one, weakest)
    return Labelled(
        environment=verdict.environment,
        conversation_id=verdict.conversation_id,
        revision=score.revision,
        turn_index=None,
        dataset=score.dataset,
        case_id=score.case_id,
        human=verdict.verdict,
        outcome=score.computed_outcome,
        reason=score.computed_reason,
        score=weakest.answer_score if weakest is not None else None,
        ended_ns=one.conversation.ended_ns,
        query=turn.query if turn else None,
        expected=_expected(one, weakest),
        answer=turn.answer if turn and weakest else None,
        reasoning=_reasons(weakest.explanation) if weakest is not None else score.explanation,
        judge=judge if judged else None,
    )


def _lost(label: HumanLabel, fitting: Sequence[Place]) -> str | None:
    """Return why a label leads nowhere, None where it leads to a conversation or turn."""
    if not fitting:
        return "is in the store"
    if not fitting[0].closed:
        return "is closed yet"
    if label.turn_index is not None and label.turn_index >= fitting[0].turn_count:
        return "has that turn"
    return None


def _named(label: HumanLabel) -> str:
    turn = "" if label.turn_index is None else f" turn {label.turn_index + 1}"
    return f"{label.conversation_id}{turn} ({label.source})"


def _told(why: str, names: Sequence[str]) -> str:
    more = f" and {len(names) - _TOLD:,} more" if len(names) > _TOLD else ""
    labels = "1 label is" if len(names) == 1 else f"{len(names):,} labels are"
    return f"{labels} left out, for no such conversation {why}: {', '.join(names[:_TOLD])}{more}"


def _verdict(label: HumanLabel, place: Place) -> HumanVerdict:
    return HumanVerdict(
        environment=place.environment,
        conversation_id=label.conversation_id,
        revision=place.revision,
        turn_index=label.turn_index,
        verdict=label.verdict,
        source=label.source,
    )


def _why_not(said: TurnScore) -> str:
    if said.answer_outcome != "not_evaluated":
        return NO_QUESTION
    return said.answer_reason or "no_data"


def _reasons(explanation: str) -> str:
    """Return what the judge said, without what stands beside it anyway.

    >>> _reasons("answer of turn 1 scores 0.80, threshold 0.7: The day matches.")
    'The day matches.'
    """
    return _SCORED.sub("", explanation)


def _weakest(one: MatchedConversation, score: ConversationScore, rule: TurnRule) -> TurnScore | None:
    """Return the turn with the lowest score of a judge, None where something else than judged answers decides."""
    if score.computed_outcome != "pass" and score.computed_reason != "wrong_answer":
        return None
    answered = {turn.index for turn in one.conversation.turns if turn.answer is not None}
    judged = [
        turn
        for turn in score.turns
        if turn.answer_score is not None
        and turn.turn_index in answered
        and (rule != "tools" or turn.tool_outcome is None)
    ]
    if score.computed_outcome == "fail" and not any(turn.answer_outcome == "fail" for turn in judged):
        return None  # an answer that was never given is wrong without a judge
    return min(judged, key=lambda turn: (turn.answer_score or 0.0, turn.turn_index), default=None)


def _turn_of(one: MatchedConversation, said: TurnScore | None) -> Turn | None:
    index = 0 if said is None else said.turn_index
    return next((turn for turn in one.conversation.turns if turn.index == index), None)


def _expected(one: MatchedConversation, said: TurnScore | None) -> str | None:
    case = one.match.case
    if case is None or said is None or said.case_turn_index is None or said.case_turn_index >= len(case.turns):
        return None
    return " | ".join(case.turns[said.case_turn_index].accepted_answers) or None
