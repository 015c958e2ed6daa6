"""The frameworks whose spans are read: how to enable content capture, where values are, and the limits."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from typing import Any

__all__ = ["Framework", "content_variables", "framework_of", "frameworks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """One framework, or one instrumentation library for it; its fields are explained in `frameworks.toml`."""

    name: str
    title: str
    scopes: tuple[str, ...]
    dialect: str
    content: str
    conversation_id: str
    plans: str
    where: tuple[tuple[str, str], ...] = ()
    limits: tuple[str, ...] = ()


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads(resources.files("otel_agentic.dialects").joinpath("frameworks.toml").read_text("utf-8"))


def content_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return environment variables under which the frameworks record content, as far as a variable decides that.

    >>> content_variables({"HOME": "/root", "OTEL_SDK_DISABLED": "true"})["TRACELOOP_TRACE_CONTENT"]
    'true'
    """
    run = _data()["run"]
    remaining = {name: value for name, value in environment.items() if name not in run["unset"]}
    added = {
        name: ",".join(dict.fromkeys([*filter(None, remaining.get(name, "").split(",")), word]))
        for name, word in run["add"].items()
    }
    return {**remaining, **run["set"], **added}


@cache
def frameworks() -> tuple[Framework, ...]:
    """Return every framework that has a page, in the order of the index; the last one is for unknown frameworks."""
    data = _data()

    def text(value: str) -> str:
        for name, phrase in data["phrases"].items():
            value = value.replace(f"${name}", phrase)
        return value

    return tuple(
        Framework(
            name=entry["name"],
            title=entry["title"],
            scopes=tuple(entry["scopes"]),
            dialect=entry["dialect"],
            content=text(entry["content"]),
            conversation_id=text(entry["conversation_id"]),
            plans=text(entry["plans"]),
            where=tuple((meaning, location) for meaning, location in entry.get("where", ())),
            limits=tuple(map(text, entry.get("limits", ()))),
        )
        for entry in data["framework"]
    )


def framework_of(scope: str | None, dialect: str | None) -> Framework:
    """Return the framework that writes under an instrumentation scope, as far as scope and dialect determine it.

    Two frameworks may share a scope (openai-agents of OpenTelemetry and of OpenLLMetry): then the dialect that read the
    span decides. For an unknown scope, the result is the entry for all other spans of the dialect.

    >>> framework_of("pydantic-ai", "pydantic-ai").name, framework_of("shop", "openinference").name, framework_of("x", None).name
    ('pydantic-ai', 'openinference', 'unknown')
    """
    by_scope = [entry for entry in frameworks() if any(fnmatchcase(scope or "", glob) for glob in entry.scopes)]
    by_dialect = [entry for entry in frameworks() if entry.dialect == dialect]
    others = [entry for entry in by_dialect if not entry.scopes] or by_dialect
    both = [entry for entry in by_scope if entry in by_dialect]
    return next(iter((*both, *by_scope, *others)), frameworks()[-1])
