"""Captures of known frameworks changed into those of an unknown framework: other scopes, other prefixes, the same shapes."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

#: The scope of the unknown framework, for every capture.
SCOPE: Final = "acme.tracing"
#: By the beginning of a capture's name: which beginnings of attribute names become which.
DISGUISES: Final[Mapping[str, Mapping[str, str]]] = {
    "openinference": {
        "openinference.": "acme.",
        "input.": "acme.input.",
        "output.": "acme.output.",
        "session.": "acme.session.",
        "llm.": "acme.llm.",
        "tool": "acme.tool",
        "agent.": "acme.agent.",
        "metadata": "acme.metadata",
        "gen_ai.": "acme.",
        "gcp.vertex.": "acme.",
        "pydantic_ai.": "acme.",
    },
    "langfuse": {"langfuse.": "acme.", "session.id": "acme.sessionId"},
    "openllmetry": {"traceloop.": "acme.", "gen_ai.": "acme.", "llm.": "acme.", "crewai.": "acme."},
    "vercel": {"ai.": "acme.", "gen_ai.": "acme."},
    "langsmith": {"langsmith.": "acme.", "gen_ai.": "acme."},
    "mlflow": {"mlflow.": "acme.", "gen_ai.": "acme.", "metadata": "acme.metadata"},
    "stranger": {"gen_ai.": "acme.", "mastra.": "acme.", "genkit:": "acme:", "lmnr.": "acme.", "llm.": "acme."},
}


def disguised(folder: Path, renames: Mapping[str, str], target: Path) -> Path:
    """Return the folder of a capture with the same content under another vendor's names.

    Args:
        folder: the capture.
        renames: beginnings of attribute names, and what they become.
        target: an existing folder to write below.
    """
    copy = target / folder.name
    copy.mkdir()
    shutil.copy(folder / "expected.json", copy)
    for packed in folder.glob("*.jsonl.gz"):
        lines = gzip.decompress(packed.read_bytes()).decode().splitlines()
        dressed = [json.dumps(_dressed(json.loads(line), renames)) for line in lines]
        (copy / packed.stem).write_text("\n".join(dressed) + "\n", encoding="utf-8")
    return copy


def _dressed(value: Any, renames: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_dressed(item, renames) for item in value]
    if not isinstance(value, dict):
        return value
    changed = {key: _dressed(item, renames) for key, item in value.items()}
    if isinstance(changed.get("scope"), dict):
        changed["scope"] = {"name": SCOPE}
    for attribute in changed.get("attributes", ()):
        attribute["key"] = _renamed(attribute["key"], renames)
    return changed


def _renamed(key: str, renames: Mapping[str, str]) -> str:
    return next((new + key.removeprefix(old) for old, new in renames.items() if key.startswith(old)), key)
