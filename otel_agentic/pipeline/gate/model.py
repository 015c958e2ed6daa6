"""The rows of a gate: what was wanted, what was found, and whether it holds."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from otel_agentic.windows import ScoredConversation

Verdict = Literal["pass", "fail", "no_data"]
Kind = Literal["data", "rate", "metric", "severity", "tier", "regression"]
Operator = Literal[">=", "<=", "=", "in"]
#: What was held against the limit: the estimate, or an end of its interval.
Held = Literal["estimate", "lower", "upper"]
#: What `allow_no_data` calls everything.
ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One condition, for one agent.

    `condition` names what is looked at: `success`, `pass^3`, `coverage`, `n`, `tier`, `severity`, `conversations`, or a
    metric. `value` with `lower` and `upper` is what was found, in the unit of the condition; of a tier `told` is its name. Of a
    regression they are the difference from the baseline: what it is now minus what it was. `n` is what that rests on:
    conversations, or scores of a metric. `estimator` and `interval` are what rates and their bounds come from. `allowed`: that there is no data is no failure. `reason` is a sentence.
    """

    condition: str
    kind: Kind
    agent: str | None
    operator: Operator
    wanted: float | int | str
    n: int
    verdict: Verdict
    reason: str
    value: float | None = None
    lower: float | None = None
    upper: float | None = None
    told: str | None = None
    held: Held = "estimate"
    estimator: str | None = None
    interval: str | None = None
    allowed: bool = False

    @property
    def stops(self) -> bool:
        """Whether the gate fails by it."""
        return self.verdict == "fail" or (self.verdict == "no_data" and not self.allowed)

    def allowing(self, allowed: Collection[str]) -> Row:
        """Return it with what is allowed to have no data."""
        names = {self.condition, self.kind, ALL}
        return replace(self, allowed=self.verdict == "no_data" and not names.isdisjoint(allowed))

    def json(self) -> dict[str, Any]:
        """Return it as JSON can say it."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The conversations of one agent that are looked at, by end; None is the agent that is not known."""

    agent: str | None
    members: Sequence[ScoredConversation]

    @property
    def evaluated(self) -> int:
        """How many of them were evaluated."""
        return sum(member.outcome != "not_evaluated" for member in self.members)

    @property
    def keys(self) -> frozenset[tuple[str, str]]:
        """Their identities: environment and conversation id."""
        return frozenset((member.environment, member.conversation_id) for member in self.members)
