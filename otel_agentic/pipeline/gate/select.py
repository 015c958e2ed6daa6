"""The conversations that a gate checks, by agent."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from otel_agentic.pipeline.gate.model import Group
from otel_agentic.pipeline.report import within
from otel_agentic.pipeline.suites import require_suite
from otel_agentic.pipeline.tier_basis import from_the_beginning, tier_bases
from otel_agentic.store.selection import Selection
from otel_agentic.store.windows import scored_conversations
from otel_agentic.windows import GroupKey, group_by, parse_window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.pipeline.engine import Engine
    from otel_agentic.windows import ClaimBasis, ScoredConversation


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSelection:
    """The selection of `report`, narrowed to a suite (a tag of cases), an agent version or an environment."""

    selection: Selection = field(default_factory=Selection)
    window: str | None = None
    suite: str | None = None
    agent_version: str | None = None
    environment: str | None = None

    @property
    def narrows(self) -> bool:
        """Whether there are criteria besides the selection."""
        return any(value is not None for value in (self.window, self.suite, self.agent_version, self.environment))

    @property
    def from_the_beginning(self) -> GateSelection:
        """The same criteria from the first conversation up to the end of the selection."""
        return replace(self, selection=from_the_beginning(self.selection), window=None)

    def tier_basis(self, engine: Engine, agent: str | None) -> ClaimBasis:
        """Return the basis of an agent's tier: all conversations of its newest version."""
        since_start = self.from_the_beginning
        key = GroupKey(agent=agent, agent_version=self.agent_version, environment=self.environment, tag=self.suite)
        members = [member for group in since_start.groups(engine) if group.agent == agent for member in group.members]
        return tier_bases(engine, {key: members}, since_start.selection)[key]

    def groups(self, engine: Engine) -> list[Group]:
        """Return the conversations of each agent, sorted by name.

        Raises:
            UsageError: the window is invalid.
            BadInputError: no case has the tag.
        """
        with engine.store.read() as con:
            if self.suite is not None:
                require_suite(con, self.suite)
            scored = scored_conversations(con, self.selection)
        members = [conversation for conversation in scored if self._selects(conversation)]
        window = None if self.window is None else parse_window(self.window)
        if window is not None and window.width_ns is not None:
            members = within(engine, members, window.width_ns, self.selection.until_ns)
        newest = window.newest if window is not None else None
        return [Group(agent=key.agent, members=_newest(own, newest)) for key, own in group_by(members).items()]

    def _selects(self, conversation: ScoredConversation) -> bool:
        return (
            (self.suite is None or self.suite in conversation.tags)
            and (self.agent_version is None or conversation.agent_version == self.agent_version)
            and (self.environment is None or conversation.environment == self.environment)
        )


def _newest(members: Sequence[ScoredConversation], newest: int | None) -> Sequence[ScoredConversation]:
    return members if newest is None else members[-newest:]
