"""Names of evaluations and scores that are the same in every run: hashes of all that a score depends on."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from otel_agentic.evaluators.registry import asks
from otel_agentic.judges.base import version_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.config import EvaluatorSettings
    from otel_agentic.evaluators.base import AnyEvaluator, MetricScore
    from otel_agentic.judges.base import Judge
    from otel_agentic.scoring.model import ConversationScore


def evaluation_id_of(evaluator: AnyEvaluator, core: str, judge: Judge, settings: EvaluatorSettings) -> str:
    """Return the hash of everything that the scores of an evaluator depend on besides the conversation.

    What it takes from the settings counts where it says so: by `prices` among its needs, or in an attribute
    `configuration` that JSON can hold.

    Args:
        evaluator: the evaluator; of one that asks, its prompts count, too.
        core: the evaluation that the outcomes belong to: the code of scoring, judge, settings and truth.
        judge: the judge; a user's own instructions for a prompt count, too.
        settings: the section of evaluators.
    """
    prices = settings.prices if "prices" in getattr(evaluator, "needs", ()) else {}
    rubrics = evaluator.rubrics if asks(evaluator) else ()
    content: list[Any] = [
        core,
        evaluator.name,
        evaluator.version,
        [[one.name, one.version, one.instructions, repr(one.form), version_for(judge, one)] for one in rubrics],
        {name: [price.input_usd, price.output_usd] for name, price in prices.items()},
        getattr(evaluator, "configuration", None),
    ]
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=repr).encode()).hexdigest()[:16]


def core_score_id(
    score: ConversationScore, evaluation_id: str, name: str, place: tuple[int | str | None, ...] = ()
) -> str:
    """Return the id of a core score, 32 hex characters: the same evaluation of the same revision gives the same one.

    Args:
        score: the conversation's score.
        evaluation_id: the evaluation.
        name: the name of the score, such as agentic.answer.
        place: what tells scores of one name apart.
    """
    parts = (evaluation_id, score.environment, score.conversation_id, score.revision, name, *place)
    # repr keeps "1" and 1, and a separator inside a name, apart; surrogates have no UTF-8.
    return hashlib.sha256(repr(parts).encode("utf-8", "backslashreplace")).hexdigest()[:32]


def target_of(score: MetricScore) -> str:
    """Return what a score is a score of: call, turn or conversation."""
    if score.position is not None:
        return "call"
    return "conversation" if score.turn_index is None else "turn"


def score_ids_of(
    evaluation_id: str, environment: str, conversation_id: str, revision: int, scores: Sequence[MetricScore]
) -> list[str]:
    """Return an id a score, 32 hex characters: the same evaluation of the same revision gives the same ones.

    Scores of the same metric and place are told apart by their order.
    """
    begun = hashlib.sha256(
        repr((evaluation_id, environment, conversation_id, revision)).encode("utf-8", "backslashreplace")
    )
    seen: Counter[tuple[Any, ...]] = Counter()
    ids = []
    for score in scores:
        place = (score.name, score.turn_index, score.position, score.tool_name, score.parameter)
        own = begun.copy()
        own.update(repr((*place, seen[place])).encode("utf-8", "backslashreplace"))
        seen[place] += 1
        ids.append(own.hexdigest()[:32])
    return ids
