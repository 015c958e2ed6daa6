"""Topic adherence: does the agent talk about its topics, and about no others?"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.evaluators.base import Metric, MetricScore, WithoutSettings
from otel_agentic.evaluators.catalog import metrics_of
from otel_agentic.evaluators.ragas.told import Silence, label_of, silence_in, texts_of, unheard
from otel_agentic.evaluators.transcript import transcript
from otel_agentic.judges.base import ReplyForm, rubric_question
from otel_agentic.judges.rubrics import load_rubric

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_agentic.evaluators.base import Asking, Need, Subject
    from otel_agentic.judges.base import Rubric

PRECISION: Final = "agentic.ragas.topic_adherence_precision"
RECALL: Final = "agentic.ragas.topic_adherence_recall"
F1: Final = "agentic.ragas.topic_adherence_f1"
ANSWERED, REFUSED, WITHIN, OUTSIDE = "answered", "refused", "within", "outside"

_TOPICS: Final = load_rubric("otel_agentic.evaluators", "prompts/ragas/topics.md", ReplyForm(kind="texts", most=20))
_ANSWERED: Final = load_rubric(
    "otel_agentic.evaluators", "prompts/ragas/topic_answered.md", ReplyForm(kind="label", labels=(ANSWERED, REFUSED))
)
_ALLOWED: Final = load_rubric(
    "otel_agentic.evaluators", "prompts/ragas/topic_allowed.md", ReplyForm(kind="label", labels=(WITHIN, OUTSIDE))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adherence:
    """How many topics were answered rightly, answered wrongly, refused wrongly, and refused rightly."""

    right: int = 0
    strayed: int = 0
    withheld: int = 0
    declined: int = 0

    @classmethod
    def of(cls, topics: Sequence[tuple[str, str]]) -> Adherence:
        """Return the counts of topics, each told as (answered or refused, within or outside)."""
        return cls(
            right=topics.count((ANSWERED, WITHIN)),
            strayed=topics.count((ANSWERED, OUTSIDE)),
            withheld=topics.count((REFUSED, WITHIN)),
            declined=topics.count((REFUSED, OUTSIDE)),
        )

    @property
    def precision(self) -> float | None:
        """The share of answered topics that may be talked about, None where none was answered.

        >>> Adherence(right=1, strayed=1, declined=5).precision, Adherence(withheld=1, declined=5).precision
        (0.5, None)
        """
        return _share(self.right, self.right + self.strayed)

    @property
    def recall(self) -> float | None:
        """The share of topics that may be talked about which were answered, None where there was none.

        >>> Adherence(right=1, withheld=3, declined=5).recall, Adherence(strayed=1, declined=5).recall
        (0.25, None)
        """
        return _share(self.right, self.right + self.withheld)

    @property
    def f1(self) -> float | None:
        """Their harmonic mean; 0 where one of them is undefined for what went wrong, None where nothing did.

        >>> Adherence(right=2, strayed=1, withheld=1).f1, Adherence(withheld=1).f1, Adherence(declined=5).f1
        (0.6666666666666666, 0.0, None)
        """
        return _share(2 * self.right, 2 * self.right + self.strayed + self.withheld)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


class TopicAdherence(WithoutSettings):
    """The three modes of topic adherence."""

    name: str = "ragas.topic_adherence"
    version: str = "1"
    metrics: tuple[Metric, ...] = metrics_of("ragas.topic_adherence")
    needs: frozenset[Need] = frozenset({"turns", "queries", "case", "reference_topics", "judge"})
    default: bool = False
    rubrics: tuple[Rubric, ...] = (_TOPICS, _ANSWERED, _ALLOWED)

    def ask(self, subject: Subject) -> Asking:
        """Yield the question for the topics, then two for each of them, and return the three scores."""
        turns = () if subject.case is None else subject.case.turns
        wanted = list(dict.fromkeys(topic for turn in turns for topic in turn.reference_topics))
        if not wanted:
            return _none(Silence(reason="no_data", told="the case has no `reference_topics`; annotate them"))
        unknown = unheard(subject.conversation.turns, results=False)
        if unknown is not None:
            return _none(unknown)
        shown = transcript(subject.conversation.turns)
        (found,) = yield [rubric_question(_TOPICS, conversation=shown.text)]
        silence, topics = silence_in([found], labels=False), texts_of(found)
        if silence is None and not topics:
            silence = Silence(reason="no_data", told="the judge finds no topic that the user brought up")
        if silence is not None:
            return _none(silence)
        references = json.dumps(wanted, ensure_ascii=False)
        replies = yield [
            *(rubric_question(_ANSWERED, topic=topic, conversation=shown.text) for topic in topics),
            *(rubric_question(_ALLOWED, topic=topic, reference_topics=references) for topic in topics),
        ]
        silence = silence_in(replies)
        if silence is not None:
            return _none(silence)
        labels = [label_of(reply) for reply in replies]
        told = dict(zip(topics, zip(labels[: len(topics)], labels[len(topics) :], strict=True), strict=True))
        return _scores(told, shown.note)


def _scores(told: Mapping[str, tuple[str, str]], note: str) -> list[MetricScore]:
    counts = Adherence.of(list(told.values()))
    details = {"topics": [{"topic": topic, "agent": said, "topic_is": place} for topic, (said, place) in told.items()]}
    undefined = {
        PRECISION: "the agent answered none of the topics",
        RECALL: "none of the topics is within the reference topics",
        F1: "the agent refused all topics, and rightly: none is within the reference topics",
    }
    sentence = _sentence(told)
    return [
        MetricScore(name=name, reason="no_data", explanation=f"{undefined[name]}: {sentence}{note}", details=details)
        if value is None
        else MetricScore(name=name, value=value, explanation=sentence + note, details=details)
        for name, value in ((PRECISION, counts.precision), (RECALL, counts.recall), (F1, counts.f1))
    ]


def _sentence(told: Mapping[str, tuple[str, str]]) -> str:
    """Return what became of each topic; the same every time."""
    words = {
        (ANSWERED, WITHIN): "answered, as it should",
        (ANSWERED, OUTSIDE): "answered, though outside of the reference topics",
        (REFUSED, WITHIN): "refused, though within the reference topics",
        (REFUSED, OUTSIDE): "refused, as it should",
    }
    by_fate = {fate: [f'"{topic}"' for topic, one in told.items() if one == fate] for fate in words}
    return "; ".join(f"{words[fate]}: {', '.join(topics)}" for fate, topics in by_fate.items() if topics)


def _none(silence: Silence) -> list[MetricScore]:
    return [silence.score(name) for name in (PRECISION, RECALL, F1)]
