"""Rows of RAGAS and NeMo Evaluator datasets: evaluated, reported as JSON, and stored as conversations."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.conversations.model import ConversationId
from otel_agentic.errors import CaseError
from otel_agentic.evaluation.case_files import read_attempts_file
from otel_agentic.evaluation.counts import MetricTally, Tally
from otel_agentic.evaluation.judge_runs import RunBudget, answers_to, score_asking
from otel_agentic.evaluation.metrics import require_judge
from otel_agentic.evaluation.run import judge_models
from otel_agentic.evaluation.truth import TruthFile
from otel_agentic.evaluators.base import Subject
from otel_agentic.evaluators.registry import asks, chosen, chosen_of
from otel_agentic.evaluators.run import Ran, abstentions, evaluate
from otel_agentic.judges.asking_judge import AskingJudge
from otel_agentic.judges.base import kinds_of
from otel_agentic.judges.registry import judge_named
from otel_agentic.redaction.batch import CountingRedactor
from otel_agentic.scoring import MatchedConversation, score_conversations
from otel_agentic.scoring.outcome import align_turns
from otel_agentic.store.conversations import (
    Built,
    content_hash,
    current_revisions,
    load_conversations,
    save_conversations,
)
from otel_agentic.store.scores import Measured
from otel_agentic.truth.formats import native_lines
from otel_agentic.truth.formats.foreign import recorded_conversation
from otel_agentic.truth.load import redacted_case
from otel_agentic.truth.match import Match

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from otel_agentic.config import ScoringSettings, Settings
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.engine.engine import Engine
    from otel_agentic.evaluators.base import MetricScore
    from otel_agentic.evaluators.registry import Chosen
    from otel_agentic.judges import Judge
    from otel_agentic.scoring.model import ConversationScore
    from otel_agentic.store.connection import Connection
    from otel_agentic.truth import Case
    from otel_agentic.truth.formats.files import Attempt

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
        conversation=row.conversation or recorded_conversation(row.name, ()),
        case_id=row.case.case_id,
        evaluator=ran.evaluator,
        evaluation_id="",
        scores=ran.scores,
    )


def _asked_for(wanted: Chosen, said: Mapping[str, tuple[MetricScore, ...]]) -> tuple[MetricScore, ...]:
    """Return the scores of the metrics that were asked for, in the order of the evaluators."""
    found = (score for evaluator in wanted.evaluators for score in said.get(evaluator.name, ()))
    return tuple(score for score in found if score.name in wanted.metrics)


def rows_json(found: RowsEvaluated) -> dict[str, Any]:
    """Return all of it as JSON can say it: one record a row, the metrics summed up, and what the judge was asked."""
    told = found.metrics.to_json(found.names)
    use = found.judge_use
    return {
        "rows": [_row_json(one) for one in found.rows],
        "metrics": told["metrics"],
        "faults": told["faults"],
        "left_out": dict(found.left_out),
        "metrics_left_out": list(found.unasked),
        "judge": {
            "name": found.judge.name,
            "version": found.judge.version,
            "models": judge_models(found.judge, use),
            "calls": use.calls,
            "judged": use.verdicts,
            "cached": use.cached,
            "failed": use.failed,
            "failure": use.failure,
            "refused": use.refused,
            "input_tokens": use.input_tokens,
            "output_tokens": use.output_tokens,
            "cost_usd": use.cost_usd,
            "used_up": found.used_up,
        },
    }


def _row_json(one: RowScores) -> dict[str, Any]:
    return {
        "file": one.row.file,
        "line": one.row.line,
        "row": one.row.name,
        "scores": [
            {
                "name": score.name,
                "value": score.value,
                "label": score.label,
                "reason": score.reason,
                "explanation": score.explanation,
                "turn_index": score.turn_index,
                "position": score.position,
                "details": dict(score.details),
            }
            for score in one.scores
        ],
    }


#: The environment of rows, which no deployment produced.
ENVIRONMENT: Final = "rows"
#: Maximum number of problems in a message.
_MOST_PROBLEMS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRows:
    """The number of stored rows, of new or changed ones among them, and of rows without agent output."""

    stored: int
    new: int
    without_agent: int


def store_rows(engine: Engine, rows: Sequence[Attempt]) -> StoredRows:
    """Store rows, each as a conversation of environment `rows` with its case; storing the same rows again changes nothing.

    Conversations and cases are named by dataset and row, such as `airline/row-3`. The time of a conversation is when it was
    first stored, because rows contain no time.

    Raises:
        CaseError: rows of two files have the same name; lists all of them with file and line. Nothing is stored.
    """
    _require_apart(rows)
    by_dataset: dict[str, dict[str, Case]] = {}
    conversations: list[Conversation] = []
    redacting, now_ns = engine.store.redacting, engine.store.clock()
    for row in rows:
        case = row.case.model_copy(update={"case_id": f"{row.case.dataset}/{row.case.case_id}"})
        by_dataset.setdefault(case.dataset, {})[case.case_id] = case
        if row.conversation is not None:
            conversations.append(_as_stored(redacting.record(row.conversation), case, _name_of(row), now_ns))
    engine.evaluating.remember(
        [TruthFile(name=name, text=native_lines(list(cases.values()))) for name, cases in by_dataset.items()], []
    )
    fresh: list[Conversation] = []

    def write(con: Connection) -> None:
        fresh[:] = _changed(con, conversations)
        save_conversations(
            con, [Built(conversation=conversation, ambiguous_link=False) for conversation in fresh], now_ns
        )

    engine.store.write(write)
    return StoredRows(stored=len(conversations), new=len(fresh), without_agent=len(rows) - len(conversations))


def _require_apart(rows: Sequence[Attempt]) -> None:
    known: dict[str, Attempt] = {}
    problems: list[str] = []
    for row in rows:
        first = known.setdefault(_name_of(row), row)
        if first is not row:
            problems.append(
                f"{row.file}:{row.line}: row {_name_of(row)!r} already exists at {first.file}:{first.line}; rename one of the "
                "files, or give the rows another `dataset` or `id`"
            )
    if problems:
        raise CaseError("\n".join(problems[:_MOST_PROBLEMS]))


def _name_of(row: Attempt) -> str:
    return f"{row.case.dataset}/{row.name}"


def _as_stored(conversation: Conversation, case: Case, name: str, now_ns: int) -> Conversation:
    moved = replace(
        conversation,
        environment=ENVIRONMENT,
        conversation_id=ConversationId(name),
        case_id=case.case_id,
    )
    return _at(moved, now_ns)


def _at(conversation: Conversation, time_ns: int) -> Conversation:
    turns = tuple(replace(turn, started_ns=time_ns, ended_ns=time_ns) for turn in conversation.turns)
    return replace(conversation, started_ns=time_ns, ended_ns=time_ns, turns=turns)


def _changed(con: Connection, conversations: Iterable[Conversation]) -> list[Conversation]:
    """Return the new conversations, and the changed ones as the next revision."""
    by_key = {
        (conversation.environment, str(conversation.conversation_id)): conversation for conversation in conversations
    }
    known = {
        (conversation.environment, str(conversation.conversation_id)): conversation
        for conversation in load_conversations(con, by_key)
    }
    revisions = current_revisions(con, by_key)
    changed: list[Conversation] = []
    for key, conversation in by_key.items():
        current = revisions.get(key)
        if current is None:
            changed.append(conversation)
        elif key not in known or content_hash(_at(conversation, known[key].started_ns)) != current.content_hash:
            changed.append(replace(conversation, revision=current.revision + 1))
    return changed
