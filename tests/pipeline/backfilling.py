"""What tests of backfills share: conversations spread over days, and runs of the command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_agentic.commands import Commands
from otel_agentic.evaluation.truth import TruthFile
from otel_agentic.testing import NOON_NS, SECOND_NS, speak_genai
from tests.pipeline.parts import CASE, ask_hotel, feed, rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.engine.engine import Engine
    from otel_agentic.spans.model import SpanBatch

HOUR_NS = 3_600 * SECOND_NS
DAY_NS = 24 * HOUR_NS
#: Long after everything that is told here.
LATER_NS = NOON_NS + 100 * DAY_NS
CASES = [("cases.jsonl", CASE)]
#: Windows of a day, an end an hour.
HOURLY: dict[str, Any] = {"windows": ["6h", "24h"], "step_ns": HOUR_NS, "k": [1, 3]}


def told(number: int, *, name: str | None = None, right: bool | None = None) -> SpanBatch:
    """Return a conversation that began so many times five hours after noon; every third is wrong unless it is said."""
    right = number % 3 > 0 if right is None else right
    script = ask_hotel(name or f"c-{number}")
    return speak_genai(script if right else script.answers("The Savoy."), start_ns=NOON_NS + number * 5 * HOUR_NS)


def fill(engine: Engine, count: int = 12) -> None:
    """Store and rebuild conversations over some days, and remember their case."""
    feed(engine, *[told(number) for number in range(count)])
    engine.evaluating.remember([TruthFile(name=name, text=text) for name, text in CASES], [])


def events(engine: Engine, **arguments: Any) -> list[dict[str, Any]]:
    """Return everything that a backfill tells."""
    return list(Commands(engine).backfill(**{**HOURLY, **arguments}))


def run(engine: Engine, **arguments: Any) -> dict[str, Any]:
    """Return what a backfill did."""
    result: dict[str, Any] = events(engine, **arguments)[-1]["result"]
    return result


def window_rows(engine: Engine, *without: str) -> list[tuple[Any, ...]]:
    """Return the rows of the table windows, sorted, without some columns."""
    left = f"EXCLUDE ({', '.join(without)})" if without else ""
    return rows(engine, f'SELECT * {left} FROM windows ORDER BY "end", "window", agent, tag, k, estimator')  # noqa: S608 — names of the test


def said(engine: Engine) -> list[tuple[Any, ...]]:
    """Return what the rows say: all but revision and time of computation."""
    return window_rows(engine, "revision", "computed_at")


def ends_of(found: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Return the distinct ends of rows of `window_rows`."""
    return sorted({row[6] for row in found})
