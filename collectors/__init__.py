"""Collectors of spans: OTLP over HTTP and gRPC, files, and spans of the same process.

Each is imported on first use, so that reading files does not import gRPC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from collectors.files import FileChunk as FileChunk
    from collectors.files import FileReader as FileReader
    from collectors.in_process import AgenticSpanProcessor as AgenticSpanProcessor
    from collectors.otlp_grpc import OtlpGrpcCollector as OtlpGrpcCollector
    from collectors.otlp_http import OtlpHttpCollector as OtlpHttpCollector

__all__, __getattr__ = lazy_imports(
    __name__,
    {
        "files": "FileChunk FileReader",
        "in_process": "AgenticSpanProcessor",
        "otlp_grpc": "OtlpGrpcCollector",
        "otlp_http": "OtlpHttpCollector",
    },
)
