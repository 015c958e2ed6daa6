"""What every command works with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from otel_agentic.pipeline.evaluate import OnScored
from otel_agentic.store.evaluations import require_evaluation

Json = Any
Step = Callable[[str, int, int | None], None]

if TYPE_CHECKING:
    from otel_agentic.pipeline.engine import Engine


class EngineCommands:
    """Commands bound to one engine."""

    def __init__(self, engine: Engine, progress: Step = lambda *_: None, *, scored: OnScored = lambda *_: None) -> None:
        """Bind the commands.

        Args:
            engine: the opened store.
            progress: told how far a long command is.
            scored: told what an evaluation scored (the live collector emits it).
        """
        self._engine = engine
        self._progress = progress
        self._on_scored = scored
        #: Whether nobody waits for the result any more.
        self.gone: Callable[[], bool] = lambda: False

    def _showing(self, evaluation: str) -> Engine:
        """Return the engine with a store whose queries show an evaluation.

        Raises:
            UsageError: the store has no evaluation of that name.
        """
        with self._engine.store.read() as con:
            require_evaluation(con, evaluation)
        return self._engine.showing(evaluation)
