"""The rows of a gate: condition, limit, measured value, and verdict."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from otel_agentic.windows import ScoredConversation

Verdict = Literal["pass", "fail", "no_data"]
Kind = Literal["data", "rate", "metric", "severity", "tier", "regression"]
Operator = Literal[">=", "<=", "=", "in"]
#: The value compared with the limit: the estimate, or an end of its interval.
Compared = Literal["estimate", "lower", "upper"]
#: The name of all conditions in `allow_no_data`.
ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One condition applied to one agent.

    `condition` is `success`, `pass^3`, `coverage`, `n`, `tier`, `severity`, `conversations`, or a metric. `value`, `lower` and
    `upper` are measured, in the unit of the condition; for a regression they are the difference from the baseline, now minus
    then. `label` is the name of the tier or severity. `n` is the number of conversations, or of scores of a metric, that the
    value is computed from. `estimator` and `interval` name the methods of rates and their bounds. `allowed`: missing data is
    not a failure. `reason` is a sentence.
    """

    condition: str
    kind: Kind
    agent: str | None
    operator: Operator
    limit: float | int | str
    n: int
    verdict: Verdict
    reason: str
    value: float | None = None
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

    def allowing(self, allowed: Collection[str]) -> Row:
        """Return the row, allowed if it has no data and one of the names covers it."""
        names = {self.condition, self.kind, ALL}
        return replace(self, allowed=self.verdict == "no_data" and not names.isdisjoint(allowed))

    def json(self) -> dict[str, Any]:
        """Return the row as a JSON object."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The selected conversations of one agent, sorted by end; the agent is None if it is unknown."""

    agent: str | None
    members: Sequence[ScoredConversation]

    @property
    def evaluated(self) -> int:
        """The number of evaluated conversations."""
        return sum(member.outcome != "not_evaluated" for member in self.members)

    @property
    def keys(self) -> frozenset[tuple[str, str]]:
        """The keys of the conversations: environment and conversation id."""
        return frozenset((member.environment, member.conversation_id) for member in self.members)
