"""Whether the result of a call was used: inferred from the answer and from later calls, with the evidence.

Used: a value of the result is an argument of a later call, or is said in an answer after the call. Values that the user
or the call itself had brought in prove nothing. Not used: the turn's answer states another value for a key that the
result holds once. Otherwise it is unknown, which is no score.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_agentic.scoring.disproof import stated_otherwise
from otel_agentic.scoring.proof import in_answers, in_later_call
from otel_agentic.scoring.texts import Texts
from otel_agentic.scoring.use import Evidence, Use

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from otel_agentic.scoring.made import MadeCall

__all__ = ["Evidence", "Texts", "Use", "evidence_of", "use_of"]


def use_of(made: MadeCall, later: Sequence[MadeCall], texts: Texts) -> Use:
    """Return whether the result of a call was used.

    What can hardly be chance comes first: an argument of a later call, a number, date or code in an answer; then what
    the answer states for a key of the result; then words and names that the answer shares with it.

    Args:
        made: a call that worked.
        later: the calls after it that may prove the use. Calls that no expectation names are left out by the caller: a
            call that nobody asked for cannot raise a score.
        texts: what was said in its scope.
    """
    if made.call.used_flag is not None:
        word = "used" if made.call.used_flag else "unused"
        return Use(score=float(made.call.used_flag), how="flag", note=f"the data flag its result as {word}")
    if not made.call.result_captured:
        return Use(score=None, note="its result was not captured")
    return _inferred(made, later, texts)


def _inferred(made: MadeCall, later: Sequence[MadeCall], texts: Texts) -> Use:
    result = texts.result_of(made)
    argument = in_later_call(result.values, made, later, texts)
    if argument is not None:
        return Use(score=1.0, how="argument", shown=argument)
    said = in_answers(result.values, made, texts, strong=True)
    # Of a result that was read in part only, the rest may hold what the answer states.
    stated = stated_otherwise(result.values, made, texts) if said is None and result.complete else None
    if stated is not None:
        return stated
    said = said or in_answers(result.values, made, texts, strong=False)
    if said is not None:
        return Use(score=1.0, how="answer", shown=said)
    return Use(score=None, note="no sign of its result")


def evidence_of(
    uses: Iterable[tuple[MadeCall, Use]], judged: Sequence[Mapping[str, Any]] = ()
) -> dict[str, list[Mapping[str, Any]]]:
    """Return the evidence of a tool score by dimension: one record a result of which it is known whether it was used.

    Args:
        uses: what is known of the use of each result.
        judged: what a judge said of parameters.
    """
    known = [use.record(made) for made, use in uses if use.score is not None]
    found: dict[str, list[Mapping[str, Any]]] = {"utilization": [*known], "parameters": [*judged]}
    return {name: records for name, records in found.items() if records}
