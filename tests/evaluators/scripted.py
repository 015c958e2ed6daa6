"""Evaluators that ask, run over a real LangChain model that says what it is told to."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from otel_agentic.config import EvaluatorSettings, JudgeSettings, ScoringSettings
from otel_agentic.evaluators.base import Subject
from otel_agentic.evaluators.run import evaluate
from otel_agentic.judges.llm import LangChainJudge
from otel_agentic.truth import parse_cases
from tests.judges.models import Bare, fields_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from otel_agentic.conversations.model import Conversation
    from otel_agentic.evaluators.base import AskingEvaluator, MetricScore
    from otel_agentic.judges.base import Rubric


def about(talk: Conversation, case: dict[str, Any] | None = None, aligned: Mapping[int, int] | None = None) -> Subject:
    """Return a conversation to be evaluated; with a case its turns are aligned by their place, unless told otherwise."""
    found = None
    if case is not None:
        (found,) = parse_cases("c.jsonl", json.dumps({"case_id": "c", **case})).require()
        turns = min(len(found.turns), len(talk.turns))
        aligned = {index: index for index in range(turns)} if aligned is None else aligned
    return Subject(conversation=talk, case=found, score=None, aligned=aligned or {}, settings=ScoringSettings())


def made(kind: type[AskingEvaluator]) -> AskingEvaluator:
    """Return an evaluator under the defaults."""
    return kind.from_settings(EvaluatorSettings())


def said(value: object, reasoning: str = "It is so.") -> str:
    """Return the reply of a model: a number is a score, a text a label, a list texts."""
    name = "label" if isinstance(value, str) else "texts" if isinstance(value, list) else "score"
    return json.dumps({"reasoning": reasoning, name: value})


class Talker:
    """A model that replies to each question by its rubric and material, and remembers what it was shown."""

    def __init__(self, rubrics: Iterable[Rubric], reply: Any, model: type[Bare] = Bare) -> None:
        self._rubrics = list(rubrics)
        self._reply = reply
        self.shown: list[tuple[str, dict[str, Any]]] = []
        self.model = model(say=self._say, forms=tuple(rubric.form for rubric in self._rubrics))
        self.judge = LangChainJudge(self.model, JudgeSettings(tries=2, backoff_s=0.0, concurrency=1))

    def _say(self, human: str, _: str) -> Any:
        (name,) = (one.name for one in self._rubrics if one.instructions in human)
        fields = fields_of(human)
        self.shown.append((name, fields))
        reply = self._reply(name, fields) if callable(self._reply) else self._reply
        return reply if isinstance(reply, BaseException) or str(reply).startswith("{") else said(reply)

    def scores(self, kind: type[AskingEvaluator], *subjects: Subject) -> list[MetricScore]:
        """Return what an evaluator says of conversations, one after the other."""
        ran = evaluate([made(kind)], subjects, lambda questions: enumerate(self.judge.judge(questions)))
        found = sorted(ran, key=lambda one: one.place)
        assert [] == [fault for one in found for fault in one.faults]
        return [score for one in found for score in one.scores]


def judged(
    kind: type[AskingEvaluator], subject: Subject, reply: Any, model: type[Bare] = Bare
) -> tuple[list[MetricScore], list[tuple[str, dict[str, Any]]]]:
    """Return the scores of a conversation, and what was asked about it: the rubric, and what it was shown.

    `reply` is what the model says, or a function of the name of the rubric and the material.
    """
    talker = Talker(kind.rubrics, reply, model)
    return talker.scores(kind, subject), talker.shown
