"""Commands about suites: which there are, and how one does over time."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Annotated

from pydantic import Field

from otel_agentic.pipeline.commands.base import EngineCommands, Json
from otel_agentic.pipeline.export import iso
from otel_agentic.pipeline.suite_trend import Point, TrendBy, trend
from otel_agentic.pipeline.suites import require_suite
from otel_agentic.pipeline.wire import plain
from otel_agentic.store.evaluations import DEFAULT
from otel_agentic.store.selection import Selection
from otel_agentic.store.truth import load_cases
from otel_agentic.store.windows import scored_conversations


class SuiteCommands(EngineCommands):
    """Ask about suites: cases that bear the same tag."""

    def suites(
        self,
        *,
        since_ns: int | None = None,
        until_ns: int | None = None,
        agent: str | None = None,
        evaluation: str = DEFAULT,
    ) -> list[Json]:
        """Return each tag in force: its cases, its drafts, its conversations, and how many of them are correct."""
        with self._showing(evaluation).store.read() as con:
            cases = load_cases(con)
            scored = scored_conversations(con, Selection(since_ns=since_ns, until_ns=until_ns, agent=agent))
        tags = sorted({tag for case in cases for tag in case.tags})
        conversations = Counter(tag for one in scored for tag in set(one.tags))
        evaluated = Counter(tag for one in scored if one.outcome != "not_evaluated" for tag in set(one.tags))
        correct = Counter(tag for one in scored if one.outcome == "pass" for tag in set(one.tags))
        return [
            {
                "evaluation": evaluation,
                "suite": tag,
                "cases": sum(tag in case.tags for case in cases),
                "drafts": sum(tag in case.tags and not case.reviewed for case in cases),
                "conversations": conversations[tag],
                "n": evaluated[tag],
                "c": correct[tag],
            }
            for tag in tags
        ]

    def suite_trend(
        self,
        *,
        suite: Annotated[str, Field(min_length=1)],
        by: TrendBy = "version",
        since_ns: int | None = None,
        until_ns: int | None = None,
        agent: str | None = None,
        evaluation: str = DEFAULT,
    ) -> dict[str, Json]:
        """Return how the conversations of a suite did, point by point.

        Raises:
            BadInputError: no case in force bears the tag.
        """
        level = self._engine.settings.stats.level
        with self._showing(evaluation).store.read() as con:
            cases = require_suite(con, suite)
            scored = scored_conversations(con, Selection(since_ns=since_ns, until_ns=until_ns, agent=agent))
        points = trend((one for one in scored if suite in one.tags), by, level)
        return {
            "evaluation": evaluation,
            "suite": suite,
            "by": by,
            "level": level,
            "cases": len(cases),
            "drafts": sum(not case.reviewed for case in cases),
            "points": [plain(_point_json(point)) for point in points],
        }


def _point_json(point: Point) -> dict[str, Json]:
    told = asdict(point)
    told["from"], told["until"] = iso(told.pop("first_ns")), iso(told.pop("last_ns"))
    for made, flip in zip(told["flips"], point.flips, strict=True):
        made["change"] = "broke" if flip.broke else "fixed"
    return told
