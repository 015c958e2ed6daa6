"""Conversations as Agentest sees them: a trajectory that matches what is asserted, or does not."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from otel_agentic.compat.agentest import (
    CallAssertion,
    MadeToolCall,
    TrajectoryAssertions,
    TrajectoryResult,
    match_trajectory,
)
from otel_agentic.compat.scorers.common import Numbers, Prepared, System, Told, tool_score
from otel_agentic.compat.scorers.whole import WholeConversation, whole_numbers
from otel_agentic.scoring.parts import failed, passed
from otel_agentic.truth.model import VALUELESS_MODES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_agentic.compat.agentest.trajectory import MatchMode
    from otel_agentic.judges import Question
    from otel_agentic.scoring.model import ToolScore
    from otel_agentic.truth.model import ExpectedCall


def _questions(_prepared: Prepared) -> Iterator[Question]:
    yield from ()


def _numbers(prepared: Prepared, _told: Iterator[Told]) -> Numbers:
    return whole_numbers(prepared, {}, _tools)


def _tools(whole: WholeConversation) -> ToolScore:
    mode = _match_mode(whole)
    wanted = whole.expected if mode == "within" else whole.required
    made = [MadeToolCall(name=call.name, args=dict(call.arguments or {})) for call in whole.made]
    result = match_trajectory(
        made,
        TrajectoryAssertions(
            match_mode=mode, expected=tuple(map(_assertion, wanted)), forbidden=tuple(_forbidden(whole))
        ),
    )
    note = f"Agentest's {mode} match: {_told(result)}"
    return tool_score(passed(note, 1.0) if result.matched else failed("tool_fault", note, 0.0))


def _match_mode(whole: WholeConversation) -> MatchMode:
    """Return the mode that comes closest: it has no order that leaves gaps, and no optional calls beside others."""
    if whole.expected and not whole.required:
        return "within"
    if whole.extras_allowed:
        return "contains"
    return "strict" if whole.ordered else "unordered"


def _assertion(call: ExpectedCall) -> CallAssertion:
    args = {key: value for key, value in call.parameters.items() if call.rules[key].mode not in VALUELESS_MODES}
    loose = call.ignore_extra_parameters or len(args) < len(call.rules)
    return CallAssertion(name=call.tool_name, args=args, mode="partial" if loose else "exact")


def _forbidden(whole: WholeConversation) -> Iterator[CallAssertion]:
    """Yield a rule for each made name that fits: it forbids names, not globs."""
    for name in dict.fromkeys(call.name for call in whole.made):
        if any(fnmatchcase(name, pattern) for pattern in whole.forbidden):
            yield CallAssertion(name=name)


def _told(result: TrajectoryResult) -> str:
    lists = {
        "missing": result.missing_calls,
        "extra": result.extra_calls,
        "ordering": result.ordering_issues,
        "forbidden": result.forbidden_calls,
    }
    found = [f"{name}: {', '.join(entries)}" for name, entries in lists.items() if entries]
    return "; ".join(found) or "every call is as asserted"


AGENTEST = System(title="Agentest 0.0.17", questions=_questions, numbers=_numbers)
