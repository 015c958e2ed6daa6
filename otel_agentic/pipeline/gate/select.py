"""Which conversations a gate looks at, by agent."""

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
class Chosen:
    """What is selected: as `report` selects, and only a suite (a tag of cases), an agent version or an environment."""

    selection: Selection = field(default_factory=Selection)
    window: str | None = None
    suite: str | None = None
    agent_version: str | None = None
    environment: str | None = None

    @property
    def narrows(self) -> bool:
        """Whether more is asked for than a selection can say."""
        return any(each is not None for each in (self.window, self.suite, self.agent_version, self.environment))

    @property
    def from_the_beginning(self) -> Chosen:
        """The same, of all times up to its end."""
        return replace(self, selection=from_the_beginning(self.selection), window=None)

    def tier_basis(self, engine: Engine, agent: str | None) -> ClaimBasis:
        """Return what the tier of an agent rests on: its newest version's conversations, from the first one on."""
        whole = self.from_the_beginning
        key = GroupKey(agent=agent, agent_version=self.agent_version, environment=self.environment, tag=self.suite)
        members = [one for group in whole.groups(engine) if group.agent == agent for one in group.members]
        return tier_bases(engine, {key: members}, whole.selection)[key]

    def groups(self, engine: Engine) -> list[Group]:
        """Return the conversations of each agent, by name.

        Raises:
            UsageError: the window is none.
            BadInputError: no case has the tag.
        """
        with engine.store.read() as con:
            if self.suite is not None:
                require_suite(con, self.suite)
            scored = scored_conversations(con, self.selection)
        kept = [one for one in scored if self._takes(one)]
        wide = None if self.window is None else parse_window(self.window)
        if wide is not None and wide.width_ns is not None:
            kept = within(engine, kept, wide.width_ns, self.selection.until_ns)
        newest = wide.newest if wide is not None else None
        return [Group(agent=key.agent, members=_newest(members, newest)) for key, members in group_by(kept).items()]

    def _takes(self, one: ScoredConversation) -> bool:
        return (
            (self.suite is None or self.suite in one.tags)
            and (self.agent_version is None or one.agent_version == self.agent_version)
            and (self.environment is None or one.environment == self.environment)
        )


def _newest(members: Sequence[ScoredConversation], newest: int | None) -> Sequence[ScoredConversation]:
    return members if newest is None else members[-newest:]
