"""Case formats: files of other tools become cases, and cases become files of other tools.

The formats of other tools are loaded when a name is first used: reading native JSON lines does not need them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otel_agentic.truth.formats.base import Document, Format, Loss, native_lines
    from otel_agentic.truth.formats.files import (
        FORMATS,
        Written,
        WrittenRows,
        read_document,
        read_rows,
        write_document,
        write_rows,
    )

__all__ = [
    "FORMATS",
    "Document",
    "Format",
    "Loss",
    "Written",
    "WrittenRows",
    "native_lines",
    "read_document",
    "read_rows",
    "write_document",
    "write_rows",
]

_MODULES = {
    **dict.fromkeys(("Document", "Format", "Loss", "native_lines"), "otel_agentic.truth.formats.base"),
    **dict.fromkeys(("FORMATS", "read_document", "read_rows"), "otel_agentic.truth.formats.files"),
    **dict.fromkeys(("Written", "WrittenRows", "write_document", "write_rows"), "otel_agentic.truth.formats.files"),
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
