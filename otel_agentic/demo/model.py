"""A LangChain chat model that needs no network: it says what a script tells it to."""

from __future__ import annotations

from collections import deque
from itertools import count
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_core.callbacks import CallbackManagerForLLMRun
    from langchain_core.language_models import LanguageModelInput
    from langchain_core.runnables import Runnable
    from langchain_core.tools import BaseTool

    from otel_agentic.demo.scenario import Response


class ScriptedModel(BaseChatModel):
    """Answers with the responses that were loaded, one a request; asks again for tool calls that failed."""

    model_name: str = "scripted-1"
    _script: deque[Response] = PrivateAttr(default_factory=deque)
    _asked: tuple[tuple[str, dict[str, Any]], ...] = PrivateAttr(default=())
    _call_ids: count[int] = PrivateAttr(default_factory=lambda: count(1))

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def load(self, responses: Sequence[Response]) -> None:
        """Set the responses of the next turn."""
        self._script = deque(responses)

    def bind_tools(
        self, tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool], **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return the model with its tools in every request, as a real one has them."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 — LangChain's signature
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 — same signature
        **kwargs: Any,  # noqa: ARG002 — same signature
    ) -> ChatResult:
        text = ""
        if not _failed(messages[-1]):
            response = self._script.popleft()
            text, self._asked = response.text, tuple((call.name, dict(call.arguments)) for call in response.calls)
        calls = [ToolCall(name=name, args=args, id=f"call_{next(self._call_ids)}") for name, args in self._asked]
        reason = {"finish_reason": "tool_calls" if calls else "stop", "model_name": self.model_name}
        message = AIMessage(content=text, tool_calls=calls, response_metadata=reason)
        return ChatResult(generations=[ChatGeneration(message=message, generation_info=reason)])


def _failed(message: BaseMessage) -> bool:
    return isinstance(message, ToolMessage) and message.status == "error"
