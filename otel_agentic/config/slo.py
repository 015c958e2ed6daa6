"""The section `slo`: objectives that agents are monitored against."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Annotated, Literal

from pydantic import Field, model_validator

from otel_agentic.config.globs import globs_overlap
from otel_agentic.config.section import Count, Section

Block = Literal["auto", "user", "session", "hour", "none"]


class Objective(Section):
    """An objective of an agent: pass^k at or above a target."""

    name: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None, description="name in metrics and reports; unset: made of k and target"
    )
    agent: Annotated[str, Field(min_length=1)] = Field(default="*", description="the agent, by name or glob")
    k: Count = Field(default=1, description="the k of pass^k")
    target: Annotated[float, Field(gt=0.0, lt=1.0)] = Field(description="promised pass^k")
    method: Literal["pooled", "per_case"] = Field(
        default="pooled",
        description="pooled monitors the pass rate over all conversations, per_case whether every case keeps the promise",
    )
    alpha: Annotated[float, Field(gt=0.0, lt=1.0)] = Field(
        default=0.05, description="probability of any false alarm; the alarm is at e-value 1 / alpha"
    )
    target_run_length: Annotated[float, Field(ge=1.0)] = Field(
        default=1000.0, description="minimum average number of conversations between false alarms of change"
    )

    @property
    def label(self) -> str:
        """The name, or one made of k and target."""
        return self.name or f"pass^{self.k}>={self.target:g}"


class SloSettings(Section):
    """Objectives that agents are monitored against, conversation by conversation."""

    objectives: tuple[Objective, ...] = Field(default=(), description="objectives: tables with k, target, agent, …")
    since: datetime | None = Field(
        default=None,
        description="count from this time on, ISO 8601, UTC unless it contains an offset; unset: from the group's first "
        "conversation",
    )

    block: Block = Field(
        default="auto",
        description="the unit that counts once in pooled objectives, because related conversations have similar results: a "
        "run of one user, or session, or an hour; auto takes the user if spans contain one, else the session, else the hour; "
        "none counts each conversation",
    )

    @property
    def since_ns(self) -> int | None:
        """The time from which conversations count, ns since the epoch."""
        if self.since is None:
            return None
        aware = self.since if self.since.tzinfo else self.since.replace(tzinfo=UTC)
        return (aware - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1) * 1_000

    @model_validator(mode="after")
    def _labels_are_distinct(self) -> SloSettings:
        for first, second in combinations(self.objectives, 2):
            if first.label == second.label and globs_overlap(first.agent, second.agent):
                message = (
                    f"two objectives are named {first.label!r}, for agents {first.agent!r} and {second.agent!r}, which may be "
                    "the same agent; set a distinct name on one of them"
                )
                raise ValueError(message)
        return self
