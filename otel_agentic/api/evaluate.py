"""`otel_agentic.evaluate`: conversations and cases in memory -> scores and rates, without a store."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ValidationError

from otel_agentic import plugins
from otel_agentic.api.evaluation import Evaluation, chosen_k
from otel_agentic.api.frames import ScoredAttempt
from otel_agentic.api.inputs import read_cases, read_conversations, read_labels
from otel_agentic.config import EvaluatorSettings, Settings, environment_settings
from otel_agentic.errors import UsageError
from otel_agentic.evaluation.batch import Tally
from otel_agentic.evaluation.conversation import ActiveEvaluators, ConversationEvaluation, deciding_evaluators
from otel_agentic.evaluation.judge_runs import JUDGED_BATCH, RunBudget, answers_to
from otel_agentic.evaluation.scope import position_of
from otel_agentic.evaluators.criteria import MetricCriteria
from otel_agentic.evaluators.registry import Chosen, all_evaluators, chosen, of_files, require_judge, unasked_note
from otel_agentic.judges import ExactJudge
from otel_agentic.judges.asking_judge import AskingJudge
from otel_agentic.judges.dialogue import Ask, ask_of, run_dialogues
from otel_agentic.judges.registry import judge_of
from otel_agentic.judges.sanity import check_judge
from otel_agentic.redaction.engine import CountingRedactor
from otel_agentic.scoring import MatchedConversation
from otel_agentic.truth import CaseIndex
from otel_agentic.truth.load import redacted_case, redacted_labels

if TYPE_CHECKING:
    import os

    from otel_agentic.api.inputs import CaseLike, ConversationLike, Inputs, LabelLike
    from otel_agentic.evaluators.base import AnyEvaluator
    from otel_agentic.judges import Budget, Judge, JudgeCache
    from otel_agentic.judges.registry import JudgeLike
    from otel_agentic.store.table import Scored

    #: An evaluator; a function, which becomes one metric named after it; or `path.py:name`.
    EvaluatorLike = AnyEvaluator | Callable[..., Any] | str


def chosen_for(
    judge: Judge,
    settings: EvaluatorSettings,
    metrics: Sequence[str] | None,
    provided: Sequence[EvaluatorLike] | EvaluatorLike,
) -> Chosen:
    """Return the evaluators of the named metrics, and all evaluators in `provided`.

    Raises:
        UsageError: a name is unknown or ambiguous, a file cannot be loaded, or a metric needs an LLM judge and none is set.
        PluginError: an evaluator does not load or breaks the contract.
    """
    evaluators: list[Any] = list(provided) if isinstance(provided, (list, tuple)) else [provided]
    selection = chosen(settings, metrics, [_evaluator(evaluator, settings) for evaluator in evaluators])
    return require_judge(selection, judge)


def _evaluator(description: EvaluatorLike, settings: EvaluatorSettings) -> Any:
    """Return the evaluator for a name, class or function; its contract is checked later, with all others."""
    if isinstance(description, str):
        (evaluator_object,) = of_files([description], settings)
        return evaluator_object
    if isinstance(description, type) or not callable(description) or hasattr(description, "metrics"):
        return description
    from otel_agentic.evaluators.custom import evaluator  # noqa: PLC0415 — few callers pass functions

    return evaluator()(description)


def evaluate(
    conversations: ConversationLike | Iterable[ConversationLike],
    cases: CaseLike | Iterable[CaseLike] | None = None,
    *,
    labels: Mapping[str, LabelLike] | str | os.PathLike[str] | None = None,
    judge: JudgeLike | None = None,
    k: int | Sequence[int] | None = None,
    estimator: str | None = None,
    criteria: Sequence[str] | None = None,
    answer_threshold: float | None = None,
    tool_threshold: float | None = None,
    compat: Literal["fair-forge", "ragas", "agent-surface", "agentest"] | None = None,
    metrics: str | Sequence[str] | None = None,
    evaluators: EvaluatorLike | Sequence[EvaluatorLike] = (),
    settings: Settings | None = None,
    cache: JudgeCache | None = None,
    progress: Callable[[int, int], None] | bool | None = None,
) -> Evaluation:
    """Match conversations to cases, score them, and return scores, rates and faults.

    The numbers equal those of `otel-agentic evaluate` and `report` on the same data. It works in a notebook, where an event
    loop is already running, and writes no files. `settings.redaction` applies as it does to a store: credentials reach no
    judge, and the result contains placeholders instead, under a key used for this call only.

    Args:
        conversations: objects, records with the shape of a line of `conversations export`, records of Fair Forge or RAGAS,
            finished spans of the OpenTelemetry SDK, or paths of files: exported conversations, OTLP in any form that
            `ingest` reads, Fair Forge or RAGAS documents. A single one, or any number of them.
        cases: objects, records, or paths of files in any format that `truth import` reads. None for the cases contained in
            the conversations' documents of another tool.
        labels: verdicts by conversation id (true, "pass", a reward), or the path of a labels CSV.
        judge: decides whether an answer is correct: a name ("exact", "langchain:openai:gpt-5-mini"), a LangChain chat
            model, a `Judge`, or a function from a `Question` to a score in [0, 1]. None for the judge of the settings.
        k: the k of pass@k and pass^k.
        estimator: the name of the headline estimator. None for the pooled estimator of the mode.
        criteria: what decides whether a conversation is correct, such as ["annotated"] (everything that its case annotates,
            the default), ["answer"], or ["tools", "agentest.helpfulness >= 4"].
        answer_threshold: answer score at which a turn passes, in [0, 1].
        tool_threshold: tool score at which tools are correct, in [0, 1].
        compat: score with another system's arithmetic.
        metrics: the metrics to compute in addition to the scores: names of metrics, evaluators or families, "default",
            "all" or "none". None for those of the settings: all that need no model.
        evaluators: your own evaluators, all of whose metrics are computed: objects, functions (see `evaluator`), or
            "checks.py:name".
        settings: everything else; the arguments above take precedence. None for the defaults and the environment.
        cache: earlier verdicts of judges that call a model, see `MemoryCache`. None to request every verdict again.
        progress: called with the number of scored conversations and of all conversations; True draws a progress bar, False
            none, None one in a terminal or a notebook.

    Raises:
        UsageError: an argument is invalid.
        BadInputError: a record or file is malformed; the message names record or line, and field.
        PluginError: the judge or estimator is unknown, or an evaluator does not load or violates its contract.
    """
    effective = settings_with(
        settings or environment_settings(),
        scoring={
            "judge": judge if isinstance(judge, str) else None,
            "criteria": None if criteria is None else tuple(criteria),
            "answer_threshold": answer_threshold,
            "tool_threshold": tool_threshold,
            "compat": compat,
        },
        stats={"k": None if k is None else chosen_k(k), "estimator": estimator},
    )
    if effective.stats.estimator is not None:
        plugins.get("estimators", effective.stats.estimator)  # otherwise an unknown name would be ignored silently
    inputs = read_conversations(conversations, effective)
    matched, index, unused = _matched(inputs, cases, labels, effective)
    tally = Tally()
    active_judge = judge_of(effective.scoring.judge if judge is None else judge, effective.judge)
    budget = RunBudget(effective.judge)
    try:
        metrics_to_compute = chosen_for(active_judge, effective.evaluators, _names(metrics), evaluators)
        if matched and (judge is None or isinstance(judge, str)):  # a caller has tried its own model
            check_judge(active_judge, effective.judge, budget)
        installed = all_evaluators(effective.evaluators)
        metric_criteria = MetricCriteria(evaluators=installed, settings=effective.evaluators)
        deciding = deciding_evaluators(metric_criteria, index, effective.scoring, active_judge)
        active = ActiveEvaluators.in_memory(metrics_to_compute.with_all(deciding))
        evaluation = ConversationEvaluation(
            judge=active_judge, settings=effective.scoring, active=active, criteria=metric_criteria
        )
        with _progress_bar(progress) as step:
            results = _evaluated(matched, evaluation, _ask(active_judge, cache, budget, tally), step)
    finally:
        if active_judge is not judge:  # created by this call, so closed by it
            getattr(active_judge, "close", _ignore)()
    faults = Counter(fault for item in results for measured in item.metrics for fault in measured.faults)
    skipped = [unasked_note(metrics_to_compute.unasked)] if metrics_to_compute.unasked else []
    return Evaluation(
        attempts=tuple(map(_attempt, results)),
        cases=tuple(index),
        settings=effective,
        judge_name=active_judge.name,
        judge_version=active_judge.version,
        judge_use=tally,
        unused_labels=unused,
        problems=(
            *inputs.problems,
            *skipped,
            *(f"{fault} (conversations: {count:,})" for fault, count in faults.most_common()),
        ),
    )


def _attempt(scored: Scored) -> ScoredAttempt:
    return ScoredAttempt(
        conversation=scored.conversation,
        match=scored.match,
        score=scored.score,
        evaluator_scores={item.evaluator.name: item.scores for item in scored.metrics},
    )


def _matched(
    inputs: Inputs,
    cases: CaseLike | Iterable[CaseLike] | None,
    labels: Mapping[str, LabelLike] | str | os.PathLike[str] | None,
    settings: Settings,
) -> tuple[list[MatchedConversation], CaseIndex, tuple[str, ...]]:
    """Return the conversations with their cases and labels, all cases, and the ids of labels without a conversation.

    Everything is redacted, under a key used for this call only.
    """
    redactor = CountingRedactor(settings.redaction)
    redacted_cases = [redacted_case(case, redactor) for case in (inputs.cases if cases is None else read_cases(cases))]
    verdicts = redacted_labels(read_labels(labels, settings.scoring), redactor)
    if not redacted_cases and not verdicts:
        raise UsageError("no ground truth; pass cases, or labels by conversation id")
    index = CaseIndex(redacted_cases, settings.matching)
    matched = []
    for conversation in map(redactor.record, inputs.conversations):
        label = verdicts.get(str(conversation.conversation_id))
        match = index.match(conversation, label)
        matched.append(MatchedConversation(conversation=conversation, match=match, label=label))
    ids = {str(pair.conversation.conversation_id) for pair in matched}
    return matched, index, tuple(name for name in verdicts if name not in ids)


def _evaluated(
    matched: Sequence[MatchedConversation],
    evaluation: ConversationEvaluation,
    ask: Ask,
    progress: Callable[[int, int], None],
) -> list[Scored]:
    """Return the scores of conversations, in their order."""
    # The order in which the judge's budget is spent.
    order = sorted(range(len(matched)), key=lambda index: position_of(matched[index].conversation.key))
    results: dict[int, Scored] = {}
    for start in range(0, len(order), JUDGED_BATCH):
        part = order[start : start + JUDGED_BATCH]
        for number, scored in run_dialogues((evaluation.dialogue(matched[index]) for index in part), ask):
            results[part[number]] = scored
            progress(len(results), len(matched))
    return [results[index] for index in range(len(matched))]


def _ask(judge: Judge, cache: JudgeCache | None, budget: Budget, tally: Tally) -> Ask:
    if isinstance(judge, ExactJudge):  # it computes: cache, budget and concurrency would cost more than its verdicts
        return ask_of(judge)
    return partial(answers_to, judge=AskingJudge(judge, cache=cache, budget=budget), tally=tally)


def settings_with(settings: Settings, **sections: Mapping[str, Any]) -> Settings:
    """Return the settings, overridden by the arguments that are not None.

    Raises:
        UsageError: an argument is invalid; the message names it.
    """
    updates: dict[str, Any] = {}
    for name, arguments in sections.items():
        section: BaseModel = getattr(settings, name)
        values = {key: value for key, value in arguments.items() if value is not None}
        try:
            updates[name] = type(section).model_validate({**section.model_dump(), **values})
        except ValidationError as error:
            detail = error.errors(include_url=False)[0]
            argument, *_ = detail["loc"]
            raise UsageError(f"{argument}: found {detail['input']!r}; {detail['msg']}") from error
    return settings.model_copy(update=updates)


def _names(metrics: str | Sequence[str] | None) -> Sequence[str] | None:
    return metrics.split(",") if isinstance(metrics, str) else metrics


@contextmanager
def _progress_bar(progress: Callable[[int, int], None] | bool | None) -> Iterator[Callable[[int, int], None]]:  # noqa: FBT001 — an argument of `evaluate`
    """Yield the callback for progress; see `evaluate`."""
    if callable(progress):
        yield progress
    elif progress is False or (progress is None and not (sys.stderr.isatty() or "ipykernel" in sys.modules)):
        yield _ignore
    else:
        from rich.console import Console  # noqa: PLC0415 — few callers see a progress bar
        from rich.progress import Progress  # noqa: PLC0415 — same

        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("scoring", total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)


def _ignore(*_: int) -> None:
    pass
