"""Rows of RAGAS and NeMo Evaluator datasets: evaluated, reported as JSON, and stored as conversations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.conversations.model import Conversation, ConversationId
from otel_agentic.errors import CaseError
from otel_agentic.evaluation.batch import MetricTally, Tally
from otel_agentic.evaluation.case_files import read_attempts_file
from otel_agentic.evaluation.conversation import ActiveEvaluators
from otel_agentic.evaluation.judge_runs import RunBudget, answers_to
from otel_agentic.evaluation.run import judge_models
from otel_agentic.evaluation.scope import TruthFile
from otel_agentic.evaluators.base import MetricScore, Subject, asks
from otel_agentic.evaluators.registry import Chosen, chosen, chosen_of, require_judge
from otel_agentic.evaluators.run import Ran, abstentions
from otel_agentic.judges.asking_judge import AskingJudge
from otel_agentic.judges.base import kinds_of
from otel_agentic.judges.dialogue import run_dialogues
from otel_agentic.judges.registry import judge_named
from otel_agentic.judges.sanity import check_judge
from otel_agentic.redaction.engine import CountingRedactor
from otel_agentic.scoring import MatchedConversation
from otel_agentic.scoring.outcome import aligned_turns, scoring
from otel_agentic.store.conversations import (
    Built,
    content_hash,
    current_revisions,
    load_conversations,
    save_conversations,
)
from otel_agentic.truth.formats import native_lines
from otel_agentic.truth.formats.foreign import recorded_conversation
from otel_agentic.truth.load import redacted_case
from otel_agentic.truth.match import Match

if TYPE_CHECKING:
    from otel_agentic.config import ScoringSettings, Settings
    from otel_agentic.engine.engine import Engine
    from otel_agentic.judges import Judge
    from otel_agentic.judges.dialogue import Dialogue
    from otel_agentic.store.connection import Connection
    from otel_agentic.store.table import Measured
    from otel_agentic.truth import Case
    from otel_agentic.truth.formats.files import Attempt

#: The metrics that are computed by default: those that users of such datasets expect.
DEFAULT: Final = ("ragas",)
#: Maximum number of problems in a message.
_MOST_PROBLEMS: Final = 1000
_NO_AGENT: Final = "the row has no agent output: no response, messages or calls"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowScores:
    """A row with the scores and abstentions of the requested metrics."""

    row: Attempt
    scores: tuple[MetricScore, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsEvaluated:
    """Rows in the order of their files, with their scores.

    `metrics` summarises the scores; `names` are the requested metrics, `unasked` those that were skipped because the judge
    calls no model. `left_out` counts the rows with a field that is ignored.
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
    """Return the rows of several files, in order.

    Raises:
        UsageError: a file cannot be read.
        CaseError: rows are malformed; the message lists the problems of all files, with file, line and field.
    """
    rows: list[Attempt] = []
    problems: list[str] = []
    for path in paths:
        try:
            rows += read_attempts_file(path)
        except CaseError as error:
            problems += str(error).split("\n")
    if problems:
        raise CaseError("\n".join(problems[:_MOST_PROBLEMS]))
    return rows


def evaluate_rows(
    paths: Sequence[Path],
    settings: Settings,
    names: Sequence[str] | None = None,
    *,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> RowsEvaluated:
    """Return the rows of files with their metric scores.

    Rows are redacted by the settings, as in a store, before a judge receives them.

    Args:
        paths: the datasets.
        settings: the judge, its budget, and custom evaluators.
        names: the metrics, as in `--metrics`; None for those of RAGAS, without those that need a model if the judge of the
            settings calls none.
        progress: called with the number of finished rows and of all rows.

    Raises:
        CaseError: rows are malformed; the message lists the problems of all files.
        UsageError: a metric is unknown or ambiguous, or needs a judge that calls a model; the message names it.
        PluginError: an evaluator or the judge does not load.
    """
    rows = read_rows_files(paths)
    judge = judge_named(settings.scoring.judge, settings.judge)
    try:
        return _evaluate(rows, judge, settings, names, progress)
    finally:
        getattr(judge, "close", lambda: None)()


def _evaluate(
    rows: Sequence[Attempt],
    judge: Judge,
    settings: Settings,
    names: Sequence[str] | None,
    progress: Callable[[int, int], None],
) -> RowsEvaluated:
    selected, skipped_metrics = _chosen(settings, names, judge)
    redactor = CountingRedactor(settings.redaction)
    redacted_rows = [_redacted(row, redactor) for row in rows]
    budget, tally, metrics = RunBudget(settings.judge), Tally(), MetricTally()
    if selected.judge_evaluators and redacted_rows:
        check_judge(judge, settings.judge, budget)
    scores: list[dict[str, tuple[MetricScore, ...]]] = [{} for _ in redacted_rows]
    ask = partial(answers_to, judge=AskingJudge(judge, budget=budget), tally=tally)
    dialogues = (_dialogue(row, selected, judge, settings.scoring) for row in redacted_rows)
    for done, (index, results) in enumerate(run_dialogues(dialogues, ask), start=1):
        metrics.add(results)
        scores[index] = {measured.evaluator.name: measured.scores for measured in results}
        progress(done, len(redacted_rows))
    return RowsEvaluated(
        rows=tuple(
            RowScores(row=row, scores=_requested(selected, by_evaluator))
            for row, by_evaluator in zip(redacted_rows, scores, strict=True)
        ),
        names=selected.metrics,
        unasked=skipped_metrics,
        metrics=metrics,
        judge=judge,
        judge_use=tally,
        used_up=budget.used_up,
        left_out=Counter(name for row in redacted_rows for name in row.left_out),
    )


def _chosen(settings: Settings, names: Sequence[str] | None, judge: Judge) -> tuple[Chosen, tuple[str, ...]]:
    """Return the selected evaluators, and the metrics that are skipped because the judge calls no model."""
    selected = chosen(settings.evaluators, (*DEFAULT, *settings.evaluators.files) if names is None else names)
    if names is None and "rubric" not in kinds_of(judge):
        without_model = [evaluator for evaluator in selected.evaluators if not asks(evaluator)]
        computed_metrics = frozenset(metric.name for evaluator in without_model for metric in evaluator.metrics)
        return chosen_of(without_model, computed_metrics), tuple(sorted(selected.metrics - computed_metrics))
    answerable = require_judge(selected, judge)
    return answerable, tuple(sorted(answerable.unasked))


def _redacted(row: Attempt, redactor: CountingRedactor) -> Attempt:
    conversation = None if row.conversation is None else redactor.record(row.conversation)
    return replace(row, case=redacted_case(row.case, redactor), conversation=conversation)


def _dialogue(row: Attempt, selected: Chosen, judge: Judge, settings: ScoringSettings) -> Dialogue[list[Measured]]:
    """Return the dialogue that runs the evaluators on a row.

    Core scores, which may need calls of the judge, are computed only if required.
    """
    conversation = row.conversation or recorded_conversation(row.name, ())
    matched = MatchedConversation(conversation=conversation, match=_match(row))
    active = ActiveEvaluators.in_memory(selected)
    if row.conversation is None:
        return [
            active.measured(Ran(evaluator, abstentions(evaluator, "no_data", _NO_AGENT)), matched)
            for evaluator in selected.evaluators
        ]
    needs_score = any("score" in evaluator.needs for evaluator in selected.evaluators)
    subject = Subject(
        conversation=conversation,
        case=row.case,
        score=(yield from scoring(matched, judge, settings)) if needs_score else None,
        aligned=aligned_turns(row.case, conversation.turns),
        settings=settings,
    )
    return (yield from active.measuring(selected.evaluators, matched, subject))


def _match(row: Attempt) -> Match:
    """Return the match of a row with its own reference; no search is needed."""
    return Match(
        case=row.case, method="case_id", confidence=1.0, candidates=(row.case.case_id,), warning=None, reason=None
    )


def _requested(selected: Chosen, scores: Mapping[str, tuple[MetricScore, ...]]) -> tuple[MetricScore, ...]:
    """Return the scores of the requested metrics, in the order of the evaluators."""
    in_order = (score for evaluator in selected.evaluators for score in scores.get(evaluator.name, ()))
    return tuple(score for score in in_order if score.name in selected.metrics)


def rows_json(result: RowsEvaluated) -> dict[str, Any]:
    """Return the result as a JSON object: one record per row, the summary of metrics, and the use of the judge."""
    metrics = result.metrics.to_json(result.names)
    use = result.judge_use
    return {
        "rows": [_row_json(row) for row in result.rows],
        "metrics": metrics["metrics"],
        "faults": metrics["faults"],
        "left_out": dict(result.left_out),
        "metrics_left_out": list(result.unasked),
        "judge": {
            "name": result.judge.name,
            "version": result.judge.version,
            "models": judge_models(result.judge, use),
            **use.to_json(),
            "used_up": result.used_up,
        },
    }


def _row_json(row_scores: RowScores) -> dict[str, Any]:
    return {
        "file": row_scores.row.file,
        "line": row_scores.row.line,
        "row": row_scores.row.name,
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
            for score in row_scores.scores
        ],
    }


#: The environment of rows, which no deployment produced.
ENVIRONMENT: Final = "rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRows:
    """The number of stored rows, of new or changed ones among them, and of rows without agent output."""

    stored: int
    new: int
    without_agent: int


def store_rows(engine: Engine, rows: Sequence[Attempt]) -> StoredRows:
    """Store each row as a conversation of environment `rows` with its case; repeating this changes nothing.

    Conversations and cases are named by dataset and row, such as `airline/row-3`. The time of a conversation is when it was
    first stored, because rows contain no time.

    Raises:
        CaseError: rows of two files have the same name; lists all of them with file and line. Nothing is stored.
    """
    _require_distinct(rows)
    by_dataset: dict[str, dict[str, Case]] = {}
    conversations: list[Conversation] = []
    redactor, now_ns = engine.store.redacting, engine.store.clock()
    for row in rows:
        case = row.case.model_copy(update={"case_id": f"{row.case.dataset}/{row.case.case_id}"})
        by_dataset.setdefault(case.dataset, {})[case.case_id] = case
        if row.conversation is not None:
            conversations.append(_as_stored(redactor.record(row.conversation), case, _name_of(row), now_ns))
    engine.runner.remember(
        [TruthFile(name=name, text=native_lines(list(cases.values()))) for name, cases in by_dataset.items()], []
    )
    new_conversations: list[Conversation] = []

    def write(con: Connection) -> None:
        new_conversations[:] = _changed(con, conversations)
        save_conversations(
            con, [Built(conversation=conversation, ambiguous_link=False) for conversation in new_conversations], now_ns
        )

    engine.store.write(write)
    return StoredRows(
        stored=len(conversations), new=len(new_conversations), without_agent=len(rows) - len(conversations)
    )


def _require_distinct(rows: Sequence[Attempt]) -> None:
    rows_by_name: dict[str, Attempt] = {}
    problems: list[str] = []
    for row in rows:
        first = rows_by_name.setdefault(_name_of(row), row)
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
    stored_conversation = replace(
        conversation,
        environment=ENVIRONMENT,
        conversation_id=ConversationId(name),
        case_id=case.case_id,
    )
    return _at(stored_conversation, now_ns)


def _at(conversation: Conversation, time_ns: int) -> Conversation:
    turns = tuple(replace(turn, started_ns=time_ns, ended_ns=time_ns) for turn in conversation.turns)
    return replace(conversation, started_ns=time_ns, ended_ns=time_ns, turns=turns)


def _changed(con: Connection, conversations: Iterable[Conversation]) -> list[Conversation]:
    """Return the new conversations, and the changed ones as the next revision."""
    by_key = {
        (conversation.environment, str(conversation.conversation_id)): conversation for conversation in conversations
    }
    stored_revisions = {
        (conversation.environment, str(conversation.conversation_id)): conversation
        for conversation in load_conversations(con, by_key)
    }
    revisions = current_revisions(con, by_key)
    changed_conversations: list[Conversation] = []
    for key, conversation in by_key.items():
        current = revisions.get(key)
        if current is None:
            changed_conversations.append(conversation)
        elif (
            key not in stored_revisions
            or content_hash(_at(conversation, stored_revisions[key].started_ns)) != current.content_hash
        ):
            changed_conversations.append(replace(conversation, revision=current.revision + 1))
    return changed_conversations
