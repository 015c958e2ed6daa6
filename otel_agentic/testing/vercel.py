"""A script as spans of the Vercel AI SDK: `ai.*` spans up to version 6, GenAI spans in version 7."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from otel_agentic.spans.model import SpanBatch, SpanEvent
from otel_agentic.testing.builders import (
    NOON_NS,
    Act,
    AgentRunScript,
    below_the_model,
    in_steps,
    on_a_coarse_clock,
    play,
)
from otel_agentic.testing.conventions import (
    bare_error,
    exception_events,
    genai_message,
    genai_part,
    json_text,
    spans_of,
)

if TYPE_CHECKING:
    from otel_agentic.dialects.events import CallRequest, CallResult, Message

GENAI_SCOPE: Final = "gen_ai"
_MODEL: Final = "scripted-1"
_PROVIDER: Final = "scripted"
_OPERATIONS: Final = {"run": "invoke_agent", "frame": "agent_step", "model": "chat", "tool": "execute_tool"}


def genai_name(act: Act) -> str:
    """Return the name of an act's span; that of a run contains the model, not the agent."""
    if act.does == "frame":
        return f"step {act.number}"
    return f"{_OPERATIONS[act.does]} {act.call.name if act.call is not None else _MODEL}"


def genai_attributes(act: Act, *, runtime_context: bool) -> dict[str, Any]:
    """Return the attributes of an act's span.

    Args:
        act: the act.
        runtime_context: whether the application records the conversation on runs and steps.
    """
    attributes: dict[str, Any] = {"gen_ai.operation.name": _OPERATIONS[act.does]}
    if runtime_context and act.does in {"run", "frame"} and act.script.conversation_id is not None:
        attributes["ai.settings.context.sessionId"] = act.script.conversation_id
    if act.does == "frame":
        return attributes
    if act.call is not None:
        return {**attributes, **_of_tool(act)}
    attributes |= {"gen_ai.provider.name": _PROVIDER, "gen_ai.request.model": _MODEL}
    if act.does == "run":
        attributes["gen_ai.agent.name"] = act.script.agent_name
    messages = [*act.history, *act.messages_in]
    attributes["gen_ai.system_instructions"] = json_text([{"type": "text", "content": "You are a helpful assistant."}])
    attributes["gen_ai.input.messages"] = json_text(_messages(messages))
    if act.messages_out is not None:
        attributes["gen_ai.output.messages"] = json_text([_output(act, act.messages_out[0])])
    return attributes


def _of_tool(act: Act) -> dict[str, Any]:
    assert act.call is not None  # noqa: S101 — checked by the caller
    attributes = {
        "gen_ai.tool.name": act.call.name,
        "gen_ai.tool.call.id": act.call_id,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.arguments": json_text(dict(act.call.arguments)),
    }
    if act.error is None and act.call.result is not None:
        attributes["gen_ai.tool.call.result"] = json_text(act.call.result)
    return attributes


def _output(act: Act, message: Message) -> dict[str, Any]:
    """Return the output: for a run, the last text, then the calls of all steps, then their results."""
    requests = [part for run_message in act.worked for part in run_message.requests]
    results = [part for run_message in act.worked for part in run_message.results if not part.is_error]
    parts = [genai_part(part) for part in (*message.parts, *requests, *results)]
    return {"role": message.role, "parts": parts, "finish_reason": "tool_call" if message.requests else "stop"}


def _messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return messages with the results of one step in one message."""
    joined: list[dict[str, Any]] = []
    for message in messages:
        written = genai_message(message)
        if message.results and joined and joined[-1]["role"] == "tool":
            joined[-1]["parts"] += written["parts"]
        else:
            joined.append(written)
    return joined


#: Major releases of the SDK; `7-legacy` is version 7 with the integration that keeps the older spans.
VercelVersion = Literal[4, 5, 6, 7, "7-legacy"]

_SYSTEM: Final = "You are a helpful assistant."
#: JavaScript starts spans at whole milliseconds, and a scripted agent performs many acts within one.
_TICK_NS: Final = 1_000_000
_SPEED: Final = 40


def speak_vercel(
    script: AgentRunScript,
    version: VercelVersion = 6,
    *,
    stream: bool = False,
    runtime_context: bool = False,
    start_ns: int = NOON_NS,
) -> SpanBatch:
    """Return a script as spans of the Vercel AI SDK, many of which start in the same millisecond.

    In version 4, a tool that throws ends the run, so tools return their errors instead. Version 7 records the
    conversation only if configured.

    Args:
        script: the agent's actions.
        version: the major release.
        stream: `streamText` instead of `generateText`, in versions 5 and 6.
        runtime_context: let version 7 record the conversation, on runs and steps.
        start_ns: its start, ns since the epoch.
    """
    turns = play(script, start_ns=start_ns)
    if version == 7:  # noqa: PLR2004 — a release
        written = spans_of(
            [_on_its_clock(in_steps(acts)) for acts in turns],
            name=genai_name,
            attributes=lambda act: genai_attributes(act, runtime_context=runtime_context),
            events=exception_events,
            scope=GENAI_SCOPE,
            error=bare_error,
        )
    else:
        form = _Form(version=version, stream=stream)
        written = spans_of(
            [_on_its_clock(form.placed(acts)) for acts in turns],
            name=form.operation,
            attributes=lambda act: {**form.identity(act), **form.content(act)},
            events=form.events,
            scope="ai",
            error=form.error,
        )
    return SpanBatch(spans=tuple(written_span for _, written_span in written))


def _on_its_clock(acts: list[Act]) -> list[Act]:
    return on_a_coarse_clock(acts, speed=_SPEED, tick_ns=_TICK_NS)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """The form of the `ai.*` spans of one release."""

    version: VercelVersion
    stream: bool

    @property
    def legacy(self) -> bool:
        return self.version == "7-legacy"

    @property
    def returns_errors(self) -> bool:
        return self.version == 4  # noqa: PLR2004 — a release

    def placed(self, acts: list[Act]) -> list[Act]:
        return below_the_model(acts) if self.stream or self.legacy else acts

    def operation(self, act: Act) -> str:
        if act.does == "tool":
            return "ai.toolCall"
        verb = "stream" if self.stream else "generate"
        return f"ai.{verb}Text" if act.does == "run" else f"ai.{verb}Text.do{verb.title()}"

    def error(self, act: Act) -> str | None:
        return None if self.returns_errors and act.does == "tool" else bare_error(act)

    def events(self, act: Act) -> tuple[SpanEvent, ...]:
        return exception_events(act) if self.error(act) is not None else ()

    def identity(self, act: Act) -> dict[str, Any]:
        agent = act.script.agent_name
        attributes: dict[str, Any] = {
            "operation.name": f"{self.operation(act)} {agent}",
            "resource.name": agent,
            "ai.operationId": self.operation(act),
            "ai.telemetry.functionId": agent,
        }
        if act.does != "tool":
            attributes |= {"ai.model.provider": _PROVIDER, "ai.model.id": _MODEL}
        if act.script.conversation_id is not None and not (self.returns_errors and act.does == "tool"):
            prefix = "ai.settings.context" if self.legacy else "ai.telemetry.metadata"
            attributes[f"{prefix}.sessionId"] = act.script.conversation_id
        return attributes

    def content(self, act: Act) -> dict[str, Any]:
        if act.does == "tool":
            return self._of_tool(act)
        return self._of_run(act) if act.does == "run" else self._of_model(act)

    def _of_tool(self, act: Act) -> dict[str, Any]:
        assert act.call is not None  # noqa: S101 — a tool act has its call
        attributes = {
            "ai.toolCall.name": act.call.name,
            "ai.toolCall.id": act.call_id,
            "ai.toolCall.args": json_text(dict(act.call.arguments)),
        }
        if act.error is None and act.call.result is not None:
            attributes["ai.toolCall.result"] = json_text(act.call.result)
        elif self.returns_errors and act.error is not None:
            attributes["ai.toolCall.result"] = json_text({"error": bare_error(act)})
        return attributes

    def _of_run(self, act: Act) -> dict[str, Any]:
        query = act.messages_in[-1]
        prompt: dict[str, Any] = {"prompt": query.text}
        if self.legacy or not act.inside:
            messages = [*self._messages(act.history), {"role": "user", "content": query.text}]
            prompt = {"messages": messages}
        attributes: dict[str, Any] = {"ai.prompt": json_text({"system": _SYSTEM, **prompt})}
        if act.messages_out is not None:
            attributes |= {"ai.response.finishReason": "stop", "ai.response.text": act.messages_out[0].text}
            calls = [request for message in act.worked for request in message.requests]
            if self.legacy and calls:
                attributes["ai.response.toolCalls"] = json_text([self._call(request) for request in calls])
        return attributes

    def _of_model(self, act: Act) -> dict[str, Any]:
        messages = [{"role": "system", "content": _SYSTEM}, *self._messages(act.messages_in)]
        attributes: dict[str, Any] = {
            "ai.prompt.messages": json_text(messages),
            "gen_ai.system": _PROVIDER,
            "gen_ai.request.model": _MODEL,
        }
        if self.returns_errors:
            attributes["ai.prompt.format"] = "messages"
        for message in act.messages_out or ():
            reason = "tool-calls" if message.requests else "stop"
            attributes |= {"ai.response.finishReason": reason, "gen_ai.response.finish_reasons": [reason]}
            if message.text is not None or self.stream or self.legacy:
                attributes["ai.response.text"] = message.text or ""
            if message.requests:
                attributes["ai.response.toolCalls"] = json_text([self._call(request) for request in message.requests])
        return attributes

    def _call(self, request: CallRequest) -> dict[str, Any]:
        """Return a call of a response: its input is an object only if the SDK has parsed it already."""
        named = {"toolCallId": request.call_id, "toolName": request.name}
        arguments = dict(request.arguments or {})
        if self.version == 4:  # noqa: PLR2004 — a release
            return {"toolCallType": "function", **named, "args": json_text(arguments)}
        if self.legacy:
            return {**named, "input": arguments}
        return (
            {"type": "tool-call", **named, "input": arguments}
            if self.stream
            else {**named, "input": json_text(arguments)}
        )

    def _messages(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Return messages as the SDK sends them to a model: the results of one step are one message."""
        joined: list[dict[str, Any]] = []
        for message in messages:
            parts = self._parts(message)
            if message.results and joined and joined[-1]["role"] == "tool":
                joined[-1]["content"] += parts
            else:
                joined.append({"role": message.role, "content": parts})
        return joined

    def _parts(self, message: Message) -> list[dict[str, Any]]:
        key = "args" if self.version == 4 else "input"  # noqa: PLR2004 — a release
        parts: list[dict[str, Any]] = [] if message.text is None else [{"type": "text", "text": message.text}]
        parts += [
            {
                "type": "tool-call",
                "toolCallId": request.call_id,
                "toolName": request.name,
                key: dict(request.arguments or {}),
            }
            for request in message.requests
        ]
        parts += [
            {"type": "tool-result", "toolCallId": result.call_id, "toolName": result.name, **self._output_of(result)}
            for result in message.results
        ]
        return parts

    def _output_of(self, result: CallResult) -> dict[str, Any]:
        reason = str(result.result).removeprefix("Error: ").partition(": ")[2]
        if self.version == 4:  # noqa: PLR2004 — a release
            return {"result": {"error": reason} if result.is_error else result.result}
        if result.is_error:
            return {"output": {"type": "error-text", "value": f"Error: {reason}" if self.legacy else reason}}
        return {"output": {"type": "text" if isinstance(result.result, str) else "json", "value": result.result}}
