"""Whether a made parameter is the expected one, mode by mode; and how far a call's arguments agree."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.truth.json_schema import conforms
from otel_agentic.truth.patterns import matches_fully
from otel_agentic.truth.values import canonical, is_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_agentic.truth.model import ExpectedCall, MatchRule


def agrees(expected: Any, made: Any, rule: MatchRule, *, numbers_as_text: bool = False) -> bool | None:
    """Return whether a made value is the expected one; None where only a judge could say.

    Mode `judge` is decided only where the values are equal: tool scores ask no model. Any JSON value is taken; one that
    is nested too deeply to be compared, or too large for its mode, agrees with nothing.

    >>> from otel_agentic.truth.model import EXACT, MatchRule
    >>> agrees(5, 5.0, EXACT), agrees("5", 5, EXACT), agrees("5", 5, EXACT, numbers_as_text=True)
    (True, False, True)
    >>> agrees("rome", "Roma", MatchRule(mode="judge")) is None
    True
    """
    try:
        if rule.mode == "judge":
            return True if _equal(expected, made, numbers_as_text=numbers_as_text) else None
        if rule.mode == "number":
            return _near(expected, made, rule.tolerance, numbers_as_text=numbers_as_text)
        return _MODES[rule.mode](expected, made, numbers_as_text)
    except (RecursionError, OverflowError):
        return False


def _equal(expected: Any, made: Any, *, numbers_as_text: bool, unordered: bool = False) -> bool:
    if isinstance(expected, str) and isinstance(made, str):
        # Between two texts nothing was turned into text: "5" and "5.0" are different codes.
        return expected == made
    if type(expected) is type(made) is int:
        return bool(expected == made)
    return canonical(expected, unordered=unordered, numbers_as_text=numbers_as_text) == canonical(
        made, unordered=unordered, numbers_as_text=numbers_as_text
    )


def _near(expected: Any, made: Any, tolerance: float, *, numbers_as_text: bool) -> bool:
    if numbers_as_text and isinstance(made, str):
        key = canonical(made, numbers_as_text=True)
        made = key[1] if isinstance(key, tuple) and key[0] == "number" else made
    if not is_number(made):
        return False
    # 0.1 + 0.2 is within 0 of 0.3 for everyone but a processor.
    return bool(abs(made - expected) <= tolerance or math.isclose(made, expected, rel_tol=1e-12))


def _matches(expected: Any, made: Any, _: bool) -> bool:  # noqa: FBT001 — one signature for all modes
    return isinstance(made, str) and matches_fully(expected, made)


def _contains(expected: Any, made: Any, numbers_as_text: bool) -> bool:  # noqa: FBT001 — one signature for all modes
    """Return whether a text holds a text, a list every item of a list (or the one value), an object every entry."""
    if isinstance(made, str):
        return isinstance(expected, str) and expected in made
    if isinstance(made, (list, tuple)):
        wanted = expected if isinstance(expected, (list, tuple)) else [expected]
        return all(any(_equal(one, item, numbers_as_text=numbers_as_text) for item in made) for one in wanted)
    if isinstance(made, Mapping):
        return isinstance(expected, Mapping) and all(
            key in made and _equal(value, made[key], numbers_as_text=numbers_as_text) for key, value in expected.items()
        )
    return _equal(expected, made, numbers_as_text=numbers_as_text)


_MODES: Final[Mapping[str, Callable[[Any, Any, bool], bool]]] = {
    "exact": lambda expected, made, text: _equal(expected, made, numbers_as_text=text),
    "unordered": lambda expected, made, text: _equal(expected, made, numbers_as_text=text, unordered=True),
    "casefold": lambda expected, made, text: (
        canonical(expected, fold_case=True, numbers_as_text=text)
        == canonical(made, fold_case=True, numbers_as_text=text)
    ),
    "regex": _matches,
    "contains": _contains,
    "one_of": lambda expected, made, text: any(_equal(one, made, numbers_as_text=text) for one in expected),
    "any": lambda _expected, _made, _text: True,
    "json_schema": lambda expected, made, _text: conforms(made, expected),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How far the arguments of a made call agree with an expected one: `equal` of `total` keys.

    `wrong` are the keys that differ, sorted. `undecided` counts keys that only a judge could decide; they are in `equal`.
    `captured` is False where the arguments were not recorded: then nothing is equal and nothing is wrong.
    """

    equal: int
    total: int
    wrong: tuple[str, ...] = ()
    undecided: int = 0
    captured: bool = True

    @property
    def score(self) -> float:
        """Equal keys over all keys; 1 where there is no key to compare."""
        return self.equal / self.total if self.total else 1.0

    @property
    def full(self) -> bool:
        """Whether every key agrees."""
        return self.captured and self.equal == self.total


def compare_arguments(
    expected: ExpectedCall, arguments: Mapping[str, Any] | None, *, numbers_as_text: bool = False
) -> Agreement:
    """Return how the arguments of a made call agree with an expected call.

    Keys compared: those expected, and those made beyond them unless `ignore_extra_parameters`; `ignore` drops its key.
    """
    rules = expected.rules
    wanted = [key for key, rule in rules.items() if rule.mode != "ignore"]
    if arguments is None:
        return Agreement(equal=0, total=max(1, len(wanted)), captured=False)
    extra = [] if expected.ignore_extra_parameters else [key for key in arguments if key not in rules]
    wrong, undecided = [*extra], 0
    for key in wanted:
        verdict = key in arguments and agrees(
            expected.parameters.get(key), arguments[key], rules[key], numbers_as_text=numbers_as_text
        )
        undecided += verdict is None
        if verdict is False:
            wrong.append(key)
    total = len(wanted) + len(extra)
    return Agreement(equal=total - len(wrong), total=total, wrong=tuple(sorted(wrong)), undecided=undecided)
