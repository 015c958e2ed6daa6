"""Every command on a store, by name: run in this process, or sent to the collector that holds the file.

Arguments and results are what JSON can say, for they cross the admin address.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import ConfigDict, ValidationError, validate_call

from otel_agentic.errors import UsageError
from otel_agentic.pipeline.commands.backfill import BackfillCommands
from otel_agentic.pipeline.commands.conversations import ConversationCommands
from otel_agentic.pipeline.commands.evaluation import EvaluationCommands
from otel_agentic.pipeline.commands.failures import FailureCommands
from otel_agentic.pipeline.commands.gating import GateCommands
from otel_agentic.pipeline.commands.judges import JudgeCommands
from otel_agentic.pipeline.commands.keeping import KeepingCommands
from otel_agentic.pipeline.commands.matches import MatchCommands
from otel_agentic.pipeline.commands.pictures import PictureCommands
from otel_agentic.pipeline.commands.store import StoreCommands
from otel_agentic.pipeline.commands.suites import SuiteCommands
from otel_agentic.pipeline.commands.tools import ToolCommands
from otel_agentic.pipeline.commands.truth import TruthCommands
from otel_agentic.pipeline.wire import plain

__all__ = ["NAMES", "READING", "Commands", "call", "plain"]


class Commands(
    EvaluationCommands,
    PictureCommands,
    BackfillCommands,
    JudgeCommands,
    GateCommands,
    SuiteCommands,
    ToolCommands,
    FailureCommands,
    ConversationCommands,
    TruthCommands,
    MatchCommands,
    KeepingCommands,
    StoreCommands,
):
    """The commands on one engine. Each public method is one command of the wire."""


#: Commands that may be called by name, and whether they yield a stream.
NAMES: Final[Mapping[str, bool]] = {
    "evaluate": False,
    "backfill": True,
    "report": False,
    "report_pictures": False,
    "gate": False,
    "gate_save_baseline": False,
    "suites": False,
    "suite_trend": False,
    "judge_calibrate": False,
    "judge_cache": False,
    "judge_clear": False,
    "tools_failing": False,
    "failures": False,
    "failures_merged": False,
    "query": False,
    "conversations_list": False,
    "conversations_show": False,
    "conversations_export": True,
    "truth_import": False,
    "truth_list": False,
    "truth_datasets": False,
    "truth_export": False,
    "truth_matches": False,
    "truth_clusters": False,
    "truth_promote": False,
    "store_summary": False,
    "store_stats": False,
    "store_vacuum": False,
    "store_export": True,
    "store_backup": True,
    "store_import_begin": False,
    "store_import_piece": False,
    "store_import_table": False,
    "store_import_end": False,
    "live": False,
}


#: Those that only read. A token of the role query may call them, and no other.
READING: Final = frozenset(
    {
        "report",
        "report_pictures",
        "gate",
        "suites",
        "suite_trend",
        "judge_cache",
        "tools_failing",
        "failures",
        "query",
        "conversations_list",
        "conversations_show",
        "conversations_export",
        "truth_list",
        "truth_datasets",
        "truth_export",
        "truth_matches",
        "truth_clusters",
        "store_summary",
        "store_stats",
        "live",
    }
)


def call(commands: Commands, name: str, arguments: Mapping[str, Any]) -> Any:
    """Run a command by name with arguments from a stranger.

    Raises:
        UsageError: there is no such command, or an argument is missing, unknown or of the wrong type; names it.
    """
    if name not in NAMES:
        raise UsageError(f"no command {name!r}; there are {', '.join(NAMES)}")
    checked = validate_call(config=ConfigDict(arbitrary_types_allowed=True))(getattr(commands, name))
    try:
        return checked(**arguments)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"command {name}, argument {where}: {first['msg']}, got {first.get('input')!r}") from error
