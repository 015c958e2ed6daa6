"""MLflow tracing: values are JSON text, plain or translated to GenAI names (`MLFLOW_ENABLE_OTEL_GENAI_SEMCONV`).

The session of a trace is not exported; LangGraph's thread id is, inside `metadata`.
"""

from __future__ import annotations

from otel_agentic.dialects.base import RecordedDialect, Table
from otel_agentic.dialects.values import session_keys


class MLflow(RecordedDialect):
    """Spans of MLflow's tracing and autologging."""

    name = "mlflow"
    table = Table(
        scopes=("mlflow.",),
        marks=("mlflow.spanType",),
        kind=("mlflow.spanType~", "gen_ai.operation.name"),
        kinds={
            "AGENT": "agent",
            "CHAIN": "maybe_agent",
            "WORKFLOW": "maybe_agent",
            "TASK": "maybe_agent",
            "UNKNOWN": "maybe_agent",
            "CHAT_MODEL": "model",
            "LLM": "model",
            "TOOL": "tool",
            "invoke_agent": "agent",
            "chat": "model",
            "generate_content": "model",
            "text_completion": "model",
            "execute_tool": "tool",
        },
        conversation_id=(
            "gen_ai.conversation.id",
            "session.id",
            "mlflow.trace.session~",
            *session_keys("metadata~."),
        ),
        agent_name=("gen_ai.agent.name", "metadata~.lc_agent_name"),
        model=("mlflow.llm.model~", "gen_ai.response.model", "gen_ai.request.model"),
        response_id=("gen_ai.response.id", "mlflow.spanOutputs~.id"),
        finish_reason=("gen_ai.response.finish_reasons", "mlflow.spanOutputs~.choices.0.finish_reason"),
        messages_in=("gen_ai.input.messages",),
        messages_out=("gen_ai.output.messages",),
        input=("mlflow.spanInputs",),
        output=("mlflow.spanOutputs",),
        tool_name=("gen_ai.tool.name",),
        call_id=("gen_ai.tool.call.id", "tool_call_id~"),
        arguments=("gen_ai.tool.call.arguments",),
        result=("gen_ai.tool.call.result",),
        input_tokens=("gen_ai.usage.input_tokens",),
        output_tokens=("gen_ai.usage.output_tokens",),
        usage=("mlflow.chat.tokenUsage~", "mlflow.spanOutputs~.usage"),
        definitions=("gen_ai.tool.definitions", "mlflow.chat.tools"),
    )
