"""Tool correctness: the score of the calls of a turn or conversation under an expectation and its alternatives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.scoring.compiled import CompiledExpectation, compiled
from otel_agentic.scoring.dimensions import utilization_score
from otel_agentic.scoring.faults import call_fault
from otel_agentic.scoring.opinions import NO_OPINIONS
from otel_agentic.scoring.single import Utilization, UtilizationOf, score_single
from otel_agentic.scoring.utilization import Texts, Use, use_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from otel_agentic.scoring.align import Pair
    from otel_agentic.scoring.made import MadeCall, Scope
    from otel_agentic.scoring.model import ToolScore
    from otel_agentic.scoring.opinions import Opinions
    from otel_agentic.scoring.sorting import ToolRules
    from otel_agentic.truth.model import ToolExpectation


def score_tools(
    expectation: ToolExpectation, scope: Scope, rules: ToolRules, opinions: Opinions | None = None
) -> ToolScore:
    """Return the score of the calls of a scope: of the best of the expectation and its alternatives.

    The best has the highest overall score; among equals one that is correct, then the one that stands first. Where the
    best fails while another could not be evaluated, that one is returned: it might have been right.

    Args:
        expectation: what is expected.
        scope: the turn or conversation that it is held against.
        rules: those of the case.
        opinions: of a judge, where values or results do not tell. Whether a result was used is asked only under the
            expectation that counts.
    """
    opinions = opinions or NO_OPINIONS
    texts = Texts(scope)

    def look(made: MadeCall, later: Sequence[MadeCall]) -> Use:
        return use_of(made, later, texts)

    def ask(made: MadeCall, later: Sequence[MadeCall]) -> Use:
        use = use_of(made, later, texts)
        return (opinions.used(made, later, texts) or use) if use.score is None else use

    ready = compiled(expectation, rules)
    best, score = _best(ready, scope.calls, scope.turn_index, _searched(look), opinions, scope.captured)
    if opinions is NO_OPINIONS:
        return score
    return score_single(best, scope.calls, scope.turn_index, _searched(ask), opinions, scope.captured)


def score_calls(
    expectation: CompiledExpectation,
    calls: Sequence[MadeCall],
    *,
    turn_index: int | None = None,
    captured: bool = True,
) -> ToolScore:
    """Return the score of calls as `score_tools` does, from the calls alone: the use of results is known by flags only.

    Args:
        expectation: compiled by `compiled`.
        calls: in order of their place.
        turn_index: of the turn that is scored, None for a whole conversation.
        captured: whether any content was recorded.
    """
    if expectation.alternatives:
        return _best(expectation, calls, turn_index, None, NO_OPINIONS, captured)[1]
    return score_single(expectation, calls, turn_index, None, NO_OPINIONS, captured)


def _best(  # noqa: PLR0917 — as `score_single`
    expectation: CompiledExpectation,
    calls: Sequence[MadeCall],
    turn_index: int | None,
    utilization_of: UtilizationOf | None,
    opinions: Opinions,
    captured: bool,  # noqa: FBT001 — same
) -> tuple[CompiledExpectation, ToolScore]:
    """Return the expectation that counts, among it and its alternatives, and its score."""
    scored = [
        (one, score_single(one, calls, turn_index, utilization_of, opinions, captured))
        for one in (expectation, *expectation.alternatives)
    ]
    best = max(scored, key=lambda one: _goodness(one[1]))
    unknown = next((one for one in scored if one[1].outcome == "not_evaluated"), best)
    return unknown if best[1].outcome == "fail" else best


def _goodness(score: ToolScore) -> tuple[float, bool]:
    return -1.0 if score.overall is None else round(score.overall, 9), score.outcome == "pass"


def _searched(use: Callable[[MadeCall, Sequence[MadeCall]], Use]) -> UtilizationOf:
    """Return what finds the use of results by a function of a call and of the later calls that may prove it."""

    def found(
        expectation: CompiledExpectation, made: Sequence[MadeCall], pairs: Sequence[Pair], turn_index: int | None
    ) -> Utilization:
        named = expectation.named
        witnesses = [one for one in made if one.call.name in named]
        worked = [made[pair[0]] for pair in pairs if made[pair[0]].call.error is None]
        uses = [(one, use(one, [other for other in witnesses if other.place > one.place])) for one in worked]
        shown = utilization_score(uses)
        # For a whole conversation, an inferred use is shown but never decides.
        given = uses if turn_index is not None else [one for one in uses if not one[1].inferred]
        unused = [call_fault("unused_result", one, found.evidence) for one, found in uses if found.score == 0]
        return shown, utilization_score(given), unused, uses

    return found
