"""Subjects for evaluators, and real LangChain models that answer their questions by a script."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from otel_agentic.config import JudgeSettings, ScoringSettings
from otel_agentic.evaluators.base import AskingEvaluator, Evaluator, MetricScore, Subject
from otel_agentic.judges import LangChainJudge
from otel_agentic.judges.asking_judge import AskingJudge
from otel_agentic.scoring.outcome import align_turns
from tests.evaluators.running import evaluate
from tests.judges.models import Bare, fields_of

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.truth import Case

    #: The material of a question, and the whole prompt -> the reply of the model.
    Reply = Callable[[dict[str, Any], str], str | BaseException]


def subject(actual: Conversation, case: Case | None, **changes: Any) -> Subject:
    """Return a conversation and its case, turns found as scoring finds them; `changes` are settings of scoring."""
    turns = () if case is None else case.turns
    positions = align_turns([turn.query for turn in turns], [turn.query for turn in actual.turns])
    aligned = {actual.turns[position].index: index for position, index in positions.items()}
    return Subject(
        conversation=actual,
        case=case,
        score=None,
        aligned=aligned,
        settings=ScoringSettings().model_copy(update=changes),
    )


def scores_of(
    evaluator: Evaluator | AskingEvaluator, about: Subject, reply: Reply | None = None, model: Bare | None = None
) -> dict[str, MetricScore]:
    """Return the scores by metric, or metric and turn (0-based), as the driver gives them with a scripted model."""
    model = model or Bare(say=lambda human, _: (reply or unasked)(fields_of(human), human))
    judge = AskingJudge(LangChainJudge(model, JudgeSettings(tries=1, backoff_s=0.0)))
    (ran,) = evaluate([evaluator], [about], judge.verdicts)
    assert () == ran.faults
    return {
        score.name.rpartition(".")[2] + ("" if score.turn_index is None else f"[{score.turn_index}]"): score
        for score in ran.scores
    }


def label(stated: str, reasoning: str = "So it is.") -> str:
    return json.dumps({"reasoning": reasoning, "label": stated})


def texts(*stated: str) -> str:
    return json.dumps({"reasoning": "So it is.", "texts": stated})


def unasked(visible: dict[str, Any], _: str) -> str:
    raise AssertionError(f"nothing was to be asked: {visible}")
