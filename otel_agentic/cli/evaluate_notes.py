"""What an evaluation has to say beside its counts: what the judge was asked and cost, and what to be wary of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_agentic.cli.text import percent, plural, short

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Fails decided on partial evidence are worth a warning above this share of the evaluated.
_PARTIAL: Final = 0.05
_FAILURE: Final = 200


def judge_notes(judge: dict[str, Any]) -> Iterator[str]:
    """Yield what was asked of the judge; nothing for one that asks no model.

    >>> asked = {"calls": 12, "cached": 30, "judged": 10, "failed": 0, "refused": 0, "input_tokens": 4000}
    >>> more = {"output_tokens": 500, "cost_usd": 0.02, "models": ["m"], "name": "langchain", "canaries": None}
    >>> list(judge_notes({**asked, **more, "used_up": None}))
    ['judge langchain (m): 12 calls for 10 verdicts, 30 verdicts from the cache; 4,500 tokens, $0.0200']
    """
    if not any(judge[name] for name in ("calls", "cached", "failed", "refused")):
        return
    model = f" ({', '.join(judge['models'])})" if judge["models"] else ""
    told = f"judge {judge['name']}{model}: {plural(judge['calls'], 'call')} for {plural(judge['judged'], 'verdict')}"
    if judge["cached"]:
        told += f", {plural(judge['cached'], 'verdict')} from the cache"
    yield told + _cost(judge)
    if judge["failed"]:
        yield f"the judge failed on {plural(judge['failed'], 'question')}, lastly: {short(judge['failure'], _FAILURE)}"
    if judge["refused"]:
        why = f": {judge['used_up']}" if judge["used_up"] else ""
        yield f"{plural(judge['refused'], 'question')} not asked{why}"
    if judge["canaries"]:
        passed = judge["canaries_passed"]
        yield f"the judge passed {passed:,} of {judge['canaries']:,} canaries (answers that are wrong on purpose)"


def score_warnings(done: dict[str, Any]) -> Iterator[str]:
    """Yield what to be wary of in the scores of an evaluation."""
    models = done["judge"]["same_as_agent"]
    if models:
        yield (
            f"the judge's model is the judged agent's own ({', '.join(models)}): models favour what they write themselves; "
            "let another model judge"
        )
    if is_partial(done["partial_fails"], done["n"]):
        yield partial_warning(done["partial_fails"], done["n"])
    if done["disagreements"]:
        yield (
            f"{done['disagreements']:,} of {plural(done['compared'], 'given verdict')} differ from the computed outcome; "
            "the given one counts, `otel-agentic conversations show ID` tells both"
        )
    drafts = done["reasons"].get("unreviewed", 0)
    if drafts:
        yield f"{plural(drafts, 'conversation')} left out: the case is a draft that nobody has reviewed"


def is_partial(fails: int, n: int) -> bool:
    """Return whether so many fails on partial evidence, among n evaluated, are worth a warning."""
    return n > 0 and fails > _PARTIAL * n


def partial_warning(fails: int, n: int) -> str:
    """Return the warning of fails that were decided while other needed parts were not evaluated.

    >>> partial_warning(6, 60)
    '6 of 60 evaluated conversations (10%) failed on partial evidence: other needed parts were not evaluated; a pass needs every part, so missing data lower the pass rate'
    """
    return (
        f"{fails:,} of {plural(n, 'evaluated conversation')} ({percent(fails / n)}) failed on partial evidence: other needed "
        "parts were not evaluated; a pass needs every part, so missing data lower the pass rate"
    )


def _cost(judge: dict[str, Any]) -> str:
    tokens = judge["input_tokens"] + judge["output_tokens"]
    if not judge["calls"] or not tokens:
        return ""
    cost = "" if judge["cost_usd"] is None else f", ${judge['cost_usd']:,.4f}"
    return f"; {plural(tokens, 'token')}{cost}"
