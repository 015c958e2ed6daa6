"""Results of `gate`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Literal

from otel_agentic.results.codec import optional

Verdict = Literal["pass", "fail", "no_data"]
ConditionKind = Literal["data", "rate", "metric", "severity", "tier", "regression"]
Operator = Literal[">=", "<=", "=", "in"]
#: The value compared with the limit: the estimate, or an end of its interval.
Compared = Literal["estimate", "lower", "upper"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRow:
    """One condition applied to one agent.

    `condition` is `success`, `pass^3`, `coverage`, `n`, `tier`, `severity`, `conversations`, or a metric. `value`, `lower` and
    `upper` are measured, in the unit of the condition; for a regression they are the difference from the baseline, now minus
    then. `label` is the name of the tier or severity. `n` is the number of conversations, or of scores of a metric, that the
    value is computed from. `estimator` and `interval` name the methods of rates and their bounds. `allowed`: missing data is
    not a failure. `reason` is a sentence.
    """

    condition: str
    kind: ConditionKind
    agent: str | None
    operator: Operator = ">="
    limit: float | int | str
    n: int
    verdict: Verdict
    reason: str
    value: float | int | None = None
    lower: float | None = None
    upper: float | None = None
    label: str | None = None
    compared: Compared = "estimate"
    estimator: str | None = None
    interval: str | None = None
    allowed: bool = False

    @property
    def stops(self) -> bool:
        """Whether the gate fails because of this row."""
        return self.verdict == "fail" or (self.verdict == "no_data" and not self.allowed)


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineUsed:
    """The baseline that a gate compares with."""

    name: str
    saved_at: str
    conversations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """The verdict of a gate."""

    evaluation: str
    criterion: str
    passed: bool
    agents: list[str | None]
    conversations: int
    evaluated: int
    level: float
    bound: str
    baseline: BaselineUsed | None
    rows: list[GateRow]
    not_evaluated: dict[str, int]
    notes: list[str]
    #: The current values as a baseline; None unless requested.
    measured: Any = field(default=None)
    saved_baseline: str | None = optional()


def is_file(baseline: str) -> bool:
    """Return whether a baseline is a file, not a name: it ends in `.json`, or contains a folder.

    >>> is_file("main"), is_file("main.json"), is_file("ci/main")
    (False, True, True)
    """
    return baseline.endswith(".json") or len(PurePath(baseline).parts) > 1
