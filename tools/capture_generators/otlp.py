"""OTLP requests as they were sent -> OTLP/JSON that names no machine."""

from __future__ import annotations

import base64
import json
import os
import re
import site
import sys
from pathlib import Path
from typing import Any, Final

#: Resource attributes that identify a host or a process.
_MACHINE: Final = ("host.", "process.", "os.", "container.", "service.instance.id")
_IDS: Final = frozenset({"traceId", "spanId", "parentSpanId"})


def json_request(signal: str, body: bytes, content_type: str) -> dict[str, Any]:
    """Return an export request, protobuf or JSON, as OTLP/JSON: ids in hex, enumerations as numbers."""
    if "json" in content_type:
        sent: dict[str, Any] = json.loads(body)
        return sent
    # Only here: a process in another language may send JSON, which needs no protobuf.
    from google.protobuf.json_format import MessageToDict  # noqa: PLC0415
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest  # noqa: PLC0415
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest  # noqa: PLC0415

    message = ExportTraceServiceRequest() if signal == "traces" else ExportLogsServiceRequest()
    message.ParseFromString(body)
    read: dict[str, Any] = _with_hex_ids(MessageToDict(message, use_integers_for_enums=True))
    return read


def _with_hex_ids(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: base64.b64decode(item).hex() if key in _IDS and isinstance(item, str) else _with_hex_ids(item)
            for key, item in value.items()
        }
    return [_with_hex_ids(item) for item in value] if isinstance(value, list) else value


def without_machine(request: dict[str, Any]) -> dict[str, Any]:
    """Return the request without attributes that identify the machine; paths are shortened in every text."""
    text = json.dumps(request, ensure_ascii=False)
    for path, short in _paths():
        text = text.replace(path, short)
    text = re.sub(r"/tmp/[\w./-]*?node_modules", "/app/node_modules", text)  # noqa: S108 - recognised, not used
    cleaned: dict[str, Any] = json.loads(text)
    for group in (*cleaned.get("resourceSpans", ()), *cleaned.get("resourceLogs", ())):
        resource = group.get("resource", {})
        attributes = [item for item in resource.get("attributes", ()) if not item["key"].startswith(_MACHINE)]
        if "attributes" in resource:
            resource["attributes"] = attributes
    return cleaned


def _paths() -> list[tuple[str, str]]:
    """Return the folders that identify this machine, longest first, each with its replacement."""
    packages = [(folder, "/site-packages") for folder in (*site.getsitepackages(), site.getusersitepackages())]
    root = [(str(Path(__file__).parents[2]), "/app"), (sys.prefix, "/venv"), (sys.base_prefix, "/python")]
    home = [(os.path.realpath(sys.base_prefix), "/python"), (str(Path.home()), "/home")]
    paths = [(path, short) for path, short in (*packages, *root, *home) if len(path) > 1]
    return sorted(paths, key=lambda item: -len(item[0]))
