"""Commands that tell what pictures are drawn from."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from otel_agentic.pipeline.commands.base import EngineCommands, Json
from otel_agentic.pipeline.pictures import PictureQuestion, pictures
from otel_agentic.pipeline.report import IntervalKind
from otel_agentic.pipeline.wire import plain
from otel_agentic.store.evaluations import DEFAULT
from otel_agentic.store.selection import Selection
from otel_agentic.windows import GroupBy


class PictureCommands(EngineCommands):
    """Tell what the pictures of a report show; who asks draws them."""

    def report_pictures(
        self,
        *,
        k: list[int] | None = None,
        by: list[GroupBy] | None = None,
        window: str | None = None,
        since_ns: int | None = None,
        until_ns: int | None = None,
        agent: str | None = None,
        estimator: str | None = None,
        interval: IntervalKind = "default",
        compare: str | None = None,
        panels: Annotated[int, Field(ge=1, le=100)] = 12,
        evaluation: str = DEFAULT,
    ) -> dict[str, Json]:
        """Return curves over k, stored windows over time and the health of tools, of at most so many groups."""
        question = PictureQuestion(
            k=k,
            by=by or (),
            window=window,
            selection=Selection(since_ns=since_ns, until_ns=until_ns, agent=agent),
            estimator=estimator,
            interval=interval,
            compare=compare,
            panels=panels,
        )
        found: dict[str, Json] = plain(pictures(self._showing(evaluation), question))
        return found
