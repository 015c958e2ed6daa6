"""Attributes of what we emit: untrusted text, group keys, and the resource and version of this process."""

from __future__ import annotations

import uuid
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Final

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.trace import INVALID_SPAN, NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from otel_agentic.telemetry import names
from otel_agentic.windows.model import GroupKey

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation


def own_version() -> str:
    """Return the version of the installed distribution, `unknown` if run from a bare source tree."""
    try:
        return version(names.OWN_SERVICE_NAME)
    except PackageNotFoundError:
        return "unknown"


def own_resource(instance_id: str | None = None) -> Resource:
    """Return the resource of everything that this process emits; without an instance id, each call creates a new one."""
    attributes = {
        names.SERVICE_NAME: names.OWN_SERVICE_NAME,
        names.SERVICE_VERSION: own_version(),
        names.SERVICE_INSTANCE_ID: instance_id or str(uuid.uuid4()),
    }
    return Resource.create(attributes, schema_url=names.SCHEMA_URL)


#: Characters kept of an attribute value: each value of a metric stays in memory as long as its series.
MAX_LABEL_CHARS: Final = 256

#: Explicitly no span; an empty context would be replaced by the caller's own current one.
_NO_SPAN: Final = set_span_in_context(INVALID_SPAN, Context())


def label(text: str, limit: int = MAX_LABEL_CHARS) -> str:
    r"""Return `text`, cut to `limit` characters and encodable as UTF-8.

    One lone surrogate would make the encoder refuse the whole export.

    >>> label("refunds\ud800")
    'refunds?'
    """
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return cut.encode("utf-8", "replace").decode("utf-8")


def group_attributes(key: GroupKey) -> dict[str, str]:
    """Return a group's metric attributes without unknown ones.

    >>> group_attributes(GroupKey(agent="travel", environment="production"))
    {'gen_ai.agent.name': 'travel', 'deployment.environment.name': 'production'}
    """
    values = {
        names.GEN_AI_AGENT_NAME: key.agent,
        names.GEN_AI_AGENT_VERSION: key.agent_version,
        names.DEPLOYMENT_ENVIRONMENT_NAME: key.environment,
        names.SUBJECT_SERVICE_NAME: key.service,
        names.CASE_TAG: key.tag,
    }
    return {name: label(value) for name, value in values.items() if value}


def group_of(conversation: Conversation) -> GroupKey:
    """Return the group of one conversation: agent, version, environment and service."""
    return GroupKey(
        agent=conversation.agent_name,
        agent_version=conversation.agent_version,
        environment=conversation.environment,
        service=conversation.service,
    )


def span_context(trace_id: str, span_id: str | None) -> Context:
    """Return the context of a judged span, so that exemplars and events point at it.

    Ids are hex text; ids that are missing or not hex give a context without a span.
    """
    try:
        context = SpanContext(
            trace_id=int(trace_id, 16),
            span_id=int(span_id or "", 16),
            is_remote=True,
            # The judged span was exported, so its sender sampled it; exemplars are taken from sampled spans only.
            trace_flags=TraceFlags(TraceFlags.SAMPLED),
        )
    except ValueError:
        return _NO_SPAN
    return set_span_in_context(NonRecordingSpan(context), Context()) if context.is_valid else _NO_SPAN


def conversation_context(conversation: Conversation) -> Context:
    """Return the context of a conversation: the root span of its last turn."""
    if not conversation.turns:
        return _NO_SPAN
    last = conversation.turns[-1]
    return span_context(last.trace_id, last.span_id)
