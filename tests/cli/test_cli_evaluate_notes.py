"""Notes of an evaluation next to its counts."""

from __future__ import annotations

from typing import Any, Final

from inline_snapshot import snapshot

from otel_agentic.render.notes import judge_notes, score_warnings
from otel_agentic.results.evaluation import EvaluationRun, JudgeUse
from tests.cli.partial import partial
from tests.snapshots import opening

_JUDGE: Final[dict[str, Any]] = {
    "name": "langchain",
    "version": "1",
    "models": ["m-1"],
    "same_as_agent": [],
    "calls": 0,
    "judged": 0,
    "cached": 0,
    "failed": 0,
    "failure": None,
    "refused": 0,
    "input_tokens": 0,
    "output_tokens": 0,
    "cost_usd": None,
    "canaries": 0,
    "canaries_passed": 0,
    "used_up": None,
}
_DONE: Final[dict[str, Any]] = {
    "n": 100,
    "partial_fails": 0,
    "compared": 0,
    "disagreements": 0,
    "reasons": {},
    "judge": _JUDGE,
}


def test_a_judge_that_calls_no_model_is_not_mentioned() -> None:
    assert [] == list(judge_notes(partial(JudgeUse, _JUDGE)))


def test_failures_refusals_and_canaries_have_a_line_each() -> None:
    counts = {"calls": 9, "judged": 5, "failed": 1, "failure": "no reply\nwithin 60 s", "refused": 3, "canaries": 2}
    more = {"used_up": "the budget of 24h is used up (judge.max_calls 9)", "canaries_passed": 1}

    assert list(judge_notes(partial(JudgeUse, _JUDGE | counts | more))) == snapshot(
        [
            "judge langchain (m-1): 9 calls for 5 verdicts",
            "the judge failed on 1 question, lastly: no reply within 60 s",
            "3 questions not asked: the budget of 24h is used up (judge.max_calls 9)",
            "the judge passed 1 of 2 canaries (answers that are wrong on purpose)",
        ]
    )


def test_verdicts_from_the_cache_cost_nothing() -> None:
    assert list(judge_notes(partial(JudgeUse, _JUDGE | {"cached": 12}))) == snapshot(
        ["judge langchain (m-1): 0 calls for 0 verdicts, 12 verdicts from the cache"]
    )


def test_without_doubts_there_is_no_warning() -> None:
    assert [] == list(score_warnings(partial(EvaluationRun, _DONE | {"partial_fails": 5})))


def test_doubts_are_warnings() -> None:
    result = list(
        score_warnings(
            partial(
                EvaluationRun,
                _DONE
                | {"partial_fails": 6, "compared": 20, "disagreements": 2, "reasons": {"unreviewed": 3}}
                | {"judge": _JUDGE | {"same_as_agent": ["gpt-5"]}},
            )
        )
    )

    same_model, on_partial_evidence, overruled, drafts = result
    assert opening(same_model) == snapshot(
        "the judge's model is the judged agent's own (gpt-5): models favour their own output"
    )
    assert opening(on_partial_evidence) == snapshot(
        "6 of 100 evaluated conversations (6%) failed on partial evidence: other needed parts"
    )
    assert opening(overruled) == snapshot(
        "the computed outcome differs from 2 of 20 recorded verdicts; the recorded one counts"
    )
    assert drafts == snapshot("3 conversations left out: the case is a draft that has not been reviewed")
