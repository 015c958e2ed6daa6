"""Print the calls and tokens that all judged metrics of tau-airline need, with and without panels.

A token is four characters sent (messages and schema) or received. The model is scripted: its replies have the
requested form and no meaning, so the check of the judge before a run is off. The run without cases represents traffic without annotations. The forecast is the one that `evaluate`
makes before a run, as a ratio to what the run used.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableLambda
from pydantic import Field

from otel_agentic.commands import Commands
from otel_agentic.commands.ingest import ingest_files
from otel_agentic.config import Settings
from otel_agentic.engine.engine import Engine
from otel_agentic.judges import LangChainJudge
from tests.shared import SHARED

TAU: Final = SHARED / "data" / "tau-airline"
SPANS: Final = "variant-openinference.jsonl.gz"
CHARACTERS_A_TOKEN: Final = 4
REASONING: Final = "The agent looked up the reservation and states its dates and price as the result shows them. " * 2


class Scripted(BaseChatModel):
    """A model with structured output that fills every schema, and counts calls and characters."""

    counts: Counter[str] = Field(default_factory=Counter)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(""))])

    def with_structured_output(self, schema: Any, *, include_raw: bool = False, **_: Any) -> Runnable[Any, Any]:
        del include_raw

        def reply(prompt: Any) -> dict[str, Any]:
            messages: list[BaseMessage] = self._convert_input(prompt).to_messages()
            texts = [str(message.content) for message in messages]
            sent, text = sum(map(len, texts)) + len(json.dumps(schema)), json.dumps(filled(schema, texts[-1]))
            self.counts += Counter(calls=1, sent=sent, received=len(text))
            usage = {"input_tokens": sent // CHARACTERS_A_TOKEN, "output_tokens": len(text) // CHARACTERS_A_TOKEN}
            message = AIMessage(text, usage_metadata={**usage, "total_tokens": sum(usage.values())})
            return {"raw": message, "parsed": None, "parsing_error": None}

        return RunnableLambda(reply)


def filled(schema: Mapping[str, Any], seed: str) -> Any:
    """Return a value of a schema; labels and numbers depend on the seed."""
    share = hashlib.blake2b(f"{seed}{schema}".encode(), digest_size=2).digest()[0] / 256
    if schema["type"] == "object":
        return {name: filled(part, seed) for name, part in schema["properties"].items()}
    if schema["type"] == "array":
        return ["The reservation is changed to the flight that the user named, and the agent stated the price."]
    if schema["type"] == "number":
        low, high = schema.get("minimum", 0), schema.get("maximum", 1)
        return round(low + share * (high - low), 1)
    labels = schema.get("enum")
    return labels[int(share * len(labels))] if labels else REASONING


def main() -> None:
    """Judge the same conversations with and without panels, and print what each turn needed."""
    for has_cases in (True, False):
        print("with cases" if has_cases else "without cases")
        with TemporaryDirectory() as folder:
            single, panel = (run_metrics(Path(folder) / f"{panel}.duckdb", panel, has_cases) for panel in (False, True))
        print(f"  ratio {panel / single:.2f}")


def run_metrics(db: Path, panel: bool, has_cases: bool) -> float:  # noqa: FBT001 — a benchmark
    """Run all judged metrics on a new store, print the expense, and return the tokens of one turn."""
    settings = Settings.model_validate({"store": {"db": db}, "judge": {"panel": panel, "sanity_check": False}})
    model = Scripted()
    with Engine(settings, create=True) as engine:
        ingest_files(engine, [str(TAU / SPANS)], lambda *_: None)
        engine.runner.judge = LangChainJudge(model, settings.judge)
        names = [metric.name for evaluator in engine.runner.installed for metric in evaluator.metrics]
        cases = [("cases.jsonl", (TAU / "cases.jsonl").read_text("utf-8"))] if has_cases else []
        expected = Commands(engine).evaluate_forecast(cases=cases, metrics=names)
        Commands(engine).evaluate(cases=cases, metrics=names)
        with engine.store.read() as con:
            ((turns,),) = con.execute("SELECT count(*) FROM turns").fetchall()
    counts = model.counts
    tokens = (counts["sent"] + counts["received"]) / CHARACTERS_A_TOKEN
    print(
        f"  panel {'on ' if panel else 'off'}  {turns} turns  {counts['calls']:5,} calls  {tokens:9,.0f} tokens "
        f"({counts['received'] / CHARACTERS_A_TOKEN:,.0f} received)  {counts['calls'] / turns:.1f} calls and "
        f"{tokens / turns:6,.0f} tokens a turn  forecast {expected['calls'] / counts['calls']:.2f} of the calls, "
        f"{expected['tokens'] / tokens:.2f} of the tokens"
    )
    return float(tokens / turns)


if __name__ == "__main__":
    main()
