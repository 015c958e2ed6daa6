"""Handoffs: spans that say that one agent passes control to another."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.dialects.events import ToolCall
from otel_agentic.dialects.values import text_of

if TYPE_CHECKING:
    from otel_agentic.dialects.events import Header

#: What openai-agents calls the tool that hands over, unless an application names it.
_TRANSFER: Final = "transfer_to_"
_NOT_A_NAME: Final = re.compile(r"[^a-zA-Z0-9_]")


def handoff(header: Header, *, from_agent: Any, to_agent: Any) -> ToolCall:
    """Return a handoff span as the call of the tool that hands over, under the name that the model knows it by.

    Its result is what openai-agents then tells the model: the agent that control went to.
    """
    target = text_of(to_agent) or ""
    failed = header.error is not None
    return ToolCall(
        header=replace(header, agent_name=text_of(from_agent) or header.agent_name),
        name=_TRANSFER + _NOT_A_NAME.sub("_", target).lower(),
        call_id=None,
        arguments=None,
        result=None if failed else {"assistant": target},
        result_captured=not failed,
        is_error=failed,
        handoff_to=target,
    )
