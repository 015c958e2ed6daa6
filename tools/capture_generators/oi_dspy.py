# mypy: ignore-errors
# The framework is not installed where the types are checked.
# needs: dspy==3.4.1 litellm==1.106.2 openinference-instrumentation-dspy==0.1.48
# needs: opentelemetry-sdk==1.45.2 opentelemetry-exporter-otlp-proto-http==1.45.2
"""DSPy under OpenInference: a ReAct program in a session, and one without that is given the history."""

from __future__ import annotations

import dspy

from tools.capture_generators.oi_play import KEY, Plan, in_session, instrumented, record
from tools.capture_generators.story import INSTRUCTIONS, TOOLS


def main() -> None:
    """Record the captures."""
    program = instrumented("openinference.instrumentation.dspy:DSPyInstrumentor")
    how = {"answer_tool": "submit", "count": True}
    record(Plan("openinference-dspy-session", program, in_session(_react), **how), framework="dspy")
    record(Plan("openinference-dspy-bare", program, _react, **how), framework="dspy", id_in_telemetry=False)


class _Model(dspy.LM):
    """The scripted model, which no table of capabilities knows."""

    supports_function_calling = True


def _react(url):
    model = _Model("openai/scripted-1", api_base=url, api_key=KEY, cache=False)
    signature = dspy.Signature("question: str -> answer: str", INSTRUCTIONS)
    desk = dspy.ReActV2(signature, tools=list(TOOLS))
    histories = {}

    def say(conversation, query):
        with dspy.context(lm=model, adapter=dspy.ChatAdapter(use_native_function_calling=True)):
            prediction = desk(question=query, history=histories.get(conversation.id))
        histories[conversation.id] = prediction.history
        return prediction.answer

    return say


if __name__ == "__main__":
    main()
