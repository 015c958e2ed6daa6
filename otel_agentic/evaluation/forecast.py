"""A forecast of the calls of an evaluation to its judge, made from the questions of its first round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from otel_agentic.evaluation.conversation import ActiveEvaluators, scorer_of, subject_of
from otel_agentic.evaluation.scope import in_order_of_position, sample_of
from otel_agentic.evaluators.run import evaluating
from otel_agentic.judges import ExactJudge
from otel_agentic.judges.base import JudgeFailure
from otel_agentic.judges.dialogue import Answer, run_dialogues
from otel_agentic.judges.forecast import Forecast, forecast
from otel_agentic.results.evaluation import JudgeQuestions
from otel_agentic.store.judges import known_verdicts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from otel_agentic.config import Settings
    from otel_agentic.evaluation.run import EvaluationRequest, EvaluationRunner
    from otel_agentic.evaluation.scope import Truth
    from otel_agentic.evaluators.base import AskingEvaluator
    from otel_agentic.judges import Question
    from otel_agentic.scoring import MatchedConversation

_NOT_ASKED: Final = JudgeFailure(reason="judge_error", message="not asked")
#: Number of conversations whose questions are counted; the rest is extrapolated.
SAMPLE: Final = 200


def forecast_evaluation(
    runner: EvaluationRunner, settings: Settings, truth: Truth, request: EvaluationRequest
) -> JudgeQuestions:
    """Return the questions of an evaluation to its judge, without asking or storing anything.

    The questions of at most `SAMPLE` conversations are counted, in the order of the sampling hash, which makes them a random
    sample. Retries, votes, canaries and questions that depend on an answer are not included.
    """
    judge = runner.judge
    if isinstance(judge, ExactJudge):
        return JudgeQuestions(judge=judge.name, asks_a_model=False)
    with runner.store.read() as con:
        sample = sample_of(con, settings.sampling, truth.evaluation.evaluation_id, request.keys)
    included, _ = sample.parted(request.keys)
    chosen = request.chosen.with_all(truth.deciding)
    ids = ActiveEvaluators.of(chosen, truth.evaluation, judge, settings.evaluators).ids
    evaluators = chosen.judge_evaluators
    scored = set(included)
    lacking = [key for key in request.lacking if key not in scored]
    expected = Forecast()
    for keys, is_scored in ((included, False), (lacking, True)):
        part = in_order_of_position(keys)[:SAMPLE]
        questions: list[Question] = []
        for matched in runner.match(truth, part):
            missing = request.lacking.get(matched.conversation.key, frozenset())
            open_evaluators = [item for item in evaluators if not is_scored or ids[item.name] in missing]
            questions += _questions(runner, settings, matched, open_evaluators, scores=not is_scored)
        if part:
            cached = _cached_in(runner) if settings.judge.cache else (lambda _: ())
            expected += forecast(questions, judge, cached).times(len(keys) / len(part))
    return judge_questions(runner, settings, expected)


def judge_questions(runner: EvaluationRunner, settings: Settings, expected: Forecast) -> JudgeQuestions:
    """Return a forecast as a result, with the limit of the budget that it exceeds."""
    budget = runner.budget
    return JudgeQuestions(
        judge=runner.judge.name,
        asks_a_model=True,
        questions=expected.questions,
        cached=expected.cached,
        calls=expected.calls,
        tokens=expected.tokens,
        cost_usd=expected.cost_usd(settings.judge),
        over=None if budget.allows(calls=expected.calls, tokens=expected.tokens or 0) else budget.used_up,
    )


def _cached_in(runner: EvaluationRunner) -> Callable[[Sequence[str]], Collection[str]]:
    def cached(keys: Sequence[str]) -> Collection[str]:
        with runner.store.read() as con:
            return known_verdicts(con, keys)

    return cached


def _questions(
    runner: EvaluationRunner,
    settings: Settings,
    matched: MatchedConversation,
    evaluators: Sequence[AskingEvaluator],
    *,
    scores: bool,
) -> list[Question]:
    """Return the first questions about a conversation: those of the evaluators and, with `scores`, those of scoring."""
    questions: list[Question] = []

    def refuse(batch: Sequence[Question]) -> Iterator[tuple[int, Answer]]:
        questions.extend(batch if scores else ())
        return enumerate([_NOT_ASKED] * len(batch))

    def record(batch: Sequence[Question]) -> Iterator[tuple[int, Answer]]:
        questions.extend(batch)
        return iter(())

    dialogue = scorer_of(settings.scoring)(matched, runner.judge, settings.scoring)
    ((_, score),) = run_dialogues([dialogue], refuse)
    subject = subject_of(matched.conversation, matched.match, score, settings.scoring)
    list(run_dialogues([evaluating(evaluators, subject)], record))
    return questions
