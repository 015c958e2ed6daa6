"""Criteria: the conditions that decide whether a conversation is correct.

A criterion is a metric with a threshold or a set of passing labels. A conversation passes when every deciding criterion
passes, fails as soon as one of them fails, and is otherwise not evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol

from otel_agentic.errors import UsageError
from otel_agentic.scoring.parts import Part, combine, failed, not_evaluated, passed
from otel_agentic.scoring.scope import DIMENSIONS

if TYPE_CHECKING:
    from otel_agentic.config import ScoringSettings
    from otel_agentic.scoring.scope import NotEvaluatedReason

#: Everything that the case of a conversation annotates; the default.
ANNOTATED: Final = "annotated"
#: What a case can annotate, in the order in which failures are explained.
CASE_CRITERIA: Final = ("answer", "tools", "outputs", "state", "turns")
#: The criteria that are computed from a case: what it annotates, and the dimensions of its tools.
OF_CASE: Final = (ANNOTATED, *CASE_CRITERIA, *DIMENSIONS)
#: The criterion of the outcome itself: all deciding criteria of an evaluation together.
CORRECT: Final = "correct"
#: Joins criteria that have to pass together.
_AND: Final = " and "
_OPTIONAL: Final = " if known"
_SYNTAX: Final = re.compile(r"(?P<name>[^\s<>=]+)(?:\s*(?P<operator>>=|<=|=)\s*(?P<bound>\S.*))?")
_EXAMPLES: Final = (
    'such as "tools", "agentest.helpfulness >= 4", "agentest.behavior = no failure" or "checks.py:polite"; '
    'with " if known" at the end, a missing value decides nothing'
)
#: Tolerance of thresholds for rounding errors: values may be means.
_ROUNDING: Final = 1e-9


class Scored(Protocol):
    """The fields of a metric score that a criterion reads; see `evaluators.base.MetricScore`."""

    @property
    def value(self) -> float | None: ...  # noqa: D102
    @property
    def label(self) -> str | None: ...  # noqa: D102
    @property
    def reason(self) -> NotEvaluatedReason | None: ...  # noqa: D102
    @property
    def explanation(self) -> str: ...  # noqa: D102


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """A metric with the values or labels that pass.

    `text` is its normalised notation and `name` the metric as written; without `minimum`, `maximum` and `labels`, the
    metric's own threshold or failing labels apply. `optional`: a missing value decides nothing.
    """

    text: str
    name: str
    minimum: float | None = None
    maximum: float | None = None
    labels: frozenset[str] = frozenset()
    optional: bool = False

    @property
    def of_case(self) -> bool:
        """Whether it is computed from the case, by scoring itself."""
        return self.name in OF_CASE

    def part(self, scores: Iterable[Scored]) -> Part | None:
        """Return the outcome of the scores of its metric: every one of them has to pass; None if it decides nothing."""
        parts = [self._part_of(score) for score in scores]
        known = [part for part in parts if part.outcome != "not_evaluated"]
        if self.optional:
            return combine(known) if known else None
        return combine(parts) if parts else not_evaluated("no_data", f"{self.name} has no score")

    def _part_of(self, score: Scored) -> Part:
        if score.value is None and score.label is None:
            return not_evaluated(score.reason or "no_data", f"{self.name}: {score.explanation}")
        if self.labels:
            passes = score.label in self.labels
        else:
            value = score.value if score.value is not None else float("nan")
            passes = (self.minimum is None or value >= self.minimum - _ROUNDING) and (
                self.maximum is None or value <= self.maximum + _ROUNDING
            )
        actual = score.label if self.labels else f"{score.value:g}"
        message = f"{self.text}: {actual}" + (f" ({score.explanation})" if score.explanation else "")
        return passed(message, score.value) if passes else failed("criterion", message, score.value)


@lru_cache(maxsize=256)
def parsed(texts: Sequence[str]) -> tuple[Criterion, ...]:
    """Return the criteria of their notations, each once.

    Raises:
        UsageError: a notation is malformed.

    >>> [(c.name, c.minimum, c.optional) for c in parsed(("annotated", "agentest.helpfulness>=4 if known"))]
    [('annotated', None, False), ('agentest.helpfulness', 4.0, True)]
    """
    return tuple({criterion.text: criterion for criterion in map(_parsed, texts)}.values())


def _parsed(text: str) -> Criterion:
    optional = text.strip().endswith(_OPTIONAL)
    match = _SYNTAX.fullmatch(text.strip().removesuffix(_OPTIONAL).strip())
    if match is None:
        raise UsageError(f"criterion {text!r}: expected a metric, optionally with >=, <= or = and a bound, {_EXAMPLES}")
    name, operator, bound = match["name"], match["operator"], (match["bound"] or "").strip()
    normalised = name if operator is None else f"{name} {operator} {bound}"
    minimum = maximum = None
    labels: frozenset[str] = frozenset()
    if operator == "=":
        labels = frozenset(label.strip() for label in bound.split("|"))
    elif operator is not None:
        try:
            number = float(bound)
        except ValueError:
            raise UsageError(f"criterion {text!r}: {bound!r} is not a number, {_EXAMPLES}") from None
        minimum, maximum = (number, None) if operator == ">=" else (None, number)
    if name in OF_CASE and operator is not None:
        raise UsageError(
            f"criterion {text!r}: {name} passes or fails by itself; its thresholds are settings of scoring"
        )
    return Criterion(
        text=normalised + (_OPTIONAL if optional else ""),
        name=name,
        minimum=minimum,
        maximum=maximum,
        labels=labels,
        optional=optional,
    )


def texts_of(name: str, settings: ScoringSettings) -> Sequence[str]:
    """Return the criteria that a name means: `correct`, a profile, a criterion, or several joined by " and "."""
    if name == CORRECT:
        return settings.criteria
    profile = settings.profiles.get(name)
    return [part.strip() for part in name.split(_AND)] if profile is None else profile


def fingerprint(name: str, settings: ScoringSettings) -> str:
    """Return the criteria that a name means, empty where the name is enough: results of different ones are never mixed.

    >>> from otel_agentic.config import ScoringSettings
    >>> [fingerprint(name, ScoringSettings(criteria=("answer", "state"))) for name in ("correct", "tools")]
    ['answer, state', '']
    """
    texts = ", ".join(criterion.text for criterion in parsed(tuple(texts_of(name, settings))))
    is_named = texts == ANNOTATED if name == CORRECT else name not in settings.profiles
    return "" if is_named else texts


def rule_of(texts: Sequence[str]) -> str:
    """Return the criteria as part of a sentence.

    >>> rule_of(("annotated",))
    'everything that the case annotates passes (answers, tool calls, outputs, end state)'
    >>> rule_of(("answer", "agentest.helpfulness >= 4"))
    'answer and agentest.helpfulness >= 4'
    """
    if tuple(texts) == (ANNOTATED,):
        return "everything that the case annotates passes (answers, tool calls, outputs, end state)"
    return f"{', '.join(texts[:-1])} and {texts[-1]}" if len(texts) > 1 else texts[0]
