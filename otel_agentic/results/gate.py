"""Results of `gate`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from otel_agentic.results.codec import optional


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRow:
    """One condition of one agent, the measured value, and the verdict."""

    condition: str
    kind: str
    agent: str | None
    operator: str
    limit: float | int | str
    n: int
    verdict: str
    reason: str
    value: float | int | None = None
    lower: float | None = None
    upper: float | None = None
    label: str | None = None
    compared: str = "estimate"
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
