"""Evaluators that ask a judge, run over a real LangChain model with scripted replies."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from otel_agentic.config import EvaluatorSettings, JudgeSettings, ScoringSettings
from otel_agentic.evaluators.base import AskingEvaluator, MetricScore, Subject
from otel_agentic.judges.llm import LangChainJudge
from otel_agentic.truth import parse_cases
from tests.evaluators.running import evaluate
from tests.judges.models import Bare, fields_of

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.judges.base import Rubric


def about(talk: Conversation, case: dict[str, Any] | None = None, aligned: Mapping[int, int] | None = None) -> Subject:
    """Return a conversation to be evaluated; with a case, turns are aligned by position unless `aligned` is passed."""
    results = None
    if case is not None:
        (results,) = parse_cases("c.jsonl", json.dumps({"case_id": "c", **case})).require()
        turns = min(len(results.turns), len(talk.turns))
        aligned = {index: index for index in range(turns)} if aligned is None else aligned
    return Subject(conversation=talk, case=results, score=None, aligned=aligned or {}, settings=ScoringSettings())


def default_evaluator(kind: type[AskingEvaluator]) -> AskingEvaluator:
    """Return an evaluator under the defaults."""
    return kind.from_settings(EvaluatorSettings())


def reply_text(value: object, reasoning: str = "It is so.") -> str:
    """Return the reply of a model: a number is a score, a text a label, a list texts."""
    name = "label" if isinstance(value, str) else "texts" if isinstance(value, list) else "score"
    return json.dumps({"reasoning": reasoning, name: value})


class Talker:
    """A model that replies to each question by its rubric and material, and records the questions."""

    def __init__(self, rubrics: Iterable[Rubric], reply: Any, model: type[Bare] = Bare) -> None:
        self._rubrics = list(rubrics)
        self._reply = reply
        self.questions: list[tuple[str, dict[str, Any]]] = []
        self.model = model(say=self._say, forms=tuple(rubric.form for rubric in self._rubrics))
        self.judge = LangChainJudge(self.model, JudgeSettings(tries=2, backoff_s=0.0, concurrency=1))

    def _say(self, human: str, _: str) -> Any:
        (name,) = (rubric.name for rubric in self._rubrics if rubric.instructions in human)
        fields = fields_of(human)
        self.questions.append((name, fields))
        reply = self._reply(name, fields) if callable(self._reply) else self._reply
        return reply if isinstance(reply, BaseException) or str(reply).startswith("{") else reply_text(reply)

    def scores(self, kind: type[AskingEvaluator], *subjects: Subject) -> list[MetricScore]:
        """Return the scores of an evaluator for conversations, in their order."""
        ran = evaluate([default_evaluator(kind)], subjects, lambda questions: enumerate(self.judge.judge(questions)))
        results = sorted(ran, key=lambda result: result.subject_index)
        assert [] == [fault for result in results for fault in result.faults]
        return [score for result in results for score in result.scores]


def scores_and_questions(
    kind: type[AskingEvaluator], subject: Subject, reply: Any, model: type[Bare] = Bare
) -> tuple[list[MetricScore], list[tuple[str, dict[str, Any]]]]:
    """Return the scores of a conversation, and the questions about it, each as name of the rubric and material.

    `reply` is the reply of the model, or a function of the name of the rubric and the material.
    """
    talker = Talker(kind.rubrics, reply, model)
    return talker.scores(kind, subject), talker.questions
