"""Score conversations in Python, without a collector and without a store, as in a notebook.

    python evaluate_in_python.py

See docs/python.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sample_spans import CASES, requests

from otel_agentic import Case, evaluate

if TYPE_CHECKING:
    from otel_agentic.judges import Question

#: Conversations may be spans (OTLP as JSON, or finished spans of the OpenTelemetry SDK), files, or plain records.
RECORDS: list[dict[str, Any]] = [
    {
        "conversation_id": "refund-1",
        "agent_name": "desk",
        "turns": [
            {
                "query": "Please cancel order 17.",
                "answer": "Order 17 is cancelled, you will get back $42.50.",
                "tools": [{"name": "cancel_order", "arguments": {"order_id": 17}, "result": {"refund": 42.5}}],
            }
        ],
    },
    {
        "conversation_id": "refund-2",
        "agent_name": "desk",
        "turns": [
            {
                "query": "Please cancel order 17.",
                "answer": "Order 17 is cancelled, you will get back $24.50.",
                "tools": [{"name": "cancel_order", "arguments": {"order_id": "17"}, "result": {"refund": 42.5}}],
            }
        ],
    },
]
REFUND = {
    "case_id": "refund",
    "turns": [
        {
            "query": "Please cancel order 17.",
            "answer": "The order is cancelled, $42.50 are refunded.",
            "tools": {"calls": [{"tool_name": "cancel_order", "parameters": {"order_id": 17}}]},
        }
    ],
}


def from_spans() -> None:
    """Score the spans of an agent: eight attempts at one case."""
    evaluation = evaluate(requests(), Case.model_validate_json(CASES), k=[1, 3])
    print(evaluation)
    always = evaluation.pass_pow_k[3]
    print(f"right three times in a row: {always.value:.3f}, 95 % in [{always.lower:.3f}, {always.upper:.3f}]")


def from_records() -> None:
    """Score records, read the tables of results, and use a custom judge."""
    evaluation = evaluate(RECORDS, REFUND, criteria=("annotated",))
    for row in evaluation.table("turns"):
        print(f"{row['conversation_id']}: {row['outcome']}, answer score {row['answer_score']:.2f}")
    for fault in evaluation.failing_tools():
        print(f"fault: {fault.tool}, {fault.parameter}: expected {fault.expected!r}, actual {fault.actual!r}")

    def says_the_refund(question: Question) -> bool:
        return "$42.50" in question.answer

    print(f"my own judge: {evaluate(RECORDS, REFUND, judge=says_the_refund).outcomes}")


if __name__ == "__main__":
    from_spans()
    from_records()
