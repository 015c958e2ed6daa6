"""Sorts scored conversations into the groups that rates are about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from otel_agentic.errors import UsageError
from otel_agentic.windows.model import GroupKey, ScoredConversation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

GroupBy = Literal["agent", "version", "environment", "service", "tag", "case", "tool"]
GROUP_BYS: tuple[GroupBy, ...] = get_args(GroupBy)


def group_by(
    scored: Iterable[ScoredConversation], by: Sequence[GroupBy] = ("agent",)
) -> dict[GroupKey, list[ScoredConversation]]:
    """Return the conversations of each group, groups sorted by key, conversations in the order given.

    The key holds what is grouped by and None elsewhere; the default is one group an agent. A conversation counts once
    in each of its tags (or tools), and in no group where it has none. A conversation that lacks an agent, version or
    case is in the group where that is None, so that what could not be matched stays in sight.

    Raises:
        UsageError: something else is to be grouped by; names what is allowed.
    """
    for each in by:
        if each not in GROUP_BYS:
            raise UsageError(f"cannot group by {each!r}; allowed: {', '.join(GROUP_BYS)}")
    groups: dict[GroupKey, list[ScoredConversation]] = {}
    for conversation in scored:
        for key in _keys(conversation, by):
            groups.setdefault(key, []).append(conversation)
    return {key: groups[key] for key in sorted(groups, key=GroupKey.sort_key)}


def group_by_subject(scored: Iterable[ScoredConversation]) -> dict[GroupKey, list[ScoredConversation]]:
    """Return the conversations by full subject key (agent, version, environment, service): the groups of windows."""
    groups: dict[GroupKey, list[ScoredConversation]] = {}
    for conversation in scored:
        groups.setdefault(subject_key(conversation), []).append(conversation)
    return {key: groups[key] for key in sorted(groups, key=GroupKey.sort_key)}


def subject_key(conversation: ScoredConversation) -> GroupKey:
    """Return the key under which a conversation is counted in windows and metrics."""
    return GroupKey(
        agent=conversation.agent,
        agent_version=conversation.agent_version,
        environment=conversation.environment,
        service=conversation.service,
    )


def _keys(conversation: ScoredConversation, by: Sequence[GroupBy]) -> Iterator[GroupKey]:
    tags = _distinct(conversation.tags) if "tag" in by else (None,)
    tools = _distinct(conversation.tools) if "tool" in by else (None,)
    for tag in tags:
        for tool in tools:
            yield GroupKey(
                agent=conversation.agent if "agent" in by else None,
                agent_version=conversation.agent_version if "version" in by else None,
                environment=conversation.environment if "environment" in by else None,
                service=conversation.service if "service" in by else None,
                dataset=conversation.dataset if "case" in by else None,
                case=conversation.case_id if "case" in by else None,
                tag=tag,
                tool=tool,
            )


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
