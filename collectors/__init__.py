"""Collectors of spans: OTLP over HTTP and gRPC, files, and spans of the same process.

Each is imported on first use, so that reading files does not import gRPC.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collectors.files import FileChunk, FileReader
    from collectors.in_process import AgenticSpanProcessor
    from collectors.otlp_grpc import OtlpGrpcCollector
    from collectors.otlp_http import OtlpHttpCollector

__all__ = ["AgenticSpanProcessor", "FileChunk", "FileReader", "OtlpGrpcCollector", "OtlpHttpCollector"]

_MODULES: Final = {
    "AgenticSpanProcessor": "collectors.in_process",
    "FileChunk": "collectors.files",
    "FileReader": "collectors.files",
    "OtlpGrpcCollector": "collectors.otlp_grpc",
    "OtlpHttpCollector": "collectors.otlp_http",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it offers {', '.join(__all__)}")
    return getattr(import_module(_MODULES[name]), name)
