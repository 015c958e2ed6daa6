"""Rows of an evaluation dataset (RAGAS, NeMo Evaluator) -> what evaluators say of each, in memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from otel_agentic.errors import CaseError
from otel_agentic.evaluators.base import Subject
from otel_agentic.evaluators.registry import asks, chosen, chosen_of
from otel_agentic.evaluators.run import Ran, abstentions, evaluate
from otel_agentic.judges.asking import AskingJudge
from otel_agentic.judges.base import kinds_of
from otel_agentic.judges.choose import judge_named
from otel_agentic.pipeline.asking import answers_to, score_asking
from otel_agentic.pipeline.metrics import require_judge
from otel_agentic.pipeline.metrics_tally import MetricTally
from otel_agentic.pipeline.tally import Tally
from otel_agentic.pipeline.thrift import RunBudget
from otel_agentic.pipeline.truthfiles import read_attempts_file
from otel_agentic.scoring import MatchedConversation, score_conversations
from otel_agentic.scoring.turns import align_turns
from otel_agentic.spans.redacting import CountingRedactor
from otel_agentic.store.metric_scores import Measured
from otel_agentic.truth.formats.made import made_conversation
from otel_agentic.truth.match import Match
from otel_agentic.truth.redact import redacted_case

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from otel_agentic.config import ScoringSettings, Settings
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.evaluators.base import MetricScore
    from otel_agentic.evaluators.registry import Chosen
    from otel_agentic.judges import Judge
    from otel_agentic.scoring.model import ConversationScore
    from otel_agentic.truth.formats.attempts import Attempt

#: What is computed unless metrics are named: what those who have such rows know them by.
DEFAULT: Final = ("ragas",)
#: Problems of all files that are told.
_TOLD: Final = 1000
_NO_AGENT: Final = "the row tells nothing of an agent: neither a response, nor messages or calls of one"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowScores:
    """A row and what was said of it: the scores, and abstentions, of the metrics that were asked for."""

    row: Attempt
    scores: tuple[MetricScore, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsEvaluated:
    """Rows in the order of their files, with their scores.

    `metrics` counts what was said; `names` are the metrics that were asked for, `unasked` those that were left out because
    the judge asks no model. `left_out` counts the rows with a field that nothing here looks at.
    """

    rows: tuple[RowScores, ...]
    names: frozenset[str]
    unasked: tuple[str, ...]
    metrics: MetricTally
    judge: Judge
    judge_use: Tally
    used_up: str | None
    left_out: Mapping[str, int]


def read_rows_files(paths: Sequence[Path]) -> list[Attempt]:
    """Return the rows of several files, in their order.

    Raises:
        UsageError: a file cannot be read.
        CaseError: rows cannot be read; lists the problems of all files, with file, line and field.
    """
    rows: list[Attempt] = []
    problems: list[str] = []
    for path in paths:
        try:
            rows += read_attempts_file(path)
        except CaseError as error:
            problems += str(error).split("\n")
    if problems:
        raise CaseError("\n".join(problems[:_TOLD]))
    return rows


def evaluate_rows(
    paths: Sequence[Path],
    settings: Settings,
    names: Sequence[str] | None = None,
    *,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> RowsEvaluated:
    """Return what evaluators say of the rows of some files.

    What the settings' redaction takes out of a store is taken out here, too, before a judge is shown anything.

    Args:
        paths: the datasets.
        settings: the judge, what it may spend, evaluators of your own.
        names: the metrics, as `--metrics` has them; None takes those of RAGAS, without those that ask a judge where the
            judge of the settings asks no model.
        progress: told how many rows are done, and how many there are.

    Raises:
        CaseError: rows cannot be read; lists the problems of all files.
        UsageError: a metric is unknown or ambiguous, or needs a judge that asks a model; names it.
        PluginError: an evaluator or the judge does not load.
    """
    rows = read_rows_files(paths)
    judge = judge_named(settings.scoring.judge, settings.judge)
    try:
        return _evaluated(rows, judge, settings, names, progress)
    finally:
        getattr(judge, "close", lambda: None)()


def _evaluated(
    rows: Sequence[Attempt],
    judge: Judge,
    settings: Settings,
    names: Sequence[str] | None,
    progress: Callable[[int, int], None],
) -> RowsEvaluated:
    wanted, unasked = _chosen(settings, names, judge)
    redacting = CountingRedactor(settings.redaction)
    clean = [_redacted(row, redacting) for row in rows]
    budget, tally, metrics = RunBudget(settings.judge), Tally(), MetricTally()
    said: list[dict[str, tuple[MetricScore, ...]]] = [{} for _ in clean]
    done = 0
    for ran in _run(clean, wanted, AskingJudge(judge, budget=budget), tally, settings.scoring):
        metrics.add([_measured(ran, clean[ran.place])])
        metrics.faults.update(ran.faults)
        said[ran.place][ran.evaluator.name] = ran.scores
        done += len(said[ran.place]) == len(wanted.evaluators)
        progress(done, len(clean))
    return RowsEvaluated(
        rows=tuple(
            RowScores(row=row, scores=_asked_for(wanted, scores)) for row, scores in zip(clean, said, strict=True)
        ),
        names=wanted.metrics,
        unasked=unasked,
        metrics=metrics,
        judge=judge,
        judge_use=tally,
        used_up=budget.used_up,
        left_out=Counter(name for row in clean for name in row.left_out),
    )


def _chosen(settings: Settings, names: Sequence[str] | None, judge: Judge) -> tuple[Chosen, tuple[str, ...]]:
    """Return the evaluators that were chosen, and the metrics left out because the judge asks no model."""
    found = chosen(settings.evaluators, (*DEFAULT, *settings.evaluators.files) if names is None else names)
    if names is None and "rubric" not in kinds_of(judge):
        plain = [one for one in found.evaluators if not asks(one)]
        kept = frozenset(metric.name for one in plain for metric in one.metrics)
        return chosen_of(plain, kept), tuple(sorted(found.metrics - kept))
    rest = require_judge(found, judge)
    return rest, tuple(sorted(rest.unasked))


def _redacted(row: Attempt, redacting: CountingRedactor) -> Attempt:
    made = None if row.conversation is None else redacting.record(row.conversation)
    return replace(row, case=redacted_case(row.case, redacting), conversation=made)


def _run(
    rows: Sequence[Attempt], wanted: Chosen, asking: AskingJudge, tally: Tally, settings: ScoringSettings
) -> Iterator[Ran]:
    """Yield what each evaluator says of each row; the places are those of the rows."""
    told: list[tuple[int, Attempt, Conversation]] = []
    for place, row in enumerate(rows):
        if row.conversation is not None:
            told.append((place, row, row.conversation))
            continue
        for evaluator in wanted.evaluators:
            yield Ran(place, evaluator, abstentions(evaluator, "no_data", _NO_AGENT))
    subjects = _subjects([(row, made) for _, row, made in told], wanted, asking, tally, settings)
    for ran in evaluate(wanted.evaluators, subjects, lambda questions: answers_to(questions, asking, tally=tally)):
        yield ran._replace(place=told[ran.place][0])


def _subjects(
    told: Sequence[tuple[Attempt, Conversation]],
    wanted: Chosen,
    asking: AskingJudge,
    tally: Tally,
    settings: ScoringSettings,
) -> list[Subject]:
    """Return what evaluators look at; core scores are made only for evaluators that look at them: they may cost calls."""
    matched = [MatchedConversation(conversation=made, match=_match(row)) for row, made in told]
    scores: list[ConversationScore | None] = [None] * len(matched)
    if any("score" in evaluator.needs for evaluator in wanted.evaluators):
        score = partial(_core_scores, settings=settings)
        for place, found in score_asking(matched, asking, score, tally=tally):
            scores[place] = found
    return [
        Subject(conversation=made, case=row.case, score=score, aligned=_aligned(row, made), settings=settings)
        for (row, made), score in zip(told, scores, strict=True)
    ]


def _core_scores(
    matched: Sequence[MatchedConversation], judge: Judge, settings: ScoringSettings
) -> list[ConversationScore]:
    return score_conversations(matched, judge=judge, settings=settings)


def _match(row: Attempt) -> Match:
    """Return the match of a row with its own reference: there is nothing to be found."""
    return Match(
        case=row.case, method="case_id", confidence=1.0, candidates=(row.case.case_id,), warning=None, reason=None
    )


def _aligned(row: Attempt, made: Conversation) -> Mapping[int, int]:
    places = align_turns([turn.query for turn in row.case.turns], [turn.query for turn in made.turns])
    return {made.turns[place].index: index for place, index in places.items()}


def _measured(ran: Ran, row: Attempt) -> Measured:
    return Measured(
        conversation=row.conversation or made_conversation(row.name, ()),
        case_id=row.case.case_id,
        evaluator=ran.evaluator,
        evaluation_id="",
        scores=ran.scores,
    )


def _asked_for(wanted: Chosen, said: Mapping[str, tuple[MetricScore, ...]]) -> tuple[MetricScore, ...]:
    """Return the scores of the metrics that were asked for, in the order of the evaluators."""
    found = (score for evaluator in wanted.evaluators for score in said.get(evaluator.name, ()))
    return tuple(score for score in found if score.name in wanted.metrics)
