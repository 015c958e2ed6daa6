"""Runs a JavaScript driver of this folder with the story, its tools and a place to export to."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

from tools.capture_generators.model_server import ModelServer
from tools.capture_generators.openai_loop import tool_schema
from tools.capture_generators.record import recording
from tools.capture_generators.script import MODEL
from tools.capture_generators.story import (
    AGENT,
    INSTRUCTIONS,
    REFUND_INSTRUCTIONS,
    REFUND_TOOLS,
    REFUNDS,
    STORY,
    TOOLS,
    delegation,
    expected,
)

_HERE: Final = Path(__file__).parent / "js"
_SECONDS: Final = 120


def _workplace(project: str) -> Path:
    """Return a folder with the drivers and the packages of `js/<project>`, installed where they are not yet.

    `GOLDEN_NODE` names the folder of such folders. It must lie outside of this project: Node looks for packages in the
    folder of the driver.
    """
    root = Path(os.environ.get("GOLDEN_NODE") or tempfile.gettempdir()) / project
    root.mkdir(parents=True, exist_ok=True)
    for file in (*_HERE.glob("*.mjs"), _HERE / project / "package.json"):
        shutil.copy(file, root)
    if not (root / "node_modules").exists():
        # Both programs are the developer's own.
        install = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund"]
        subprocess.run(install, cwd=root, check=True)
    return root


def record_node(name: str, *, project: str, driver: str, variant: dict[str, Any], **notes: Any) -> None:
    """Record `captures/<name>` from `js/<driver>.mjs` run with the packages of `js/<project>`.

    `notes` are written to expected.json. `NODE` names the program where `node` is too old.

    Raises:
        subprocess.CalledProcessError: the driver failed; its output is printed above.
        ValueError: the receiver took an empty request.
    """
    folder = _workplace(project)
    conversations = (*STORY, delegation()) if variant.get("delegates") else STORY
    with recording(name, service="travel-desk") as capture, ModelServer(conversations) as model:
        desk = {
            "agent": AGENT,
            "instructions": INSTRUCTIONS,
            "model": MODEL,
            "refundInstructions": REFUND_INSTRUCTIONS,
            "refundTools": [tool_schema(tool) for tool in REFUND_TOOLS],
            "refunds": REFUNDS,
            "service": capture.service,
            "tools": [tool_schema(tool) for tool in TOOLS],
            "variant": variant,
        }
        addresses = {"MODEL_ROOT": model.root, "OPENAI_BASE_URL": model.url, "GOLDEN_DESK": json.dumps(desk)}
        environment = {**os.environ, **capture.environment, **addresses}
        program = [os.environ.get("NODE", "node"), f"{driver}.mjs"]
        subprocess.run(program, cwd=folder, env=environment, check=True, timeout=_SECONDS)
        capture.requests["traces"][:] = [_placeless(request, folder) for request in capture.requests["traces"]]
        capture.truth = expected(conversations, framework=name, **notes)


def _placeless(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the request with `/app` for the driver's folder, which occurs in stack traces."""
    # Node's exporters send their requests in chunks, which a receiver may take for an empty body.
    if not request.get("resourceSpans"):
        raise ValueError("a request without spans came: does the receiver read chunked bodies?")
    text = json.dumps(request)
    for path in (folder.resolve(), folder):
        text = text.replace(str(path), "/app")
    placeless: dict[str, Any] = json.loads(text)
    return placeless
