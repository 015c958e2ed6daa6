"""Which attribute holds which meaning, in one convention.

Entries are paths: an attribute's name, or a way into the JSON that it holds (`dialects.paths`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_agentic.dialects.paths import attribute_of

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Attributes of one convention; each meaning lists the paths that are tried in order.

    `scopes` are prefixes of instrumentation scope names, `marks` prefixes of attribute names: either makes a span the
    dialect's. `kind` tells operations apart, `kinds` says what its values mean (`tool`, `model`, `agent`, `maybe_agent`,
    `plan`, else the reason to ignore the span). `tool_name` makes a span a tool call whatever its kind; `name` only names
    what the kind says. `input` and `output` hold whatever a vendor records of a run, a model call or a tool call
    (`dialects.payloads`), and are read where nothing more particular is there. `flat_in` and `flat_out` are prefixes of
    messages spelled out over many attributes (`prefix.0.role`). `input_tokens` and `output_tokens` are those of one model
    call, `usage` holds both as an object. `definitions` are the tools that a model or agent was given, `flat_definitions`
    prefixes of such that are spelled out, `schema` describes the parameters of the tool that was called.
    """

    scopes: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    kinds: Mapping[str, str]
    conversation_id: tuple[str, ...] = ()
    agent_name: tuple[str, ...] = ()
    agent_id: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    response_id: tuple[str, ...] = ()
    finish_reason: tuple[str, ...] = ()
    query: tuple[str, ...] = ()
    answer: tuple[str, ...] = ()
    messages_in: tuple[str, ...] = ()
    messages_out: tuple[str, ...] = ()
    flat_in: tuple[str, ...] = ()
    flat_out: tuple[str, ...] = ()
    input: tuple[str, ...] = ()
    output: tuple[str, ...] = ()
    name: tuple[str, ...] = ()
    tool_name: tuple[str, ...] = ()
    call_id: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    result: tuple[str, ...] = ()
    error: tuple[str, ...] = ("error.type",)
    plan: tuple[str, ...] = ()
    input_tokens: tuple[str, ...] = ()
    output_tokens: tuple[str, ...] = ()
    usage: tuple[str, ...] = ()
    definitions: tuple[str, ...] = ()
    flat_definitions: tuple[str, ...] = ()
    schema: tuple[str, ...] = ()

    @property
    def content_attributes(self) -> frozenset[str]:
        """The attributes that hold what was said, asked and answered; prefixes of those that are spelled out."""
        asked = (*self.query, *self.messages_in, *self.flat_in, *self.input, *self.arguments)
        answered = (*self.answer, *self.messages_out, *self.flat_out, *self.output, *self.result, *self.plan)
        return frozenset(attribute_of(path) for path in (*asked, *answered))
