"""Names of models, compared: a judge that is the model it judges is told so."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

#: What stands behind the name: a date, a snapshot, a revision of the provider.
_SNAPSHOT: Final = re.compile(r"(?:[-@:](?:\d{4}-\d{2}-\d{2}|\d{8}|\d{6}|latest|v\d+(?::\d+)?))+$")
#: What stands before it: a path or a gateway's provider, or a vendor as some clouds write it.
_PROVIDER: Final = re.compile(r"^.*/|^(?:[a-z]{2}\.)?[a-z]+\.(?=[a-z])")


def base_model(name: str) -> str:
    """Return the name of a model without provider and snapshot, in lower case.

    >>> [base_model(name) for name in ("openai/GPT-5-mini-2025-08-07", "us.anthropic.claude-sonnet-4-20250514-v1:0")]
    ['gpt-5-mini', 'claude-sonnet-4']
    >>> base_model("gemini-2.5-pro")
    'gemini-2.5-pro'
    """
    return _SNAPSHOT.sub("", _PROVIDER.sub("", name.strip().lower()))


def same_models(judge: Iterable[str], agent: Iterable[str]) -> list[str]:
    """Return the models of an agent that judge it, too, sorted, as the agent's spans name them.

    >>> same_models(["gpt-5-mini"], ["gpt-5", "openai/gpt-5-mini"])
    ['openai/gpt-5-mini']
    """
    judging = {base_model(name) for name in judge}
    return sorted({name for name in agent if base_model(name) in judging})
