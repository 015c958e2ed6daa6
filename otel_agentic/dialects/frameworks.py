"""The frameworks whose spans are read: what to switch on, what is read from where, what cannot be known."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final

from otel_agentic.dialects.frameworks_genai import GENAI, NATIVE
from otel_agentic.dialects.frameworks_model import Framework
from otel_agentic.dialects.frameworks_openinference import BY_FRAMEWORK, OPENINFERENCE
from otel_agentic.dialects.frameworks_otel import OFFICIAL
from otel_agentic.dialects.frameworks_vendors import UNKNOWN_FRAMEWORK, VENDORS

__all__ = ["FRAMEWORKS", "Framework", "framework_of"]

#: Every framework that has a page, in the order of the index.
FRAMEWORKS: Final = (*NATIVE, *OFFICIAL, GENAI, *BY_FRAMEWORK, OPENINFERENCE, *VENDORS, UNKNOWN_FRAMEWORK)


def framework_of(scope: str | None, dialect: str | None) -> Framework:
    """Return the framework that writes under an instrumentation scope, as far as scope and dialect tell.

    Two may share a scope (openai-agents of OpenTelemetry and of OpenLLMetry): then the dialect that read the span
    decides. A scope that nobody knows gives what stands for the rest of the dialect.

    >>> framework_of("pydantic-ai", "pydantic-ai").name, framework_of("shop", "openinference").name, framework_of("x", None).name
    ('pydantic-ai', 'openinference', 'unknown')
    """
    written = [each for each in FRAMEWORKS if any(fnmatchcase(scope or "", glob) for glob in each.scopes)]
    alike = [each for each in FRAMEWORKS if each.dialect == dialect]
    rest = [each for each in alike if not each.scopes] or alike
    both = [each for each in written if each in alike]
    return next(iter((*both, *written, *rest)), UNKNOWN_FRAMEWORK)
