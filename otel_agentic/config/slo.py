"""The section `slo`: objectives that agents are watched against."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Annotated, Literal

from pydantic import Field, model_validator

from otel_agentic.config.globs import may_meet
from otel_agentic.config.section import Count, Section

Block = Literal["auto", "user", "session", "hour", "none"]


class Objective(Section):
    """What an agent is held to: pass^k at or above a target."""

    name: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None, description="name in metrics and reports; unset: made of k and target"
    )
    agent: Annotated[str, Field(min_length=1)] = Field(default="*", description="agent it is for, name or glob")
    k: Count = Field(default=1, description="the k of pass^k")
    target: Annotated[float, Field(gt=0.0, lt=1.0)] = Field(description="pass^k that is promised")
    method: Literal["pooled", "per_case"] = Field(
        default="pooled",
        description="pooled watches the pass rate over all conversations, per_case whether every case keeps the promise",
    )
    alpha: Annotated[float, Field(gt=0.0, lt=1.0)] = Field(
        default=0.05, description="probability of a false alarm, ever; the alarm is at e-value 1 / alpha"
    )
    target_run_length: Annotated[float, Field(ge=1.0)] = Field(
        default=1000.0, description="conversations between false alarms of change, on average, at least"
    )

    @property
    def label(self) -> str:
        """Its name, or one made of what it says."""
        return self.name or f"pass^{self.k}>={self.target:g}"


class SloSettings(Section):
    """Objectives that agents are watched against, conversation by conversation."""

    objectives: tuple[Objective, ...] = Field(default=(), description="objectives: tables with k, target, agent, …")
    since: datetime | None = Field(
        default=None,
        description="count from this time on, ISO 8601, UTC unless it says otherwise; unset: from the group's first "
        "conversation",
    )

    block: Block = Field(
        default="auto",
        description="what counts once in pooled objectives, since conversations that belong together go alike: a run of one "
        "user, or session, or an hour; auto takes the user that spans name, else the session, else the hour; none counts each "
        "conversation",
    )

    @property
    def since_ns(self) -> int | None:
        """The time from which on conversations count, ns since the epoch."""
        if self.since is None:
            return None
        aware = self.since if self.since.tzinfo else self.since.replace(tzinfo=UTC)
        return (aware - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1) * 1_000

    @model_validator(mode="after")
    def _labels_tell_apart(self) -> SloSettings:
        for one, other in combinations(self.objectives, 2):
            if one.label == other.label and may_meet(one.agent, other.agent):
                message = (
                    f"two objectives are called {one.label!r}, for agents {one.agent!r} and {other.agent!r}, which may be "
                    "the same agent; give one of them a name of its own"
                )
                raise ValueError(message)
        return self
