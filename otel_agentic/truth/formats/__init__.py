"""Case formats: files of other tools become cases, and cases become files of other tools.

The formats of other tools are loaded when a name is first used: reading native JSON lines does not need them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from otel_agentic.truth.formats.base import Document as Document
    from otel_agentic.truth.formats.base import Format as Format
    from otel_agentic.truth.formats.base import Loss as Loss
    from otel_agentic.truth.formats.base import native_lines as native_lines
    from otel_agentic.truth.formats.files import FORMATS as FORMATS
    from otel_agentic.truth.formats.files import Written as Written
    from otel_agentic.truth.formats.files import WrittenRows as WrittenRows
    from otel_agentic.truth.formats.files import read_document as read_document
    from otel_agentic.truth.formats.files import read_rows as read_rows
    from otel_agentic.truth.formats.files import write_document as write_document
    from otel_agentic.truth.formats.files import write_rows as write_rows

__all__, __getattr__ = lazy_imports(
    __name__,
    {
        "base": "Document Format Loss native_lines",
        "files": "FORMATS Written WrittenRows read_document read_rows write_document write_rows",
    },
)
