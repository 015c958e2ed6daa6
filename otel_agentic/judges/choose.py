"""A judge by name, as an object, or as a chat model."""

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
    """Return the judge that `--judge NAME` or `--judge NAME:ARGUMENT` means.

    Raises:
        PluginError: there is no judge of that name, or it does not load.
        UsageError: the judge does not take the argument.
    """
    plugin, colon, argument = name.partition(":")
    judge: Judge = plugins.get("judges", plugin).load().from_settings(settings, argument if colon else None)
    return judge


def require_packages(name: str) -> None:
    """Look whether the package that `--judge langchain:…` needs is installed, without loading it.

    Raises:
        UsageError: it is not; says how to install it.
    """
    if name.partition(":")[0] == LangChainJudge.name and find_spec("langchain") is None:
        raise UsageError(MISSING.format(judge=f"judge {name}"))


def as_judge(judge: Judge | BaseChatModel | str, settings: JudgeSettings | None = None) -> Judge:
    """Return a judge, whatever it is given as.

    Args:
        judge: a judge; a name as in `--judge`; or a chat model of LangChain.
        settings: limits and manners, for judges made here; None takes the defaults.

    Raises:
        PluginError: there is no judge of that name, or it does not load.
        UsageError: it is none of these; says which are allowed.
    """
    if isinstance(judge, str):
        return judge_named(judge, settings or JudgeSettings())
    if _is_chat_model(judge):
        return LangChainJudge(cast("BaseChatModel", judge), settings)
    missing = [name for name in ("name", "version", "judge") if not hasattr(judge, name)]
    if isinstance(judge, type) or missing:
        told = repr(judge) if isinstance(judge, type) else f"a {type(judge).__name__} without {', '.join(missing)}"
        raise UsageError(
            f"judge: {told}; allowed: a name such as 'exact' or 'langchain:openai:gpt-5-mini', a chat model of LangChain, "
            "an object with name, version and judge(questions); otel_agentic.evaluate also takes a function of a Question"
        )
    return cast("Judge", judge)


def _is_chat_model(judge: object) -> bool:
    """Return whether it is a chat model, without loading LangChain: there is none where it was not loaded."""
    models = sys.modules.get("langchain_core.language_models.chat_models")
    return models is not None and isinstance(judge, models.BaseChatModel)
