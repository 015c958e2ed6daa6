"""Flags that say how to score: they count where this process scores, not where a running collector does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_agentic.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_agentic.commands import Client

JUDGE_HELP: Final = "Answer judge, by plug-in name; after a colon what it takes, as in langchain:openai:gpt-5-mini."


#: The settings of flags that are not settings of scoring.
_SETTINGS: Final = {"match-text": "matching.text"}


def require_own_file(client: Client, command: str, scoring: Mapping[str, Any]) -> None:
    """Refuse flags that would be ignored: a collector scores under one evaluator version, its own.

    Raises:
        UsageError: a flag is given and the command runs in a collector.
    """
    from otel_agentic.commands import RemoteClient  # noqa: PLC0415 — not needed for --help

    if not scoring or not isinstance(client, RemoteClient):
        return
    flags = " ".join(_flag(name, value) for name, value in scoring.items())
    names = ", ".join(_SETTINGS.get(name, f"scoring.{name}") for name in scoring if name != "judge")
    do = [f"start it with `otel-agentic serve --judge {scoring['judge']}`"] if "judge" in scoring else []
    do += [f"set {names} in its settings and start it again"] if names else []
    raise UsageError(
        f"{command} {flags}: a running collector holds this file and scores as it was started; {', and '.join(do)}"
    )


def _flag(name: str, value: Any) -> str:
    return f"--{name} {value}"
