"""Where the names on a page lead: to elements of a single file, or to other pages of the console."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from otel_agentic.results.failures import FailingTool
    from otel_agentic.results.reports import ReportGroup

#: A page, or an element of this one; None for a name without a link.
Href = str | None


class Links(Protocol):
    """The targets of the links of a page."""

    def conversation(self, environment: str, conversation_id: str) -> Href:
        """Return the target of a conversation."""
        ...

    def fault(self, row: FailingTool) -> Href:
        """Return the target of a kind of tool fault: the conversations that have it."""
        ...

    def failed(self, group: ReportGroup) -> Href:
        """Return the target of the failed conversations of a group."""
        ...

    def tool(self, name: str) -> Href:
        """Return the target of the faults of a tool."""
        ...


class FileLinks:
    """The links of a single file, which lead to the conversations that it contains."""

    def __init__(self, anchors: Mapping[tuple[str, str], str]) -> None:
        """Create from the anchors of the conversations, by environment and id."""
        self._anchors = anchors

    def conversation(self, environment: str, conversation_id: str) -> Href:
        """Return the target of a conversation."""
        anchor = self._anchors.get((environment, conversation_id))
        return None if anchor is None else f"#{anchor}"

    def fault(self, row: FailingTool) -> Href:  # noqa: ARG002 — no list of them in a file
        """Return None: a file has no list of the conversations with a fault."""
        return None

    def failed(self, group: ReportGroup) -> Href:  # noqa: ARG002 — same
        """Return None: a file has no list of the conversations of a group."""
        return None

    def tool(self, name: str) -> Href:  # noqa: ARG002 — same
        """Return None: a file has no page of a tool."""
        return None
