"""Judges by name, as an object, or as a chat model."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, cast

from otel_agentic import plugins
from otel_agentic.config import JudgeSettings
from otel_agentic.errors import UsageError
from otel_agentic.judges.langchain_judge import LangChainJudge
from otel_agentic.judges.provider import MISSING

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from otel_agentic.judges.base import Judge


def judge_named(name: str, settings: JudgeSettings) -> Judge:
    """Return the judge for `--judge NAME` or `--judge NAME:ARGUMENT`.

    Raises:
        PluginError: the judge is unknown, or does not load.
        UsageError: the judge does not accept the argument.
    """
    plugin, colon, argument = name.partition(":")
    judge: Judge = plugins.get("judges", plugin).load().from_settings(settings, argument if colon else None)
    return judge


def require_packages(name: str) -> None:
    """Check that the package that `--judge langchain:…` needs is installed, without loading it.

    Raises:
        UsageError: it is missing; the message names the command that installs it.
    """
    if name.partition(":")[0] == LangChainJudge.name and find_spec("langchain") is None:
        raise UsageError(MISSING.format(judge=f"judge {name}"))


def as_judge(judge: Judge | BaseChatModel | str, settings: JudgeSettings | None = None) -> Judge:
    """Return a judge from any of its forms.

    Args:
        judge: a judge; a name as in `--judge`; or a chat model of LangChain.
        settings: limits and timeouts of a judge created here; None uses the defaults.

    Raises:
        PluginError: the judge is unknown, or does not load.
        UsageError: the argument has another form; the message lists the allowed ones.
    """
    if isinstance(judge, str):
        return judge_named(judge, settings or JudgeSettings())
    if _is_chat_model(judge):
        return LangChainJudge(cast("BaseChatModel", judge), settings)
    missing = [name for name in ("name", "version", "judge") if not hasattr(judge, name)]
    if isinstance(judge, type) or missing:
        actual = repr(judge) if isinstance(judge, type) else f"a {type(judge).__name__} without {', '.join(missing)}"
        raise UsageError(
            f"judge: {actual}; allowed: a name such as 'exact' or 'langchain:openai:gpt-5-mini', a chat model of LangChain, "
            "an object with name, version and judge(questions); otel_agentic.evaluate also takes a function of a Question"
        )
    return cast("Judge", judge)


def _is_chat_model(judge: object) -> bool:
    """Return whether an object is a chat model, without loading LangChain: no chat model exists before it is loaded."""
    models = sys.modules.get("langchain_core.language_models.chat_models")
    return models is not None and isinstance(judge, models.BaseChatModel)
