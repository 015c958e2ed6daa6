"""`otel_agentic.evaluate`: conversations and cases in, scores and rates out, in one process and without a store."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from otel_agentic import plugins
from otel_agentic.compat import scorer
from otel_agentic.config import Settings
from otel_agentic.errors import UsageError
from otel_agentic.judges import ExactJudge
from otel_agentic.judges.asking import AskingJudge
from otel_agentic.judges.functions import judge_of
from otel_agentic.pipeline.asking import score_asking
from otel_agentic.pipeline.evaluation import Evaluation, ScoredAttempt
from otel_agentic.pipeline.given import read_conversations
from otel_agentic.pipeline.given_truth import read_given_cases, read_given_labels
from otel_agentic.pipeline.metrics_given import chosen_for, with_metrics
from otel_agentic.pipeline.rates import chosen_k
from otel_agentic.pipeline.tally import Tally
from otel_agentic.pipeline.thrift import RunBudget
from otel_agentic.scoring import MatchedConversation, score_conversations
from otel_agentic.scoring.outcome import BATCH
from otel_agentic.spans.redacting import CountingRedactor
from otel_agentic.truth import CaseIndex
from otel_agentic.truth.redact import redacted_case, redacted_labels

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pydantic import BaseModel

    from otel_agentic.judges import Judge, JudgeCache
    from otel_agentic.judges.functions import JudgeLike
    from otel_agentic.pipeline.given import ConversationLike
    from otel_agentic.pipeline.given_truth import CaseLike, LabelLike
    from otel_agentic.pipeline.metrics_given import EvaluatorLike
    from otel_agentic.scoring import ConversationScore
    from otel_agentic.truth import Label


def evaluate(
    conversations: ConversationLike | Iterable[ConversationLike],
    cases: CaseLike | Iterable[CaseLike] | None = None,
    *,
    labels: Mapping[str, LabelLike] | str | os.PathLike[str] | None = None,
    judge: JudgeLike | None = None,
    k: int | Sequence[int] | None = None,
    estimator: str | None = None,
    turn_rule: Literal["answer", "tools", "both"] | None = None,
    answer_threshold: float | None = None,
    tool_threshold: float | None = None,
    compat: Literal["fair-forge", "ragas", "agent-surface", "agentest"] | None = None,
    metrics: str | Sequence[str] | None = None,
    evaluators: EvaluatorLike | Sequence[EvaluatorLike] = (),
    settings: Settings | None = None,
    cache: JudgeCache | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Match conversations to cases, score them, and return everything that can be said of them.

    The numbers are those of `otel-agentic evaluate` and `report` on the same data. It works in a notebook, whose event loop
    is running already, and writes nothing anywhere. What `settings.redaction` takes out of a store is taken out here, too:
    no judge is shown a credential, and what comes back holds marks in its place, under a key of this call alone.

    Args:
        conversations: objects, records in the shape of a line of `conversations export`, records of Fair Forge or RAGAS,
            finished spans of the OpenTelemetry SDK, or paths of files: exported conversations, OTLP in any form that
            `ingest` reads, Fair Forge or RAGAS documents. One of these, or any number of them.
        cases: objects, records, or paths of files in any format that `truth import` reads. None takes the cases that came
            with the conversations, in a document of another tool.
        labels: verdicts by conversation id (true, "pass", a reward), or the path of a labels CSV.
        judge: who says whether an answer is right: a name ("exact", "langchain:openai:gpt-5-mini"), a chat model of
            LangChain, a `Judge`, or a function from a `Question` to a score in [0, 1]. None takes the settings' one.
        k: the k of pass@k and pass^k.
        estimator: the headline estimator, by name. None takes the mode's pooled one.
        turn_rule: what decides a turn: its answer, its tools, or both.
        answer_threshold: answer score at which a turn passes, in [0, 1].
        tool_threshold: tool score at which tools are correct, in [0, 1].
        compat: score with another system's arithmetic.
        metrics: exactly these metrics are computed beside the scores: names of metrics, evaluators or families, "default",
            "all" or "none". None takes the settings' ones: all that ask no model.
        evaluators: more of your own, all of whose metrics are computed: objects, functions (see `evaluator`), or
            "checks.py:name".
        settings: everything else; the arguments above win. None takes the defaults and the environment.
        cache: earlier verdicts of judges that are asked, see `MemoryCache`. None asks everything anew.
        progress: told how many conversations are scored, and how many there are.

    Raises:
        UsageError: an argument is not one that is allowed.
        BadInputError: a record or file breaks its format; names record or line, and field.
        PluginError: there is no judge or estimator of that name, or an evaluator does not load or breaks its contract.
    """
    chosen = _settings(
        settings or Settings(),
        scoring={
            "judge": judge if isinstance(judge, str) else None,
            "turn_rule": turn_rule,
            "answer_threshold": answer_threshold,
            "tool_threshold": tool_threshold,
            "compat": compat,
        },
        stats={"k": None if k is None else chosen_k(k), "estimator": estimator},
    )
    if chosen.stats.estimator is not None:
        plugins.get("estimators", chosen.stats.estimator)  # unknown, it would be passed over without a word
    given = read_conversations(conversations, chosen)
    redacting = CountingRedactor(chosen.redaction)
    known = [redacted_case(case, redacting) for case in (given.cases if cases is None else read_given_cases(cases))]
    told = redacted_labels(read_given_labels(labels, chosen.scoring), redacting)
    if not known and not told:
        raise UsageError("nothing to hold the conversations against; give cases, or labels by conversation id")
    index = CaseIndex(known, chosen.matching)
    matched = []
    for conversation in map(redacting.record, given.conversations):
        label = told.get(str(conversation.conversation_id))
        match = index.match(conversation, label)
        matched.append(MatchedConversation(conversation=conversation, match=match, label=label))
    tally = Tally()
    asked = judge_of(chosen.scoring.judge if judge is None else judge, chosen.judge)
    budget = RunBudget(chosen.judge)
    try:
        beside = chosen_for(asked, chosen.evaluators, _names(metrics), evaluators)
        found = _scores(matched, asked, chosen, cache=cache, budget=budget, tally=tally, progress=progress or _ignore)
        attempts = [
            ScoredAttempt(conversation=one.conversation, match=one.match, score=score)
            for one, score in zip(matched, found, strict=True)
        ]
        attempts, faults = with_metrics(
            attempts, beside, chosen.scoring, judge=asked, cache=cache, budget=budget, tally=tally
        )
    finally:
        if asked is not judge:  # made here
            getattr(asked, "close", _ignore)()
    return Evaluation(
        attempts=tuple(attempts),
        cases=tuple(index),
        settings=chosen,
        judge_name=asked.name,
        judge_version=asked.version,
        judge_use=tally,
        unused_labels=_unused(told, matched),
        problems=(*given.problems, *faults),
    )


def _unused(labels: Mapping[str, Label], matched: Sequence[MatchedConversation]) -> tuple[str, ...]:
    """Return the conversation ids of labels that are of no conversation here."""
    known = {str(one.conversation.conversation_id) for one in matched}
    return tuple(name for name in labels if name not in known)


def _scores(
    matched: Sequence[MatchedConversation],
    judge: Judge,
    settings: Settings,
    *,
    cache: JudgeCache | None,
    budget: RunBudget,
    tally: Tally,
    progress: Callable[[int, int], None],
) -> list[ConversationScore]:
    """Return the scores of conversations, in their order."""
    compat = settings.scoring.compat
    score = partial(score_conversations if compat is None else scorer(compat), settings=settings.scoring)
    found: dict[int, ConversationScore] = {}
    if isinstance(judge, ExactJudge):  # it computes: asking it carefully would cost more than it does
        for start in range(0, len(matched), BATCH):
            found |= enumerate(score(matched[start : start + BATCH], judge=judge), start)
            progress(len(found), len(matched))
    else:
        asking = AskingJudge(judge, cache=cache, budget=budget)

        def scored(some: Sequence[MatchedConversation], known: Judge) -> list[ConversationScore]:
            return score(some, judge=known)

        for place, one in score_asking(matched, asking, scored, tally=tally):
            found[place] = one
            progress(len(found), len(matched))
    return [found[place] for place in range(len(matched))]


def _settings(settings: Settings, **sections: Mapping[str, Any]) -> Settings:
    """Return settings where the arguments that were given win.

    Raises:
        UsageError: one is not allowed; names it.
    """
    changed: dict[str, Any] = {}
    for name, arguments in sections.items():
        section: BaseModel = getattr(settings, name)
        given = {key: value for key, value in arguments.items() if value is not None}
        try:
            changed[name] = type(section).model_validate({**section.model_dump(), **given})
        except ValidationError as error:
            detail = error.errors(include_url=False)[0]
            where, *_ = detail["loc"]
            raise UsageError(f"{where}: found {detail['input']!r}; {detail['msg']}") from error
    return settings.model_copy(update=changed)


def _names(metrics: str | Sequence[str] | None) -> Sequence[str] | None:
    return metrics.split(",") if isinstance(metrics, str) else metrics


def _ignore(*_: int) -> None:
    pass
